/* lockredis--1.0--1.1.sql */

-- complain if script is sourced in psql, rather than via ALTER EXTENSION
\echo Use "ALTER EXTENSION lockredis UPDATE TO '1.1'" to load this file. \quit

--
-- Keys are compared byte by byte, whatever becomes of the collation of the database
--

-- Who has recorded a token is waited for, once.
LOCK TABLE redis_fences IN ACCESS EXCLUSIVE MODE;

-- If that has changed already, a key may have got a second row.  The index cannot tell,
-- and is not used, as it has another collation.  A role with the right TRIGGER on the
-- table must not have its code run by whoever updates.
CREATE FUNCTION lockredis_update()
RETURNS void
LANGUAGE sql
SET session_replication_role = 'replica'
AS $$
    DELETE FROM redis_fences f
    WHERE EXISTS (
        SELECT FROM redis_fences g
        WHERE g.key COLLATE "C" = f.key COLLATE "C"
            AND (g.token > f.token OR (g.token = f.token AND g.ctid > f.ctid)));
$$;
SELECT lockredis_update();
DROP FUNCTION lockredis_update();

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
'table mode: a row for each of several holders of one key: readers, for which redis_lock_rows has one row with the owner readers, and permits, for which it has none; written by the table worker of lockredis.database only';
COMMENT ON COLUMN redis_lock_shares.key IS 'lock key with its prefix';
COMMENT ON COLUMN redis_lock_shares.kind IS 'kind of lock: read or permit';
COMMENT ON COLUMN redis_lock_shares.owner IS 'holder: instance uuid and number as in redis_locks.owner, or permit: and a digest of the id of a permit that belongs to no session';
COMMENT ON COLUMN redis_lock_shares.lease IS 'lease from which expires_at was computed';
COMMENT ON COLUMN redis_lock_shares.acquired_at IS 'clock_timestamp() when it was taken';
COMMENT ON COLUMN redis_lock_shares.expires_at IS 'end of the lease, on a clock that does not jump and showed the time of day when the server started; on the wall clock if instance is null';
COMMENT ON COLUMN redis_lock_shares.instance IS 'instance of lockredis, whose locks end with it; null: it counts until expires_at';
COMMENT ON TABLE redis_lock_rows IS
'table mode: a row for each lock that is held; written by the table worker of lockredis.database only';
COMMENT ON COLUMN redis_lock_rows.fence IS 'fencing token that was asked for last for this hold; sessions that it was handed to may have got later ones since; null: none was asked for';
COMMENT ON COLUMN redis_lock_counters.token IS 'fencing token that was taken last';
COMMENT ON COLUMN redis_lock_rows.owner IS 'holder: instance uuid and number as in redis_locks.owner, readers for those in redis_lock_shares, or token: and a digest of the token';
COMMENT ON COLUMN redis_lock_rows.expires_at IS 'end of the lease, on a clock that does not jump and showed the time of day when the server started; on the wall clock if instance is null';
COMMENT ON COLUMN redis_lock_rows.instance IS 'instance of lockredis, whose locks end with it; null: it counts until expires_at';
COMMENT ON COLUMN redis_lock_rows.comment IS 'not used';
COMMENT ON COLUMN redis_lock_rows.hold_count IS '1, or the number of readers';

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
COMMENT ON COLUMN redis_lock_values.kind IS 'what is counted: permit, semaphore or latch';
COMMENT ON COLUMN redis_lock_values.value IS 'the number that was set, or what is left of it';
COMMENT ON COLUMN redis_lock_values.expires_at IS 'end on the wall clock, after which the number does not count; null: none';

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

CREATE FUNCTION lockredis_blocked_by_owner(pid integer)
RETURNS text
AS 'MODULE_PATHNAME', 'lockredis_blocked_by_owner'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION lockredis_blocked_by_owner(integer) IS
'owner on another server that a waiting session waits for, for the view redis_locks; null: not known';

-- New columns of views stand at the end: views of users that use them stay.  The names of
-- applications are read once for all rows, and a row finds its own by its pid.  (A join might
-- change the order of the rows, which is that of the queue.)
CREATE OR REPLACE VIEW redis_locks AS
SELECT l.pid, l.datid, l.usesysid, l.key, l.kind, l.scope, l.granted,
    l.hold_count, l.fence, l.lease, l.renewed, l.acquired_at, l.waiting_since,
    l.expires_in, l.renewals, l.lost_at, l.lost_reason, l.owner, l.blocked_by,
    pg_catalog.date_part('epoch', l.lease) AS lease_seconds,
    pg_catalog.date_part('epoch', l.expires_in) AS expires_in_seconds,
    (SELECT d.datname FROM pg_catalog.pg_database d
     WHERE d.oid OPERATOR(pg_catalog.=) l.datid) AS datname,
    pg_catalog.pg_get_userbyid(l.usesysid) AS usename,
    (SELECT pg_catalog.jsonb_object_agg(a.pid, a.application_name)
     FROM pg_catalog.pg_stat_get_activity(NULL) a)
        OPERATOR(pg_catalog.->>) l.pid::pg_catalog.text AS application_name,
    CASE WHEN l.waiting_since IS NOT NULL
        THEN lockredis_blocked_by_owner(l.pid) END AS blocked_by_owner
FROM lockredis_locks() l;

