-- renew: lengthen the lease of own read locks, and see for how long the whole lock
-- is there.
--
-- KEYS  lock, time-out of this reader; for each lock
-- ARGV  for each lock: owner, lease in ms (0: leave it); anything more: write the
--       time to live even if that changes nothing, for replicas to confirm it
-- reply for each lock the TTL that the whole lock had, at least 1; or who has it
--       instead ('' = nobody), or an error
--
-- Redisson's renewal of its own readers sets the TTL of the whole lock, also to less
-- than another reader's lease: it is set right here.  What is wrong with one lock is no
-- reason to leave the others to expire.

local write = #ARGV > #KEYS

-- needs: call writer

local function who_has(lock)
  local kind = call('TYPE', lock).ok
  if kind == 'none' then
    return ''
  end
  local mode = kind == 'hash' and call('HGET', lock, 'mode')
  if mode == 'read' then
    return ''
  end
  return mode == 'write' and writer(lock) or '(' .. kind .. ')'
end

local function renew(lock, timeout, owner, lease)
  local there = redis.pcall('HEXISTS', lock, owner)
  if there ~= 1 then
    if there ~= 0 and not string.find(there.err, 'WRONGTYPE', 1, true) then
      error(there)
    end
    call('DEL', timeout)
    return who_has(lock)
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
  if ttl == -1 then
    return 9007199254740991
  end
  if ttl < left then
    call('PEXPIRE', lock, left)
  end
  return math.max(ttl, 1)
end

local reply = {}
for i = 1, #KEYS / 2 do
  reply[i] = try(renew, KEYS[2 * i - 1], KEYS[2 * i], ARGV[2 * i - 1],
    tonumber(ARGV[2 * i]))
end
return reply
