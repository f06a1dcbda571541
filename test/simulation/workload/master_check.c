/*-------------------------------------------------------------------------
 *
 * master_check.c
 *	  What is believed of the master, and which locks must not be granted: those of a former
 *	  one, and those that somebody else is known to hold.
 *
 * Called in place of the functions of the product (--wrap), in the process that
 * calls them.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/workload/master_check.c
 *
 *-------------------------------------------------------------------------
 */
#include "workload.h"

#include "../../../src/locktable/locktable_int.h"
#include "../../../src/settings.h"
#include "../../../src/store/nodes.h"
#include "../../../src/store/redis/cluster_map.h"
#include "../../../src/store/redis/quorum.h"

#include "../kernel/clusters.h"
#include "../kernel/names.h"
#include "../kernel/redis_nodes.h"
#include "../kernel/sentinels.h"
#include "../kernel/server.h"
#include "../kernel/shards.h"
#include "row_check.h"

extern uint32 __real_topology_change(const RedisHost *at, int64 config_epoch);
extern uint32 __wrap_topology_change(const RedisHost *at, int64 config_epoch);

/* Before: whoever sees the epoch finds which node it is. */
uint32
__wrap_topology_change(const RedisHost *at, int64 config_epoch)
{
	TopologyMaster before;

	topology_get_master(lr_place, &before);
	if (before.at.host[0] != '\0')
		sentinels_check_back(at->port, config_epoch);
	sentinels_note_epoch(topology_epoch() + 1, at->port, config_epoch);
	return __real_topology_change(at, config_epoch);
}

extern void __real_node_start(uint32 place, bool follows, bool is_cluster, int nmasters);
extern void __wrap_node_start(uint32 place, bool follows, bool is_cluster, int nmasters);

void
__wrap_node_start(uint32 place, bool follows, bool is_cluster, int nmasters)
{
	sentinels_note_start(server_clock());
	__real_node_start(place, follows, is_cluster, nmasters);
}

extern void __real_topology_named(uint32 epoch, int64 at);
extern void __wrap_topology_named(uint32 epoch, int64 at);

void
__wrap_topology_named(uint32 epoch, int64 at)
{
	__real_topology_named(epoch, at);
	sentinels_note_named(epoch, at);
}

extern void __real_topology_doubt(uint32 epoch);
extern void __wrap_topology_doubt(uint32 epoch);

void
__wrap_topology_doubt(uint32 epoch)
{
	sentinels_note_doubt(epoch, server_clock());
	__real_topology_doubt(epoch);
}

extern void __real_topology_lost(uint32 epoch);
extern void __wrap_topology_lost(uint32 epoch);

void
__wrap_topology_lost(uint32 epoch)
{
	sentinels_note_doubt(epoch, server_clock());
	__real_topology_lost(epoch);
}

extern bool __real_masters_note(int row, uint32 place, const char *run_id, int64 booted_by,
								uint32 *life, int64 *since);
extern bool __wrap_masters_note(int row, uint32 place, const char *run_id, int64 booted_by,
								uint32 *life, int64 *since);

bool
__wrap_masters_note(int row, uint32 place, const char *run_id, int64 booted_by, uint32 *life,
					int64 *since)
{
	bool		good;

	names_looks();
	good = __real_masters_note(row, place, run_id, booted_by, life, since);
	names_found(*life != 0 ? row : -1, run_id, good);
	return good;
}

extern int	__real_cluster_put_node(const char *id, const RedisHost *at, const char *name,
									bool has_slots);
extern int	__wrap_cluster_put_node(const char *id, const RedisHost *at, const char *name,
									bool has_slots);

int
__wrap_cluster_put_node(const char *id, const RedisHost *at, const char *name, bool has_slots)
{
	int			row = __real_cluster_put_node(id, at, name, has_slots);

	if (row >= 0)
		shards_note_row(row, at->port);
	return row;
}

/* The row of a node in the map. */
static int
row_of(const char *id)
{
	ClusterNode node;

	for (int i = 0; i < NODE_MASTERS; i++)
		if (cluster_get_node(lr_place, i, &node, NULL) && strcmp(node.id, id) == 0)
			return i;
	return CLUSTER_NO_NODE;
}

/*
 * What a node says of itself counts at once, if it was asked since it last got a slot: that it does
 * not have one, and its number.
 */
