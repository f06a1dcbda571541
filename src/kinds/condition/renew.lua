-- renew: who was told of a condition, and waits for the lock, is still there.
--
-- KEYS  channel of the condition, who waits, until when each of them counts, who was told
--       and until when that is his; for each who was told
-- ARGV  publish command, message, then for each: waiter, how long it is his (ms)
-- reply for each 1, or '' if nothing is known of him, or an error
--
-- What is wrong with one is no reason to leave the others to expire.

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

local function lengthen(key, ms)
  local ttl = call('PTTL', key)
  if ttl ~= -2 and ttl < ms then
    call('PEXPIRE', key, ms)
  end
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
      lengthen(told, ttl)
      call(ARGV[1], topic .. ':' .. first, ARGV[2])
      return 1
    end
  end
end

local function renew(topic, waiting, alive, told, waiter, lease)
  for _, dead in ipairs(call('ZRANGEBYSCORE', told, '-inf', now)) do
    call('ZREM', told, dead)
    tell_one(topic, waiting, alive, told)
  end
  local ends = call('ZSCORE', told, waiter)
  if not ends then
    return ''
  end
  if tonumber(ends) < now + lease then
    call('ZADD', told, now + lease, waiter)
  end
  lengthen(told, 2 * lease)
  return 1
end

local reply = {}
for i = 1, #KEYS / 4 do
  local done, answer = pcall(renew, KEYS[4 * i - 3], KEYS[4 * i - 2], KEYS[4 * i - 1], KEYS[4 * i],
    ARGV[2 * i + 1], tonumber(ARGV[2 * i + 2]))
  -- Since Redis 7 an error is a text there.
  if not done and type(answer) ~= 'table' then
    answer = {err = answer}
  end
  reply[i] = answer
end
return reply
