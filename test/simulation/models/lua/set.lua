-- set: as reentrant/set.lua; nobody asks for the count.
--
-- KEYS  lock
-- ARGV  owner, count, lease in ms (0: leave it)

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local all = '{' .. KEYS[1] .. '}:' .. kind
local owner, lease = ARGV[1], tonumber(ARGV[3])
local ends = (kind == 'free' or redis.call('HEXISTS', KEYS[1], kind) == 1)
  and redis.call('ZSCORE', all, owner)
if not ends or tonumber(ends) < now then
  return redis.call('HKEYS', KEYS[1])[1] or ''
end
if tonumber(ends) < now + lease then
  redis.call('ZADD', all, now + lease, owner)
  for _, key in ipairs(kind == 'shared' and {all, KEYS[1]} or {all}) do
    if redis.call('PTTL', key) < lease then
      redis.call('PEXPIRE', key, lease)
    end
  end
end
return 1