static void
check_says_itself(const ClusterClaims *a, const Claim *c)
{
	int			row = row_of(c->id);

	if (row == CLUSTER_NO_NODE || server_time(a->asked_at) <= shards_row_given_at(row))
		return;
	for (int slot = 0; slot < SHARD_SLOTS; slot++)
	{
		bool		has = a->claimed_by[slot] == c - a->claim;

		if (cluster_owner(slot, NULL) != row)
			continue;
		if (has && cluster_number(slot) > c->number)
			sim_fail("not confirmed", "a node says that its number is %lld, and slot %d is known by %lld",
					 (long long) c->number, slot, (long long) cluster_number(slot));
		if (!has && a->claimed_by[slot] != CLUSTER_NO_NODE)
			sim_fail("not confirmed", "a node says that it does not have slot %d, and is asked about it",
					 slot);
	}
}

/* Slots that were given have their epoch from the end of the change on. */
static void
check_change_has_ended(void)
{
	for (int slot = 0; slot < SHARD_SLOTS; slot++)
	{
		uint32		epoch;

		if (cluster_owner(slot, &epoch) != CLUSTER_NO_NODE && epoch > topology_epoch())
			sim_fail("former master", "slot %d was given, and its locks are not asked about", slot);
	}
}

extern void __real_cluster_map_apply(ClusterClaims *a);
extern void __wrap_cluster_map_apply(ClusterClaims *a);

void
__wrap_cluster_map_apply(ClusterClaims *a)
{
	__real_cluster_map_apply(a);
	check_change_has_ended();
	for (int i = 0; i < a->n; i++)
		if (a->claim[i].is_itself)
			check_says_itself(a, &a->claim[i]);
}

extern void __real_cluster_give_slot(int slot, int row, int64 number);
extern void __wrap_cluster_give_slot(int slot, int row, int64 number);

/*
 * A node that has a slot anew, perhaps after another one, is to be asked about its locks.  None
 * gets one back that the map has where it is.
 */
void
__wrap_cluster_give_slot(int slot, int row, int64 number)
{
	bool		other = number != cluster_number(slot);
	int			before = cluster_owner(slot, NULL);
	uint32		epoch;

	if (before != CLUSTER_NO_NODE && before != row && number < cluster_number(slot) &&
		shards_is_settled(slot))
		sim_fail("former master", "slot %d is given back, by the number %lld", slot,
				 (long long) number);
	__real_cluster_give_slot(slot, row, number);
	(void) cluster_owner(slot, &epoch);
	if (other && epoch <= topology_epoch())
		sim_fail("former master", "slot %d has another number, and its locks are not asked about",
				 slot);
	shards_note_slot(slot, row);
	shards_note_number(slot, number);
}

extern void __real_cluster_end_change(void);
extern void __wrap_cluster_end_change(void);

void
__wrap_cluster_end_change(void)
{
	__real_cluster_end_change();
	shards_note_all_given();
}

/* Of whom each hold was, and of which former master its last answer. */
static struct
{
	uint64		owner;
	uint32		epoch;			/* of its slot; 0: no answer of a former one */
	uint32		topology;
}			former[SIM_MAX_LOCKS];

extern void __real_lt_renew_now(StoreId store, int which);
extern void __wrap_lt_renew_now(StoreId store, int which);

/* What a former master has said, of whatever kind, is to be asked about in any case. */
void
__wrap_lt_renew_now(StoreId store, int which)
{
	for (LrIndex i = 0; i < lt_table->max_locks; i++)
	{
		const LrHold *h = &lt_holds[i];

		former[i].owner = lt_holds[i].claim.owner;
		former[i].topology = h->claim.topology;
		former[i].epoch = which == RENEW_MOVED && former[i].owner != 0 &&
			h->state == HOLD_HELD && lt_is_of_old_master(h, store) ? lt_epoch_of(h->key) : 0;
	}
	__real_lt_renew_now(store, which);
	for (LrIndex i = 0; i < lt_table->max_locks; i++)
	{
		const LrHold *h = &lt_holds[i];

		if (former[i].epoch != 0 && former[i].owner == lt_holds[i].claim.owner &&
			h->state == HOLD_HELD && h->claim.topology == former[i].topology &&
			(lt_due[store][i].value == 0 || (int64) lt_due[store][i].value > server_clock()) &&
			lt_epoch_of(h->key) == former[i].epoch)
			sim_fail("former master", "%s: the present one is not to be asked about what a former one has said",
					 lt_keys[h->key].name);
	}
}

