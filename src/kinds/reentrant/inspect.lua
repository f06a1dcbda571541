-- inspect: who holds a lock, and for how long.
--
-- KEYS  lock
-- ARGV  beginning of the names of timeouts
-- reply {type, ttl, owner, count}; owner and count are '' unless it is a lock; of a
--       read-write lock also a digest of all holders, of a token lock one of the token; of
--       permits also how many are free.  Type 'number': a string with a number, without
--       any permit held
--
-- force.lua describes the lock likewise, so that it releases only what was seen.

-- needs: describe

return (describe(KEYS[1], ARGV[1]))
