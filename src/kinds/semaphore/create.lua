-- create: take permits of a semaphore.
--
-- KEYS  semaphore, tickets
-- ARGV  latest time in ms at which this may run, how many, ticket
-- reply {0, 0, '', now}      taken
--       {1, -1, '', now}     there are not so many
--       {2, 0, '', now}      read too late: nothing done
--       {3, ttl, type, now}  something that is no semaphore
--
-- The ticket tells, for an hour, that this has run: whoever has not read the reply gives
-- back by it what was taken.  Whoever has removes it.

-- Before Redis 7 a script that asks for the time may write only this way.
if not redis.REDIS_VERSION_NUM then
  redis.replicate_commands()
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > tonumber(ARGV[1]) then
  return {2, 0, '', now}
end

-- Look at little, however large the value is.
local there = 0
local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= 'none' then
  if kind ~= 'string' or redis.call('STRLEN', KEYS[1]) > 20
    or not string.find(redis.call('GET', KEYS[1]), '^%-?%d+$') then
    return {3, redis.call('PTTL', KEYS[1]), kind, now}
  end
  there = tonumber(redis.call('GET', KEYS[1]))
end
if there < tonumber(ARGV[2]) then
  return {1, -1, '', now}
end

-- What may fail comes first: nothing is taken without its ticket.
redis.call('ZADD', KEYS[2], now, ARGV[3])
local kept = redis.pcall('PEXPIRE', KEYS[2], 3600000)
if kept == 1 then
  kept = redis.pcall('DECRBY', KEYS[1], ARGV[2])
end
if type(kept) == 'table' then
  redis.call('ZREM', KEYS[2], ARGV[3])
  return kept
end
redis.pcall('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - 3600000)
return {0, 0, '', now}
