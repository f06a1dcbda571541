/*-------------------------------------------------------------------------
 *
 * session.c
 *	  Acquire, inspect, extend and take away Redis locks.
 *
 * This file has one function for each thing that a user can want; unlock.c has those
 * that release locks.  They are built from the files below: waiting.c waits for a lock,
 * release.c releases, track.c ties locks to the transaction, held.c is the index of
 * holds, and ask.c sends requests to the stores.
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
#include "miscadmin.h"
#include "utils/timestamp.h"

#include "locktable/watch.h"
#include "names.h"
#include "report.h"
#include "session/session.h"
#include "session/session_int.h"
#include "stats.h"
#include "store/stores.h"

/* ----------
 * Beginning and end
 * ----------
 */

static bool entered = false;

pg_on_exit_callback session_at_exit = NULL;

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

	ask_open();
	release_reserve(0);
	lt_session_enter();
	on_shmem_exit(session_at_exit, 0);
	entered = true;
}

/*
 * Losses are not reported: whoever uses the session next has nothing to do with them.
 */
void
session_discard(void)
{
	ReleaseTally tally;

	if (held_count() == 0)
		return;
	tally = release_everything();
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
	HeldEntry  *entry = held_find_owner(name, view->kind, view->owner);

	report_lost_used(name, view, held_loss_level(entry, view));
}

/*
 * session_look_held --- look at a hold of the session; raises if it is lost
 */
void
session_look_held(const LrName *name, LrIndex hold, HoldView *view)
{
	lt_look(hold, view);
	if (view->state == HOLD_LOST)
		session_refuse_lost(name, view);
}

/*
 * session_refuse_any_lost --- raise if one of several holds of the key is lost
 *
 * If a lease has expired and nobody has noticed yet, lt_lost_count() does not include
 * it.
 */
static void
session_refuse_any_lost(const LrName *name, KindId kind)
{
	HeldEntry  *entry = held_find(name, kind);

	for (; entry != NULL && lt_lost_count() > 0; entry = held_older(entry))
	{
		HoldView	view;

		session_look_held(name, entry->hold, &view);
	}
}

/*
 * session_lease_is_short --- must a re-entry lengthen the lease?
 *
 * A renewed lease may be as short as the watchdog lets it become.  A confirmation by a
 * former master does not count.
 */
static bool
session_lease_is_short(const HoldView *view, const AcquireRequest *request)
{
	int64		want = request->terms.lease_ms * LR_US_PER_MS;

	if (request->terms.renewed)
		want = lr_left_at_renewal(want);
	return view->of_old_master || view->deadline - lr_now() < want;
}

/*
 * session_add_count --- add one hold to a copy of a scope's part
 */
static void
session_add_count(ScopeHold *part, const LockTerms *terms)
{
	bool		first = part->count == 0;

	if (first)
		part->acquired_at = GetCurrentTimestamp();
	part->renewed = terms->renewed || (!first && part->renewed);
	part->guard = Max(terms->guard, first ? GUARD_OFF : part->guard);
	part->on_lost = Max(terms->on_lost, first ? ON_LOST_MARK : part->on_lost);
	part->lease_ms = Max(terms->lease_ms, first ? 0 : part->lease_ms);
	part->min_replicas = Max(terms->min_replicas, first ? 0 : part->min_replicas);
	if (terms->scope == SCOPE_SESSION || first)
		part->count++;
}

/*
 * session_lengthen --- have the store lengthen the lease of a hold; false: it is lost
 *
 * The lock table gets the parts of *view, and the lease; *view is what is held when this
 * returns.  If the lock is moved meanwhile, the lease is lengthened where it is now.  That
 * may raise when the lock table has the new lease already, which may be a shorter one.
 */
static bool
session_lengthen(const HeldEntry *entry, HoldView *view, int64 ttl_ms, int64 lease_ms,
				 bool keep)
{
	StoreOp		op;

	do
	{
		ask_lengthen(entry, view, ttl_ms, keep, &op);
		if (ask_says_lost(&op))
			return false;
		if (op.outcome != STORE_OK)
			ask_report_failure(ERROR, op.outcome);

		/* The old lease may have ended before the reply was read. */
		for (int i = 0; i < SCOPE_COUNT; i++)
			if (view->scope[i].count > 0)
				(void) lt_set_scope(entry->hold, i, &view->scope[i],
									lr_lease_deadline(op.sent.at, lease_ms), op.moves);
		held_note_lease(entry);
		lt_look(entry->hold, view);
	} while (view->state == HOLD_HELD && view->moves != op.moves);
	return view->state == HOLD_HELD;
}

