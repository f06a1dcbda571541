/*-------------------------------------------------------------------------
 *
 * xact.c
 *	  Transactions: which callbacks are called when, as in PostgreSQL's xact.c.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/backend/xact.c
 *
 *-------------------------------------------------------------------------
 */
#include "heap.h"

#include "access/transam.h"
#include "utils/resowner.h"

#include "../kernel/server.h"

#define DEPTH_MAX	8

/* An opaque thing with an address of its own. */
static char owner_top[1];
static char owner_sub[DEPTH_MAX][1];

#define TOP_OWNER	((ResourceOwner) owner_top)

ResourceOwner CurrentResourceOwner = NULL;
ResourceOwner CurTransactionResourceOwner = NULL;
ResourceOwner TopTransactionResourceOwner = NULL;

int			XactIsoLevel = XACT_READ_COMMITTED;
bool		XactReadOnly = false;
int			MyXactFlags = 0;
bool		xact_in_pre_commit = false;
int64		xact_guard_since = 0;
int64		xact_flush_waits = 0;
bool		xact_is_early = false;
void		(*xact_watch) (XactMoment moment, bool commit, SubTransactionId sub,
						   SubTransactionId parent);

static XactCallback xact_callback;
static SubXactCallback sub_callback;
static ResourceReleaseCallback release_callback;

static int	depth = 0;
static SubTransactionId subid[DEPTH_MAX + 1];
static SubTransactionId next_subid;
static TransactionId xid[DEPTH_MAX + 1];
static bool must_flush;
static uint32 first_snapshot;
static bool has_snapshot = false;
static UserContext user[DEPTH_MAX + 1];
static int	spi[DEPTH_MAX + 1];

void
RegisterXactCallback(XactCallback callback, void *arg)
{
	Assert(xact_callback == NULL);
	xact_callback = callback;
}

void
RegisterSubXactCallback(SubXactCallback callback, void *arg)
{
	Assert(sub_callback == NULL);
	sub_callback = callback;
}

void
RegisterResourceReleaseCallback(ResourceReleaseCallback callback, void *arg)
{
	Assert(release_callback == NULL);
	release_callback = callback;
}

ResourceOwner
ResourceOwnerCreate(ResourceOwner parent, const char *name)
{
	return TOP_OWNER;
}

SubTransactionId
GetCurrentSubTransactionId(void)
{
	return depth == 0 ? InvalidSubTransactionId : subid[depth];
}

int
GetCurrentTransactionNestLevel(void)
{
	return depth;
}

bool
IsSubTransaction(void)
{
	return depth > 1;
}

bool
IsTransactionState(void)
{
	return depth > 0;
}

bool
IsTransactionBlock(void)
{
	return depth > 0;
}

TransactionId
GetTopTransactionIdIfAny(void)
{
	return depth == 0 ? InvalidTransactionId : xid[1];
}

TransactionId
xact_assign_xid(void)
{
	Assert(depth > 0);
	for (int i = 1; i <= depth; i++)
	{
		LOCKTAG		tag;

		if (TransactionIdIsValid(xid[i]))
			continue;
		xid[i] = transam_assign(xid[i - 1]);
		SET_LOCKTAG_TRANSACTION(tag, xid[i]);
		(void) heavy_lock_try(&tag, ExclusiveLock, sim_slot(), subid[i]);
	}
	return xid[depth];
}

bool
xact_is_own(TransactionId id)
{
	return TransactionIdIsValid(id) && TransactionIdIsValid(xid[1]) &&
		transam_top(id) == xid[1] &&
		transam_is_running(id);
}

/* From REPEATABLE READ on the first one is that of all. */
uint32
xact_snapshot(void)
{
	if (!has_snapshot || !IsolationUsesXactSnapshot())
		first_snapshot = transam_snapshot();
	has_snapshot = true;
	return first_snapshot;
}

void
ForceSyncCommit(void)
{
	must_flush = true;
}

