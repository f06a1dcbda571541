-- release: give own locks back and wake those who wait for them.
--
-- KEYS  lock; for each lock
-- ARGV  publish command ('': nobody is told), message, then for each lock: owner, for how
--       many ms the key stays locked (0: not at all; by owner/kept then), channel
-- reply for each lock how many were told, -1 if the owner is not there, or an
--       error
--
-- The channel is not among KEYS: it is none, and while a slot of a cluster is moved a
-- script runs only where all of its keys are.  An error of one lock does not keep the
-- others from being released.  Repeating the script is harmless.
--
-- This and create.lua are what all pay: no function, which would be made anew by each
-- call, and numbers as text, as Redis is given them.

local publish, message = ARGV[1], ARGV[2]
local told = {}
for i = 1, #KEYS do
  local lock, channel = KEYS[i], ARGV[3 * i + 2]
  local owner, keep = ARGV[3 * i], ARGV[3 * i + 1]
  local done
  if keep == '0' then
    -- A lock has no other field.
    done = redis.pcall('HDEL', lock, owner)
  else
    done = redis.pcall('HEXISTS', lock, owner)
    if done == 1 then
      -- Under another name: a renewal that is late must not lengthen it.
      done = redis.pcall('HSET', lock, owner .. '/kept', '1')
      if type(done) ~= 'table' then
        done = redis.pcall('HDEL', lock, owner)
      end
      if type(done) ~= 'table' then
        done = redis.pcall('PEXPIRE', lock, keep)
      end
    end
  end
  if done == 1 and publish == '' then
    done = 0
  elseif done == 1 then
    -- Published also when the key stays: waiters read its new TTL.
    done = redis.pcall(publish, channel, message)
    if type(done) ~= 'table' then
      -- Who is the next in the queue of the fair lock of the name; see fair/create.lua.
      -- That queue is not among KEYS and may be out of reach: a user whose rights are
      -- for locks without a queue can give them back all the same.
      local first = redis.pcall('LINDEX',
        'redisson_lock_queue' .. string.sub(channel, 23), '0')
      if type(first) == 'string' then
        local more = redis.pcall(publish, channel .. ':' .. first, message)
        done = type(more) == 'table' and done or done + more
      end
    end
  elseif done == 0 or string.find(done.err, 'WRONGTYPE', 1, true) then
    done = -1
  end
  told[i] = done
end
return told
