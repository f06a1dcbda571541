/*-------------------------------------------------------------------------
 *
 * session.c
 *	  The Redis locks of this backend: take, give back, ask, end.
 *
 * What the session holds stands in the lock table; here is a private index of
 * it by name, the session's connection to the store, and the release of many
 * holds in one batch, which serves redis_unlock, redis_unlock_all, DISCARD ALL
 * and the end of the session, and cannot raise in the latter two.
 *
 * A hold is taken out of the index before its release is sent: it is gone for
 * the session whatever the store does.  What was not answered is left to the
 * watchdog.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/session/session.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "access/parallel.h"
#include "storage/ipc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "session/long_wait.h"
#include "instance.h"
#include "locktable/losses.h"
#include "store/node.h"
#include "report.h"
#include "session/session.h"
#include "session/session_int.h"
#include "settings.h"
#include "stats.h"
#include "session/transaction.h"

/* ----------
 * Index of the holds of this session
 * ----------
 */

static inline bool
held_key_equal(HeldKey a, HeldKey b)
{
	return a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
}

#define SH_PREFIX held
#define SH_ELEMENT_TYPE HeldEntry
#define SH_KEY_TYPE HeldKey
#define SH_KEY key
#define SH_HASH_KEY(tb, k) (k).hash
#define SH_EQUAL(tb, a, b) held_key_equal(a, b)
#define SH_STORE_HASH
#define SH_GET_HASH(tb, entry) (entry)->key.hash
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"
#include "store/current.h"
#include "store/silence.h"
#include "store/stores.h"

static held_hash *held = NULL;

/*
 * An acquire puts its entry into the index before it asks the store, because
 * afterwards nothing may fail.  Should it fail itself, its entry stays behind
 * with no hold, under this name, until the next call removes it.
 */
static LrName pending_name;
static bool pending = false;

static StoreHandle *store_handle[STORE_COUNT];
static StoreId failed_store = STORE_REDIS;	/* whose error is told */
static bool entered = false;

int64		session_deadline_floor = LR_NEVER;
int			session_nverified = 0;

static HeldKey
held_key(const LrName *name)
{
	HeldKey		key = {name->data, name->len, name->hash};

	return key;
}

/* An index of so many entries is not worth to be made smaller. */
#define INDEX_SIZE_KEPT		256

/*
 * trim_index --- nothing is held: begin again with a small one
 */
static void
trim_index(void)
{
	held_hash  *small;

	if (held->members > 0 || held->size <= INDEX_SIZE_KEPT)
		return;
	small = held_create(TopMemoryContext, 16, NULL);
	held_destroy(held);
	held = small;
}

static void
forget_pending(void)
{
	if (pending)
		held_delete(held, held_key(&pending_name));
	pending = false;
}

HeldEntry *
session_find(const LrName *name)
{
	if (held == NULL)
		return NULL;
	forget_pending();
	return held_lookup(held, held_key(name));
}

HeldEntry *
session_find_key(const HeldKey *key)
{
	return held_lookup(held, *key);
}

bool
session_is_entered(void)
{
	return entered;
}

bool
session_has_holds(void)
{
	return held != NULL && held->members > 0;
}

void
session_walk(HeldCallback callback, void *arg)
{
	held_iterator it;
	HeldEntry  *entry;

	forget_pending();
	held_start_iterate(held, &it);
	while ((entry = held_iterate(held, &it)) != NULL)
		callback(entry, arg);
}

static void
delete_entry(HeldEntry *entry)
{
	if (entry->guard == GUARD_VERIFY)
		session_nverified--;
	held_delete_item(held, entry);
	if (held->members == 0)
		session_deadline_floor = LR_NEVER;
}

static void
set_guard(HeldEntry *entry, CommitGuard guard)
{
	if (guard <= entry->guard)
		return;
	if (guard == GUARD_VERIFY)
		session_nverified++;
	entry->guard = guard;
}

/* ----------
 * The session's connection
 * ----------
 */

static void session_at_exit(int code, Datum arg);

/*
 * session_enter --- what a session needs before its first lock or question
 */
void
session_enter(void)
{
	lr_require_preload();
	if (IsParallelWorker())
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
				 errmsg("cannot use Redis locks in a parallel worker")));
	if (entered)
		return;

	if (held == NULL)
		held = held_create(TopMemoryContext, 16, NULL);
	for (int i = 0; i < STORE_COUNT; i++)
		if (store_handle[i] == NULL && lr_has_store(i))
			store_handle[i] = lr_store(i)->open("session");
	failed_store = current_store();
	lt_session_enter();
	on_shmem_exit(session_at_exit, 0);
	entered = true;
}

void
session_run(StoreOp *op, StoreStep how)
{
	session_run_many(op, 1, how);
}

/*
 * has_failed --- without saying anything of the lock
 *
 * Only a create is busy because somebody has the key; else the store is.
 */
static bool
has_failed(const StoreOp *op)
{
	return op->outcome >= STORE_REFUSED ||
		(op->outcome == STORE_BUSY && op->kind != STORE_CREATE);
}

