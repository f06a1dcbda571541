-- tell_release: publish that a lock was released which only one client can hold, also to the next
-- one in the queue of the fair lock of the name; how many were notified, or an error.  That queue is
-- not among KEYS and may be out of reach: see reentrant/release.lua.

local function tell_release(channel)
  local told = redis.pcall(ARGV[1], channel, ARGV[2])
  local first = redis.pcall('LINDEX',
    'redisson_lock_queue' .. string.sub(channel, #'redisson_lock__channel' + 1), 0)
  local more = type(first) == 'string' and redis.pcall(ARGV[1], channel .. ':' .. first, ARGV[2])
  return type(told) == 'number' and type(more) == 'number' and told + more or told
end
