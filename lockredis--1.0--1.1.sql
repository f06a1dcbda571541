/* lockredis--1.0--1.1.sql */

-- complain if script is sourced in psql, rather than via ALTER EXTENSION
\echo Use "ALTER EXTENSION lockredis UPDATE TO '1.1'" to load this file. \quit

--
-- Keys are compared byte by byte, whatever becomes of the collation of the database
--

-- Who has recorded a token is waited for, once.
LOCK TABLE redis_fences IN ACCESS EXCLUSIVE MODE;

-- If that has changed already, a key may have got a second row.  The index cannot tell,
-- and is not used, as it has another collation.
DELETE FROM redis_fences f
WHERE EXISTS (
    SELECT FROM redis_fences g
    WHERE g.key COLLATE "C" = f.key COLLATE "C"
        AND (g.token > f.token OR (g.token = f.token AND g.ctid > f.ctid)));

ALTER TABLE redis_fences ALTER COLUMN key TYPE text COLLATE "C";

--
-- What logical replication brings into the tables is about other locks
--

CREATE FUNCTION lockredis_replicated()
RETURNS trigger
AS 'MODULE_PATHNAME', 'lockredis_replicated'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION lockredis_replicated() IS
'trigger of the tables of lockredis, for changes that are replicated from another server: rows of locks are ignored, tokens are raised and never lowered or deleted, TRUNCATE is refused (55000)';

REVOKE ALL ON FUNCTION lockredis_replicated() FROM PUBLIC;

-- The fence table first: who has recorded a token is waited for, and meanwhile
-- the table worker, which writes the others, must not be kept out of them.
CREATE TRIGGER lockredis_replicated BEFORE INSERT OR UPDATE OR DELETE ON redis_fences
    FOR EACH ROW EXECUTE FUNCTION lockredis_replicated();
CREATE TRIGGER lockredis_replicated_truncate BEFORE TRUNCATE ON redis_fences
    EXECUTE FUNCTION lockredis_replicated();
ALTER TABLE redis_fences ENABLE REPLICA TRIGGER lockredis_replicated;
ALTER TABLE redis_fences ENABLE REPLICA TRIGGER lockredis_replicated_truncate;

CREATE TRIGGER lockredis_replicated BEFORE INSERT OR UPDATE OR DELETE ON redis_lock_rows
    FOR EACH ROW EXECUTE FUNCTION lockredis_replicated();
CREATE TRIGGER lockredis_replicated_truncate BEFORE TRUNCATE ON redis_lock_rows
    EXECUTE FUNCTION lockredis_replicated();
ALTER TABLE redis_lock_rows ENABLE REPLICA TRIGGER lockredis_replicated;
ALTER TABLE redis_lock_rows ENABLE REPLICA TRIGGER lockredis_replicated_truncate;

CREATE TRIGGER lockredis_replicated BEFORE INSERT OR UPDATE OR DELETE ON redis_lock_counters
    FOR EACH ROW EXECUTE FUNCTION lockredis_replicated();
CREATE TRIGGER lockredis_replicated_truncate BEFORE TRUNCATE ON redis_lock_counters
    EXECUTE FUNCTION lockredis_replicated();
ALTER TABLE redis_lock_counters ENABLE REPLICA TRIGGER lockredis_replicated;
ALTER TABLE redis_lock_counters ENABLE REPLICA TRIGGER lockredis_replicated_truncate;

--
-- Locks of a table that several have together
--

CREATE TABLE redis_lock_shares (
    key text COLLATE "C",
    kind text COLLATE "C",
    owner text COLLATE "C",
    lease interval NOT NULL,
    acquired_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    instance uuid,
    PRIMARY KEY (key, kind, owner)
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_threshold = 100000,
    autovacuum_analyze_scale_factor = 0
);

COMMENT ON TABLE redis_lock_shares IS
'table mode: a row for each of several who have a key together: readers, whose row in redis_lock_rows has that owner, and permits, which have none there; written by the table worker of lockredis.database only';
COMMENT ON COLUMN redis_lock_shares.key IS 'lock key with its prefix';
COMMENT ON COLUMN redis_lock_shares.kind IS 'kind of lock: read or permit';
COMMENT ON COLUMN redis_lock_shares.owner IS 'who has it: instance uuid and number as in redis_locks.owner, or permit: and a digest of the id of a permit that no session has';
COMMENT ON COLUMN redis_lock_shares.lease IS 'lease that expires_at was counted with';
COMMENT ON COLUMN redis_lock_shares.acquired_at IS 'clock_timestamp() when it was taken';
COMMENT ON COLUMN redis_lock_shares.expires_at IS 'end of the lease on the wall clock';
COMMENT ON COLUMN redis_lock_shares.instance IS 'instance of lockredis, whose locks end with it; null: it counts until expires_at';
COMMENT ON TABLE redis_lock_rows IS
'table mode: a row for each lock that somebody has; written by the table worker of lockredis.database only';
COMMENT ON COLUMN redis_lock_rows.owner IS 'who has it: instance uuid and number as in redis_locks.owner, readers for those in redis_lock_shares, or token: and a digest of the token';
COMMENT ON COLUMN redis_lock_rows.instance IS 'instance of lockredis, whose locks end with it; null: it counts until expires_at';
COMMENT ON COLUMN redis_lock_rows.comment IS 'not used';
COMMENT ON COLUMN redis_lock_rows.hold_count IS 'how often its session has it, or how many readers';

CREATE TRIGGER lockredis_replicated BEFORE INSERT OR UPDATE OR DELETE ON redis_lock_shares
    FOR EACH ROW EXECUTE FUNCTION lockredis_replicated();