extern bool __real_cluster_claims_read(ClusterClaims *a, const redisReply *v,
									   const RedisUrl *asked);
extern bool __wrap_cluster_claims_read(ClusterClaims *a, const redisReply *v,
									   const RedisUrl *asked);

bool
__wrap_cluster_claims_read(ClusterClaims *a, const redisReply *v, const RedisUrl *asked)
{
	bool		valid = __real_cluster_claims_read(a, v, asked);

	if (valid)
		clusters_note_reply(a->claim[0].id);
	return valid;
}

extern void __real_cluster_know(const ClusterIds *ids);
extern void __wrap_cluster_know(const ClusterIds *ids);

void
__wrap_cluster_know(const ClusterIds *ids)
{
	clusters_note_known(ids->id[0]);
	__real_cluster_know(ids);
}

extern void __real_cluster_note_asked(void);
extern void __wrap_cluster_note_asked(void);

void
__wrap_cluster_note_asked(void)
{
	clusters_note_asked();
	__real_cluster_note_asked();
}

static void
told(int elevel, int sqlstate, const char *message)
{
	if (elevel == WARNING && strstr(message, " belong") != NULL)
		clusters_note_warning();
}

extern void __real_redis_cluster_watch_start(void);
extern void __wrap_redis_cluster_watch_start(void);

/* A later watchdog keeps the cluster in use. */
void
__wrap_redis_cluster_watch_start(void)
{
	static bool began = false;

	backend_told = told;
	if (!began)
		clusters_note_begins();
	if (began || clusters_used() < 0)
		clusters_note_decides();
	began = true;
	__real_redis_cluster_watch_start();
}

extern void __real_redis_cluster_watch_reload(void);
extern void __wrap_redis_cluster_watch_reload(void);

void
__wrap_redis_cluster_watch_reload(void)
{
	clusters_note_decides();
	__real_redis_cluster_watch_reload();
}

extern void __real_confirm_want(NodeBatch *b, const StoreOp *op);
extern void __wrap_confirm_want(NodeBatch *b, const StoreOp *op);

/* A command has been put into the buffer of a connection. */
void
__wrap_confirm_want(NodeBatch *b, const StoreOp *op)
{
	if (op->sent.asking && store_runs_once(op->kind) && op->sent.not_after != NOT_AFTER_UNKNOWN)
		sim_fail("clock guard", "a create of %s is sent on by ASK, and the clock of another node tells until when it can run",
				 op->name);
	__real_confirm_want(b, op);
}

/* ----------
 * Votes of several masters
 * ----------
 */

/* Which server each row had when this process began to look at what it had heard. */
static uint32 lives[LR_MAX_MASTERS];

/* What it looks at; NULL: nothing. */
static const QuorumBatch *looked_at;

/* There was no memory for a release. */
static bool is_short_of_memory;

extern void __real_quorum_look(QuorumBatch *b);
extern void __wrap_quorum_look(QuorumBatch *b);

void
__wrap_quorum_look(QuorumBatch *b)
{
	for (int i = 0; i < b->set.n; i++)
		lives[i] = node_generation(NODE_MASTER + i);
	looked_at = b;
	__real_quorum_look(b);
	looked_at = NULL;
}

extern StoreOutcome __real_quorum_decide(StoreOp *op, const QuorumVote *votes, int n);
extern StoreOutcome __wrap_quorum_decide(StoreOp *op, const QuorumVote *votes, int n);

StoreOutcome
__wrap_quorum_decide(StoreOp *op, const QuorumVote *votes, int n)
{
	for (int i = 0; i < n; i++)
	{
		const StoreOp *copy = votes[i].copy;

		if (copy != NULL && op->name != NULL && copy->outcome == STORE_OK && copy->sent.topology != 0 &&
			copy->sent.topology < lives[i])
			sim_fail("two holders", "what a former server of row %d has said of %s is a vote",
					 i, op->name);
	}
	return __real_quorum_decide(op, votes, n);
}

/*
 * has_had --- has that master the lock, or had it until somebody took it away, or its
 * lease may be over?
 */
