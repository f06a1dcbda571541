-- renew: keep the notifications of sessions that wait for their lock again.
--
-- KEYS  channel of the condition, waiters, until when each of them counts, notified waiters
--       and until when each notification lasts; for each notified session
-- ARGV  publish command, message, then for each: waiter, how long its notification lasts (ms)
-- reply for each 1, or '' if the waiter is not known, or an error
--
-- An error of one does not let the others expire.

-- needs: clock call condition

local function renew(topic, waiting, alive, told, waiter, lease)
  for _, dead in ipairs(call('ZRANGEBYSCORE', told, '-inf', now)) do
    call('ZREM', told, dead)
    tell_one(topic, waiting, alive, told)
  end
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

local reply = {}
for i = 1, #KEYS / 4 do
  reply[i] = try(renew, KEYS[4 * i - 3], KEYS[4 * i - 2], KEYS[4 * i - 1], KEYS[4 * i],
    ARGV[2 * i + 1], tonumber(ARGV[2 * i + 2]))
end
return reply
