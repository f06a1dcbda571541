/*-------------------------------------------------------------------------
 *
 * watch_check.c
 *	  Does the watchdog do what it can?
 *
 * That a lock was lost is no fault by itself, so what is judged is why: one that was
 * to be renewed, in a store that answered all the time, must not run out; and of
 * more that is due than fits into a batch those go first whose lease ends first.  And
 * what it was told to look at in any case it does look at.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/workload/watch_check.c
 *
 *-------------------------------------------------------------------------
 */
#include "workload.h"

#include "../../../src/locktable/locktable_int.h"
#include "../../../src/settings.h"

#include "../kernel/kernel.h"
#include "../kernel/redis_nodes.h"
#include "../kernel/server.h"
#include "../models/kinds.h"

/* A shorter lease may end by a store that is slow or a process that is stopped. */
#define LEASE_MIN_MS	3000

/* ----------
 * A lease that need not have ended
 * ----------
 */

/* Only what has been renewed for a while: a scope may be there before it is held. */
static int64
renewed_lease_ms(const ScopeHold *scope)
{
	int64		lease_ms = 0;

	for (int i = 0; i < SCOPE_COUNT; i++)
		if (scope[i].count > 0 && scope[i].renewed &&
			scope[i].acquired_at + 2 * scope[i].lease_ms * SIM_MS < GetCurrentTimestamp())
			lease_ms = Max(lease_ms, scope[i].lease_ms);
	return lease_ms;
}

/*
 * check_expiry --- under the partition lock, before it is told
 *
 * For two leases nobody was stopped, nothing failed, and nobody was refused for this
 * key; for other keys he may have been.
 */
void
check_expiry(const char *name, const ScopeHold *scope)
{
	int64		lease_ms = renewed_lease_ms(scope);
	int64		since = sim_now() - 2 * lease_ms * SIM_MS;
	const LrHold *h = (const LrHold *) ((const char *) scope - offsetof(LrHold, scope));
	char		owner[LR_OWNER_MAX];

	if (h < lt_holds || h >= lt_holds + lt_table->max_locks)
		return;
	lr_owner_text(h->claim.owner, owner);
	if (lease_ms < LEASE_MIN_MS || sim_config.slow || sim_config.batch_max != 0 ||
		sim_quiet_since() > since || redis_denied_until(name) > since ||
		redis_was_robbed(owner))
		return;
	sim_fail("needless loss", "%s, which was to be renewed, has run out", name);
}

/*
 * check_rolling --- masters were started again with a lease between them, and nobody was
 * stopped: by each of them most had a lock that was renewed
 */
void
check_rolling(const char *name, const ScopeHold *scope)
{
	int64		lease_ms = renewed_lease_ms(scope);
	const LrHold *h = (const LrHold *) ((const char *) scope - offsetof(LrHold, scope));
	char		owner[LR_OWNER_MAX];

	if (!sim_config.rolling || h < lt_holds || h >= lt_holds + lt_table->max_locks)
		return;
	lr_owner_text(h->claim.owner, owner);
	if (lease_ms == 0 || sim_unstopped_since() > sim_now() - 2 * lease_ms * SIM_MS ||
		redis_was_robbed_by_hand(owner))
		return;
	sim_fail("needless loss", "%s was lost as masters were started again one by one", name);
}

/* ----------
 * What it has to look at in any case
 * ----------
 */

/* Of whom it is, when it is due, and whether it was made due at once. */
static struct
{
	uint64		owner;
	int64		due;
	bool		at_once;
}			last[SIM_MAX_LOCKS][STORE_COUNT];

/*
 * Only the watchdog puts it off, or a session that gives up the hold or has seen that it is
 * nowhere.  A key whose lock is held is in between.
 */
