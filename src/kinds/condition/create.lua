-- create: release a lock and wait for its condition; or ask whether the wait was notified.
--
-- KEYS  lock, its channel, channel of the condition, waiters, until when each of them counts,
--       notified waiters and until when each notification lasts
-- ARGV  publish command, message, waiter, latest time in ms at which this may run, how long
--       a notification lasts (ms), how long the waiter counts (ms; 0: it leaves), owner of
--       the lock that is to be released ('': it was released before)
-- reply {0, 0, '', now}    notified, or not known any more: the waiter has to look
--       {1, ttl, '', now}  not yet; the waiter counts for so long
--       {2, 0, '', now}    read too late: nothing done
--       the holder of the lock instead of that owner ('': nobody): nothing done
--
-- One script releases the lock and adds the waiter.  Only the holder of the lock notifies, so
-- a notification comes before or after both.  The notified waiter is recorded until it has
-- the lock again.  If its time is over before, the next script that runs passes the
-- notification on.  So these records live for as long as anybody is known to wait.

local latest = ARGV[4]
-- needs: in_time

local lock, channel, topic = KEYS[1], KEYS[2], KEYS[3]
local waiting, alive, told = KEYS[4], KEYS[5], KEYS[6]
local waiter, lease, wait, owner = ARGV[3], tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7]

-- needs: call condition

local function lengthen_all()
  lengthen(alive, 2 * wait)
  lengthen(waiting, 2 * wait)
  lengthen(told, 2 * wait)
end

local function queue()
  call('ZADD', alive, now + wait, waiter)
  call('RPUSH', waiting, waiter)
  lengthen_all()
  call('DEL', lock)
end

if owner ~= '' then
  local there = redis.pcall('HEXISTS', lock, owner)
  if there ~= 1 then
    -- needs: other
    -- needs: holder
    return holder(lock)
  end
  local done, wrong = pcall(queue)
  if not done then
    -- Whatever the user may not do, it keeps the lock then, and does not wait.  Since Redis 7
    -- pcall() returns the text of the error.
    redis.pcall('LREM', waiting, 0, waiter)
    redis.pcall('ZREM', alive, waiter)
    return type(wrong) == 'table' and wrong or {err = wrong}
  end
  -- needs: tell_release
  tell_release(channel)
  return {1, wait, '', now}
end

pass_on(topic, waiting, alive, told)
if redis.call('ZSCORE', told, waiter) then
  redis.call('ZADD', told, now + lease, waiter)
  lengthen(told, 2 * lease)
  return {0, 0, '', now}
elseif not redis.call('ZSCORE', alive, waiter) then
  return {0, 0, '', now}
elseif wait > 0 then
  redis.call('ZADD', alive, now + wait, waiter)
  lengthen_all()
else
  redis.call('LREM', waiting, 0, waiter)
  redis.call('ZREM', alive, waiter)
end
return {1, wait, '', now}
