-- create: take a lock that nobody holds.
--
-- KEYS  lock, and with a fencing token its counter
-- ARGV  lease in ms, owner, latest time in ms at which this may run; anything more: how
--       many more tokens are to be taken
-- reply now                taken
--       {0, token, now}    taken, with a token
--       {1, ttl, owner}    somebody else holds it
--       {2, 0, now}        read too late: nothing done
--       {3, ttl, type}     something that is no lock
--       {4, ttl, ''}       a token lock (a string with a TTL)
--
-- ttl is -1 without one.  The time is checked because a request may sit in a
-- network buffer long after its sender has given up.
--
-- Numbers for Redis are texts here, so that it need not convert them, and the usual reply
-- is no table: see release.lua.

local lock, owner = KEYS[1], ARGV[2]
local ttl = redis.call('PTTL', lock)
if ttl == -2 then
  -- Before Redis 7 a script that asks for the time may write only this way.
  if not redis.REDIS_VERSION_NUM then
    redis.replicate_commands()
  end
  local time = redis.call('TIME')
  -- Redis drops the fraction in the reply.
  local now = time[1] * 1000 + time[2] / 1000
  -- Unlike a comparison, a subtraction converts the text to a number.
  if now - ARGV[3] > 0 then
    return {2, 0, now}
  end
  local token
  local counter = KEYS[2]
  if counter then
    local floor, more = nil, ARGV[4]
    -- needs: token
  end
  redis.call('HSET', lock, owner, '1')
  -- A lock without a TTL must not stay behind, whatever the user may not do.
  local set = redis.pcall('PEXPIRE', lock, ARGV[1])
  if set ~= 1 then
    local gone = redis.pcall('DEL', lock)
    if gone ~= 1 then
      redis.call('HDEL', lock, owner)
    end
    return set
  end
  return token and {0, token, now} or now
end

-- needs: held
local code, holder = held(lock, ttl)
return {code, ttl, holder}
