-- give_back: release an owner's lock, or keep the key locked for a while; sets done to 1, 0, or
-- an error.

if keep == '0' then
  -- A lock has no other field, so this deletes the key.
  done = redis.pcall('HDEL', lock, owner)
else
  done = redis.pcall('HEXISTS', lock, owner)
  if done == 1 then
    -- This comes first: a release that is refused below is repeated, and when the time
    -- is over without keeping the key.
    done = redis.pcall('PEXPIRE', lock, keep)
    if type(done) ~= 'table' then
      -- The other owner prevents a late renewal from extending it.
      done = redis.pcall('HSET', lock, owner .. '/kept', '1')
    end
    if type(done) ~= 'table' then
      done = redis.pcall('HDEL', lock, owner)
    end
  end
end
