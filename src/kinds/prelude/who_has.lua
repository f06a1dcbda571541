-- who_has: who holds a read-write lock, for the reply to a client that does not; "reads" says
-- that readers do.  Needs call(), writer().

local function who_has(lock, reads)
  local kind = call('TYPE', lock).ok
  if kind == 'none' then
    return ''
  end
  local mode = kind == 'hash' and call('HGET', lock, 'mode')
  return mode == 'write' and writer(lock) or mode == 'read' and reads or '(' .. kind .. ')'
end
