-- inspect: who holds a lock, and for how long.
--
-- KEYS  lock
-- ARGV  beginning of the names of timeouts
-- reply {type, ttl, owner, count}; owner and count are '' unless it is a lock; of a
--       read-write lock also a digest of all holders, of a token lock one of the token; of
--       permits also how many are free.  Type 'number': a string with a number, without
--       any permit held
--
-- An owner too long to be shown is replaced by its beginning and a digest; force.lua makes
-- the same text, so that it releases only what was seen.  For 10000 readers or permits and
-- more the digest is of their number: to look at each would take too long.

local ttl = redis.call('PTTL', KEYS[1])
local kind = redis.call('TYPE', KEYS[1]).ok
if kind == 'hash' and redis.call('HLEN', KEYS[1]) == 1 then
  local owner = redis.call('HKEYS', KEYS[1])[1]
  if redis.call('HSTRLEN', KEYS[1], owner) <= 20 then
    local count = redis.call('HGET', KEYS[1], owner)
    if string.find(count, '^%-?%d+$') then
      -- needs: owner
      return {kind, ttl, owner, count}
    end
  end
end
local mode = kind == 'hash' and redis.call('HGET', KEYS[1], 'mode')
local many = mode == 'read' and redis.call('HLEN', KEYS[1]) - 1
if many and many >= 10000 then
  return {kind, ttl, many .. ' readers', tostring(many), redis.sha1hex(mode .. ' ' .. many)}
end
if (mode == 'read' or mode == 'write') and redis.call('HLEN', KEYS[1]) <= 10000 then
  local fields = redis.call('HKEYS', KEYS[1])
  table.sort(fields)
  local owner, readers = 'read', 0
  for _, field in ipairs(fields) do
    if mode == 'write' and string.sub(field, -6) == ':write' then
      owner = string.sub(field, 1, math.min(#field - 6, 95))
    elseif field ~= 'mode' then
      readers = readers + 1
    end
  end
  if mode == 'read' and readers > 1 then
    owner = readers .. ' readers'
  end
  return {kind, ttl, owner, mode == 'read' and tostring(readers) or '1',
    redis.sha1hex(mode .. ' ' .. table.concat(fields, ' '))}
end

-- The ids that are held tell that it is a number of permits.  Like the queue of a fair lock
-- they are not among KEYS, and may be out of reach.
local number = kind == 'string' and redis.pcall('STRLEN', KEYS[1])
if type(number) == 'number' and number <= 20 then
  number = redis.pcall('GET', KEYS[1])
end
if type(number) == 'string' and string.find(number, '^%-?%d+$') then
  -- needs: clock
  local permits = ARGV[1] .. ':timeout'
  local n = redis.pcall('ZCOUNT', permits, '(' .. now, '+inf')
  local had = {n}
  if type(n) == 'number' and n > 0 and n < 10000 then
    had = redis.pcall('ZRANGEBYSCORE', permits, '(' .. now, '+inf')
  end
  if type(n) == 'number' and n > 0 and not had.err then
    local free = number + redis.call('ZCOUNT', permits, '-inf', now)
    local first = redis.call('ZRANGEBYSCORE', permits, '(' .. now, '+inf', 'WITHSCORES',
      'LIMIT', 0, 1)[2]
    table.sort(had)
    ttl = -1
    if free < 1 and tonumber(first) < 922337203685477 then
      ttl = first - now
    end
    -- The digest is not of the number: a user who may take a permit may not read that.
    return {kind, ttl, n .. (n == 1 and ' permit' or ' permits'), tostring(n),
      redis.sha1hex(table.concat(had)), math.min(free, 9007199254740991)}
  end
  if ttl == -1 then
    return {'number', ttl, '', ''}
  end
end

-- Tokens have at most 1024 bytes.
if kind == 'string' and ttl >= 0 and redis.call('STRLEN', KEYS[1]) <= 1024 then
  return {kind, ttl, '', '', redis.sha1hex(redis.call('GET', KEYS[1]))}
end
return {kind, ttl, '', ''}
