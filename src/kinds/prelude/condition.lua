-- condition: notify the first waiter that still counts; 0: there is none.  Notified waiters
-- are recorded for as long as anybody is known to wait.  Needs now, and call().

local function lengthen(key, ms)
  local ttl = call('PTTL', key)
  if ttl ~= -2 and ttl < ms then
    call('PEXPIRE', key, ms)
  end
end

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

-- Notifications of waiters that are dead go to the next ones.
local function pass_on(topic, waiting, alive, told)
  for _, dead in ipairs(call('ZRANGEBYSCORE', told, '-inf', now)) do
    call('ZREM', told, dead)
    tell_one(topic, waiting, alive, told)
  end
end