static void
check_due_stays_in(LrIndex hold, StoreId store)
{
	const LrHold *h = &lt_holds[hold];
	int64		due = lt_read_due(hold, store);
	bool		same = h->claim.owner != 0 && last[hold][store].owner == h->claim.owner;
	bool		is_due = due <= server_clock();

	if (same && last[hold][store].at_once && !is_due && !server_is_watchdog(sim_ran_last()) &&
		!(h->state == HOLD_LOST && h->traces == 0))
		sim_fail("lock table", "session %d has put off hold %d, which was due in store %d",
				 sim_ran_last(), hold, store);
	last[hold][store].at_once = is_due && same &&
		(last[hold][store].at_once || due != last[hold][store].due);
	last[hold][store].owner = h->claim.owner;
	last[hold][store].due = due;
}

void
check_due_stays(bool (*is_locked) (uint32 hash))
{
	for (LrIndex i = 0; i < lt_table->max_locks; i++)
		for (int s = 0; s < STORE_COUNT; s++)
			if (lr_has_store(s) && !is_locked(lt_keys[lt_holds[i].key].hash))
				check_due_stays_in(i, s);
}

/* ----------
 * What is collected
 * ----------
 */

typedef struct Seen
{
	uint64		owner;
	int64		due;
	int64		deadline;		/* 0: not to be renewed here */
	bool		wanted;			/* was to be collected, perhaps a little before its time */
} Seen;

static Seen seen[SIM_MAX_LOCKS];

/*
 * As due_is_due() has it: a session can make another one due while the watchdog chooses,
 * that it was not chosen from.
 */
static bool
is_wanted(LrIndex hold, int64 due, int64 now)
{
	const LrHold *h = &lt_holds[hold];
	int64		deadline = lt_deadline(hold);

	if (h->state == HOLD_HELD && h->renewal.refusals == 0 && due == lt_due_of_held(h, deadline) &&
		due != h->as.held.look_at)
		due -= lr_early_renewal(lt_renew_lease_ms(h) * SIM_MS);
	return due <= now;
}

static void
look(StoreId store, int64 now)
{
	Assert(lt_table->max_locks <= SIM_MAX_LOCKS);
	for (LrIndex i = 0; i < lt_table->max_locks; i++)
	{
		const LrHold *h = &lt_holds[i];
		int64		due = lt_read_due(i, store);

		seen[i].owner = lt_holds[i].claim.owner;
		seen[i].due = due;
		seen[i].deadline = h->state == HOLD_HELD && h->claim.store == store && seen[i].owner != 0 ?
			lt_deadline(i) : 0;
		seen[i].wanted = is_wanted(i, seen[i].due, now);
	}
}

static bool
is_in(LrIndex hold, const DueItem *items, int n)
{
	for (int i = 0; i < n; i++)
		if (items[i].op.hold == hold)
			return true;
	return false;
}

/* Was it to be collected, before and after?  Then it was all the time. */
static bool
stayed_due(LrIndex i, StoreId store, int64 now)
{
	return seen[i].deadline > now && seen[i].due <= now &&
		lt_holds[i].claim.owner == seen[i].owner &&
		lt_read_due(i, store) == seen[i].due &&
		lt_deadline(i) == seen[i].deadline &&
		lt_holds[i].state == HOLD_HELD;
}

/* Two of the same class of urgency differ by less than a quarter. */
static void
check_choice(StoreId store, int64 now, const DueItem *items, int n)
{
	int64		longest = 0;

	for (int i = 0; i < n; i++)
		if (seen[items[i].op.hold].wanted && seen[items[i].op.hold].owner == items[i].op.owner)
			longest = Max(longest, seen[items[i].op.hold].deadline - now);
	for (LrIndex i = 0; i < lt_table->max_locks; i++)
		if (stayed_due(i, store, now) && !is_in(i, items, n) &&
			(seen[i].deadline - now) * 4 < longest * 3)
			sim_fail("not the most urgent",
					 "hold %d has %.3f ms left and waits, one that has %.3f ms is renewed",
					 i, (seen[i].deadline - now) / 1000.0, longest / 1000.0);
}

