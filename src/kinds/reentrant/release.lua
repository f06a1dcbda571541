-- release: release own locks and notify those who wait for them.
--
-- KEYS  lock; for each lock
-- ARGV  for each lock: owner, channel; then, unless it is PUBLISH and 0 for all of them,
--       for each lock: publish command ('': nobody is notified), for how many ms the key
--       stays locked (0: not at all; the owner is then "owner/kept")
-- reply for each lock how many were notified, -1 if the owner is not there, or an error;
--       for a single lock perhaps just the number
--
-- The channel is not among KEYS, as it is no key: while a slot of a cluster is moved, a
-- script runs only where all of its keys are.  An error of one lock does not keep the
-- others from being released.  Repeating the script is harmless.
--
-- Every lock pays for this script and create.lua.  So they have no function, except for a
-- lock that is busy, as each call would create it again.  They pass numbers to Redis as
-- texts, and avoid arguments, tables and type(): a table in a reply costs more than a
-- command, the others nearly half as much.

local n = #KEYS
local unusual = ARGV[2 * n + 1]
local told
for i = 1, n do
  local lock, owner, channel = KEYS[i], ARGV[2 * i - 1], ARGV[2 * i]
  local publish, keep = 'PUBLISH', '0'
  if unusual then
    publish, keep = ARGV[2 * n + 2 * i - 1], ARGV[2 * n + 2 * i]
  end
  local done
  -- needs: give_back
  if done == 1 and publish == '' then
    done = 0
  elseif done == 1 then
    -- Published also when the key stays: waiters read its new TTL.
    done = redis.pcall(publish, channel, '0')
    if done == 0 or type(done) ~= 'table' then
      -- Notify the next one in the queue of the fair lock of the name; see fair/create.lua.
      -- That queue is not among KEYS and may be out of reach: a user whose rights are for
      -- locks without a queue can release them all the same.
      local first = redis.pcall('LINDEX',
        'redisson_lock_queue' .. string.sub(channel, 23), '0')
      if first and not first.err then
        local more = redis.pcall(publish, channel .. ':' .. first, '0')
        done = type(more) == 'table' and done or done + more
      end
      if n == 1 then
        return done
      end
    end
  elseif done == 0 or string.find(done.err, 'WRONGTYPE', 1, true) then
    done = -1
  end
  told = told or {}
  told[i] = done
end
return told
