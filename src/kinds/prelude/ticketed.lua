-- ticketed: what was done in done failed, so nothing was; or forget the requests of long ago.

if type(done) == 'table' then
  redis.call('ZREM', KEYS[2], ARGV[3])
  return done
end
redis.pcall('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - 3600000)
