/*-------------------------------------------------------------------------
 *
 * table_check.c
 *	  Is the lock table as it has to be?
 *
 * Run by the observer, which is attached to shared memory and no process, between
 * any two steps.  What is under a partition lock is looked at when nobody has that
 * lock; counters and due times, which are not, when all processes are parked, that
 * is, in a wait of their own and in the middle of nothing.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/workload/table_check.c
 *
 *-------------------------------------------------------------------------
 */
#include "workload.h"

#include "../../../src/instance.h"
#include "../../../src/store/current.h"
#include "../../../src/store/stores.h"
#include "../../../src/locktable/locktable_int.h"
#include "../../../src/store/node.h"
#include "../../../src/settings.h"
#include "../../../src/store/stores.h"

#include "../backend/heap.h"
#include "../kernel/network.h"
#include "../kernel/redis_model.h"
#include "../models/kinds.h"
#include "../models/table_model.h"

#define BROKEN(...) sim_fail("lock table", __VA_ARGS__)

/* Redis counts in milliseconds, of which it drops the rest. */
#define CLOCK_GRAIN		(2 * SIM_MS)

/* So that others get their turn; some round trips are enough for that. */
#define PAUSE_MAX		(2 * SIM_S)

extern void sim_check_step(void);
extern void sim_check_end(void);
extern bool sim_is_empty(void);

static const char *const state_names[] = {
	"free", "waiting", "held", "releasing", "handed", "lost", "orphan"
};

static int64
time_of(pg_atomic_uint64 *t)
{
	return (int64) t->value;
}

/* A look that is forced is marked by a negative time. */
static int64
due_of(LrIndex hold, StoreId store)
{
	int64		due = time_of(&lt_leases[hold].due[store]);

	return due < 0 ? -due : due;
}

static int64
deadline_of(LrIndex hold)
{
	return time_of(&lt_leases[hold].deadline);
}

static bool
is_locked(uint32 hash)
{
	return shared_root->tranche[LT_FIRST_LWLOCK + hash % LT_PARTITIONS].lock.state.value >=
		UINT32_C(0x80000000);
}

static bool
is_live(LrIndex hold)
{
	HoldState	state = lt_holds[hold].state;

	return (state == HOLD_HELD || state == HOLD_HANDED || state == HOLD_RELEASING) &&
		deadline_of(hold) > sim_now();
}

/* ----------
 * A key
 * ----------
 */

static void
check_queue(LrIndex k)
{
	const LrKey *key = &lt_keys[k];
	LrIndex		prev = LR_NONE;
	int			n = 0;

	for (LrIndex s = key->queue_head; s != LR_NONE; s = lt_sessions[s].wait.next)
	{
		const LrWait *w = &lt_sessions[s].wait;

		if (++n > lt_table->nsessions)
			BROKEN("the queue of %s has a loop", key->name);
		if (w->prev != prev)
			BROKEN("the queue of %s has a broken link at %d", key->name, s);
		if (w->state != WAIT_QUEUED || w->key != k || w->hash != key->hash)
			BROKEN("session %d is in the queue of %s and does not wait for it", s, key->name);
		if (lt_holds[w->hold].state != HOLD_WAITING || lt_holds[w->hold].session != s ||
			lt_holds[w->hold].key != k)
			BROKEN("session %d waits for %s with a hold that is %s", s, key->name,
				   state_names[lt_holds[w->hold].state]);
		prev = s;
	}
	if (key->queue_tail != prev && key->queue_head != LR_NONE)
		BROKEN("the queue of %s has a wrong tail", key->name);
}

/* The first, and those behind it that can have the key together with all before. */
static void
check_front(LrIndex k)
{
	const LrKey *key = &lt_keys[k];
	uint32		n[LT_MAX_KINDS] = {0};
	uint32		excluded = 0;
	LrIndex		s = key->queue_head;
	LrIndex		tail = LR_NONE;

	for (; s != LR_NONE && (excluded & KIND_BIT(lt_sessions[s].wait.terms.kind)) == 0;
		 s = lt_sessions[s].wait.next)
	{
		if (!lt_sessions[s].wait.in_front)
			BROKEN("session %d is in front of %s and does not know", s, key->name);
		n[lt_sessions[s].wait.terms.kind]++;
		excluded |= lr_kind(lt_sessions[s].wait.terms.kind)->excludes;
		tail = s;
	}
	if (key->front_tail != tail || memcmp(key->nfront, n, sizeof(n)) != 0)
		BROKEN("the front of %s ends with session %d, not %d", key->name, tail,
			   key->front_tail);
	for (; s != LR_NONE; s = lt_sessions[s].wait.next)
		if (lt_sessions[s].wait.in_front)
			BROKEN("session %d believes to be in front of %s", s, key->name);
}

