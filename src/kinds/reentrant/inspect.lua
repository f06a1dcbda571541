-- inspect: who has a lock, and for how long.
--
-- KEYS  lock
-- reply {type, ttl, owner, count}; owner and count are '' unless it is a lock; of a
--       read-write lock also a digest of all who have it
--
-- An owner too long to be shown whole is told as its beginning and a digest of
-- it; force.lua makes the same text, so that it takes away only what was seen.

local ttl = redis.call('PTTL', KEYS[1])
local kind = redis.call('TYPE', KEYS[1]).ok
if kind == 'hash' and redis.call('HLEN', KEYS[1]) == 1 then
  local owner = redis.call('HKEYS', KEYS[1])[1]
  if redis.call('HSTRLEN', KEYS[1], owner) <= 20 then
    local count = redis.call('HGET', KEYS[1], owner)
    if string.find(count, '^%-?%d+$') then
      if #owner > 95 or string.find(owner, '%z') then
        owner = string.gsub(string.sub(owner, 1, 40), '%z', '?') .. '...'
          .. redis.sha1hex(string.sub(owner, 1, 32768) .. string.sub(owner, -32768) .. #owner)
      end
      return {kind, ttl, owner, count}
    end
  end
end
local mode = kind == 'hash' and redis.call('HGET', KEYS[1], 'mode')
if (mode == 'read' or mode == 'write') and redis.call('HLEN', KEYS[1]) < 10000 then
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
return {kind, ttl, '', ''}
