-- create: take a permit if one is free.
--
-- KEYS  number of free permits, ids of held ones (scores: ends of leases), channel
-- ARGV  publish command, lease in ms, id, latest time in ms at which this may run
-- reply {0, 0, '', now}      taken
--       {1, ttl, '', now}    none is free before that time; -1: it is not known
--       {2, 0, '', now}      read too late: nothing done
--       {3, ttl, type, now}  something that is no number of permits
--       {6, 0, '', now}      the number of permits is not defined

local latest = ARGV[4]
-- needs: in_time

-- needs: number
if not digits then
  return {6, 0, '', now}
end

-- Permits that have expired are free again.
local ended = redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
if ended > 0 then
  local free = redis.call('INCRBY', KEYS[1], ended)
  if free > 0 then
    redis.call(ARGV[1], KEYS[3], free)
  end
end

if tonumber(redis.call('GET', KEYS[1])) >= 1 then
  redis.call('DECRBY', KEYS[1], 1)
  -- No permit may be missing for ever, whatever the user may not do.  "now" is the beginning
  -- of its millisecond: without one more, another client could get the permit before the
  -- lease has ended.
  local set = redis.pcall('ZADD', KEYS[2], now + ARGV[2] + 1, ARGV[3])
  if set ~= 1 then
    redis.pcall('INCRBY', KEYS[1], 1)
    return set
  end
  local ttl = redis.call('PTTL', KEYS[1])
  if ttl > 0 then
    redis.pcall('PEXPIRE', KEYS[2], ttl)
  end
  return {0, 0, '', now}
end
local first = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2]
if not first or tonumber(first) >= 922337203685477 then
  return {1, -1, '', now}
end
return {1, math.max(tonumber(first) - now, 1), '', now}
