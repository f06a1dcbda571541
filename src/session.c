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
 *	  src/session.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "access/parallel.h"
#include "storage/ipc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "report.h"
#include "session.h"
#include "settings.h"
#include "stats.h"

/* ----------
 * Index of the holds of this session
 * ----------
 */

typedef struct HeldKey
{
	const char *data;			/* in the lock table, once held */
	int			len;
	uint32		hash;
} HeldKey;

typedef struct HeldEntry
{
	HeldKey		key;
	LrIndex		hold;			/* LR_NONE: reserved by an acquire */
	char		status;
} HeldEntry;

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

static held_hash *held = NULL;

/*
 * An acquire puts its entry into the index before it asks the store, because
 * afterwards nothing may fail.  Should it fail itself, its entry stays behind
 * with no hold, under this name, until the next call removes it.
 */
static LrName pending_name;
static bool pending = false;

static StoreHandle *store_handle = NULL;

static HeldKey
held_key(const LrName *name)
{
	HeldKey		key = {name->data, name->len, name->hash};

	return key;
}

static void
forget_pending(void)
{
	if (pending)
		held_delete(held, held_key(&pending_name));
	pending = false;
}

static HeldEntry *
find_held(const LrName *name)
{
	if (held == NULL)
		return NULL;
	forget_pending();
	return held_lookup(held, held_key(name));
}

/* ----------
 * The session's connection
 * ----------
 */

static void session_at_exit(int code, Datum arg);

/*
 * enter --- what a session needs before its first lock or question
 */
static void
enter(void)
{
	static bool entered = false;

	lr_require_preload();
	if (IsParallelWorker())
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
				 errmsg("cannot use Redis locks in a parallel worker")));
	if (entered)
		return;

	if (held == NULL)
		held = held_create(TopMemoryContext, 16, NULL);
	if (store_handle == NULL)
		store_handle = lr_store()->open("session");
	lt_session_enter();
	on_shmem_exit(session_at_exit, 0);
	entered = true;
}

void
session_run(StoreOp *op, StoreStep how)
{
	const StoreRoutine *store = lr_store();

	PG_TRY();
	{
		store->start(store_handle, op, 1, lr_now() + lr_call_budget());
		while (!store->step(store_handle, how))
			;
	}
	PG_CATCH();
	{
		store->abandon(store_handle);
		PG_RE_THROW();
	}
	PG_END_TRY();
}

void
session_abandon_store(void)
{
	lr_store()->abandon(store_handle);
}

const StoreError *
session_store_error(void)
{
	return lr_store()->error(store_handle);
}

/* ----------
 * Releasing
 * ----------
 */

/* The batch that is being released; its arrays are reserved at acquire. */
typedef struct ReleaseBatch
{
	bool		active;
	int			n;
	int			size;
	StoreOp    *ops;
	LrIndex    *holds;
} ReleaseBatch;

static ReleaseBatch batch;

/*
 * reserve_batch --- room to release n holds at once
 */
static void
reserve_batch(int n)
{
	int			size = Max(batch.size, 4);

	if (n <= batch.size)
		return;
	while (size < n)
		size *= 2;
	if (batch.ops == NULL)
	{
		batch.ops = MemoryContextAlloc(TopMemoryContext, sizeof(StoreOp) * size);
		batch.holds = MemoryContextAlloc(TopMemoryContext, sizeof(LrIndex) * size);
	}
	else
	{
		batch.ops = repalloc_huge(batch.ops, sizeof(StoreOp) * (Size) size);
		batch.holds = repalloc_huge(batch.holds, sizeof(LrIndex) * (Size) size);
	}
	lr_store()->reserve(store_handle, size);
	batch.size = size;
}

/*
 * add_to_batch --- take a hold out of the index and into the batch
 *
 * The entry is gone afterwards.  False: the hold is lost; *view says how, and
 * it is dropped.
 */
