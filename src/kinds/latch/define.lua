-- define: make a latch, or take it away.
--
-- KEYS  latch, channel
-- ARGV  publish command, latest time in ms at which this may run, what to do, count
-- reply {0, left, left, now}   done; in digits, as in value.lua
--       {1, left, left, now}   init: there was one; delete: there was none
--       {2, 0, 0, now}         read too late: nothing done
--       {3, ttl, type, now}    something that is no latch

-- Before Redis 7 a script that asks for the time may write only this way.
if not redis.REDIS_VERSION_NUM then
  redis.replicate_commands()
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > tonumber(ARGV[2]) then
  return {2, 0, 0, now}
end

-- Look at little, however large the value is.
local left = '0'
local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= 'none' then
  if kind ~= 'string' or redis.call('STRLEN', KEYS[1]) > 20
    or not string.find(redis.call('GET', KEYS[1]), '^%-?%d+$') then
    return {3, redis.call('PTTL', KEYS[1]), kind, now}
  end
  left = redis.call('GET', KEYS[1])
end

if ARGV[3] == 'init' or ARGV[3] == 'set' then
  if ARGV[3] == 'init' and kind ~= 'none' then
    return {1, left, left, now}
  end
  redis.call('SET', KEYS[1], ARGV[4])
  -- Tells Redisson's clients that theirs is not open any more.
  redis.pcall(ARGV[1], KEYS[2], '1')
  left = ARGV[4]
elseif ARGV[3] == 'delete' then
  if kind == 'none' then
    return {1, 0, 0, now}
  end
  redis.call('DEL', KEYS[1])
  -- As if it had counted down: who awaits it would not be told otherwise.
  redis.pcall(ARGV[1], KEYS[2], '0')
else
  return redis.error_reply('ERR no such change of a latch')
end
return {0, left, left, now}