static void
check_hold(LrIndex k, LrIndex i)
{
	const LrKey *key = &lt_keys[k];
	LrHold	   *h = &lt_holds[i];

	if (h->key != k || h->hash != key->hash)
		BROKEN("hold %d of %s belongs to another key", i, key->name);
	switch (h->state)
	{
		case HOLD_HELD:
		case HOLD_RELEASING:
		case HOLD_LOST:
			if (h->session == LR_NONE || h->scope[0].count + h->scope[1].count == 0)
				BROKEN("hold %d of %s is %s, and nobody has it", i, key->name,
					   state_names[h->state]);
			break;
		case HOLD_HANDED:
			if (lt_sessions[h->session].wait.state != WAIT_HANDED ||
				lt_sessions[h->session].wait.handed != i)
				BROKEN("hold %d of %s was handed to session %d, which does not wait for it",
					   i, key->name, h->session);
			break;
		case HOLD_ORPHAN:
			if (h->session != LR_NONE)
				BROKEN("orphan %d of %s has a session", i, key->name);
			break;
		default:
			BROKEN("hold %d of %s is %s", i, key->name, state_names[h->state]);
	}
	if (lt_leases[i].owner.value != 0 && lt_leases[i].owner.value != h->owner)
		BROKEN("the watchdog looks after another owner of hold %d of %s", i, key->name);
	if (h->traces != 0 && (h->state == HOLD_ORPHAN || h->state == HOLD_HELD) &&
		lt_leases[i].owner.value == 0)
		BROKEN("the watchdog does not look after hold %d of %s, which is %s", i,
			   key->name, state_names[h->state]);

	/* The watchdog must look in time at what is its business. */
	if (h->state == HOLD_HELD &&
		due_of(i, h->store) > Max(deadline_of(i), sim_now()))
		BROKEN("hold %d of %s is due at %.6f s and its lease ends at %.6f s", i,
			   key->name, due_of(i, h->store) / (double) SIM_S,
			   deadline_of(i) / (double) SIM_S);
	if (h->state == HOLD_ORPHAN || h->state == HOLD_LOST)
		for (int s = 0; s < STORE_COUNT; s++)
			if ((h->traces & STORE_BIT(s)) != 0 &&
				due_of(i, s) >= LR_NEVER)
				BROKEN("hold %d of %s is %s, and never due", i, key->name,
					   state_names[h->state]);
}

/* The store must have what a session believes to have. */
static void
check_store(LrIndex k, LrIndex i)
{
	const LrHold *h = &lt_holds[i];
	char		owner[LR_OWNER_MAX];
	int64		until;

	if ((h->state != HOLD_HELD && h->state != HOLD_HANDED) || deadline_of(i) <= sim_now())
		return;
	lr_owner_text(h->owner, owner);
	until = h->store == STORE_REDIS ? redis_owned_until(lt_keys[k].name, owner) :
		table_owned_until(lt_keys[k].name, lt_keys[k].name_len, h->owner);
	if (until + CLOCK_GRAIN < deadline_of(i) && !redis_was_robbed(owner))
		sim_fail("held without a lock",
				 "%s is %s by session %d for another %.3f ms; %s has it for %.3f ms",
				 lt_keys[k].name, state_names[h->state], h->session,
				 (deadline_of(i) - sim_now()) / 1000.0,
				 h->store == STORE_REDIS ? "Redis" : "the table",
				 until == 0 ? 0.0 : (until - sim_now()) / 1000.0);
}

/* What one session has as two kinds is between it and the store. */
static bool
is_own_other(const LrHold *one, const LrHold *other)
{
	return one->session == other->session && one->kind != other->kind;
}