static bool
has_had(int row, const StoreOp *op)
{
	char		owner[LR_OWNER_MAX];

	lr_owner_text(op->owner, owner);
	return redis_owned_there_until(row, op->name, owner) > 0 || redis_was_robbed_at(row, owner) ||
		redis_clock_was_set(row) || server_clock() >= op->sent.at + op->lease_ms * SIM_MS;
}

/* A master that is not asked again has the lock. */
static void
check_all_have(const StoreOp *op)
{
	for (int i = 0; i < looked_at->set.n && sim_config.names == NAMES_STAY; i++)
		if ((op->sent.without & (1U << i)) == 0 && !has_had(i, op))
			sim_fail("not repaired", "%s is granted, redis %d does not have it, and is not asked again",
					 op->name, i);
}

/*
 * is_given_back --- is there a release behind each create that is under way to that master, or
 * may have run?
 *
 * Any answer of a former server of the row is void: it may have said that it has not run.
 */
static bool
is_given_back(const QuorumLink *l, uint32 life, uint64 owner)
{
	for (int i = l->used - 1; i >= 0; i--)
	{
		const StoreOp *copy = &l->copies[i];

		if (copy->owner != owner)
			continue;
		if (copy->kind == STORE_RELEASE)
			return true;
		if (copy->kind == STORE_CREATE &&
			(copy->outcome == STORE_OK || copy->outcome == STORE_PENDING ||
			 (copy->outcome == STORE_UNKNOWN && copy->sent.topology == life)))
			return false;
	}
	return true;
}

/* Nobody else knows of an attempt that has failed, unless its outcome is unknown. */
static void
check_given_back(const StoreOp *op)
{
	for (int i = 0; i < looked_at->set.n && !is_short_of_memory; i++)
		if (quorum_link(looked_at, i) != NULL &&
			!is_given_back(quorum_link(looked_at, i), looked_at->life[i], op->owner))
			sim_fail("left behind", "%s is not had, master %d may grant it, and is not told to release it",
					 op->name, i);
}

void
master_check_outcome(const StoreBatch *b, const StoreOp *op, StoreOutcome outcome)
{
	if (looked_at == NULL || b != &looked_at->set.batch || op->kind != STORE_CREATE ||
		op->text != NULL)
		return;
	if (outcome == STORE_OK)
		check_all_have(op);
	else if (outcome != STORE_UNKNOWN)
		check_given_back(op);
}

/* Does its session believe in it? */
static bool
is_believed(uint64 owner)
{
	for (LrIndex i = 0; i < lt_used_slots(); i++)
		if (lt_holds[i].state == HOLD_HELD && lt_holds[i].claim.owner == owner &&
			lt_deadline(i) > server_clock())
			return true;
	return false;
}

extern int	__real_link_put(QuorumLink *l, const StoreOp *op, StoreOpKind kind);
extern int	__wrap_link_put(QuorumLink *l, const StoreOp *op, StoreOpKind kind);

/*
 * What most masters have lost is released at the rest when its session can know that.
 */
int
__wrap_link_put(QuorumLink *l, const StoreOp *op, StoreOpKind kind)
{
	int			copy;

	if (kind == STORE_RELEASE && op->kind == STORE_RENEW && op->outcome == STORE_PENDING &&
		is_believed(op->owner))
		sim_fail("held without a lock", "%s is released before its session can know of the loss",
				 op->name);
	copy = __real_link_put(l, op, kind);
	is_short_of_memory |= copy < 0;
	return copy;
}

/* ----------
 * Grants
 * ----------
 */

/* From when on the lock counts that is about to be granted. */
static int64 asked_at = 0;

/*
 * has_few_votes --- has a majority of those that could know who else has the key not got
 * it?
 *
 * The first server of a row that is seen at all counts: that is its third generation, as the
 * settings have begun the second.
 */
static bool
has_few_votes(const char *key, uint64 owner)
{
	char		text[LR_OWNER_MAX];
	uint32		first = 0;

	if (sim_config.names != NAMES_CARELESS)
		return false;
	for (int row = 0; row < sim_config.masters; row++)
		if (node_generation(NODE_MASTER + row) <= 3)
			first |= 1U << row;
	lr_owner_text(owner, text);
	return names_count_voters(key, text, first) <= sim_config.masters / 2;
}

extern StoreOutcome __real_redis_take_op(StoreOp *op, const redisReply *v, bool repeated);
extern StoreOutcome __wrap_redis_take_op(StoreOp *op, const redisReply *v, bool repeated);