/*
 * run_on --- operations of one store, until each has an outcome
 *
 * With STORE_WAIT it can be left by an interrupt.
 */
static void
run_on(StoreId id, StoreOp *ops, int nops, int64 deadline, StoreStep how)
{
	const StoreRoutine *store = lr_store(id);
	StoreHandle *handle = store_handle[id];

	store->start(handle, ops, nops, deadline);
	while (!store->step(handle, how))
		;
	for (int i = 0; i < nops; i++)
		if (has_failed(&ops[i]))
			failed_store = id;
}

/*
 * run_by_store --- neighbours of the same store together
 */
static void
run_by_store(StoreOp *ops, int nops, int64 deadline, StoreStep how)
{
	int			n;

	for (int i = 0; i < nops; i += n)
	{
		n = 1;
		while (i + n < nops && ops[i + n].store == ops[i].store)
			n++;
		run_on(ops[i].store, ops + i, n, deadline, how);
	}
}

void
session_run_many(StoreOp *ops, int nops, StoreStep how)
{
	PG_TRY();
	{
		run_by_store(ops, nops, lr_now() + lr_call_budget(), how);
	}
	PG_CATCH();
	{
		session_abandon_store();
		PG_RE_THROW();
	}
	PG_END_TRY();
}

/* A lock that is moved while it is asked about is asked about again. */
#define MOVES_MAX			3

static void
ask_where_it_is(LrIndex hold, StoreOp *op)
{
	lt_place(hold, &op->store, &op->moves);
	session_run(op, STORE_WAIT);
}

void
session_run_held(LrIndex hold, StoreOp *op)
{
	for (int i = 0; i < MOVES_MAX; i++)
	{
		ask_where_it_is(hold, op);
		if (!lt_has_moved(hold, op->moves))
			break;
	}
}

void
session_abandon_store(void)
{
	for (int i = 0; i < STORE_COUNT; i++)
		if (store_handle[i] != NULL)
			lr_store(i)->abandon(store_handle[i]);
}

const StoreError *
session_store_error(void)
{
	return lr_store(failed_store)->error(store_handle[failed_store]);
}

/* ----------
 * Releasing
 * ----------
 */

/*
 * The batch that is being released; its arrays are reserved at acquire.  A hold
 * that stays can be in it too, to have its count written.
 */
typedef struct ReleaseBatch
{
	bool		active;
	int			n;
	int			nhanded;		/* besides, passed on inside this server */
	int			size;
	StoreOp    *ops;
	LrIndex    *holds;
	HoldView   *views;			/* of the holds when they were added */
	HeldKey    *keys;			/* for release_everything */
} ReleaseBatch;

static ReleaseBatch batch;

static void *
resize(void *array, Size size)
{
	if (array == NULL)
		return MemoryContextAllocHuge(TopMemoryContext, size);
	return repalloc_huge(array, size);
}

/*
 * resize_batch --- "size" says no more than what all of the arrays have, even
 * if this is left by an error
 */
static void
resize_batch(int size)
{
	batch.size = Min(batch.size, size);
	batch.ops = resize(batch.ops, sizeof(StoreOp) * (Size) size);
	batch.holds = resize(batch.holds, sizeof(LrIndex) * (Size) size);
	batch.views = resize(batch.views, sizeof(HoldView) * (Size) size);
	batch.keys = resize(batch.keys, sizeof(HeldKey) * (Size) size);
	batch.size = size;
}

/* A batch of that size is not worth to be made smaller. */
#define BATCH_SIZE_KEPT		128

/*
 * trim_batch --- a session that once held many locks holds n now
 *
 * Leaves room for as many again, so that one that goes up and down does not pay
 * each time.  Not at the end of a transaction: it is the next acquire then.
 */
static void
trim_batch(int n)
{
	int			size = batch.size;

	while (size > BATCH_SIZE_KEPT && n <= size / 4)
		size /= 2;
	if (size < batch.size && !batch.active)
		resize_batch(size);
}

/*
 * reserve_batch --- room to release n holds at once
 */
static void
reserve_batch(int n)
{
	int			size;

	trim_batch(n);
	if (n <= batch.size)
		return;
	size = Max(batch.size, 4);
	while (size < n)
		size *= 2;
	resize_batch(size);
	for (int i = 0; i < STORE_COUNT; i++)
		if (store_handle[i] != NULL)
			lr_store(i)->reserve(store_handle[i], size);
}

/* The hold count that the store shows for us. */
static int
store_count(const HoldView *view)
{
	return Max(1, view->scope[SCOPE_SESSION].count);
}

/* For how long the key is to stay locked after its release. */
static int64
keep_ms(const HoldView *view)
{
	int64		now = lr_now();

	if (view->keep_until <= now)
		return 0;
	return (view->keep_until - now + LR_US_PER_MS - 1) / LR_US_PER_MS;
}

