-- mint: a new fencing token for an own write lock, above a floor.
--
-- KEYS  lock, counter
-- ARGV  owner, floor
-- reply the token, or who has the lock instead ('' = nobody)
--
-- Repeating it only skips numbers.

local there = redis.pcall('HEXISTS', KEYS[1], ARGV[1] .. ':write')
if there == 1 then
  local token = redis.call('INCR', KEYS[2])
  local floor = tonumber(ARGV[2])
  if token <= floor then
    token = floor + 1
    if token <= 9007199254740991 then
      redis.call('SET', KEYS[2], string.format('%.0f', token))
    end
  end
  -- Beyond this Lua numbers are no longer exact.
  if token < 1 or token > 9007199254740991 then
    return redis.error_reply('FENCERANGE the counter of fencing tokens is used up')
  end
  return token
end
if there ~= 0 and not string.find(there.err, 'WRONGTYPE', 1, true) then
  return there
end
local kind = redis.call('TYPE', KEYS[1]).ok
if kind == 'none' then
  return ''
end
local mode = kind == 'hash' and redis.call('HGET', KEYS[1], 'mode')
return (mode == 'read' or mode == 'write') and mode or '(' .. kind .. ')'
