-- value: how many permits of a semaphore are free.
--
-- KEYS  semaphore
-- reply {0, free, free, 0}   0 free if there is no semaphore
--       {3, ttl, type, 0}    something that is no semaphore

local now = 0
-- needs: number
-- Numbers of Lua are not exact beyond this, and would not fit into the reply.
local free = math.min(tonumber(digits or 0), 9007199254740991)
return {0, free, free, 0}