static bool
add_to_batch(HeldEntry *entry, HoldView *view)
{
	LrIndex		hold = entry->hold;
	HeldKey		key = entry->key;
	StoreOp    *op = &batch.ops[batch.n];

	if (!lt_begin_release(hold))
	{
		lt_look(hold, view);
		held_delete_item(held, entry);
		lt_drop_lost(hold);
		return false;
	}

	memset(op, 0, sizeof(StoreOp));
	op->kind = STORE_RELEASE;
	op->name = key.data;		/* stays while the hold is there */
	op->name_len = key.len;
	op->owner = lt_owner(hold);
	batch.holds[batch.n++] = hold;
	batch.active = true;
	held_delete_item(held, entry);
	return true;
}

/* How a batch of releases ended. */
typedef struct ReleaseTally
{
	int			released;
	int			gone;			/* found lost by the release itself */
	int			unanswered;
	StoreOutcome failure;		/* of one that was not answered */
	char		taken_by[LR_OWNER_MAX]; /* of one that was gone */
} ReleaseTally;

/*
 * finish_batch --- apply the outcomes; what has none is left to the watchdog
 *
 * Never raises.
 */
static void
finish_batch(ReleaseTally *tally)
{
	memset(tally, 0, sizeof(ReleaseTally));
	for (int i = 0; i < batch.n; i++)
	{
		StoreOp    *op = &batch.ops[i];

		switch (op->outcome)
		{
			case STORE_OK:
				tally->released++;
				lt_end_release(batch.holds[i]);
				break;
			case STORE_GONE:
			case STORE_WRONG_TYPE:
				tally->gone++;
				strlcpy(tally->taken_by, op->holder, LR_OWNER_MAX);
				lt_end_release(batch.holds[i]);
				break;
			default:
				tally->unanswered++;
				tally->failure = op->outcome;
				lt_orphan(batch.holds[i]);
		}
	}
	lr_count_many(STAT_RELEASES, tally->released + tally->unanswered);
	lr_count_many(STAT_LOSSES, tally->gone);
	batch.n = 0;
	batch.active = false;
}

/*
 * run_batch --- send what is in the batch, wait for the replies
 *
 * With STORE_WAIT it can be left by an interrupt; the holds are gone for the
 * session all the same.
 */
static void
run_batch(int64 deadline, StoreStep how, ReleaseTally *tally)
{
	const StoreRoutine *store = lr_store();

	if (batch.n == 0)
	{
		memset(tally, 0, sizeof(ReleaseTally));
		return;
	}
	if (how == STORE_POLL)
	{
		store->start(store_handle, batch.ops, batch.n, deadline);
		while (!store->step(store_handle, how))
			;
	}
	else
	{
		PG_TRY();
		{
			store->start(store_handle, batch.ops, batch.n, deadline);
			while (!store->step(store_handle, how))
				;
		}
		PG_CATCH();
		{
			store->abandon(store_handle);
			finish_batch(tally);
			PG_RE_THROW();
		}
		PG_END_TRY();
	}
	finish_batch(tally);
}

/*
 * release_everything --- for the end of the session and DISCARD ALL
 *
 * Never raises, and lasts at most command_timeout.
 */
static void
release_everything(ReleaseTally *tally)
{
	held_iterator it;
	HeldEntry  *entry;
	HoldView	view;

	/* Deleting moves entries, so start anew for each. */
	for (;;)
	{
		held_start_iterate(held, &it);
		entry = held_iterate(held, &it);
		if (entry == NULL)
			break;
		(void) add_to_batch(entry, &view);
	}
	run_batch(lr_now() + lr_command_timeout * LR_US_PER_MS, STORE_POLL, tally);
}

/*
 * session_at_exit --- on_shmem_exit: after the abort of the transaction, with
 * shared memory still there
 */
static void
session_at_exit(int code, Datum arg)
{
	ReleaseTally tally;

	wait_abandon();
	if (batch.active)
	{
		/* A FATAL in the middle of a release. */
		session_abandon_store();
		finish_batch(&tally);
	}
	forget_pending();
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
	if (tally.unanswered > 0)
		report_store_failure(WARNING, tally.failure, session_store_error());
}

/* ----------
 * Taking
 * ----------
 */

/*
 * lose_by_reply --- a reply said that our owner is not there
 */
