-- token: sets token to the next one of the counter, and takes as many more after it as "more"
-- says.  If the counter does not reach that far, there is only the first.

token = redis.call('INCR', counter)
-- Beyond this Lua numbers are no longer exact.
local most = 9007199254740991
if token < 1 or token > most then
  return redis.error_reply('FENCERANGE the counter of fencing tokens is used up')
end
if more and token + more <= most then
  redis.call('SET', counter, string.format('%.0f', token + more))
end
