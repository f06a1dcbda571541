-- release: give own ones back; KEYS, ARGV and reply as those of reentrant/release.lua.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local told = {}
for i = 1, #KEYS do
  local all = '{' .. KEYS[i] .. '}:' .. kind
  local owner, channel = ARGV[2 * i - 1], ARGV[2 * i]
  local publish = ARGV[2 * #KEYS + 2 * i - 1] or 'PUBLISH'
  local keep = tonumber(ARGV[2 * #KEYS + 2 * i] or 0)
  local there = kind == 'free' or redis.call('HEXISTS', KEYS[i], kind) == 1
  redis.call('ZREMRANGEBYSCORE', all, '-inf', now - 1)
  told[i] = -1
  if there and redis.call('ZREM', all, owner) == 1 then
    if keep > 0 then
      redis.call('ZADD', all, now + keep, owner .. '/kept')
    end
    local last = redis.call('ZRANGE', all, -1, -1, 'WITHSCORES')
    if kind == 'shared' and not last[2] then
      redis.call('DEL', KEYS[i])
    elseif kind == 'shared' then
      redis.call('PEXPIRE', KEYS[i], math.max(last[2] - now, 1))
    end
    told[i] = publish == '' and 0 or redis.call(publish, channel, '0')
  end
end
return told