COMMENT ON VIEW redis_locks IS
'a row for each hold or wait of this server, from its lock table; key, owner, blocked_by_owner and lost_reason of other roles'' sessions, and of orphans, are null without pg_read_all_stats';
COMMENT ON COLUMN redis_locks.pid IS 'process id of the session; null: an orphan, which the watchdog is about to release';
COMMENT ON COLUMN redis_locks.datid IS 'OID of the session''s database';
COMMENT ON COLUMN redis_locks.usesysid IS 'OID of the role that the session has logged in as';
COMMENT ON COLUMN redis_locks.key IS 'lock key with its prefix, as in the store';
COMMENT ON COLUMN redis_locks.kind IS 'kind of lock: reentrant, fair, read, write or permit; of a session that waits also token, condition, semaphore or latch; semaphore or latch in a transaction: what is counted when it has committed, hold_count says how much';
COMMENT ON COLUMN redis_locks.scope IS 'session or transaction; null for an orphan';
COMMENT ON COLUMN redis_locks.granted IS 'true: the session has the lock; false: it waits, has lost it, or this is an orphan';
COMMENT ON COLUMN redis_locks.hold_count IS 'how often the session holds it at this scope; null while it waits, and for an orphan';
COMMENT ON COLUMN redis_locks.fence IS 'fencing token of the hold; null: none was asked for';
COMMENT ON COLUMN redis_locks.lease IS 'longest lease asked for at this scope since it was taken or last extended; null as hold_count';
COMMENT ON COLUMN redis_locks.renewed IS 'whether the watchdog renews the lease';
COMMENT ON COLUMN redis_locks.acquired_at IS 'when it was taken';
COMMENT ON COLUMN redis_locks.waiting_since IS 'since when the session waits; null: it does not';
COMMENT ON COLUMN redis_locks.expires_in IS 'rest of the lease, as this server counts; null unless granted';
COMMENT ON COLUMN redis_locks.renewals IS 'how often the lease was renewed';
COMMENT ON COLUMN redis_locks.lost_at IS 'when the loss was seen; null: not lost, or redis_condition_wait is about to take it again';
COMMENT ON COLUMN redis_locks.lost_reason IS 'how it was lost: expired, deleted, forced, moved (lockredis.url was changed), waiting (redis_condition_wait released it), or taken by <owner>';
COMMENT ON COLUMN redis_locks.owner IS 'owner as in the store, <instance>:<number>; null while it waits';
COMMENT ON COLUMN redis_locks.blocked_by IS 'process ids of this server that hold the key or are ahead in its queue; empty: the holder is elsewhere; null unless waiting';
COMMENT ON COLUMN redis_locks.lease_seconds IS 'lease in seconds';
COMMENT ON COLUMN redis_locks.expires_in_seconds IS 'expires_in in seconds';
COMMENT ON COLUMN redis_locks.datname IS 'name of the session''s database';
COMMENT ON COLUMN redis_locks.usename IS 'name of the role that the session has logged in as';
COMMENT ON COLUMN redis_locks.application_name IS 'application_name of the session, as in pg_stat_activity';
COMMENT ON COLUMN redis_locks.blocked_by_owner IS 'owner on another server, or of another client, that the session waits for, as the store named it last; null: a session of this server holds the lock, or the store has named no owner';

--
-- redis_lock_stats
--

CREATE FUNCTION lockredis_waits(
    OUT waited bigint,
    OUT unreplicated bigint,
    OUT failovers bigint,
    OUT idle_closes bigint,
    OUT repairs bigint,
    OUT condition_waits bigint,
    OUT condition_waited bigint,
    OUT slot_refusals bigint,
    OUT held bigint,
    OUT waiting bigint,
    OUT condition_waiting bigint,
    OUT slots bigint)
RETURNS record
AS 'MODULE_PATHNAME', 'lockredis_waits'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION lockredis_waits() IS
'further columns of the view redis_lock_stats';

CREATE OR REPLACE VIEW redis_lock_stats AS
SELECT s.acquires, s.reentries, s.handoffs, s.busy, s.waits, s.timeouts,
    s.cancels, s.deadlocks, s.releases, s.renewals, s.losses,
    s.commits_refused, s.orphans, s.connects, s.errors, s.switches, s.moves,
    s.reset_at,
    CAST(w.waited AS double precision) OPERATOR(pg_catalog./) 1000000 AS wait_seconds,
    w.held, w.waiting, w.unreplicated, w.failovers,
    w.idle_closes, w.repairs, w.condition_waits,
    CAST(w.condition_waited AS double precision) OPERATOR(pg_catalog./) 1000000
        AS condition_wait_seconds,
    w.condition_waiting, w.slots, w.slot_refusals
FROM lockredis_stats() s CROSS JOIN lockredis_waits() w;