CREATE TRIGGER lockredis_replicated_truncate BEFORE TRUNCATE ON redis_lock_shares
    EXECUTE FUNCTION lockredis_replicated();
ALTER TABLE redis_lock_shares ENABLE REPLICA TRIGGER lockredis_replicated;
ALTER TABLE redis_lock_shares ENABLE REPLICA TRIGGER lockredis_replicated_truncate;

--
-- Numbers that somebody has set
--

CREATE TABLE redis_lock_values (
    key text COLLATE "C",
    kind text COLLATE "C",
    value bigint NOT NULL,
    expires_at timestamptz,
    PRIMARY KEY (key, kind)
) WITH (fillfactor = 50);

COMMENT ON TABLE redis_lock_values IS
'table mode: how many permits there are of each key, and the like; written by the table worker of lockredis.database only';
COMMENT ON COLUMN redis_lock_values.key IS 'lock key with its prefix';
COMMENT ON COLUMN redis_lock_values.kind IS 'kind of what is counted, as permit';
COMMENT ON COLUMN redis_lock_values.value IS 'the number that was set, or what is left of it';
COMMENT ON COLUMN redis_lock_values.expires_at IS 'on the wall clock: it does not count any more; null: it does for ever';

CREATE TRIGGER lockredis_replicated BEFORE INSERT OR UPDATE OR DELETE ON redis_lock_values
    FOR EACH ROW EXECUTE FUNCTION lockredis_replicated();
CREATE TRIGGER lockredis_replicated_truncate BEFORE TRUNCATE ON redis_lock_values
    EXECUTE FUNCTION lockredis_replicated();
ALTER TABLE redis_lock_values ENABLE REPLICA TRIGGER lockredis_replicated;
ALTER TABLE redis_lock_values ENABLE REPLICA TRIGGER lockredis_replicated_truncate;

-- Numbers belong to nobody's session, so a dump has them.
SELECT pg_catalog.pg_extension_config_dump('redis_lock_values', '');

--
-- redis_locks
--

CREATE FUNCTION lockredis_application_name(pid integer)
RETURNS text
AS 'MODULE_PATHNAME', 'lockredis_application_name'
LANGUAGE C STABLE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION lockredis_application_name(integer) IS
'application_name of a session, for the view redis_locks; null: there is no such session';

-- New columns of views stand at the end: views of users that use them stay.
CREATE OR REPLACE VIEW redis_locks AS
SELECT l.pid, l.datid, l.usesysid, l.key, l.kind, l.scope, l.granted,
    l.hold_count, l.fence, l.lease, l.renewed, l.acquired_at, l.waiting_since,
    l.expires_in, l.renewals, l.lost_at, l.lost_reason, l.owner, l.blocked_by,
    pg_catalog.date_part('epoch', l.lease) AS lease_seconds,
    pg_catalog.date_part('epoch', l.expires_in) AS expires_in_seconds,
    (SELECT d.datname FROM pg_catalog.pg_database d
     WHERE d.oid OPERATOR(pg_catalog.=) l.datid) AS datname,
    pg_catalog.pg_get_userbyid(l.usesysid) AS usename,
    lockredis_application_name(l.pid) AS application_name
FROM lockredis_locks() l;

COMMENT ON VIEW redis_locks IS
'a row for each hold or wait of this server, from its lock table; key, owner and lost_reason of other roles'' sessions, and of orphans, are null without pg_read_all_stats';
COMMENT ON COLUMN redis_locks.pid IS 'process id of the session; null: an orphan, which the watchdog is about to give back';
COMMENT ON COLUMN redis_locks.datid IS 'OID of the session''s database';
COMMENT ON COLUMN redis_locks.usesysid IS 'OID of the role that the session has logged in as';
COMMENT ON COLUMN redis_locks.key IS 'lock key with its prefix, as in the store';
COMMENT ON COLUMN redis_locks.kind IS 'kind of lock: reentrant, fair, read, write or permit; of a session that waits also token, condition, semaphore or latch; semaphore or latch in a transaction: what is counted when it has committed, hold_count says how much';
COMMENT ON COLUMN redis_locks.scope IS 'session or transaction; null for an orphan';
COMMENT ON COLUMN redis_locks.granted IS 'true: the session has the lock; false: it waits, has lost it, or this is an orphan';
COMMENT ON COLUMN redis_locks.hold_count IS 'how often the session has it at this scope; null while it waits, and for an orphan';
COMMENT ON COLUMN redis_locks.fence IS 'fencing token of the hold; null: none was asked for';
COMMENT ON COLUMN redis_locks.lease IS 'longest lease asked for at this scope; null as hold_count';
COMMENT ON COLUMN redis_locks.renewed IS 'is the lease renewed by the watchdog?';
COMMENT ON COLUMN redis_locks.acquired_at IS 'when it was taken';
COMMENT ON COLUMN redis_locks.waiting_since IS 'since when the session waits; null: it does not';
COMMENT ON COLUMN redis_locks.expires_in IS 'rest of the lease, as this server counts; null unless granted';
COMMENT ON COLUMN redis_locks.renewals IS 'how often the lease was renewed';
COMMENT ON COLUMN redis_locks.lost_at IS 'when the loss was seen; null: not lost';
COMMENT ON COLUMN redis_locks.lost_reason IS 'how it was lost: expired, deleted, forced, moved (lockredis.url was changed), waiting (redis_condition_wait gave it back), or taken by <owner>';
COMMENT ON COLUMN redis_locks.owner IS 'owner as in the store, <instance>:<number>; null while it waits';
COMMENT ON COLUMN redis_locks.blocked_by IS 'process ids of this server that have the key or are ahead in its queue; empty: somebody elsewhere has it; null unless waiting';
COMMENT ON COLUMN redis_locks.lease_seconds IS 'lease in seconds';
COMMENT ON COLUMN redis_locks.expires_in_seconds IS 'expires_in in seconds';
COMMENT ON COLUMN redis_locks.datname IS 'name of the session''s database';
COMMENT ON COLUMN redis_locks.usename IS 'name of the role that the session has logged in as';
COMMENT ON COLUMN redis_locks.application_name IS 'application_name of the session, as in pg_stat_activity';

