/*-------------------------------------------------------------------------
 *
 * release.c
 *	  Release locks, in batches; and have the store count what a transaction has left to
 *	  its commit.
 *
 * One batch serves redis_unlock, redis_unlock_all, the end of a transaction, DISCARD
 * ALL and the end of the session.  In the last three it cannot raise.
 *
 * A hold is removed from the index before its release is sent: from then on the session
 * does not have the lock, whatever the store answers.  A release that is not answered
 * is left to the watchdog.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/session/release.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "port/pg_bitutils.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "locktable/watch.h"
#include "names.h"
#include "session/session.h"
#include "session/session_int.h"
#include "settings.h"
#include "stats.h"
#include "store/nodes.h"
#include "store/stores.h"

/* The lock of an operation of the batch; empty for a count. */
typedef struct ReleaseItem
{
	HeldKey		key;			/* its data stays valid while the hold exists */
	HoldView	view;			/* of the hold when it was added */
	SubTransactionId taken_in;	/* see track_taken_in() */
	HoldView   *copy;			/* for its caller; see release_add() */
	bool		done;			/* its answer has been dealt with */
} ReleaseItem;

/*
 * The batch that is being released, whose operations are pending (ask.c).  The arrays are
 * reserved before locks are acquired.
 */
typedef struct ReleaseBatch
{
	int			size;			/* of both arrays */
	ReleaseItem *items;			/* for each operation: StoreArgs.item */
	ReleaseTally tally;			/* of what is done */
} ReleaseBatch;

static ReleaseBatch batch;

int			counts_pending = 0;

/* A release that was sent has notified a client elsewhere. */
static bool notified_elsewhere = false;

/* ----------
 * Its memory
 * ----------
 */

static void *
release_resize_array(void *array, Size size)
{
	if (array == NULL)
		return MemoryContextAllocHuge(TopMemoryContext, size);
	return repalloc_huge(array, size);
}

/*
 * release_resize --- give all arrays of the batch room for that many
 *
 * batch.size is never more than any of the arrays has, even if this raises.
 */
static void
release_resize(int size)
{
	batch.size = Min(batch.size, size);
	pending.ops = release_resize_array(pending.ops, sizeof(StoreOp) * (Size) size);
	batch.items = release_resize_array(batch.items,
									   sizeof(ReleaseItem) * (Size) size);
	batch.size = size;
}

#define BATCH_SIZE_FIRST	4

/* A batch up to this size is not made smaller. */
#define BATCH_SIZE_KEPT		128

/*
 * release_reserve --- see session_int.h
 *
 * A session whose number of locks goes up and down does not reallocate each time.
 */
void
release_reserve(int n)
{
	n = Max(n + counts_pending, BATCH_SIZE_FIRST);
	if (n > batch.size ||
		(pending.give_up == NULL && batch.size > BATCH_SIZE_KEPT && n <= batch.size / 4))
		release_resize(pg_nextpower2_32(n));
}

/* ----------
 * Counts
 * ----------
 */

/*
 * count_prepare --- prepare the request for a record, in the store that counts now
 */
void
count_prepare(StoreOp *op, const HeldKey *key, LrIndex hold)
{
	ask_prepare(op, STORE_TALLY, key, lr_first_store());
	op->hold = hold;
	op->owner = lt_owner(hold);
	op->amount = lt_owed_amount(hold);
}

/* A store with messages notifies the sessions of this server, too. */
void
count_wake(const StoreOp *op)
{
	if (!lr_store_can(op->store, STORE_HAS_PUSH))
		lt_wake_waiter(0, op->name, op->name_len);
}

void
count_done(const StoreOp *op)
{
	if (op->outcome == STORE_OK)
	{
		ask_forget(op);
		count_wake(op);
	}
	lt_owed_done(op->hold);
}

/*
 * release_finish_count --- apply the outcome of a count after the commit
 *
 * No error can be raised, so the watchdog also repeats a request that was refused.
 */
static void
release_finish_count(StoreOp *op)
{
	ask_distrust(op);
	if (op->outcome == STORE_OK)
		count_done(op);
	else
		lt_leave_owed(op->hold, op);
}

/* ----------
 * What became of it
 * ----------
 */

/*
 * release_note_gone --- the release found that the lock had been lost before
 *
 * Each loss is recorded for the commit; the warning names one of them.
 */
static void
release_note_gone(const StoreOp *op, ReleaseItem *item)
{
	HoldView   *view = &item->view;

	view->state = HOLD_LOST;
	losses_note(&view->lost,
				lr_store_can(op->store, STORE_HAS_PLACE) && view->place != lr_place ?
				LOST_MOVED : op->answer.holder[0] ? LOST_TAKEN : LOST_DELETED, op->answer.holder);
	track_unlocked_loss(&item->key, view, item->taken_in);
	losses_add(MyProcPid, op->name, op->name_len, view->scope, &view->lost);

	batch.tally.gone++;
	lr_count(STAT_LOSSES);
	lr_wake_watchdog();
	if (item->copy != NULL)
		*item->copy = *view;
}

