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

-- needs: describe tell_release

local seen, unseen = describe(KEYS[1], ARGV[5])
if unseen then
  return unseen
end
-- An owner may be empty, too; what is no lock has neither a count nor a digest.
if (not seen[5] and seen[4] == '') or (seen[5] or seen[3]) ~= ARGV[3] then
  return -1
end
if seen[6] then
  local permits = ARGV[5] .. ':timeout'
  local n = redis.call('ZCARD', permits)
  redis.call('DEL', permits)
  return tell(ARGV[6], redis.call('INCRBY', KEYS[1], n))
end
if seen[1] == 'string' or not seen[5] then
  redis.call('DEL', KEYS[1])
  local told = tell_release(ARGV[7])
  return type(told) == 'number' and told or 0
end

-- The timeouts of very many readers end by themselves.
for _, field in ipairs(tonumber(seen[4]) < 10000 and redis.call('HKEYS', KEYS[1]) or {}) do
  local count = field ~= 'mode' and tonumber(redis.call('HGET', KEYS[1], field)) or 0
  for i = math.min(count, 1000), 1, -1 do
    redis.pcall('DEL', ARGV[5] .. ':' .. field .. ':rwlock_timeout:' .. i)
  end
end
redis.call('DEL', KEYS[1])
return tell(ARGV[4], '1')
