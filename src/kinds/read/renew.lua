-- renew: extend the leases of own read locks, and tell how long the whole lock lives.
--
-- KEYS  lock, timeout of this reader; for each lock
-- ARGV  for each lock: owner, lease in ms (0: leave it); anything more: write the
--       time to live even if that changes nothing, for replicas to confirm it
-- reply for each lock the TTL that the whole lock had, at least 1; or who holds it
--       instead ('' = nobody), or an error
--
-- When Redisson renews its own readers, it sets the TTL of the whole lock, even to less
-- than the lease of another reader; this script corrects that.  An error of one lock does
-- not let the others expire.

local write = #ARGV > #KEYS

-- needs: call each writer who_has

local function renew(lock, timeout, owner, lease)
  lease = tonumber(lease)
  local there = redis.pcall('HEXISTS', lock, owner)
  if there ~= 1 then
    -- needs: wrong
    call('DEL', timeout)
    return who_has(lock, '')
  end
  local left = call('PTTL', timeout)
  if left == -2 then
    return ''
  end
  if left >= 0 and (write or left < lease) then
    left = math.max(left, lease)
    call('PEXPIRE', timeout, left)
  end
  local ttl = call('PTTL', lock)
  if ttl ~= -1 and ttl < left then
    call('PEXPIRE', lock, left)
  end
  -- The server does not accept a larger number as a reply.
  local most = 9007199254740991
  return ttl == -1 and most or math.min(math.max(ttl, 1), most)
end

return each(renew, 2, 2, 0)