/* A later watchdog has to know of a create that is sent now. */
static void
check_moves(StoreId store, const DueItem *items, int n)
{
	for (int i = 0; i < n; i++)
	{
		const LrHold *h = &lt_holds[items[i].op.hold];

		if (items[i].action == DUE_MOVE && lr_store_can(store, STORE_LATE_CREATES) &&
			lt_holds[items[i].op.hold].claim.owner == items[i].op.owner && h->not_after == 0)
			sim_fail("left behind", "a create is about to move %s, and only the watchdog knows of it",
					 lt_keys[h->key].name);
	}
}

extern int	__wrap_lt_collect_due(StoreId store, int64 now, bool connected, int64 again,
								  DueItem *items, int max);
extern int	__real_lt_collect_due(StoreId store, int64 now, bool connected, int64 again,
								  DueItem *items, int max);

/* A batch takes thousands; a schedule in which it takes few shows what then comes. */
int
__wrap_lt_collect_due(StoreId store, int64 now, bool connected, int64 again,
					  DueItem *items, int max)
{
	bool		few = connected && sim_config.batch_max != 0;
	int			n;

	if (few)
		look(store, now);
	n = __real_lt_collect_due(store, now, connected, again, items,
							  few ? sim_config.batch_max : max);
	if (few)
		check_choice(store, now, items, n);
	check_moves(store, items, n);
	return n;
}

extern void __real_lt_take_due(LrIndex hold, StoreId store);
extern void __wrap_lt_take_due(LrIndex hold, StoreId store);

/* Of whom a hold was when its request had failed, and until when that was put off. */
static struct
{
	uint64		owner;
	int64		until;
}			put_off[SIM_MAX_LOCKS][STORE_COUNT];

/* The watchdog looks at it now, under the partition lock: not before it was to. */
void
__wrap_lt_take_due(LrIndex hold, StoreId store)
{
	int64		due = lt_read_due(hold, store);
	int64		deadline = lt_deadline(hold);

	if (put_off[hold][store].owner == lt_holds[hold].claim.owner &&
		put_off[hold][store].until == due && due > server_clock() &&
		due != deadline && due != lt_due_of_held(&lt_holds[hold], deadline))
		sim_fail("not the most urgent", "hold %d, which was refused or not answered, is tried again %.3f ms before its time",
				 hold, (due - server_clock()) / 1000.0);
	__real_lt_take_due(hold, store);
}

/* ----------
 * For how long a store may have it
 * ----------
 */

/*
 * asked_until --- until when a store may have it by what was asked for, or is known
 *
 * What is to last until its deadline, or to stay locked for a time, is asked for that from
 * when it is sent, and a request has its time; so has one that was sent before a hold has come to its end.
 */
static int64
asked_until(LrIndex hold)
{
	const LrHold *h = &lt_holds[hold];
	int64		deadline = lt_deadline(hold);
	int64		until = Max(h->lasts + (lt_is_left(h) ? lr_call_budget() : server_clock()), deadline);
	static struct
	{
		uint64		owner;
		int64		lasts;
	}			had[SIM_MAX_LOCKS];

	/* A renewal from before may run at any time: its node, or the watchdog, may stand still. */
	if (!lt_is_left(h))
	{
		had[hold].owner = h->claim.owner;
		had[hold].lasts = h->lasts;
	}
	else if (had[hold].owner == h->claim.owner)
		until = Max(until, server_clock() + had[hold].lasts);

	if (deadline > server_clock() && deadline != LR_NEVER)
		until = Max(until, deadline + lr_call_budget());
	return h->keep_until == 0 ? until : Max(until, h->keep_until + lr_call_budget());
}

/*
 * check_asked --- a lock is in Redis for no longer than the lock table takes it to be
 *
 * A write lock is there for as long as a read lock beside it.
 */