static void
check_key(LrIndex k)
{
	const LrKey *key = &lt_keys[k];
	int			n = 0;

	for (LrIndex i = key->first_hold; i != LR_NONE; i = lt_holds[i].next)
	{
		if (++n > lt_table->max_locks)
			BROKEN("the holds of %s have a loop", key->name);
		check_hold(k, i);
		check_store(k, i);
		for (LrIndex live = key->first_hold; live != i; live = lt_holds[live].next)
		{
			if (!is_live(i) || !is_live(live) ||
				!lr_kinds_conflict(lt_holds[i].kind, lt_holds[live].kind) ||
				is_own_other(&lt_holds[i], &lt_holds[live]))
				continue;
			sim_fail("two holders", "%s: session %d (%s, %.3f ms) and session %d (%s, %.3f ms)",
					 key->name, lt_holds[live].session, state_names[lt_holds[live].state],
					 (deadline_of(live) - sim_now()) / 1000.0, lt_holds[i].session,
					 state_names[lt_holds[i].state], (deadline_of(i) - sim_now()) / 1000.0);
		}
	}
	check_queue(k);
	check_front(k);
	if (key->paused_until - sim_now() > PAUSE_MAX)
		sim_fail("long pause", "the head of the queue of %s holds back for %.3f s", key->name,
				 (key->paused_until - sim_now()) / (double) SIM_S);
	if (key->first_hold == LR_NONE && key->queue_head == LR_NONE &&
		key->nfailed == 0 && key->nhanded == 0)
		BROKEN("nobody has or awaits %s, and it has an entry", key->name);
}

static void
check_keys(void)
{
	for (int b = 0; b < lt_table->nbuckets; b++)
	{
		if (lt_buckets[b] == LR_NONE || is_locked(b))
			continue;
		for (LrIndex k = lt_buckets[b]; k != LR_NONE; k = lt_keys[k].next)
			check_key(k);
	}
}

/* ----------
 * Counters
 * ----------
 */

static void
check_sessions(void)
{
	for (int s = 0; s < lt_table->nsessions; s++)
	{
		uint32		n = lt_sessions[s].nlost.value;

		if (n > (uint32) lt_table->max_locks)
			BROKEN("session %d has lost %d locks", s, (int) n);
	}
}

static int
pool_length(LrIndex first, bool keys)
{
	int			n = 0;

	for (LrIndex i = first; i != LR_NONE; i = keys ? lt_keys[i].next : lt_holds[i].next)
		if (++n > lt_table->max_locks)
			BROKEN("the free %s have a loop", keys ? "keys" : "holds");
	return n;
}

static int
used_keys(void)
{
	int			n = 0;

	for (int b = 0; b < lt_table->nbuckets; b++)
		for (LrIndex k = lt_buckets[b]; k != LR_NONE; k = lt_keys[k].next)
			n++;
	return n;
}

static void
check_counts(void)
{
	int			rows = 0;
	int			used = 0;
	int			asleep = 0;
	int			lost[SIM_MAX_PROCS] = {0};

	for (LrIndex i = 0; i < lt_table->max_locks; i++)
	{
		const LrHold *h = &lt_holds[i];

		if (h->state == HOLD_FREE)
			continue;
		used++;
		rows += h->state == HOLD_WAITING ? 1 : lt_hold_rows(h);
		if (h->state == HOLD_LOST)
			lost[h->session]++;
	}
	for (int s = 0; s < lt_table->nsessions; s++)
	{
		if (lt_sessions[s].pid != 0 && lt_sessions[s].nlost.value != (uint32) lost[s])
			BROKEN("session %d has lost %d locks, its counter says %d", s, lost[s],
				   (int) lt_sessions[s].nlost.value);
		if (lt_sessions[s].wait.state != WAIT_NONE && lt_sessions[s].wait.asleep)
			asleep++;
	}
	if (rows != (int) lt_table->nrows.value)
		BROKEN("there are %d rows, the counter says %d", rows, (int) lt_table->nrows.value);
	if (asleep != (int) lt_table->nwaiters.value)
		BROKEN("%d sessions wait, the counter says %d", asleep,
			   (int) lt_table->nwaiters.value);
	if (pool_length(lt_table->hold_pool.first_free, false) + used != lt_table->max_locks)
		BROKEN("holds are missing");
	if (pool_length(lt_table->key_pool.first_free, true) + used_keys() != lt_table->max_locks)
		BROKEN("keys are missing");
}

