/*-------------------------------------------------------------------------
 *
 * table_check.c
 *	  Is the lock table as it has to be, and as the stores and the processes are?
 *
 * Run by the observer, which is attached to shared memory and no process, between
 * any two steps.  What is under a partition lock is looked at when nobody has that
 * lock; counters and due times, which are not, when all processes are parked, that
 * is, in a wait of their own and in the middle of nothing.  What the table can
 * say of itself it does (src/locktable/check.c).
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/workload/table_check.c
 *
 *-------------------------------------------------------------------------
 */
#include "workload.h"

#include "../../../src/locktable/locktable_int.h"
#include "../../../src/names.h"
#include "../../../src/settings.h"
#include "../../../src/store/nodes.h"
#include "../../../src/store/stores.h"

#include "../backend/heap.h"
#include "../kernel/clusters.h"
#include "../kernel/names.h"
#include "../kernel/network.h"
#include "../kernel/history.h"
#include "../kernel/redis_conditions.h"
#include "../kernel/redis_counts.h"
#include "../kernel/redis_nodes.h"
#include "../kernel/redlock.h"
#include "../kernel/rivals.h"
#include "../kernel/sentinels.h"
#include "../kernel/server.h"
#include "../kernel/shards.h"
#include "../models/kinds.h"
#include "permits.h"
#include "row_check.h"

#define MAX_HOLDS	64

#define BROKEN(...) sim_fail("lock table", __VA_ARGS__)

/* What the lock table says of itself; see src/locktable/check.c. */
static void
must_be_good(const char *says)
{
	if (says != NULL)
		BROKEN("%s", says);
}

/* The observer does this between any two steps: no need to do it in each process. */
extern void __wrap_lt_check_change(LWLock *lock);

void
__wrap_lt_check_change(LWLock *lock)
{
}

/* After a failover each lock is asked about by then, if nothing is in the way. */
#define ASKED_WITHIN	(2 * SIM_S)

/* So that others get their turn; longer than the product says it is at most. */
#define PAUSE_MAX		(510 * SIM_MS)

extern void sim_check_step(void);
extern void sim_check_end(void);
extern void sim_check_shutdown(void);
extern bool sim_is_empty(void);

static int64
time_of(pg_atomic_uint64 *t)
{
	return server_time((int64) t->value);
}

