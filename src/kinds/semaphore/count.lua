-- count: give permits back to a semaphore; there is one then.
--
-- KEYS  semaphore, tickets, channel
-- ARGV  publish command, how many, ticket
-- reply {0, free, free, now}   done
--       {1, free, free, now}   it was done before
--       {3, ttl, type, now}    something that is no semaphore
--
-- The ticket tells, for an hour, that this has run: repeating it counts once.

-- Before Redis 7 a script that asks for the time may write only this way.
if not redis.REDIS_VERSION_NUM then
  redis.replicate_commands()
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- Look at little, however large the value is.
local there = 0
local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= 'none' then
  if kind ~= 'string' or redis.call('STRLEN', KEYS[1]) > 20
    or not string.find(redis.call('GET', KEYS[1]), '^%-?%d+$') then
    return {3, redis.call('PTTL', KEYS[1]), kind, now}
  end
  -- Beyond that a number of Lua is not exact, and would not fit into the reply.
  there = math.min(tonumber(redis.call('GET', KEYS[1])), 9007199254740991)
end
if redis.call('ZSCORE', KEYS[2], ARGV[3]) then
  return {1, there, there, now}
end

-- What may fail comes first: nothing is counted without its ticket.
redis.call('ZADD', KEYS[2], now, ARGV[3])
local free = redis.pcall('PEXPIRE', KEYS[2], 3600000)
if free == 1 then
  free = redis.pcall('INCRBY', KEYS[1], ARGV[2])
end
if type(free) == 'table' then
  redis.call('ZREM', KEYS[2], ARGV[3])
  return free
end
redis.pcall('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - 3600000)
redis.pcall(ARGV[1], KEYS[3], free)
free = math.min(free, 9007199254740991)
return {0, free, free, now}
