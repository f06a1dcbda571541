-- create: take a lock that others can have too.
--
-- KEYS  lock
-- ARGV  lease in ms, owner, latest time in ms at which this may run
-- reply as that of reentrant/create.lua

local all = '{' .. KEYS[1] .. '}:' .. kind
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local ttl = redis.call('PTTL', KEYS[1])
if kind == 'shared' then
  if ttl ~= -2 and redis.call('HEXISTS', KEYS[1], kind) == 0 then
    return {1, ttl, redis.call('HKEYS', KEYS[1])[1]}
  elseif ttl == -2 then
    redis.call('DEL', all)
  end
end
if redis.call('ZSCORE', all, ARGV[2]) and tonumber(redis.call('ZSCORE', all, ARGV[2])) >= now then
  return {1, math.max(ttl, 1), ARGV[2]}
end
if now > tonumber(ARGV[3]) then
  return {2, 0, now}
end
redis.call('ZREMRANGEBYSCORE', all, '-inf', now - 1)
redis.call('ZADD', all, now + ARGV[1], ARGV[2])
if redis.call('PTTL', all) < tonumber(ARGV[1]) then
  redis.call('PEXPIRE', all, ARGV[1])
end
if kind == 'shared' then
  redis.call('HSET', KEYS[1], kind, 1)
  if ttl < tonumber(ARGV[1]) then
    redis.call('PEXPIRE', KEYS[1], ARGV[1])
  end
end
return now
