-- sweep: remove those from the queue of a fair lock that do not count any more; return the
-- first of the rest, until when it counts, and whether anybody was removed.  Needs now, call().

local function sweep(queue, scores, places)
  local swept = false
  for _, member in ipairs(call('ZRANGEBYSCORE', places, '-inf', now)) do
    call('LREM', queue, '0', member)
    call('ZREM', scores, member)
    call('ZREM', places, member)
    swept = true
  end
  while true do
    local first = call('LINDEX', queue, '0')
    if not first then
      return false, 0, swept
    end
    local ends = call('ZSCORE', places, first) or call('ZSCORE', scores, first)
    if not ends then
      -- Without a score it would stay for ever, and block Redisson.
      ends = now + 300000
      redis.pcall('ZADD', scores, ends, first)
    end
    if tonumber(ends) > now then
      return first, tonumber(ends), swept
    end
    call('LPOP', queue)
    call('ZREM', scores, first)
    swept = true
  end
end
