-- renew: lengthen the lease of own write locks.
--
-- KEYS  locks
-- ARGV  for each lock: owner, lease in ms (0: leave it); anything more: write the time
--       to live even if that changes nothing, for replicas to confirm it
-- reply for each lock 1, or who has it instead ('' = nobody), or an error
--
-- What is wrong with one lock is no reason to leave the others to expire.

local write = #ARGV > 2 * #KEYS

local function call(...)
  local answer = redis.pcall(...)
  if type(answer) == 'table' and answer.err then
    error(answer)
  end
  return answer
end

local function who_has(lock)
  local kind = call('TYPE', lock).ok
  if kind == 'none' then
    return ''
  end
  local mode = kind == 'hash' and call('HGET', lock, 'mode')
  if mode == 'write' then
    for _, field in ipairs(call('HKEYS', lock)) do
      if string.sub(field, -6) == ':write' then
        return string.sub(field, 1, math.min(#field - 6, 95))
      end
    end
  end
  return mode == 'read' and 'read' or '(' .. kind .. ')'
end

local function renew(lock, owner, lease)
  local there = redis.pcall('HEXISTS', lock, owner .. ':write')
  if there ~= 1 then
    if there ~= 0 and not string.find(there.err, 'WRONGTYPE', 1, true) then
      error(there)
    end
    return who_has(lock)
  end
  local ttl = call('PTTL', lock)
  if ttl >= 0 and (write or ttl < lease) then
    call('PEXPIRE', lock, math.max(ttl, lease))
  end
  return 1
end

local reply = {}
for i = 1, #KEYS do
  local done, answer = pcall(renew, KEYS[i], ARGV[2 * i - 1], tonumber(ARGV[2 * i]))
  -- Since Redis 7 the text of the error, which would be taken for an answer.
  if not done and type(answer) ~= 'table' then
    answer = {err = answer}
  end
  reply[i] = answer
end
return reply
