-- define: set the number of permits, or only read it.
--
-- KEYS  number of free permits, ids of held ones (scores: ends of leases), channel
-- ARGV  publish command, and for a change: latest time in ms at which this may run,
--       'set' or 'init', number of permits
-- reply {0 | 1, free, all, now}  0: done, or only read; 1: init, but there are some already
--       {2, 0, '', now}          read too late: nothing done
--       {3, ttl, type, now}      something that is no number of permits
--       {6, 0, '', now}          only read: the number of permits is not defined

-- needs: clock
local change = ARGV[3]
if change and now > tonumber(ARGV[2]) then
  return {2, 0, '', now}
end

local function tell(free)
  if free > 0 then
    redis.call(ARGV[1], KEYS[3], free)
  end
end

-- needs: number
if not digits then
  if not change then
    return {6, 0, '', now}
  end
  -- Held permits of a deleted semaphore are none of this one.
  redis.call('DEL', KEYS[2])
  redis.call('SET', KEYS[1], ARGV[4])
  tell(tonumber(ARGV[4]))
  return {0, tonumber(ARGV[4]), tonumber(ARGV[4]), now}
end

local ended = redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
local free = tonumber(redis.call('GET', KEYS[1]))
if ended > 0 then
  free = redis.call('INCRBY', KEYS[1], ended)
  tell(free)
end
local had = redis.call('ZCARD', KEYS[2])
if change == 'set' and free + had ~= tonumber(ARGV[4]) then
  free = ARGV[4] - had
  redis.call('SET', KEYS[1], free, 'KEEPTTL')
  tell(free)
end
-- Numbers of Lua are not exact beyond this, and would not fit into the reply.
local most = 9007199254740991
return {change == 'init' and 1 or 0, math.min(free, most), math.min(free + had, most), now}