/*
 * session_reenter --- acquire a lock again that this session holds
 *
 * The first hold of the other scope needs a slot, which is reserved before anything is
 * sent, and freed unless the store says yes.  The number of replicas is raised at once,
 * too.  Otherwise, the answer to a renewal that runs behind our request could come
 * first, and set a longer lease than those replicas have confirmed.
 *
 * The store keeps no count, so it is asked only for a longer lease, a longer time for
 * which the key stays locked, or more replicas.  A request without an answer leaves
 * nothing to release: it acts only on our owner, and only lengthens the lease.  (But if
 * the lock is lost meanwhile, and a new master brings its key back, that stays until the
 * lease ends.)
 */
static void
session_reenter(const LrName *name, HeldEntry *entry, const AcquireRequest *request)
{
	const LockTerms *terms = &request->terms;
	LrIndex		hold = entry->hold;
	HoldView	view;
	ScopeHold  *part = &view.scope[terms->scope];
	ScopeHold	before;
	ScopeHold	first;			/* what the lock table has meanwhile */
	int			confirmed_by;

	session_look_held(name, hold, &view);

	/* No request limits the count; redis_hold_count() adds the transaction's to it. */
	if (terms->scope == SCOPE_SESSION && part->count >= PG_INT32_MAX - 1)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("integer out of range")));

	before = first = *part;
	confirmed_by = ask_min_replicas(&view);
	session_add_count(part, terms);
	if (before.count == 0)
		first = *part;
	first.min_replicas = part->min_replicas;
	if ((before.count == 0 || part->min_replicas > before.min_replicas) &&
		!lt_set_scope(hold, terms->scope, &first, 0, 0))
		report_table_full();

	if (terms->keep_until != 0 || session_lease_is_short(&view, request) ||
		terms->min_replicas > confirmed_by)
	{
		PG_TRY();
		{
			if (!session_lengthen(entry, &view, request_ttl_ms(terms), terms->lease_ms,
								  terms->keep_until != 0))
			{
				lt_look(hold, &view);
				view.scope[terms->scope] = before;
				session_refuse_lost(name, &view);
			}
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
	held_note_lease(entry);
	held_tighten_guard(entry, terms->guard);
	if (before.count == 0)
		track_acquired(entry, terms->scope);
	lr_count(STAT_REENTRIES);
}

/*
 * session_require_beside --- see session.h
 */
void
session_require_beside(const LrName *name, KindId wanted)
{
	for (KindId k = 0; lr_kind(k) != NULL; k++)
	{
		HeldEntry  *entry;
		HoldView	view;

		if (lr_kind(k)->held_as != k || lr_kind(wanted)->held_as == k)
			continue;
		entry = held_find(name, k);
		if (entry == NULL)
			continue;
		session_look_held(name, entry->hold, &view);
		if (!kindset_has(lr_kind(wanted)->beside, k))
			report_has_other_kind(name, view.kind, wanted);
	}
}

/* All memory is reserved before the store is asked, as nothing may fail afterwards. */
bool
session_lock(const LrName *name, const AcquireRequest *request, HeldEntry **got)
{
	HeldEntry  *entry;
	LrIndex		hold;

	session_enter();
	entry = held_find(name, request->terms.kind);
	if (entry != NULL && lr_kind(request->terms.kind)->each_own)
		session_refuse_any_lost(name, request->terms.kind);
	else if (entry != NULL)
	{
		session_reenter(name, entry, request);
		if (got)
			*got = entry;
		return true;
	}

	if (held_count() > 0)
		session_require_beside(name, request->terms.kind);
	request_require_store(request->terms.kind, current_store());
	release_reserve(held_count() + 1);
	held_reserve(1);
	if (!wait_for_lock(name, request, &hold))
		return false;
	entry = held_add(name, request->terms.kind, hold, request->terms.guard);
	track_acquired(entry, request->terms.scope);
	long_wait_acquired(name);
	if (got)
		*got = entry;
	return true;
}

/* ----------
 * Asking and changing
 * ----------
 */

/*
 * session_find --- the session's entry of the key and kind, and a view of its hold
 *
 * The kind of an entry (held_as) finds a hold of any kind that shares the entry;
 * another kind finds only its own.
 */
static HeldEntry *
session_find(const LrName *name, KindId kind, HoldView *view)
{
	HeldEntry  *entry;

	session_enter();
	entry = held_find(name, kind);
	if (entry == NULL)
		return NULL;
	lt_look(entry->hold, view);
	return view->kind == kind || entry->key.kind == kind ? entry : NULL;
}

/*
 * With each_own, *view is that of the newest hold that is not lost, with the counts of
 * all holds that are not.
 */
bool
session_look(const LrName *name, KindId kind, HoldView *view)
{
	HeldEntry  *entry = session_find(name, kind, view);

	if (entry == NULL)
		return false;
	while (lr_kind(view->kind)->each_own && (entry = held_older(entry)) != NULL)
	{
		HoldView	other;

		lt_look(entry->hold, &other);
		if (other.state != HOLD_HELD)
			continue;
		if (view->state == HOLD_HELD)
			for (int i = 0; i < SCOPE_COUNT; i++)
				other.scope[i].count += view->scope[i].count;
		*view = other;
	}
	return true;
}

/*
 * session_extend_one --- extend one hold; false: it is lost
 */
static bool
session_extend_one(const HeldEntry *entry, HoldView *view, int64 lease_ms, bool renewed)
{
	if (view->state == HOLD_LOST)
		return false;
	for (int i = 0; i < SCOPE_COUNT; i++)
	{
		view->scope[i].renewed = renewed;
		view->scope[i].lease_ms = lease_ms;
	}
	return session_lengthen(entry, view, lease_ms, lease_ms, false);
}

/*
 * session_extend --- see session.h
 */
bool
session_extend(const LrName *name, KindId kind, int64 lease_ms, bool renewed)
{
	HeldEntry  *entry;
	HoldView	view;
	bool		had = true;

	entry = session_find(name, kind, &view);
	if (entry == NULL)
		report_not_held(ERROR, name, kind, kind);
	for (; entry != NULL; entry = held_older(entry))
	{
		lt_look(entry->hold, &view);
		had &= session_extend_one(entry, &view, lease_ms, renewed);
	}
	return had;
}

/*
 * session_mint --- see session.h
 */
int64
session_mint(const LrName *name, LrIndex hold, const AcquireRequest *request, int64 floor)
{
	HeldKey		key = held_key(name, request->terms.kind);
	StoreOp		op;
	HoldView	view;

	session_look_held(name, hold, &view);
	ask_prepare_held(&op, STORE_MINT, &key, &view);
	op.args.floor = floor;
	op.min_replicas = ask_min_replicas(&view);
	if (ask_held(hold, &op))
		session_look_held(name, hold, &view);
	request_require_counter(request, op.store);
	if (op.outcome != STORE_OK)
		ask_report_failure(ERROR, op.outcome);
	lt_set_fence(hold, &op);
	return op.answer.fence;
}

void
session_inspect(const LrName *name, KindId kind, StoreOp *op)
{
	HeldKey		key = held_key(name, kind);

	session_enter();
	ask_prepare(op, STORE_INSPECT, &key, lt_store_of_key(name));
	ask_run(op);
	if (op->outcome != STORE_OK)
		ask_report_failure(ERROR, op->outcome);
}

/*
 * The request names the owner that was found, so that it takes the lock from nobody
 * who has acquired it since.  A name may have permits that are held, which the user of
 * Redis may not be allowed to see: then it is an error to take them away.
 */
bool
session_force(const LrName *name, KindId kind)
{
	HeldKey		key = held_key(name, kind);
	StoreOp		seen;
	StoreOp		op;
	bool		several;

	session_inspect(name, kind, &seen);
	several = seen.answer.digest[0] != '\0' || seen.answer.holder[0] == '\0';
	if (seen.answer.value == STORE_VALUE_NONE)
		return false;
	if (seen.answer.value == STORE_VALUE_OTHER)
		report_wrong_type(name, &seen);

	ask_prepare(&op, STORE_FORCE, &key, seen.store);
	op.text = store_owners(&seen.answer);
	op.text_len = strlen(op.text);
	ask_run(&op);
	if (op.outcome == STORE_WRONG_TYPE ||
		(op.outcome == STORE_GONE && seen.answer.value == STORE_VALUE_TOKEN &&
		 seen.answer.digest[0] == '\0'))
		report_wrong_type(name, &seen); /* too long for a token */
	if (op.outcome == STORE_GONE)
		return false;
	if (op.outcome != STORE_OK)
		ask_report_failure(ERROR, op.outcome);

	/*
	 * A token belongs to no session: a session that holds the key now has acquired it
	 * since.
	 */
	if (seen.answer.value != STORE_VALUE_TOKEN)
		lt_lose_forced(name, several ? NULL : seen.answer.holder);
	lt_wake_waiter(0, name->data, name->len);
	return true;
}
