/* lockredis--1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION lockredis" to load this file. \quit

--
-- Taking and giving back
--

CREATE FUNCTION redis_lock(key text, lease interval DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'lockredis_lock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION redis_lock(text, interval) IS
'take a session-level Redis lock, waiting for it; reentrant.  lease: at least 10 milliseconds, not renewed; null: lockredis.lease, renewed by the watchdog.  Errors: 55P03 lock_timeout, 40001 the lock of this session was lost, 08001/08006 store unreachable, 42809 no lock at that key, 53400 out of slots';

CREATE FUNCTION redis_try_lock(key text, wait interval DEFAULT '0', lease interval DEFAULT NULL)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_try_lock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION redis_try_lock(text, interval, interval) IS
'take a session-level Redis lock within a time limit; false: somebody else has it.  wait: null = for ever.  lease and errors as redis_lock; an unreachable store is an error, not false';

CREATE FUNCTION redis_xact_lock(key text, lease interval DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'lockredis_xact_lock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION redis_xact_lock(text, interval) IS
'take a transaction-level Redis lock, waiting for it; given back after the commit is visible, at rollback, or at rollback of its savepoint.  lease and errors as redis_lock; a lock that was lost makes COMMIT fail with 40001';

CREATE FUNCTION redis_try_xact_lock(key text, wait interval DEFAULT '0', lease interval DEFAULT NULL)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_try_xact_lock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION redis_try_xact_lock(text, interval, interval) IS
'take a transaction-level Redis lock within a time limit; false: somebody else has it.  wait, lease and errors as redis_try_lock';

--
-- Fencing
--

CREATE TABLE redis_fences (
    key text PRIMARY KEY,
    token bigint NOT NULL CHECK (token > 0),
    recorded_at timestamptz NOT NULL
);

COMMENT ON TABLE redis_fences IS
'highest fencing token recorded for each key, in the transactions that the lock protected; written by functions of lockredis only';
COMMENT ON COLUMN redis_fences.key IS 'lock key with its prefix';
COMMENT ON COLUMN redis_fences.token IS 'highest token recorded by a committed transaction';
COMMENT ON COLUMN redis_fences.recorded_at IS 'clock_timestamp() when it was recorded';

GRANT SELECT ON redis_fences TO PUBLIC;
SELECT pg_catalog.pg_extension_config_dump('redis_fences', '');

CREATE FUNCTION redis_fenced_lock(key text, lease interval DEFAULT NULL)
RETURNS bigint
AS 'MODULE_PATHNAME', 'lockredis_fenced_lock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION redis_fenced_lock(text, interval) IS
'take a session-level Redis lock and return its fencing token, from the store''s counter for the key (22003: used up).  lease and errors as redis_lock';

CREATE FUNCTION redis_try_fenced_lock(key text, wait interval DEFAULT '0', lease interval DEFAULT NULL)
RETURNS bigint
AS 'MODULE_PATHNAME', 'lockredis_try_fenced_lock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION redis_try_fenced_lock(text, interval, interval) IS
'take a session-level Redis lock within a time limit and return its fencing token; null: somebody else has it.  wait, lease and errors as redis_try_lock';

CREATE FUNCTION redis_fenced_xact_lock(key text, lease interval DEFAULT NULL)
RETURNS bigint
AS 'MODULE_PATHNAME', 'lockredis_fenced_xact_lock'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION redis_fenced_xact_lock(text, interval) IS
'take a transaction-level Redis lock and record its fencing token in redis_fences, in this transaction; returns the token.  Errors as redis_xact_lock; 40001 also when the row was changed since a REPEATABLE READ snapshot; 25006 on a standby';

CREATE FUNCTION redis_try_fenced_xact_lock(key text, wait interval DEFAULT '0', lease interval DEFAULT NULL)
RETURNS bigint
AS 'MODULE_PATHNAME', 'lockredis_try_fenced_xact_lock'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION redis_try_fenced_xact_lock(text, interval, interval) IS
'as redis_fenced_xact_lock within a time limit; null: somebody else has the lock';

CREATE FUNCTION redis_fence(key text)
RETURNS bigint
AS 'MODULE_PATHNAME', 'lockredis_fence'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION redis_fence(text) IS
'fencing token of the lock that this session has; null: none, or it was lost.  Without a round trip';

CREATE FUNCTION redis_fence_check(key text, token bigint)
RETURNS void
AS 'MODULE_PATHNAME', 'lockredis_fence_check'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION redis_fence_check(text, bigint) IS
'record a fencing token issued elsewhere, 1 to 2^53-1 (else 22003), in this transaction; 40002: a higher one was recorded';

REVOKE ALL ON FUNCTION redis_fence_check(text, bigint) FROM PUBLIC;

CREATE FUNCTION redis_fence_forget(key text)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_fence_forget'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION redis_fence_forget(text) IS
'delete the row of a key that is no longer used from redis_fences; false: there was none.  For the owner of the extension';

REVOKE ALL ON FUNCTION redis_fence_forget(text) FROM PUBLIC;

--
-- Table mode
--

CREATE TABLE redis_lock_rows (
    key text COLLATE "C" PRIMARY KEY,
    owner text NOT NULL,
    hold_count integer NOT NULL DEFAULT 1,
    fence bigint,
    lease interval,
    acquired_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz NOT NULL,
    instance uuid,
    comment text
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_threshold = 100000,
    autovacuum_analyze_scale_factor = 0
);

COMMENT ON TABLE redis_lock_rows IS
'table mode: a row for each lock that somebody has, written by the table worker of lockredis.database, and by programs without lockredis that take locks with INSERT and give them back with DELETE';
COMMENT ON COLUMN redis_lock_rows.key IS 'lock key with its prefix';
COMMENT ON COLUMN redis_lock_rows.owner IS 'who has it: instance uuid and number as in redis_locks.owner, or any text of a program of its own';
COMMENT ON COLUMN redis_lock_rows.hold_count IS 'how often its session has it';
COMMENT ON COLUMN redis_lock_rows.fence IS 'fencing token of this hold; null: none was asked for';
COMMENT ON COLUMN redis_lock_rows.lease IS 'lease that expires_at was counted with';
COMMENT ON COLUMN redis_lock_rows.acquired_at IS 'clock_timestamp() when it was taken';
COMMENT ON COLUMN redis_lock_rows.expires_at IS 'end of the lease on the wall clock; a lock of a running lockredis instance is judged by a clock that does not jump instead';
COMMENT ON COLUMN redis_lock_rows.instance IS 'instance of lockredis, whose locks end with it; null: counts until expires_at';
COMMENT ON COLUMN redis_lock_rows.comment IS 'free for programs that write rows themselves';

CREATE TABLE redis_lock_counters (
    key text COLLATE "C" PRIMARY KEY,
    token bigint NOT NULL
) WITH (fillfactor = 50);

COMMENT ON TABLE redis_lock_counters IS
'table mode: the fencing token handed out last for each key; written by the table worker';
COMMENT ON COLUMN redis_lock_counters.key IS 'lock key with its prefix';
COMMENT ON COLUMN redis_lock_counters.token IS 'fencing token handed out last';

SELECT pg_catalog.pg_extension_config_dump('redis_lock_counters', '');

--
-- Jobs
--

CREATE PROCEDURE redis_with_lock(key text, command text, wait interval DEFAULT '0',
    lease interval DEFAULT NULL, hold_at_least interval DEFAULT NULL, INOUT ran boolean DEFAULT NULL)
AS 'MODULE_PATHNAME', 'lockredis_with_lock'
LANGUAGE C;

COMMENT ON PROCEDURE redis_with_lock(text, text, interval, interval, interval, boolean) IS
'run a command under a Redis lock: take it, commit, run, commit, give it back.  ran: false = the lock was busy for all of wait.  hold_at_least: the key stays locked until that long after the start, even after an error or a crash.  Errors: those of the command, those of redis_try_lock, 2D000 inside a transaction block';

--
-- Giving back
--

CREATE FUNCTION redis_unlock(key text)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_unlock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION redis_unlock(text) IS
'give back one session-level hold of a Redis lock; false with a warning: not held, or its lease was lost';

CREATE FUNCTION redis_unlock_all()
RETURNS bigint
AS 'MODULE_PATHNAME', 'lockredis_unlock_all'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION redis_unlock_all() IS
'give back all session-level Redis locks of this session; returns the number of keys, without those that had been lost';

CREATE FUNCTION redis_extend(key text, lease interval)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_extend'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION redis_extend(text, interval) IS
'keep the Redis lock of this session for at least that long from now, and end its renewal; null: have it renewed again.  Never shortens.  False: it was lost.  Errors: 55000 not held, 08006 no answer (the old lease stands)';

CREATE FUNCTION redis_force_unlock(key text)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_force_unlock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION redis_force_unlock(text) IS
'take a Redis lock away from whoever has it; false: nobody had it.  Error 42809: the key holds something else.  For administrators';

REVOKE ALL ON FUNCTION redis_force_unlock(text) FROM PUBLIC;

--
-- Asking the store
--

CREATE FUNCTION redis_is_locked(key text)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_is_locked'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION redis_is_locked(text) IS
'does anybody have the lock?  Asked of the store.  Error 42809: the key holds something else';

CREATE FUNCTION redis_lock_ttl(key text)
RETURNS interval
AS 'MODULE_PATHNAME', 'lockredis_lock_ttl'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION redis_lock_ttl(text) IS
'rest of the lease in milliseconds'' precision, asked of the store; null: nobody has the lock, or it never expires.  Error 42809: the key holds something else';

CREATE FUNCTION redis_lock_owner(key text)
RETURNS text
AS 'MODULE_PATHNAME', 'lockredis_lock_owner'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION redis_lock_owner(text) IS
'who has the lock, asked of the store: instance uuid and number, as in redis_locks.owner; token: a token lock of another client; null: nobody.  Error 42809: the key holds something else';

--
-- Asking this session
--

CREATE FUNCTION redis_is_held(key text)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_is_held'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION redis_is_held(text) IS
'does this session have the lock, and was it not lost?  Without a round trip';

CREATE FUNCTION redis_hold_count(key text)
RETURNS integer
AS 'MODULE_PATHNAME', 'lockredis_hold_count'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION redis_hold_count(text) IS
'how often this session has the lock; 0 when it was lost.  Without a round trip';

CREATE FUNCTION redis_assert_held(key text)
RETURNS void
AS 'MODULE_PATHNAME', 'lockredis_assert_held'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION redis_assert_held(text) IS
'raise 40001 if the lock of this session was lost, 55000 if it has none.  Without a round trip';

--
-- Views
--

CREATE FUNCTION lockredis_locks(
    OUT pid integer,
    OUT datid oid,
    OUT usesysid oid,
    OUT key text,
    OUT kind text,
    OUT scope text,
    OUT granted boolean,
    OUT hold_count integer,
    OUT fence bigint,
    OUT lease interval,
    OUT renewed boolean,
    OUT acquired_at timestamptz,
    OUT waiting_since timestamptz,
    OUT expires_in interval,
    OUT renewals bigint,
    OUT lost_at timestamptz,
    OUT lost_reason text,
    OUT owner text,
    OUT blocked_by integer[])
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'lockredis_locks'
LANGUAGE C VOLATILE PARALLEL RESTRICTED ROWS 100;

COMMENT ON FUNCTION lockredis_locks() IS
'rows of the view redis_locks, from the lock table of this server';

CREATE VIEW redis_locks AS SELECT * FROM lockredis_locks();

COMMENT ON VIEW redis_locks IS
'a row for each hold or wait of this server, from its lock table; key and owner of other roles'' sessions are null without pg_read_all_stats';

CREATE FUNCTION lockredis_stats(
    OUT acquires bigint,
    OUT reentries bigint,
    OUT handoffs bigint,
    OUT busy bigint,
    OUT waits bigint,
    OUT timeouts bigint,
    OUT cancels bigint,
    OUT deadlocks bigint,
    OUT releases bigint,
    OUT renewals bigint,
    OUT losses bigint,
    OUT commits_refused bigint,
    OUT orphans bigint,
    OUT connects bigint,
    OUT errors bigint,
    OUT switches bigint,
    OUT moves bigint,
    OUT reset_at timestamptz)
RETURNS record
AS 'MODULE_PATHNAME', 'lockredis_stats'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION lockredis_stats() IS
'the row of the view redis_lock_stats';

CREATE VIEW redis_lock_stats AS SELECT * FROM lockredis_stats();

COMMENT ON VIEW redis_lock_stats IS
'counts of this server since reset_at, from shared memory; not kept over a restart';

CREATE FUNCTION redis_lock_stats_reset()
RETURNS void
AS 'MODULE_PATHNAME', 'lockredis_stats_reset'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION redis_lock_stats_reset() IS
'set all counts of redis_lock_stats to zero';

REVOKE ALL ON FUNCTION redis_lock_stats_reset() FROM PUBLIC;

CREATE FUNCTION lockredis_status(
    OUT node integer,
    OUT role text,
    OUT address text,
    OUT state text,
    OUT round_trip interval,
    OUT version text,
    OUT renewal_lag interval,
    OUT maxmemory_policy text,
    OUT last_error text,
    OUT last_error_at timestamptz,
    OUT in_use boolean,
    OUT since timestamptz,
    OUT reason text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'lockredis_status'
LANGUAGE C VOLATILE PARALLEL RESTRICTED ROWS 1;

COMMENT ON FUNCTION lockredis_status() IS
'rows of the view redis_lock_status';

CREATE VIEW redis_lock_status AS SELECT * FROM lockredis_status();

COMMENT ON VIEW redis_lock_status IS
'the stores of locks as the watchdog sees them; address for members of pg_monitor only.  in_use: new locks go there; since, reason: in fallback mode, when and why that changed last';

GRANT SELECT ON redis_locks, redis_lock_stats, redis_lock_status TO PUBLIC;