/* ----------
 * The watchdog
 * ----------
 */

/*
 * is_stale_mark --- a look that was forced when nobody had the slot
 *
 * The bound of its block need not know of it: whoever sets a due time there
 * lowers it then.
 */
static bool
is_stale_mark(LrIndex i, StoreId s)
{
	return time_of(&lt_leases[i].due[s]) < 0 && lt_holds[i].store != s &&
		current_store() != s && (lt_holds[i].traces & STORE_BIT(s)) == 0;
}

/* It sleeps: is it to be woken in time? */
static void
check_watchdog(void)
{
	if (!lr_watchdog_running())
		return;
	for (int s = 0; s < STORE_COUNT; s++)
	{
		if (!lr_has_store(s))
			continue;
		for (LrIndex i = 0; i < lt_table->max_locks; i++)
		{
			int64		due = due_of(i, s);

			if (lt_leases[i].owner.value == 0 || is_stale_mark(i, s))
				continue;
			if (due < time_of(&lt_block_due[s][i / DUE_BLOCK]))
				BROKEN("hold %d (%s) is due in store %d at %.6f s, its block at %.6f s", i,
					   state_names[lt_holds[i].state], s, due / (double) SIM_S,
					   time_of(&lt_block_due[s][i / DUE_BLOCK]) / (double) SIM_S);
			if (due < time_of(&lt_table->sleeps_until[s]) &&
				!shared_root->proc_global.allProcs[SLOT_WATCHDOG].procLatch.is_set)
				BROKEN("hold %d is due at %.3f s, and the watchdog sleeps until %.3f s", i,
					   due / (double) SIM_S,
					   time_of(&lt_table->sleeps_until[s]) / (double) SIM_S);
		}
	}

	/* What is held in one store and belongs into the other. */
	if (lr_mode == MODE_FALLBACK)
		for (LrIndex i = 0; i < lt_table->max_locks; i++)
			if (lt_holds[i].state == HOLD_HELD && lt_holds[i].store != current_store() &&
				due_of(i, current_store()) >= LR_NEVER)
				BROKEN("hold %d of %s is not due to be moved", i,
					   lt_keys[lt_holds[i].key].name);
}

/* ----------
 * Who sleeps while what he waits for is free?
 * ----------
 */

/* Longer than a tick, a poll and a call's budget. */
#define SLEEP_MAX		(15 * SIM_S)

/* Of a kind that nobody keeps from the key: it has only to be asked for. */
#define SLEEP_MAX_FREE	(2 * SIM_S)

static int64 free_since[SIM_MAX_PROCS];

/* Nobody of this server has or had a lock that keeps the session from the key. */
static bool
nobody_keeps(const LrKey *key, KindId kind)
{
	for (LrIndex i = key->first_hold; i != LR_NONE; i = lt_holds[i].next)
		if (lr_kinds_conflict(kind, lt_holds[i].kind))
			return false;
	return true;
}

static void
check_sleepers(void)
{
	bool		good = lr_mode == MODE_REDIS && net_is_well();

	for (int s = 0; s < lt_table->nsessions; s++)
	{
		const LrWait *w = &lt_sessions[s].wait;
		const LrKey *key = &lt_keys[w->key];
		bool		is_free = good && w->state == WAIT_QUEUED && w->in_front &&
			nobody_keeps(key, w->terms.kind) && !redis_is_denied(key->name) &&
			(w->terms.kind == KIND_FREE ||
			 !redis_keeps_from(key->name, w->terms.kind == KIND_SHARED)) &&
			sim_now() >= key->paused_until;

		if (!is_free)
			free_since[s] = 0;
		else if (free_since[s] == 0)
			free_since[s] = sim_now();
		else if (sim_now() - Max(free_since[s], sim_quiet_since()) >
				 (w->terms.kind == KIND_FREE ? SLEEP_MAX_FREE : SLEEP_MAX))
			sim_fail("sleeps for ever", "session %d waits for %s, which is free for %.3f s",
					 s, key->name, (sim_now() - free_since[s]) / (double) SIM_S);
	}
}

/* ----------
 * Who waits for himself?
 * ----------
 */

