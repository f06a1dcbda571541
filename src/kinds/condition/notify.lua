-- notify: tell those who wait for a condition, in the order in which they came.
--
-- KEYS  lock, channel of the condition, who waits, until when each of them counts, who was
--       told and until when that is his
-- ARGV  publish command, message, owner of the lock, how many to tell at most
-- reply how many were told, or who has the lock instead ('' = nobody)

-- needs: clock

local lock, topic, waiting, alive, told = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]

local there = redis.pcall('HEXISTS', lock, ARGV[3])
if there ~= 1 then
  if there ~= 0 and not string.find(there.err, 'WRONGTYPE', 1, true) then
    return there
  end
  -- needs: holder
  return holder(lock)
end

local call = redis.call
-- needs: condition

-- What the dead were told is the next one's, before anything else is told.
for _, dead in ipairs(redis.call('ZRANGEBYSCORE', told, '-inf', now)) do
  redis.call('ZREM', told, dead)
  tell_one(topic, waiting, alive, told)
end
local n = 0
while n < tonumber(ARGV[4]) and tell_one(topic, waiting, alive, told) == 1 do
  n = n + 1
end
return n
