-- release: return the permits that requests took whose reply was not read.
--
-- KEYS  semaphore, tickets, channel; for each request
-- ARGV  publish command, then for each request: how many, ticket
-- reply for each request how many were notified, -1 if it has not run or was undone before,
--       or an error
--
-- Repeating the script is harmless.  A semaphore that was deleted meanwhile stays deleted.

local told = {}
for i = 1, #KEYS, 3 do
  local at = (i - 1) / 3
  local ticket = ARGV[3 + 2 * at]
  local n = redis.pcall('ZSCORE', KEYS[i + 1], ticket)
  if not n then
    n = -1
  elseif type(n) ~= 'table' then
    local left = redis.pcall('EXISTS', KEYS[i])
    if left == 1 then
      left = redis.pcall('INCRBY', KEYS[i], ARGV[2 + 2 * at])
    end
    if type(left) == 'table' and not string.find(left.err, 'WRONGTYPE', 1, true)
      and not string.find(left.err, 'not an integer', 1, true) then
      n = left
    else
      redis.pcall('ZREM', KEYS[i + 1], ticket)
      n = type(left) == 'number' and left > 0 and redis.pcall(ARGV[1], KEYS[i + 2], left) or 0
    end
  end
  told[at + 1] = n
end
return told
