-- release: release token locks and notify those who wait for the keys.
--
-- KEYS  lock; for each lock
-- ARGV  publish command ('': nobody is notified), message, then for each lock: SHA-1 of its
--       token, channel
-- reply for each lock how many were notified, -1 if the token does not hold the key, or
--       an error
--
-- An error of one lock does not keep the others from being released.  Repeating the
-- script is harmless.

-- needs: tell_release

local told = {}
for i = 1, #KEYS do
  local n = -1
  -- Look at little, however large the value is: tokens have at most 1024 bytes.
  local len = redis.pcall('STRLEN', KEYS[i])
  if type(len) == 'table' then
    n = string.find(len.err, 'WRONGTYPE', 1, true) and -1 or len
  elseif len > 0 and len <= 1024
    and redis.sha1hex(redis.call('GET', KEYS[i])) == ARGV[2 * i + 1] then
    n = redis.pcall('DEL', KEYS[i])
    if type(n) ~= 'table' and ARGV[1] ~= '' then
      n = tell_release(ARGV[2 * i + 2])
    end
  end
  told[i] = n
end
return told