static int64
deadline_of(LrIndex hold)
{
	return time_of(&lt_holds[hold].deadline);
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

/* The watchdog renews over each new connection. */
#define ASKED_ANEW_WITHIN	(SIM_S / 2)

/* Of whom each hold is, since when, and what it was when its lease was seen to have ended. */
static struct
{
	uint64		owner;
	int64		since;
	bool		over;
	HoldState	state;
}			leases[MAX_HOLDS];

/*
 * asks_anew_since --- the watchdog has lost its connections by then, and could know
 *
 * Nobody tells it so of one that had no other end.
 */
static int64
asks_anew_since(void)
{
	return Max(Max(elsewhere_settled_at(), net_watchdog_told_at()), sim_quiet_since());
}

/*
 * check_node --- what was held before the name led elsewhere, that node has, or its loss is
 * known
 *
 * Of an answer that was read later nobody knows that it is of the former node; and what is not
 * renewed nobody asks about.
 */
static void
check_node(LrIndex k, LrIndex i, const char *owner)
{
	const char *name = lt_keys[k].name;

	if (sim_now() - asks_anew_since() > ASKED_ANEW_WITHIN &&
		lt_renew_lease_ms(&lt_holds[i]) > 0 && i < MAX_HOLDS && leases[i].owner == lt_holds[i].claim.owner &&
		leases[i].since < elsewhere_settled_at() &&
		lt_holds[i].state == HOLD_HELD && net_is_well() && redis_denied_until(name) == 0 &&
		!redis_was_robbed(owner) &&
		redis_owned_there_until(redis_present(), name, owner) == 0)
		sim_fail("held without a lock",
				 "%s is held by session %d for another %.3f ms; the node to which the name leads does not have it",
				 name, lt_holds[i].session, (deadline_of(i) - sim_now()) / 1000.0);
}

/*
 * Has the master that is believed in what it is said to have?  Of what a former one
 * has said it is to be asked soon.
 */
static void
check_master(LrIndex k, LrIndex i, const char *owner)
{
	const LrHold *h = &lt_holds[i];
	int			node = sentinels_node_of(h->claim.topology);
	int64		until;

	if (h->claim.topology != topology_epoch())
	{
		int64		since = Max(sentinels_believed_at(), sim_quiet_since());

		/* What was refused once is asked again at growing intervals. */
		if (sim_now() - since > ASKED_WITHIN && net_is_well() &&
			redis_denied_until(lt_keys[k].name) == 0)
			sim_fail("former master", "%s: the present one has not been asked for %.3f ms",
					 lt_keys[k].name, (sim_now() - since) / 1000.0);
		return;
	}
	until = node < 0 ? 0 : redis_owned_there_until(node, lt_keys[k].name, owner);
	if (until < deadline_of(i) && !redis_was_robbed(owner))
		sim_fail("held without a lock",
				 "%s is %s by session %d for another %.3f ms; the master has it for %.3f ms",
				 lt_keys[k].name, lt_state_names[h->state], h->session,
				 (deadline_of(i) - sim_now()) / 1000.0,
				 until == 0 ? 0.0 : (until - sim_now()) / 1000.0);
}

/* Of whom each hold is that others have taken away from most masters, and for how long. */
static struct
{
	uint64		owner;
	int64		deadline;
}			taken[MAX_HOLDS];

/*
 * Of independent masters most have to have it, or have forgotten it.
 *
 * A session that finds out that most do not have it any more has the rest release it at once,
 * on the way to entering the loss.
 */
static void
check_majority(LrIndex k, LrIndex i, const char *owner)
{
	int64		deadline = deadline_of(i);
	int			lost;
	int			n = names_count_owned(lt_keys[k].name, owner, deadline, &lost);

	if (n > sim_config.masters / 2)
	{
		if (i < MAX_HOLDS)
		{
			taken[i].owner = n - lost > sim_config.masters / 2 ? 0 : lt_holds[i].claim.owner;
			taken[i].deadline = deadline;
		}
		return;
	}
	if (i < MAX_HOLDS && taken[i].owner == lt_holds[i].claim.owner && taken[i].deadline == deadline)
		return;
	sim_fail("held without a lock",
			 "%s is %s by session %d for another %.3f ms; %d of %d masters have it for as long",
			 lt_keys[k].name, lt_state_names[lt_holds[i].state], lt_holds[i].session,
			 (deadline - sim_now()) / 1000.0, n, sim_config.masters);
}

/*
 * Has the watchdog given the slot to another node, and is that still in its store
 * buffer?  What is written has the next epoch until the end of the change.
 */
static bool
is_unseen(LrIndex k)
{
	return shards_is_being_given(lt_keys[k].name) && lt_epoch_of(k) <= topology_epoch();
}

/* Where nobody knows yet of a failover there may be two masters of a slot. */
static bool
is_disputed(LrIndex k)
{
	const char *name = lt_keys[k].name;

	return shards_believed(name) < 0 || is_unseen(k) ||
		(shards_failovers() > 0 && shards_is_disputed(name));
}

/*
 * is_asked_later --- what another node has said before, the present one is to be asked
 * about soon
 */
static bool
is_asked_later(LrIndex k, LrIndex i)
{
	const char *name = lt_keys[k].name;
	int64		since = Max(shards_believed_at(name), sim_quiet_since());

	if (lt_holds[i].claim.topology == lt_epoch_of(k))
		return false;
	if (sim_now() - since > ASKED_WITHIN && net_is_well() && redis_denied_until(name) == 0)
		sim_fail("former master", "%s: the present one has not been asked for %.3f ms", name,
				 (sim_now() - since) / 1000.0);
	return true;
}

/*
 * What not all masters have granted, as is known, they are asked about soon.
 */
static void
check_repair(LrIndex k, LrIndex i)
{
	const LrHold *h = &lt_holds[i];
	int64		since = Max(server_time(h->as.held.look_at), sim_quiet_since());

	if (h->state != HOLD_HELD || h->as.held.look_at == 0 || h->as.held.look_at == LR_NEVER)
		return;
	if (sim_now() - since > ASKED_WITHIN && net_is_well() && sim_config.batch_max == 0 &&
		redis_denied_until(lt_keys[k].name) == 0)
		sim_fail("not repaired", "%s: not all masters have it, and none was asked for %.3f ms",
				 lt_keys[k].name, (sim_now() - since) / 1000.0);
}

/*
 * Has the node of the slot what it is said to have?  A slot that moves takes all of it
 * along.
 */
static void
check_shard(LrIndex k, LrIndex i, const char *owner)
{
	const LrHold *h = &lt_holds[i];
	const char *name = lt_keys[k].name;
	int64		until;

	if (is_asked_later(k, i) || is_disputed(k))
		return;
	until = Max(redis_owned_there_until(shards_believed(name), name, owner),
				redis_owned_there_until(redis_place_of(name), name, owner));
	if (until < deadline_of(i) && !redis_was_robbed(owner))
		sim_fail("held without a lock",
				 "%s is %s by session %d for another %.3f ms; its master has it for %.3f ms",
				 name, lt_state_names[h->state], h->session,
				 (deadline_of(i) - sim_now()) / 1000.0,
				 until == 0 ? 0.0 : (until - sim_now()) / 1000.0);
}

/*
 * Redis has each permit that is believed to be held, until the end of its lease, and there
 * are no more of them than there ever were.
 */
static void
check_permits(LrIndex k)
{
	int			n = 0;

	for (LrIndex i = lt_keys[k].first_hold; i != LR_NONE; i = lt_holds[i].next)
	{
		int64		until;

		/* Of one that is given back the answer may be under way. */
		if (lt_holds[i].kind != KIND_PERMIT || !is_live(i) ||
			lt_holds[i].state == HOLD_RELEASING || redis_was_robbed(permit_id_of(i)))
			continue;
		if (sim_config.cluster && (is_asked_later(k, i) || is_disputed(k)))
			continue;
		n++;
		for (LrIndex j = lt_keys[k].first_hold; j != i; j = lt_holds[j].next)
			if (is_live(j) && lt_holds[j].claim.owner == lt_holds[i].claim.owner)
				sim_fail("two holders", "%s: sessions %d and %d have the same permit",
						 lt_keys[k].name, lt_holds[j].session, lt_holds[i].session);
		until = redis_permit_until(lt_keys[k].name, permit_id_of(i));
		if (until < deadline_of(i))
			sim_fail("held without a lock",
					 "session %d has a permit of %s (%s) for another %.3f ms; Redis has it for %.3f ms",
					 lt_holds[i].session, lt_keys[k].name, lt_state_names[lt_holds[i].state],
					 (deadline_of(i) - sim_now()) / 1000.0,
					 until == 0 ? 0.0 : (until - sim_now()) / 1000.0);
	}
	if (n > redis_permits_most(lt_keys[k].name))
		sim_fail("two holders", "%d permits of %s are held, and there were never more than %d",
				 n, lt_keys[k].name, redis_permits_most(lt_keys[k].name));
}

/* The store must have what a session believes to have. */
static void
check_store(LrIndex k, LrIndex i)
{
	const LrHold *h = &lt_holds[i];
	char		owner[LR_OWNER_MAX];
	int64		until;

	if ((h->state != HOLD_HELD && h->state != HOLD_HANDED) || deadline_of(i) <= sim_now() ||
		lr_kind(h->kind)->ownerless || lr_kind(h->kind)->passing || h->kind == KIND_PERMIT)
		return;
	lr_owner_text(h->claim.owner, owner);
	if (sim_config.sentinels && h->claim.store == STORE_REDIS)
	{
		check_master(k, i, owner);
		return;
	}
	if (sim_config.masters > 0)
	{
		check_majority(k, i, owner);
		check_repair(k, i);
		return;
	}
	if (sim_config.cluster && h->claim.store == STORE_REDIS)
	{
		check_shard(k, i, owner);
		return;
	}
	if (elsewhere_moved() && h->claim.store == STORE_REDIS)
		check_node(k, i, owner);
	until = h->claim.store == STORE_REDIS ? redis_owned_until(lt_keys[k].name, owner) :
		rows_owned_until(lt_keys[k].name, h->claim.owner);
	if (until < deadline_of(i) && !redis_was_robbed(owner))
		sim_fail("held without a lock",
				 "%s is %s by session %d for another %.3f ms; %s has it for %.3f ms",
				 lt_keys[k].name, lt_state_names[h->state], h->session,
				 (deadline_of(i) - sim_now()) / 1000.0,
				 h->claim.store == STORE_REDIS ? "Redis" : "the table",
				 until == 0 ? 0.0 : (until - sim_now()) / 1000.0);
}

/* What one session has as two kinds is between it and the store. */
static bool
is_own_other(const LrHold *one, const LrHold *other)
{
	return one->session == other->session && one->kind != other->kind;
}

/*
 * A session that releases the lock has done with it before it has read the answer: the store may
 * have given it to the next one by then.  See grant_conflicts().
 */
static bool
is_next_already(const LrHold *one, const LrHold *other)
{
	return one->state == HOLD_RELEASING || other->state == HOLD_RELEASING;
}

/*
 * Others may have gone on: a lease that has ended does not go on, and nobody gives
 * back or passes on what was lost by that as if it had been had.
 */
static void
check_end(LrIndex k, LrIndex i)
{
	if (i >= MAX_HOLDS)
		return;
	if (leases[i].owner != lt_holds[i].claim.owner)
	{
		leases[i].over = false;
		leases[i].since = sim_now();
	}
	leases[i].owner = lt_holds[i].claim.owner;
	if (lt_holds[i].state != HOLD_HELD && lt_holds[i].state != HOLD_HANDED &&
		lt_holds[i].state != HOLD_RELEASING)
		return;
	if (leases[i].over && deadline_of(i) > sim_now())
		BROKEN("the lease of hold %d of %s had ended, and goes on", i, lt_keys[k].name);
	if (leases[i].over && lt_holds[i].state != leases[i].state)
		BROKEN("the lease of hold %d of %s had ended, and it is %s", i, lt_keys[k].name,
			   lt_state_names[lt_holds[i].state]);
	leases[i].over = deadline_of(i) <= sim_now();
	leases[i].state = lt_holds[i].state;
}

/*
 * Somebody elsewhere has most of the masters: nobody here has.
 *
 * What was deleted, or set by a clock, nobody could know of.
 */
static void
check_elsewhere(LrIndex k, LrIndex i)
{
	int64		until;
	const char *other = redlock_holder(lt_keys[k].name, &until);
	char		owner[LR_OWNER_MAX];

	if (other == NULL || lt_holds[i].state == HOLD_RELEASING || !is_live(i) ||
		lr_kind(lt_holds[i].kind)->ownerless)
		return;
	lr_owner_text(lt_holds[i].claim.owner, owner);
	if (!redis_clocks_are_good() || redis_was_robbed_by_hand(owner) ||
		redis_was_robbed_by_hand(other))
		return;
	sim_fail("two holders", "%s: session %d (%s, %.3f ms) and %s (%.3f ms)", lt_keys[k].name,
			 lt_holds[i].session, lt_state_names[lt_holds[i].state],
			 (deadline_of(i) - sim_now()) / 1000.0, other, (until - sim_now()) / 1000.0);
}

/*
 * In Redis or in the table; not what was taken away, which no server can know of, nor what is not
 * renewed at a node that had the name before: nobody asks about it.
 */
static void
note_rival(LrIndex k, LrIndex i)
{
	const LrHold *h = &lt_holds[i];
	char		owner[LR_OWNER_MAX];

	if ((h->state != HOLD_HELD && h->state != HOLD_HANDED) || !is_live(i) ||
		lr_kind(h->kind)->ownerless || lr_kind(h->kind)->passing ||
		(elsewhere_moved() && lt_renew_lease_ms(h) == 0))
		return;
	lr_owner_text(h->claim.owner, owner);
	if (!redis_was_robbed(owner) && !redis_was_denied(lt_keys[k].name))
		rivals_note(lt_keys[k].name, h->kind, lr_kind(h->kind)->excludes, deadline_of(i));
}

static void
check_key(LrIndex k)
{
	const LrKey *key = &lt_keys[k];

	must_be_good(lt_check_key(k));
	if (sim_config.counts)
		check_permits(k);
	for (LrIndex i = key->first_hold; i != LR_NONE; i = lt_holds[i].next)
	{
		check_store(k, i);
		check_asked(k, i);
		check_end(k, i);
		if (sim_config.nservers > 1 && lr_has_fallback())
			note_rival(k, i);
		if (sim_config.masters > 0)
			check_elsewhere(k, i);
		for (LrIndex live = key->first_hold; live != i; live = lt_holds[live].next)
		{
			if (!is_live(i) || !is_live(live) ||
				!lr_kinds_conflict(lt_holds[i].kind, lt_holds[live].kind) ||
				is_own_other(&lt_holds[i], &lt_holds[live]) ||
				is_next_already(&lt_holds[i], &lt_holds[live]))
				continue;
			sim_fail("two holders", "%s: session %d (%s, %.3f ms) and session %d (%s, %.3f ms)",
					 key->name, lt_holds[live].session, lt_state_names[lt_holds[live].state],
					 (deadline_of(live) - sim_now()) / 1000.0, lt_holds[i].session,
					 lt_state_names[lt_holds[i].state], (deadline_of(i) - sim_now()) / 1000.0);
		}
	}
	if (pause_until(key->queue.list.head) - server_clock() > PAUSE_MAX)
		sim_fail("long pause", "the head of the queue of %s holds back for %.3f s", key->name,
				 (pause_until(key->queue.list.head) - server_clock()) / (double) SIM_S);
}

static void
check_keys(void)
{
	rivals_begin(current_store() == STORE_REDIS);
	for (int b = 0; b < lt_table->nbuckets; b++)
	{
		if (lt_buckets[b] == LR_NONE || is_locked(b))
			continue;
		for (LrIndex k = lt_buckets[b]; k != LR_NONE; k = lt_keys[k].next)
			check_key(k);
	}
}

/* What sessions wait with, and how much they have lost. */
static void
check_sessions(void)
{
	for (int s = 0; s < lt_table->nsessions; s++)
	{
		uint32		n = lt_sessions[s].nlost.value;

		if (n > (uint32) lt_table->max_locks)
			BROKEN("session %d has lost %d locks", s, (int) n);
		if (lt_sessions[s].wait.state != WAIT_NONE && !is_locked(lt_keys[lt_sessions[s].wait.key].hash))
		{
			must_be_good(lt_check_wait(s));
			note_turn(s);
		}
	}
}

/* ----------
 * The watchdog
 * ----------
 */

/* Nothing has failed for so long: it is connected to the master. */
#define CONFIRMED_WITHIN	(5 * SIM_S)

static int64 unconfirmed_since;

/* The map is that of the cluster, as far as there are keys. */
static bool
knows_slots(void)
{
	for (int i = 0; i < sim_config.nkeys; i++)
	{
		char		name[16];

		snprintf(name, sizeof(name), "k%d", i);
		if (!shards_is_known(name))
			return false;
	}
	return true;
}

static void
check_map(void)
{
	if (lr_mode != MODE_REDIS || !lr_watchdog_running() ||
		!net_is_well() || knows_slots())
		unconfirmed_since = 0;
	else if (unconfirmed_since == 0)
		unconfirmed_since = sim_now();
	else if (sim_now() - Max(unconfirmed_since, sim_quiet_since()) > CONFIRMED_WITHIN)
		sim_fail("not confirmed", "the map is not that of the cluster for %.3f s",
				 (sim_now() - unconfirmed_since) / (double) SIM_S);
}

/*
 * check_masters --- is there a connection to each of them?
 *
 * Not if its clock hides since when it runs, or if a name leads where another one is known
 * to lead: names.c ends all connections when the faults end.
 */
static void
check_masters(void)
{
	int			i = 0;

	while (i < sim_config.masters &&
		   (masters_are_there(node_get_place(), 1U << i) || redis_clock_went_back(names_place(i))))
		i++;
	if (i == sim_config.masters || lr_mode != MODE_REDIS || !lr_watchdog_running() ||
		!net_is_well() || (sim_config.names != NAMES_STAY && !sim_config.calm))
		unconfirmed_since = 0;
	else if (unconfirmed_since == 0)
		unconfirmed_since = sim_now();
	else if (sim_now() - Max(unconfirmed_since, sim_quiet_since()) > CONFIRMED_WITHIN)
		sim_fail("not confirmed", "master %d is not used for %.3f s", i,
				 (sim_now() - unconfirmed_since) / (double) SIM_S);
}

static void
check_confirmed(void)
{
	if (sim_config.cluster)
	{
		check_map();
		return;
	}
	if (sim_config.masters > 0)
	{
		check_masters();
		return;
	}
	if (!sim_config.sentinels || lr_mode != MODE_REDIS || !lr_watchdog_running() ||
		!net_is_well() || topology_is_confirmed())
		unconfirmed_since = 0;
	else if (unconfirmed_since == 0)
		unconfirmed_since = sim_now();
	else if (sim_now() - Max(unconfirmed_since, sim_quiet_since()) > CONFIRMED_WITHIN)
		sim_fail("not confirmed", "nobody has been able to connect for %.3f s",
				 (sim_now() - unconfirmed_since) / (double) SIM_S);
}

/* It sleeps: is it to be woken in time? */
static void
check_watchdog(void)
{
	if (!lr_watchdog_running())
		return;
	must_be_good(lt_check_due_times());
	if (shared_root->proc_global.allProcs[server_watchdog()].procLatch.is_set)
		return;
	for (int s = 0; s < STORE_COUNT; s++)
		if (lr_has_store(s) && server_time(lt_next_due(s)) < time_of(&lt_table->sleeps_until[s]))
			BROKEN("something is due at %.3f s, and the watchdog sleeps until %.3f s",
				   server_time(lt_next_due(s)) / (double) SIM_S,
				   time_of(&lt_table->sleeps_until[s]) / (double) SIM_S);
}

/* ----------
 * What is in a store and in nobody's mind
 * ----------
 */

/* It has asked, and not yet noted what came of it. */
static bool
is_asking(const LrName *name)
{
	for (int s = 0; s < lt_table->nsessions; s++)
	{
		const LrWait *w = &lt_sessions[s].wait;

		if (history_is_asking_together(s, lt_sessions[s].pid))
			return true;
		if (w->state != WAIT_NONE && w->asked.trying && lt_keys[w->key].name_len == name->len &&
			memcmp(lt_keys[w->key].name, name->data, name->len) == 0)
			return true;
	}
	return false;
}

static void
name_of(const char *key, LrName *name)
{
	memset(name, 0, sizeof(LrName));
	strlcpy(name->data, key, sizeof(name->data));
	name->len = strlen(key);
}

static bool
is_known_permit(const char *key, const char *id)
{
	LrName		name;

	for (LrIndex i = 0; i < lt_table->max_locks; i++)
		if (lt_holds[i].state != HOLD_FREE && lt_holds[i].claim.owner != 0 &&
			strcmp(permit_id_of(i), id) == 0)
			return true;
	name_of(key, &name);
	return is_asking(&name);
}

/* Nobody has anything any more. */
static bool
is_of_nobody(const char *key, const char *id)
{
	return false;
}

static bool
is_known(const char *key, const char *owner)
{
	LrName		name;

	for (LrIndex i = 0; i < lt_table->max_locks; i++)
	{
		char		text[LR_OWNER_MAX];

		if (lt_holds[i].state == HOLD_FREE || lt_holds[i].claim.owner == 0)
			continue;
		lr_owner_text(lt_holds[i].claim.owner, text);
		if (strcmp(text, owner) == 0)
			return true;
	}
	name_of(key, &name);
	return is_asking(&name);
}

/* Whatever there is in our name is held, or somebody is to give it back. */
static void
check_unknown(void)
{
	const char *key = sim_config.sentinels || sim_config.masters > 0 ? NULL :
		redis_find_unknown(lr_instance_uuid(), is_known);

	if (key == NULL && sim_config.counts)
		key = redis_find_permit(is_known_permit);
	if (key != NULL)
		sim_fail("left behind", "Redis has %s of this server, and nobody knows", key);
	key = lr_has_store(STORE_TABLE) ? rows_find_unknown(is_known) : NULL;
	if (key != NULL)
		sim_fail("left behind", "the table has %s of this server, and nobody knows", key);
}

/* ----------
 * Who waits for himself?
 * ----------
 */

/* Longer than the search takes, whoever is stopped meanwhile. */
#define CYCLE_MAX		(SIM_S + 2 * sim_config.deadlock_timeout_ms * SIM_MS)

/* A session that was ended may wait again at once, and close another one. */
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
	if (!lt_is_waiting(w) || sim_now() - wait_since[session] < WAIT_MIN)
		return;
	for (LrIndex i = lt_keys[w->key].first_hold; i != LR_NONE; i = lt_holds[i].next)
		if (is_live(i) && lt_holds[i].session != session &&
			lr_kinds_conflict(kind, lt_holds[i].kind))
			note_reached(lt_holds[i].session, reached);
	for (LrIndex s = w->prev; w->state == WAIT_QUEUED && !w->in_front && s != LR_NONE; s = lt_sessions[s].wait.prev)
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
	/* No lock is given then. */
	if (clusters_are_unclear())
		sim_disturbed(sim_now());
	check_keys();
	check_sessions();
	check_due_stays(is_locked);
	note_state(is_locked);
	if (!sim_all_parked())
		return;
	must_be_good(lt_check_counts());
	check_confirmed();
	check_watchdog();
	check_unknown();
	check_rows();
	check_sleepers();
	if (sim_config.conditions)
		check_conditions();
	check_cycles();
}