/* Longer than the search takes, whoever is stopped meanwhile. */
#define CYCLE_MAX		(SIM_S + 2 * sim_config.deadlock_timeout_ms * SIM_MS)

/* Who was ended may wait again at once, and close another one. */
#define WAIT_MIN		(3 * SIM_S)

static int64 cycle_since[SIM_MAX_PROCS];
static int64 wait_since[SIM_MAX_PROCS];
static uint64 wait_generation[SIM_MAX_PROCS];

static void note_awaited(LrIndex session, bool *reached);

static void
note_reached(LrIndex session, bool *reached)
{
	if (reached[session])
		return;
	reached[session] = true;
	note_awaited(session, reached);
}

/*
 * note_awaited --- for whom a session waits, by the rules of the queue and not by
 * the graph of the product: for those who keep it from a lock of PostgreSQL; for whoever has the key and keeps it from it; and if it
 * is not in front, for those ahead of it that are not either, or keep it from there
 */
static void
note_awaited(LrIndex session, bool *reached)
{
	const LrWait *w = &lt_sessions[session].wait;
	KindId		kind = w->terms.kind;
	bool		blockers[SIM_MAX_PROCS] = {false};

	heavy_lock_blockers(session, blockers);
	for (LrIndex s = 0; s < SIM_MAX_PROCS; s++)
		if (blockers[s])
			note_reached(s, reached);
	if (w->state != WAIT_QUEUED || sim_now() - wait_since[session] < WAIT_MIN)
		return;
	for (LrIndex i = lt_keys[w->key].first_hold; i != LR_NONE; i = lt_holds[i].next)
		if (is_live(i) && lt_holds[i].session != session &&
			lr_kinds_conflict(kind, lt_holds[i].kind))
			note_reached(lt_holds[i].session, reached);
	for (LrIndex s = w->prev; !w->in_front && s != LR_NONE; s = lt_sessions[s].wait.prev)
		if (!lt_sessions[s].wait.in_front ||
			lr_kinds_conflict(kind, lt_sessions[s].wait.terms.kind))
			note_reached(s, reached);
}

static void
check_cycles(void)
{
	for (int s = 0; s < lt_table->nsessions; s++)
		if (lt_sessions[s].wait.generation != wait_generation[s])
		{
			wait_generation[s] = lt_sessions[s].wait.generation;
			wait_since[s] = sim_now();
		}
	for (int s = 0; s < lt_table->nsessions; s++)
	{
		bool		reached[SIM_MAX_PROCS] = {false};

		note_awaited(s, reached);
		if (!reached[s])
			cycle_since[s] = 0;
		else if (cycle_since[s] == 0)
			cycle_since[s] = sim_now();
		else if (sim_now() - Max(cycle_since[s], sim_quiet_since()) > CYCLE_MAX)
			sim_fail("deadlock stands", "session %d waits for itself for %.3f s, at %s", s,
					 (sim_now() - cycle_since[s]) / (double) SIM_S,
					 lt_keys[lt_sessions[s].wait.key].name);
	}
}

/* ----------
 * Called by the kernel
 * ----------
 */

void
sim_check_step(void)
{
	check_keys();
	check_sessions();
	if (!sim_all_parked())
		return;
	check_counts();
	check_watchdog();
	check_sleepers();
	check_cycles();
}

bool
sim_is_empty(void)
{
	return lt_table->nrows.value == 0;
}

/* All sessions have ended, and the watchdog has had its time. */
void
sim_check_end(void)
{
	const char *key;

	if (lt_table->nrows.value != 0)
	{
		for (LrIndex i = 0; i < lt_table->max_locks; i++)
			if (lt_holds[i].state != HOLD_FREE)
				sim_fail("left behind", "hold %d of %s is %s", i,
						 lt_keys[lt_holds[i].key].name, state_names[lt_holds[i].state]);
		BROKEN("%d rows and no holds", (int) lt_table->nrows.value);
	}
	if (lr_mode != MODE_REDIS && (key = table_find_row()) != NULL)
		sim_fail("left behind", "the table has %s of this server", key);
	key = redis_find_owner(lr_instance_uuid());
	if (key != NULL)
		sim_fail("left behind", "Redis has %s of this server", key);
}
