-- renew: lengthen the lease of own ones; KEYS, ARGV and reply as those of
-- reentrant/renew.lua.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local reply = {}
local write = #ARGV > 2 * #KEYS
for i = 1, #KEYS do
  local all = '{' .. KEYS[i] .. '}:' .. kind
  local owner, lease = ARGV[2 * i - 1], tonumber(ARGV[2 * i])
  local ends = (kind == 'free' or redis.call('HEXISTS', KEYS[i], kind) == 1)
    and redis.call('ZSCORE', all, owner)
  if not ends or tonumber(ends) < now then
    reply[i] = redis.call('HKEYS', KEYS[i])[1] or ''
  else
    if write or tonumber(ends) < now + lease then
      redis.call('ZADD', all, math.max(ends, now + lease), owner)
      for _, key in ipairs(kind == 'shared' and {all, KEYS[i]} or {all}) do
        local ttl = redis.call('PTTL', key)
        if write or ttl < lease then
          redis.call('PEXPIRE', key, math.max(ttl, lease))
        end
      end
    end
    reply[i] = 1
  end
end
return reply
