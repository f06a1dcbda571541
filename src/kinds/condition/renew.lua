-- renew: keep the notifications of sessions that wait for their lock again.
--
-- KEYS  channel of the condition, waiters, until when each of them counts, notified waiters
--       and until when each notification lasts; for each notified session
-- ARGV  publish command, message, then for each: waiter, how long its notification lasts (ms)
-- reply for each 1, or '' if the waiter is not known, or an error
--
-- An error of one does not let the others expire.

-- needs: clock call each condition

local function renew(topic, waiting, alive, told, waiter, lease)
  lease = tonumber(lease)
  pass_on(topic, waiting, alive, told)
  local ends = call('ZSCORE', told, waiter)
  if not ends then
    return ''
  end
  if tonumber(ends) < now + lease then
    call('ZADD', told, now + lease, waiter)
  end
  lengthen(told, 2 * lease)
  return 1
end

return each(renew, 4, 2, 2)