/*
 * release_finish_one --- apply the outcome of a release, unless that is done
 */
static void
release_finish_one(const StoreOp *op)
{
	ReleaseTally *tally = &batch.tally;
	ReleaseItem *item = &batch.items[op->args.item];

	Assert(item->done || op->outcome != STORE_PENDING);
	if (item->done)
		return;
	item->done = true;
	switch (op->outcome)
	{
		case STORE_OK:
			tally->released++;
			lr_count(STAT_RELEASES);
			lt_end_release(op->hold, op);
			break;
		case STORE_GONE:
		case STORE_WRONG_TYPE:
			release_note_gone(op, item);
			lt_end_release(op->hold, op);
			break;
		default:
			tally->unanswered++;
			lr_count(STAT_RELEASES);
			tally->failure = op->outcome;
			lt_orphan(op->hold, op->sent.at);
	}
}

/*
 * release_take_answers --- some releases may have been answered, while others are not
 *
 * Sessions of this server that want such a lock do not wait for the rest of the batch, whose
 * node may hang.  The store does not look at the name of an answered release any more, which
 * may be gone with its hold.
 */
static void
release_take_answers(void)
{
	for (int i = 0; i < pending.nops; i++)
	{
		const StoreOp *op = &pending.ops[i];

		if (op->kind == STORE_RELEASE &&
			(op->outcome == STORE_OK || op->outcome == STORE_GONE ||
			 op->outcome == STORE_WRONG_TYPE))
			release_finish_one(op);
	}
}

/*
 * release_settle --- apply the outcome; a lock without an answer is left to the watchdog
 */
static void
release_settle(StoreOp *op)
{
	if (op->kind == STORE_TALLY)
		release_finish_count(op);
	else
		release_finish_one(op);
}

/*
 * release_give_up --- the same when the statement of the batch has ended
 */
static void
release_give_up(StoreOp *op)
{
	batch.items[op->args.item].copy = NULL;
	release_settle(op);
}

/*
 * release_finish --- end the batch; never raises
 */
static ReleaseTally
release_finish(void)
{
	for (int i = 0; i < pending.nops; i++)
		release_settle(&pending.ops[i]);
	pending_end();
	return batch.tally;
}

/* ----------
 * Filling it
 * ----------
 */

/*
 * release_begin --- begin a batch, unless one has begun
 */
static void
release_begin(void)
{
	if (pending.give_up == release_give_up)
		return;
	memset(&batch.tally, 0, sizeof(ReleaseTally));
	pending_begin(0, release_give_up);
}

/* For how long the key is to stay locked after its release (ms). */
static int64
release_keep_ms(const HoldView *view)
{
	if (view->keep_until == 0)
		return 0;
	return lr_later(lr_ms_up(view->keep_until - lr_now()), 0);
}

/*
 * release_add --- see session_int.h
 *
 * If a session of this server waits for the lock, it is handed over instead.  A loss is
 * recorded before the hold is dropped, so that the commit knows about it even if
 * something raises later.
 */
bool
release_add(HeldEntry *entry, bool reported, HoldView *view)
{
	ReleaseItem *item = &batch.items[pending.nops];
	StoreOp    *op = &pending.ops[pending.nops];
	LrIndex		hold = entry->hold;

	item->key = entry->key;
	item->taken_in = track_taken_in(entry);
	item->copy = view;
	item->done = false;
	held_delete(entry);
	switch (lt_begin_release(hold, false, &item->view))
	{
		case RELEASE_LOST:
			if (reported)
				track_unlocked_loss(&item->key, &item->view, item->taken_in);
			if (view != NULL)
				*view = item->view;
			lt_drop_lost(hold);
			return false;
		case RELEASE_HANDED_OVER:
			release_begin();
			batch.tally.released++;
			lr_count(STAT_RELEASES);
			break;
		case RELEASE_IN_STORE:
			release_begin();
			ask_prepare_held(op, STORE_RELEASE, &item->key, &item->view);
			op->args.item = pending.nops++;
			op->hold = hold;
			op->outcome = STORE_DOWN;	/* until it is sent */
			op->keep_ms = release_keep_ms(&item->view);
			if (op->keep_ms > 0)
				silence_saw_ttl(item->key.hash, op->keep_ms);
	}
	if (view != NULL)
		*view = item->view;
	if (!reported)
		item->view.guard = GUARD_OFF;
	return true;
}

void
release_add_count(const HeldKey *key, LrIndex hold)
{
	ReleaseItem *item = &batch.items[pending.nops];

	release_begin();
	memset(item, 0, sizeof(ReleaseItem));
	item->view.kind = key->kind;
	count_prepare(&pending.ops[pending.nops], key, hold);
	pending.ops[pending.nops].args.item = pending.nops;
	pending.nops++;
	counts_pending--;
}

/* ----------
 * Running it
 * ----------
 */

