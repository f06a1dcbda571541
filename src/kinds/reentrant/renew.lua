-- renew: extend the leases of own locks.
--
-- KEYS  locks
-- ARGV  for each lock: owner, lease in ms; anything more: write the time to live
--       even if that changes nothing, for replicas to confirm it
-- reply for each lock 1, or who holds it instead ('' = nobody), or an error
--
-- An error of one lock does not let the others expire.

local reply = {}
local write = #ARGV > 2 * #KEYS
local gt = (redis.REDIS_VERSION_NUM or 0) >= 0x00070000
for i = 1, #KEYS do
  local key = KEYS[i]
  local lease = ARGV[2 * i]
  local there = redis.pcall('HEXISTS', key, ARGV[2 * i - 1])
  if there == 1 then
    local done
    if gt and not write then
      done = redis.pcall('PEXPIRE', key, lease, 'GT')
    else
      done = redis.pcall('PTTL', key)
      if type(done) ~= 'table' and done >= 0 then
        if done < tonumber(lease) then
          done = redis.pcall('PEXPIRE', key, lease)
        elseif write then
          done = redis.pcall('PEXPIRE', key, done)
        end
      end
    end
    reply[i] = type(done) == 'table' and done or 1
  elseif there ~= 0 and not string.find(there.err, 'WRONGTYPE', 1, true) then
    reply[i] = there
  else
    -- needs: holder
    reply[i] = holder(key)
  end
end
return reply
