-- define: create a latch, or delete it.
--
-- KEYS  latch, channel
-- ARGV  publish command, latest time in ms at which this may run, what to do, count
-- reply {0, left, left, now}   done; in digits, as in value.lua
--       {1, left, left, now}   init: there was one; delete: there was none
--       {2, 0, '', now}        read too late: nothing done
--       {3, ttl, type, now}    something that is no latch

local latest = ARGV[2]
-- needs: in_time

-- needs: number
local left = digits or '0'

if ARGV[3] == 'init' or ARGV[3] == 'set' then
  if ARGV[3] == 'init' and kind ~= 'none' then
    return {1, left, left, now}
  end
  redis.call('SET', KEYS[1], ARGV[4])
  -- Tell Redisson's clients that the latch is not open any more.
  redis.pcall(ARGV[1], KEYS[2], '1')
  left = ARGV[4]
elseif ARGV[3] == 'delete' then
  if kind == 'none' then
    return {1, 0, 0, now}
  end
  redis.call('DEL', KEYS[1])
  -- As if it had counted down, or the clients that wait would not be notified.
  redis.pcall(ARGV[1], KEYS[2], '0')
else
  return redis.error_reply('ERR no such change of a latch')
end
return {0, left, left, now}
