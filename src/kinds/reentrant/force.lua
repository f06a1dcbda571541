-- force: release a lock, if those hold it that inspect.lua has returned.
--
-- KEYS  lock
-- ARGV  publish command, message, owner or digest, and of a read-write lock: channel,
--       beginning of the names of its readers' timeouts; of permits: channel; of any
--       other: channel
-- reply how many were notified, -1 if that owner, or one of several, is not there; an
--       error if the user may not see whether permits are held

-- Before Redis 7 a script that asks for the time may write only this way.
if not redis.REDIS_VERSION_NUM then
  redis.replicate_commands()
end

-- The lock is released by then, even if the user may not publish.
local function tell(channel, message)
  local told = redis.pcall(ARGV[1], channel, message)
  return type(told) == 'number' and told or 0
end

-- Release a lock that only one client can hold, as in release.lua.
local function give_back()
  redis.call('DEL', KEYS[1])
  local first = redis.pcall('LINDEX',
    'redisson_lock_queue' .. string.sub(ARGV[7], #'redisson_lock__channel' + 1), 0)
  local told = tell(ARGV[7], ARGV[2])
  if type(first) == 'string' then
    told = told + tell(ARGV[7] .. ':' .. first, ARGV[2])
  end
  return told
end

local kind = redis.call('TYPE', KEYS[1]).ok
local value = kind == 'string' and redis.call('STRLEN', KEYS[1]) <= 1024
  and redis.call('GET', KEYS[1])
if value and #value <= 20 and string.find(value, '^%-?%d+$') then
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  local permits = ARGV[5] .. ':timeout'
  local had = redis.pcall('ZCOUNT', permits, '(' .. now, '+inf')
  if type(had) == 'number' and had < 10000 then
    had = redis.pcall('ZRANGEBYSCORE', permits, '(' .. now, '+inf')
  elseif type(had) == 'number' then
    had = {had}
  end
  if had.err and not string.find(had.err, 'WRONGTYPE', 1, true) then
    return had
  end
  if not had.err and #had > 0 then
    table.sort(had)
    if redis.sha1hex(table.concat(had)) ~= ARGV[3] then
      return -1
    end
    local n = redis.call('ZCARD', permits)
    redis.call('DEL', permits)
    return tell(ARGV[6], redis.call('INCRBY', KEYS[1], n))
  end
end
if value then
  if redis.call('PTTL', KEYS[1]) < 0 or redis.sha1hex(value) ~= ARGV[3] then
    return -1
  end
  return give_back()
end
if kind ~= 'hash' then
  return -1
end

local mode = redis.call('HGET', KEYS[1], 'mode')
local many = mode == 'read' and redis.call('HLEN', KEYS[1]) - 1
if many and many >= 10000 then
  -- Their timeouts end by themselves.
  if redis.sha1hex(mode .. ' ' .. many) ~= ARGV[3] then
    return -1
  end
  redis.call('DEL', KEYS[1])
  return tell(ARGV[4], '1')
end
if (mode == 'read' or mode == 'write') and redis.call('HLEN', KEYS[1]) <= 10000 then
  local fields = redis.call('HKEYS', KEYS[1])
  table.sort(fields)
  if redis.sha1hex(mode .. ' ' .. table.concat(fields, ' ')) ~= ARGV[3] then
    return -1
  end
  for _, field in ipairs(fields) do
    local count = field ~= 'mode' and tonumber(redis.call('HGET', KEYS[1], field)) or 0
    for i = math.min(count, 1000), 1, -1 do
      redis.pcall('DEL', ARGV[5] .. ':' .. field .. ':rwlock_timeout:' .. i)
    end
  end
  redis.call('DEL', KEYS[1])
  return tell(ARGV[4], '1')
end

if redis.call('HLEN', KEYS[1]) ~= 1 then
  return -1
end
local owner = redis.call('HKEYS', KEYS[1])[1]
-- needs: owner
if owner ~= ARGV[3] then
  return -1
end
return give_back()