/*
 * session_batch_add --- take a hold out of the index and into the batch
 *
 * Into the batch goes only what no session of this server was waiting for.  A
 * loss is noted before its record goes: whatever is raised or cancelled later,
 * the commit knows of it.
 */
bool
session_batch_add(HeldEntry *entry, HoldView *view)
{
	LrIndex		hold = entry->hold;
	HeldKey		key = entry->key;
	StoreOp    *op = &batch.ops[batch.n];

	delete_entry(entry);
	switch (lt_begin_release(hold, view))
	{
		case RELEASE_LOST:
			xact_note_unlocked_loss(key.data, key.len, view);
			lt_drop_lost(hold);
			return false;
		case RELEASE_HANDED_OVER:
			batch.nhanded++;
			batch.active = true;
			return true;
		case RELEASE_IN_STORE:
			break;
	}

	memset(op, 0, sizeof(StoreOp));
	op->kind = STORE_RELEASE;
	op->name = key.data;		/* stays while the hold is there */
	op->name_len = key.len;
	op->owner = view->owner;
	op->store = view->store;
	op->keep_ms = keep_ms(view);
	if (op->keep_ms > 0)
		silence_saw_ttl(key.hash, op->keep_ms);
	batch.views[batch.n] = *view;
	batch.holds[batch.n++] = hold;
	batch.active = true;
	return true;
}

static void
fill_set(StoreOp *op, const HeldKey *key, uint64 owner, int count)
{
	memset(op, 0, sizeof(StoreOp));
	op->kind = STORE_SET;
	op->name = key->data;
	op->name_len = key->len;
	op->owner = owner;
	op->count = count;
}

/*
 * session_batch_set_count --- see session_int.h
 */
void
session_batch_set_count(const HeldEntry *entry, const HoldView *view)
{
	StoreOp    *op = &batch.ops[batch.n];

	lt_note_count(entry->hold, false);
	if (view->state != HOLD_HELD)
		return;
	fill_set(op, &entry->key, view->owner, store_count(view));
	op->store = view->store;
	op->moves = view->moves;
	batch.views[batch.n] = *view;
	batch.holds[batch.n++] = entry->hold;
	batch.active = true;
}

/*
 * lose_by_reply --- a reply said that our owner is not there
 */
static void
lose_by_reply(LrIndex hold, const StoreOp *op)
{
	lt_lose(hold, op->owner, op->store, op->moves,
			op->outcome == STORE_WRONG_TYPE || op->holder[0] != '\0' ?
			LOST_TAKEN : LOST_DELETED,
			op->outcome == STORE_WRONG_TYPE ? op->type_name : op->holder);
}

/*
 * finish_count --- the store was asked to write the count of a hold that stays
 *
 * If it did not, the hold is not handed over, and the next request writes it.
 */
static void
finish_count(LrIndex hold, const StoreOp *op)
{
	if (op->outcome == STORE_OK && !lt_has_moved(hold, op->moves))
		lt_note_count(hold, true);
	else if (session_reply_says_lost(op))
		lose_by_reply(hold, op);
}

/*
 * note_gone --- the release found that the lock had been lost before
 *
 * Each one is noted for the commit; one is named in the warning.
 */
static void
note_gone(ReleaseTally *tally, const StoreOp *op, HoldView *view)
{
	view->state = HOLD_LOST;
	view->lost_reason = op->store == STORE_REDIS && view->place != lr_place ?
		LOST_MOVED : op->holder[0] ? LOST_TAKEN : LOST_DELETED;
	view->lost_at = GetCurrentTimestamp();
	strlcpy(view->taken_by, op->holder, LR_OWNER_MAX);
	xact_note_unlocked_loss(op->name, op->name_len, view);
	losses_add(MyProcPid, op->name, op->name_len, view->scope,
			   view->lost_reason, view->taken_by);

	if (tally->gone++ > 0)
		return;
	tally->gone_name.len = op->name_len;
	memcpy(tally->gone_name.data, op->name, op->name_len);
	tally->gone_view = *view;
}

/*
 * finish_batch --- apply the outcomes; what has none is left to the watchdog
 *
 * Never raises.
 */
static void
finish_batch(ReleaseTally *tally)
{
	memset(tally, 0, sizeof(ReleaseTally));
	tally->released = batch.nhanded;
	for (int i = 0; i < batch.n; i++)
	{
		StoreOp    *op = &batch.ops[i];

		if (op->kind == STORE_SET)
		{
			finish_count(batch.holds[i], op);
			continue;
		}
		switch (op->outcome)
		{
			case STORE_OK:
				tally->released++;
				lt_end_release(batch.holds[i], op->store, op->receivers);
				break;
			case STORE_GONE:
			case STORE_WRONG_TYPE:
				note_gone(tally, op, &batch.views[i]);
				lt_end_release(batch.holds[i], op->store, 0);
				break;
			default:
				tally->unanswered++;
				tally->failure = op->outcome;
				lt_orphan(batch.holds[i], op->sent_at);
		}
	}
	lr_count_many(STAT_RELEASES, tally->released + tally->unanswered);
	lr_count_many(STAT_LOSSES, tally->gone);
	if (tally->gone > 0)
		lr_wake_watchdog();
	batch.n = 0;
	batch.nhanded = 0;
	batch.active = false;
}

