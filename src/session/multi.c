/*-------------------------------------------------------------------------
 *
 * multi.c
 *	  Several keys at once, all of them or none.
 *
 * There is no lock of several keys, only an ordinary lock of each.  First, one request
 * asks for all keys that the session does not hold.  If one of them is not free, they
 * are acquired one by one in the order of their names, so that two sessions that want
 * overlapping sets do not wait for each other.  The locks that this call has acquired
 * so far stay locked meanwhile, even if their lease was given.
 *
 * Locks that the session holds already are checked first, and acquired again after all
 * others, which involves no waiting.
 *
 * If the call fails, what it has acquired is released as at the end of a transaction
 * (release_run_at_end): nothing raises, and releases that are not answered soon are
 * left to the watchdog.  These locks were never reported as acquired, so a loss that is
 * found then does not matter.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/session/multi.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "utils/memutils.h"

#include "names.h"
#include "report.h"
#include "session/session.h"
#include "session/session_int.h"
#include "settings.h"
#include "stats.h"
#include "store/stores.h"

/* A lock that the session held before. */
typedef struct MultiAgain
{
	const LrName *name;
	bool		taken;			/* acquired again */
	ScopeHold	before;			/* its part in the wanted scope before */
	CommitGuard guard;
} MultiAgain;

typedef struct Multi
{
	AcquireRequest request;
	const LrName **fresh;		/* keys that the session did not hold */
	int			nfresh;
	MultiAgain *again;
	int			nagain;
} Multi;

/* ----------
 * By one request
 *
 * The session does not queue here.  It looks in the lock table whether a session of
 * this server holds or awaits one of the keys.  The lock table knows nothing of the
 * request while that is under way: other sessions may ask for the same keys, and the
 * store decides.  When it has answered, each lock is entered into the lock table at
 * once, or left to the watchdog.
 *
 * If the request is given up, it still needs the names.  So these are in a context of our
 * own: the abort of a session that ends frees the memory of its statement before it cleans
 * up.
 * ----------
 */

typedef enum AtOnceResult
{
	AT_ONCE_HAD,
	AT_ONCE_BUSY,				/* one of them is held or awaited */
	AT_ONCE_NOT					/* all or some failed for another reason: ask one by one */
} AtOnceResult;

/* The call whose request is pending: one operation for each fresh key */
static const Multi *once;

/* Memory of the last call */
static MemoryContext multi_context = NULL;

/*
 * once_is_free --- does no session of this server hold or await any of the keys?
 *
 * *sent: a session that asks for one of them alone would wait for the answer to a
 * release.
 */
static bool
once_is_free(const Multi *m, bool *sent)
{
	KindId		kind = m->request.terms.kind;
	KindId		other;

	*sent = false;
	for (int i = 0; i < m->nfresh; i++)
	{
		bool		its_sent;
		EnqueueResult result = lt_may_take(m->fresh[i], kind, &other, &its_sent);

		if (result == ENQUEUE_OTHER)
			report_held_otherwise(m->fresh[i], kind, other);
		if (result != ENQUEUED)
			return false;
		*sent = *sent || its_sent;
	}
	return true;
}

/*
 * once_give_up --- the lock may have been granted: the watchdog releases it
 */
static void
once_give_up(StoreOp *op)
{
	if (op->outcome == STORE_OK || op->outcome == STORE_UNKNOWN ||
		op->outcome == STORE_UNCONFIRMED)
		lt_orphan_unqueued(once->fresh[op - pending.ops], &once->request.terms, op);
}

/*
 * once_prepare --- prepare one create for each key, with an owner number of its own
 */
static void
once_prepare(const Multi *m, StoreId store)
{
	const LockTerms *terms = &m->request.terms;

	for (int i = 0; i < m->nfresh; i++)
	{
		HeldKey		key = held_key(m->fresh[i], terms->kind);
		StoreOp    *op = &pending.ops[i];

		ask_prepare(op, STORE_CREATE, &key, store);
		op->owner = lr_new_owner();
		op->lease_ms = terms->lease_ms;
		op->min_replicas = terms->min_replicas;
		op->args.together = m->nfresh;
	}
	held_reserve(m->nfresh);
	once = m;
	pending_begin(m->nfresh, once_give_up);
}

