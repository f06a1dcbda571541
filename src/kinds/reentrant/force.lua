-- force: take a lock away from the owner that inspect.lua has told.
--
-- KEYS  lock, channel
-- ARGV  publish command, message, owner
-- reply how many were told, -1 if that owner is not there

local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= 'hash' or redis.call('HLEN', KEYS[1]) ~= 1 then
  return -1
end
local owner = redis.call('HKEYS', KEYS[1])[1]
if #owner > 95 or string.find(owner, '%z') then
  owner = string.gsub(string.sub(owner, 1, 40), '%z', '?') .. '...'
    .. redis.sha1hex(string.sub(owner, 1, 32768) .. string.sub(owner, -32768) .. #owner)
end
if owner ~= ARGV[3] then
  return -1
end
redis.call('DEL', KEYS[1])
return redis.call(ARGV[1], KEYS[2], ARGV[2])
