/*-------------------------------------------------------------------------
 *
 * untold.c
 *	  Locks and permits that belong to no session, until the statement that took
 *	  them has returned them.
 *
 * Token locks, and permits with an id, belong to whoever knows the token or the id;
 * those of a semaphore to the client that has counted them.  If the statement that took
 * them fails, no client knows of them, so they are released.
 *
 * Permits of a semaphore are released by a request of their own.  The answer to the
 * request that took them was read, so its ticket is not needed any more.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/session/untold.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "access/xact.h"
#include "executor/execdesc.h"
#include "lib/ilist.h"
#include "tcop/dest.h"
#include "tcop/pquery.h"
#include "utils/memutils.h"
#include "utils/portal.h"

#include "locktable/owed.h"
#include "locktable/wait.h"
#include "names.h"
#include "report.h"
#include "session/session.h"
#include "settings.h"

/*
 * These live as long as the portal of their statement.
 *
 * That alone does not tell a statement that fails from one that has ended.  A portal
 * may outlive what it ran: an unnamed one lives until the next, a cursor until it is
 * closed.  And a procedure that rolls back goes on.
 *
 * A query whose rows go to a function, as in a loop of PL/pgSQL, has a portal of its
 * own.  When that ends, the statement goes on in the portal that runs the function.
 *
 * Nor does a statement outside of a transaction block end with its portal: its commit
 * may fail.  Until the transaction ends, it goes on without a portal.  The same is true
 * for what a deferred trigger takes at the commit.
 */
struct Untold
{
	dlist_node	link;			/* in one of the lists below */
	MemoryContextCallback ends;
	Portal		portal;			/* NULL: the commit is under way */
	bool		to_function;	/* the rows of the portal go to a function */
	bool		had;			/* in the list "untold" */
	TimestampTz statement;		/* start of the statement */
	LrName		name;
	LockTerms	terms;
	uint64		owner;			/* 0: the store knows it by terms.id or terms.amount */
};

static dlist_head untold = DLIST_STATIC_INIT(untold);	/* taken, not returned yet */
static dlist_head spare = DLIST_STATIC_INIT(spare); /* for what their portal takes next */

static void
untold_move(Untold *u, dlist_head *to)
{
	dlist_delete(&u->link);
	dlist_push_head(to, &u->link);
	u->had = to == &untold;
}

static void untold_room_ends(void *arg);

static Untold *
untold_find_spare(Portal portal)
{
	dlist_iter	at;

	dlist_foreach(at, &spare)
	{
		Untold	   *u = dlist_container(Untold, link, at.cur);

		if (u->portal == portal)
			return u;
	}
	return NULL;
}

/*
 * untold_room --- a spare record of the active portal
 *
 * Without memory this returns NULL, if "flags" have MCXT_ALLOC_NO_OOM.
 */
static Untold *
untold_room(int flags)
{
	Untold	   *u = untold_find_spare(ActivePortal);
	MemoryContext lives = ActivePortal != NULL ? PortalContext : TopTransactionContext;
	const QueryDesc *query;

	if (u == NULL)
	{
		u = MemoryContextAllocExtended(lives, sizeof(Untold), flags | MCXT_ALLOC_ZERO);
		if (u == NULL)
			return NULL;
		u->portal = ActivePortal;
		u->ends.func = untold_room_ends;
		u->ends.arg = u;
		dlist_push_head(&spare, &u->link);
		MemoryContextRegisterResetCallback(lives, &u->ends);
	}
	if (u->portal == NULL)
		return u;

	/*
	 * A loop pins its portal.  The rows of a query that writes reach it through a
	 * tuplestore.
	 */
	query = u->portal->queryDesc;
	u->to_function = u->portal->portalPinned ||
		(query != NULL && query->dest->mydest == DestSPI);
	return u;
}

/*
 * untold_hand_on --- the portal has ended, but the statement goes on
 *
 * It goes on in the portal that is active now or, while it commits, in none.
 */
static void
untold_hand_on(const Untold *ended)
{
	Untold	   *u = untold_room(MCXT_ALLOC_NO_OOM);

	if (u == NULL)
		return;
	u->statement = ended->statement;
	u->name = ended->name;
	u->terms = ended->terms;
	u->owner = ended->owner;
	untold_move(u, &untold);
}

/*
 * untold_goes_on --- does the statement go on though its portal ends?
 */
static bool
untold_goes_on(const Untold *u)
{
	if (u->portal == NULL || u->statement != GetCurrentStatementStartTimestamp())
		return false;
	if (ActivePortal == NULL)
		return IsTransactionState() && !IsTransactionBlock();
	return ActivePortal != u->portal && ActivePortal->status == PORTAL_ACTIVE;
}

static void
untold_room_ends(void *arg)
{
	Untold	   *u = arg;

	dlist_delete(&u->link);
	if (u->had && untold_goes_on(u))
		untold_hand_on(u);
}

/*
 * untold_runs_on --- does the transaction end within a statement that goes on?
 */
