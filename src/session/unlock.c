/*-------------------------------------------------------------------------
 *
 * unlock.c
 *	  The Redis locks of this backend: give back.
 *
 * What goes with the transaction goes in transaction.c; here is what a user, or
 * the job runner, gives back.
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
 * unlock_ask_who_took --- a release found its owner gone: who is there instead?
 *
 * Only to say so; no answer leaves it at "deleted".  Whoever is cancelled in
 * here is told of the loss all the same.
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
 * unlock_last --- the last hold of a key goes
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
	track_forget_taken(view.owner);
	xact_warn_early_unlock();
	if (tally.unanswered > 0)
		ask_report_failure(WARNING, tally.failure);
	return true;
}

/*
 * unlock_lost --- the session has seen that its lock was lost
 *
 * A transaction that has it too sees the loss itself, at its commit, and so
 * does the job runner.
 */
static bool
unlock_lost(const LrName *name, HeldEntry *entry, HoldView *view)
{
	track_unlocked_loss(&entry->key, view);
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
 * unlock_lower_count --- n of several holds of a key go
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
 * unlock_leave_to_xact --- the session-level part of a lock goes, that of the
 * transaction stays
 *
 * The transaction may have relied on the session's part, whose guard ends here: so the
 * store is asked whether the lock is still there.  What the transaction has of it may
 * be rolled back to a savepoint, and its guard may be off.
 *
 * Of several keys one warning says that the store did not answer: *warned, if there was
 * one.
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
 * unlock_holds --- give back n session-level holds of a key
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
 * unlock_find --- the entry of a lock that the session can give back, and what it
 * is; NULL: it has none
 *
 * What the job runner has does not count: it is not the user's to give back.  Of those
 * of which each is one more the newest, but one that is lost before all others.
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
 * unlock_find_job --- the newest that a job has which has not failed
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
 * session_unlock_job --- the job runner gives its hold back
 *
 * The transaction has begun after the job's last commit: it has done nothing
 * under the lock.  What else the session has of it has yet to see a loss.
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

/* One key of session_unlock_all. */
typedef struct UnlockItem
{
	LrName		name;
	KindId		kind;
	uint64		number;			/* as in HeldKey */
	bool		given;			/* was given back */
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
 * unlock_all_of_key --- if all there is of a key can go, it goes into the batch
 *
 * False if the key had no hold to be given back, or some that stay.
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
 * unlock_rest_of_key --- a transaction or the job runner has the key too
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
 * unlock_count_keys --- of which something was given back
 *
 * Of a kind of which each is one more there may be thousands of a key.
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
 * unlock_report --- what came of a batch, in warnings
 *
 * Losses first: a cancel that is pending raises behind any of them.
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
		xact_warn_early_unlock();
	if (tally->unanswered > 0)
		ask_report_failure(WARNING, tally->failure);
}

/* Who tells of what was found lost when locks were put into a batch. */
typedef void (*UnlockTell) (void *arg);

/*
 * unlock_tell --- of all of them: a cancel that is pending would raise behind the first
 */
static void
unlock_tell(UnlockTell tell, void *arg)
{
	HOLD_CANCEL_INTERRUPTS();
	tell(arg);
	RESUME_CANCEL_INTERRUPTS();
}

/*
 * unlock_run_batch --- tell of losses that are known, then run the batch
 *
 * In this order: a batch that is cut (a cancel, a time limit, the end of the session)
 * while another key's release hangs would take the only warning along.  Even a warning
 * can raise (in an encoding that lacks a character of the key): then the batch goes out
 * like that of the end of a transaction.  Losses have been noted for the commit by then.
 *
 * A batch that is cut tells of those that it had found.
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

/* What is to be done for a key of session_multi_unlock behind the batch. */
typedef enum UnlockRest
{
	REST_NOTHING,
	REST_LOST,					/* was told, see the view */
	REST_NOT_HELD,				/* to be told */
	REST_OTHERS					/* one of several holds of the key goes */
} UnlockRest;

/*
 * unlock_one_of_many --- the last hold of a key goes into the batch; *view, if the
 * lock was lost
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
 * unlock_many_rest --- what did not go into the batch; false: a key was not held
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
	tally.gone = 0;				/* told one by one */
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

/*
 * session_unlock_all --- see session.h
 *
 * What a batch that was not cut has found lost is told in one warning.
 */
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
