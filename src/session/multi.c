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

#include "locktable/wait.h"
#include "report.h"
#include "session/session.h"
#include "session/session_int.h"
#include "stats.h"

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
 * Before
 * ----------
 */

/*
 * multi_sort_out --- separate new locks from those that the session holds
 */
static void
multi_sort_out(Multi *m, const LrName *const *names, int n)
{
	m->fresh = palloc(sizeof(LrName *) * n);
	m->again = palloc0(sizeof(MultiAgain) * n);
	for (int i = 0; i < n; i++)
	{
		HeldEntry  *entry = held_find(names[i], m->request.terms.kind);
		HoldView	view;

		if (entry == NULL)
		{
			session_require_beside(names[i], m->request.terms.kind);
			m->fresh[m->nfresh++] = names[i];
			continue;
		}
		lt_look(entry->hold, &view);
		if (view.state == HOLD_LOST)
			session_refuse_lost(names[i], &view);
		m->again[m->nagain].name = names[i];
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
	if (lt_stock_rows(rows))
		return;
	lt_return_rows();
	report_table_full();
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
	HoldView	view;

	lt_look(entry->hold, &view);
	if (again->before.count == 0)
	{
		if (scope == SCOPE_XACT)
			track_forget_hold(entry->hold);
		else
			track_forget_taken(view.owner);
	}
	view.scope[scope] = again->before;
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
		track_forget_hold(entry->hold);
	else
		track_forget_taken(lt_owner(entry->hold));
	release_add_untold(entry);
}

/*
 * multi_undo --- release everything that this call has acquired, the newest first
 */
static void
multi_undo(Multi *m)
{
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
 * multi_set_renewed --- have a given lease renewed while we wait for more locks, or not
 */
static void
multi_set_renewed(const Multi *m, const HeldEntry *entry, bool renewed)
{
	LockScope	scope = m->request.terms.scope;
	HoldView	view;

	lt_look(entry->hold, &view);
	view.scope[scope].renewed = renewed;
	(void) lt_set_scope(entry->hold, scope, &view.scope[scope], 0, 0);
}

/*
 * multi_take_in_order --- acquire the locks one by one; false: the time is over
 */
static bool
multi_take_in_order(const Multi *m)
{
	for (int i = 0; i < m->nfresh; i++)
	{
		HeldEntry  *entry;

		if (!session_lock(m->fresh[i], &m->request, &entry))
			return false;
		if (!m->request.terms.renewed && i + 1 < m->nfresh)
			multi_set_renewed(m, entry, true);
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
	int64		lease_ms = m->request.terms.lease_ms;
	StoreOp    *ops = palloc(sizeof(StoreOp) * m->nfresh);

	for (int i = 0; i < m->nfresh; i++)
	{
		HeldEntry  *entry = held_find(m->fresh[i], m->request.terms.kind);
		HoldView	view;

		lt_look(entry->hold, &view);
		ask_prepare_held(&ops[i], STORE_RENEW, &entry->key, &view);
		ops[i].lease_ms = lr_later(lease_ms, view.promised_ms);
		ops[i].min_replicas = ask_min_replicas(&view);
	}
	ask_run_many(ops, m->nfresh, STORE_WAIT);
	for (int i = 0; i < m->nfresh; i++)
	{
		HeldEntry  *entry = held_find(m->fresh[i], m->request.terms.kind);

		if (!ask_settle(entry->hold, &ops[i]) && ops[i].outcome == STORE_OK)
			lt_raise_deadline(entry->hold, lr_lease_deadline(ops[i].sent_at, lease_ms),
							  ops[i].moves);
		multi_set_renewed(m, entry, false);
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
		switch (at_once_take(m->fresh, m->nfresh, &m->request))
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

/* After an error, the abort returns the rows that are left (xact_clean_up). */
bool
session_multi_lock(const LrName *const *names, int n, const AcquireRequest *request)
{
	Multi		m = {.request = *request};
	bool		taken = false;

	session_enter();
	m.request.began = lr_now();
	multi_sort_out(&m, names, n);
	track_reserve_many(n);
	release_reserve(held_count() + m.nfresh);
	multi_stock(&m);
	PG_TRY();
	{
		taken = multi_take(&m);
		if (!taken)
			multi_undo(&m);
	}
	PG_CATCH();
	{
		multi_undo(&m);
		PG_RE_THROW();
	}
	PG_END_TRY();
	lt_return_rows();
	return taken;
}
