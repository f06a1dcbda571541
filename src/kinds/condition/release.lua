-- release: remove sessions that wait for a condition, or were notified.
--
-- KEYS  channel of the condition, waiters, until when each of them counts, notified waiters
--       and until when each notification lasts; for each session
-- ARGV  publish command, message, then for each: waiter, did it act on its notification (1:
--       it has the lock again; 0: pass the notification on)
-- reply for each how many were notified instead, -1 if the waiter is not known, or an error
--
-- An error of one does not keep the others from leaving.  Repeating the script is harmless.

-- needs: clock call each condition

local function release(topic, waiting, alive, told, waiter, acted)
  if call('ZREM', told, waiter) == 1 then
    return acted == '1' and 0 or tell_one(topic, waiting, alive, told)
  elseif call('ZREM', alive, waiter) == 1 then
    call('LREM', waiting, 0, waiter)
    return 0
  end
  return -1
end

return each(release, 4, 2, 2)