static void
lose_by_reply(LrIndex hold, const StoreOp *op)
{
	lt_lose(hold, op->owner,
			op->outcome == STORE_WRONG_TYPE || op->holder[0] != '\0' ?
			LOST_TAKEN : LOST_DELETED,
			op->outcome == STORE_WRONG_TYPE ? op->type_name : op->holder);
}

/*
 * run_set --- have the store write count and lease of a lock that we hold
 */
static void
run_set(LrIndex hold, const HeldEntry *entry, uint64 owner, int count,
		int64 lease_ms, StoreOp *op)
{
	memset(op, 0, sizeof(StoreOp));
	op->kind = STORE_SET;
	op->name = entry->key.data;
	op->name_len = entry->key.len;
	op->owner = owner;
	op->count = count;
	op->lease_ms = lease_ms;
	session_run(op, STORE_WAIT);
	if (op->outcome == STORE_GONE || op->outcome == STORE_WRONG_TYPE)
		lose_by_reply(hold, op);
}

/* The hold count that the store shows for us. */
static int
store_count(const HoldView *view)
{
	return Max(1, view->scope[SCOPE_SESSION].count);
}

/*
 * lease_is_short --- must a re-entry lengthen the lease?
 */
static bool
lease_is_short(const HoldView *view, const AcquireRequest *request)
{
	int64		want = request->lease_ms * LR_US_PER_MS;

	if (request->renewed)
		want = want * 2 / 3;
	return view->deadline - lr_now() < want;
}

/*
 * reenter --- take a lock again that this session has
 *
 * A request that gets no answer leaves nothing to give back: it acts only on
 * our owner, only lengthens, and the next one sets the count right.
 */
static void
reenter(const LrName *name, HeldEntry *entry, const AcquireRequest *request)
{
	LrIndex		hold = entry->hold;
	HoldView	view;
	ScopeHold  *part = &view.scope[request->scope];
	int64		deadline = 0;

	lt_look(hold, &view);
	if (view.state == HOLD_LOST)
		report_lost(ERROR, name, &view);

	if (part->count == 0)
		part->acquired_at = GetCurrentTimestamp();
	part->renewed = request->renewed || (part->count > 0 && part->renewed);
	part->lease_ms = Max(request->lease_ms, part->count > 0 ? part->lease_ms : 0);
	if (request->scope == SCOPE_SESSION || part->count == 0)
		part->count++;

	if (store_count(&view) > 1 || lease_is_short(&view, request))
	{
		StoreOp		op;

		run_set(hold, entry, view.owner, store_count(&view), request->lease_ms, &op);
		if (op.outcome == STORE_GONE || op.outcome == STORE_WRONG_TYPE)
		{
			lt_look(hold, &view);
			report_lost(ERROR, name, &view);
		}
		if (op.outcome != STORE_OK)
			report_store_failure(ERROR, op.outcome, session_store_error());
		deadline = op.sent_at + request->lease_ms * LR_US_PER_MS;
	}
	if (!lt_set_scope(hold, request->scope, part, deadline))
		report_table_full();
	lr_count(STAT_REENTRIES);
}

