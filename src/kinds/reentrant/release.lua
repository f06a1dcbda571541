-- release: give own locks back and wake those who wait for them.
--
-- KEYS  lock; for each lock
-- ARGV  for each lock: owner, channel; then, unless it is PUBLISH and 0 for all of them,
--       for each lock: publish command ('': nobody is told), for how many ms the key
--       stays locked (0: not at all; by owner/kept then)
-- reply for each lock how many were told, -1 if the owner is not there, or an
--       error; of one lock that alone where somebody was to be told
--
-- The channel is not among KEYS: it is none, and while a slot of a cluster is moved a
-- script runs only where all of its keys are.  An error of one lock does not keep the
-- others from being released.  Repeating the script is harmless.
--
-- This and create.lua are what all pay: no function, which would be made anew by each
-- call, numbers as text, as Redis is given them, and no argument, table or type() that
-- can be left out: a table in a reply costs more than a command, the others nearly half.

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
  if keep == '0' then
    -- A lock has no other field.
    done = redis.pcall('HDEL', lock, owner)
  else
    done = redis.pcall('HEXISTS', lock, owner)
    if done == 1 then
      -- First: what is refused below is repeated, but without a key to keep once its
      -- time is over.
      done = redis.pcall('PEXPIRE', lock, keep)
      if type(done) ~= 'table' then
        -- Under another name: a renewal that is late must not lengthen it.
        done = redis.pcall('HSET', lock, owner .. '/kept', '1')
      end
      if type(done) ~= 'table' then
        done = redis.pcall('HDEL', lock, owner)
      end
    end
  end
  if done == 1 and publish == '' then
    done = 0
  elseif done == 1 then
    -- Published also when the key stays: waiters read its new TTL.
    done = redis.pcall(publish, channel, '0')
    if done == 0 or type(done) ~= 'table' then
      -- Who is the next in the queue of the fair lock of the name; see fair/create.lua.
      -- That queue is not among KEYS and may be out of reach: a user whose rights are
      -- for locks without a queue can give them back all the same.
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