COMMENT ON VIEW redis_lock_stats IS
'counts of this server since reset_at, from shared memory, not kept over a restart; held, waiting, condition_waiting and slots are of this moment';
COMMENT ON COLUMN redis_lock_stats.acquires IS 'locks that were free, or passed to a session by another one of this server';
COMMENT ON COLUMN redis_lock_stats.reentries IS 'locks taken again by their holder';
COMMENT ON COLUMN redis_lock_stats.handoffs IS 'acquires that got the lock from another session of this server, without the store';
COMMENT ON COLUMN redis_lock_stats.busy IS 'tries without waiting that found the lock taken';
COMMENT ON COLUMN redis_lock_stats.waits IS 'acquires that had to wait';
COMMENT ON COLUMN redis_lock_stats.timeouts IS 'waits that a time limit ended';
COMMENT ON COLUMN redis_lock_stats.cancels IS 'acquires that were canceled';
COMMENT ON COLUMN redis_lock_stats.deadlocks IS 'waits that ended to break a deadlock';
COMMENT ON COLUMN redis_lock_stats.releases IS 'locks released by their holder, without permits by their ids';
COMMENT ON COLUMN redis_lock_stats.renewals IS 'leases renewed by the watchdog';
COMMENT ON COLUMN redis_lock_stats.losses IS 'locks that were lost';
COMMENT ON COLUMN redis_lock_stats.commits_refused IS 'transactions that could not commit because of a lost lock';
COMMENT ON COLUMN redis_lock_stats.orphans IS 'requests without an answer that were left to the watchdog';
COMMENT ON COLUMN redis_lock_stats.connects IS 'connections made to the store';
COMMENT ON COLUMN redis_lock_stats.errors IS 'requests that the store failed or refused';
COMMENT ON COLUMN redis_lock_stats.switches IS 'fallback mode: changes from one store to the other';
COMMENT ON COLUMN redis_lock_stats.moves IS 'fallback mode: held locks that were carried over at such a change';
COMMENT ON COLUMN redis_lock_stats.reset_at IS 'when the counts began: at the start of the server or at redis_lock_stats_reset()';
COMMENT ON COLUMN redis_lock_stats.wait_seconds IS 'total time of waits in seconds; each wait is added when it ends, however it ends';
COMMENT ON COLUMN redis_lock_stats.held IS 'rows of redis_locks that are granted, at this moment';
COMMENT ON COLUMN redis_lock_stats.waiting IS 'rows of redis_locks that wait for a lock, at this moment';
COMMENT ON COLUMN redis_lock_stats.failovers IS 'redis-sentinel:// and redis-cluster://: how often another node was found to be the master';
COMMENT ON COLUMN redis_lock_stats.unreplicated IS 'locks, renewals and tokens that fewer replicas confirmed than lockredis.min_replicas';
COMMENT ON COLUMN redis_lock_stats.idle_closes IS 'connections of sessions that were closed after lockredis.idle_timeout';
COMMENT ON COLUMN redis_lock_stats.repairs IS 'independent masters: locks that were restored on a master that had not granted them or had lost them';
COMMENT ON COLUMN redis_lock_stats.condition_waits IS 'sleeps in redis_condition_wait; waits, timeouts, cancels and wait_seconds do not count them';
COMMENT ON COLUMN redis_lock_stats.condition_wait_seconds IS 'total time of these sleeps in seconds; each is added when it ends, however it ends';
COMMENT ON COLUMN redis_lock_stats.condition_waiting IS 'rows of redis_locks that wait for a condition, at this moment';
COMMENT ON COLUMN redis_lock_stats.slots IS 'how many of lockredis.max_locks are in use at this moment';
COMMENT ON COLUMN redis_lock_stats.slot_refusals IS 'calls that failed because all of lockredis.max_locks were in use (53400)';

--
-- redis_lock_status
--

