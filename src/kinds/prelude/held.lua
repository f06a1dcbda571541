-- held: what holds a lock that has this TTL: 1 a lock, 4 a token, 3 anything else; and who that
-- is, or the type of the key.  It looks at little, however large the value is.

local function held(lock, ttl)
  local kind = redis.call('TYPE', lock).ok
  if kind == 'string' and ttl >= 0 then
    return 4, ''
  end
  if kind == 'hash' and redis.call('HLEN', lock) == 1 then
    local owner = redis.call('HKEYS', lock)[1]
    if redis.call('HSTRLEN', lock, owner) <= 20
      and string.find(redis.call('HGET', lock, owner), '^%-?%d+$') then
      return 1, string.sub(owner, 1, 95)
    end
  end
  return 3, kind
end
