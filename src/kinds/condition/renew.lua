-- renew: who was told of a condition, and waits for the lock, is still there.
--
-- KEYS  channel of the condition, who waits, until when each of them counts, who was told
--       and until when that is his; for each who was told
-- ARGV  publish command, message, then for each: waiter, how long it is his (ms)
-- reply for each 1, or '' if nothing is known of him, or an error
--
-- What is wrong with one is no reason to leave the others to expire.

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