/*
 * once_find_obstacle --- index of the lock that is not free
 */
static int
once_find_obstacle(const Multi *m)
{
	for (int i = 0; i < m->nfresh; i++)
		if (pending.ops[i].answer.value != STORE_VALUE_NONE)
			return i;
	return 0;
}

/*
 * once_keep_granted --- enter the locks into the lock table and the index
 *
 * Returns true if all of them were granted.  Nothing may raise between the answer and
 * the entries in the index.  If a former master has granted a lock, its owner may be in
 * the way of a new request until the watchdog has released it.  So a call that does not
 * wait raises for it, rather than return that the lock is busy.
 */
static bool
once_keep_granted(const Multi *m)
{
	const LockTerms *terms = &m->request.terms;
	int			had = 0;
	bool		too_late = false;
	bool		stale = false;

	for (int i = 0; i < m->nfresh; i++)
	{
		StoreOp    *op = &pending.ops[i];
		LrIndex		hold;
		GrantResult result;
		HeldEntry  *entry;

		result = lt_grant_unqueued(m->fresh[i], op, terms, &hold);
		if (result == GRANT_STALE)
		{
			ask_distrust(op);	/* for the error, if the master has changed */
			stale |= op->outcome == STORE_UNKNOWN;
		}
		op->outcome = STORE_PENDING;	/* done with */
		too_late |= result == GRANT_TOO_LATE;
		if (result != GRANTED)
			continue;
		had++;
		entry = held_add(m->fresh[i], terms->kind, hold, terms->guard);
		track_acquired(entry, terms->scope);
	}
	lr_count_many(STAT_ACQUIRES, had);
	pending_end();

	if (too_late)
		wait_report_too_late(terms);
	if (stale && m->request.wait_us == 0)
		ask_report_failure(ERROR, STORE_UNKNOWN);
	wait_require_place();
	return had == m->nfresh;
}

/*
 * once_may_go_on --- may the call go on after this failure?
 *
 * Only calls that wait do.  waiting.c decides for how long.
 */
static bool
once_may_go_on(const Multi *m, StoreOutcome outcome)
{
	return m->request.wait_us != 0 && outcome != STORE_UNCONFIRMED &&
		(lr_has_fallback() || (lr_follows_master() && outcome != STORE_DENIED));
}

/*
 * once_is_one_group --- can one request take all of them?
 */
static bool
once_is_one_group(const Multi *m, StoreId store)
{
	const StoreRoutine *routine = lr_store(store);

	for (int i = 1; i < m->nfresh && routine->group_of != NULL; i++)
		if (routine->group_of(m->fresh[i]->data, m->fresh[i]->len) !=
			routine->group_of(m->fresh[0]->data, m->fresh[0]->len))
			return false;
	return true;
}

/*
 * at_once_take --- acquire locks that this session does not hold, without waiting for any
 * holder
 *
 * The caller has reserved room and rows for all of them, and the names stay valid until
 * this returns.  With AT_ONCE_NOT, or when this raises, some of the locks may have been
 * acquired: those are in the index (held.c).
 *
 * STORE_LATE corrects our idea of the store's clock, so the next request will not be
 * late.
 */
static AtOnceResult
at_once_take(const Multi *m)
{
	StoreId		store;
	StoreOp    *op;
	int			which;
	bool		sent;

	wait_require_watchdog(&m->request.terms);
	wait_require_place();
	store = current_store();
	for (int i = 0; i < m->nfresh; i++)
		request_require_name(m->fresh[i], store);
	if (!lr_store_can(store, STORE_HAS_TOGETHER) || !once_is_one_group(m, store))
		return AT_ONCE_NOT;
	if (!once_is_free(m, &sent))
		return AT_ONCE_BUSY;
	if (sent)
		return AT_ONCE_NOT;
	once_prepare(m, store);
	ask_run_many(pending.ops, m->nfresh);

	which = once_find_obstacle(m);
	op = &pending.ops[which];
	if (op->outcome == STORE_OK)
		return once_keep_granted(m) ? AT_ONCE_HAD : AT_ONCE_NOT;
	pending_abandon();
	if (op->outcome == STORE_BUSY)
	{
		/* Our own release that was sent may be what got lost with the connection. */
		(void) once_is_free(m, &sent);
		return sent ? AT_ONCE_NOT : AT_ONCE_BUSY;
	}
	if (op->outcome == STORE_WRONG_TYPE)
		report_wrong_type(m->fresh[which], op);
	if (op->outcome == STORE_LATE)
		return AT_ONCE_NOT;
	if (!once_may_go_on(m, op->outcome))
		ask_report_failure(ERROR, op->outcome);
	lr_count(STAT_ERRORS);
	return AT_ONCE_NOT;
}