--
-- redis_lock_stats
--

CREATE FUNCTION lockredis_waits(
    OUT wait_seconds double precision,
    OUT held bigint,
    OUT waiting bigint,
    OUT unreplicated bigint,
    OUT failovers bigint,
    OUT idle_closes bigint,
    OUT repairs bigint)
RETURNS record
AS 'MODULE_PATHNAME', 'lockredis_waits'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION lockredis_waits() IS
'further columns of the view redis_lock_stats';

CREATE OR REPLACE VIEW redis_lock_stats AS
SELECT s.acquires, s.reentries, s.handoffs, s.busy, s.waits, s.timeouts,
    s.cancels, s.deadlocks, s.releases, s.renewals, s.losses,
    s.commits_refused, s.orphans, s.connects, s.errors, s.switches, s.moves,
    s.reset_at, w.wait_seconds, w.held, w.waiting, w.unreplicated, w.failovers,
    w.idle_closes, w.repairs
FROM lockredis_stats() s CROSS JOIN lockredis_waits() w;

COMMENT ON VIEW redis_lock_stats IS
'counts of this server since reset_at, from shared memory, not kept over a restart; held and waiting are of this moment';
COMMENT ON COLUMN redis_lock_stats.acquires IS 'locks taken from nobody, or handed over';
COMMENT ON COLUMN redis_lock_stats.reentries IS 'locks taken again by their holder';
COMMENT ON COLUMN redis_lock_stats.handoffs IS 'of the acquires, those from another session of this server, without the store';
COMMENT ON COLUMN redis_lock_stats.busy IS 'tries without waiting that found somebody else';
COMMENT ON COLUMN redis_lock_stats.waits IS 'acquires that had to wait';
COMMENT ON COLUMN redis_lock_stats.timeouts IS 'waits that a time limit ended';
COMMENT ON COLUMN redis_lock_stats.cancels IS 'acquires that were canceled';
COMMENT ON COLUMN redis_lock_stats.deadlocks IS 'waits that ended to break a deadlock';
COMMENT ON COLUMN redis_lock_stats.releases IS 'locks given back by their holder';
COMMENT ON COLUMN redis_lock_stats.renewals IS 'leases renewed by the watchdog';
COMMENT ON COLUMN redis_lock_stats.losses IS 'locks that were lost';
COMMENT ON COLUMN redis_lock_stats.commits_refused IS 'transactions that could not commit because of a lost lock';
COMMENT ON COLUMN redis_lock_stats.orphans IS 'requests without an answer that were left to the watchdog';
COMMENT ON COLUMN redis_lock_stats.connects IS 'connections made to the store';
COMMENT ON COLUMN redis_lock_stats.errors IS 'requests that the store failed or refused';
COMMENT ON COLUMN redis_lock_stats.switches IS 'fallback mode: changes from one store to the other';
COMMENT ON COLUMN redis_lock_stats.moves IS 'fallback mode: held locks that went along';
COMMENT ON COLUMN redis_lock_stats.reset_at IS 'since when is counted: start of the server, or redis_lock_stats_reset()';
COMMENT ON COLUMN redis_lock_stats.wait_seconds IS 'time that waits took in all, in seconds; each counts when it ends, however it ends';
COMMENT ON COLUMN redis_lock_stats.held IS 'rows of redis_locks that are granted, at this moment';
COMMENT ON COLUMN redis_lock_stats.waiting IS 'rows of redis_locks that wait, at this moment';
COMMENT ON COLUMN redis_lock_stats.failovers IS 'redis-sentinel:// and redis-cluster://: how often another node was found to be the master';
COMMENT ON COLUMN redis_lock_stats.unreplicated IS 'locks, renewals and tokens that fewer replicas confirmed than lockredis.min_replicas';
COMMENT ON COLUMN redis_lock_stats.idle_closes IS 'connections of sessions that were closed after lockredis.idle_timeout';
COMMENT ON COLUMN redis_lock_stats.repairs IS 'independent masters: locks that were put again where one of them had not got them, or had forgotten them';

--
-- redis_lock_status
--

CREATE OR REPLACE VIEW redis_lock_status AS
SELECT s.node, s.role, s.address, s.state, s.round_trip, s.version,
    s.renewal_lag, s.maxmemory_policy, s.last_error, s.last_error_at, s.in_use,
    s.since, s.reason,
    s.state OPERATOR(pg_catalog.=) 'up' AS up,
    pg_catalog.date_part('epoch', s.round_trip) AS round_trip_seconds,
    pg_catalog.date_part('epoch', s.renewal_lag) AS renewal_lag_seconds
FROM lockredis_status() s;

