-- notify: tell those who wait for a condition, in the order in which they came.
--
-- KEYS  lock, channel of the condition, who waits, until when each of them counts, who was
--       told and until when that is his
-- ARGV  publish command, message, owner of the lock, how many to tell at most
-- reply how many were told, or who has the lock instead ('' = nobody)

-- Before Redis 7 a script that asks for the time may write only this way.
if not redis.REDIS_VERSION_NUM then
  redis.replicate_commands()
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local lock, topic, waiting, alive, told = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]

local there = redis.pcall('HEXISTS', lock, ARGV[3])
if there ~= 1 then
  if there ~= 0 and not string.find(there.err, 'WRONGTYPE', 1, true) then
    return there
  end
  local kind = redis.call('TYPE', lock).ok
  if kind == 'none' then
    return ''
  elseif kind == 'hash' and redis.call('HLEN', lock) == 1 then
    return string.sub(redis.call('HKEYS', lock)[1], 1, 95)
  end
  return '(' .. kind .. ')'
end

local function lengthen(key, ms)
  local ttl = redis.call('PTTL', key)
  if ttl ~= -2 and ttl < ms then
    redis.call('PEXPIRE', key, ms)
  end
end

-- The first who counts is told; 0: there is none.  That is noted for as long as it is known
-- that anybody waits.
local function tell_one()
  while true do
    local first = redis.call('LPOP', waiting)
    if not first then
      return 0
    end
    local ends = redis.call('ZSCORE', alive, first)
    local ttl = redis.call('PTTL', alive)
    redis.call('ZREM', alive, first)
    if ends and tonumber(ends) > now then
      redis.call('ZADD', told, ends, first)
      lengthen(told, ttl)
      redis.call(ARGV[1], topic .. ':' .. first, ARGV[2])
      return 1
    end
  end
end

-- What the dead were told is the next one's, before anything else is told.
for _, dead in ipairs(redis.call('ZRANGEBYSCORE', told, '-inf', now)) do
  redis.call('ZREM', told, dead)
  tell_one()
end
local n = 0
while n < tonumber(ARGV[4]) and tell_one() == 1 do
  n = n + 1
end
return n