bool
sim_is_empty(void)
{
	return lt_table->nrows.value == 0;
}

/* What is in Redis in the name of this server. */
static const char *
find_left(void)
{
	const char *key = redis_find_owner(lr_instance_uuid());

	return key != NULL ? key : redis_find_waiter(lr_instance_uuid());
}

/*
 * sim_check_shutdown --- the server has ended in order
 *
 * The watchdog ends when nothing is left to be given back, or its time is over.
 */
void
sim_check_shutdown(void)
{
	const char *key = sim_config.masters > 0 ? NULL : find_left();

	/* Where a name has moved, the watchdog may ask the one node, and sessions the other one. */
	if (sim_is_empty() && key != NULL && !elsewhere_moved())
		sim_fail("left behind", "Redis has %s of the server that was shut down", key);
	transam_flush();
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
						 lt_keys[lt_holds[i].key].name, lt_state_names[lt_holds[i].state]);
		BROKEN("%d rows and no holds", (int) lt_table->nrows.value);
	}
	if ((key = rows_find_unknown(is_of_nobody)) != NULL)
		sim_fail("left behind", "the table has %s of this server", key);
	check_history();
	redis_check_counts();
	key = find_left();
	if (key == NULL)
		key = redis_find_permit(is_of_nobody);
	if (key != NULL)
		sim_fail("left behind", "Redis has %s of this server", key);
}