static bool
untold_runs_on(const Untold *u)
{
	return ActivePortal != NULL && ActivePortal->status != PORTAL_FAILED &&
		u->statement == GetCurrentStatementStartTimestamp();
}

/*
 * untold_has_failed --- has the statement failed before its end?
 *
 * In a transaction block, the client has the results of all statements that have ended,
 * so only the present one can have failed.
 */
static bool
untold_has_failed(const Untold *u)
{
	if (untold_runs_on(u) || u->statement != GetCurrentStatementStartTimestamp())
		return false;
	return u->portal == NULL || !IsTransactionBlock() ||
		(u->portal->status == PORTAL_FAILED &&
		 (u->portal->strategy == PORTAL_MULTI_QUERY || u->to_function || !u->portal->atEnd));
}

/*
 * untold_give_back --- have the watchdog release it
 *
 * If there is no room for a record, a lock ends with its lease; permits of a semaphore
 * stay taken, and a message says so.
 */
static void
untold_give_back(const Untold *u)
{
	LrIndex		hold;

	if (!lr_is_number(u->terms.kind))
	{
		if (lt_stock_rows(1))
			lt_orphan_unqueued(&u->name, &u->terms, lr_first_store(),
							   u->owner != 0 ? u->owner : lr_new_owner(), 0, 0);
	}
	else if (lt_owe(&u->name, u->terms.kind, SCOPE_SESSION, u->terms.amount, &hold))
		lt_leave_owed(hold, lr_first_store(), 0, 0);
	else
		report_not_given_back(u->terms.kind, u->terms.amount);
}

/*
 * untold_transaction_ends --- see session.h
 *
 * What is committed stays, even if the rest of a procedure fails.  A procedure that has
 * rolled back may still fail later, so its records are kept.
 */
void
untold_transaction_ends(bool commit)
{
	dlist_mutable_iter at;

	dlist_foreach_modify(at, &untold)
	{
		Untold	   *u = dlist_container(Untold, link, at.cur);

		if (!commit && untold_runs_on(u))
			continue;
		untold_move(u, &spare);
		if (!commit && untold_has_failed(u))
			untold_give_back(u);
	}
}

/*
 * untold_subtransaction_aborts --- see session.h
 *
 * A statement after a savepoint may have failed, and the transaction goes on.  Records
 * without a portal, during a commit, are those of functions that go on.
 */
void
untold_subtransaction_aborts(void)
{
	dlist_mutable_iter at;

	dlist_foreach_modify(at, &untold)
	{
		Untold	   *u = dlist_container(Untold, link, at.cur);

		if (u->portal == NULL || !untold_has_failed(u))
			continue;
		untold_move(u, &spare);
		untold_give_back(u);
	}
}

bool
untold_is_empty(void)
{
	return dlist_is_empty(&untold);
}

/*
 * The record stays spare until something is taken, so a loop that asks in vain needs
 * only one.
 */
Untold *
untold_make(const LrName *name, const LockTerms *terms)
{
	Untold	   *u;

	if (ActivePortal == NULL && TopTransactionContext == NULL)
		return NULL;
	u = untold_room(0);
	u->name = *name;
	u->terms = *terms;
	u->statement = GetCurrentStatementStartTimestamp();
	return u;
}

void
untold_begin(Untold *u, uint64 owner)
{
	if (u == NULL)
		return;
	u->owner = owner;
	untold_move(u, &untold);
}

void
untold_begin_some(Untold *u, int64 amount)
{
	if (u == NULL)
		return;
	u->terms.amount = amount;
	untold_begin(u, 0);
}

/*
 * untold_has_id --- does the store know it by this id?
 */
static bool
untold_has_id(const Untold *u, const uint8 *id)
{
	uint8		own[STORE_ID_LEN] = {0};

	if (u->owner == 0)
		return memcmp(u->terms.id, id, STORE_ID_LEN) == 0;
	lr_secret_id(u->owner, own);
	return memcmp(own, id, LR_SECRET_ID_LEN) == 0;
}

static bool
untold_is_of(const Untold *u, const char *name, int len, KindId kind)
{
	return u->terms.kind == kind && u->name.len == len && memcmp(u->name.data, name, len) == 0;
}

void
untold_forget(const LrName *name, KindId kind, const uint8 *id)
{
	dlist_mutable_iter at;

	dlist_foreach_modify(at, &untold)
	{
		Untold	   *u = dlist_container(Untold, link, at.cur);

		if (untold_is_of(u, name->data, name->len, kind) && untold_has_id(u, id))
			untold_move(u, &spare);
	}
}

/* Permits that were taken last are released first, as in a function that does both. */
void
untold_forget_some(const char *name, int len, KindId kind, int64 amount)
{
	dlist_mutable_iter at;

	dlist_foreach_modify(at, &untold)
	{
		Untold	   *u = dlist_container(Untold, link, at.cur);
		int64		n = Min(amount, u->terms.amount);

		if (amount == 0)
			break;
		if (!untold_is_of(u, name, len, kind))
			continue;
		amount -= n;
		u->terms.amount -= n;
		if (u->terms.amount == 0)
			untold_move(u, &spare);
	}
}