/* ----------
 * Before
 * ----------
 */

/*
 * multi_sort_out --- separate new locks from those that the session holds
 */
static void
multi_sort_out(Multi *m, const LrName *names, int n)
{
	m->fresh = palloc(sizeof(LrName *) * n);
	m->again = palloc0(sizeof(MultiAgain) * n);
	for (int i = 0; i < n; i++)
	{
		const LrName *name = &names[i];
		HeldEntry  *entry = held_find(name, m->request.terms.kind);
		HoldView	view;

		if (entry == NULL)
		{
			session_require_beside(name, m->request.terms.kind);
			m->fresh[m->nfresh++] = name;
			continue;
		}
		session_look_held(name, entry->hold, &view);
		m->again[m->nagain].name = name;
		m->again[m->nagain].before = view.scope[m->request.terms.scope];
		m->again[m->nagain++].guard = entry->guard;
	}
}

/*
 * multi_stock --- reserve rows for all locks, before anything is sent
 */
static void
multi_stock(const Multi *m)
{
	int			rows = m->nfresh;

	for (int i = 0; i < m->nagain; i++)
		if (m->again[i].before.count == 0)
			rows++;
	wait_for_rows(rows);
}

/* ----------
 * Back to what it was
 * ----------
 */

/*
 * multi_undo_again --- take back one re-entry: the hold gets the count, the
 * lease and the guard that it had before
 */
static void
multi_undo_again(const Multi *m, const MultiAgain *again)
{
	LockScope	scope = m->request.terms.scope;
	HeldEntry  *entry = held_find(again->name, m->request.terms.kind);

	if (again->before.count == 0 && scope == SCOPE_XACT)
		track_forget_hold(entry);
	(void) lt_set_scope(entry->hold, scope, &again->before, 0, 0);
	held_set_guard(entry, again->guard);
}

static void
multi_undo_fresh(const Multi *m, const LrName *name)
{
	HeldEntry  *entry = held_find(name, m->request.terms.kind);

	if (entry == NULL)
		return;
	if (m->request.terms.scope == SCOPE_XACT)
		track_forget_hold(entry);
	(void) release_add(entry, false, NULL);
}

/*
 * multi_undo --- release everything that this call has acquired, the newest first
 */
static void
multi_undo(Multi *m)
{
	pending_abandon();
	for (int i = m->nagain - 1; i >= 0; i--)
	{
		if (m->again[i].taken)
			multi_undo_again(m, &m->again[i]);
		m->again[i].taken = false;
	}
	for (int i = m->nfresh - 1; i >= 0; i--)
		multi_undo_fresh(m, m->fresh[i]);
	release_run_at_end();
}

/* ----------
 * Taking
 * ----------
 */

/*
 * multi_set_renewed --- from now on the watchdog renews a lock whose lease was given, or no
 * longer
 */
static void
multi_set_renewed(const Multi *m, LrIndex hold, bool renewed)
{
	LockScope	scope = m->request.terms.scope;
	HoldView	view;

	lt_look(hold, &view);
	view.scope[scope].renewed = renewed;
	(void) lt_set_scope(hold, scope, &view.scope[scope], 0, 0);
}

/*
 * multi_take_in_order --- acquire the locks one by one; false: the time is over
 *
 * A given lease is renewed while we wait for more locks.  It is requested as one that is
 * not, so that the call needs no watchdog.
 */
