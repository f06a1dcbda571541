/*-------------------------------------------------------------------------
 *
 * transaction.c
 *	  Locks that follow the transaction, and the guard of its commit.
 *
 * All that may fail is done at PRE_COMMIT: an error later would be a PANIC.
 * The releases go out at RESOURCE_RELEASE_AFTER_LOCKS of the top transaction:
 * its changes are visible then and its heavyweight locks are gone, so a slow
 * store holds up nobody but this client.  Nothing in there raises, allocates
 * or looks at the latch; see session_batch_run() with STORE_POLL.
 *
 * What belongs to a subtransaction stands on a stack.  A subtransaction that
 * commits leaves its entries to its parent, one that aborts takes them away.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/transaction.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "access/xact.h"
#include "common/hashfn.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/timestamp.h"

#include "report.h"
#include "stats.h"
#include "settings.h"
#include "transaction.h"

/* ----------
 * The stack
 * ----------
 */

typedef enum TrackKind
{
	TRACK_HOLD,					/* a transaction-level hold */
	TRACK_TAKEN,				/* a session-level hold was taken */
	TRACK_RECORDED				/* a token was written to the fence table */
} TrackKind;

typedef struct Track
{
	TrackKind	kind;
	SubTransactionId subid;
	HeldKey		key;			/* hold and recorded: stays while it is held */
	LrIndex		hold;
	uint64		owner;			/* taken and recorded: which acquire it was */
	int64		before;			/* recorded: the token recorded until then */
} Track;

static Track *tracks = NULL;
static int	ntracks = 0;
static int	tracks_size = 0;

/* Of the tracks, transaction-level holds. */
static int	nxact_holds = 0;

/* A lost session-level lock that was unlocked in this transaction. */
typedef struct UnlockedLoss
{
	bool		active;
	SubTransactionId taken_in;	/* InvalidSubTransactionId: before it */
	LrName		name;
	HoldView	view;
} UnlockedLoss;

static UnlockedLoss unlocked_loss;

static bool warned_snapshot = false;
static bool warned_unlock = false;
static bool committing = false;
static int	procedural_depth = 0;

/* How many jobs have failed whose holds the abort has to give back. */
static int	nfailed_jobs = 0;

/*
 * xact_reserve --- room for three more: a hold, its record, and one to spare
 */
void
xact_reserve(void)
{
	int			size = Max(tracks_size, 8);

	if (ntracks + 3 <= tracks_size)
		return;
	while (size < ntracks + 3)
		size *= 2;
	if (tracks == NULL)
		tracks = MemoryContextAlloc(TopMemoryContext, sizeof(Track) * size);
	else
		tracks = repalloc_huge(tracks, sizeof(Track) * (Size) size);
	tracks_size = size;
}

static Track *
push(TrackKind kind)
{
	Track	   *t = &tracks[ntracks++];

	Assert(ntracks <= tracks_size);
	memset(t, 0, sizeof(Track));
	t->kind = kind;
	t->subid = GetCurrentSubTransactionId();
	return t;
}

void
xact_track_hold(const HeldKey *key, LrIndex hold)
{
	Track	   *t = push(TRACK_HOLD);

	t->key = *key;
	t->hold = hold;
	nxact_holds++;
}

/* Only a subtransaction can be rolled back and leave the loss unseen. */
void
xact_track_taken(uint64 owner)
{
	if (IsSubTransaction())
		push(TRACK_TAKEN)->owner = owner;
}

/*
 * xact_forget_taken --- it was given back and had not been lost
 *
 * Only the newest entry is looked at, which is enough for loops.
 */
void
xact_forget_taken(uint64 owner)
{
	if (ntracks > 0 && tracks[ntracks - 1].kind == TRACK_TAKEN &&
		tracks[ntracks - 1].owner == owner)
		ntracks--;
}

void
xact_track_recorded(HeldEntry *entry, int64 token)
{
	Track	   *t = push(TRACK_RECORDED);

	t->key = entry->key;
	t->owner = lt_owner(entry->hold);
	t->before = entry->recorded;
	entry->recorded = token;
	entry->recorded_here = true;
}

/* ----------
 * Ends of transactions and subtransactions; nothing here raises
 * ----------
 */

/*
 * end_hold --- a transaction-level hold ends; its last one goes into the batch
 */
