-- describe: who holds a lock, and for how long, in the words of reentrant/inspect.lua; and an
-- error if the user may not see whether permits are held.
--
-- An owner too long to be shown is replaced by its beginning and a digest.  For 10000 readers or
-- permits and more the digest is of their number: to look at each would take too long.

local function describe(lock, prefix)
  local unseen
  local ttl = redis.call('PTTL', lock)
  local kind = redis.call('TYPE', lock).ok
  if kind == 'hash' and redis.call('HLEN', lock) == 1 then
    local owner = redis.call('HKEYS', lock)[1]
    if redis.call('HSTRLEN', lock, owner) <= 20 then
      local count = redis.call('HGET', lock, owner)
      if string.find(count, '^%-?%d+$') then
        -- needs: owner
        return {kind, ttl, owner, count}
      end
    end
  end
  local mode = kind == 'hash' and redis.call('HGET', lock, 'mode')
  local many = mode == 'read' and redis.call('HLEN', lock) - 1
  if many and many >= 10000 then
    return {kind, ttl, many .. ' readers', tostring(many), redis.sha1hex(mode .. ' ' .. many)}
  end
  if (mode == 'read' or mode == 'write') and redis.call('HLEN', lock) <= 10000 then
    local fields = redis.call('HKEYS', lock)
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
  local number = kind == 'string' and redis.pcall('STRLEN', lock)
  if type(number) == 'number' and number <= 20 then
    number = redis.pcall('GET', lock)
  end
  if type(number) == 'string' and string.find(number, '^%-?%d+$') then
    -- needs: clock
    local permits = prefix .. ':timeout'
    local n = redis.pcall('ZCOUNT', permits, '(' .. now, '+inf')
    local had = type(n) == 'table' and n or {n}
    if not had.err and n > 0 and n < 10000 then
      had = redis.pcall('ZRANGEBYSCORE', permits, '(' .. now, '+inf')
    end
    if had.err then
      unseen = not string.find(had.err, 'WRONGTYPE', 1, true) and had or nil
    elseif n > 0 then
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
      return {'number', ttl, '', ''}, unseen
    end
  end

  -- Tokens have at most 1024 bytes.
  if kind == 'string' and ttl >= 0 and redis.call('STRLEN', lock) <= 1024 then
    return {kind, ttl, '', '', redis.sha1hex(redis.call('GET', lock))}, unseen
  end
  return {kind, ttl, '', ''}
end
