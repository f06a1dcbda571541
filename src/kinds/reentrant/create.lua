-- create: take a lock that nobody has.
--
-- KEYS  lock, and with a fencing token its counter
-- ARGV  lease in ms, owner, latest time in ms at which this may run
-- reply {0, token, now}    taken
--       {1, ttl, owner}    somebody else has it
--       {2, 0, now}        read too late: nothing done
--       {3, ttl, type}     something that is no lock
--       {4, ttl, ''}       a token lock (a string with a TTL)
--
-- ttl is -1 without one.  The time is checked because a request may sit in a
-- network buffer long after its sender has given up.

local ttl = redis.call('PTTL', KEYS[1])
if ttl == -2 then
  -- Before Redis 7 a script that asks for the time may write only this way.
  if not redis.REDIS_VERSION_NUM then
    redis.replicate_commands()
  end
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  if now > tonumber(ARGV[3]) then
    return {2, 0, now}
  end
  local token = 0
  if KEYS[2] then
    token = redis.call('INCR', KEYS[2])
    -- Beyond this Lua numbers are no longer exact.
    if token < 1 or token > 9007199254740991 then
      return redis.error_reply('FENCERANGE the counter of fencing tokens is used up')
    end
  end
  redis.call('HSET', KEYS[1], ARGV[2], 1)
  -- A lock without a TTL must not stay behind, whatever the user may not do.
  local set = redis.pcall('PEXPIRE', KEYS[1], ARGV[1])
  if set ~= 1 then
    local gone = redis.pcall('DEL', KEYS[1])
    if gone ~= 1 then
      redis.call('HDEL', KEYS[1], ARGV[2])
    end
    return set
  end
  return {0, token, now}
end

-- Look at little, however large the value is.
local kind = redis.call('TYPE', KEYS[1]).ok
if kind == 'string' then
  if ttl >= 0 then
    return {4, ttl, ''}
  end
elseif kind == 'hash' and redis.call('HLEN', KEYS[1]) == 1 then
  local owner = redis.call('HKEYS', KEYS[1])[1]
  if redis.call('HSTRLEN', KEYS[1], owner) <= 20
    and string.find(redis.call('HGET', KEYS[1], owner), '^%-?%d+$') then
    return {1, ttl, string.sub(owner, 1, 95)}
  end
end
return {3, ttl, kind}
