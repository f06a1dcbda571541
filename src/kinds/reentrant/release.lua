-- release: give own locks back and wake those who wait for them.
--
-- KEYS  lock, channel; for each lock
-- ARGV  publish command, message, then for each lock: owner, and for how many
--       ms the key stays locked (0: not at all), by owner/kept then
-- reply for each lock how many were told, -1 if the owner is not there, or an
--       error
--
-- An error of one lock does not keep the others from being released.  Repeating
-- the script is harmless.

-- Who is the next in the queue of the fair lock of the name; see fair/create.lua.  That
-- queue is not among KEYS and may be out of reach: a user whose rights are for locks
-- without a queue can give them back all the same.
local function next_in_queue(channel)
  local first = redis.pcall('LINDEX',
    'redisson_lock_queue' .. string.sub(channel, #'redisson_lock__channel' + 1), 0)
  return type(first) == 'string' and channel .. ':' .. first
end

local told = {}
for i = 1, #KEYS, 2 do
  local owner = ARGV[i + 2]
  local there = redis.pcall('HEXISTS', KEYS[i], owner)
  local n = -1
  if there == 1 then
    local keep = tonumber(ARGV[i + 3])
    local done
    if keep > 0 then
      -- Under another name: a renewal that is late must not lengthen it.
      done = redis.pcall('HSET', KEYS[i], owner .. '/kept', 1)
      if type(done) ~= 'table' then
        done = redis.pcall('HDEL', KEYS[i], owner)
      end
      if type(done) ~= 'table' then
        done = redis.pcall('PEXPIRE', KEYS[i], ARGV[i + 3])
      end
    else
      done = redis.pcall('DEL', KEYS[i])
    end
    if type(done) ~= 'table' then
      -- Published also when the key stays: waiters read its new TTL.
      done = redis.pcall(ARGV[1], KEYS[i + 1], ARGV[2])
    end
    local place = type(done) ~= 'table' and next_in_queue(KEYS[i + 1])
    if place then
      local more = redis.pcall(ARGV[1], place, ARGV[2])
      done = type(more) == 'table' and done or done + more
    end
    n = done
  elseif there ~= 0 and not string.find(there.err, 'WRONGTYPE', 1, true) then
    n = there
  end
  told[(i + 1) / 2] = n
end
return told
