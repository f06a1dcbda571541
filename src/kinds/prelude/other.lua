-- other: ends the script with the error of "there", unless the lock has another owner or type.

if there ~= 0 and not string.find(there.err, 'WRONGTYPE', 1, true) then
  return there
end
