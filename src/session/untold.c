/*-------------------------------------------------------------------------
 *
 * untold.c
 *	  What no session has, and a statement took that has not ended yet.
 *
 * Token locks, and permits that are had by their id, belong to who knows the token or the
 * id.  Should the statement fail that took one, nobody has been told; so it is given back.
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
#include "lib/ilist.h"
#include "tcop/pquery.h"
#include "utils/memutils.h"
#include "utils/portal.h"

#include "instance.h"
#include "locktable/wait.h"
#include "session/transaction.h"
#include "session/untold.h"
#include "settings.h"

/*
 * These live as long as the portal of their statement.
 *
 * That alone does not tell a statement that fails from one that is over: a portal may
 * outlive what it ran (one without a name lives until the next, a cursor until it is
 * closed), and a procedure that rolls back goes on.
 */
struct Untold
{
	dlist_node	link;			/* in one of the lists below */
	MemoryContextCallback ends;
	Portal		portal;
	TimestampTz statement;		/* when that began */
	LrName		name;
	LockTerms	terms;
	uint64		owner;			/* 0: the store knows it by what stands in the terms */
};

static dlist_head untold = DLIST_STATIC_INIT(untold);	/* had */
static dlist_head spare = DLIST_STATIC_INIT(spare); /* for the next that their portal takes */

static void
untold_move(Untold *u, dlist_head *to)
{
	dlist_delete(&u->link);
	dlist_push_head(to, &u->link);
}

static void
untold_portal_ends(void *arg)
{
	dlist_delete(&((Untold *) arg)->link);
}

/*
 * untold_has_failed --- has the statement that took it failed in the middle?
 *
 * A procedure that rolls back runs on, in the outermost portal.  Of what has run to its
 * end the caller may have been told; so of anything but the statement of now.
 */
static bool
untold_has_failed(const Untold *u)
{
	return (ActivePortal == NULL || ActivePortal->status == PORTAL_FAILED) &&
		u->portal->status == PORTAL_FAILED &&
		(u->portal->strategy == PORTAL_MULTI_QUERY || !u->portal->atEnd) &&
		u->statement == GetCurrentStatementStartTimestamp();
}

/*
 * untold_transaction_ends --- what is committed stays, whatever becomes of the rest of
 * a procedure
 */
static void
untold_transaction_ends(XactEvent event, void *arg)
{
	if (event != XACT_EVENT_ABORT && event != XACT_EVENT_COMMIT)
		return;

	/* FATAL may have left a wait in the middle, on terms of its own. */
	if (event == XACT_EVENT_ABORT && !dlist_is_empty(&untold))
		xact_clean_up();
	while (!dlist_is_empty(&untold))
	{
		Untold	   *u = dlist_head_element(Untold, link, &untold);

		untold_move(u, &spare);

		/* Without room for a record it ends with its lease. */
		if (event == XACT_EVENT_ABORT && untold_has_failed(u) && lt_stock_rows(1))
			lt_orphan_unqueued(&u->name, &u->terms, lr_first_store(),
							   u->owner != 0 ? u->owner : lr_new_owner(), 0, 0);
	}
}

/*
 * untold_make --- see untold.h
 *
 * It is spare until something is had: who asks in a loop, in vain, needs one.
 */
Untold *
untold_make(const LrName *name, const LockTerms *terms)
{
	static bool registered = false;
	Untold	   *u = NULL;
	dlist_iter	at;

	if (ActivePortal == NULL || PortalContext == NULL)
		return NULL;
	if (!registered)
		RegisterXactCallback(untold_transaction_ends, NULL);
	registered = true;
	dlist_foreach(at, &spare)
	{
		u = dlist_container(Untold, link, at.cur);
		if (u->portal == ActivePortal)
			break;
		u = NULL;
	}
	if (u == NULL)
	{
		u = MemoryContextAllocZero(PortalContext, sizeof(Untold));
		u->portal = ActivePortal;
		u->ends.func = untold_portal_ends;
		u->ends.arg = u;
		dlist_push_head(&spare, &u->link);
		MemoryContextRegisterResetCallback(PortalContext, &u->ends);
	}
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

/*
 * untold_has_id --- is it that which the store knows by this id?
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

void
untold_forget(const LrName *name, KindId kind, const uint8 *id)
{
	dlist_mutable_iter at;

	dlist_foreach_modify(at, &untold)
	{
		Untold	   *u = dlist_container(Untold, link, at.cur);

		if (u->terms.kind == kind && u->name.len == name->len &&
			memcmp(u->name.data, name->data, name->len) == 0 && untold_has_id(u, id))
			untold_move(u, &spare);
	}
}
