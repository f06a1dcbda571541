-- create: is the latch open?
--
-- KEYS  latch
-- reply {0, 0, '', now}      yes: it has counted down to zero, or there is none
--       {1, -1, '', now}     not yet
--       {3, ttl, type, now}  something that is no latch
--
-- This writes nothing, so there is nothing to release.

-- needs: clock number
if tonumber(digits or 0) <= 0 then
  return {0, 0, '', now}
end
return {1, -1, '', now}