COMMENT ON COLUMN redis_lock_status.node IS 'number of the row, from 1: the node that has the locks, or each of several masters, then replicas, Sentinels, the table';
COMMENT ON COLUMN redis_lock_status.role IS 'master, replica (of it, or instead of it: then it refuses locks), sentinel, or table';
COMMENT ON COLUMN redis_lock_status.address IS 'host and port or socket; null without pg_monitor';
COMMENT ON COLUMN redis_lock_status.state IS 'up, down or connecting, as the watchdog sees it; of a replica as its master does: up is in step, connecting is not, or the master does not answer; of one of a cluster as its nodes do: down has failed, connecting: none of them answers';
COMMENT ON COLUMN redis_lock_status.round_trip IS 'of a request and its answer, as last measured; null: not yet, and of a replica';
COMMENT ON COLUMN redis_lock_status.version IS 'of Redis; of a table, of PostgreSQL; null of a replica';
COMMENT ON COLUMN redis_lock_status.renewal_lag IS 'how late the most delayed renewal is; zero: none is; null of a replica and a Sentinel';
COMMENT ON COLUMN redis_lock_status.maxmemory_policy IS 'maxmemory-policy of Redis; anything but noeviction can throw locks away';
COMMENT ON COLUMN redis_lock_status.last_error IS 'last failure with this lockredis.url, of the watchdog or of a session, also when it is over';
COMMENT ON COLUMN redis_lock_status.last_error_at IS 'when that was';
COMMENT ON COLUMN redis_lock_status.in_use IS 'do new locks go there?  Of a master that the Sentinels name: is it known for sure?  Of one of several that vote: is it up, and has it a vote?';
COMMENT ON COLUMN redis_lock_status.since IS 'fallback mode: when in_use changed last';
COMMENT ON COLUMN redis_lock_status.reason IS 'fallback mode: why in_use changed last; redis-sentinel://: why no master is in use; several masters: why this one has no vote';
COMMENT ON COLUMN redis_lock_status.up IS 'is state up?';
COMMENT ON COLUMN redis_lock_status.round_trip_seconds IS 'round_trip in seconds';
COMMENT ON COLUMN redis_lock_status.renewal_lag_seconds IS 'renewal_lag in seconds';

--
-- 40001 is for what a new transaction on the same connection can cure
--

COMMENT ON FUNCTION redis_lock(text, interval) IS
'take a session-level Redis lock, waiting for it; reentrant.  lease: at least 10 milliseconds, not renewed; null: lockredis.lease, renewed by the watchdog.  Errors: 55P03 lock_timeout, 55000 the lock of this session was lost (redis_unlock acknowledges that; 40001 if only this transaction had it), 58000/58030 store unreachable, 42809 no lock at that key, 53400 out of slots';

COMMENT ON FUNCTION redis_xact_lock(text, interval) IS
'take a transaction-level Redis lock, waiting for it; given back after the commit is visible, at rollback, or at rollback of its savepoint.  lease and errors as redis_lock; a lock that was lost makes COMMIT fail with 40001';

COMMENT ON FUNCTION redis_assert_held(text) IS
'raise an error if this session does not have the lock: 55000 if it has none or lost it at session level (redis_unlock acknowledges that), 40001 if it lost it at transaction level.  Without a round trip';

COMMENT ON PROCEDURE redis_with_lock(text, text, interval, interval, interval, boolean) IS
'run a command under a Redis lock: take it, commit, run, commit, give it back.  ran: false = the lock was busy for all of wait.  hold_at_least: the key stays locked until that long after the start, even after an error or a crash.  Errors: those of the command, those of redis_try_lock, 40001 the lock was lost before a commit, 2D000 inside a transaction block or after other commands of a pipeline';

--
-- Read-write locks
--