static bool
multi_take_in_order(const Multi *m)
{
	for (int i = 0; i < m->nfresh; i++)
	{
		HeldEntry  *entry;

		if (!session_lock(m->fresh[i], &m->request, &entry))
			return false;
		if (m->nfresh > 1 && !m->request.terms.renewed)
			multi_set_renewed(m, entry->hold, true);
	}
	return true;
}

/*
 * multi_begin_leases --- start the given leases, now that the last lock is acquired
 *
 * If the store does not confirm, what the renewals have left remains, which is most of
 * the lease.
 */
static void
multi_begin_leases(const Multi *m)
{
	StoreOp    *ops = palloc(sizeof(StoreOp) * m->nfresh);

	for (int i = 0; i < m->nfresh; i++)
	{
		HeldEntry  *entry = held_find(m->fresh[i], m->request.terms.kind);
		HoldView	view;

		lt_look(entry->hold, &view);
		ask_prepare_renewal(&ops[i], entry, &view);
	}
	ask_run_many(ops, m->nfresh);
	for (int i = 0; i < m->nfresh; i++)
	{
		(void) ask_apply_renewal(&ops[i]);
		multi_set_renewed(m, ops[i].hold, false);
	}
	pfree(ops);
}

/*
 * multi_require_all --- raise if one was lost while we waited for others
 */
static void
multi_require_all(const Multi *m)
{
	for (int i = 0; i < m->nfresh; i++)
	{
		HeldEntry  *entry = held_find(m->fresh[i], m->request.terms.kind);
		HoldView	view;

		lt_look(entry->hold, &view);
		if (view.state == HOLD_LOST)
			report_lost_meanwhile(m->fresh[i], &view);
	}
}

/*
 * multi_take_fresh --- acquire the new locks; false: one is busy
 */
static bool
multi_take_fresh(Multi *m)
{
	if (m->nfresh > 1)
	{
		switch (at_once_take(m))
		{
			case AT_ONCE_HAD:
				return true;
			case AT_ONCE_BUSY:
				if (m->request.wait_us != 0)
					break;
				lr_count(STAT_BUSY);
				return false;
			case AT_ONCE_NOT:
				multi_undo(m);
				multi_stock(m);
				break;
		}
	}
	if (!multi_take_in_order(m))
		return false;
	if (m->nfresh > 1 && !m->request.terms.renewed)
		multi_begin_leases(m);
	multi_require_all(m);
	return true;
}

static bool
multi_take(Multi *m)
{
	if (!multi_take_fresh(m))
		return false;
	for (int i = 0; i < m->nagain; i++)
	{
		(void) session_lock(m->again[i].name, &m->request, NULL);
		m->again[i].taken = true;
	}
	return true;
}

/*
 * multi_lock --- acquire the locks; false: one of them was busy all the time
 *
 * After an error, the abort returns the rows that are left (xact_clean_up).
 */
static bool
multi_lock(const LrName *names, int n, const AcquireRequest *request)
{
	Multi		m = {.request = *request};
	bool		taken = false;

	m.request.began = lr_now();
	PG_TRY();
	{
		multi_sort_out(&m, names, n);
		release_reserve(held_count() + m.nfresh);
		multi_stock(&m);
		taken = multi_take(&m);
		if (!taken)
			multi_undo(&m);
	}
	PG_CATCH();
	{
		multi_undo(&m);
		MemoryContextReset(multi_context);
		PG_RE_THROW();
	}
	PG_END_TRY();
	lt_return_rows();
	return taken;
}

bool
session_multi_lock(const LrName *names, int n, const AcquireRequest *request)
{
	LrName	   *own;
	MemoryContext old;
	bool		taken;

	session_enter();
	if (multi_context == NULL)
		multi_context = AllocSetContextCreate(TopMemoryContext, "lockredis several locks",
											  ALLOCSET_DEFAULT_SIZES);
	MemoryContextReset(multi_context);
	old = MemoryContextSwitchTo(multi_context);
	own = palloc(sizeof(LrName) * n);
	memcpy(own, names, sizeof(LrName) * n);
	taken = multi_lock(own, n, request);
	MemoryContextSwitchTo(old);
	MemoryContextReset(multi_context);
	return taken;
}
