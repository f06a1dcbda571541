/*-------------------------------------------------------------------------
 *
 * views.c
 *	  The functions behind redis_locks, redis_lock_stats, redis_lock_status.
 *
 * They read copies of shared memory and never talk to the store.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/sql/views.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "access/htup_details.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "storage/procarray.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

#include "locktable/watch.h"
#include "names.h"
#include "report.h"
#include "settings.h"
#include "sql/arguments.h"
#include "stats.h"
#include "store/nodes.h"
#include "store/stores.h"

PG_FUNCTION_INFO_V1(lockredis_locks);
PG_FUNCTION_INFO_V1(lockredis_blocked_by_owner);
PG_FUNCTION_INFO_V1(lockredis_stats);
PG_FUNCTION_INFO_V1(lockredis_waits);
PG_FUNCTION_INFO_V1(lockredis_stats_reset);
PG_FUNCTION_INFO_V1(lockredis_status);

/* ----------
 * Rows of several columns
 * ----------
 */

/* Columns of lockredis_locks(), the function with the most. */
#define MAX_COLUMNS			19

/* A row under construction: all columns are null until they are set. */
typedef struct RowValues
{
	Datum		value[MAX_COLUMNS];
	bool		isnull[MAX_COLUMNS];
} RowValues;

static void
begin_row(RowValues *row)
{
	memset(row->value, 0, sizeof(row->value));
	memset(row->isnull, true, sizeof(row->isnull));
}

static void
set_column(RowValues *row, int column, Datum value)
{
	row->value[column] = value;
	row->isnull[column] = false;
}

/*
 * set_text --- set a column to a text; one that is empty is null
 */
static void
set_text(RowValues *row, int column, const char *s)
{
	if (s[0] != '\0')
		set_column(row, column, CStringGetTextDatum(s));
}

/* ----------
 * redis_locks
 * ----------
 */

enum LocksColumn
{
	COL_PID, COL_DATID, COL_USESYSID, COL_KEY, COL_KIND, COL_SCOPE,
	COL_GRANTED, COL_HOLD_COUNT, COL_FENCE, COL_LEASE, COL_RENEWED,
	COL_ACQUIRED_AT, COL_WAITING_SINCE, COL_EXPIRES_IN, COL_RENEWALS,
	COL_LOST_AT, COL_LOST_REASON, COL_OWNER, COL_BLOCKED_BY
};

StaticAssertDecl(COL_BLOCKED_BY + 1 == MAX_COLUMNS, "a row has room for all columns");

static bool
is_waiting(const LockTableRow *row)
{
	return row->state == HOLD_WAITING || row->state == HOLD_HANDED;
}

static bool
same_key(const LockTableRow *a, const LockTableRow *b)
{
	return a->name_len == b->name_len && memcmp(a->name, b->name, a->name_len) == 0;
}

/*
 * is_ahead --- of two rows of a key, does the first get the lock before the second?
 *
 * One that was handed the lock is ahead of all that wait.  For one that waits in the order of
 * the store no other is: only the store knows that order.
 */
static bool
is_ahead(const LockTableRow *one, const LockTableRow *other)
{
	return one->state == HOLD_HANDED ||
		(one->state == HOLD_WAITING && !other->placed);
}

/*
 * blocking_pids --- pids of this server that hold the key or are ahead in its queue
 *
 * The rows of a key are adjacent, those of the queue in its order, so they precede this
 * one.  A session that waits for a kind that excludes nobody waits for no session in
 * particular.
 */
static Datum
blocking_pids(const LockTableRow *rows, int i)
{
	int			first = i;
	int			n = 0;
	Datum	   *pids;

	while (first > 0 && lr_kind(rows[i].kind)->excludes != 0 &&
		   same_key(&rows[first - 1], &rows[i]))
		first--;
	pids = palloc(sizeof(Datum) * (i - first + 1));
	for (int j = first; j < i; j++)
	{
		bool		again = n > 0 && DatumGetInt32(pids[n - 1]) == rows[j].pid;

		if ((lt_is_granted(rows[j].state) || is_ahead(&rows[j], &rows[i])) && !again)
			pids[n++] = Int32GetDatum(rows[j].pid);
	}
	return PointerGetDatum(construct_array(pids, n, INT4OID, sizeof(int32),
										   true, TYPALIGN_INT));
}

