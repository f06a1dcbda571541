-- release: release own fair locks, or places in their queues; notify the next ones.
--
-- KEYS  lock, channel, queue, until when each in it counts, places of lockredis; for
--       each lock
-- ARGV  publish command, message, then for each lock: owner, and for how many ms the
--       key stays locked (0: not at all; the owner is then "owner/kept")
-- reply for each lock how many were notified, -1 if the owner does not hold it, or an error
--
-- An error of one lock does not keep the others from being released.  Repeating the
-- script is harmless.

-- Before Redis 7 a script that asks for the time may write only this way.
if not redis.REDIS_VERSION_NUM then
  redis.replicate_commands()
end

local publish, message = ARGV[1], ARGV[2]
local told = {}
local rest = {}

-- Mostly nobody waits in the queue, and one message is all.
for i = 1, #KEYS / 5 do
  local lock, channel = KEYS[5 * i - 4], KEYS[5 * i - 3]
  local owner, keep = ARGV[2 * i + 1], ARGV[2 * i + 2]
  local done
  -- needs: give_back
  if type(done) == 'table' and string.find(done.err, 'WRONGTYPE', 1, true) then
    done = 0
  end
  if type(done) == 'table' then
    told[i] = done
  elseif redis.pcall('EXISTS', KEYS[5 * i - 2], KEYS[5 * i - 1], KEYS[5 * i]) ~= 0 then
    told[i] = done
    rest[#rest + 1] = i
  elseif done == 1 then
    -- Published also when the key stays: waiters read its new TTL.
    told[i] = redis.pcall(publish, channel, message)
  else
    told[i] = -1
  end
end
if #rest == 0 then
  return told
end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- needs: call sweep

-- Remove the owner's place and notify the next one; "had": it released the lock just now.
local function leave(had, lock, channel, queue, scores, places, owner)
  local was_first = call('LINDEX', queue, 0) == owner
  if call('ZREM', places, owner) + call('ZREM', scores, owner) > 0 or was_first then
    call('LREM', queue, 0, owner)
  end
  local first, _, swept = sweep(queue, scores, places)
  local n = 0
  if first and (had or (was_first or swept) and call('EXISTS', lock) == 0) then
    n = call(publish, channel .. ':' .. first, message)
  end
  if not had then
    return -1
  end
  return n + call(publish, channel, message)
end

for _, i in ipairs(rest) do
  told[i] = try(leave, told[i] == 1, KEYS[5 * i - 4], KEYS[5 * i - 3],
    KEYS[5 * i - 2], KEYS[5 * i - 1], KEYS[5 * i], ARGV[2 * i + 1])
end
return told
