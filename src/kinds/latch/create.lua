-- create: is the latch open?
--
-- KEYS  latch
-- reply {0, 0, '', now}      yes: it has counted down to zero, or there is none
--       {1, -1, '', now}     not yet
--       {3, ttl, type, now}  something that is no latch
--
-- Writes nothing, so there is nothing to give back.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- Look at little, however large the value is.
local kind = redis.call('TYPE', KEYS[1]).ok
if kind == 'none' then
  return {0, 0, '', now}
end
if kind ~= 'string' or redis.call('STRLEN', KEYS[1]) > 20
  or not string.find(redis.call('GET', KEYS[1]), '^%-?%d+$') then
  return {3, redis.call('PTTL', KEYS[1]), kind, now}
end
if tonumber(redis.call('GET', KEYS[1])) <= 0 then
  return {0, 0, '', now}
end
return {1, -1, '', now}