/*
 * will_be_taken_again --- did the session give up the lock only to wait for a
 * condition?
 *
 * It then waits for the condition, or already for the lock, in a later row of the key,
 * and the lock does not count as lost.
 */
static bool
will_be_taken_again(const LockTableRow *rows, int nrows, int i)
{
	if (rows[i].lost.reason != LOST_WAITING)
		return false;
	for (int j = i + 1; j < nrows && same_key(&rows[i], &rows[j]); j++)
		if (rows[j].pid == rows[i].pid && is_waiting(&rows[j]))
			return true;
	return false;
}

/*
 * fill_hold --- the columns of a row that holds, or held, the lock
 */
static void
fill_hold(RowValues *v, const LockTableRow *row, int64 now)
{
	if (row->state == HOLD_OWED)
		set_column(v, COL_HOLD_COUNT, Int32GetDatum((int32) Min(row->amount, PG_INT32_MAX)));
	else if (row->state != HOLD_ORPHAN)
	{
		set_column(v, COL_HOLD_COUNT, Int32GetDatum(row->part.count));
		set_column(v, COL_LEASE, interval_from_us(row->part.lease_ms * LR_US_PER_MS));
		set_column(v, COL_RENEWED, BoolGetDatum(row->part.renewed));
		set_column(v, COL_ACQUIRED_AT, TimestampTzGetDatum(row->part.acquired_at));
		set_column(v, COL_RENEWALS, Int64GetDatum(row->renewals));
	}
	if (row->fence != 0)
		set_column(v, COL_FENCE, Int64GetDatum(row->fence));
	if (lt_is_granted(row->state))
		set_column(v, COL_EXPIRES_IN, interval_from_us(Max(row->deadline - now, 0)));
}

/*
 * fill_private --- the columns that not everybody may see
 */
static void
fill_private(RowValues *v, const LockTableRow *row)
{
	char		owner[LR_OWNER_MAX];

	set_text(v, COL_KEY, lr_name_to_show(row->name, row->name_len));
	if (!is_waiting(row))
	{
		lr_owner_text(row->owner, owner);
		set_text(v, COL_OWNER, owner);
	}
	if (row->state == HOLD_LOST)
		set_text(v, COL_LOST_REASON, lost_reason_text(&row->lost));
}

/*
 * fill_row --- one row of redis_locks
 */
static void
fill_row(RowValues *v, const LockTableRow *rows, int nrows, int i, int64 now)
{
	const LockTableRow *row = &rows[i];

	begin_row(v);
	set_text(v, COL_KIND, lr_kind(row->kind)->name);
	set_column(v, COL_GRANTED, BoolGetDatum(lt_is_granted(row->state)));
	if (row->state != HOLD_ORPHAN)
	{
		set_column(v, COL_PID, Int32GetDatum(row->pid));
		set_column(v, COL_DATID, ObjectIdGetDatum(row->datid));
		set_column(v, COL_USESYSID, ObjectIdGetDatum(row->userid));
		set_text(v, COL_SCOPE, row->scope == SCOPE_XACT ? "transaction" : "session");
	}
	if (is_waiting(row))
	{
		set_column(v, COL_WAITING_SINCE, TimestampTzGetDatum(row->waiting_since));
		set_column(v, COL_BLOCKED_BY, blocking_pids(rows, i));
	}
	else
		fill_hold(v, row, now);
	if (row->state == HOLD_LOST && !will_be_taken_again(rows, nrows, i))
		set_column(v, COL_LOST_AT, TimestampTzGetDatum(row->lost.at));
	if (lr_may_see_keys_of(row->userid))
		fill_private(v, row);
}

/*
 * lockredis_locks --- the rows of redis_locks
 */
PGDLLEXPORT Datum
lockredis_locks(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	LockTableRow *rows;
	int			nrows;
	int64		now;

	lr_require_preload();
	InitMaterializedSRF(fcinfo, 0);
	rows = lt_rows(&nrows);
	now = lr_now();
	for (int i = 0; i < nrows; i++)
	{
		RowValues	v;

		fill_row(&v, rows, nrows, i, now);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, v.value, v.isnull);
	}
	pfree(rows);
	return (Datum) 0;
}

/*
 * lockredis_blocked_by_owner --- the owner elsewhere that the session with this pid
 * waits for
 *
 * Null also if a session of this server blocks it, or if the caller may not see the
 * key.
 */
