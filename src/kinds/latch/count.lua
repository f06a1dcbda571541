-- count: count a latch down, and notify those who wait for it when it opens.
--
-- KEYS  latch, tickets, channel
-- ARGV  publish command, by how much, ticket
-- reply {0, left, left, now}   done; 0 also if there is no latch; in digits, as in value.lua
--       {1, left, left, now}   it was done before
--       {3, ttl, type, now}    something that is no latch
--
-- The ticket tells, for an hour, that this has run: repeating it counts once, even if there
-- was no latch at first and there is one now.

-- needs: clock number
local left = digits or '0'
if tonumber(left) < 0 then
  left = '0'
end
if redis.call('ZSCORE', KEYS[2], ARGV[3]) then
  return {1, left, left, now}
end

-- Store the ticket first: nothing must be counted without it.
-- needs: ticket
if done == 1 and kind ~= 'none' then
  if tonumber(left) > tonumber(ARGV[2]) then
    done = redis.pcall('DECRBY', KEYS[1], ARGV[2])
    left = redis.call('GET', KEYS[1])
  else
    done = redis.pcall('DEL', KEYS[1])
    left = '0'
  end
end
-- needs: ticketed
if kind ~= 'none' and left == '0' then
  redis.pcall(ARGV[1], KEYS[3], '0')
end
return {0, left, left, now}