void
check_asked(LrIndex k, LrIndex hold)
{
	const LrHold *h = &lt_holds[hold];
	int64		most = asked_until(hold);
	char		owner[LR_OWNER_MAX];
	int64		until;

	if (sim_config.sentinels || sim_config.cluster || sim_config.masters > 0 ||
		!redis_clocks_are_good() || h->claim.owner == 0 || h->kind == KIND_SHARED ||
		lr_kind(h->kind)->ownerless || lr_kind(h->kind)->passing)
		return;
	for (LrIndex i = lt_keys[k].first_hold; i != LR_NONE; i = lt_holds[i].next)
		if (kindset_has(lr_kind(lt_holds[i].kind)->beside, h->kind))
			most = Max(most, asked_until(i));
	for (int s = 0; s < lt_table->nsessions; s++)
	{
		const LrWait *w = &lt_sessions[s].wait;

		if (w->state != WAIT_NONE && w->key == k &&
			kindset_has(lr_kind(w->terms.kind)->beside, h->kind))
			most = Max(most, asked_until(w->hold));
	}
	lr_owner_text(h->claim.owner, owner);
	until = redis_owned_there_until(redis_place_of(lt_keys[k].name), lt_keys[k].name, owner);
	if (until - sim_now() > most - server_clock() + 2 * SIM_MS)
		sim_fail("left behind", "Redis has %s (%s) for another %.3f ms, and for %.3f ms it was asked for at most",
				 lt_keys[k].name, lt_state_names[h->state], (until - sim_now()) / 1000.0,
				 (most - server_clock()) / 1000.0);
}

/* ----------
 * What is refused
 * ----------
 */

/* A hold of that kind of the key; LR_NONE = there is none. */
static LrIndex
held_as(LrIndex key, KindId kind)
{
	LrIndex		i = lt_keys[key].first_hold;

	while (i != LR_NONE && (lt_holds[i].kind != kind || lt_holds[i].state != HOLD_HELD))
		i = lt_holds[i].next;
	return i;
}

/* Has no session it any more? */
static bool
is_left(const DueItem *item)
{
	const LrHold *h = &lt_holds[item->op.hold];

	return h->claim.owner == item->op.owner && lt_is_left(h);
}

/*
 * A write lock is there for as long as the read lock beside it, which is in the same hash.
 */
static void
check_given_up(const DueItem *item, bool over, LrIndex reads, uint64 reader, int64 until)
{
	LrIndex		key = lt_holds[item->op.hold].key;
	char		text[LR_OWNER_MAX];

	if (over && until > server_clock() && lt_holds[reads].claim.owner == reader &&
		lt_holds[reads].state == HOLD_HELD)
		sim_fail("left behind", "the write lock of %s is given up, and somebody reads beside it for %.3f ms",
				 lt_keys[key].name, (until - server_clock()) / 1000.0);
	if (!over && is_left(item) && lt_holds[item->op.hold].lasts < until)
		sim_fail("left behind", "the write lock of %s counts as over %.3f ms before the read lock beside it",
				 lt_keys[key].name, (until - lt_holds[item->op.hold].lasts) / 1000.0);
	lr_owner_text(item->op.owner, text);
	if (over && item->op.lock_kind == KIND_WRITE && !item->at_old_place &&
		sim_config.masters == 0 && redis_has_for_long(lt_keys[key].name, text))
		sim_fail("left behind", "the write lock of %s is given up, and Redis has it for long",
				 lt_keys[key].name);
}

/*
 * What is over is not there for longer because something beside it is over, too.
 */
static void
check_beside(const DueItem *item, const LrHold *before)
{
	LrIndex		key = before[item->op.hold].key;

	if (before[item->op.hold].state != HOLD_ORPHAN ||
		before[item->op.hold].lasts > server_clock())
		return;
	for (LrIndex i = 0; i < lt_table->max_locks; i++)
		if (i != item->op.hold && before[i].key == key && before[i].state == HOLD_ORPHAN &&
			lt_holds[i].state == HOLD_ORPHAN && lt_holds[i].claim.owner == before[i].claim.owner &&
			lt_holds[i].lasts > Max(before[i].lasts, server_clock()))
			sim_fail("left behind", "%s is to be given back for another %.3f ms, as something that was over is gone",
					 lt_keys[key].name, (lt_holds[i].lasts - server_clock()) / 1000.0);
}

