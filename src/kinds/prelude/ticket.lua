-- ticket: note that a request is carried out; sets done to 1 or an error.

redis.call('ZADD', KEYS[2], now, ARGV[3])
local done = redis.pcall('PEXPIRE', KEYS[2], 3600000)
