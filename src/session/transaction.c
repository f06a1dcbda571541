/*-------------------------------------------------------------------------
 *
 * transaction.c
 *	  Locks that follow the transaction, and the guard of its commit.
 *
 * All that may fail is done at PRE_COMMIT: an error later would be a PANIC.
 * The releases go out at RESOURCE_RELEASE_AFTER_LOCKS of the top transaction, or
 * of a subtransaction that aborts: its changes are visible then (or undone) and
 * its heavyweight locks are gone.  A slow store holds up this client, and those
 * whom a NOTIFY of the transaction wakes after that, for some 100 ms at most; a
 * ROLLBACK TO also those who wait for a lock of the transaction itself.  Nothing
 * in there raises, allocates or looks at the latch; see
 * session_batch_run_at_end().
 *
 * What belongs to a subtransaction stands on a stack.  A subtransaction that
 * commits leaves its entries to its parent, one that aborts takes them away.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/session/transaction.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "access/xact.h"
#include "storage/ipc.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/timestamp.h"

#include "report.h"
#include "stats.h"
#include "settings.h"
#include "session/transaction.h"

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
	HeldKey		key;			/* stays while it is held */
	LrIndex		hold;			/* hold and taken */
	uint64		owner;			/* taken and recorded: which acquire it was */
	uint64		number;			/* taken: HeldEntry.taken of the newest */
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
 * still_matters --- can what it tells still be asked for?
 *
 * A session-level hold that was given back, and found fine then, cannot be lost
 * any more; of a loss that was noted the note knows all.  The key of an entry
 * may be looked at only if the hold is there.
 */
static bool
still_matters(const Track *t)
{
	HeldEntry  *entry;

	if (t->kind != TRACK_TAKEN)
		return true;
	if (!lt_has_session_part(t->hold, t->owner))
		return false;
	entry = session_find_key(&t->key);
	return entry != NULL && entry->hold == t->hold && entry->taken == t->number;
}

static void
drop_what_is_over(void)
{
	int			n = 0;

	for (int i = 0; i < ntracks; i++)
		if (still_matters(&tracks[i]))
			tracks[n++] = tracks[i];
	ntracks = n;
}

/* An array of that size is not worth to be made smaller. */
#define TRACKS_KEPT			128

/*
 * xact_reserve --- room for one more
 *
 * What is over goes when the room is used up.  If more than half of it is needed
 * even so it grows, so each entry is looked at twice on average, and the array
 * has no more than four times what is needed.
 */
