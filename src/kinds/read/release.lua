-- release: release own read locks; notify those who wait when the last one goes.
--
-- KEYS  lock, channel, timeout of this reader; for each lock
-- ARGV  publish command, then for each lock: owner, beginning of the names of
--       timeouts
-- reply for each lock how many were notified, -1 if the owner is not there, or an
--       error
--
-- An error of one lock does not keep the others from being released.  Repeating
-- the script is harmless.

-- needs: call each

-- So many others are looked at by each reader that leaves.
local FEW = 100

-- How long the longest timeout of a reader still lives, in ms.  Redisson has one for each
-- hold of a reader.
local function time_left(field, count, prefix)
  local left = 0
  for i = math.min(count, 1000), 1, -1 do
    left = math.max(left, call('PTTL', prefix .. ':' .. field .. ':rwlock_timeout:' .. i))
  end
  return left
end

local function release(lock, channel, timeout, owner, prefix)
  local there = redis.pcall('HEXISTS', lock, owner)
  if there ~= 1 then
    -- needs: wrong
    call('DEL', timeout)
    return -1
  end
  local own = call('PTTL', timeout)
  local ttl = call('PTTL', lock)
  local writes = call('HGET', lock, 'mode') == 'write'
  local others = call('HLEN', lock) - 2
  -- Redisson's writers sleep for the TTL of the lock, which is that of the reader who stays
  -- longest; Redisson looks at all readers for that.  The TTL may stay as it is if some
  -- reader stays half as long: should all of them crash, the TTL is too long by the other
  -- half.  To find the very longest we would have to look at all readers, and when many of
  -- them leave, each would look at each.  So beside many others only the reader that stays
  -- longest looks.  Then the TTL may be that of a reader who has left, if the one that was
  -- found leaves, too.
  local looks = not writes and others > 0 and (others <= FEW or own + 2 >= ttl)
  local longest = 0
  if looks then
    local fields = call('HKEYS', lock)
    for i = #fields, 1, -1 do
      local field = fields[i]
      local count = field ~= 'mode' and field ~= owner and tonumber(call('HGET', lock, field))
      local left = count and time_left(field, count, prefix) or 0
      if count and left == 0 then
        -- This reader has crashed.
        call('HDEL', lock, field)
      end
      longest = math.max(longest, left)
      if longest > 0 and 2 * longest >= ttl then
        break
      end
    end
  end
  -- The owner's field goes last: as long as it is there, the release is repeated.
  call('DEL', timeout)
  if longest > 0 and 2 * longest < ttl then
    call('PEXPIRE', lock, longest)
  end
  if writes or longest > 0 or (others > 0 and not looks) then
    call('HDEL', lock, owner)
    return 0
  end
  call('DEL', lock)
  return call(ARGV[1], channel, '0')
end

return each(release, 3, 2, 1)
