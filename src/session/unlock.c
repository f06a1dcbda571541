/*-------------------------------------------------------------------------
 *
 * unlock.c
 *	  Release Redis locks.
 *
 * This file has what a user, or the job runner, releases.  transaction.c releases locks
 * at the end of a transaction.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/session/unlock.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "miscadmin.h"

#include "report.h"
#include "session/session.h"
#include "session/session_int.h"
#include "settings.h"

/*
 * unlock_ask_who_took --- a release found its owner gone: ask who has the key instead
 *
 * This is only for the warning: without an answer, that says "deleted".  It is not
 * interruptible, as an interrupt would raise before the loss is reported, so it is not waited
 * for long.
 */
static void
unlock_ask_who_took(const LrName *name, HoldView *view)
{
	HeldKey		key = held_key(name, view->kind);
	StoreOp		seen;

	ask_prepare(&seen, STORE_INSPECT, &key, view->store);
	ask_run_until(&seen, 1, lr_now() + release_patience(1), STORE_POLL, NULL);
	if (seen.outcome != STORE_OK || seen.answer.value == STORE_VALUE_NONE)
		return;
	view->lost.reason = LOST_TAKEN;
	if (seen.answer.value == STORE_VALUE_LOCK)
		strlcpy(view->lost.taken_by, seen.answer.holder, LR_OWNER_MAX);
	else
		snprintf(view->lost.taken_by, LR_OWNER_MAX, "(%s)", seen.answer.type_name);
}

/*
 * unlock_lost --- report a loss to the session, and drop its part of the hold
 *
 * If the transaction has the lock, too, it sees the loss at its commit; so does the job
 * runner, at its end.
 */
