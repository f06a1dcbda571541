-- create: take permits of a semaphore.
--
-- KEYS  semaphore, tickets
-- ARGV  latest time in ms at which this may run, how many, ticket
-- reply {0, 0, '', now}      taken
--       {1, -1, '', now}     fewer are free
--       {2, 0, '', now}      read too late: nothing done
--       {3, ttl, type, now}  something that is no semaphore
--
-- The ticket tells, for an hour, that this has run: a session that could not read the reply
-- undoes the acquire with it.  A session that has read the reply removes it.

local latest = ARGV[1]
-- needs: in_time

-- needs: number
if tonumber(digits or 0) < tonumber(ARGV[2]) then
  return {1, -1, '', now}
end

-- Store the ticket first: nothing must be taken without it.
-- needs: ticket
if done == 1 then
  done = redis.pcall('DECRBY', KEYS[1], ARGV[2])
end
-- needs: ticketed
return {0, 0, '', now}
