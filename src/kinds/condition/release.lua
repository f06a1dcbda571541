-- release: who waits for a condition, or was told of it, is not there any more.
--
-- KEYS  channel of the condition, who waits, until when each of them counts, who was told
--       and until when that is his; for each
-- ARGV  publish command, message, then for each: waiter, has he acted on it (1: he has the
--       lock again; 0: what he was told is the next one's)
-- reply for each how many were told instead, -1 if nothing is known of him, or an error
--
-- An error of one does not keep the others from leaving.  Repeating the script is harmless.

-- needs: clock call condition

local function release(topic, waiting, alive, told, waiter, acted)
  if call('ZREM', told, waiter) == 1 then
    return acted == '1' and 0 or tell_one(topic, waiting, alive, told)
  elseif call('ZREM', alive, waiter) == 1 then
    call('LREM', waiting, 0, waiter)
    return 0
  end
  return -1
end

local reply = {}
for i = 1, #KEYS / 4 do
  reply[i] = try(release, KEYS[4 * i - 3], KEYS[4 * i - 2], KEYS[4 * i - 1], KEYS[4 * i],
    ARGV[2 * i + 1], ARGV[2 * i + 2])
end
return reply
