-- number: sets digits to the number at the first key, nil without one; and kind to the type
-- of the key.  For a value that is no number the script ends with a reply.  Needs now.

local digits
local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= 'none' then
  -- Look at little, however large the value is.
  if kind == 'string' and redis.call('STRLEN', KEYS[1]) <= 20 then
    digits = string.match(redis.call('GET', KEYS[1]), '^%-?%d+$')
  end
  if not digits then
    return {3, redis.call('PTTL', KEYS[1]), kind, now}
  end
end