static void
swap_in_batch(int i, int j)
{
	StoreOp		op = batch.ops[i];
	LrIndex		hold = batch.holds[i];
	HoldView	view = batch.views[i];

	batch.ops[i] = batch.ops[j];
	batch.holds[i] = batch.holds[j];
	batch.views[i] = batch.views[j];
	batch.ops[j] = op;
	batch.holds[j] = hold;
	batch.views[j] = view;
}

/*
 * sort_batch --- what is in the table first: that does not take long
 */
static void
sort_batch(void)
{
	int			n = 0;

	for (int i = 0; i < batch.n; i++)
		if (batch.ops[i].store == STORE_TABLE)
			swap_in_batch(n++, i);
}

/*
 * session_batch_run --- send what is in the batch, wait for the replies
 *
 * With STORE_WAIT it can be left by an interrupt; the holds are gone for the
 * session all the same.
 */
void
session_batch_run(int64 deadline, StoreStep how, ReleaseTally *tally)
{
	if (lr_has_store(STORE_REDIS) && lr_has_store(STORE_TABLE))
		sort_batch();
	if (how == STORE_POLL)
		run_by_store(batch.ops, batch.n, deadline, how);
	else
	{
		PG_TRY();
		{
			run_by_store(batch.ops, batch.n, deadline, how);
		}
		PG_CATCH();
		{
			session_abandon_store();
			finish_batch(tally);
			PG_RE_THROW();
		}
		PG_END_TRY();
	}
	finish_batch(tally);
}

/* The end of a transaction waits so long for its releases, or */
#define END_PATIENCE		(100 * LR_US_PER_MS)
/* so many of the usual round trips to a store that is far away, at most */
#define END_ROUND_TRIPS		3
/* so long; */
#define END_PATIENCE_MAX	LR_US_PER_S
/* and a little for each lock, of which there may be thousands. */
#define END_PATIENCE_EACH	(LR_US_PER_MS / 5)

static int64
end_patience(void)
{
	int64		usual = 0;

	for (int i = 0; i < STORE_COUNT; i++)
		if (lr_has_store(i))
			usual = Max(usual, node_usual_round_trip(i));
	return Min(Max(END_PATIENCE,
				   Min(END_ROUND_TRIPS * usual, END_PATIENCE_MAX)) +
			   batch.n * END_PATIENCE_EACH,
			   lr_call_budget());
}

/*
 * session_batch_run_at_end --- see session_int.h
 *
 * All locks of the (sub)transaction are free by now, but for what is sent here,
 * and yet somebody waits: the client, those whom a NOTIFY of the transaction
 * wakes after this, and in a ROLLBACK TO those who want a lock of the parent.  So
 * a release that is not answered soon is left to the watchdog: its hold becomes
 * an orphan, which is sent again at once.  What that costs: the reply may still
 * come, so this connection is closed, and the next request makes a new one; and
 * until the watchdog has had its answer the key is locked for everybody, this
 * session included.
 */
void
session_batch_run_at_end(void)
{
	ReleaseTally tally;

	session_batch_run(lr_now() + end_patience(), STORE_POLL, &tally);
}

static void
collect_key(HeldEntry *entry, void *arg)
{
	int		   *n = arg;

	batch.keys[(*n)++] = entry->key;
}

/*
 * release_everything --- for the end of the session and DISCARD ALL
 *
 * Never raises, and lasts at most command_timeout.  Deleting moves entries of
 * the index, so their keys are collected first.
 */
static void
release_everything(ReleaseTally *tally)
{
	int			n = 0;

	session_walk(collect_key, &n);
	for (int i = 0; i < n; i++)
	{
		HoldView	view;

		(void) session_batch_add(session_find_key(&batch.keys[i]), &view);
	}
	session_batch_run(lr_now() + lr_command_timeout * LR_US_PER_MS, STORE_POLL,
					  tally);
}

/*
 * session_clean_up --- after an error, or before the end of the session
 *
 * An error of any other kind than an interrupt has been cleaned up by those
 * who raised it; FATAL passes them by.
 */
void
session_clean_up(void)
{
	ReleaseTally tally;

	wait_abandon();
	if (batch.active)
	{
		session_abandon_store();
		finish_batch(&tally);
	}
	if (held != NULL)
		forget_pending();
}

/*
 * session_at_exit --- on_shmem_exit: after the abort of the transaction, with
 * shared memory still there
 */
static void
session_at_exit(int code, Datum arg)
{
	ReleaseTally tally;

	session_clean_up();
	release_everything(&tally);
	lt_session_leave();
}

void
session_discard(void)
{
	ReleaseTally tally;

	if (held == NULL || held->members == 0)
		return;
	forget_pending();
	release_everything(&tally);
	xact_forget_unlocked_losses();
	if (tally.unanswered > 0)
		report_store_failure(WARNING, tally.failure, session_store_error());
}

