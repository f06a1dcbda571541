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
 * This is only for the warning: without an answer, that says "deleted".  If a cancel
 * interrupts us, the loss is reported first.
 */
static void
unlock_ask_who_took(const LrName *name, HoldView *view)
{
	HeldKey		key = held_key(name, view->kind);
	StoreOp		seen;

	ask_prepare(&seen, STORE_INSPECT, &key, view->store);
	PG_TRY();
	{
		ask_run(&seen);
	}
	PG_CATCH();
	{
		report_lost(WARNING, name, view);
		PG_RE_THROW();
	}
	PG_END_TRY();
	if (seen.outcome != STORE_OK || seen.answer.value == STORE_VALUE_NONE)
		return;
	view->lost.reason = LOST_TAKEN;
	if (seen.answer.value == STORE_VALUE_LOCK)
		strlcpy(view->lost.taken_by, seen.answer.holder, LR_OWNER_MAX);
	else
		snprintf(view->lost.taken_by, LR_OWNER_MAX, "(%s)", seen.answer.type_name);
}

/*
 * unlock_last --- release the last hold of a key
 */
static bool
unlock_last(const LrName *name, HeldEntry *entry)
{
	HoldView	view;
	ReleaseTally tally;

	if (!release_add(entry, true, &view))
	{
		report_lost(WARNING, name, &view);
		return false;
	}
	release_run(lr_now() + lr_call_budget(), STORE_WAIT, &tally);
	if (tally.gone > 0)
	{
		if (!lr_kind(view.kind)->each_own)
			unlock_ask_who_took(name, &view);
		report_lost(WARNING, name, &view);
		return false;
	}
	track_warn_early_unlock();
	if (tally.unanswered > 0)
		ask_report_failure(WARNING, tally.failure);
	return true;
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
 *
 * For several keys, only one warning says that the store did not answer; *warned says
 * whether there was one.
 */
static bool
unlock_leave_to_xact(const LrName *name, HeldEntry *entry, HoldView *view, bool *warned)
{
	HoldView	before = *view;
	StoreOp		op;

	unlock_lower_count(entry, view, view->scope[SCOPE_SESSION].count);
	if (before.scope[SCOPE_SESSION].guard == GUARD_OFF)
		return true;
	ask_prepare_held(&op, STORE_RENEW, &entry->key, &before);
	op.lease_ms = 1;			/* changes nothing */
	if (!ask_held(entry->hold, &op))
	{
		if (op.outcome != STORE_OK && !*warned)
		{
			*warned = true;
			ask_report_failure(WARNING, op.outcome);
		}
		return true;
	}
	lt_look(entry->hold, view);
	view->guard = before.guard;
	view->scope[SCOPE_SESSION] = before.scope[SCOPE_SESSION];
	return unlock_lost(name, entry, view);
}

/*
 * unlock_holds --- release n session-level holds of a key
 */
static bool
unlock_holds(const LrName *name, HeldEntry *entry, HoldView *view, int n, bool *warned)
{
	if (view->state == HOLD_LOST)
		return unlock_lost(name, entry, view);
	if (view->scope[SCOPE_SESSION].count == n &&
		view->scope[SCOPE_XACT].count == 0)
		return unlock_last(name, entry);
	if (view->scope[SCOPE_SESSION].count == n)
		return unlock_leave_to_xact(name, entry, view, warned);
	unlock_lower_count(entry, view, n);
	return true;
}

/*
 * unlock_find --- the entry that redis_unlock releases, and a view of it; NULL: none
 *
 * Holds of the job runner do not count: the user cannot release them.  With each_own,
 * this is the newest entry, or the newest lost one if there is one.
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
		*view = seen;
		found = entry;
		if (seen.state == HOLD_LOST || lt_lost_count() == 0)
			break;
	}
	return found;
}

/*
 * unlock_find_job --- the newest entry with a hold of a job that has not failed
 */
static HeldEntry *
unlock_find_job(const LrName *name, KindId kind)
{
	HeldEntry  *entry = held_find(name, kind);

	while (entry != NULL && lr_kind(kind)->each_own &&
		   entry->job_count <= entry->failed_jobs)
		entry = held_older(entry);
	return entry;
}

/*
 * session_unlock --- see session.h
 */
bool
session_unlock(const LrName *name, KindId kind)
{
	HeldEntry  *entry;
	HoldView	view;
	bool		warned = false;

	session_enter();
	entry = unlock_find(name, kind, &view);
	if (entry != NULL)
		return unlock_holds(name, entry, &view, 1, &warned);
	session_report_not_held(WARNING, name, kind);
	return false;
}

/*
 * session_unlock_job --- see session.h
 *
 * The present transaction has begun after the job's last commit, and has done nothing
 * under the lock, so a loss does not concern it.  If the session has other holds of the
 * lock, their loss is still to be reported.
 */
bool
session_unlock_job(const LrName *name, KindId kind)
{
	HeldEntry  *entry;
	HoldView	view;

	entry = unlock_find_job(name, kind);
	if (entry == NULL)
		return false;
	lt_look(entry->hold, &view);
	entry->job_count--;
	if (view.scope[SCOPE_SESSION].count == 1)
	{
		bool		warned = false;
		bool		released = unlock_holds(name, entry, &view, 1, &warned);

		track_forget_unlocked_losses();
		return released;
	}
	unlock_lower_count(entry, &view, 1);
	if (view.state == HOLD_LOST)
		report_lost(WARNING, name, &view);
	return view.state == HOLD_HELD;
}

/* ----------
 * Several at once
 * ----------
 */

/* What becomes of a lock of which a call releases one hold, or all. */
typedef enum UnlockFate
{
	UNLOCK_IN_BATCH,			/* its last hold is in the batch, or was lost: see the view */
	UNLOCK_LATER,				/* others hold it, too */
	UNLOCK_NOT_HELD,
	UNLOCK_DONE
} UnlockFate;

typedef struct UnlockItem
{
	LrName		name;
	KindId		kind;
	uint64		number;			/* as in HeldKey */
	UnlockFate	fate;
	bool		reported;		/* its loss was reported */
	HoldView	view;			/* of one in the batch */
} UnlockItem;

typedef struct UnlockList
{
	int			n;
	UnlockItem *items;
} UnlockList;

static void
unlock_make_list(UnlockList *list, int room)
{
	list->n = 0;
	list->items = palloc_extended(sizeof(UnlockItem) * (Size) room, MCXT_ALLOC_HUGE);
}

/*
 * unlock_add --- add an entry, of which at most so many holds are released, or a key that is
 * not held; the last hold goes into the batch, unless it is that of a job
 */
static void
unlock_add(UnlockList *list, const LrName *name, KindId kind, HeldEntry *entry, int most)
{
	UnlockItem *item = &list->items[list->n++];
	HoldView	view;

	item->name = *name;
	item->kind = kind;
	item->reported = false;
	item->fate = UNLOCK_NOT_HELD;
	if (entry == NULL)
		return;
	item->number = entry->key.number;
	item->fate = UNLOCK_LATER;
	lt_look(entry->hold, &view);
	if (entry->job_count > 0 || view.scope[SCOPE_XACT].count > 0 ||
		view.scope[SCOPE_SESSION].count > most)
		return;
	item->fate = UNLOCK_IN_BATCH;
	(void) release_add(entry, true, &item->view);
}

static bool
unlock_is_lost(const UnlockItem *item)
{
	return item->fate == UNLOCK_IN_BATCH && item->view.state == HOLD_LOST;
}

/*
 * unlock_report_losses --- report all losses that were not reported yet
 *
 * A pending cancel has to wait: it would raise after the first warning.
 */
static void
unlock_report_losses(const UnlockList *list)
{
	HOLD_CANCEL_INTERRUPTS();
	for (int i = 0; i < list->n; i++)
	{
		UnlockItem *item = &list->items[i];

		if (item->reported || !unlock_is_lost(item))
			continue;
		item->reported = true;
		report_lost(WARNING, &item->name, &item->view);
	}
	RESUME_CANCEL_INTERRUPTS();
}

/*
 * unlock_run_batch --- report losses that are known, then run the batch
 *
 * The order matters: if a batch is interrupted (by a cancel, a time limit, or the end
 * of the session) while the release of another key hangs, a later warning would never
 * be seen.  Even a warning can raise (if the client's encoding lacks a character of the
 * key).  Then the batch is run as at the end of a transaction.  All losses have been
 * recorded for the commit by then.
 *
 * If the batch is interrupted, the losses that it has found are reported.
 */
static void
unlock_run_batch(const UnlockList *list, ReleaseTally *tally)
{
	volatile bool running = false;

	PG_TRY();
	{
		unlock_report_losses(list);
		running = true;
		release_run(lr_now() + lr_call_budget(), STORE_WAIT, tally);
	}
	PG_CATCH();
	{
		if (!running)
			release_run_at_end();
		unlock_report_losses(list);
		PG_RE_THROW();
	}
	PG_END_TRY();
}

/*
 * unlock_report --- report what else came of a batch, in warnings
 *
 * Losses come first, since a pending cancel raises after any of the warnings.
 */
static void
unlock_report(const ReleaseTally *tally)
{
	if (tally->released > 0)
		track_warn_early_unlock();
	if (tally->unanswered > 0)
		ask_report_failure(WARNING, tally->failure);
}

/*
 * unlock_rest --- release session-level holds of a lock that did not go into the batch
 *
 * At most so many, and none of the job runner.
 */
static bool
unlock_rest(const UnlockItem *item, int most, bool *warned)
{
	HeldKey		key = held_key(&item->name, item->kind);
	HeldEntry  *entry;
	HoldView	view;
	int			n;

	key.number = item->number;
	entry = held_find_key(&key);
	if (entry == NULL)
		return false;
	lt_look(entry->hold, &view);
	n = Min(view.scope[SCOPE_SESSION].count - entry->job_count, most);
	return n > 0 && unlock_holds(&item->name, entry, &view, n, warned);
}

/*
 * unlock_what_is_left --- the keys that did not go into the batch; false: one was not
 * held, or was lost
 */
static bool
unlock_what_is_left(const UnlockList *list, bool warned)
{
	bool		all = true;

	for (int i = 0; i < list->n; i++)
	{
		const UnlockItem *item = &list->items[i];

		if (item->fate == UNLOCK_LATER)
			all &= unlock_rest(item, 1, &warned);
		else if (item->fate == UNLOCK_NOT_HELD)
			session_report_not_held(WARNING, &item->name, item->kind);
		all &= item->fate != UNLOCK_NOT_HELD && !unlock_is_lost(item);
	}
	return all;
}

/*
 * session_multi_unlock --- see session.h
 */
bool
session_multi_unlock(const LrName *const *names, int n, KindId kind)
{
	UnlockList	list;
	ReleaseTally tally;
	HoldView	view;
	bool		all;

	session_enter();
	unlock_make_list(&list, n);
	for (int i = 0; i < n; i++)
		unlock_add(&list, names[i], kind,
				   unlock_find(names[i], kind, &view), 1);
	unlock_run_batch(&list, &tally);
	unlock_report_losses(&list);
	unlock_report(&tally);
	all = unlock_what_is_left(&list, tally.unanswered > 0);
	pfree(list.items);
	release_trim(held_count());
	return all;
}

static void
unlock_collect(HeldEntry *entry, void *arg)
{
	LrName		name;

	held_copy_name(&entry->key, &name);
	unlock_add(arg, &name, entry->key.kind, entry, PG_INT32_MAX);
}

static int
unlock_compare_names(const void *a, const void *b)
{
	const UnlockItem *one = *(UnlockItem *const *) a;
	const UnlockItem *other = *(UnlockItem *const *) b;

	if (one->kind != other->kind)
		return one->kind < other->kind ? -1 : 1;
	if (one->name.hash != other->name.hash)
		return one->name.hash < other->name.hash ? -1 : 1;
	if (one->name.len != other->name.len)
		return one->name.len < other->name.len ? -1 : 1;
	return memcmp(one->name.data, other->name.data, one->name.len);
}

/*
 * unlock_count_keys --- the number of keys of which something was released
 *
 * With each_own a key can have thousands of entries.
 */
static int64
unlock_count_keys(const UnlockList *list)
{
	UnlockItem **given = palloc_extended(sizeof(UnlockItem *) * (Size) list->n,
										 MCXT_ALLOC_HUGE);
	int			ngiven = 0;
	int64		n = 0;

	for (int i = 0; i < list->n; i++)
	{
		UnlockItem *item = &list->items[i];

		if (item->fate == UNLOCK_DONE ||
			(item->fate == UNLOCK_IN_BATCH && !unlock_is_lost(item)))
			given[ngiven++] = item;
	}
	qsort(given, ngiven, sizeof(UnlockItem *), unlock_compare_names);
	for (int i = 0; i < ngiven; i++)
		if (i == 0 || unlock_compare_names(&given[i - 1], &given[i]) != 0)
			n++;
	pfree(given);
	return n;
}

/* If the batch is not interrupted, one warning reports all losses that it has found. */
int64
session_unlock_all(void)
{
	UnlockList	list;
	ReleaseTally tally;
	bool		warned;
	int64		n;

	session_enter();
	if (held_count() == 0)
		return 0;
	unlock_make_list(&list, held_count());
	held_walk(unlock_collect, &list);
	unlock_run_batch(&list, &tally);
	if (tally.gone > 1)
		ereport(WARNING,
				(errcode(ERRCODE_WARNING),
				 errmsg("%d Redis locks were lost", tally.gone)));
	else
		unlock_report_losses(&list);
	unlock_report(&tally);
	warned = tally.unanswered > 0;
	for (int i = 0; i < list.n; i++)
		if (list.items[i].fate == UNLOCK_LATER &&
			unlock_rest(&list.items[i], PG_INT32_MAX, &warned))
			list.items[i].fate = UNLOCK_DONE;
	n = unlock_count_keys(&list);
	pfree(list.items);
	release_trim(held_count());
	return n;
}
