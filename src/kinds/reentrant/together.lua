-- together: take several locks that nobody holds, all of them or none.
--
-- KEYS  locks
-- ARGV  lease in ms, latest time in ms at which this may run, then the owner of
--       each lock
-- reply now                    taken
--       {2, 0, now}            read too late: nothing done
--       {1 | 3 | 4, ttl, text, i}
--                              nothing done: lock i (from 1) is in the way, for the
--                              reason that create would reply
--
-- Nothing is taken before all keys have been checked.

for i = 1, #KEYS do
  local ttl = redis.call('PTTL', KEYS[i])
  if ttl ~= -2 then
    -- needs: held
    local code, holder = held(KEYS[i], ttl)
    return {code, ttl, holder, i}
  end
end

-- needs: clock
if now > tonumber(ARGV[2]) then
  return {2, 0, now}
end

for i = 1, #KEYS do
  local set = redis.pcall('HSET', KEYS[i], ARGV[i + 2], 1)
  local done = i - 1
  if set == 1 then
    set = redis.pcall('PEXPIRE', KEYS[i], ARGV[1])
    done = i
  end
  if set ~= 1 then
    -- No lock may stay behind, whatever the user may not do.
    for j = 1, done do
      local gone = redis.pcall('DEL', KEYS[j])
      if gone ~= 1 then
        redis.pcall('HDEL', KEYS[j], ARGV[j + 2])
      end
    end
    return set
  end
end
return now