/* ----------
 * Taking
 * ----------
 */

bool
session_reply_says_lost(const StoreOp *op)
{
	return op->outcome == STORE_GONE || op->outcome == STORE_WRONG_TYPE;
}

/*
 * session_settle_held --- a lock that we hold was asked about; is it lost?
 *
 * The reply counts if the hold is still where it was sent.  To look for that
 * first and to mark it lost then is not enough: it can be moved in between.  So
 * what is asked afterwards is where it is, and a hold that is elsewhere is asked
 * about there.  The outcome that is left says so of nothing but what is lost:
 * where a hold is that was moved each time it was asked about is not known.
 */
bool
session_settle_held(LrIndex hold, StoreOp *op)
{
	for (int i = 0; i <= MOVES_MAX; i++)
	{
		if (session_reply_says_lost(op))
			lose_by_reply(hold, op);
		if (!lt_has_moved(hold, op->moves))
			return session_reply_says_lost(op);
		if (i < MOVES_MAX)
			ask_where_it_is(hold, op);
	}
	if (session_reply_says_lost(op))
		op->outcome = STORE_UNKNOWN;
	return false;
}

/*
 * session_ask_held --- the same with the asking
 */
bool
session_ask_held(LrIndex hold, StoreOp *op)
{
	ask_where_it_is(hold, op);
	return session_settle_held(hold, op);
}

/*
 * session_loss_level --- see session_int.h
 *
 * redis_unlock cannot give back what the job runner holds.
 */
LossLevel
session_loss_level(const HeldEntry *entry, const HoldView *view)
{
	return view->scope[SCOPE_SESSION].count > entry->job_count ?
		LOSS_OF_SESSION : LOSS_OF_XACT;
}

void
session_refuse_lost(const LrName *name, const HoldView *view)
{
	report_lost_used(name, view, session_loss_level(session_find(name), view));
}

/*
 * run_set --- have the store write count and lease of a lock that we hold
 *
 * An outcome that says so means that the hold is lost.
 */
static void
run_set(LrIndex hold, const HeldEntry *entry, uint64 owner, int count,
		int64 lease_ms, bool keep, StoreOp *op)
{
	fill_set(op, &entry->key, owner, count);
	op->lease_ms = lease_ms;
	op->keep_ms = keep ? lease_ms : 0;
	lt_note_count(hold, false);
	(void) session_ask_held(hold, op);
	if (op->outcome == STORE_OK)
		lt_note_count(hold, true);
}

/*
 * lease_is_short --- must a re-entry lengthen the lease?
 */
static bool
lease_is_short(const HoldView *view, const AcquireRequest *request)
{
	int64		want = request->terms.lease_ms * LR_US_PER_MS;

	if (request->terms.renewed)
		want = want * 2 / 3;
	return view->deadline - lr_now() < want;
}

/*
 * add_count --- one more hold in that scope of a copy
 */
static void
add_count(ScopeHold *part, const LockTerms *terms)
{
	bool		first = part->count == 0;

	if (first)
		part->acquired_at = GetCurrentTimestamp();
	part->renewed = terms->renewed || (!first && part->renewed);
	part->guard = Max(terms->guard, first ? GUARD_OFF : part->guard);
	part->on_lost = Max(terms->on_lost, first ? ON_LOST_MARK : part->on_lost);
	part->lease_ms = Max(terms->lease_ms, first ? 0 : part->lease_ms);
	if (terms->scope == SCOPE_SESSION || first)
		part->count++;
}

/*
 * refuse_lost_at_reentry --- what was lost is what was held before
 */
static void
refuse_lost_at_reentry(const LrName *name, LrIndex hold, LockScope scope,
					   const ScopeHold *before)
{
	HoldView	view;

	lt_look(hold, &view);
	view.scope[scope] = *before;
	session_refuse_lost(name, &view);
}

/*
 * reenter --- take a lock again that this session has
 *
 * The first hold of the other scope needs a slot, which is reserved before
 * anything is sent and given back if the store does not say yes.
 *
 * A request that gets no answer leaves nothing to give back: it acts only on
 * our owner, only lengthens, and the next one sets the count right.
 */
