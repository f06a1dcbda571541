-- release: release permits, and publish how many are free.
--
-- KEYS  number of free permits, ids of held ones, channel; for each permit
-- ARGV  publish command, then the id of each
-- reply for each how many were notified, -1 if it was not held any more, or an error
--
-- A permit that has expired, and that nobody has taken since, is released all the same.  An
-- error of one does not keep the others from being released.  Repeating the script is
-- harmless.

-- needs: clock call each

local function release(name, permits, channel, id)
  local until_then = redis.pcall('ZSCORE', permits, id)
  if not until_then then
    return -1
  end
  if type(until_then) == 'table' then
    if string.find(until_then.err, 'WRONGTYPE', 1, true) then
      return -1
    end
    error(until_then)
  end
  if call('TYPE', name).ok ~= 'string' then
    -- There is no semaphore any more: adding a permit would create it again.
    call('ZREM', permits, id)
    return -1
  end
  -- needs: return_permit
  return tonumber(until_then) > now and told or -1
end

return each(release, 3, 1, 1)
