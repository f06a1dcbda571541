-- return_permit: take a permit from its holder; sets told to how many were notified.
-- After the removal Redis lets the rest of the script run even if it is out of memory.

call('ZREM', permits, id)
local free = redis.pcall('INCRBY', name, 1)
if type(free) == 'table' then
  redis.pcall('ZADD', permits, until_then, id)
  error(free)
end
local told = free > 0 and call(ARGV[1], channel, free) or 0