static void
reenter(const LrName *name, HeldEntry *entry, const AcquireRequest *request)
{
	const LockTerms *terms = &request->terms;
	LrIndex		hold = entry->hold;
	HoldView	view;
	ScopeHold  *part = &view.scope[terms->scope];
	ScopeHold	before;

	lt_look(hold, &view);
	if (view.state == HOLD_LOST)
		session_refuse_lost(name, &view);

	before = *part;
	add_count(part, terms);
	if (before.count == 0 && !lt_set_scope(hold, terms->scope, part, 0, 0))
		report_table_full();

	if ((terms->scope == SCOPE_SESSION && store_count(&view) > 1) ||
		terms->keep_until != 0 || lease_is_short(&view, request))
	{
		StoreOp		op;
		int64		deadline;

		PG_TRY();
		{
			ScopeHold	wanted = *part;

			do
			{
				run_set(hold, entry, view.owner, store_count(&view),
						lock_ttl_ms(terms), terms->keep_until != 0, &op);
				if (session_reply_says_lost(&op))
					refuse_lost_at_reentry(name, hold, terms->scope, &before);
				if (op.outcome != STORE_OK)
					report_store_failure(ERROR, op.outcome, session_store_error());

				/* The old lease may have ended before the reply was read. */
				deadline = op.sent_at + terms->lease_ms * LR_US_PER_MS;
				(void) lt_set_scope(hold, terms->scope, &wanted, deadline,
									op.moves);
				lt_look(hold, &view);
				if (view.state == HOLD_LOST)
					refuse_lost_at_reentry(name, hold, terms->scope, &before);
			} while (view.moves != op.moves);
		}
		PG_CATCH();
		{
			(void) lt_set_scope(hold, terms->scope, &before, 0, 0);
			PG_RE_THROW();
		}
		PG_END_TRY();
	}
	else
		(void) lt_set_scope(hold, terms->scope, part, 0, 0);
	lt_keep_longer(hold, terms->keep_until);
	set_guard(entry, terms->guard);
	if (terms->scope == SCOPE_XACT && before.count == 0)
		xact_track_hold(&entry->key, hold);
	else if (before.count == 0)
		xact_track_taken(entry);
	lr_count(STAT_REENTRIES);
}

/*
 * session_lock --- see session.h
 *
 * All memory is reserved before the store is asked.
 */
bool
session_lock(const LrName *name, const AcquireRequest *request, HeldEntry **got)
{
	HeldEntry  *entry;
	bool		found;
	LrIndex		hold;
	HoldView	view;

	session_enter();
	xact_reserve();
	entry = session_find(name);
	if (entry != NULL)
	{
		reenter(name, entry, request);
		if (got)
			*got = entry;
		return true;
	}

	trim_index();
	reserve_batch(held->members + 1);
	pending_name = *name;
	entry = held_insert(held, held_key(&pending_name), &found);
	entry->hold = LR_NONE;
	entry->job_count = 0;
	entry->failed_jobs = 0;
	entry->guard = GUARD_OFF;
	entry->recorded = 0;
	entry->recorded_here = false;
	entry->taken = 0;
	pending = true;

	if (!wait_for_lock(name, request, &hold))
	{
		forget_pending();
		return false;
	}
	entry = held_lookup(held, held_key(&pending_name));
	entry->hold = hold;
	entry->key.data = lt_hold_name(hold);
	pending = false;

	lt_look(hold, &view);
	session_deadline_floor = Min(session_deadline_floor, view.deadline);
	set_guard(entry, request->terms.guard);
	if (request->terms.scope == SCOPE_XACT)
		xact_track_hold(&entry->key, hold);
	else
		xact_track_taken(entry);
	long_wait_acquired(name);
	if (got)
		*got = entry;
	return true;
}

/* ----------
 * Giving back
 * ----------
 */

static void
warn_not_held(const LrName *name)
{
	ereport(WARNING,
			(errcode(ERRCODE_WARNING),
			 errmsg("you don't own the Redis lock \"%s\"",
					lr_name_to_show(name->data, name->len))));
}

/*
 * ask_who_took --- a release found its owner gone: who is there instead?
 *
 * Only to say so; no answer leaves it at "deleted".  Whoever is cancelled in
 * here is told of the loss all the same.
 */
static void
ask_who_took(const LrName *name, HoldView *view)
{
	StoreOp		seen;

	memset(&seen, 0, sizeof(seen));
	seen.kind = STORE_INSPECT;
	seen.name = name->data;
	seen.name_len = name->len;
	seen.store = view->store;
	PG_TRY();
	{
		session_run(&seen, STORE_WAIT);
	}
	PG_CATCH();
	{
		report_lost(WARNING, name, view);
		PG_RE_THROW();
	}
	PG_END_TRY();
	if (seen.outcome != STORE_OK || seen.value == STORE_VALUE_NONE)
		return;
	view->lost_reason = LOST_TAKEN;
	if (seen.value == STORE_VALUE_LOCK)
		strlcpy(view->taken_by, seen.holder, LR_OWNER_MAX);
	else
		snprintf(view->taken_by, LR_OWNER_MAX, "(%s)", seen.type_name);
}

/*
 * release_whole --- the last hold of a key goes
 */
static bool
release_whole(const LrName *name, HeldEntry *entry)
{
	HoldView	view;
	ReleaseTally tally;

	if (!session_batch_add(entry, &view))
	{
		report_lost(WARNING, name, &view);
		return false;
	}
	session_batch_run(lr_now() + lr_call_budget(), STORE_WAIT, &tally);
	if (tally.gone > 0)
	{
		ask_who_took(name, &tally.gone_view);
		report_lost(WARNING, name, &tally.gone_view);
		return false;
	}
	xact_forget_taken(view.owner);
	xact_warn_early_unlock();
	if (tally.unanswered > 0)
		report_store_failure(WARNING, tally.failure, session_store_error());
	return true;
}

