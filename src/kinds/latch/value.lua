-- value: how much a latch has left to count.
--
-- KEYS  latch
-- reply {0, left, left, 0}   0 if there is no latch; in digits, as a number of Lua is not
--                            exact beyond 2^53
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
local left = redis.call('GET', KEYS[1])
if tonumber(left) < 0 then
  left = '0'
end
return {0, left, left, 0}
