-- mint: a new fencing token for an own write lock, above a floor.
--
-- KEYS  lock, counter
-- ARGV  owner, floor, how many more
-- reply the first token, or who holds the lock instead ('' = nobody)
--
-- Repeating it only skips numbers.

local there = redis.pcall('HEXISTS', KEYS[1], ARGV[1] .. ':write')
if there == 1 then
  -- needs: mint
end
-- needs: other
local kind = redis.call('TYPE', KEYS[1]).ok
if kind == 'none' then
  return ''
end
local mode = kind == 'hash' and redis.call('HGET', KEYS[1], 'mode')
return (mode == 'read' or mode == 'write') and mode or '(' .. kind .. ')'
