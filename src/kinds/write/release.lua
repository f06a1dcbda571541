-- release: release own write locks, with the announcements of their waits; notify those
-- who wait.
--
-- KEYS  lock, channel, announced writers; for each lock
-- ARGV  publish command, then for each lock: owner, beginning of the names of
--       timeouts
-- reply for each lock how many were notified, -1 if the owner is not there, or an
--       error
--
-- A session that also holds the read lock keeps that.  The lock gets the longest lease of its
-- readers, then mode 'read'; the writer's field goes last.  As long as that is there, the
-- release is repeated.  Then others may read, too; Redisson fails to notify them.
--
-- An error of one lock does not keep the others from being released.  Repeating the script
-- is harmless.

-- needs: call each

local function take_back_announcement(writers, owner)
  local removed = 0
  for _, member in ipairs(call('ZRANGE', writers, 0, -1)) do
    if string.sub(member, 15) == owner then
      removed = removed + call('ZREM', writers, member)
    end
  end
  return removed
end

local function release(lock, channel, writers, owner, prefix)
  local removed = take_back_announcement(writers, owner)
  local field = owner .. ':write'
  local there = redis.pcall('HEXISTS', lock, field)
  if there ~= 1 then
    -- needs: wrong
    if removed > 0 then
      call(ARGV[1], channel, '1')
    end
    return -1
  end
  local longest = 0
  for _, reader in ipairs(call('HKEYS', lock)) do
    if reader ~= 'mode' and reader ~= field then
      local left = call('PTTL', prefix .. ':' .. reader .. ':rwlock_timeout:1')
      if left <= 0 then
        call('HDEL', lock, reader)
      end
      longest = math.max(longest, left)
    end
  end
  if longest > 0 then
    -- A script that has written may go on while Redis is out of memory.  The owner's field
    -- goes last: as long as it is there, the release is repeated.
    call('PEXPIRE', lock, longest)
    call('HSET', lock, 'mode', 'read')
    call('HDEL', lock, field)
  else
    call('DEL', lock)
  end
  return call(ARGV[1], channel, '1')
end

return each(release, 3, 2, 1)
