-- wrong: ends the function that try() runs, unless the lock only has another owner or type.

if there ~= 0 and not string.find(there.err, 'WRONGTYPE', 1, true) then
  error(there)
end
