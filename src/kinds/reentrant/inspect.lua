-- inspect: who has a lock, and for how long.
--
-- KEYS  lock
-- reply {type, ttl, owner, count}; owner and count are '' unless it is a lock
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
return {kind, ttl, '', ''}