bool
session_lock(const LrName *name, const AcquireRequest *request)
{
	HeldEntry  *entry;
	bool		found;
	LrIndex		hold;

	enter();
	entry = find_held(name);
	if (entry != NULL)
	{
		reenter(name, entry, request);
		return true;
	}

	reserve_batch(held->members + 1);
	pending_name = *name;
	entry = held_insert(held, held_key(&pending_name), &found);
	entry->hold = LR_NONE;
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
 * release_last --- the last hold of a key goes
 */
static bool
release_last(const LrName *name, HeldEntry *entry)
{
	HoldView	view;
	ReleaseTally tally;

	if (!add_to_batch(entry, &view))
	{
		report_lost(WARNING, name, &view);
		return false;
	}
	run_batch(lr_now() + lr_call_budget(), STORE_WAIT, &tally);
	if (tally.gone > 0)
	{
		view.lost_reason = tally.taken_by[0] ? LOST_TAKEN : LOST_DELETED;
		view.lost_at = GetCurrentTimestamp();
		strlcpy(view.taken_by, tally.taken_by, LR_OWNER_MAX);
		report_lost(WARNING, name, &view);
		return false;
	}
	if (tally.unanswered > 0)
		report_store_failure(WARNING, tally.failure, session_store_error());
	return true;
}

/*
 * release_one --- one of several session-level holds of a key goes
 *
 * It is gone before the store hears of it; should that fail, the next request
 * writes the right count, and the last release does not look at it.
 */
static bool
release_one(const LrName *name, HeldEntry *entry, HoldView *view)
{
	LrIndex		hold = entry->hold;
	ScopeHold  *part = &view->scope[SCOPE_SESSION];
	int			before = store_count(view);
	StoreOp		op;

	part->count--;
	(void) lt_set_scope(hold, SCOPE_SESSION, part, 0);
	if (store_count(view) == before)
		return true;

	run_set(hold, entry, view->owner, store_count(view), 0, &op);
	if (op.outcome == STORE_OK)
		return true;
	if (op.outcome != STORE_GONE && op.outcome != STORE_WRONG_TYPE)
	{
		report_store_failure(WARNING, op.outcome, session_store_error());
		return true;
	}
	lt_look(hold, view);
	held_delete_item(held, entry);
	lt_drop_lost(hold);
	report_lost(WARNING, name, view);
	return false;
}

bool
session_unlock(const LrName *name)
{
	HeldEntry  *entry;
	HoldView	view;

	enter();
	entry = find_held(name);
	if (entry == NULL)
	{
		warn_not_held(name);
		return false;
	}
	lt_look(entry->hold, &view);
	if (view.state == HOLD_LOST || view.scope[SCOPE_SESSION].count <= 1)
		return release_last(name, entry);
	return release_one(name, entry, &view);
}

int64
session_unlock_all(void)
{
	held_iterator it;
	HeldEntry  *entry;
	ReleaseTally tally;

	enter();
	forget_pending();
	for (;;)
	{
		HoldView	view;
		LrName		name;

		held_start_iterate(held, &it);
		entry = held_iterate(held, &it);
		if (entry == NULL)
			break;
		name.len = entry->key.len;
		memcpy(name.data, entry->key.data, name.len);
		if (!add_to_batch(entry, &view))
			report_lost(WARNING, &name, &view);
	}
	run_batch(lr_now() + lr_call_budget(), STORE_WAIT, &tally);
	if (tally.unanswered > 0)
		report_store_failure(WARNING, tally.failure, session_store_error());
	if (tally.gone > 0)
		ereport(WARNING,
				(errcode(ERRCODE_WARNING),
				 errmsg_plural("%d Redis lock had been lost",
							   "%d Redis locks had been lost",
							   tally.gone, tally.gone)));
	return tally.released + tally.unanswered;
}

/* ----------
 * Asking and changing
 * ----------
 */

bool
session_look(const LrName *name, HoldView *view)
{
	HeldEntry  *entry;

	enter();
	entry = find_held(name);
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

	enter();
	entry = find_held(name);
	if (entry == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("you don't own the Redis lock \"%s\"",
						lr_name_to_show(name->data, name->len))));
	lt_look(entry->hold, &view);
	if (view.state == HOLD_LOST)
		return false;

	run_set(entry->hold, entry, view.owner, store_count(&view), lease_ms, &op);
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
							op.sent_at + lease_ms * LR_US_PER_MS);
	}
	lt_look(entry->hold, &view);
	return view.state == HOLD_HELD;
}

void
session_inspect(const LrName *name, StoreOp *op)
{
	enter();
	memset(op, 0, sizeof(StoreOp));
	op->kind = STORE_INSPECT;
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
	op.name = name->data;
	op.name_len = name->len;
	op.owner_text = seen.holder;
	op.owner_text_len = strlen(seen.holder);
	session_run(&op, STORE_WAIT);
	if (op.outcome == STORE_GONE)
		return false;
	if (op.outcome != STORE_OK)
		report_store_failure(ERROR, op.outcome, session_store_error());
	lt_lose_by_owner_text(name, seen.holder, LOST_FORCED);
	return true;
}
