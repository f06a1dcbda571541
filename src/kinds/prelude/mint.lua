-- mint: a new token of the counter at the second key, above the floor; that is the reply.

local token = redis.call('INCR', KEYS[2])
local floor = tonumber(ARGV[2])
if token <= floor then
  token = floor + 1
  if token <= 9007199254740991 then
    redis.call('SET', KEYS[2], string.format('%.0f', token))
  end
end
-- Beyond this Lua numbers are no longer exact.
if token < 1 or token > 9007199254740991 then
  return redis.error_reply('FENCERANGE the counter of fencing tokens is used up')
end
do return token end
