-- renew: lengthen the lease of own locks.
--
-- KEYS  locks
-- ARGV  for each lock: owner, lease in ms
-- reply for each lock 1, or who has it instead ('' = nobody)
--
-- A key of another type is no reason to leave the others to expire.

local reply = {}
local gt = (redis.REDIS_VERSION_NUM or 0) >= 0x00070000
for i = 1, #KEYS do
  local key = KEYS[i]
  local lease = ARGV[2 * i]
  local there = redis.pcall('HEXISTS', key, ARGV[2 * i - 1])
  if there == 1 then
    if gt then
      redis.call('PEXPIRE', key, lease, 'GT')
    else
      local ttl = redis.call('PTTL', key)
      if ttl >= 0 and ttl < tonumber(lease) then
        redis.call('PEXPIRE', key, lease)
      end
    end
    reply[i] = 1
  elseif there ~= 0 and not string.find(there.err, 'WRONGTYPE', 1, true) then
    return there
  else
    local kind = redis.call('TYPE', key).ok
    if kind == 'none' then
      reply[i] = ''
    elseif kind == 'hash' and redis.call('HLEN', key) == 1 then
      reply[i] = string.sub(redis.call('HKEYS', key)[1], 1, 95)
    else
      reply[i] = '(' .. kind .. ')'
    end
  end
end
return reply
