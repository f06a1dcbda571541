-- writer: who holds the write lock of a read-write lock; nil is nobody.  Needs call().

local function writer(lock)
  for _, field in ipairs(call('HKEYS', lock)) do
    if string.sub(field, -6) == ':write' then
      return string.sub(field, 1, math.min(#field - 6, 95))
    end
  end
end