/*
 * drop_lost_session_holds --- the session has seen that its lock was lost
 *
 * A transaction that has it too sees the loss itself, at its commit, and so
 * does the job runner.
 */
static bool
drop_lost_session_holds(const LrName *name, HeldEntry *entry, HoldView *view)
{
	xact_note_unlocked_loss(name->data, name->len, view);
	if (view->scope[SCOPE_XACT].count == 0 && entry->job_count == 0)
	{
		LrIndex		hold = entry->hold;

		delete_entry(entry);
		lt_drop_lost(hold);
	}
	else
	{
		view->scope[SCOPE_SESSION].count = entry->job_count;
		(void) lt_set_scope(entry->hold, SCOPE_SESSION,
							&view->scope[SCOPE_SESSION], 0, 0);
	}
	report_lost(WARNING, name, view);
	return false;
}

/*
 * lower_count --- n of several holds of a key go
 *
 * They are gone before the store hears of it; should that fail, the next
 * request writes the right count, and the last release does not look at it.
 *
 * False: the lock is lost.  *view is then what was held until now: that was lost.
 */
static bool
lower_count(HeldEntry *entry, HoldView *view, int n)
{
	LrIndex		hold = entry->hold;
	HoldView	before = *view;
	ScopeHold  *part = &view->scope[SCOPE_SESSION];
	StoreOp		op;

	part->count -= n;
	(void) lt_set_scope(hold, SCOPE_SESSION, part, 0, 0);
	if (view->state == HOLD_HELD)
	{
		if (store_count(view) == store_count(&before))
			return true;
		run_set(hold, entry, view->owner, store_count(view), 0, false, &op);
		if (op.outcome == STORE_OK)
			return true;
		if (!session_reply_says_lost(&op))
		{
			report_store_failure(WARNING, op.outcome, session_store_error());
			return true;
		}
		lt_look(hold, view);
	}
	view->guard = before.guard;
	view->scope[SCOPE_SESSION] = before.scope[SCOPE_SESSION];
	return false;
}

static bool
release_some(const LrName *name, HeldEntry *entry, HoldView *view, int n)
{
	return lower_count(entry, view, n) ||
		drop_lost_session_holds(name, entry, view);
}

/*
 * release_holds --- give back n session-level holds of a key
 */
static bool
release_holds(const LrName *name, HeldEntry *entry, HoldView *view, int n)
{
	if (view->state == HOLD_LOST)
		return drop_lost_session_holds(name, entry, view);
	if (view->scope[SCOPE_SESSION].count == n &&
		view->scope[SCOPE_XACT].count == 0)
		return release_whole(name, entry);
	return release_some(name, entry, view, n);
}

bool
session_unlock(const LrName *name)
{
	HeldEntry  *entry;
	HoldView	view;

	session_enter();
	entry = session_find(name);
	if (entry != NULL)
		lt_look(entry->hold, &view);
	if (entry == NULL ||
		view.scope[SCOPE_SESSION].count - entry->job_count <= 0)
	{
		warn_not_held(name);
		return false;
	}
	return release_holds(name, entry, &view, 1);
}

/*
 * session_unlock_job --- the job runner gives its hold back
 *
 * The transaction has begun after the job's last commit: it has done nothing
 * under the lock.  What else the session has of it has yet to see a loss.
 */
bool
session_unlock_job(const LrName *name)
{
	HeldEntry  *entry;
	HoldView	view;
	bool		released;

	entry = session_find(name);
	if (entry == NULL)
		return false;
	lt_look(entry->hold, &view);
	entry->job_count--;
	if (view.scope[SCOPE_SESSION].count == 1)
	{
		released = release_holds(name, entry, &view, 1);
		xact_forget_unlocked_losses();
		return released;
	}
	released = lower_count(entry, &view, 1);
	if (!released)
		report_lost(WARNING, name, &view);
	return released;
}

/* One key of session_unlock_all. */
typedef struct UnlockItem
{
	LrName		name;
	bool		lost;
	HoldView	view;			/* if it was lost */
} UnlockItem;

typedef struct UnlockAll
{
	int			n;
	UnlockItem *items;
} UnlockAll;

static void
collect_name(HeldEntry *entry, void *arg)
{
	UnlockAll  *all = arg;
	UnlockItem *item = &all->items[all->n++];

	item->name.len = entry->key.len;
	item->name.hash = entry->key.hash;
	memcpy(item->name.data, entry->key.data, entry->key.len);
	item->lost = false;
}

/*
 * unlock_whole --- if all there is of a key can go, it goes into the batch
 *
 * False if the key had no hold to be given back, or some that stay.
 */
static bool
unlock_whole(UnlockItem *item)
{
	HeldEntry  *entry = session_find(&item->name);
	HoldView	view;

	lt_look(entry->hold, &view);
	if (entry->job_count > 0 || view.scope[SCOPE_XACT].count > 0)
		return false;
	item->lost = !session_batch_add(entry, &item->view);
	return !item->lost;
}