void
xact_reserve(void)
{
	int			size;

	if (ntracks == 0 && tracks_size > TRACKS_KEPT)
	{
		pfree(tracks);
		tracks = NULL;
		tracks_size = 0;
	}
	if (ntracks < tracks_size)
		return;
	drop_what_is_over();
	size = Max(tracks_size, 8);
	while (size < 2 * (ntracks + 1))
		size *= 2;
	if (size == tracks_size)
		return;
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
xact_track_taken(HeldEntry *entry)
{
	static uint64 last_number = 0;
	Track	   *t;

	entry->taken = 0;
	if (!IsSubTransaction())
		return;
	t = push(TRACK_TAKEN);
	t->key = entry->key;
	t->hold = entry->hold;
	t->owner = lt_owner(entry->hold);
	t->number = ++last_number;
	entry->taken = t->number;
}

/*
 * xact_forget_taken --- it was given back and had not been lost
 *
 * Only the newest entry is looked at, which is enough for most loops; others go
 * when the room is used up.
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

/*
 * first_of_subxact --- where the entries of a subtransaction begin
 */
static int
first_of_subxact(SubTransactionId subid)
{
	int			first = ntracks;

	while (first > 0 && tracks[first - 1].subid == subid)
		first--;
	return first;
}

static void
subxact_callback(SubXactEvent event, SubTransactionId subid,
				 SubTransactionId parent, void *arg)
{
	if (event == SUBXACT_EVENT_ABORT_SUB)
	{
		session_clean_up();
		if (unlocked_loss.taken_in == subid)
			unlocked_loss.active = false;
	}
	else if (event == SUBXACT_EVENT_COMMIT_SUB)
	{
		for (int i = first_of_subxact(subid); i < ntracks; i++)
			tracks[i].subid = parent;
		if (unlocked_loss.taken_in == subid)
			unlocked_loss.taken_in = parent;
	}
}

/*
 * end_aborted_subxact --- its heavyweight locks are gone: now its Redis locks
 *
 * CurrentResourceOwner tells that it is the owner of the subtransaction itself,
 * not that of a portal in it.
 */
static void
end_aborted_subxact(void)
{
	int			first;

	if (ntracks == 0 || !IsSubTransaction() ||
		CurrentResourceOwner != CurTransactionResourceOwner)
		return;
	first = first_of_subxact(GetCurrentSubTransactionId());
	if (first == ntracks)
		return;
	pop_until(first, false);
	session_batch_run_at_end();
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
	{
		(void) session_batch_add(entry, &view);
		return;
	}
	(void) lt_set_scope(entry->hold, SCOPE_SESSION,
						&view.scope[SCOPE_SESSION], 0, 0);
	session_batch_set_count(entry, &view);
}

static void
forget_transaction(void)
{
	unlocked_loss.active = false;
	warned_snapshot = false;
	warned_unlock = false;
	if (committing)
		lt_end_commit();
	committing = false;
}

/*
 * release_callback --- the place where a transaction's locks are given back, and
 * those of a subtransaction that aborts
 *
 * Called for each resource owner of every transaction, so it must be quick
 * when there is nothing to do.
 */
static void
release_callback(ResourceReleasePhase phase, bool is_commit, bool is_top_level,
				 void *arg)
{
	if (phase != RESOURCE_RELEASE_AFTER_LOCKS)
		return;
	if (!is_top_level && !is_commit)
		end_aborted_subxact();
	if (!is_top_level || CurrentResourceOwner != TopTransactionResourceOwner)
		return;

	if (!is_commit)
		session_clean_up();
	if (ntracks > 0 || nfailed_jobs > 0)
	{
		pop_until(0, is_commit);
		while (nfailed_jobs > 0 && !is_commit)
			end_failed_jobs();
		session_batch_run_at_end();
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
refuse_commit(const HeldEntry *entry, const HoldView *view)
{
	LrName		name;

	name.len = entry->key.len;
	name.hash = entry->key.hash;
	memcpy(name.data, entry->key.data, name.len);
	lr_count(STAT_COMMITS_REFUSED);
	report_commit_refused(&name, view, session_loss_level(entry, view));
}

static void
refuse_commit_unlocked(void)
{
	lr_count(STAT_COMMITS_REFUSED);
	report_commit_refused(&unlocked_loss.name, &unlocked_loss.view, LOSS_UNLOCKED);
}

/* What a walk over the holds is for. */
typedef struct GuardWalk
{
	bool		has_xid;
	bool		verified;		/* the store has been asked of all that want it */
	bool		failed;			/* and did not answer for one */
	int64		now;
	int64		floor;			/* earliest deadline that was seen */
	HeldEntry  *lost;			/* one that was found lost, to be told */
	HoldView	lost_view;
	int			n;				/* holds that the store must be asked about */
	StoreOp    *ops;
	HeldEntry **entries;
} GuardWalk;

/*
 * note_lost --- of several losses one is told
 *
 * That of a session-level hold comes first: starting the transaction again does
 * not end it.
 */
static void
note_lost(GuardWalk *walk, HeldEntry *entry, const HoldView *view)
{
	if (walk->lost != NULL &&
		(session_loss_level(walk->lost, &walk->lost_view) == LOSS_OF_SESSION ||
		 session_loss_level(entry, view) != LOSS_OF_SESSION))
		return;
	walk->lost = entry;
	walk->lost_view = *view;
}

static bool
must_ask(const GuardWalk *walk, const HoldView *view)
{
	if (view->guard == GUARD_VERIFY && !walk->verified)
		return true;
	return view->deadline - walk->now <= margin_of(view);
}

/*
 * guard_one --- look at one hold: note its loss, ask the store, or let it be
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
		note_lost(walk, entry, &view);
		return;
	}
	if (!must_ask(walk, &view))
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
	walk->entries[walk->n++] = entry;
}

/*
 * apply_reply --- the store was asked about a hold
 *
 * What it says of the lease or the loss goes into the lock table, where the next
 * look finds it.
 */
static void
apply_reply(GuardWalk *walk, LrIndex hold, StoreOp *op)
{
	HoldView	view;

	if (session_settle_held(hold, op))
		return;
	if (op->outcome == STORE_OK)
		lt_raise_deadline(hold, op->sent_at + op->lease_ms * LR_US_PER_MS,
						  op->moves);
	else
	{
		walk->failed = true;
		lt_look(hold, &view);
		if (view.state == HOLD_HELD && view.guard == GUARD_VERIFY)
			report_store_failure(ERROR, op->outcome, session_store_error());
	}
}

/*
 * ask_store --- have renewed what is too near its end, or to be verified
 */
static void
ask_store(GuardWalk *walk)
{
	session_run_many(walk->ops, walk->n, STORE_WAIT);
	for (int i = 0; i < walk->n; i++)
		apply_reply(walk, walk->entries[i]->hold, &walk->ops[i]);
	walk->verified = true;
}

static void
count_entry(HeldEntry *entry, void *arg)
{
	(*(int *) arg)++;
}

/*
 * refuse_unrenewed --- of what is too near its end one is told, as of losses
 */
static void
refuse_unrenewed(GuardWalk *walk)
{
	HoldView	view;

	for (int i = 0; i < walk->n; i++)
	{
		lt_look(walk->entries[i]->hold, &view);
		note_lost(walk, walk->entries[i], &view);
	}
	refuse_commit(walk->lost, &walk->lost_view);
}

/* A lease that does not outlast so many requests is too short to commit by. */
#define GUARD_REQUESTS		5

/*
 * guard_holds --- look at each hold, and ask the store where that is needed
 *
 * While the store is asked time passes for all holds, also for those that were
 * fine before.  So all are looked at again, until there is nothing to ask: then
 * all are judged by the same instant, which is now.
 */
static void
guard_holds(bool has_xid)
{
	GuardWalk	walk = {.has_xid = has_xid};
	int			n = 0;

	session_walk(count_entry, &n);
	walk.ops = palloc_extended(sizeof(StoreOp) * (Size) n, MCXT_ALLOC_HUGE);
	walk.entries = palloc_extended(sizeof(HeldEntry *) * (Size) n, MCXT_ALLOC_HUGE);
	for (int asked = 0;; asked++)
	{
		walk.now = lr_now();
		walk.floor = LR_NEVER;
		walk.lost = NULL;
		walk.n = 0;
		session_walk(guard_one, &walk);
		if (walk.lost != NULL)
			refuse_commit(walk.lost, &walk.lost_view);
		if (walk.n == 0)
			break;
		if (walk.failed || asked == GUARD_REQUESTS)
			refuse_unrenewed(&walk);
		ask_store(&walk);
	}
	session_deadline_floor = walk.floor;
	pfree(walk.ops);
	pfree(walk.entries);
}

/*
 * check_holds --- refuse if a lock of this transaction was lost
 *
 * Usually told by three numbers: nothing lost, nothing to verify, and no
 * deadline near.
 */
static void
check_holds(bool has_xid)
{
	if (!session_has_holds() || (nxact_holds == 0 && !has_xid))
		return;
	if (session_nverified > 0 || lt_lost_count() > 0 ||
		session_deadline_floor - lr_now() <= MARGIN_MAX)
		guard_holds(has_xid);
}

/* ----------
 * The commit
 * ----------
 */

/*
 * begin_commit --- nobody signals this session from here on
 *
 * True: it was signalled before, and if no statement has ended by that yet the
 * next CHECK_FOR_INTERRUPTS raises it.  The caller has to see to it that there is
 * one before the wait for a synchronous standby, which a cancel ends with no more
 * than a warning.
 */
static bool
begin_commit(void)
{
	/* Without holds nobody does. */
	if (session_has_holds())
	{
		committing = true;
		lt_begin_commit();
	}
	return lt_take_signal();
}

/*
 * guard_commit --- may this transaction commit, or be prepared?
 *
 * The transaction in which PostgreSQL drops the temporary tables of a session
 * that ends is not the user's.  All others are: those of statements that commit
 * in between (VACUUM, CREATE INDEX CONCURRENTLY) too, for whom an error there is
 * nothing new; and those of workers that run functions of users.  What a backend
 * does between statements (notifications, invalidations) writes nothing.
 *
 * Nobody can tell here that a NOTIFY is pending.
 */
static void
guard_commit(void)
{
	bool		has_xid = TransactionIdIsValid(GetTopTransactionIdIfAny());
	bool		signalled;

	if (proc_exit_inprogress || !session_is_entered())
		return;
	if (unlocked_loss.active && has_xid)
		refuse_commit_unlocked();
	signalled = begin_commit();
	check_holds(has_xid);
	if (signalled)
		CHECK_FOR_INTERRUPTS();
	for (int i = 0; i < ntracks; i++)
		if (tracks[i].kind == TRACK_HOLD)
			lt_set_committing(tracks[i].hold, true);
}

void
xact_before_commit_prepared(void)
{
	if (session_is_entered() && begin_commit())
		CHECK_FOR_INTERRUPTS();
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
			guard_commit();
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
 * Of several losses one is kept: that whose lock was taken at the lowest nesting
 * level, as a rollback that forgets it forgets the others too.  So it takes no
 * memory, and each of them can be noted wherever it is found: at the end of a
 * subtransaction too, where the entries of what was taken in it are still there.
 */
void
xact_note_unlocked_loss(const char *name, int len, const HoldView *view)
{
	SubTransactionId taken_in = InvalidSubTransactionId;

	if (view->guard == GUARD_OFF || view->scope[SCOPE_SESSION].count == 0)
		return;
	for (int i = ntracks - 1; i >= 0 && taken_in == InvalidSubTransactionId; i--)
		if (tracks[i].kind == TRACK_TAKEN && tracks[i].owner == view->owner)
			taken_in = tracks[i].subid;
	if (unlocked_loss.active && unlocked_loss.taken_in <= taken_in)
		return;
	unlocked_loss.active = true;
	unlocked_loss.taken_in = taken_in;
	unlocked_loss.name.len = len;
	unlocked_loss.name.hash = lr_name_hash(name, len);
	memcpy(unlocked_loss.name.data, name, len);
	unlocked_loss.view = *view;
	unlocked_loss.view.scope[SCOPE_SESSION].count = 0;
}

void
xact_forget_unlocked_losses(void)
{
	unlocked_loss.active = false;
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