/* Its outcome can be seen by others. */
static void
set_outcome(bool commit)
{
	if (!TransactionIdIsValid(xid[depth]))
		return;
	if (commit && depth == 1 && !must_flush && synchronous_commit == SYNCHRONOUS_COMMIT_OFF)
		transam_commit_soon(xid[depth]);
	else
		transam_end(xid[depth], commit);
}

/*
 * wait_for_flush --- and a standby
 *
 * While the table worker does others ask for something, and are served together then.
 */
static void
wait_for_flush(void)
{
	bool		is_worker = server_is_table_worker(sim_slot());
	int64		time;

	sim_yield("flush");
	if (is_worker && !sim_config.calm && sim_chance(sim_config.slow_table))
	{
		time = SIM_PICK(2 * SIM_MS, 20 * SIM_MS, 200 * SIM_MS);
		sim_disturbed(sim_now() + time);
		pg_usleep((long) time);
	}
	else if (!is_worker && sim_chance(50))
	{
		time = SIM_PICK(100, 5 * SIM_MS, 500 * SIM_MS, 3 * SIM_S);
		xact_flush_waits += time;
		pg_usleep((long) time);
	}
}

int
xact_depth(void)
{
	return depth;
}

static void
tell(XactMoment moment, bool commit)
{
	if (xact_watch != NULL)
		xact_watch(moment, commit, GetCurrentSubTransactionId(),
				   depth > 1 ? subid[depth - 1] : InvalidSubTransactionId);
}

static void
tell_sub_ends(bool commit)
{
	if (xact_watch != NULL)
		xact_watch(XACT_SUB_ENDS, commit, subid[depth + 1], subid[depth]);
}

static void
release(ResourceOwner owner, bool commit, bool top)
{
	ResourceOwner before = CurrentResourceOwner;

	CurrentResourceOwner = owner;
	release_callback(RESOURCE_RELEASE_BEFORE_LOCKS, commit, top, NULL);
	if (top)
		heavy_locks_release_all(sim_slot());
	else if (commit)
		heavy_locks_to_parent(subid[depth], subid[depth - 1]);
	else
		heavy_locks_release_sub(subid[depth]);
	xact_is_early = false;
	release_callback(RESOURCE_RELEASE_LOCKS, commit, top, NULL);
	release_callback(RESOURCE_RELEASE_AFTER_LOCKS, commit, top, NULL);
	CurrentResourceOwner = before;
}

/* Of the (sub)transaction that is the current one. */
static void
set_owner(void)
{
	CurTransactionResourceOwner = CurrentResourceOwner = depth == 1 ? TOP_OWNER :
		(ResourceOwner) owner_sub[depth - 1];
}

void
xact_start(void)
{
	Assert(depth == 0);
	depth = 1;
	subid[1] = TopSubTransactionId;
	next_subid = TopSubTransactionId + 1;
	xid[1] = InvalidTransactionId;
	has_snapshot = must_flush = false;
	XactIsoLevel = XACT_READ_COMMITTED;
	XactReadOnly = false;
	MyXactFlags = 0;
	user[1] = users_get();
	TopTransactionResourceOwner = TOP_OWNER;
	set_owner();
	sim_trace("transaction starts");
	tell(XACT_STARTS, false);
}

static void
end(bool commit)
{
	depth = 0;
	xid[1] = InvalidTransactionId;
	TopTransactionResourceOwner = NULL;
	CurTransactionResourceOwner = CurrentResourceOwner = NULL;
	backend_must_not_raise = NULL;
	tell(XACT_ENDS, commit);
}

void
xact_commit(void)
{
	Assert(depth == 1);
	sim_yield("commit");
	xact_in_pre_commit = xact_is_early = true;
	xact_guard_since = sim_now();
	tell(XACT_GUARD_BEGINS, true);
	xact_callback(XACT_EVENT_PRE_COMMIT, NULL);
	tell(XACT_GUARD_PASSED, true);
	xact_in_pre_commit = false;
	HOLD_INTERRUPTS();
	backend_must_not_raise = "after pre-commit";

	wait_for_flush();
	set_outcome(true);
	sim_trace("transaction is visible");
	xact_callback(XACT_EVENT_COMMIT, NULL);
	tell(XACT_RELEASES, true);
	release(TOP_OWNER, true, true);
	end(true);
	RESUME_INTERRUPTS();
	sim_trace("transaction has ended");
}

