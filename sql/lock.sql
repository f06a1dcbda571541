-- One session: take, take again, give back, ask.
SET intervalstyle = postgres;
-- Longer than anything here may take
SET lockredis.lease = '10 min';
SELECT redis_is_held('k'), redis_hold_count('k'), redis_is_locked('k'),
       redis_lock_ttl('k') IS NULL AS no_ttl, redis_lock_owner('k') IS NULL AS no_owner;
SELECT redis_lock('k');
SELECT redis_is_held('k'), redis_hold_count('k'), redis_is_locked('k'),
       redis_lock_ttl('k') BETWEEN '8 min' AND '10 min' AS ttl;
SELECT redis_lock_owner('k') ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:[0-9]+$' AS owner;
SELECT redis_assert_held('k');

-- again and again
SELECT redis_try_lock('k'), redis_lock('k'), redis_hold_count('k');
SELECT redis_unlock('k'), redis_hold_count('k');
SELECT redis_unlock('k'), redis_unlock('k');
SELECT redis_is_held('k'), redis_is_locked('k');
SELECT redis_unlock('k');

-- it survives a rollback
BEGIN;
SELECT redis_lock('k');
ROLLBACK;
SELECT redis_is_held('k');
BEGIN;
SAVEPOINT s;
SELECT redis_lock('k2');
ROLLBACK TO s;
COMMIT;
SELECT redis_hold_count('k2'), redis_unlock('k2');

-- the view
SELECT pid = pg_backend_pid() AS mine, datid = (SELECT oid FROM pg_database WHERE datname = current_database()) AS db,
       usesysid = current_user::regrole AS me, key, kind, scope, granted, hold_count, fence, lease, renewed,
       acquired_at <= clock_timestamp() AS past, waiting_since, expires_in BETWEEN '8 min' AND '10 min' AS expires,
       renewals, lost_at, lost_reason, owner = redis_lock_owner('k') AS owner, blocked_by
FROM redis_locks;

-- an extend never shortens, and ends the renewal
SELECT redis_extend('k', '10 s'), redis_lock_ttl('k') > '8 min' AS kept;
SELECT redis_extend('k', '20 min'), redis_lock_ttl('k') > '18 min' AS longer;
SELECT lease, renewed, expires_in > '18 min' AS longer FROM redis_locks;
SELECT redis_extend('k', NULL);
SELECT lease, renewed FROM redis_locks;

-- a given lease; mixed with a renewed one
SELECT redis_lock('given', '20 min');
SELECT lease, renewed, hold_count FROM redis_locks WHERE key = 'given';
SELECT redis_lock('given');
SELECT lease, renewed, hold_count FROM redis_locks WHERE key = 'given';
SELECT redis_lock_ttl('given') > '18 min' AS not_shortened;

-- all at once
SELECT redis_lock('k' || i) FROM generate_series(1, 3) i;
SELECT redis_unlock_all();
SELECT redis_unlock_all();
SELECT count(*) FROM redis_locks;
SELECT redis_is_locked('k'), redis_is_locked('given');

-- DISCARD ALL
SELECT redis_lock('k');
DISCARD ALL;
-- what was not answered at once is the watchdog's
DO $$ BEGIN FOR i IN 1 .. 6000 LOOP
  EXIT WHEN NOT EXISTS (SELECT FROM redis_locks); PERFORM pg_sleep(0.01);
END LOOP; END $$;
SELECT count(*) FROM redis_locks;
SELECT redis_is_locked('k');

-- keys are bytes
SELECT redis_lock(k), redis_is_locked(k), redis_unlock(k)
FROM (VALUES ('with space'), (E'new\nline'), ('quote''"\'), ('größe 鍵'), ('{tag}x'), ('x}y'), ('%s%n'), (E'\x01')) v(k);

-- in functions and loops
DO $$
BEGIN
  FOR i IN 1..50 LOOP
    PERFORM redis_lock('loop');
    PERFORM redis_lock('loop');
    IF redis_hold_count('loop') <> 2 THEN
      RAISE EXCEPTION 'count is %', redis_hold_count('loop');
    END IF;
    PERFORM redis_unlock('loop');
    PERFORM redis_unlock('loop');
  END LOOP;
END $$;
SELECT redis_is_locked('loop');

-- an error in the statement keeps what was taken, as pg_advisory_lock does
DO $$
BEGIN
  PERFORM redis_lock('err');
  RAISE EXCEPTION 'oops';
EXCEPTION WHEN raise_exception THEN
  RAISE NOTICE 'held: %', redis_is_held('err');
END $$;
SELECT redis_unlock('err');

-- a prefix
SET lockredis.key_prefix = 'pre:';
SELECT redis_lock('k');
SELECT key FROM redis_locks;
RESET lockredis.key_prefix;
SELECT redis_is_held('k'), redis_is_held('pre:k'), redis_unlock('pre:k');

-- force: the caller's own lock is lost at once
SELECT redis_force_unlock('k');
SELECT redis_lock('k'), redis_force_unlock('k');
SELECT redis_is_held('k'), redis_hold_count('k');
SELECT granted, lost_at IS NOT NULL AS lost_at, lost_reason, expires_in FROM redis_locks;
\set VERBOSITY sqlstate
SELECT redis_assert_held('k');
SELECT redis_lock('k');
SELECT redis_extend('k', '1 min');
SELECT redis_unlock('k');
\set VERBOSITY default
SELECT redis_is_held('k'), redis_unlock('k');
SELECT redis_lock('k'), redis_unlock('k');
-- so is what may be left of a lost one
DO $$ BEGIN FOR i IN 1 .. 6000 LOOP
  EXIT WHEN NOT EXISTS (SELECT FROM redis_locks); PERFORM pg_sleep(0.01);
END LOOP; END $$;
SELECT count(*) FROM redis_locks;

-- counts
SELECT redis_lock_stats_reset();
SELECT redis_lock('k'), redis_lock('k'), redis_unlock('k'), redis_unlock('k');
SELECT acquires, reentries, busy, waits, releases, losses, orphans, errors, reset_at <= clock_timestamp() AS reset_at
FROM redis_lock_stats;
