-- token: sets token to the next one of the counter, or to the one above "floor" if that is
-- higher, and takes as many more after it as "more" says (each nil: not asked for).  If the
-- counter does not reach that far, there is only the first.

local counted = redis.call('INCR', counter)
token = counted
if floor and token <= floor + 0 then
  token = floor + 1
end
-- Beyond this Lua numbers are no longer exact.
local most = 9007199254740991
if token < 1 or token > most then
  return redis.error_reply('FENCERANGE the counter of fencing tokens is used up')
end
local last = token
if more and token + more <= most then
  last = token + more
end
if last > counted then
  redis.call('SET', counter, string.format('%.0f', last))
end
