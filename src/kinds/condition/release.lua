-- release: who waits for a condition, or was told of it, is not there any more.
--
-- KEYS  channel of the condition, who waits, until when each of them counts, who was told
--       and until when that is his; for each
-- ARGV  publish command, message, then for each: waiter, has he acted on it (1: he has the
--       lock again; 0: what he was told is the next one's)
-- reply for each how many were told instead, -1 if nothing is known of him, or an error
--
-- An error of one does not keep the others from leaving.  Repeating the script is harmless.

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

-- As in notify.lua.
local function tell_one(topic, waiting, alive, told)
  while true do
    local first = call('LPOP', waiting)
    if not first then
      return 0
    end
    local ends = call('ZSCORE', alive, first)
    local ttl = call('PTTL', alive)
    call('ZREM', alive, first)
    if ends and tonumber(ends) > now then
      call('ZADD', told, ends, first)
      if call('PTTL', told) < ttl then
        call('PEXPIRE', told, ttl)
      end
      call(ARGV[1], topic .. ':' .. first, ARGV[2])
      return 1
    end
  end
end

local function release(topic, waiting, alive, told, waiter, acted)
  if call('ZREM', told, waiter) == 1 then
    return acted == '1' and 0 or tell_one(topic, waiting, alive, told)
  elseif call('ZREM', alive, waiter) == 1 then
    call('LREM', waiting, 0, waiter)
    return 0
  end
  return -1
end

local reply = {}
for i = 1, #KEYS / 4 do
  local done, answer = pcall(release, KEYS[4 * i - 3], KEYS[4 * i - 2], KEYS[4 * i - 1], KEYS[4 * i],
    ARGV[2 * i + 1], ARGV[2 * i + 2])
  -- Since Redis 7 an error is a text there.
  if not done and type(answer) ~= 'table' then
    answer = {err = answer}
  end
  reply[i] = answer
end
return reply