CREATE FUNCTION redis_read_lock(key text, lease interval DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'lockredis_read_lock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_read_lock(text, interval) IS
'take a session-level read lock, waiting for it: sessions that read have it together, and nobody writes meanwhile; reentrant.  For who has the write lock, too.  A writer who came before goes first.  lease and errors as redis_lock; 58030 in fallback mode while Redis is away';

CREATE FUNCTION redis_try_read_lock(key text, wait interval DEFAULT '0', lease interval DEFAULT NULL)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_try_read_lock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_try_read_lock(text, interval, interval) IS
'take a session-level read lock within a time limit; false: somebody else has the key, or goes first.  wait as redis_try_lock, the rest as redis_read_lock';

CREATE FUNCTION redis_read_xact_lock(key text, lease interval DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'lockredis_read_xact_lock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_read_xact_lock(text, interval) IS
'take a transaction-level read lock, waiting for it.  When it ends as redis_xact_lock, the rest as redis_read_lock';

CREATE FUNCTION redis_try_read_xact_lock(key text, wait interval DEFAULT '0', lease interval DEFAULT NULL)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_try_read_xact_lock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_try_read_xact_lock(text, interval, interval) IS
'take a transaction-level read lock within a time limit; false: somebody else has the key, or goes first.  wait as redis_try_lock, the rest as redis_read_xact_lock';

CREATE FUNCTION redis_write_lock(key text, lease interval DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'lockredis_write_lock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_write_lock(text, interval) IS
'take a session-level write lock, waiting for it: nobody else reads or writes meanwhile; reentrant.  lease and errors as redis_lock; 55000 also for who has the read lock only; 58030 in fallback mode while Redis is away';

CREATE FUNCTION redis_try_write_lock(key text, wait interval DEFAULT '0', lease interval DEFAULT NULL)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_try_write_lock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_try_write_lock(text, interval, interval) IS
'take a session-level write lock within a time limit; false: somebody else has the key, or goes first.  wait as redis_try_lock, the rest as redis_write_lock';

CREATE FUNCTION redis_write_xact_lock(key text, lease interval DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'lockredis_write_xact_lock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_write_xact_lock(text, interval) IS
'take a transaction-level write lock, waiting for it.  When it ends as redis_xact_lock, the rest as redis_write_lock';

CREATE FUNCTION redis_try_write_xact_lock(key text, wait interval DEFAULT '0', lease interval DEFAULT NULL)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_try_write_xact_lock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_try_write_xact_lock(text, interval, interval) IS
'take a transaction-level write lock within a time limit; false: somebody else has the key, or goes first.  wait as redis_try_lock, the rest as redis_write_xact_lock';

CREATE FUNCTION redis_read_unlock(key text)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_read_unlock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_read_unlock(text) IS
'give back one session-level hold of a read lock; false with a warning: not held, or its lease was lost';

CREATE FUNCTION redis_write_unlock(key text)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_write_unlock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_write_unlock(text) IS
'give back one session-level hold of a write lock; a session that reads too keeps reading.  false with a warning: not held, or its lease was lost';

CREATE FUNCTION redis_fenced_write_lock(key text, lease interval DEFAULT NULL)
RETURNS bigint
AS 'MODULE_PATHNAME', 'lockredis_fenced_write_lock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_fenced_write_lock(text, interval) IS
'take a session-level write lock and return its fencing token, from the same counter as redis_fenced_lock.  The rest as redis_write_lock';

CREATE FUNCTION redis_try_fenced_write_lock(key text, wait interval DEFAULT '0', lease interval DEFAULT NULL)
RETURNS bigint
AS 'MODULE_PATHNAME', 'lockredis_try_fenced_write_lock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_try_fenced_write_lock(text, interval, interval) IS
'take a session-level write lock within a time limit and return its fencing token; null: somebody else has the key, or goes first.  The rest as redis_try_write_lock';

CREATE FUNCTION redis_fenced_write_xact_lock(key text, lease interval DEFAULT NULL)
RETURNS bigint
AS 'MODULE_PATHNAME', 'lockredis_fenced_write_xact_lock'
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10000;

COMMENT ON FUNCTION redis_fenced_write_xact_lock(text, interval) IS
'take a transaction-level write lock and record its fencing token in redis_fences, in this transaction; returns the token.  The rest as redis_fenced_xact_lock and redis_write_xact_lock';

CREATE FUNCTION redis_try_fenced_write_xact_lock(key text, wait interval DEFAULT '0', lease interval DEFAULT NULL)
RETURNS bigint
AS 'MODULE_PATHNAME', 'lockredis_try_fenced_write_xact_lock'
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10000;

COMMENT ON FUNCTION redis_try_fenced_write_xact_lock(text, interval, interval) IS
'as redis_fenced_write_xact_lock within a time limit; null: somebody else has the key, or goes first';

--
-- Fair locks
--

CREATE FUNCTION redis_fair_lock(key text, lease interval DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'lockredis_fair_lock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_fair_lock(text, interval) IS
'take a session-level lock, waiting for it in the order in which all who wait for it so, on all servers, came to Redis.  The lock is that of redis_lock: reentrant, given back by redis_unlock.  lease and errors as redis_lock; in table mode, and while the table is in use in fallback mode, in that of the server''s queue';

CREATE FUNCTION redis_try_fair_lock(key text, wait interval DEFAULT '0', lease interval DEFAULT NULL)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_try_fair_lock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_try_fair_lock(text, interval, interval) IS
'take a session-level fair lock within a time limit; false: somebody else has the key, or goes first.  Without a wait it neither queues nor overtakes.  wait as redis_try_lock, the rest as redis_fair_lock';

CREATE FUNCTION redis_fair_xact_lock(key text, lease interval DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'lockredis_fair_xact_lock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_fair_xact_lock(text, interval) IS
'take a transaction-level lock, waiting for it as redis_fair_lock.  When it ends as redis_xact_lock';

CREATE FUNCTION redis_try_fair_xact_lock(key text, wait interval DEFAULT '0', lease interval DEFAULT NULL)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_try_fair_xact_lock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_try_fair_xact_lock(text, interval, interval) IS
'take a transaction-level fair lock within a time limit; false: somebody else has the key, or goes first.  wait as redis_try_fair_lock, the rest as redis_fair_xact_lock';

--
-- Several keys at once
--

CREATE FUNCTION redis_multi_lock(keys text[], lease interval DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'lockredis_multi_lock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_multi_lock(text[], interval) IS
'take the session-level Redis locks of all these keys (at most 1000), waiting for them, or none.  If all are free they are taken by one request; else one by one in the order of their names, and what has been had stays locked meanwhile.  A key that the session has is taken again.  lease and errors as redis_lock, for the whole call; 40001 one of them was lost before all were had';

CREATE FUNCTION redis_try_multi_lock(keys text[], wait interval DEFAULT '0', lease interval DEFAULT NULL)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_try_multi_lock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_try_multi_lock(text[], interval, interval) IS
'take the session-level Redis locks of all these keys within a time limit; false: somebody else has one of them, and none is taken.  wait as redis_try_lock, for the whole call; the rest as redis_multi_lock';

CREATE FUNCTION redis_multi_xact_lock(keys text[], lease interval DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'lockredis_multi_xact_lock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_multi_xact_lock(text[], interval) IS
'take the transaction-level Redis locks of all these keys, waiting for them, or none.  When they end as redis_xact_lock, the rest as redis_multi_lock';

CREATE FUNCTION redis_try_multi_xact_lock(keys text[], wait interval DEFAULT '0', lease interval DEFAULT NULL)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_try_multi_xact_lock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_try_multi_xact_lock(text[], interval, interval) IS
'take the transaction-level Redis locks of all these keys within a time limit; false: somebody else has one of them, and none is taken.  wait as redis_try_multi_lock, the rest as redis_multi_xact_lock';

CREATE FUNCTION redis_multi_unlock(keys text[])
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_multi_unlock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_multi_unlock(text[]) IS
'give back one session-level hold of each of these keys, by one request if it is their last; each can be given back by redis_unlock, too.  false with warnings: one of them was not held, or its lease was lost; the others are given back';

--
-- The same questions of one kind of lock
--

CREATE FUNCTION redis_is_held(key text, kind text)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_is_held'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION redis_is_held(text, text) IS
'does this session have the lock of that kind (reentrant, fair, read, write or permit; else 22023), and was it not lost?  Without a round trip';

CREATE FUNCTION redis_hold_count(key text, kind text)
RETURNS integer
AS 'MODULE_PATHNAME', 'lockredis_hold_count'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION redis_hold_count(text, text) IS
'how often this session has the lock of that kind; 0 when it was lost.  Without a round trip';

CREATE FUNCTION redis_assert_held(key text, kind text)
RETURNS void
AS 'MODULE_PATHNAME', 'lockredis_assert_held'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION redis_assert_held(text, text) IS
'raise an error if this session does not have the lock of that kind, as redis_assert_held(key)';

CREATE FUNCTION redis_fence(key text, kind text)
RETURNS bigint
AS 'MODULE_PATHNAME', 'lockredis_fence'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION redis_fence(text, text) IS
'fencing token of the lock of that kind that this session has; null: none, or it was lost.  Without a round trip';

CREATE FUNCTION redis_extend(key text, lease interval, kind text)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_extend'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_extend(text, interval) IS
'keep the Redis lock of this session for at least that long from now, and end its renewal; null: have it renewed again.  Never shortens.  False: it was lost.  Errors: 55000 not held, 58030 no answer (the old lease stands)';

COMMENT ON FUNCTION redis_fence_check(text, bigint) IS
'record a fencing token issued elsewhere, 1 to 2^53-1 (else 22003), in this transaction; 23000: a higher one was recorded';

COMMENT ON FUNCTION redis_extend(text, interval, text) IS
'as redis_extend(key, lease), of the lock of that kind';

COMMENT ON FUNCTION redis_lock_owner(text) IS
'who has the lock, asked of the store: instance uuid and number, as in redis_locks.owner; read or <n> readers: a read lock; <n> of <total> permits; token: a token lock of another client; null: nobody.  Error 42809: the key holds something else';

--
-- Semaphores without owners
--

CREATE FUNCTION redis_semaphore_init(key text, permits integer, ttl interval DEFAULT NULL)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_semaphore_init'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_semaphore_init(text, integer, interval) IS
'make a semaphore with so many permits, for good or for that long; false: there is one.  Nobody owns a permit: what a session that ends has taken stays taken (use permits, if it should not).  Error 42809: the key holds something else; 58030 no answer: it may have been made';

CREATE FUNCTION redis_semaphore_acquire(key text, permits integer DEFAULT 1)
RETURNS void
AS 'MODULE_PATHNAME', 'lockredis_semaphore_acquire'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_semaphore_acquire(text, integer) IS
'take so many permits of a semaphore, all or none, waiting for them, within lock_timeout and statement_timeout.  Of nobody: they are not given back at the end of the session or by a rollback, only by redis_semaphore_release (use permits, if they should be).  Where there is no semaphore it waits for one';

CREATE FUNCTION redis_try_semaphore_acquire(key text, permits integer DEFAULT 1, wait interval DEFAULT '0')
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_try_semaphore_acquire'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_try_semaphore_acquire(text, integer, interval) IS
'take so many permits of a semaphore within a time limit; false: there are not so many, or there is no semaphore.  Of nobody, as redis_semaphore_acquire (use permits, if they should come back)';

CREATE FUNCTION redis_semaphore_release(key text, permits integer DEFAULT 1)
RETURNS void
AS 'MODULE_PATHNAME', 'lockredis_semaphore_release'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_semaphore_release(text, integer) IS
'give so many permits to a semaphore, whoever took them; it is made if there is none.  At once: a rollback does not undo it.  Without an answer a warning, also if it is cancelled then: they are counted once.  Of nobody (use permits, if a session should own them)';

CREATE FUNCTION redis_semaphore_xact_release(key text, permits integer DEFAULT 1)
RETURNS void
AS 'MODULE_PATHNAME', 'lockredis_semaphore_xact_release'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_semaphore_xact_release(text, integer) IS
'give so many permits to a semaphore when the transaction has committed and is visible; not at all if it, or the savepoint, is rolled back.  If Redis is away then, the watchdog does it later, but not after a crash of this server.  Error 0A000: PREPARE TRANSACTION after it.  Of nobody (use permits, if a session should own them)';

CREATE FUNCTION redis_semaphore_add(key text, permits integer)
RETURNS void
AS 'MODULE_PATHNAME', 'lockredis_semaphore_add'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_semaphore_add(text, integer) IS
'make a semaphore larger by so many permits, or smaller: what is free may be negative for a time.  Error 58030 no answer: it may have been done.  Of nobody (use permits, if a session should own them)';

CREATE FUNCTION redis_semaphore_drain(key text)
RETURNS integer
AS 'MODULE_PATHNAME', 'lockredis_semaphore_drain'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_semaphore_drain(text) IS
'take all permits of a semaphore that are free; how many that were, 0 if there is none.  Of nobody, as redis_semaphore_acquire (use permits, if they should come back).  Error 22003 more than an integer: none is taken; 58030 no answer: it may have been done';

CREATE FUNCTION redis_semaphore_available(key text)
RETURNS integer
AS 'MODULE_PATHNAME', 'lockredis_semaphore_available'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_semaphore_available(text) IS
'how many permits of a semaphore are free, asked of the store; 0 if there is no semaphore.  Of nobody: who took the others is not known (use permits, if it should be)';

--
-- Latches
--

CREATE FUNCTION redis_latch_set(key text, count bigint)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_latch_set'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_latch_set(text, bigint) IS
'make a latch that has to be counted down so often; false: there is one.  Error 42809: the key holds something else; 58030 no answer: it may have been made';

CREATE FUNCTION redis_latch_count_down(key text)
RETURNS bigint
AS 'MODULE_PATHNAME', 'lockredis_latch_count_down'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_latch_count_down(text) IS
'count a latch down by one, at once: a rollback does not undo it; what is left, 0 also where there is no latch.  At zero it is gone, and who awaits it goes on.  null with a warning: no answer; it counts once, also if it is cancelled then';

CREATE FUNCTION redis_latch_xact_count_down(key text)
RETURNS void
AS 'MODULE_PATHNAME', 'lockredis_latch_xact_count_down'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_latch_xact_count_down(text) IS
'count a latch down by one when the transaction has committed and is visible; not at all if it, or the savepoint, is rolled back.  If Redis is away then, the watchdog does it later, but not after a crash of this server.  Error 0A000: PREPARE TRANSACTION after it';

CREATE FUNCTION redis_latch_count(key text)
RETURNS bigint
AS 'MODULE_PATHNAME', 'lockredis_latch_count'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_latch_count(text) IS
'how often a latch has still to be counted down, asked of the store; 0 if there is none';

CREATE FUNCTION redis_latch_wait(key text, wait interval DEFAULT NULL)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_latch_wait'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_latch_wait(text, interval) IS
'wait until a latch has been counted down to zero, or there is none; false: wait is over.  Also within lock_timeout and statement_timeout';

CREATE FUNCTION redis_latch_delete(key text)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_latch_delete'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_latch_delete(text) IS
'take a latch away: who awaits it goes on, as if it were zero; false: there is none.  Error 58030 no answer: it may have been done';

--
-- Token locks
--

CREATE FUNCTION redis_token_lock(key text, lease interval, token text DEFAULT NULL)
RETURNS text
AS 'MODULE_PATHNAME', 'lockredis_token_lock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_token_lock(text, interval, text) IS
'take a token lock (that of redis-py, redsync and node-redlock), waiting for it; returns its token, a new one if none is passed (1 to 1024 bytes).  It belongs to whoever knows the token: no session has it, no end of a transaction or session gives it back, nobody renews it.  Waits while the key holds anything, a lock of the same token too.  lease is required; errors as redis_lock, 55000 this session has another lock of the key, 22004 no lease';

CREATE FUNCTION redis_try_token_lock(key text, wait interval, lease interval, token text DEFAULT NULL)
RETURNS text
AS 'MODULE_PATHNAME', 'lockredis_try_token_lock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_try_token_lock(text, interval, interval, text) IS
'take a token lock within a time limit; null: the key holds something.  wait as redis_try_lock, the rest as redis_token_lock';

CREATE FUNCTION redis_token_unlock(key text, token text)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_token_unlock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_token_unlock(text, text) IS
'give a token lock back, in whatever session, and wake who waits for the key; false: the token does not have it (any more).  Error 58030 if the store did not answer: then it may be repeated';

CREATE FUNCTION redis_token_extend(key text, token text, lease interval)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_token_extend'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_token_extend(text, text, interval) IS
'keep a token lock for at least that long from now; never shortens its lease.  false: the token does not have it (any more).  Error 58030 as redis_token_unlock';

CREATE FUNCTION redis_token_is_held(key text, token text)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_token_is_held'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_token_is_held(text, text) IS
'has the token the lock?  Asked of the store';

--
-- Permits
--

CREATE FUNCTION redis_permit_set(key text, permits integer)
RETURNS void
AS 'MODULE_PATHNAME', 'lockredis_permit_set'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_permit_set(text, integer) IS
'say how many permits there are of the key, at least 0; those that somebody has count.  Takes none away: more are free, or fewer until some are given back.  Error 58030: not answered, look at redis_permit_total';

CREATE FUNCTION redis_permit_init(key text, permits integer)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_permit_init'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_permit_init(text, integer) IS
'the same, unless somebody has said so already: false then';

CREATE FUNCTION redis_permit_total(key text)
RETURNS integer
AS 'MODULE_PATHNAME', 'lockredis_permit_total'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_permit_total(text) IS
'how many permits there are of the key, those that somebody has included; null: nobody has said so';

CREATE FUNCTION redis_permit_available(key text)
RETURNS integer
AS 'MODULE_PATHNAME', 'lockredis_permit_available'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_permit_available(text) IS
'how many permits of the key are free; null: nobody has said how many there are';

CREATE FUNCTION redis_permit_lock(key text, lease interval DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'lockredis_permit_lock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_permit_lock(text, interval) IS
'take a permit at session level, waiting for one: at most as many as redis_permit_set has said are had at a time, on all servers.  Each call takes one more.  lease and errors as redis_lock; 42704 nobody has said how many there are; in fallback mode 58030 while Redis is away';

CREATE FUNCTION redis_try_permit_lock(key text, wait interval DEFAULT '0', lease interval DEFAULT NULL)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_try_permit_lock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_try_permit_lock(text, interval, interval) IS
'take a permit at session level within a time limit; false: none was free.  wait as redis_try_lock, the rest as redis_permit_lock';

CREATE FUNCTION redis_permit_xact_lock(key text, lease interval DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'lockredis_permit_xact_lock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_permit_xact_lock(text, interval) IS
'take a permit at transaction level, waiting for one.  When it ends as redis_xact_lock, the rest as redis_permit_lock';

CREATE FUNCTION redis_try_permit_xact_lock(key text, wait interval DEFAULT '0', lease interval DEFAULT NULL)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_try_permit_xact_lock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_try_permit_xact_lock(text, interval, interval) IS
'take a permit at transaction level within a time limit; false: none was free.  wait as redis_try_lock, the rest as redis_permit_xact_lock';

CREATE FUNCTION redis_permit_unlock(key text)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_permit_unlock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_permit_unlock(text) IS
'give back one session-level permit, one that was lost before all others, else the youngest; false with a warning: none was held, or it was lost';

CREATE FUNCTION redis_permit_acquire(key text, lease interval, wait interval DEFAULT '0')
RETURNS text
AS 'MODULE_PATHNAME', 'lockredis_permit_acquire'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_permit_acquire(text, interval, interval) IS
'take a permit that no session has, and return its id (32 hexadecimal digits; who knows it can give the permit back); null: none was free.  It ends with redis_permit_release or its lease, not with the session or transaction.  lease: 10 ms to 24 days.  wait and errors as redis_try_permit_lock';

CREATE FUNCTION redis_permit_release(key text, id text)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_permit_release'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_permit_release(text, text) IS
'give back a permit of redis_permit_acquire; false: it was not had any more.  Error 22023: no such id can be';

CREATE FUNCTION redis_permit_extend(key text, id text, lease interval)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_permit_extend'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_permit_extend(text, text, interval) IS
'keep a permit of redis_permit_acquire for at least that long from now; false: it is not had any more';

CREATE PROCEDURE redis_with_permit(key text, command text, wait interval DEFAULT '0',
    lease interval DEFAULT NULL, INOUT ran boolean DEFAULT NULL)
AS 'MODULE_PATHNAME', 'lockredis_with_permit'
LANGUAGE C;

COMMENT ON PROCEDURE redis_with_permit(text, text, interval, interval, boolean) IS
'run a command under a permit: take it, commit, run, commit, give it back.  ran: false = none was free for all of wait.  Errors: those of the command, those of redis_try_permit_lock, 2D000 inside a transaction block';

--
-- Conditions
--

CREATE FUNCTION redis_condition_wait(key text, wait interval DEFAULT NULL, condition text DEFAULT '')
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_condition_wait'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_condition_wait(text, interval, text) IS
'give the session-level lock of redis_lock or redis_fair_lock back, sleep until somebody notifies that condition of it, take the lock again as it was, and only then return.  false: wait (null: no limit) was over before; true can come for nothing, so check again in a loop.  lock_timeout limits the taking again.  After an error, cancel or time limit the lock is lost until redis_unlock.  55000 not held; 0A000 held by the transaction, too';

CREATE FUNCTION redis_condition_notify(key text, condition text DEFAULT '')
RETURNS bigint
AS 'MODULE_PATHNAME', 'lockredis_condition_notify'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_condition_notify(text, text) IS
'wake the session of any server that has waited longest for that condition of a lock, which this session must have (else 55000); it goes on when it has the lock.  How many were told: 1, or 0 if nobody waits, and nothing is kept for later';

CREATE FUNCTION redis_condition_notify_all(key text, condition text DEFAULT '')
RETURNS bigint
AS 'MODULE_PATHNAME', 'lockredis_condition_notify_all'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_condition_notify_all(text, text) IS
'wake all sessions that wait for that condition of a lock; as redis_condition_notify.  How many were told';

--
-- A condition of a WHERE clause that asks a store is for the rows that all others leave
--

ALTER FUNCTION redis_lock(text, interval) COST 10000;
ALTER FUNCTION redis_try_lock(text, interval, interval) COST 10000;
ALTER FUNCTION redis_xact_lock(text, interval) COST 10000;
ALTER FUNCTION redis_try_xact_lock(text, interval, interval) COST 10000;
ALTER FUNCTION redis_fenced_lock(text, interval) COST 10000;
ALTER FUNCTION redis_try_fenced_lock(text, interval, interval) COST 10000;
ALTER FUNCTION redis_fenced_xact_lock(text, interval) COST 10000;
ALTER FUNCTION redis_try_fenced_xact_lock(text, interval, interval) COST 10000;
ALTER FUNCTION redis_unlock(text) COST 10000;
ALTER FUNCTION redis_unlock_all() COST 10000;
ALTER FUNCTION redis_extend(text, interval) COST 10000;
ALTER FUNCTION redis_force_unlock(text) COST 10000;
COMMENT ON FUNCTION redis_force_unlock(text) IS
'take a Redis lock away from whoever has it, of whatever kind (all readers, all permits, a token); false: nobody had it.  Sessions of this server have lost it when it returns.  Error 42809: the key holds something else.  For administrators';
ALTER FUNCTION redis_is_locked(text) COST 10000;
ALTER FUNCTION redis_lock_ttl(text) COST 10000;
ALTER FUNCTION redis_lock_owner(text) COST 10000;

--
-- What reads or changes any whole number, or a string that somebody can guess, is not for
-- everybody
--

REVOKE ALL ON FUNCTION
    redis_semaphore_init(text, integer, interval),
    redis_semaphore_acquire(text, integer),
    redis_try_semaphore_acquire(text, integer, interval),
    redis_semaphore_release(text, integer),
    redis_semaphore_xact_release(text, integer),
    redis_semaphore_add(text, integer),
    redis_semaphore_drain(text),
    redis_semaphore_available(text),
    redis_latch_set(text, bigint),
    redis_latch_count_down(text),
    redis_latch_xact_count_down(text),
    redis_latch_count(text),
    redis_latch_wait(text, interval),
    redis_latch_delete(text),
    redis_token_lock(text, interval, text),
    redis_try_token_lock(text, interval, interval, text),
    redis_token_unlock(text, text),
    redis_token_extend(text, text, interval),
    redis_token_is_held(text, text),
    redis_permit_set(text, integer),
    redis_permit_init(text, integer),
    redis_permit_total(text),
    redis_permit_available(text)
FROM PUBLIC;
