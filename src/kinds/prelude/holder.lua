-- holder: who holds a lock, to be told to somebody who does not; '' is nobody.

local function holder(key)
  local kind = redis.call('TYPE', key).ok
  if kind == 'none' then
    return ''
  end
  if kind == 'hash' and redis.call('HLEN', key) == 1 then
    return string.sub(redis.call('HKEYS', key)[1], 1, 95)
  end
  return '(' .. kind .. ')'
end