static void
end_hold(const Track *t)
{
	HeldEntry  *entry = session_find_key(&t->key);
	HoldView	view;
	ScopeHold	none;

	nxact_holds--;
	Assert(entry != NULL && entry->hold == t->hold);
	lt_look(t->hold, &view);
	if (view.scope[SCOPE_SESSION].count == 0)
	{
		(void) session_batch_add(entry, &view);
		return;
	}
	memset(&none, 0, sizeof(none));
	(void) lt_set_scope(t->hold, SCOPE_XACT, &none, 0, 0);
	lt_set_committing(t->hold, false);
}

/*
 * end_record --- the row that a token was written to is unlocked
 *
 * The hold may have gone meanwhile, and its key been taken anew.
 */
static void
end_record(const Track *t, bool commit)
{
	HeldEntry  *entry = session_find_key(&t->key);

	if (entry == NULL || lt_owner(entry->hold) != t->owner)
		return;
	entry->recorded_here = false;
	if (!commit)
		entry->recorded = t->before;
}

/*
 * pop_until --- undo what is above "keep" on the stack
 *
 * Records first (the keys of holds that are released are no longer there), the
 * newest before those that it replaced.
 */
static void
pop_until(int keep, bool commit)
{
	int			top = ntracks;

	for (int i = top - 1; i >= keep; i--)
		if (tracks[i].kind == TRACK_RECORDED)
			end_record(&tracks[i], commit);
	for (int i = keep; i < top; i++)
		if (tracks[i].kind == TRACK_HOLD)
			end_hold(&tracks[i]);
	ntracks = keep;
}

static void
run_releases(void)
{
	ReleaseTally tally;

	session_batch_run(lr_now() + lr_call_budget(), STORE_POLL, &tally);
}

static void
subxact_callback(SubXactEvent event, SubTransactionId subid,
				 SubTransactionId parent, void *arg)
{
	int			keep = ntracks;

	if (event == SUBXACT_EVENT_ABORT_SUB)
		session_clean_up();
	if (event != SUBXACT_EVENT_COMMIT_SUB && event != SUBXACT_EVENT_ABORT_SUB)
		return;

	while (keep > 0 && tracks[keep - 1].subid == subid)
	{
		keep--;
		if (event == SUBXACT_EVENT_COMMIT_SUB)
			tracks[keep].subid = parent;
	}
	if (unlocked_loss.active && unlocked_loss.taken_in == subid)
	{
		if (event == SUBXACT_EVENT_COMMIT_SUB)
			unlocked_loss.taken_in = parent;
		else
			unlocked_loss.active = false;
	}
	if (event == SUBXACT_EVENT_ABORT_SUB && keep < ntracks)
	{
		pop_until(keep, false);
		run_releases();
	}
}

static void
find_failed_job(HeldEntry *entry, void *arg)
{
	if (entry->failed_jobs > 0)
		*(HeldEntry **) arg = entry;
}

/*
 * end_failed_jobs --- give back the holds of jobs that failed, of one key
 *
 * A job can run another.
 */
static void
end_failed_jobs(void)
{
	HeldEntry  *entry = NULL;
	HoldView	view;

	session_walk(find_failed_job, &entry);
	if (entry == NULL)
	{
		nfailed_jobs = 0;
		return;
	}
	lt_look(entry->hold, &view);
	nfailed_jobs -= entry->failed_jobs;
	entry->job_count -= entry->failed_jobs;
	view.scope[SCOPE_SESSION].count -= entry->failed_jobs;
	entry->failed_jobs = 0;
	if (view.scope[SCOPE_SESSION].count == 0 && view.scope[SCOPE_XACT].count == 0)
		(void) session_batch_add(entry, &view);
	else
		(void) lt_set_scope(entry->hold, SCOPE_SESSION,
							&view.scope[SCOPE_SESSION], 0, 0);
}

static void
forget_transaction(void)
{
	unlocked_loss.active = false;
	warned_snapshot = false;
	warned_unlock = false;
	if (committing)
		lt_end_commit();
	else if (session_is_entered())
		lt_forget_signal();
	committing = false;
}

/*
 * release_callback --- the place where a transaction's locks are given back
 *
 * Called for each resource owner of every transaction, so it must be quick
 * when there is nothing to do.
 */
static void
release_callback(ResourceReleasePhase phase, bool is_commit, bool is_top_level,
				 void *arg)
{
	if (phase != RESOURCE_RELEASE_AFTER_LOCKS || !is_top_level ||
		CurrentResourceOwner != TopTransactionResourceOwner)
		return;

	if (!is_commit)
		session_clean_up();
	if (ntracks > 0 || nfailed_jobs > 0)
	{
		pop_until(0, is_commit);
		while (nfailed_jobs > 0 && !is_commit)
			end_failed_jobs();
		run_releases();
	}
	forget_transaction();
}

