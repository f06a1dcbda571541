-- create: take a key that holds nothing, with a token.
--
-- KEYS  lock
-- ARGV  lease in ms, token, latest time in ms at which this may run
-- reply now              taken
--       {2, 0, now}      read too late: nothing done
--       {4, ttl, ''}     the key holds some value; ttl is -1 without one

local ttl = redis.call('PTTL', KEYS[1])
if ttl ~= -2 then
  return {4, ttl, ''}
end
-- needs: clock
if now > tonumber(ARGV[3]) then
  return {2, 0, now}
end
redis.call('SET', KEYS[1], ARGV[2], 'NX', 'PX', ARGV[1])
return now
