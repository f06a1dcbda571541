-- create: take a fair lock if it is the owner's turn, or stand in its queue.
--
-- KEYS  lock, channel, queue, until when each in it counts, places of lockredis
-- ARGV  publish command, message, lease in ms, owner, latest time in ms at which this
--       may run, for how long a place in the queue counts (ms; 0: none is wanted), owner
--       by which the server that asks holds the lock and can pass it on ('': none)
-- reply {0, 0, text, now}    taken; text: 'clear' if nobody of another server waits, or ''
--       {1, ttl, owner, now} that owner holds it; or nobody does, and that owner is the
--                            next, who counts for so long
--       {2, 0, '', now}      read too late: nothing done
--       {3, ttl, type, now}  something that is no lock
--       {4, ttl, '', now}    a token lock (a string with a TTL)
--       {7, ttl, owner, now} the server that asks holds it, nobody of another one waits,
--                            and the owner that asks has a place
--       {8, ttl, owner, now} the same, but it has no place, and got none
--
-- ttl is -1 without one.  An owner that asks again keeps its place.  A place of lockredis
-- counts by its time in our own key, wherever it stands; a place of Redisson by its score,
-- once it is the first.  When a client of Redisson gets the lock or gives up, it subtracts
-- its own time limit, 300 s, from the scores of all behind it.  So our score is higher by
-- 300 s for each client of Redisson that stands before us.

local latest = ARGV[5]
-- needs: in_time

local lock, queue, scores, places = KEYS[1], KEYS[3], KEYS[4], KEYS[5]
local owner = ARGV[4]
local wait = tonumber(ARGV[6])

local first, ends, ttl = false, 0, -2
if redis.call('EXISTS', lock, queue, places) > 0 then
  local call = redis.call
  -- needs: sweep
  first, ends = sweep(queue, scores, places)
  ttl = redis.call('PTTL', lock)
end

-- Does nobody of another server wait?  No, if the queue is longer, or must not be read.
local function clear()
  if not first then
    return true
  end
  local members = redis.pcall('LRANGE', queue, '0', '1000')
  if members.err then
    return false
  end
  local mine = string.match(owner, '^.*:')
  for _, member in ipairs(members) do
    if string.sub(member, 1, #mine) ~= mine then
      return false
    end
  end
  return #members <= 1000
end

if ttl == -2 and (not first or first == owner) then
  redis.call('HSET', lock, owner, '1')
  -- A lock without a TTL must not stay behind, whatever the user may not do.
  local set = redis.pcall('PEXPIRE', lock, ARGV[3])
  if set ~= 1 then
    if redis.pcall('DEL', lock) ~= 1 then
      redis.call('HDEL', lock, owner)
    end
    return set
  end
  if first then
    redis.pcall('LPOP', queue)
    redis.pcall('ZREM', scores, owner)
    redis.pcall('ZREM', places, owner)
  end
  return {0, 0, clear() and 'clear' or '', now}
end

local code, holder = 3, first
if ttl == -2 then
  -- The next one may not know, as no message tells of the end of a lease.
  code, ttl = 1, math.max(ends - now, 1)
  redis.call(ARGV[1], KEYS[2] .. ':' .. first, ARGV[2])
else
  -- needs: held
  code, holder = held(lock, ttl)
  if code == 3 then
    return {3, ttl, holder, now}
  end
end

if wait > 0 then
  local here = code == 1 and ARGV[7] ~= '' and holder == ARGV[7] and clear()
  local stands = redis.call('LPOS', queue, owner)
  if here and not stands then
    -- Redisson may have thrown it out.
    redis.call('ZREM', places, owner)
    return {8, ttl, holder, now}
  end
  code = here and 7 or code
  local has = redis.call('ZSCORE', scores, owner)
  if not has then
    -- Redisson may have removed it: then our own key must not count it, either.
    redis.call('ZREM', places, owner)
  end
  local others = redis.call('ZCARD', scores) - redis.call('ZCARD', places)
  if stands and others > 0 then
    -- Only those before us matter; a newcomer has all of them before it.
    others = 0
    local ours = {}
    for _, member in ipairs(redis.call('ZRANGEBYSCORE', places, '-inf', '+inf')) do
      ours[member] = true
    end
    for _, member in ipairs(stands > 0 and redis.call('LRANGE', queue, 0, stands - 1) or {}) do
      others = others + (ours[member] and 0 or 1)
    end
  end
  local score = now + wait + 300000 * math.max(others, 0)
  -- Our own key must outlive the scores, as it tells which of these are dead.
  local keep = math.max(2 * wait, score - now)
  redis.call('ZADD', places, now + wait, owner)
  local done = 1
  if redis.call('PTTL', places) < keep then
    done = redis.pcall('PEXPIRE', places, keep)
  end
  if type(done) ~= 'table' and (not has or tonumber(has) ~= score) then
    done = redis.pcall('ZADD', scores, score, owner)
  end
  if type(done) ~= 'table' and not stands then
    done = redis.pcall('RPUSH', queue, owner)
  end
  -- Half a place must not stay behind, whatever the user may not do.
  if type(done) == 'table' then
    redis.pcall('LREM', queue, 0, owner)
    redis.pcall('ZREM', scores, owner)
    redis.pcall('ZREM', places, owner)
    return done
  end
end
return {code, ttl, string.sub(holder, 1, 95), now}
