-- value: how much a latch has left to count.
--
-- KEYS  latch
-- reply {0, left, left, 0}   0 if there is no latch
--       {3, ttl, type, 0}    something that is no latch

-- Look at little, however large the value is.
local kind = redis.call('TYPE', KEYS[1]).ok
if kind == 'none' then
  return {0, 0, 0, 0}
end
if kind ~= 'string' or redis.call('STRLEN', KEYS[1]) > 20
  or not string.find(redis.call('GET', KEYS[1]), '^%-?%d+$') then
  return {3, redis.call('PTTL', KEYS[1]), kind, 0}
end
local left = math.max(tonumber(redis.call('GET', KEYS[1])), 0)
return {0, left, left, 0}
