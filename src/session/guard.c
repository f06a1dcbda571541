/*-------------------------------------------------------------------------
 *
 * guard.c
 *	  May the transaction commit, by the locks that the session has?
 *
 * Runs at PRE_COMMIT, the last moment at which a commit can be refused by an
 * error.  Judges all holds, has the store renew what is too near its end or to
 * be verified, and judges again, until nothing is left to ask.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/session/guard.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "lease.h"
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

void
guard_refuse_unlocked_loss(void)
{
	const HoldView *view;
	const LrName *name = track_get_unlocked_loss(&view);

	if (name == NULL)
		return;
	lr_count(STAT_COMMITS_REFUSED);
	report_commit_refused(name, view, LOSS_UNLOCKED);
}

/* topology_epoch() at the last walk that left nothing to ask a new master. */
static uint32 guard_topology = 0;

/* What a walk over the holds is for. */
typedef struct GuardWalk
{
	bool		has_xid;
	bool		verified;		/* it was asked of all with GUARD_VERIFY */
	bool		failed;			/* and did not answer for one */
	bool		left;			/* one was not asked about that a former master
								 * has vouched for */
	int64		now;
	int64		floor;			/* none of them has to be asked for before */
	HeldEntry  *lost;			/* one that was found lost, to be told */
	HoldView	lost_view;
	int			n;				/* holds that the store must be asked about */
	StoreOp    *ops;
	HeldEntry **entries;
} GuardWalk;

/*
 * guard_note_lost --- of several losses one is told
 *
 * That of a session-level hold comes first: starting the transaction again does
 * not end it.
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
 * guard_asks_from --- when so little of its lease is left that a commit wants more
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
 * guard_look_at --- look at one hold: note its loss, ask the store, or let it be
 */
static void
guard_look_at(HeldEntry *entry, void *arg)
{
	GuardWalk  *walk = arg;
	HoldView	view;
	StoreOp    *op;

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

	op = &walk->ops[walk->n];
	ask_prepare_held(op, STORE_RENEW, &entry->key, &view);
	op->lease_ms = lr_later(lt_longest_lease_ms(view.scope), view.promised_ms);
	op->min_replicas = ask_min_replicas(&view);
	walk->entries[walk->n++] = entry;
}

/*
 * guard_apply_reply --- the store was asked about a hold
 *
 * What it says of the lease or the loss goes into the lock table, where the next
 * look finds it.
 */
static void
guard_apply_reply(GuardWalk *walk, LrIndex hold, StoreOp *op)
{
	HoldView	view;

	if (ask_settle(hold, op))
		return;
	if (op->outcome == STORE_OK)
		lt_raise_deadline(hold, op->sent_at + op->lease_ms * LR_US_PER_MS,
						  op->moves);
	else
	{
		walk->failed = true;
		lt_look(hold, &view);
		if (view.state == HOLD_HELD &&
			(view.guard == GUARD_VERIFY || view.of_old_master))
			ask_report_failure(ERROR, op->outcome);
	}
}

/*
 * guard_ask_store --- have renewed what is too near its end, or to be verified
 */
static void
guard_ask_store(GuardWalk *walk)
{
	ask_run_many(walk->ops, walk->n, STORE_WAIT);
	for (int i = 0; i < walk->n; i++)
		guard_apply_reply(walk, walk->entries[i]->hold, &walk->ops[i]);
	walk->verified = true;
}

static void
guard_count_entry(HeldEntry *entry, void *arg)
{
	(*(int *) arg)++;
}

/*
 * guard_refuse_unrenewed --- of what is too near its end one is told, as of losses
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

/* A lease that does not outlast so many requests is too short to commit by. */
#define GUARD_REQUESTS		5

/*
 * guard_walk_holds --- look at each hold, and ask the store where that is needed
 *
 * While the store is asked time passes for all holds, also for those that were
 * fine before.  So all are looked at again, until there is nothing to ask: then
 * all are judged by the same instant, which is now.
 */
static void
guard_walk_holds(bool has_xid)
{
	GuardWalk	walk = {.has_xid = has_xid};
	uint32		topology = topology_epoch();
	int			n = 0;

	held_walk(guard_count_entry, &n);
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
 * guard_check_holds --- refuse if a lock of this transaction was lost
 *
 * Usually told by four numbers: nothing lost, nothing to verify, no lease with less
 * left than a commit wants of it, and the same master as at the last walk.
 */
void
guard_check_holds(bool has_xid)
{
	if (held_count() == 0 || (track_nholds() == 0 && !has_xid))
		return;
	if (held_nverified > 0 || lt_lost_count() > 0 ||
		held_commit_floor <= lr_now() ||
		guard_topology != topology_epoch())
		guard_walk_holds(has_xid);
}