/* What the watchdog is answered counts when its whole batch has been done. */
StoreOutcome
__wrap_redis_take_op(StoreOp *op, const redisReply *v, bool repeated)
{
	StoreOutcome outcome = __real_redis_take_op(op, v, repeated);

	if (outcome != STORE_PENDING && !server_is_watchdog(sim_slot()))
		redis_note_heard();
	return outcome;
}

extern void __real_silence_asked(int64 now);
extern void __wrap_silence_asked(int64 now);

void
__wrap_silence_asked(int64 now)
{
	redis_note_asked(server_time(now));
	__real_silence_asked(now);
}

/*
 * silence_begins --- when the watchdog first asked in vain after the last answer of Redis
 *
 * Until then Redis may have served others.  Now, if it has not asked since a session was
 * answered.
 */
static int64
silence_begins(void)
{
	int64		answered_at = server_time(silence_last_answer());
	int64		heard_until = redis_heard_until();

	return Max(answered_at, heard_until);
}

/*
 * is_held_elsewhere --- can the table not give the key away, as a client elsewhere holds it?
 *
 * Redis may have answered since that client took it; or somebody here has seen for how long it
 * holds the key, if that is longer than a lease, and Redis has answered since.  A lock that was
 * held here after that was taken away by force, or lost with all data.
 */
static bool
is_held_elsewhere(const LrKey *key, StoreId store)
{
	return store == STORE_TABLE && lr_has_fallback() &&
		redis_is_held_elsewhere(key->name, silence_begins(), server_time(key->here_from));
}

/*
 * is_leased_to_others --- has another server the key in Redis, with a lease that this one has to
 * wait for?
 *
 * That is one that ends within a lease of when the silence begins: if Redis has really been away
 * since then, it has made none longer.  Not if the key is believed to have been held here at a
 * moment of that silence.
 */
static bool
is_leased_to_others(const LrKey *key, StoreId store)
{
	return store == STORE_TABLE && lr_has_fallback() && key->here_from == 0 &&
		redis_is_leased_to_others(key->name, lr_instance_uuid(), silence_begins() +
								  sim_config.least_lease_ms * SIM_MS);
}

extern void __real_lt_note_answer(LrHold *h, uint64 moves);
extern void __wrap_lt_note_answer(LrHold *h, uint64 moves);

/*
 * The epoch is read once: it may rise at any moment.  Then what is noted is of a former
 * master, which is as it should be.
 */
void
__wrap_lt_note_answer(LrHold *h, uint64 moves)
{
	uint32		epoch;

	__real_lt_note_answer(h, moves);
	epoch = lt_epoch_of(h->key);
	if (lr_store_can(h->claim.store, STORE_HAS_PLACE) && h->claim.topology == epoch &&
		(uint32) moves != epoch)
		sim_fail("former master", "what it has said of %s is noted as an answer of the present one",
				 lt_keys[h->key].name);
}

/* A lock that was taken away by force, or is lost, may still be at some of several masters. */
void
master_check_lost(LrIndex hold)
{
	const LrHold *h = &lt_holds[hold];
	const char *key = lt_keys[h->key].name;
	char		text[LR_OWNER_MAX];

	if ((h->traces & STORE_BIT(h->claim.store)) != 0)
		return;
	lr_owner_text(h->claim.owner, text);
	for (int i = 0; i < sim_config.masters; i++)
		if (redis_owned_there_until(i, key, text) > sim_now())
			sim_fail("left behind", "%s is lost, redis %d has it, and nobody knows", key, i);
}

extern void __real_lt_watch_from(LrHold *h, int64 now, int64 lease_ms);
extern void __wrap_lt_watch_from(LrHold *h, int64 now, int64 lease_ms);

/* The partition is locked, and the lock is held from now on. */
void
__wrap_lt_watch_from(LrHold *h, int64 now, int64 lease_ms)
{
	const LrKey *key = &lt_keys[h->key];
	const LrForced *forced = &lt_table->forced[lt_keys[h->key].hash % LT_FORCED];
	char		text[LR_OWNER_MAX];

	__real_lt_watch_from(h, now, lease_ms);
	if (asked_at == 0)
		return;
	lr_owner_text(h->claim.owner, text);
	if (!lr_kind(h->kind)->passing && redis_was_robbed_by_hand(text) &&
		(asked_at <= forced->all_until ||
		 (h->claim.owner == forced->owner && asked_at <= forced->until)))
		sim_fail("held without a lock", "%s is held, and was taken away before", key->name);
}