/* ----------
 * The guard
 * ----------
 */

/* Less than a tenth of the lease, at most a second, is too little to commit. */
#define MARGIN_MAX			LR_US_PER_S

/* The longest lease that a scope still wants. */
static int64
lease_of(const HoldView *view)
{
	int64		lease_ms = 0;

	for (int i = 0; i < SCOPE_COUNT; i++)
		if (view->scope[i].count > 0)
			lease_ms = Max(lease_ms, view->scope[i].lease_ms);
	return lease_ms;
}

static int64
margin_of(const HoldView *view)
{
	return Min(lease_of(view) * LR_US_PER_MS / 10, MARGIN_MAX);
}

static void
refuse_commit(const LrName *name, const HoldView *view)
{
	HeldEntry  *entry = session_find(name);
	HoldView	told = *view;

	/* What is said of redis_unlock is not for the hold of the job runner. */
	if (entry != NULL)
		told.scope[SCOPE_SESSION].count -= entry->job_count;
	lr_count(STAT_COMMITS_REFUSED);
	report_commit_refused(name, &told);
}

static void
name_of(const HeldEntry *entry, LrName *name)
{
	name->len = entry->key.len;
	name->hash = entry->key.hash;
	memcpy(name->data, entry->key.data, name->len);
}

/* What a walk over the holds is for. */
typedef struct GuardWalk
{
	bool		has_xid;
	int64		now;
	int64		floor;			/* earliest deadline that was seen */
	int			n;				/* holds that the store must be asked about */
	StoreOp    *ops;
	LrIndex    *holds;
} GuardWalk;

/*
 * guard_one --- look at one hold: refuse, ask the store, or let it be
 */
static void
guard_one(HeldEntry *entry, void *arg)
{
	GuardWalk  *walk = arg;
	HoldView	view;
	StoreOp    *op;

	lt_look(entry->hold, &view);
	if (view.state == HOLD_HELD)
		walk->floor = Min(walk->floor, view.deadline);
	if (view.guard == GUARD_OFF ||
		(view.scope[SCOPE_XACT].count == 0 && !walk->has_xid))
		return;
	if (view.state == HOLD_LOST)
	{
		LrName		name;

		name_of(entry, &name);
		refuse_commit(&name, &view);
	}
	if (view.guard == GUARD_LEASE && view.deadline - walk->now > margin_of(&view))
		return;

	op = &walk->ops[walk->n];
	memset(op, 0, sizeof(StoreOp));
	op->kind = STORE_RENEW;
	op->name = entry->key.data;
	op->name_len = entry->key.len;
	op->owner = view.owner;
	op->store = view.store;
	op->moves = view.moves;
	op->lease_ms = lease_of(&view);
	walk->holds[walk->n++] = entry->hold;
}

/*
 * judge_reply --- the store was asked about a hold
 */
static void
judge_reply(LrIndex hold, StoreOp *op)
{
	HoldView	view;
	LrName		name;

	if (lt_has_moved(hold, op->moves))
		session_run_held(hold, op);
	if (op->outcome == STORE_OK)
		lt_raise_deadline(hold, op->sent_at + op->lease_ms * LR_US_PER_MS,
						  op->moves);
	else if (session_reply_says_lost(op))
		session_lose_by_reply(hold, op);

	lt_look(hold, &view);
	if (view.state == HOLD_HELD && op->outcome == STORE_OK)
		return;
	if (view.state == HOLD_HELD && view.guard == GUARD_VERIFY)
		report_store_failure(ERROR, op->outcome, session_store_error());
	name.len = op->name_len;
	memcpy(name.data, op->name, name.len);
	name.hash = hash_bytes((const unsigned char *) name.data, name.len);
	refuse_commit(&name, &view);
}

static void
count_entry(HeldEntry *entry, void *arg)
{
	(*(int *) arg)++;
}

/*
 * guard_holds --- look at each hold, and ask the store where that is needed
 */
static void
guard_holds(bool has_xid)
{
	GuardWalk	walk = {.has_xid = has_xid,.now = lr_now(),.floor = LR_NEVER};
	int			n = 0;

	session_walk(count_entry, &n);
	walk.ops = palloc_extended(sizeof(StoreOp) * (Size) n, MCXT_ALLOC_HUGE);
	walk.holds = palloc(sizeof(LrIndex) * n);
	session_walk(guard_one, &walk);
	if (walk.n > 0)
	{
		session_run_many(walk.ops, walk.n, STORE_WAIT);
		for (int i = 0; i < walk.n; i++)
			judge_reply(walk.holds[i], &walk.ops[i]);
	}
	session_deadline_floor = walk.floor;
	pfree(walk.ops);
	pfree(walk.holds);
}

