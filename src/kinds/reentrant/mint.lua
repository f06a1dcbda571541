-- mint: a new fencing token for an own lock, above a floor.
--
-- KEYS  lock, counter
-- ARGV  owner, floor, how many more
-- reply the first token, or who holds the lock instead ('' = nobody)
--
-- Repeating it only skips numbers.

local there = redis.pcall('HEXISTS', KEYS[1], ARGV[1])
if there == 1 then
  -- needs: mint
end
-- needs: other
-- needs: holder
return holder(KEYS[1])