/*
 * A session that is granted a lock after it was taken away from somebody else keeps it, and its
 * turn.  Other reasons to refuse it are about another store, or a former master.
 */
static void
check_kept(const LrKey *key, const StoreOp *op)
{
	const LrForced *forced = &lt_table->forced[lr_name_hash(key->name, key->name_len) % LT_FORCED];

	if (op->sent.topology == 0 && !lr_has_fallback() && op->owner != forced->owner &&
		op->sent.at > forced->all_until)
		sim_fail("needless loss", "%s was granted, and is given back, as it was taken away from somebody else",
				 key->name);
}

extern GrantResult __real_lt_grant(LrIndex hold, const StoreOp *op, int64 judged_at,
								   const LockTerms *terms);
extern GrantResult __wrap_lt_grant(LrIndex hold, const StoreOp *op, int64 judged_at,
								   const LockTerms *terms);

GrantResult
__wrap_lt_grant(LrIndex hold, const StoreOp *op, int64 judged_at, const LockTerms *terms)
{
	const LrKey *key = lt_key_of(hold);
	uint32		before = lt_epoch_of(lt_holds[hold].key);
	bool		few_votes = has_few_votes(key->name, op->owner);
	bool		elsewhere = is_held_elsewhere(key, op->store);
	bool		leased = is_leased_to_others(key, op->store);
	bool		disowned = lt_wait_of(LrMyProcNumber)->asked.disowned == op->owner;
	GrantResult result;

	asked_at = op->sent.at;
	result = __real_lt_grant(hold, op, judged_at, terms);
	asked_at = 0;
	if (result == GRANTED && disowned)
		sim_fail("left behind", "%s is held by what the watchdog is about to give back", key->name);
	if (result == GRANTED && op->sent.topology != 0 && op->sent.topology != before)
		sim_fail("former master", "a lock is held that it has granted");
	if (result == GRANTED)
		check_issuer(hold, op);
	if (result == GRANT_STALE)
		check_kept(key, op);
	if (result == GRANTED && few_votes)
		sim_fail("two holders", "%s is held by votes of masters that do not know who else holds it",
				 key->name);
	if (result == GRANTED && leased)
		sim_fail("two holders", "%s is held in the table, and the lease of another server in Redis has not ended",
				 key->name);
	if (result == GRANTED && elsewhere && redis_is_held_elsewhere(key->name, sim_now(), 0))
		sim_fail("two holders", "%s is held in the table, and somebody elsewhere holds it in Redis",
				 key->name);
	return result;
}

extern uint64 __real_lt_ask_as(LrIndex hold, StoreId store, uint64 owner, int64 until, bool *anew,
							   uint64 *here);
extern uint64 __wrap_lt_ask_as(LrIndex hold, StoreId store, uint64 owner, int64 until, bool *anew,
							   uint64 *here);

/* What the watchdog gives back is nobody's any more. */
uint64
__wrap_lt_ask_as(LrIndex hold, StoreId store, uint64 owner, int64 until, bool *anew,
				 uint64 *here)
{
	uint64		disowned = lt_wait_of(LrMyProcNumber)->asked.disowned;
	uint64		as = __real_lt_ask_as(hold, store, owner, until, anew, here);

	if (disowned != 0 && as == disowned)
		sim_fail("left behind", "%s is asked for by what the watchdog is about to give back",
				 lt_key_of(hold)->name);
	return as;
}

extern GrantResult __real_lt_grant_unqueued(const LrName *name, const StoreOp *op,
											const LockTerms *terms, LrIndex *hold);
extern GrantResult __wrap_lt_grant_unqueued(const LrName *name, const StoreOp *op,
											const LockTerms *terms, LrIndex *hold);

GrantResult
__wrap_lt_grant_unqueued(const LrName *name, const StoreOp *op, const LockTerms *terms,
						 LrIndex *hold)
{
	uint32		before = cluster_epoch_of(name->data, name->len);
	GrantResult result;

	asked_at = op->sent.at;
	result = __real_lt_grant_unqueued(name, op, terms, hold);
	asked_at = 0;
	if (result == GRANTED && op->sent.topology != 0 && op->sent.topology != before)
		sim_fail("former master", "a lock is held that it has granted with others");
	return result;
}
