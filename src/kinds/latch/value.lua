-- value: how often a latch is still to be counted down.
--
-- KEYS  latch
-- reply {0, left, left, 0}   0 if there is no latch; in digits, as a number of Lua is not
--                            exact beyond 2^53
--       {3, ttl, type, 0}    something that is no latch

local now = 0
-- needs: number
local left = digits or '0'
if tonumber(left) < 0 then
  left = '0'
end
return {0, left, left, 0}
