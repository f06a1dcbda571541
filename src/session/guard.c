/*-------------------------------------------------------------------------
 *
 * guard.c
 *	  Do the locks of the session allow the transaction to commit?
 *
 * This runs at PRE_COMMIT, the last moment at which an error can refuse the commit.  It
 * judges all holds, has the store renew those that are too near the end of their lease
 * or have to be verified, and judges again, until there is nothing left to ask.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/session/guard.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "report.h"
#include "session/session.h"
#include "session/session_int.h"
#include "stats.h"
#include "store/nodes.h"

static void
guard_refuse(const HeldEntry *entry, const HoldView *view)
{
	LrName		name;

	held_copy_name(&entry->key, &name);
	lr_count(STAT_COMMITS_REFUSED);
	report_commit_refused(&name, view, held_loss_level(entry, view));
}

/* topology_epoch() at the last walk after which no hold depended on a former master. */
static uint32 guard_topology = 0;

/* State of a walk over the holds. */
typedef struct GuardWalk
{
	bool		has_xid;
	bool		verified;		/* the store was asked about all with GUARD_VERIFY */
	bool		failed;			/* the store did not answer for one */
	bool		left;			/* a hold that a former master has confirmed was not asked
								 * about */
	int64		now;
	int64		floor;			/* no hold has to be renewed before */
	HeldEntry  *lost;			/* a hold that was found lost, to be reported */
	HoldView	lost_view;
	int			n;				/* holds that the store must be asked about */
	StoreOp    *ops;
	HeldEntry **entries;
} GuardWalk;

/*
 * guard_note_lost --- one of several losses is reported
 *
 * A session-level one has precedence: starting the transaction again does not end it.
 */
static void
guard_note_lost(GuardWalk *walk, HeldEntry *entry, const HoldView *view)
{
	if (walk->lost != NULL &&
		(held_loss_level(walk->lost, &walk->lost_view) == LOSS_OF_SESSION ||
		 held_loss_level(entry, view) != LOSS_OF_SESSION))
		return;
	walk->lost = entry;
	walk->lost_view = *view;
}

/*
 * guard_asks_from --- the time from which too little of the lease is left for a commit
 */
static int64
guard_asks_from(const HoldView *view)
{
	return view->deadline -
		lr_commit_margin(lt_longest_lease_ms(view->scope) * LR_US_PER_MS);
}

static bool
guard_must_ask(const GuardWalk *walk, const HoldView *view)
{
	if (view->of_old_master ||
		(view->guard == GUARD_VERIFY && !walk->verified))
		return true;
	return guard_asks_from(view) <= walk->now;
}

/*
 * guard_look_at --- judge one hold: record its loss, have the store asked, or accept it
 */
static void
guard_look_at(HeldEntry *entry, void *arg)
{
	GuardWalk  *walk = arg;
	HoldView	view;

	lt_look(entry->hold, &view);
	if (view.state == HOLD_HELD)
		walk->floor = lr_earlier(walk->floor, guard_asks_from(&view));
	if (view.guard == GUARD_OFF ||
		(view.scope[SCOPE_XACT].count == 0 && !walk->has_xid))
	{
		walk->left = walk->left || view.of_old_master;
		return;
	}
	if (view.state == HOLD_LOST)
	{
		guard_note_lost(walk, entry, &view);
		return;
	}
	if (!guard_must_ask(walk, &view))
		return;
	ask_prepare_renewal(&walk->ops[walk->n], entry, &view);
	walk->entries[walk->n++] = entry;
}

/*
 * guard_apply_reply --- apply the answer about a hold
 *
 * A new lease or a loss goes into the lock table, where the next look finds it.
 */
static void
guard_apply_reply(GuardWalk *walk, StoreOp *op)
{
	HoldView	view;

	if (ask_apply_renewal(op))
		return;
	walk->failed = true;
	lt_look(op->hold, &view);
	if (view.state == HOLD_HELD && (view.guard == GUARD_VERIFY || view.of_old_master))
		ask_report_failure(ERROR, op->outcome);
}

/*
 * guard_ask_store --- renew the holds that were selected
 */
static void
guard_ask_store(GuardWalk *walk)
{
	ask_run_many(walk->ops, walk->n);
	for (int i = 0; i < walk->n; i++)
		guard_apply_reply(walk, &walk->ops[i]);
	walk->verified = true;
}

/*
 * guard_refuse_unrenewed --- refuse for a lease that is too near its end
 *
 * As with losses, one of them is reported.
 */
static void
guard_refuse_unrenewed(GuardWalk *walk)
{
	HoldView	view;

	for (int i = 0; i < walk->n; i++)
	{
		lt_look(walk->entries[i]->hold, &view);
		guard_note_lost(walk, walk->entries[i], &view);
	}
	guard_refuse(walk->lost, &walk->lost_view);
}

/* A lease that does not outlast this many requests is too short for a commit. */
#define GUARD_REQUESTS		5

/*
 * guard_walk_holds --- judge each hold, and ask the store where necessary
 *
 * While the store is asked, time passes for all holds, also for those that were fine
 * before.  So all are judged again, until there is nothing to ask: then all have been
 * judged by the same instant, which is now.
 */
static void
guard_walk_holds(bool has_xid)
{
	GuardWalk	walk = {.has_xid = has_xid};
	uint32		topology = topology_epoch();
	int			n = held_count();

	walk.ops = palloc_extended(sizeof(StoreOp) * (Size) n, MCXT_ALLOC_HUGE);
	walk.entries = palloc_extended(sizeof(HeldEntry *) * (Size) n, MCXT_ALLOC_HUGE);
	for (int asked = 0;; asked++)
	{
		walk.now = lr_now();
		walk.floor = LR_NEVER;
		walk.lost = NULL;
		walk.left = false;
		walk.n = 0;
		held_walk(guard_look_at, &walk);
		if (walk.lost != NULL)
			guard_refuse(walk.lost, &walk.lost_view);
		if (walk.n == 0)
			break;
		if (walk.failed || asked == GUARD_REQUESTS)
			guard_refuse_unrenewed(&walk);
		guard_ask_store(&walk);
	}
	held_commit_floor = walk.floor;
	if (!walk.left)
		guard_topology = topology;
	pfree(walk.ops);
	pfree(walk.entries);
}

/*
 * guard_check_holds --- see session_int.h
 *
 * Usually four comparisons suffice: no hold is lost, none has to be verified, none has
 * less of its lease left than a commit requires, and the master is the same as at the
 * last walk.
 */
void
guard_check_holds(bool has_xid)
{
	if (held_count() == 0 || (!track_has(TRACK_HOLD) && !has_xid))
		return;
	if (held_nverified > 0 || lt_lost_count() > 0 ||
		held_commit_floor <= lr_now() ||
		guard_topology != topology_epoch())
		guard_walk_holds(has_xid);
}
