-- set: extend the lease of a token lock, or check that the token holds it.
--
-- KEYS  lock
-- ARGV  SHA-1 of the token, lease in ms (0: leave it); anything more: write the time
--       to live even if that changes nothing, for replicas to confirm it
-- reply 1, or '' if the token does not hold the key

-- Look at little, however large the value is: tokens have at most 1024 bytes.
local len = redis.pcall('STRLEN', KEYS[1])
if type(len) == 'table' then
  return string.find(len.err, 'WRONGTYPE', 1, true) and '' or len
end
if len == 0 or len > 1024 or redis.sha1hex(redis.call('GET', KEYS[1])) ~= ARGV[1] then
  return ''
end
local lease = tonumber(ARGV[2])
if lease > 0 then
  local ttl = redis.call('PTTL', KEYS[1])
  if ttl >= 0 and ttl < lease then
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
  elseif ttl >= 0 and ARGV[3] then
    redis.call('PEXPIRE', KEYS[1], ttl)
  end
end
return 1
