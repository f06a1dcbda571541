-- renew: extend the leases of own permits.
--
-- KEYS  number of free permits, ids of held ones (scores: ends of leases), channel; for
--       each permit
-- ARGV  publish command, then for each: id, lease in ms (0: leave it); anything more:
--       write the end even if that changes nothing, for replicas to confirm it
-- reply for each 1, or '' if it is not held any more, or an error
--
-- An error of one does not let the others expire.

-- needs: clock
local write = #ARGV > 1 + 2 * #KEYS / 3

-- needs: call each

local function renew(name, permits, channel, id, lease)
  lease = tonumber(lease)
  local until_then = redis.pcall('ZSCORE', permits, id)
  if type(until_then) == 'table' and not string.find(until_then.err, 'WRONGTYPE', 1, true) then
    error(until_then)
  end
  if type(until_then) ~= 'string' or call('TYPE', name).ok ~= 'string' then
    return ''
  end
  local score = tonumber(until_then)
  if score <= now then
    -- Expired: another client may have held it since.
    -- needs: return_permit
    return ''
  end
  if lease > 0 then
    -- As in create.lua.
    local longer = now + lease + 1
    if write then
      longer = math.max(longer, score + 1)
    end
    if longer > score then
      call('ZADD', permits, longer, id)
    end
  end
  return 1
end

return each(renew, 3, 2, 1)