PGDLLEXPORT Datum
lockredis_blocked_by_owner(PG_FUNCTION_ARGS)
{
	int			pid = PG_GETARG_INT32(0);
	PGPROC	   *proc;
	WaitBlocker blocker;

	lr_require_preload();
	proc = BackendPidGetProc(pid);

	/* Its slot may belong to another process by now. */
	if (proc == NULL || !lt_find_blocker(LrProcNumberOf(proc), &blocker) ||
		blocker.waiter != pid || !lr_may_see_keys_of(blocker.userid) ||
		blocker.owner[0] == '\0')
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(cstring_to_text(lr_owner_to_show(blocker.owner)));
}

/* ----------
 * redis_lock_stats
 * ----------
 */

static Datum
form_row(FunctionCallInfo fcinfo, Datum *values)
{
	TupleDesc	desc;
	bool	   *nulls;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	nulls = palloc0(sizeof(bool) * desc->natts);
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls));
}

/* Number of counters that are columns of lockredis_stats(). */
#define STATS_COLUMNS		(STAT_MOVES + 1)

PGDLLEXPORT Datum
lockredis_stats(PG_FUNCTION_ARGS)
{
	int64		sums[STAT_COUNT];
	TimestampTz reset_at;
	Datum		values[STATS_COLUMNS + 1];

	lr_require_preload();
	stats_read(sums, &reset_at);
	for (int i = 0; i < STATS_COLUMNS; i++)
		values[i] = Int64GetDatum(sums[i]);
	values[STATS_COLUMNS] = TimestampTzGetDatum(reset_at);
	return form_row(fcinfo, values);
}

/*
 * lockredis_waits --- counters of later versions, and rows at this moment
 */
PGDLLEXPORT Datum
lockredis_waits(PG_FUNCTION_ARGS)
{
	int64		sums[STAT_COUNT];
	TimestampTz reset_at;
	int64		rows[3];
	Datum		values[STAT_COUNT];
	int			n = 0;

	lr_require_preload();
	stats_read(sums, &reset_at);
	lt_count_rows(&rows[0], &rows[1], &rows[2]);
	for (int i = STATS_COLUMNS; i < STAT_COUNT; i++)
		values[n++] = Int64GetDatum(sums[i]);
	for (int i = 0; i < lengthof(rows); i++)
		values[n++] = Int64GetDatum(rows[i]);
	values[n++] = Int64GetDatum(lt_row_count());
	return form_row(fcinfo, values);
}

PGDLLEXPORT Datum
lockredis_stats_reset(PG_FUNCTION_ARGS)
{
	lr_require_preload();
	stats_reset();
	PG_RETURN_VOID();
}

/* ----------
 * redis_lock_status
 * ----------
 */

/*
 * next_node --- the first node from "node" on that has a row; false if there is none
 *
 * A cluster, or several masters, are shown as their nodes if there are some, not as a
 * whole.
 */
static bool
next_node(NodeId *node, NodeStatus *status)
{
	bool		has_masters = masters_count() > 0 ||
		(cluster_is_on() && cluster_has_map());

	for (; *node < NODE_MAX; (*node)++)
		if (node_get_status(*node, status) && !(*node == NODE_REDIS && has_masters))
			return true;
	return false;
}

enum StatusColumn
{
	COL_NODE, COL_ROLE, COL_ADDRESS, COL_STATE, COL_ROUND_TRIP, COL_VERSION,
	COL_RENEWAL_LAG, COL_MAXMEMORY_POLICY, COL_LAST_ERROR, COL_LAST_ERROR_AT,
	COL_IN_USE, COL_SINCE, COL_REASON,

	/* lockredis_nodes() has these, too; lockredis_status() is that of version 1.0. */
	COL_INSTANCE, COL_CERTIFICATE_EXPIRES
};

static const char *const state_name[] = {
	[NODE_CONNECTING] = "connecting",
	[NODE_UP] = "up",
	[NODE_DOWN] = "down"
};

static const char *const role_name[] = {
	[ROLE_MASTER] = "master",
	[ROLE_REPLICA] = "replica",
	[ROLE_SENTINEL] = "sentinel",
	[ROLE_TABLE] = "table"
};

/*
 * fill_master --- say why the master that the Sentinels name is not in use, if so
 */
