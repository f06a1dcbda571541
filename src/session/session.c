/*-------------------------------------------------------------------------
 *
 * session.c
 *	  The Redis locks of this backend: take, give back, ask, end.
 *
 * One function for each thing that a user can want.  What they are made of is
 * below: how a lock is waited for (waiting.c), how it is given back (release.c),
 * what the transaction does with it (transaction.c, track.c), what is held
 * (held.c), and how the stores are asked (ask.c).
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/session/session.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "instance.h"
#include "access/parallel.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "utils/timestamp.h"

#include "locktable/losses.h"
#include "report.h"
#include "session/ask.h"
#include "session/held.h"
#include "session/long_wait.h"
#include "session/release.h"
#include "session/session.h"
#include "session/track.h"
#include "session/transaction.h"
#include "session/waiting.h"
#include "settings.h"
#include "stats.h"

/* ----------
 * Beginning and end
 * ----------
 */

static bool entered = false;

/*
 * session_at_exit --- on_shmem_exit: after the abort of the transaction, with
 * shared memory still there
 */
static void
session_at_exit(int code, Datum arg)
{
	ReleaseTally tally;

	xact_clean_up();
	release_everything(&tally);
	lt_session_leave();
}

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

	held_open();
	ask_open();
	lt_session_enter();
	on_shmem_exit(session_at_exit, 0);
	entered = true;
}

void
session_discard(void)
{
	ReleaseTally tally;

	if (held_count() == 0)
		return;
	held_forget_reserved();
	release_everything(&tally);
	track_forget_unlocked_losses();
	if (tally.unanswered > 0)
		ask_report_failure(WARNING, tally.failure);
}

/* ----------
 * Taking
 * ----------
 */

void
session_refuse_lost(const LrName *name, const HoldView *view)
{
	report_lost_used(name, view, held_loss_level(held_find(name), view));
}

/*
 * session_write --- have the store write count and lease of a lock that we hold
 *
 * An outcome that says so means that the hold is lost.
 */
static void
session_write(const HeldEntry *entry, const HoldView *view, int64 lease_ms,
			  bool keep, StoreOp *op)
{
	ask_prepare_set(op, &entry->key, view);
	op->lease_ms = lease_ms;
	op->keep_ms = keep ? lease_ms : 0;
	lt_note_count(entry->hold, false);
	(void) ask_held(entry->hold, op);
	if (op->outcome == STORE_OK)
		lt_note_count(entry->hold, true);
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

	if ((terms->scope == SCOPE_SESSION && ask_shown_count(&view) > 1) ||
		terms->keep_until != 0 || lease_is_short(&view, request))
	{
		StoreOp		op;
		int64		deadline;

		PG_TRY();
		{
			ScopeHold	wanted = *part;

			do
			{
				session_write(entry, &view, request_ttl_ms(terms),
							  terms->keep_until != 0, &op);
				if (ask_says_lost(&op))
					refuse_lost_at_reentry(name, hold, terms->scope, &before);
				if (op.outcome != STORE_OK)
					ask_report_failure(ERROR, op.outcome);

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
	held_tighten_guard(entry, terms->guard);
	if (terms->scope == SCOPE_XACT && before.count == 0)
		track_hold(&entry->key, hold);
	else if (before.count == 0)
		track_taken(entry);
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
	LrIndex		hold;

	session_enter();
	track_reserve();
	entry = held_find(name);
	if (entry != NULL)
	{
		reenter(name, entry, request);
		if (got)
			*got = entry;
		return true;
	}

	release_reserve(held_count() + 1);
	held_reserve(name);
	if (!wait_for_lock(name, request, &hold))
	{
		held_forget_reserved();
		return false;
	}
	entry = held_complete(hold, request->terms.guard);
	if (request->terms.scope == SCOPE_XACT)
		track_hold(&entry->key, hold);
	else
		track_taken(entry);
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
 * release_whole --- the last hold of a key goes
 */
static bool
release_whole(const LrName *name, HeldEntry *entry)
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
		ask_who_took(name, &tally.gone_view);
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
 * drop_lost_session_holds --- the session has seen that its lock was lost
 *
 * A transaction that has it too sees the loss itself, at its commit, and so
 * does the job runner.
 */
static bool
drop_lost_session_holds(const LrName *name, HeldEntry *entry, HoldView *view)
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
		if (ask_shown_count(view) == ask_shown_count(&before))
			return true;
		session_write(entry, view, 0, false, &op);
		if (op.outcome == STORE_OK)
			return true;
		if (!ask_says_lost(&op))
		{
			ask_report_failure(WARNING, op.outcome);
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
	entry = held_find(name);
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

	entry = held_find(name);
	if (entry == NULL)
		return false;
	lt_look(entry->hold, &view);
	entry->job_count--;
	if (view.scope[SCOPE_SESSION].count == 1)
	{
		released = release_holds(name, entry, &view, 1);
		track_forget_unlocked_losses();
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
	HeldEntry  *entry = held_find(&item->name);
	HoldView	view;

	lt_look(entry->hold, &view);
	if (entry->job_count > 0 || view.scope[SCOPE_XACT].count > 0)
		return false;
	item->lost = !release_add(entry, &item->view);
	return !item->lost;
}

/*
 * unlock_part --- a transaction or the job runner has the key too
 */
static bool
unlock_part(UnlockItem *item)
{
	HeldEntry  *entry = held_find(&item->name);
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
	if (held_count() == 0)
		return 0;
	all.items = palloc_extended(sizeof(UnlockItem) * (Size) held_count(),
								MCXT_ALLOC_HUGE);
	held_walk(collect_name, &all);
	for (int i = 0; i < all.n; i++)
		if (unlock_whole(&all.items[i]))
			n++;
	release_run(lr_now() + lr_call_budget(), STORE_WAIT, &tally);
	n -= tally.gone;

	if (tally.released > 0)
		xact_warn_early_unlock();
	if (tally.unanswered > 0)
		ask_report_failure(WARNING, tally.failure);
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
	release_trim(held_count());
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
	entry = held_find(name);
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
	entry = held_find(name);
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
		session_write(entry, &view, lease_ms, false, &op);
		if (op.outcome == STORE_GONE || op.outcome == STORE_WRONG_TYPE)
			return false;
		if (op.outcome != STORE_OK)
			ask_report_failure(ERROR, op.outcome);

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
	ask_run(op, STORE_WAIT);
	if (op->outcome != STORE_OK)
		ask_report_failure(ERROR, op->outcome);
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
	ask_run(&op, STORE_WAIT);
	if (op.outcome == STORE_GONE)
		return false;
	if (op.outcome != STORE_OK)
		ask_report_failure(ERROR, op.outcome);
	lt_lose_by_owner_text(name, seen.holder, op.store, LOST_FORCED);
	return true;
}
