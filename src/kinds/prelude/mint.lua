-- mint: a new token from the counter at the second key, above the floor, and as many more
-- after it as are asked for; the reply is the first one.
--
-- If the counter does not reach that far, there is only the first.

local counter = redis.call('INCR', KEYS[2])
local token = math.max(counter, ARGV[2] + 1)
local last = token + ARGV[3]
-- Beyond this Lua numbers are no longer exact.
local most = 9007199254740991
if last > most then
  last = token
end
if token < 1 or token > most then
  return redis.error_reply('FENCERANGE the counter of fencing tokens is used up')
end
if last > counter then
  redis.call('SET', KEYS[2], string.format('%.0f', last))
end
do return token end
