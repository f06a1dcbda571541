-- mode: sets mode to that of a read-write lock that is there; for any other value the script ends
-- with a reply.  Needs ttl, now.

local kind = redis.call('TYPE', KEYS[1]).ok
if kind == 'string' and ttl >= 0 then
  return {4, ttl, '', now}
end
mode = kind == 'hash' and redis.call('HGET', KEYS[1], 'mode')
if mode ~= 'read' and mode ~= 'write' then
  return {3, ttl, kind, now}
end
