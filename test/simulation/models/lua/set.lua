-- set: as reentrant/set.lua; nobody asks for the count.
--
-- KEYS  lock
-- ARGV  owner, count, lease in ms (0: leave it); anything more: write the end even if that
--       changes nothing, for replicas to confirm it

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local all = '{' .. KEYS[1] .. '}:' .. kind
local owner, lease, write = ARGV[1], tonumber(ARGV[3]), ARGV[4]
local ends = (kind == 'free' or redis.call('HEXISTS', KEYS[1], kind) == 1)
  and redis.call('ZSCORE', all, owner)
if not ends or tonumber(ends) < now then
  return redis.call('HKEYS', KEYS[1])[1] or ''
end
if write or tonumber(ends) < now + lease then
  redis.call('ZADD', all, math.max(ends, now + lease), owner)
  for _, key in ipairs(kind == 'shared' and {all, KEYS[1]} or {all}) do
    local ttl = redis.call('PTTL', key)
    if write or ttl < lease then
      redis.call('PEXPIRE', key, math.max(ttl, lease))
    end
  end
end
return 1