/*
 * xact_prepare --- its changes and PostgreSQL's locks stay, as no session's
 */
int
xact_prepare(void)
{
	int			n;

	Assert(depth == 1);
	sim_yield("prepare");
	xact_in_pre_commit = true;
	xact_guard_since = sim_now();
	tell(XACT_GUARD_BEGINS, true);
	xact_callback(XACT_EVENT_PRE_PREPARE, NULL);
	tell(XACT_GUARD_PASSED, true);
	xact_in_pre_commit = false;
	if (sim_chance(100))
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("transaction identifier is already in use")));
	HOLD_INTERRUPTS();
	backend_must_not_raise = "after the state file was written";
	sim_yield("flush");
	n = prepared_add(xid[1]);
	sim_trace("transaction is prepared as %d", n);
	if (xact_watch != NULL)
		xact_watch(XACT_PREPARES, true, n, InvalidSubTransactionId);
	xact_callback(XACT_EVENT_PREPARE, NULL);
	tell(XACT_RELEASES, false);
	release(TOP_OWNER, true, true);
	end(true);
	RESUME_INTERRUPTS();
	return n;
}

static void
abort_sub(void)
{
	HOLD_INTERRUPTS();
	backend_release_locks();
	heavy_locks_stop_waiting();
	users_set(user[depth]);
	spi_at_abort(spi[depth]);
	backend_must_not_raise = "in the abort of a subtransaction";
	xact_is_early = true;
	set_outcome(false);
	sub_callback(SUBXACT_EVENT_ABORT_SUB, subid[depth], subid[depth - 1], NULL);
	tell(XACT_SUB_RELEASES, false);
	release((ResourceOwner) owner_sub[depth - 1], false, false);
	depth--;
	set_owner();
	backend_must_not_raise = NULL;
	tell_sub_ends(false);
	RESUME_INTERRUPTS();
}

void
xact_abort(void)
{
	xact_in_pre_commit = false;
	if (depth == 0)
		return;
	sim_trace("rollback");
	while (depth > 1)
		abort_sub();
	HOLD_INTERRUPTS();
	backend_release_locks();
	heavy_locks_stop_waiting();
	users_set(user[1]);
	spi_at_abort(0);
	backend_must_not_raise = "in an abort";
	xact_is_early = true;
	set_outcome(false);
	xact_callback(XACT_EVENT_ABORT, NULL);
	tell(XACT_RELEASES, false);
	release(TOP_OWNER, false, true);
	end(false);
	RESUME_INTERRUPTS();
}

void
xact_sub_start(void)
{
	Assert(depth > 0 && depth < DEPTH_MAX);
	depth++;
	subid[depth] = next_subid++;
	user[depth] = users_get();
	spi[depth] = spi_depth();
	xid[depth] = InvalidTransactionId;
	set_owner();
	sub_callback(SUBXACT_EVENT_START_SUB, subid[depth], subid[depth - 1], NULL);
	sim_trace("subtransaction %d starts", (int) subid[depth]);
}

void
xact_sub_commit(void)
{
	Assert(depth > 1);
	sim_trace("subtransaction %d commits", (int) subid[depth]);
	set_outcome(true);
	sub_callback(SUBXACT_EVENT_PRE_COMMIT_SUB, subid[depth], subid[depth - 1], NULL);
	sub_callback(SUBXACT_EVENT_COMMIT_SUB, subid[depth], subid[depth - 1], NULL);
	release((ResourceOwner) owner_sub[depth - 1], true, false);
	depth--;
	set_owner();
	tell_sub_ends(true);
}

void
xact_sub_abort(void)
{
	Assert(depth > 1);
	sim_trace("subtransaction %d is rolled back", (int) subid[depth]);
	abort_sub();
}