/*
 * unlock_part --- a transaction or the job runner has the key too
 */
static bool
unlock_part(UnlockItem *item)
{
	HeldEntry  *entry = session_find(&item->name);
	HoldView	view;
	int			n;

	if (entry == NULL)
		return false;
	lt_look(entry->hold, &view);
	n = view.scope[SCOPE_SESSION].count - entry->job_count;
	return n > 0 && release_holds(&item->name, entry, &view, n);
}

/*
 * session_unlock_all --- see session.h
 *
 * Even a warning can raise (in an encoding that lacks a character of the key),
 * so warnings come when all has been given back.  Losses have been noted for the
 * commit by then, so it does not matter if none of the warnings is made.
 */
int64
session_unlock_all(void)
{
	UnlockAll	all = {0};
	ReleaseTally tally;
	int64		n = 0;

	session_enter();
	if (!session_has_holds())
		return 0;
	all.items = palloc_extended(sizeof(UnlockItem) * (Size) held->members,
								MCXT_ALLOC_HUGE);
	session_walk(collect_name, &all);
	for (int i = 0; i < all.n; i++)
		if (unlock_whole(&all.items[i]))
			n++;
	session_batch_run(lr_now() + lr_call_budget(), STORE_WAIT, &tally);
	n -= tally.gone;

	if (tally.released > 0)
		xact_warn_early_unlock();
	if (tally.unanswered > 0)
		report_store_failure(WARNING, tally.failure, session_store_error());
	if (tally.gone == 1)
		report_lost(WARNING, &tally.gone_name, &tally.gone_view);
	else if (tally.gone > 1)
		ereport(WARNING,
				(errcode(ERRCODE_WARNING),
				 errmsg("%d Redis locks were lost", tally.gone)));
	for (int i = 0; i < all.n; i++)
	{
		if (all.items[i].lost)
			report_lost(WARNING, &all.items[i].name, &all.items[i].view);
		else if (unlock_part(&all.items[i]))
			n++;
	}
	pfree(all.items);
	trim_batch(held->members);
	return n;
}

/* ----------
 * Asking and changing
 * ----------
 */

bool
session_look(const LrName *name, HoldView *view)
{
	HeldEntry  *entry;

	session_enter();
	entry = session_find(name);
	if (entry == NULL)
		return false;
	lt_look(entry->hold, view);
	return true;
}

bool
session_extend(const LrName *name, int64 lease_ms, bool renewed)
{
	HeldEntry  *entry;
	HoldView	view;
	StoreOp		op;

	session_enter();
	entry = session_find(name);
	if (entry == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("you don't own the Redis lock \"%s\"",
						lr_name_to_show(name->data, name->len))));
	lt_look(entry->hold, &view);
	if (view.state == HOLD_LOST)
		return false;

	do
	{
		run_set(entry->hold, entry, view.owner, store_count(&view), lease_ms,
				false, &op);
		if (op.outcome == STORE_GONE || op.outcome == STORE_WRONG_TYPE)
			return false;
		if (op.outcome != STORE_OK)
			report_store_failure(ERROR, op.outcome, session_store_error());

		for (int i = 0; i < SCOPE_COUNT; i++)
		{
			ScopeHold  *part = &view.scope[i];

			if (part->count == 0)
				continue;
			part->renewed = renewed;
			part->lease_ms = lease_ms;
			(void) lt_set_scope(entry->hold, i, part,
								op.sent_at + lease_ms * LR_US_PER_MS, op.moves);
		}
		lt_look(entry->hold, &view);
	} while (view.state == HOLD_HELD && view.moves != op.moves);
	return view.state == HOLD_HELD;
}

void
session_inspect(const LrName *name, StoreOp *op)
{
	session_enter();
	memset(op, 0, sizeof(StoreOp));
	op->kind = STORE_INSPECT;
	op->store = lt_store_of_key(name);
	op->name = name->data;
	op->name_len = name->len;
	session_run(op, STORE_WAIT);
	if (op->outcome != STORE_OK)
		report_store_failure(ERROR, op->outcome, session_store_error());
}

bool
session_force(const LrName *name)
{
	StoreOp		seen;
	StoreOp		op;

	session_inspect(name, &seen);
	if (seen.value == STORE_VALUE_NONE)
		return false;
	if (seen.value != STORE_VALUE_LOCK)
		report_wrong_type(name, &seen);

	memset(&op, 0, sizeof(StoreOp));
	op.kind = STORE_FORCE;
	op.store = seen.store;
	op.name = name->data;
	op.name_len = name->len;
	op.owner_text = seen.holder;
	op.owner_text_len = strlen(seen.holder);
	session_run(&op, STORE_WAIT);
	if (op.outcome == STORE_GONE)
		return false;
	if (op.outcome != STORE_OK)
		report_store_failure(ERROR, op.outcome, session_store_error());
	lt_lose_by_owner_text(name, seen.holder, op.store, LOST_FORCED);
	return true;
}
