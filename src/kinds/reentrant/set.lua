-- set: write the hold count of an own lock and lengthen its lease.
--
-- KEYS  lock
-- ARGV  owner, count, lease in ms (0: leave it); anything more: write the time to
--       live even if that changes nothing, for replicas to confirm it
-- reply 1, or who has it instead ('' = nobody)
--
-- The count is written only when it differs, so that a lease can be
-- lengthened while Redis is out of memory.

local count = redis.pcall('HGET', KEYS[1], ARGV[1])
if type(count) == 'string' then
  if count ~= ARGV[2] then
    redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
  end
  local lease = tonumber(ARGV[3])
  if lease > 0 then
    local ttl = redis.call('PTTL', KEYS[1])
    if ttl >= 0 and ttl < lease then
      redis.call('PEXPIRE', KEYS[1], ARGV[3])
    elseif ttl >= 0 and ARGV[4] then
      redis.call('PEXPIRE', KEYS[1], ttl)
    end
  end
  return 1
end
if type(count) == 'table' and not string.find(count.err, 'WRONGTYPE', 1, true) then
  return count
end
-- needs: holder
return holder(KEYS[1])