static int
release_compare(const void *a, const void *b)
{
	const StoreOp *one = a;
	const StoreOp *other = b;
	int			later = lr_store_can(other->store, STORE_SERVER_ONLY) -
		lr_store_can(one->store, STORE_SERVER_ONLY);

	return later != 0 ? later : (int) one->lock_kind - (int) other->lock_kind;
}

/*
 * release_sort --- first come those of a store on this server, which does not take long; and
 * each kind together, since only adjacent operations can share a command
 */
static void
release_sort(void)
{
	if (pending.nops > 1)
		qsort(pending.ops, pending.nops, sizeof(StoreOp), release_compare);
}

/* If this raises, the batch is empty afterwards. */
ReleaseTally
release_run(int64 deadline, StoreStep how)
{
	ReleaseTally tally;

	release_begin();
	release_sort();
	PG_TRY();
	{
		ask_run_until(pending.ops, pending.nops, deadline, how, release_take_answers);
	}
	PG_FINALLY();
	{
		tally = release_finish();
	}
	PG_END_TRY();
	return tally;
}

/* How long the end of a transaction waits for its releases: this, */
#define END_PATIENCE		(100 * LR_US_PER_MS)
/* or that many usual round trips, if the store is far away, but no more */
#define END_ROUND_TRIPS		3
/* than this; */
#define END_PATIENCE_MAX	LR_US_PER_S
/* and in addition this for each lock, of which there may be thousands. */
#define END_PATIENCE_EACH	(LR_US_PER_MS / 5)

int64
release_patience(int n)
{
	int64		usual = 0;

	for (int i = 0; i < STORE_COUNT; i++)
		if (lr_has_store(i))
			usual = Max(usual, lr_usual_round_trip(i));
	return Min(Max(END_PATIENCE,
				   Min(END_ROUND_TRIPS * usual, END_PATIENCE_MAX)) +
			   n * END_PATIENCE_EACH,
			   lr_call_budget());
}

/*
 * All other locks of the (sub)transaction have been released by now, and yet somebody
 * waits for us: the client, those whom a NOTIFY of the transaction wakes after this,
 * and in a ROLLBACK TO those who want a lock of the parent.  So a release that is not
 * answered soon is left to the watchdog: its hold becomes an orphan, and the release is
 * sent again at once.  That has a price.  The reply may still come, so this connection
 * is closed, and the next request makes a new one.  And until the watchdog has its
 * answer, the key is locked for everybody, this session included.
 */
void
release_run_at_end(void)
{
	(void) release_run(lr_now() + release_patience(pending.nops), STORE_POLL);
}

/*
 * release_may_be_sent --- may the end of a transaction go on without the answers?
 *
 * Not if a session of this server waits for one of the locks: the answer wakes it.  Nor
 * if the last release notified a client elsewhere.  If this session took the key again,
 * its request would be right behind the release, and so always ahead of that client.
 * The lock table notes such a notification in the entry of the key, but loses it with
 * the hold if no other session uses the key, as when several keys are taken at once.
 * So we remember it ourselves.
 */
static bool
release_may_be_sent(void)
{
	bool		notified = notified_elsewhere;

	notified_elsewhere = false;
	if (notified || lr_release_wait != RELEASE_WAIT_SENT || pending.nops == 0 ||
		!lr_watchdog_running())
		return false;
	for (int i = 0; i < pending.nops; i++)
	{
		const StoreOp *op = &pending.ops[i];
		const HoldView *view = &batch.items[op->args.item].view;
		const LockKind *kind = lr_kind(view->kind);

		if (op->store != pending.ops[0].store ||
			op->keep_ms > 0 || view->awaited || view->place != lr_place ||
			view->of_old_master || ask_min_replicas(view) > 0 ||
			kind->each_own || kind->passing || kind->ownerless)
			return false;
	}
	return true;
}

/*
 * release_answered --- the answer to a release that was sent has been read, or will not come
 */
static void
release_answered(const StoreOp *op)
{
	if (lt_end_sent(op))
		notified_elsewhere = true;
}

/*
 * release_end_transaction --- see session_int.h
 */
void
release_end_transaction(void)
{
	if (!release_may_be_sent())
	{
		release_run_at_end();
		return;
	}
	release_sort();
	if (!ask_send(pending.ops, pending.nops, lr_now() + release_patience(pending.nops),
				  release_answered, release_take_answers))
	{
		(void) release_finish();
		return;
	}
	for (int i = 0; i < pending.nops; i++)
		lt_leave_sent(pending.ops[i].hold);
	lr_count_many(STAT_RELEASES, pending.nops);
	pending_end();
}

static void
release_held(HeldEntry *entry, void *arg)
{
	(void) release_add(entry, true, NULL);
}

ReleaseTally
release_everything(void)
{
	held_walk(release_held, NULL);
	return release_run(lr_now() + lr_command_timeout * LR_US_PER_MS, STORE_POLL);
}
