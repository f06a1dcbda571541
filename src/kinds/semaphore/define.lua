-- define: change how many permits of a semaphore are free.
--
-- KEYS  semaphore, channel
-- ARGV  publish command, latest time in ms at which this may run, what to do, number,
--       time to live in ms (0: none)
-- reply {0, free, free, now}   done (drain: how many were free)
--       {1, free, free, now}   init: there was one; drain: more are free than an int can hold
--       {2, 0, '', now}        read too late: nothing done
--       {3, ttl, type, now}    something that is no semaphore

local latest = ARGV[2]
-- needs: in_time

-- needs: number
-- Numbers of Lua are not exact beyond this, and would not fit into the reply.
local free = math.min(tonumber(digits or 0), 9007199254740991)

if ARGV[3] == 'init' or ARGV[3] == 'set' then
  if ARGV[3] == 'init' and kind ~= 'none' then
    return {1, free, free, now}
  end
  if ARGV[5] == '0' then
    redis.call('SET', KEYS[1], ARGV[4])
  else
    redis.call('SET', KEYS[1], ARGV[4], 'PX', ARGV[5])
  end
  free = tonumber(ARGV[4])
  redis.pcall(ARGV[1], KEYS[2], free)
elseif ARGV[3] == 'add' then
  -- Unlike SET, this keeps the time to live.
  free = redis.call('INCRBY', KEYS[1], ARGV[4])
  redis.pcall(ARGV[1], KEYS[2], free)
elseif ARGV[3] == 'drain' then
  if free > 2147483647 or free < -2147483648 then
    return {1, free, free, now}
  end
  if free ~= 0 then
    redis.call('DECRBY', KEYS[1], redis.call('GET', KEYS[1]))
  end
else
  return redis.error_reply('ERR no such change of a semaphore')
end
return {0, free, free, now}