static void
fill_master(RowValues *v)
{
	char		why[256];

	if (topology_may_connect(topology_epoch(), false, lr_now()) == TOPOLOGY_YES)
		return;
	topology_get_reason(why, sizeof(why));
	set_column(v, COL_IN_USE, BoolGetDatum(false));
	set_text(v, COL_REASON, why);
}

static bool
is_voter(NodeId node)
{
	return node >= NODE_MASTER && node < NODE_MASTER + masters_count();
}

/*
 * fill_voter --- say why an independent master has no vote, if so
 *
 * If it does not answer, the reason is its last error.
 */
static void
fill_voter(RowValues *v, const NodeStatus *status, int number)
{
	MasterStatus master;
	char		why[128];
	int64		now = lr_now();
	int64		votes_at;

	masters_get(number, &master);
	votes_at = masters_votes_at(master.since);
	if (status->state == NODE_UP && master.run_id[0] != '\0' && votes_at <= now)
		return;
	set_column(v, COL_IN_USE, BoolGetDatum(false));
	if (status->state != NODE_UP || master.run_id[0] == '\0')
		return;
	snprintf(why, sizeof(why), "restarted " INT64_FORMAT " s ago, votes in " INT64_FORMAT " s",
			 Max(now - master.since, 0) / LR_US_PER_S,
			 (votes_at - now + LR_US_PER_S - 1) / LR_US_PER_S);
	set_text(v, COL_REASON, why);
}

/*
 * fill_use --- do new locks go to this node; in fallback mode, since when and why?  And how
 * late are renewals there?
 */
static void
fill_use(RowValues *v, const NodeStatus *status, NodeId node)
{
	bool		has_locks = node_has_locks(node);
	CurrentStatus current;

	set_column(v, COL_IN_USE, BoolGetDatum(has_locks));
	if (!has_locks)
		return;
	set_column(v, COL_RENEWAL_LAG, interval_from_us(lt_renewal_lag(status->store)));
	if (lr_has_fallback())
	{
		current_get_status(&current);
		set_column(v, COL_IN_USE, BoolGetDatum(current.store == status->store));
		set_column(v, COL_SINCE, TimestampTzGetDatum(current.since));
		set_text(v, COL_REASON, current.why);
	}
	if (lr_follows_master() && !cluster_is_on() &&
		lr_store_can(status->store, STORE_HAS_PLACE))
		fill_master(v);
	if (is_voter(node))
		fill_voter(v, status, node - NODE_MASTER);
}

/*
 * put_status --- emit the row of a node
 */
static void
put_status(ReturnSetInfo *rsinfo, const NodeStatus *status, NodeId node, int number)
{
	RowValues	v;

	begin_row(&v);
	set_column(&v, COL_NODE, Int32GetDatum(number));
	set_text(&v, COL_ROLE, role_name[status->facts.role]);
	if (has_privs_of_role(GetUserId(), ROLE_PG_MONITOR))
		set_text(&v, COL_ADDRESS, status->address);
	set_text(&v, COL_STATE, state_name[status->state]);
	if (status->round_trip_us >= 0)
		set_column(&v, COL_ROUND_TRIP, interval_from_us(status->round_trip_us));
	set_text(&v, COL_VERSION, status->facts.version);
	set_text(&v, COL_MAXMEMORY_POLICY, status->facts.maxmemory_policy);
	set_text(&v, COL_LAST_ERROR, status->last_error);
	if (status->last_error_at != 0)
		set_column(&v, COL_LAST_ERROR_AT, TimestampTzGetDatum(status->last_error_at));
	fill_use(&v, status, node);
	set_text(&v, COL_INSTANCE, lr_instance_uuid());
	if (status->facts.certificate_expires != 0)
		set_column(&v, COL_CERTIFICATE_EXPIRES,
				   TimestampTzGetDatum(status->facts.certificate_expires));
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, v.value, v.isnull);
}

/*
 * lockredis_status --- the rows of redis_lock_status, for lockredis_nodes() as well
 */
PGDLLEXPORT Datum
lockredis_status(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	NodeStatus	status;
	int			number = 0;

	lr_require_preload();
	InitMaterializedSRF(fcinfo, 0);
	for (NodeId node = 0; next_node(&node, &status); node++)
		put_status(rsinfo, &status, node, ++number);
	return (Datum) 0;
}
