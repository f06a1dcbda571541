-- notify: notify those who wait for a condition, in the order in which they came.
--
-- KEYS  lock, channel of the condition, waiters, until when each of them counts, notified
--       waiters and until when each notification lasts
-- ARGV  publish command, message, owner of the lock, how many to notify at most
-- reply how many were notified, or who holds the lock instead ('' = nobody)

-- needs: clock

local lock, topic, waiting, alive, told = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]

local there = redis.pcall('HEXISTS', lock, ARGV[3])
if there ~= 1 then
  -- needs: other
  -- needs: holder
  return holder(lock)
end

local call = redis.call
-- needs: condition

-- Notifications of waiters that are dead go to the next ones first.
pass_on(topic, waiting, alive, told)
local n = 0
while n < tonumber(ARGV[4]) and tell_one(topic, waiting, alive, told) == 1 do
  n = n + 1
end
return n
