-- in_time: ends the script if its request was read later than "latest"; sets now.

-- needs: clock
if now > tonumber(latest) then
  return {2, 0, '', now}
end
