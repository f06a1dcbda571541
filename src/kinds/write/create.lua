-- create: take a write lock that nobody holds, or announce that its session waits.
--
-- KEYS  lock, announced writers, and with a fencing token its counter
-- ARGV  lease in ms, owner, latest time in ms at which this may run, for how long to
--       be announced (ms; 0: not at all), when its session asked first (0: now);
--       anything more: how many more tokens are to be taken
-- reply {0, token, '', now}  taken
--       {1, ttl, owner, now} somebody else holds it, or was announced before
--       {2, 0, '', now}      read too late: nothing done
--       {3, ttl, type, now}  something that is no read-write lock
--       {4, ttl, '', now}    a token lock (a string with a TTL)
--
-- ttl is -1 without one.  An announcement is '<arrival in ms, 13 digits>:<owner>', with the
-- time until which it counts.  The first one goes first, and readers that came later wait
-- for it.  Redisson does not know of announcements, and its clients may pass.

local latest = ARGV[3]
-- needs: in_time

local since = tonumber(ARGV[5])
local wait = tonumber(ARGV[4])
local mine = string.format('%013.0f', since > 0 and since or now) .. ':' .. ARGV[2]
local first
if redis.call('EXISTS', KEYS[2]) == 1 then
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
  for _, member in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
    if member < mine and (not first or member < first) then
      first = member
    end
  end
end

local ttl = redis.call('PTTL', KEYS[1])
if ttl == -2 and not first then
  local token = 0
  local counter = KEYS[3]
  if counter then
    local floor, more = nil, ARGV[6]
    -- needs: token
  end
  local field = ARGV[2] .. ':write'
  redis.call('HSET', KEYS[1], 'mode', 'write', field, 1)
  -- A lock without a TTL must not stay behind, whatever the user may not do.
  local set = redis.pcall('PEXPIRE', KEYS[1], ARGV[1])
  if set ~= 1 then
    if redis.pcall('DEL', KEYS[1]) ~= 1 then
      redis.call('HDEL', KEYS[1], 'mode', field)
    end
    return set
  end
  redis.pcall('ZREM', KEYS[2], mine)
  return {0, token, '', now}
end

local holder = 'read'
if ttl ~= -2 then
  local mode
  -- needs: mode
  if mode == 'write' then
    local call = redis.call
    -- needs: writer
    holder = writer(KEYS[1]) or ''
  end
else
  ttl = math.max(redis.call('ZSCORE', KEYS[2], first) - now, 1)
  holder = string.sub(first, 15, 109)
end
if wait > 0 then
  -- No key without a TTL may stay behind, whatever the user may not do.
  redis.call('ZADD', KEYS[2], now + wait, mine)
  if redis.call('PTTL', KEYS[2]) < 2 * wait then
    local set = redis.pcall('PEXPIRE', KEYS[2], 2 * wait)
    if set ~= 1 then
      redis.pcall('ZREM', KEYS[2], mine)
      return set
    end
  end
end
return {1, ttl, holder, now}