/*
 * check_holds --- refuse if a lock of this transaction was lost
 *
 * Usually told by three numbers: nothing lost, nothing to verify, and no
 * deadline near.  False: there is no lock that could matter.
 */
static bool
check_holds(void)
{
	bool		has_xid = TransactionIdIsValid(GetTopTransactionIdIfAny());

	if (unlocked_loss.active && has_xid)
		refuse_commit(&unlocked_loss.name, &unlocked_loss.view);
	if (!session_has_holds() || (nxact_holds == 0 && !has_xid))
		return false;

	if (session_nverified > 0 || lt_lost_count() > 0 ||
		session_deadline_floor - lr_now() <= MARGIN_MAX)
		guard_holds(has_xid);
	return true;
}

/*
 * guard_commit --- may this transaction commit?
 */
static void
guard_commit(void)
{
	if (!check_holds())
		return;

	committing = true;
	if (lt_begin_commit())
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("could not commit because a Redis lock of this session was lost"),
				 errhint("Start again.")));
	for (int i = 0; i < ntracks; i++)
		if (tracks[i].kind == TRACK_HOLD)
			lt_set_committing(tracks[i].hold, true);
}

static void
xact_callback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			guard_commit();
			break;
		case XACT_EVENT_PRE_PREPARE:
			if (nxact_holds > 0)
				ereport(ERROR,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("cannot PREPARE a transaction that holds Redis locks")));
			(void) check_holds();
			break;
		default:
			break;
	}
}

void
xact_register_callbacks(void)
{
	RegisterXactCallback(xact_callback, NULL);
	RegisterSubXactCallback(subxact_callback, NULL);
	RegisterResourceReleaseCallback(release_callback, NULL);
}

/* ----------
 * What else a transaction remembers
 * ----------
 */

/*
 * xact_note_unlocked_loss --- unlocking does not undo what the loss may have
 * done to this transaction
 *
 * One is enough: the one whose lock was taken at the lowest nesting level
 * stays, as a rollback that forgets it forgets the others too.
 */
void
xact_note_unlocked_loss(const LrName *name, const HoldView *view)
{
	SubTransactionId taken_in = InvalidSubTransactionId;

	if (view->guard == GUARD_OFF || !IsTransactionState())
		return;
	for (int i = ntracks - 1; i >= 0; i--)
		if (tracks[i].kind == TRACK_TAKEN && tracks[i].owner == view->owner)
			taken_in = tracks[i].subid;
	if (unlocked_loss.active && unlocked_loss.taken_in <= taken_in)
		return;
	unlocked_loss.active = true;
	unlocked_loss.taken_in = taken_in;
	unlocked_loss.name = *name;
	unlocked_loss.view = *view;
	unlocked_loss.view.scope[SCOPE_SESSION].count = 0;
}

void
xact_enter_procedural(void)
{
	procedural_depth++;
}

void
xact_leave_procedural(void)
{
	if (procedural_depth > 0)
		procedural_depth--;
}

bool
xact_in_outermost_procedural(void)
{
	return procedural_depth == 1;
}

/*
 * xact_warn_snapshot --- the lock protects nothing that is read from a snapshot
 * taken before it
 */
void
xact_warn_snapshot(LockScope scope)
{
	if (warned_snapshot || !IsolationUsesXactSnapshot())
		return;
	if (scope == SCOPE_SESSION && !IsTransactionBlock() && procedural_depth == 0)
		return;
	warned_snapshot = true;
	ereport(WARNING,
			(errcode(ERRCODE_WARNING),
			 errmsg("a Redis lock taken in a transaction of this isolation level does not protect what the transaction reads"),
			 errdetail("Its snapshot is older than the lock."),
			 errhint("Take a session-level lock before BEGIN, or use READ COMMITTED.")));
}

void
xact_warn_early_unlock(void)
{
	if (warned_unlock || !TransactionIdIsValid(GetTopTransactionIdIfAny()))
		return;
	warned_unlock = true;
	ereport(WARNING,
			(errcode(ERRCODE_WARNING),
			 errmsg("a Redis lock is given back before the changes of the transaction are visible"),
			 errhint("Unlock after COMMIT, or use redis_xact_lock.")));
}

void
xact_release_job_at_abort(const LrName *name)
{
	HeldEntry  *entry = session_find(name);

	if (entry == NULL || entry->failed_jobs == entry->job_count)
		return;
	entry->failed_jobs++;
	nfailed_jobs++;
}
