-- release: give own fair locks back, or the places of waits for them; tell who is next.
--
-- KEYS  lock, channel, queue, until when each in it counts, places of lockredis; for
--       each lock
-- ARGV  publish command, message, then for each lock: owner, and for how many ms the
--       key stays locked (0: not at all), by owner/kept then
-- reply for each lock how many were told, -1 if the owner does not have it, or an error
--
-- An error of one lock does not keep the others from being released.  Repeating the
-- script is harmless.

-- Before Redis 7 a script that asks for the time may write only this way.
if not redis.REDIS_VERSION_NUM then
  redis.replicate_commands()
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function call(...)
  local answer = redis.pcall(...)
  if type(answer) == 'table' and answer.err then
    error(answer)
  end
  return answer
end

-- As in create.lua.  Also whether anybody has left.
local function sweep(queue, scores, places)
  local swept = false
  for _, member in ipairs(call('ZRANGEBYSCORE', places, '-inf', now)) do
    call('LREM', queue, 0, member)
    call('ZREM', scores, member)
    call('ZREM', places, member)
    swept = true
  end
  while true do
    local first = call('LINDEX', queue, 0)
    if not first then
      return false, swept
    end
    local ends = call('ZSCORE', places, first) or call('ZSCORE', scores, first)
    if not ends then
      ends = now + 300000
      redis.pcall('ZADD', scores, ends, first)
    end
    if tonumber(ends) > now then
      return first, swept
    end
    call('LPOP', queue)
    call('ZREM', scores, first)
    swept = true
  end
end

local function release(lock, channel, queue, scores, places, owner, keep)
  local there = redis.pcall('HEXISTS', lock, owner)
  if there == 1 and tonumber(keep) > 0 then
    -- Under another name: a renewal that is late must not lengthen it.
    call('HSET', lock, owner .. '/kept', 1)
    call('HDEL', lock, owner)
    call('PEXPIRE', lock, keep)
  elseif there == 1 then
    call('DEL', lock)
  elseif there ~= 0 and not string.find(there.err, 'WRONGTYPE', 1, true) then
    error(there)
  end

  local was_first = call('LINDEX', queue, 0) == owner
  if call('ZREM', places, owner) + call('ZREM', scores, owner) > 0 or was_first then
    call('LREM', queue, 0, owner)
  end
  local first, swept = sweep(queue, scores, places)
  local told = 0
  -- Published also when the key stays: waiters read its new TTL.
  if first and (there == 1 or (was_first or swept) and call('EXISTS', lock) == 0) then
    told = call(ARGV[1], channel .. ':' .. first, ARGV[2])
  end
  if there ~= 1 then
    return -1
  end
  return told + call(ARGV[1], channel, ARGV[2])
end

local told = {}
for i = 0, #KEYS / 5 - 1 do
  local done, answer = pcall(release, KEYS[5 * i + 1], KEYS[5 * i + 2], KEYS[5 * i + 3],
    KEYS[5 * i + 4], KEYS[5 * i + 5], ARGV[2 * i + 3], ARGV[2 * i + 4])
  -- Since Redis 7 the text of the error, which would be taken for an answer.
  if not done and type(answer) ~= 'table' then
    answer = {err = answer}
  end
  told[i + 1] = answer
end
return told