/*
 * What is left, and was renewed after that, counts as there until the end of that lease.
 */
static void
check_renewed_left(const DueItem *item, const StoreOp *op)
{
	const LrHold *h = &lt_holds[item->op.hold];
	int64		until = op->sent.at + item->op.lease_ms * LR_US_PER_MS;

	if (is_left(item) && h->lasts < until)
		sim_fail("left behind", "%s (%s) was renewed, and counts as over %.3f ms before the end of that lease",
				 lt_keys[h->key].name, lt_state_names[h->state], (until - h->lasts) / 1000.0);
}

/* The operation that says what became of the item. */
static const StoreOp *
last_op(const DueItem *item, const StoreOp *op)
{
	return item->action == DUE_MOVE ? op + 1 : op;
}

static void
note_put_off(const DueItem *item, const StoreOp *op)
{
	LrIndex		hold = item->op.hold;

	if (last_op(item, op)->outcome == STORE_OK || lt_holds[hold].claim.owner != item->op.owner)
		return;
	put_off[hold][item->op.store].owner = item->op.owner;
	put_off[hold][item->op.store].until = lt_read_due(hold, item->op.store);
}

extern DueResult __real_lt_answered(const DueItem *item, const StoreOp *op, const StoreOp *time,
									int64 retry_at, bool has_room);
extern DueResult __wrap_lt_answered(const DueItem *item, const StoreOp *op, const StoreOp *time,
									int64 retry_at, bool has_room);

/*
 * If another process has run meanwhile, it may have given something back, or asked for it.
 */
DueResult
__wrap_lt_answered(const DueItem *item, const StoreOp *op, const StoreOp *time,
				   int64 retry_at, bool has_room)
{
	LrIndex		hold = item->op.hold;
	LrIndex		reads = lt_holds[hold].kind == KIND_WRITE ? held_as(lt_holds[hold].key, KIND_READ) : LR_NONE;
	uint64		reader = reads == LR_NONE ? 0 : lt_holds[reads].claim.owner;
	int64		until = reads == LR_NONE ? 0 : lt_deadline(reads);
	bool		left = is_left(item);
	bool		refused = item->action == DUE_GIVE_BACK && op->answer.own_fault &&
		(op->outcome == STORE_REFUSED || op->outcome == STORE_DENIED);
	int			sent = counts_sent(item);
	uint64_t	switches = scheduler_switches;
	LrHold		before[SIM_MAX_LOCKS];
	Before		renewed;
	DueResult	result;

	memcpy(before, lt_holds, lt_table->max_locks * sizeof(LrHold));
	replica_look_before(item, &renewed);
	result = __real_lt_answered(item, op, time, retry_at, has_room);
	note_put_off(item, op);
	counts_answered(item, sent, &result);
	if (item->action == DUE_RENEW && op->outcome == STORE_OK)
		check_renewed_left(item, op);
	if ((item->action == DUE_RENEW || item->action == DUE_MOVE) &&
		last_op(item, op)->outcome == STORE_OK &&
		lr_store_can(item->op.store, STORE_HAS_REPLICAS))
		replica_look_after(item, &renewed, lr_lease_deadline(last_op(item, op)->sent.at,
															 item->op.lease_ms));
	if (switches == scheduler_switches && left)
	{
		bool		given_up = !is_left(item) ||
			(lt_holds[hold].traces & STORE_BIT(item->op.store)) == 0;

		if (refused && item->nodes == 0)
			check_given_up(item, given_up, reads, reader, until);
		if (!is_left(item))
			check_beside(item, before);
	}
	return result;
}
