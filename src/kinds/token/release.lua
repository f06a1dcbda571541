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

-- As in reentrant/release.lua: the queue of a fair lock of the name may be out of reach.
local function next_in_queue(channel)
  local first = redis.pcall('LINDEX',
    'redisson_lock_queue' .. string.sub(channel, #'redisson_lock__channel' + 1), 0)
  return type(first) == 'string' and channel .. ':' .. first
end

local told = {}
for i = 1, #KEYS do
  local channel = ARGV[2 * i + 2]
  local n = -1
  -- Look at little, however large the value is: tokens have at most 1024 bytes.
  local len = redis.pcall('STRLEN', KEYS[i])
  if type(len) == 'table' then
    n = string.find(len.err, 'WRONGTYPE', 1, true) and -1 or len
  elseif len > 0 and len <= 1024
    and redis.sha1hex(redis.call('GET', KEYS[i])) == ARGV[2 * i + 1] then
    local done = redis.pcall('DEL', KEYS[i])
    local tells = type(done) ~= 'table' and ARGV[1] ~= ''
    if tells then
      done = redis.pcall(ARGV[1], channel, ARGV[2])
    end
    local place = tells and type(done) ~= 'table' and next_in_queue(channel)
    if place then
      local more = redis.pcall(ARGV[1], place, ARGV[2])
      done = type(more) == 'table' and done or done + more
    end
    n = done
  end
  told[i] = n
end
return told
