-- create: take a read lock, beside those of other readers.
--
-- KEYS  lock, timeout of this reader, announced writers
-- ARGV  lease in ms, owner, latest time in ms at which this may run, when its
--       session asked first (0: now), field of the write lock that its session holds
--       ('': none)
-- reply {0, 0, '', now}      taken
--       {1, ttl, owner, now} a writer holds it, or was announced before and goes first
--       {2, 0, '', now}      read too late: nothing done
--       {3, ttl, type, now}  something that is no read-write lock
--       {4, ttl, '', now}    a token lock (a string with a TTL)
--
-- ttl is -1 without one.  A session that holds the write lock may read, too.  Redisson
-- does not know of announced writers, and its readers may pass them.

local latest = ARGV[3]
-- needs: in_time

local mode = false
local ttl = redis.call('PTTL', KEYS[1])
if ttl ~= -2 then
  -- needs: mode
  if mode == 'write' and (ARGV[5] == '' or redis.call('HEXISTS', KEYS[1], ARGV[5]) == 0) then
    local call = redis.call
    -- needs: writer
    return {1, ttl, writer(KEYS[1]) or '', now}
  end
end

if mode ~= 'write' and redis.call('EXISTS', KEYS[3]) == 1 then
  redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now)
  local since = tonumber(ARGV[4])
  local first
  for _, member in ipairs(redis.call('ZRANGE', KEYS[3], 0, -1)) do
    if (since == 0 or tonumber(string.sub(member, 1, 13)) < since)
      and (not first or member < first) then
      first = member
    end
  end
  if first then
    local left = redis.call('ZSCORE', KEYS[3], first) - now
    return {1, math.max(left, 1), string.sub(first, 15, 109), now}
  end
end

-- A lock without a TTL must not stay behind, whatever the user may not do.
local done = redis.pcall('SET', KEYS[2], 1, 'PX', ARGV[1])
if done.err then
  return done
end
if mode then
  done = redis.pcall('HSET', KEYS[1], ARGV[2], 1)
else
  done = redis.pcall('HSET', KEYS[1], 'mode', 'read', ARGV[2], 1)
end
if type(done) ~= 'table' and ttl ~= -1 and ttl < tonumber(ARGV[1]) then
  done = redis.pcall('PEXPIRE', KEYS[1], ARGV[1])
end
if type(done) == 'table' then
  redis.pcall('DEL', KEYS[2])
  if mode or redis.pcall('DEL', KEYS[1]) ~= 1 then
    redis.pcall('HDEL', KEYS[1], ARGV[2])
    if not mode then
      redis.pcall('HDEL', KEYS[1], 'mode')
    end
  end
  return done
end
return {0, 0, '', now}
