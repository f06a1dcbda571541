-- mint: a new fencing token; KEYS, ARGV and reply as those of reentrant/mint.lua.  It is
-- only one: these kinds are not handed over.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local ends = (kind == 'free' or redis.call('HEXISTS', KEYS[1], kind) == 1)
  and redis.call('ZSCORE', '{' .. KEYS[1] .. '}:' .. kind, ARGV[1])
if not ends or tonumber(ends) < now then
  return redis.call('HKEYS', KEYS[1])[1] or ''
end
local token = redis.call('INCR', KEYS[2])
if token <= tonumber(ARGV[2]) then
  token = ARGV[2] + 1
  redis.call('SET', KEYS[2], string.format('%.0f', token))
end
return token
