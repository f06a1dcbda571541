-- count: return permits to a semaphore; creates it if there is none.
--
-- KEYS  semaphore, tickets, channel
-- ARGV  publish command, how many, ticket
-- reply {0, free, free, now}   done
--       {1, free, free, now}   it was done before
--       {3, ttl, type, now}    something that is no semaphore
--
-- The ticket tells, for an hour, that this has run: repeating it counts once.

-- needs: clock number
-- Numbers of Lua are not exact beyond this, and would not fit into the reply.
local there = math.min(tonumber(digits or 0), 9007199254740991)
if redis.call('ZSCORE', KEYS[2], ARGV[3]) then
  return {1, there, there, now}
end

-- Store the ticket first: nothing must be counted without it.
-- needs: ticket
if done == 1 then
  done = redis.pcall('INCRBY', KEYS[1], ARGV[2])
end
-- needs: ticketed
redis.pcall(ARGV[1], KEYS[3], done)
local free = math.min(done, 9007199254740991)
return {0, free, free, now}