static bool
unlock_lost(const LrName *name, HeldEntry *entry, HoldView *view)
{
	track_unlocked_loss(&entry->key, view, track_taken_in(entry));
	if (view->scope[SCOPE_XACT].count == 0 && entry->job_count == 0)
	{
		LrIndex		hold = entry->hold;

		held_delete(entry);
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
 * unlock_lower_count --- release n of several holds of a key
 *
 * The store does not count them.
 */
static void
unlock_lower_count(const HeldEntry *entry, const HoldView *view, int n)
{
	ScopeHold	part = view->scope[SCOPE_SESSION];

	part.count -= n;
	(void) lt_set_scope(entry->hold, SCOPE_SESSION, &part, 0, 0);
}

/*
 * unlock_leave_to_xact --- release the session's part of a lock; the transaction's
 * stays
 *
 * The transaction may have relied on the session's part, whose guard ends here, so we
 * ask the store whether the lock is still there.  We cannot leave that to the
 * transaction's part: it may be rolled back to a savepoint, or its guard may be off.
 * Until the store has answered, the session has its part: a call that is canceled, and
 * rolled back to a savepoint, has released nothing.
 *
 * For several keys, only one warning says that the store did not answer; *warned says
 * whether there was one.
 */
static bool
unlock_leave_to_xact(const LrName *name, HeldEntry *entry, HoldView *view, bool *warned)
{
	StoreOp		op;

	if (view->scope[SCOPE_SESSION].guard != GUARD_OFF)
	{
		ask_prepare_held(&op, STORE_RENEW, &entry->key, view);
		op.hold = entry->hold;
		op.lease_ms = 1;		/* changes nothing */
		(void) ask_held(entry->hold, &op);
		lt_look(entry->hold, view);
		if (view->state == HOLD_LOST)
			return unlock_lost(name, entry, view);
		if (op.outcome != STORE_OK && !*warned)
		{
			*warned = true;
			ask_report_failure(WARNING, op.outcome);
		}
	}
	unlock_lower_count(entry, view, view->scope[SCOPE_SESSION].count);
	return true;
}

/*
 * unlock_find --- the entry that redis_unlock releases; NULL: none
 *
 * Holds of the job runner do not count: the user cannot release them.  With each_own,
 * this is the newest entry, or the newest lost one if there is one.  *view is that of its hold.
 */
static HeldEntry *
unlock_find(const LrName *name, KindId kind, HoldView *view)
{
	HeldEntry  *found = NULL;

	for (HeldEntry *entry = held_find(name, kind); entry != NULL; entry = held_older(entry))
	{
		HoldView	seen;

		lt_look(entry->hold, &seen);
		if (seen.scope[SCOPE_SESSION].count <= entry->job_count ||
			(found != NULL && seen.state != HOLD_LOST))
			continue;
		found = entry;
		*view = seen;
		if (seen.state == HOLD_LOST || lt_lost_count() == 0)
			break;
	}
	return found;
}

/* ----------
 * The locks that one call releases
 * ----------
 */

/* What becomes of a lock of which a call releases one hold, or all. */
typedef enum UnlockFate
{
	UNLOCK_IN_BATCH,			/* its last hold is in the batch; its view may say that it was
								 * lost */
	UNLOCK_LOST,				/* its last hold was known to be lost */
	UNLOCK_LATER,				/* others hold it, too */
	UNLOCK_NOT_HELD,			/* or it was lost, and that has been reported */
	UNLOCK_DONE
} UnlockFate;

typedef struct UnlockItem
{
	LrName		name;
	KindId		kind;
	HeldEntry  *entry;			/* of one that others hold, too */
	UnlockFate	fate;
	HoldView	view;			/* of one in the batch */
} UnlockItem;

typedef struct UnlockList
{
	int			n;
	UnlockItem *items;
	int			most;			/* how many holds of each are released */
} UnlockList;

static void
unlock_make_list(UnlockList *list, int room, int most)
{
	list->n = 0;
	list->items = palloc_extended(sizeof(UnlockItem) * (Size) room, MCXT_ALLOC_HUGE);
	list->most = most;
}

/*
 * unlock_add --- add an entry and the view of its hold, or a key that is not held; the last hold goes
 * into the batch, unless it is that of a job
 */
static void
unlock_add(UnlockList *list, const LrName *name, KindId kind, HeldEntry *entry,
		   const HoldView *view)
{
	UnlockItem *item = &list->items[list->n++];

	item->name = *name;
	item->kind = kind;
	item->fate = UNLOCK_NOT_HELD;
	if (entry == NULL)
		return;
	item->entry = entry;
	item->fate = UNLOCK_LATER;
	if (entry->job_count > 0 || view->scope[SCOPE_XACT].count > 0 ||
		view->scope[SCOPE_SESSION].count > list->most)
		return;
	item->fate = release_add(entry, true, &item->view) ? UNLOCK_IN_BATCH : UNLOCK_LOST;
}

static bool
unlock_is_lost(const UnlockItem *item)
{
	return item->fate == UNLOCK_LOST ||
		(item->fate == UNLOCK_IN_BATCH && item->view.state == HOLD_LOST);
}

/*
 * unlock_report_losses --- report all losses, or only those that were known before
 *
 * A pending cancel has to wait: it would raise after the first warning.
 */
static void
unlock_report_losses(const UnlockList *list, bool found)
{
	HOLD_CANCEL_INTERRUPTS();
	for (int i = 0; i < list->n; i++)
	{
		const UnlockItem *item = &list->items[i];

		if (item->fate == UNLOCK_LOST || (found && unlock_is_lost(item)))
			report_lost(WARNING, &item->name, &item->view);
	}
	RESUME_CANCEL_INTERRUPTS();
}

/*
 * unlock_run_batch --- run the batch
 *
 * It may be interrupted (by a cancel, or a time limit) while the release of a key hangs.
 * Then the losses are reported first, those that it has found and those that were known.
 */
static void
unlock_run_batch(const UnlockList *list, ReleaseTally *tally)
{
	PG_TRY();
	{
		*tally = release_run(lr_now() + lr_call_budget(), STORE_WAIT);
	}
	PG_CATCH();
	{
		unlock_report_losses(list, true);
		PG_RE_THROW();
	}
	PG_END_TRY();
}

/*
 * unlock_report --- report what came of a batch, in warnings
 *
 * Losses come first, since a pending cancel raises after any of the warnings.
 */
static void
unlock_report(UnlockList *list, const ReleaseTally *tally)
{
	bool		in_one = list->most > 1 && tally->gone > 1;

	if (list->n == 1 && tally->gone > 0 && !lr_kind(list->items[0].kind)->each_own)
		unlock_ask_who_took(&list->items[0].name, &list->items[0].view);
	unlock_report_losses(list, !in_one);
	if (in_one)
		ereport(WARNING,
				(errcode(ERRCODE_WARNING),
				 errmsg("%d Redis locks were lost", tally->gone)));
	if (tally->released + tally->unanswered > 0)
		track_warn_early_unlock();
	if (tally->unanswered > 0)
		ask_report_failure(WARNING, tally->failure);
}

/*
 * unlock_rest --- release session-level holds of a lock that did not go into the batch
 *
 * At most so many, and none of the job runner.  The store does not count them.
 */
static bool
unlock_rest(const UnlockItem *item, int most, bool *warned)
{
	HeldEntry  *entry = item->entry;
	HoldView	view;
	int			n;

	lt_look(entry->hold, &view);
	n = Min(view.scope[SCOPE_SESSION].count - entry->job_count, most);
	if (n <= 0)
		return false;
	if (view.state == HOLD_LOST)
		return unlock_lost(&item->name, entry, &view);
	if (view.scope[SCOPE_SESSION].count == n)
		return unlock_leave_to_xact(&item->name, entry, &view, warned);
	unlock_lower_count(entry, &view, n);
	return true;
}

/*
 * unlock_run --- release what is in the list; false: one was not held, or was lost
 */
static bool
unlock_run(UnlockList *list)
{
	ReleaseTally tally;
	bool		warned;
	bool		all = true;

	unlock_run_batch(list, &tally);
	unlock_report(list, &tally);
	warned = tally.unanswered > 0;
	for (int i = 0; i < list->n; i++)
	{
		UnlockItem *item = &list->items[i];

		if (item->fate == UNLOCK_NOT_HELD)
			report_not_held(WARNING, &item->name, item->kind,
							held_kind_of(&item->name, item->kind));
		else if (item->fate == UNLOCK_LATER)
			item->fate = unlock_rest(item, list->most, &warned) ? UNLOCK_DONE : UNLOCK_NOT_HELD;
		else if (!unlock_is_lost(item))
			item->fate = UNLOCK_DONE;
		all &= item->fate == UNLOCK_DONE;
	}
	return all;
}

/* ----------
 * What is released
 * ----------
 */

static bool
unlock_one(const LrName *name, KindId kind, HeldEntry *entry, const HoldView *view)
{
	UnlockItem	item;
	UnlockList	list = {0, &item, 1};

	unlock_add(&list, name, kind, entry, view);
	return unlock_run(&list);
}

/*
 * session_unlock --- see session.h
 */
bool
session_unlock(const LrName *name, KindId kind)
{
	HoldView	view;
	HeldEntry  *entry;

	session_enter();
	entry = unlock_find(name, kind, &view);
	return unlock_one(name, kind, entry, &view);
}

/*
 * session_unlock_job --- see session.h
 *
 * The present transaction has begun after the job's last commit, and has done nothing
 * under the lock, so a loss does not concern it.  If the session has other holds of the
 * lock, their loss is still to be reported.
 */
bool
session_unlock_job(const LrName *name, HeldEntry *entry)
{
	HoldView	view;

	lt_look(entry->hold, &view);
	entry->job_count--;
	if (view.scope[SCOPE_SESSION].count == 1)
	{
		bool		released = unlock_one(name, view.kind, entry, &view);

		track_forget_unlocked_losses();
		return released;
	}
	unlock_lower_count(entry, &view, 1);
	if (view.state == HOLD_LOST)
		report_lost(WARNING, name, &view);
	return view.state == HOLD_HELD;
}

/*
 * session_multi_unlock --- see session.h
 */
bool
session_multi_unlock(const LrName *names, int n, KindId kind)
{
	UnlockList	list;
	bool		all;

	session_enter();
	unlock_make_list(&list, n, 1);
	for (int i = 0; i < n; i++)
	{
		HoldView	view;
		HeldEntry  *entry = unlock_find(&names[i], kind, &view);

		unlock_add(&list, &names[i], kind, entry, &view);
	}
	all = unlock_run(&list);
	pfree(list.items);
	release_reserve(held_count());
	return all;
}

static void
unlock_collect(HeldEntry *entry, void *arg)
{
	LrName		name;
	HoldView	view;

	held_copy_name(&entry->key, &name);
	lt_look(entry->hold, &view);
	unlock_add(arg, &name, entry->key.kind, entry, &view);
}

/*
 * unlock_count_keys --- the number of keys of which something was released
 *
 * With each_own a key can have several entries, one after the other.
 */
static int64
unlock_count_keys(const UnlockList *list)
{
	const UnlockItem *last = NULL;
	int64		n = 0;

	for (int i = 0; i < list->n; i++)
	{
		const UnlockItem *item = &list->items[i];

		if (item->fate != UNLOCK_DONE)
			continue;
		if (last == NULL || last->kind != item->kind || last->name.len != item->name.len ||
			memcmp(last->name.data, item->name.data, item->name.len) != 0)
			n++;
		last = item;
	}
	return n;
}

/* If the batch is not interrupted, one warning reports all losses that it has found. */
int64
session_unlock_all(void)
{
	UnlockList	list;
	int64		n;

	session_enter();
	if (held_count() == 0)
		return 0;
	unlock_make_list(&list, held_count(), PG_INT32_MAX);
	held_walk(unlock_collect, &list);
	(void) unlock_run(&list);
	n = unlock_count_keys(&list);
	pfree(list.items);
	release_reserve(held_count());
	return n;
}
