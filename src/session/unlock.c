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
		ask_run(&seen, STORE_WAIT);
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
 * unlock_last --- release the last hold of a key
 */
static bool
unlock_last(const LrName *name, HeldEntry *entry)
{
	HoldView	view;
	ReleaseTally tally;

	if (!release_add(entry, &view))
	{
		report_lost(WARNING, name, &view);
		return false;
	}
	release_run(lr_now() + lr_call_budget(), STORE_WAIT, &tally);
	if (tally.gone > 0)
	{
		if (!lr_kind(view.kind)->each_own)
			unlock_ask_who_took(name, &tally.gone_view);
		report_lost(WARNING, name, &tally.gone_view);
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

static void
unlock_warn_not_held(const LrName *name, KindId kind)
{
	KindId		has = held_kind_of(name, kind);

	if (has != kind)
		report_not_held_so(WARNING, name, kind, has);
	else
		report_not_held(WARNING, name);
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
	unlock_warn_not_held(name, kind);
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

/* One entry of the index, for session_unlock_all. */
typedef struct UnlockItem
{
	LrName		name;
	KindId		kind;
	uint64		number;			/* as in HeldKey */
	bool		given;			/* one or more holds were released */
	bool		lost;
	HoldView	view;			/* if it was lost */
} UnlockItem;

typedef struct UnlockAll
{
	int			n;
	UnlockItem *items;
	int		   *added;			/* which one went into the batch, by its order there */
} UnlockAll;

static void
unlock_collect_name(HeldEntry *entry, void *arg)
{
	UnlockAll  *all = arg;
	UnlockItem *item = &all->items[all->n++];

	held_copy_name(&entry->key, &item->name);
	item->kind = entry->key.kind;
	item->number = entry->key.number;
	item->given = false;
	item->lost = false;
}

static HeldEntry *
unlock_find_item(const UnlockItem *item)
{
	HeldKey		key = held_key(&item->name, item->kind);

	key.number = item->number;
	return held_find_key(&key);
}

/*
 * unlock_all_of_key --- add the lock to the batch, unless the transaction or a job
 * holds it
 *
 * Returns false also if the lock was lost.
 */
static bool
unlock_all_of_key(UnlockItem *item)
{
	HeldEntry  *entry = unlock_find_item(item);
	HoldView	view;

	lt_look(entry->hold, &view);
	if (entry->job_count > 0 || view.scope[SCOPE_XACT].count > 0)
		return false;
	item->lost = !release_add(entry, &item->view);
	return !item->lost;
}

/*
 * unlock_rest_of_key --- release session-level holds of a lock that others hold, too
 *
 * The others are the transaction or the job runner.
 */
static bool
unlock_rest_of_key(UnlockItem *item, bool *warned)
{
	HeldEntry  *entry = unlock_find_item(item);
	HoldView	view;
	int			n;

	if (entry == NULL)
		return false;
	lt_look(entry->hold, &view);
	n = view.scope[SCOPE_SESSION].count - entry->job_count;
	return n > 0 && unlock_holds(&item->name, entry, &view, n, warned);
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
unlock_count_keys(UnlockAll *all)
{
	UnlockItem **same = palloc_extended(sizeof(UnlockItem *) * (Size) Max(all->n, 1),
										MCXT_ALLOC_HUGE);
	int			nsame = 0;
	int64		n = 0;

	for (int i = 0; i < all->n; i++)
	{
		if (!all->items[i].given)
			continue;
		if (all->items[i].number != 0)
			same[nsame++] = &all->items[i];
		else
			n++;
	}
	qsort(same, nsame, sizeof(UnlockItem *), unlock_compare_names);
	for (int i = 0; i < nsame; i++)
		if (i == 0 || unlock_compare_names(&same[i - 1], &same[i]) != 0)
			n++;
	pfree(same);
	return n;
}

/*
 * unlock_report --- report what came of a batch, in warnings
 *
 * Losses come first, since a pending cancel raises after any of the warnings.
 */
static void
unlock_report(const ReleaseTally *tally)
{
	if (tally->gone == 1)
		report_lost(WARNING, &tally->gone_name, &tally->gone_view);
	else if (tally->gone > 1)
		ereport(WARNING,
				(errcode(ERRCODE_WARNING),
				 errmsg("%d Redis locks were lost", tally->gone)));
	if (tally->released > 0)
		track_warn_early_unlock();
	if (tally->unanswered > 0)
		ask_report_failure(WARNING, tally->failure);
}

/* Reports losses of the locks of a batch. */
typedef void (*UnlockTell) (void *arg);

/*
 * unlock_tell --- report all losses
 *
 * A pending cancel has to wait: it would raise after the first warning.
 */
static void
unlock_tell(UnlockTell tell, void *arg)
{
	HOLD_CANCEL_INTERRUPTS();
	tell(arg);
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
unlock_run_batch(UnlockTell tell_known, UnlockTell tell_found, void *arg,
				 ReleaseTally *tally)
{
	volatile bool running = false;

	PG_TRY();
	{
		unlock_tell(tell_known, arg);
		running = true;
		release_run(lr_now() + lr_call_budget(), STORE_WAIT, tally);
	}
	PG_CATCH();
	{
		if (!running)
			release_run_at_end();
		unlock_tell(tell_found, arg);
		PG_RE_THROW();
	}
	PG_END_TRY();
}

/* What is left to do for a key of session_multi_unlock after the batch. */
typedef enum UnlockRest
{
	REST_NOTHING,
	REST_LOST,					/* has been reported, see the view */
	REST_NOT_HELD,				/* to be reported */
	REST_OTHERS					/* release one of several holds of the key */
} UnlockRest;

/*
 * unlock_one_of_many --- add the last hold of a key to the batch
 *
 * *view is set if the lock was lost.
 */
static UnlockRest
unlock_one_of_many(const LrName *name, HoldView *view)
{
	HeldEntry  *entry = unlock_find(name, KIND_REENTRANT, view);

	if (entry == NULL)
		return REST_NOT_HELD;
	if (view->scope[SCOPE_SESSION].count > 1 || view->scope[SCOPE_XACT].count > 0)
		return REST_OTHERS;
	return release_add(entry, view) ? REST_NOTHING : REST_LOST;
}

/* The keys of session_multi_unlock. */
typedef struct UnlockMany
{
	int			n;
	const LrName *const *names;
	UnlockRest *rest;
	HoldView   *views;			/* of those that were lost */
	int		   *added;			/* which one went into the batch, by its order there */
} UnlockMany;

static void
unlock_tell_many_lost(void *arg)
{
	const UnlockMany *many = arg;

	for (int i = 0; i < many->n; i++)
		if (many->rest[i] == REST_LOST)
			report_lost(WARNING, many->names[i], &many->views[i]);
}

static void
unlock_tell_many_gone(void *arg)
{
	const UnlockMany *many = arg;
	HoldView	view;
	int			before;

	for (int i = 0; release_next_gone(&i, &before, &view);)
		report_lost(WARNING, many->names[many->added[before]], &view);
}

/*
 * unlock_many_rest --- the keys that did not go into the batch; false: one was not held
 */
static bool
unlock_many_rest(UnlockMany *many, bool warned)
{
	bool		all = true;

	for (int i = 0; i < many->n; i++)
	{
		HeldEntry  *entry;

		switch (many->rest[i])
		{
			case REST_NOTHING:
				break;
			case REST_LOST:
				all = false;
				break;
			case REST_NOT_HELD:
				unlock_warn_not_held(many->names[i], KIND_REENTRANT);
				all = false;
				break;
			case REST_OTHERS:
				entry = unlock_find(many->names[i], KIND_REENTRANT, &many->views[i]);
				all &= unlock_holds(many->names[i], entry, &many->views[i], 1, &warned);
				break;
		}
	}
	return all;
}

/*
 * session_multi_unlock --- see session.h
 */
bool
session_multi_unlock(const LrName *const *names, int n)
{
	UnlockMany	many = {0};
	ReleaseTally tally;
	bool		all;

	session_enter();
	many.n = n;
	many.names = names;
	many.rest = palloc(sizeof(UnlockRest) * n);
	many.added = palloc(sizeof(int) * n);
	many.views = palloc_extended(sizeof(HoldView) * (Size) n, MCXT_ALLOC_HUGE);
	for (int i = 0; i < n; i++)
	{
		many.added[release_added()] = i;
		many.rest[i] = unlock_one_of_many(names[i], &many.views[i]);
	}
	unlock_run_batch(unlock_tell_many_lost, unlock_tell_many_gone, &many, &tally);
	all = tally.gone == 0;
	tally.gone = 0;				/* reported one by one */
	unlock_tell(unlock_tell_many_gone, &many);
	unlock_report(&tally);
	all &= unlock_many_rest(&many, tally.unanswered > 0);
	pfree(many.views);
	pfree(many.added);
	pfree(many.rest);
	release_trim(held_count());
	return all;
}

static void
unlock_tell_all_lost(void *arg)
{
	const UnlockAll *all = arg;

	for (int i = 0; i < all->n; i++)
		if (all->items[i].lost)
			report_lost(WARNING, &all->items[i].name, &all->items[i].view);
}

static void
unlock_tell_all_gone(void *arg)
{
	const UnlockAll *all = arg;
	HoldView	view;
	int			before;

	for (int i = 0; release_next_gone(&i, &before, &view);)
		report_lost(WARNING, &all->items[all->added[before]].name, &view);
}

/* If the batch is not interrupted, one warning reports all losses that it has found. */
int64
session_unlock_all(void)
{
	UnlockAll	all = {0};
	ReleaseTally tally;
	HoldView	view;
	int			before;
	bool		warned;
	int64		n;

	session_enter();
	if (held_count() == 0)
		return 0;
	all.items = palloc_extended(sizeof(UnlockItem) * (Size) held_count(),
								MCXT_ALLOC_HUGE);
	all.added = palloc_extended(sizeof(int) * (Size) held_count(), MCXT_ALLOC_HUGE);
	held_walk(unlock_collect_name, &all);
	for (int i = 0; i < all.n; i++)
	{
		all.added[release_added()] = i;
		all.items[i].given = unlock_all_of_key(&all.items[i]);
	}
	unlock_run_batch(unlock_tell_all_lost, unlock_tell_all_gone, &all, &tally);
	for (int i = 0; release_next_gone(&i, &before, &view);)
		all.items[all.added[before]].given = false;

	unlock_report(&tally);
	warned = tally.unanswered > 0;
	for (int i = 0; i < all.n; i++)
		if (!all.items[i].lost && !all.items[i].given)
			all.items[i].given = unlock_rest_of_key(&all.items[i], &warned);
	n = unlock_count_keys(&all);
	pfree(all.added);
	pfree(all.items);
	release_trim(held_count());
	return n;
}
