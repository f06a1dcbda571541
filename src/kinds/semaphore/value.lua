-- value: how many permits of a semaphore are free.
--
-- KEYS  semaphore
-- reply {0, free, free, 0}   none if there is no semaphore
--       {3, ttl, type, 0}    something that is no semaphore

-- Look at little, however large the value is.
local kind = redis.call('TYPE', KEYS[1]).ok
if kind == 'none' then
  return {0, 0, 0, 0}
end
if kind ~= 'string' or redis.call('STRLEN', KEYS[1]) > 20
  or not string.find(redis.call('GET', KEYS[1]), '^%-?%d+$') then
  return {3, redis.call('PTTL', KEYS[1]), kind, 0}
end
-- Beyond that a number of Lua is not exact, and would not fit into the reply.
local free = math.min(tonumber(redis.call('GET', KEYS[1])), 9007199254740991)
return {0, free, free, 0}
