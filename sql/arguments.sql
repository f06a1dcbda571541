-- What the functions accept: keys, leases, time limits.
\set VERBOSITY sqlstate

-- keys
SELECT redis_lock(NULL);
SELECT redis_try_lock(NULL);
SELECT redis_unlock(NULL);
SELECT redis_extend(NULL, '1 s');
SELECT redis_is_locked(NULL);
SELECT redis_is_held(NULL);
SELECT redis_hold_count(NULL);
SELECT redis_assert_held(NULL);
SELECT redis_lock_ttl(NULL);
SELECT redis_lock_owner(NULL);
SELECT redis_force_unlock(NULL);
SELECT redis_lock('');
SELECT redis_is_locked('');
SELECT redis_try_lock(repeat('x', 255)), redis_unlock(repeat('x', 255));
SELECT redis_try_lock(repeat('x', 256));
SELECT redis_try_lock(repeat('é', 127)), redis_unlock(repeat('é', 127));
SELECT redis_try_lock(repeat('é', 128));

-- leases: rounded up to milliseconds, then judged
SELECT redis_lock('arg', '9 ms');
-- Ten milliseconds may be over before the answer has come: an error, but not of the argument.
DO $$
BEGIN
  PERFORM redis_lock('arg', '9.5 ms');
EXCEPTION WHEN io_error THEN
END $$;
SET client_min_messages = error;
SELECT redis_unlock('arg') IS NOT NULL;
RESET client_min_messages;
SELECT redis_lock('arg', '0');
SELECT redis_lock('arg', '-1 s');
SELECT redis_lock('arg', '24 days 1 ms');
SELECT redis_lock('arg', '178000000 years');
SELECT redis_lock('arg', '-178000000 years');
SELECT redis_lock('arg', '24 days'), redis_unlock('arg');
SELECT redis_lock('arg', '576 hours'), redis_unlock('arg');
SELECT redis_extend('arg', '9 ms');

-- time limits
SELECT redis_try_lock('arg', '-1 ms');
SELECT redis_try_lock('arg', '-178000000 years');
SELECT redis_try_lock('arg', NULL), redis_unlock('arg');
SELECT redis_try_lock('arg', '178000000 years'), redis_unlock('arg');
SELECT redis_try_lock('arg', '1 s', '1 min'), redis_unlock('arg');
SELECT redis_try_lock(key => 'arg', lease => '1 min'), redis_unlock(key => 'arg');

-- settings
SET lockredis.lease = '99ms';
SET lockredis.lease = '25h';
SET lockredis.lease = '100ms';
RESET lockredis.lease;
SET lockredis.nonsense = 1;
SET lockredis.url = 'redis://elsewhere';
SET lockredis.max_locks = 1;

-- the words
\set VERBOSITY default
SELECT redis_lock(NULL);
SELECT redis_lock('');
SELECT redis_lock(repeat('x', 256));
SELECT redis_lock('arg', '1 ms');
SELECT redis_try_lock('arg', '-1 s');
SELECT redis_assert_held('arg');
SELECT redis_extend('arg', '1 min');
SELECT redis_unlock('arg');
SELECT redis_unlock_all();