CREATE FUNCTION lockredis_nodes(
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
    OUT reason text,
    OUT instance text,
    OUT certificate_expires timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'lockredis_status'
LANGUAGE C VOLATILE PARALLEL RESTRICTED ROWS 1;

COMMENT ON FUNCTION lockredis_nodes() IS
'rows of the view redis_lock_status; lockredis_status() was that of version 1.0';

CREATE OR REPLACE VIEW redis_lock_status AS
SELECT s.node, s.role, s.address, s.state, s.round_trip, s.version,
    s.renewal_lag, s.maxmemory_policy, s.last_error, s.last_error_at, s.in_use,
    s.since, s.reason,
    s.state OPERATOR(pg_catalog.=) 'up' AS up,
    pg_catalog.date_part('epoch', s.round_trip) AS round_trip_seconds,
    pg_catalog.date_part('epoch', s.renewal_lag) AS renewal_lag_seconds,
    s.instance, s.certificate_expires
FROM lockredis_nodes() s;

COMMENT ON COLUMN redis_lock_status.node IS 'number of the row, from 1: the node that has the locks, or each of several masters, then replicas, Sentinels, the table';
COMMENT ON COLUMN redis_lock_status.role IS 'master, replica (of it, or instead of it: then it refuses locks), sentinel, or table';
COMMENT ON COLUMN redis_lock_status.address IS 'host and port or socket; null without pg_monitor';
COMMENT ON COLUMN redis_lock_status.state IS 'up, down or connecting, as the watchdog sees it; of a replica as its master does: up is in step, connecting is not, or the master does not answer; of one of a cluster as its nodes do: down has failed, connecting: none of them answers';
COMMENT ON COLUMN redis_lock_status.round_trip IS 'of a request and its answer, as last measured; null: not yet, and of a replica';
COMMENT ON COLUMN redis_lock_status.version IS 'of Redis; of a table, of PostgreSQL; null of a replica';
COMMENT ON COLUMN redis_lock_status.renewal_lag IS 'how late the most delayed renewal is; zero: none is; null of a replica and a Sentinel';
COMMENT ON COLUMN redis_lock_status.maxmemory_policy IS 'maxmemory-policy of Redis; with anything but noeviction it can delete locks';
COMMENT ON COLUMN redis_lock_status.last_error IS 'last failure with this lockredis.url, of the watchdog or of a session, also when it is over';
COMMENT ON COLUMN redis_lock_status.last_error_at IS 'when that was';
COMMENT ON COLUMN redis_lock_status.in_use IS 'whether new locks go there; of a master that the Sentinels name: whether it is known for certain; of one of several that vote: whether it is up and has a vote';
COMMENT ON COLUMN redis_lock_status.since IS 'fallback mode: when in_use changed last';
COMMENT ON COLUMN redis_lock_status.reason IS 'fallback mode: why in_use changed last; redis-sentinel://: why no master is in use; several masters: why this one has no vote';
COMMENT ON COLUMN redis_lock_status.up IS 'whether state is up';
COMMENT ON COLUMN redis_lock_status.round_trip_seconds IS 'round_trip in seconds';
COMMENT ON COLUMN redis_lock_status.renewal_lag_seconds IS 'renewal_lag in seconds';
COMMENT ON COLUMN redis_lock_status.instance IS 'this server: its owners in the store are <instance>:<number>, and its connections have it in their names; another one after each restart';
COMMENT ON COLUMN redis_lock_status.certificate_expires IS 'when the first of the certificates expires with which the node and the watchdog made their connection, its own and that of lockredis.tls_cert_file; null: without TLS, and of a replica';

--
-- Waiting without a snapshot
--

CREATE PROCEDURE redis_await_lock(key text, lease interval DEFAULT NULL,
    kind text DEFAULT 'reentrant')
AS 'MODULE_PATHNAME', 'lockredis_await_lock'
LANGUAGE C;

COMMENT ON PROCEDURE redis_await_lock(text, interval, text) IS
'take a session-level Redis lock of a kind (reentrant, fair, read, write or permit), and wait for it without a snapshot, which does not hold back vacuum: it commits first.  lease and errors as redis_lock; 2D000 inside a transaction block or function, or after other commands of a pipeline';

--
-- Read-write locks
--

CREATE FUNCTION redis_read_lock(key text, lease interval DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'lockredis_read_lock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_read_lock(text, interval) IS
'take a session-level read lock of a key, waiting for it: shared with other readers, never with a writer; reentrant, and allowed to the writer.  A writer that came before goes first.  lease and errors as redis_lock; 58000 in fallback mode without Redis';

CREATE FUNCTION redis_try_read_lock(key text, wait interval DEFAULT '0', lease interval DEFAULT NULL)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_try_read_lock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_try_read_lock(text, interval, interval) IS
'take a session-level read lock of a key within a time limit; false: a writer has it, or goes first.  wait: 0 or more, null is 22004; the rest as redis_read_lock';

CREATE FUNCTION redis_read_xact_lock(key text, lease interval DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'lockredis_read_xact_lock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_read_xact_lock(text, interval) IS
'take a transaction-level read lock of a key, waiting for it.  Ends as redis_xact_lock, the rest as redis_read_lock';

CREATE FUNCTION redis_try_read_xact_lock(key text, wait interval DEFAULT '0', lease interval DEFAULT NULL)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_try_read_xact_lock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_try_read_xact_lock(text, interval, interval) IS
'take a transaction-level read lock of a key within a time limit; false: a writer has it, or goes first.  wait as redis_try_read_lock, the rest as redis_read_xact_lock';

CREATE FUNCTION redis_write_lock(key text, lease interval DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'lockredis_write_lock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_write_lock(text, interval) IS
'take a session-level write lock of a key, waiting for it: with no other reader or writer; reentrant.  lease and errors as redis_lock; 55000 also if this session holds only the read lock; 58000 in fallback mode without Redis';

CREATE FUNCTION redis_try_write_lock(key text, wait interval DEFAULT '0', lease interval DEFAULT NULL)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_try_write_lock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_try_write_lock(text, interval, interval) IS
'take a session-level write lock of a key within a time limit; false: another session has it, or goes first.  wait: 0 or more, null is 22004; the rest as redis_write_lock';

CREATE FUNCTION redis_write_xact_lock(key text, lease interval DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'lockredis_write_xact_lock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_write_xact_lock(text, interval) IS
'take a transaction-level write lock of a key, waiting for it.  Ends as redis_xact_lock, the rest as redis_write_lock';

CREATE FUNCTION redis_try_write_xact_lock(key text, wait interval DEFAULT '0', lease interval DEFAULT NULL)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_try_write_xact_lock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_try_write_xact_lock(text, interval, interval) IS
'take a transaction-level write lock of a key within a time limit; false: another session has it, or goes first.  wait as redis_try_write_lock, the rest as redis_write_xact_lock';

CREATE FUNCTION redis_read_unlock(key text)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_read_unlock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_read_unlock(text) IS
'release one session-level hold of a read lock; true and false as redis_unlock';

CREATE FUNCTION redis_write_unlock(key text)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_write_unlock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_write_unlock(text) IS
'release one session-level hold of a write lock; a session that also reads goes on reading.  true and false as redis_unlock';

CREATE FUNCTION redis_fenced_write_lock(key text, lease interval DEFAULT NULL)
RETURNS bigint
AS 'MODULE_PATHNAME', 'lockredis_fenced_write_lock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_fenced_write_lock(text, interval) IS
'take a session-level write lock of a key, waiting for it, and return its fencing token, from the same counter as redis_fenced_lock.  The rest as redis_write_lock';

CREATE FUNCTION redis_try_fenced_write_lock(key text, wait interval DEFAULT '0', lease interval DEFAULT NULL)
RETURNS bigint
AS 'MODULE_PATHNAME', 'lockredis_try_fenced_write_lock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_try_fenced_write_lock(text, interval, interval) IS
'take a session-level write lock of a key within a time limit and return its fencing token; null: another session has it, or goes first.  wait as redis_try_write_lock, the rest as redis_fenced_write_lock';

CREATE FUNCTION redis_fenced_write_xact_lock(key text, lease interval DEFAULT NULL)
RETURNS bigint
AS 'MODULE_PATHNAME', 'lockredis_fenced_write_xact_lock'
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10000;

COMMENT ON FUNCTION redis_fenced_write_xact_lock(text, interval) IS
'take a transaction-level write lock of a key, waiting for it, record its fencing token in redis_fences in this transaction, and return it.  As redis_fenced_xact_lock and redis_write_xact_lock';

CREATE FUNCTION redis_try_fenced_write_xact_lock(key text, wait interval DEFAULT '0', lease interval DEFAULT NULL)
RETURNS bigint
AS 'MODULE_PATHNAME', 'lockredis_try_fenced_write_xact_lock'
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10000;

COMMENT ON FUNCTION redis_try_fenced_write_xact_lock(text, interval, interval) IS
'as redis_fenced_write_xact_lock within a time limit; null: another session has the key, or goes first.  wait as redis_try_write_lock';

--
-- Fair locks
--

CREATE FUNCTION redis_fair_lock(key text, lease interval DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'lockredis_fair_lock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_fair_lock(text, interval) IS
'take a session-level lock of a key, waiting in the order in which the fair waiters of all servers came to Redis (in table mode, those of this server).  It is the lock of redis_lock, released by redis_unlock.  lease and errors as redis_lock';

CREATE FUNCTION redis_try_fair_lock(key text, wait interval DEFAULT '0', lease interval DEFAULT NULL)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_try_fair_lock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_try_fair_lock(text, interval, interval) IS
'take a session-level fair lock of a key within a time limit; false: another session has it, or goes first.  wait: null is 22004; 0 neither queues nor overtakes.  The rest as redis_fair_lock';

CREATE FUNCTION redis_fair_xact_lock(key text, lease interval DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'lockredis_fair_xact_lock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_fair_xact_lock(text, interval) IS
'take a transaction-level lock of a key, waiting as redis_fair_lock.  Ends as redis_xact_lock';

CREATE FUNCTION redis_try_fair_xact_lock(key text, wait interval DEFAULT '0', lease interval DEFAULT NULL)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_try_fair_xact_lock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_try_fair_xact_lock(text, interval, interval) IS
'take a transaction-level fair lock of a key within a time limit; false: another session has it, or goes first.  wait as redis_try_fair_lock, the rest as redis_fair_xact_lock';

--
-- Several keys at once
--

CREATE FUNCTION redis_multi_lock(keys text[], lease interval DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'lockredis_multi_lock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_multi_lock(text[], interval) IS
'take the session-level locks of 1 to 1000 keys, waiting for them, or none.  By one request if all are free, else one by one in the order of their names.  lease and errors as redis_lock, for the whole call; 40001 one was lost before all were held';

CREATE FUNCTION redis_try_multi_lock(keys text[], wait interval DEFAULT '0', lease interval DEFAULT NULL)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_try_multi_lock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_try_multi_lock(text[], interval, interval) IS
'take the session-level locks of all these keys within a time limit; false: another session has one of them, and none is taken.  wait: for the whole call, 0 or more, null is 22004; the rest as redis_multi_lock';

CREATE FUNCTION redis_multi_xact_lock(keys text[], lease interval DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'lockredis_multi_xact_lock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_multi_xact_lock(text[], interval) IS
'take the transaction-level locks of all these keys, waiting for them, or none.  End as redis_xact_lock, the rest as redis_multi_lock';

CREATE FUNCTION redis_try_multi_xact_lock(keys text[], wait interval DEFAULT '0', lease interval DEFAULT NULL)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_try_multi_xact_lock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_try_multi_xact_lock(text[], interval, interval) IS
'take the transaction-level locks of all these keys within a time limit; false: another session has one of them, and none is taken.  wait as redis_try_multi_lock, the rest as redis_multi_xact_lock';

CREATE FUNCTION redis_multi_unlock(keys text[])
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_multi_unlock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_multi_unlock(text[]) IS
'release one session-level hold of each of these keys, by one request for those that are the last.  false with warnings: at least one was not held, or was lost; the others are released';

--
-- The same questions of one kind of lock
--

CREATE FUNCTION redis_is_held(key text, kind text)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_is_held'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION redis_is_held(text, text) IS
'does this session hold the key with a lock of that kind (reentrant, fair, read, write or permit; else 22023), and has it not lost it? Answered by this session, without a round trip';

CREATE FUNCTION redis_hold_count(key text, kind text)
RETURNS integer
AS 'MODULE_PATHNAME', 'lockredis_hold_count'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION redis_hold_count(text, text) IS
'how often this session holds the key with a lock of that kind; 0: not, or it was lost.  Answered by this session, without a round trip';

CREATE FUNCTION redis_assert_held(key text, kind text)
RETURNS void
AS 'MODULE_PATHNAME', 'lockredis_assert_held'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION redis_assert_held(text, text) IS
'raise an error unless this session holds the key with a lock of that kind, as redis_assert_held(key)';

CREATE FUNCTION redis_fence(key text, kind text)
RETURNS bigint
AS 'MODULE_PATHNAME', 'lockredis_fence'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION redis_fence(text, text) IS
'fencing token of the lock of that kind that this session holds, as redis_fence(key)';

CREATE FUNCTION redis_extend(key text, lease interval, kind text)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_extend'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_extend(text, interval, text) IS
'keep the lock of that kind of this session for at least that long from now, as redis_extend(key, lease)';

--
-- Semaphores without owners
--

CREATE FUNCTION redis_semaphore_init(key text, permits integer, ttl interval DEFAULT NULL)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_semaphore_init'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_semaphore_init(text, integer, interval) IS
'create a semaphore with that many permits, 0 or more, for ttl (10 ms to 24 days; null: for good); false: there is one.  No session owns its permits.  Error 42809: the key is something else; 58030: no answer, it may have been created';

CREATE FUNCTION redis_semaphore_set(key text, permits integer, ttl interval DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'lockredis_semaphore_set'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_semaphore_set(text, integer, interval) IS
'make that many permits of a semaphore free, 0 or more, for ttl (10 ms to 24 days; null: for good), whatever there was; created if there is none.  Error 42809: the key is something else; 58030: no answer, it may have been set';

CREATE FUNCTION redis_semaphore_acquire(key text, permits integer DEFAULT 1)
RETURNS void
AS 'MODULE_PATHNAME', 'lockredis_semaphore_acquire'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_semaphore_acquire(text, integer) IS
'take that many permits of a semaphore, 1 or more, all or none, waiting for them, also while there is no semaphore.  No session owns them: only redis_semaphore_release gives them back.  Errors: 55P03 lock_timeout; 42809 the key is something else; 58000, 58030 the store failed';

CREATE FUNCTION redis_try_semaphore_acquire(key text, permits integer DEFAULT 1, wait interval DEFAULT '0')
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_try_semaphore_acquire'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_try_semaphore_acquire(text, integer, interval) IS
'take that many permits of a semaphore within a time limit; false: there are too few, or there is no semaphore.  wait: 0 or more, null is 22004; the rest as redis_semaphore_acquire';

CREATE FUNCTION redis_semaphore_release(key text, permits integer DEFAULT 1)
RETURNS void
AS 'MODULE_PATHNAME', 'lockredis_semaphore_release'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_semaphore_release(text, integer) IS
'give that many permits, 1 or more, to a semaphore, taken by any session or none; created if there is none.  At once: a rollback does not undo it.  With a warning: no answer, the watchdog goes on, and it counts once.  Error 42809: the key is something else';

CREATE FUNCTION redis_semaphore_xact_release(key text, permits integer DEFAULT 1)
RETURNS void
AS 'MODULE_PATHNAME', 'lockredis_semaphore_xact_release'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_semaphore_xact_release(text, integer) IS
'give that many permits to a semaphore when the transaction has committed and is visible, not after a rollback.  Without an answer the watchdog does it later, but not after a crash of this server.  Error 0A000: PREPARE TRANSACTION after it';

CREATE FUNCTION redis_semaphore_add(key text, permits integer)
RETURNS void
AS 'MODULE_PATHNAME', 'lockredis_semaphore_add'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_semaphore_add(text, integer) IS
'add that many permits to a semaphore, or take them away if negative: then less than 0 may be free.  Error 42809: the key is something else; 58030: no answer, it may have been done';

CREATE FUNCTION redis_semaphore_drain(key text)
RETURNS integer
AS 'MODULE_PATHNAME', 'lockredis_semaphore_drain'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_semaphore_drain(text) IS
'take all free permits of a semaphore; returns their number; if it is below 0, returns that and sets it to 0.  No session owns them.  Error 22003: no integer, nothing is changed; 58030: no answer, it may have been done';

CREATE FUNCTION redis_semaphore_available(key text)
RETURNS integer
AS 'MODULE_PATHNAME', 'lockredis_semaphore_available'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_semaphore_available(text) IS
'number of free permits of a semaphore, asked of the store; 0 if there is none.  Error 22003: more than an integer; 42809: the key is something else';

--
-- Latches
--

CREATE FUNCTION redis_latch_init(key text, count bigint)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_latch_init'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_latch_init(text, bigint) IS
'create a latch that opens after that many counts, 1 to 2^53-1; false: there is one.  Error 42809: the key is something else; 58030: no answer, it may have been created';

CREATE FUNCTION redis_latch_set(key text, count bigint)
RETURNS void
AS 'MODULE_PATHNAME', 'lockredis_latch_set'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_latch_set(text, bigint) IS
'make a latch open after that many counts from now, 1 to 2^53-1, whatever was left; created if there is none.  Error 42809: the key is something else; 58030: no answer, it may have been set';

CREATE FUNCTION redis_latch_count_down(key text)
RETURNS bigint
AS 'MODULE_PATHNAME', 'lockredis_latch_count_down'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_latch_count_down(text) IS
'count a latch down by one, at once: a rollback does not undo it.  What is left; 0: it is open and gone, or there was none.  null with a warning: no answer, the watchdog goes on, and it counts once.  Error 42809: the key is something else';

CREATE FUNCTION redis_latch_xact_count_down(key text)
RETURNS void
AS 'MODULE_PATHNAME', 'lockredis_latch_xact_count_down'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_latch_xact_count_down(text) IS
'count a latch down by one when the transaction has committed and is visible, not after a rollback.  Without an answer the watchdog does it later, but not after a crash of this server.  Error 0A000: PREPARE TRANSACTION after it';

CREATE FUNCTION redis_latch_count(key text)
RETURNS bigint
AS 'MODULE_PATHNAME', 'lockredis_latch_count'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_latch_count(text) IS
'how often a latch has still to be counted down, asked of the store; 0 if there is none.  Error 42809: the key is something else';

CREATE FUNCTION redis_latch_wait(key text, wait interval DEFAULT NULL)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_latch_wait'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_latch_wait(text, interval) IS
'wait until a latch has been counted down to zero, or there is none; false: wait is over.  wait: 0 or more; null: no limit but lock_timeout (55P03).  Error 42809: the key is something else';

CREATE FUNCTION redis_latch_delete(key text)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_latch_delete'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_latch_delete(text) IS
'delete a latch, which ends all waits for it; false: there is none.  Error 42809: the key is something else; 58030: no answer, it may have been done';

--
-- Token locks
--

CREATE FUNCTION redis_token_lock(key text, lease interval, token text DEFAULT NULL)
RETURNS text
AS 'MODULE_PATHNAME', 'lockredis_token_lock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_token_lock(text, interval, text) IS
'take a token lock (as redis-py, redsync), waiting for it; returns its token (1 to 1024 bytes; null: 32 new hexadecimal digits).  It ends by redis_token_unlock or its lease only: 10 ms to 24 days, required (22004).  Errors as redis_lock; 55000 this session holds the key';

CREATE FUNCTION redis_try_token_lock(key text, wait interval DEFAULT '0', lease interval DEFAULT NULL,
    token text DEFAULT NULL)
RETURNS text
AS 'MODULE_PATHNAME', 'lockredis_try_token_lock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_try_token_lock(text, interval, interval, text) IS
'take a token lock within a time limit; null: the key is in use, also by the same token.  wait: 0 or more, null is 22004; the rest as redis_token_lock';

CREATE FUNCTION redis_token_unlock(key text, token text)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_token_unlock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_token_unlock(text, text) IS
'release a token lock, in any session; false: the key is not locked with that token.  Error 58030: no answer; it may be repeated';

CREATE FUNCTION redis_token_extend(key text, token text, lease interval)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_token_extend'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_token_extend(text, text, interval) IS
'keep a token lock for at least that long from now, 10 ms to 24 days; never shortens its lease.  false: the key is not locked with that token.  Error 58030: no answer; it may be repeated';

CREATE FUNCTION redis_token_is_held(key text, token text)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_token_is_held'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_token_is_held(text, text) IS
'whether the key is locked with that token; asks the store';

--
-- Permits
--

CREATE FUNCTION redis_permit_init(key text, permits integer)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_permit_init'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_permit_init(text, integer) IS
'create permits of a key: that many in all, 0 or more; false: there is a number already.  Error 42809: the key is something else; 58030: no answer, it may have been created';

CREATE FUNCTION redis_permit_set(key text, permits integer)
RETURNS void
AS 'MODULE_PATHNAME', 'lockredis_permit_set'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_permit_set(text, integer) IS
'set how many permits of a key there are, 0 or more, those in use included, whatever it was; created if there is none.  Takes none away.  Error 42809: the key is something else; 58030: no answer, it may have been set';

CREATE FUNCTION redis_permit_total(key text)
RETURNS integer
AS 'MODULE_PATHNAME', 'lockredis_permit_total'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_permit_total(text) IS
'how many permits of a key there are, those in use included, asked of the store; null: they were not created.  Error 22003: more than an integer';

CREATE FUNCTION redis_permit_available(key text)
RETURNS integer
AS 'MODULE_PATHNAME', 'lockredis_permit_available'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_permit_available(text) IS
'how many permits of a key are free, asked of the store; null: they were not created.  Error 22003: more than an integer';

CREATE FUNCTION redis_permit_lock(key text, lease interval DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'lockredis_permit_lock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_permit_lock(text, interval) IS
'take one of the permits of a key at session level, waiting for it; each call takes one more.  lease and errors as redis_lock; 42704 redis_permit_init was not called; 58000 in fallback mode without Redis';

CREATE FUNCTION redis_try_permit_lock(key text, wait interval DEFAULT '0', lease interval DEFAULT NULL)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_try_permit_lock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_try_permit_lock(text, interval, interval) IS
'take one of the permits of a key at session level within a time limit; false: none was free.  wait: 0 or more, null is 22004; the rest as redis_permit_lock';

CREATE FUNCTION redis_permit_xact_lock(key text, lease interval DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'lockredis_permit_xact_lock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_permit_xact_lock(text, interval) IS
'take one of the permits of a key at transaction level, waiting for it.  Ends as redis_xact_lock, the rest as redis_permit_lock';

CREATE FUNCTION redis_try_permit_xact_lock(key text, wait interval DEFAULT '0', lease interval DEFAULT NULL)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_try_permit_xact_lock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_try_permit_xact_lock(text, interval, interval) IS
'take one of the permits of a key at transaction level within a time limit; false: none was free.  wait as redis_try_permit_lock, the rest as redis_permit_xact_lock';

CREATE FUNCTION redis_permit_unlock(key text)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_permit_unlock'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_permit_unlock(text) IS
'release one session-level permit of a key: one that was lost, otherwise the one taken last.  true and false as redis_unlock';

CREATE FUNCTION redis_permit_acquire(key text, lease interval)
RETURNS text
AS 'MODULE_PATHNAME', 'lockredis_permit_acquire'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_permit_acquire(text, interval) IS
'take one of the permits of a key for no session, waiting for it; returns its id, a secret of 32 hexadecimal digits.  It ends by redis_permit_release or its lease only: 10 ms to 24 days, required (22004).  Errors as redis_permit_lock';

CREATE FUNCTION redis_try_permit_acquire(key text, wait interval DEFAULT '0', lease interval DEFAULT NULL)
RETURNS text
AS 'MODULE_PATHNAME', 'lockredis_try_permit_acquire'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_try_permit_acquire(text, interval, interval) IS
'take one of the permits of a key for no session within a time limit; its id, or null: none was free.  wait: 0 or more, null is 22004; the rest as redis_permit_acquire';

CREATE FUNCTION redis_permit_release(key text, id text)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_permit_release'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_permit_release(text, text) IS
'release the permit with that id of redis_permit_acquire, in any session; false: it has ended.  Error 22023: not 32 hexadecimal digits; 58030: no answer; it may be repeated';

CREATE FUNCTION redis_permit_extend(key text, id text, lease interval)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_permit_extend'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_permit_extend(text, text, interval) IS
'keep the permit with that id of redis_permit_acquire for at least that long from now, 10 ms to 24 days.  false: it has ended.  Error 22023: not 32 hexadecimal digits; 58030: no answer';

CREATE PROCEDURE redis_with_permit(key text, command text, wait interval DEFAULT '0',
    lease interval DEFAULT NULL, INOUT ran boolean DEFAULT NULL)
AS 'MODULE_PATHNAME', 'lockredis_with_permit'
LANGUAGE C;

COMMENT ON PROCEDURE redis_with_permit(text, text, interval, interval, boolean) IS
'run a command under a permit: take it, commit, run, commit, release it.  ran: false if none was free for all of wait (null: no limit).  Errors: those of the command and of redis_permit_lock; 40001 it was lost, if the command has written; 2D000 in a transaction block';

--
-- Conditions
--

CREATE FUNCTION redis_condition_wait(key text, wait interval DEFAULT NULL, condition text DEFAULT '')
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_condition_wait'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_condition_wait(text, interval, text) IS
'release a session-level redis_lock or redis_fair_lock, wait until its condition is notified, and take it again as it was.  false: wait (null: no limit) was over before; it may return true without a notification.  After an error the lock is lost.  55000 not held, or held by the transaction';

CREATE FUNCTION redis_condition_notify(key text, condition text DEFAULT '')
RETURNS bigint
AS 'MODULE_PATHNAME', 'lockredis_condition_notify'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_condition_notify(text, text) IS
'wake the session, on any server, that has waited longest for that condition of a lock; it goes on when it has the lock.  Returns how many were notified: 1, or 0 if none waits.  A notification is not kept for later.  Error 55000: this session does not hold the lock';

CREATE FUNCTION redis_condition_notify_all(key text, condition text DEFAULT '')
RETURNS bigint
AS 'MODULE_PATHNAME', 'lockredis_condition_notify_all'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION redis_condition_notify_all(text, text) IS
'wake all sessions that wait for that condition of a lock, as redis_condition_notify; how many were notified';

--
-- What the functions of 1.0 do
--

COMMENT ON FUNCTION redis_lock(text, interval) IS
'take a session-level lock of a key, waiting for it; reentrant.  lease: 10 ms to 24 days, not renewed; null: lockredis.lease, renewed.  Errors: 55P03 lock_timeout; 55000 this session had it and lost it; 58000, 58030 the store failed; 42809 the key is something else; 53400 max_locks';

COMMENT ON FUNCTION redis_try_lock(text, interval, interval) IS
'take a session-level lock of a key within a time limit; false: another session has it.  wait: 0 or more, null is no limit, as in 1.0.  lease and errors as redis_lock; a store that fails is an error, not false';

COMMENT ON FUNCTION redis_xact_lock(text, interval) IS
'take a transaction-level lock of a key, waiting for it; released when the commit is visible, at rollback, or at rollback of its savepoint.  lease and errors as redis_lock; COMMIT raises 40001 if the lock was lost';

COMMENT ON FUNCTION redis_try_xact_lock(text, interval, interval) IS
'take a transaction-level lock of a key within a time limit; false: another session has it.  wait as redis_try_lock, the rest as redis_xact_lock';

COMMENT ON FUNCTION redis_fenced_lock(text, interval) IS
'take a session-level lock of a key, waiting for it, and return its fencing token: 1 to 2^53-1, from the store''s counter of the key (22003 when that is used up).  lease and errors as redis_lock';

COMMENT ON FUNCTION redis_try_fenced_lock(text, interval, interval) IS
'take a session-level lock of a key within a time limit and return its fencing token; null: another session has it.  wait as redis_try_lock, the rest as redis_fenced_lock';

COMMENT ON FUNCTION redis_fenced_xact_lock(text, interval) IS
'take a transaction-level lock of a key, waiting for it, record its fencing token in redis_fences in this transaction, and return it.  As redis_xact_lock; also 40001 the row has changed since a REPEATABLE READ snapshot; 25006 on a standby';

COMMENT ON FUNCTION redis_try_fenced_xact_lock(text, interval, interval) IS
'as redis_fenced_xact_lock within a time limit; null: another session has the lock.  wait as redis_try_lock';

COMMENT ON FUNCTION redis_fence(text) IS
'fencing token of the lock that this session holds; null: it holds none, has lost it, or has no token.  Answered by this session, without a round trip';

COMMENT ON FUNCTION redis_fence_check(text, bigint) IS
'record a fencing token issued elsewhere, 1 to 2^53-1 (else 22003), in redis_fences in this transaction.  Error 23000: a higher one was recorded; 25006: on a standby';

COMMENT ON FUNCTION redis_fence_forget(text) IS
'delete the row of a key that is no longer used from redis_fences; false: there was none.  For the owner of the extension';

COMMENT ON FUNCTION redis_unlock(text) IS
'release one session-level hold of a key; false with a warning: this session does not hold it, or has lost it.  true with a warning: the store has not answered, and the watchdog completes the release';

COMMENT ON FUNCTION redis_unlock_all() IS
'release all session-level holds of this session; the number of keys, without those that were lost';

COMMENT ON FUNCTION redis_extend(text, interval) IS
'keep the lock of this session for at least that long from now, and end its renewal; null: renew it again.  Never shortens a lease.  false: the lock was lost.  Error 55000: not held; 58030: no answer, the old lease counts';

COMMENT ON FUNCTION redis_force_unlock(text) IS
'take a key away from all that hold it, whatever kind of lock, permits or token that is; false: nobody held it.  Sessions of this server have lost it when it returns.  Error 42809: the key is something else.  For administrators';

COMMENT ON FUNCTION redis_is_locked(text) IS
'whether any session or client holds the key; asks the store.  Error 42809: the key is something else';

COMMENT ON FUNCTION redis_lock_ttl(text) IS
'rest of the lease of a key, to the millisecond, asked of the store; null: nobody holds it, or it has no end.  Error 42809: the key is something else';

COMMENT ON FUNCTION redis_lock_owner(text) IS
'holder of a key, asked of the store: instance uuid and number, as in redis_locks.owner; read or <n> readers; <n> permits; token: a token lock; null: nobody.  Error 42809: the key is something else';

COMMENT ON FUNCTION redis_is_held(text) IS
'whether this session holds the key and has not lost it; no round trip';

COMMENT ON FUNCTION redis_hold_count(text) IS
'how often this session holds the key; 0: not, or it was lost.  Answered by this session, without a round trip';

COMMENT ON FUNCTION redis_assert_held(text) IS
'raise an error unless this session holds the key: 55000 not held, or lost at session level (redis_unlock acknowledges that); 40001 lost at transaction level.  Answered by this session, without a round trip';

COMMENT ON PROCEDURE redis_with_lock(text, text, interval, interval, interval, boolean) IS
'run a command under a lock: take it, commit, run, commit, release it.  ran: false if busy for all of wait (null: no limit).  hold_at_least: it stays locked for that long from the start.  Errors: those of the command and of redis_lock; 40001 lost, if the command wrote; 2D000 in a transaction block';

COMMENT ON FUNCTION redis_lock_stats_reset() IS
'set all counters of redis_lock_stats to zero';

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
ALTER FUNCTION redis_is_locked(text) COST 10000;
ALTER FUNCTION redis_lock_ttl(text) COST 10000;
ALTER FUNCTION redis_lock_owner(text) COST 10000;

--
-- What reads or changes any whole number, or a string that somebody can guess, is not for
-- everybody
--

REVOKE ALL ON FUNCTION
    redis_semaphore_init(text, integer, interval),
    redis_semaphore_set(text, integer, interval),
    redis_semaphore_acquire(text, integer),
    redis_try_semaphore_acquire(text, integer, interval),
    redis_semaphore_release(text, integer),
    redis_semaphore_xact_release(text, integer),
    redis_semaphore_add(text, integer),
    redis_semaphore_drain(text),
    redis_semaphore_available(text),
    redis_latch_init(text, bigint),
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
    redis_permit_init(text, integer),
    redis_permit_set(text, integer),
    redis_permit_total(text),
    redis_permit_available(text)
FROM PUBLIC;
