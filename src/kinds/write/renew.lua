-- renew: extend the leases of own write locks.
--
-- KEYS  locks
-- ARGV  for each lock: owner, lease in ms (0: leave it); anything more: write the time
--       to live even if that changes nothing, for replicas to confirm it
-- reply for each lock 1, or who holds it instead ('' = nobody), or an error
--
-- An error of one lock does not let the others expire.

local write = #ARGV > 2 * #KEYS

-- needs: call each writer who_has

local function renew(lock, owner, lease)
  lease = tonumber(lease)
  local there = redis.pcall('HEXISTS', lock, owner .. ':write')
  if there ~= 1 then
    -- needs: wrong
    return who_has(lock, 'read')
  end
  local ttl = call('PTTL', lock)
  if ttl >= 0 and (write or ttl < lease) then
    call('PEXPIRE', lock, math.max(ttl, lease))
  end
  return 1
end

return each(renew, 1, 2, 0)
