/*-------------------------------------------------------------------------
 *
 * health.c
 *	  Is a store up?  Judged by its replies to the watchdog.  And the losses of locks in
 *	  the server log.
 *
 * A store is up when it has answered everything and done what was requested, otherwise
 * down.  Each change is logged once, and so is each further reason.  The state is
 * shown in redis_lock_status and reported to fallback.c.  If the store refuses a
 * single lock, it is not down (see locktable/answers.c).  An idle store is probed
 * now and then, and one that is down repeatedly.
 *
 * A store of several masters is up as long as most of them are, so that says nothing about
 * a single one.  Therefore each is probed, too, for its row in redis_lock_status, and to find
 * out when a silent one answers again; the log has one line for all of them.  Whether a master
 * has a vote is not decided here (nodes.c): sessions ask it whether it is up or not.
 *
 * A process that finds a loss may not be able to log it (see sessions.c).  A session that
 * is signaled (lockredis.on_lost) only logs "canceling statement due to user request".
 * So only the watchdog, which is woken for it, logs losses: one line each, in one place
 * where the number of lines can be limited.  When a store loses all of its data, thousands
 * of locks are lost at once: then the limit of lines for an interval is reached, and a line
 * has the number of the others.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/watchdog/health.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "common/hashfn.h"
#include "utils/memutils.h"

#include "names.h"
#include "report.h"
#include "settings.h"
#include "store/nodes.h"
#include "store/stores.h"
#include "watchdog/watchdog.h"

/* Most locks of a batch that takes hardly longer than a round trip. */
#define SMALL_BATCH			100

/* How often an idle store is probed. */
#define PROBE_INTERVAL		(5 * LR_US_PER_S)

/* How often a store is asked for its facts, such as its role and settings. */
#define FACTS_INTERVAL		(5 * LR_US_PER_S)

/* Shortest interval between two log lines about several masters. */
#define MASTERS_INTERVAL	LR_US_PER_S

static bool masters_changed = false;	/* since the last of these lines */

/*
 * health_start --- nothing is known of this store yet
 */
void
health_start(StoreHealth *h, StoreId id, NodeId node)
{
	memset(h, 0, sizeof(StoreHealth));
	h->id = id;
	h->node = node;
	h->state = NODE_CONNECTING;
	h->retry_delay = HEALTH_RETRY_MIN;
	node_set_state(h->node, NODE_CONNECTING);
}

void
health_forget(StoreHealth *h)
{
	h->state = NODE_CONNECTING;
	h->retry_delay = HEALTH_RETRY_MIN;
	h->next_try = 0;
	node_forget(h->node);
}

/* ----------
 * Facts that the store reports
 * ----------
 */

/*
 * warn_of_role --- warn of a store that takes no locks
 */
static void
warn_of_role(StoreHealth *h, const NodeStatus *status)
{
	if ((status->facts.role == ROLE_REPLICA) == h->warned_replica)
		return;
	h->warned_replica = status->facts.role == ROLE_REPLICA;
	if (h->warned_replica)
		ereport(WARNING,
				(errcode(ERRCODE_WARNING),
				 errmsg("the lock store at %s is a replica", status->address),
				 errdetail("It takes no locks."),
				 errhint("Let \"%s\" name the master.", "lockredis.url")));
}

/*
 * doubt_replicas --- the state of the replicas is unknown, if this node reports it
 *
 * The replicas of a cluster are reported by all its nodes together.
 */
static void
doubt_replicas(const StoreHealth *h)
{
	if (h->node == lr_store(h->id)->node)
		node_doubt_replicas();
}

/*
 * judge_facts --- evaluate the facts of the store, if there are new ones
 *
 * A store reports them when a connection is made, and when asked.  If we may not ask,
 * we do not ask again over this connection.
 */
static void
judge_facts(StoreHealth *h, const DueBatch *b, bool new_connection)
{
	const StoreOp *last = &b->ops[b->nops - 1];
	NodeStatus	status;

	if (!lr_store_can(h->id, STORE_HAS_FACTS))
		return;
	if (new_connection || (last->kind == STORE_FACTS && last->outcome == STORE_OK))
	{
		h->next_facts = lr_now() + FACTS_INTERVAL;
		(void) node_get_status(h->node, &status);
		node_warn_of_eviction(&status, h->warned_policy, sizeof(h->warned_policy));
		warn_of_role(h, &status);
	}
	else if (last->kind == STORE_FACTS)
	{
		h->next_facts = LR_NEVER;
		doubt_replicas(h);
	}
}

/*
 * health_doubt_facts --- the store's last facts are from before it failed
 */
static void
health_doubt_facts(StoreHealth *h)
{
	if (!lr_store_can(h->id, STORE_HAS_REPLICAS))
		return;
	doubt_replicas(h);
	if (h->next_facts != LR_NEVER)
		h->next_facts = 0;
}

/* ----------
 * Up or down
 * ----------
 */

static int64
probe_interval(const StoreHealth *h)
{
	return Min(PROBE_INTERVAL, fallback_probe_interval(h->id));
}

/* Is it one of several masters? */
static bool
is_one_of_masters(const StoreHealth *h)
{
	return lr_nmasters > 0 && h->node != lr_store(h->id)->node;
}

static void
set_state(StoreHealth *h, NodeState state)
{
	h->state = state;
	node_set_state(h->node, state);
	masters_changed = masters_changed || is_one_of_masters(h);
}

/*
 * store_is_up --- the store has answered everything, and done it
 */
static void
store_is_up(StoreHealth *h)
{
	NodeStatus	status;

	h->retry_delay = HEALTH_RETRY_MIN;
	h->next_try = 0;
	h->up_at = lr_now();
	h->next_probe = h->up_at + probe_interval(h);
	node_set_silent(h->node, false);
	fallback_answered(h->id, lr_now());
	if (h->state == NODE_UP)
		return;

	set_state(h, NODE_UP);
	if (is_one_of_masters(h))
		return;
	(void) node_get_status(h->node, &status);
	ereport(LOG,
			(status.address[0] != '\0' ?
			 errmsg("lockredis: the lock store at %s is up", status.address) :
			 errmsg("lockredis: the lock store is up")));
}

/*
 * is_new_reason --- was this reason not logged yet, since the store went down?
 *
 * Each reason is logged once, so that two that alternate do not fill the log.  Nor is
 * more logged than there is room for: a reason may contain a number that changes.
 */
static bool
is_new_reason(StoreHealth *h, const char *detail)
{
	uint32		digest = hash_bytes((const unsigned char *) detail, strlen(detail));

	for (int i = 0; i < h->nreasons; i++)
		if (h->reasons[i] == digest)
			return false;
	if (h->nreasons == HEALTH_REASONS)
		return false;
	h->reasons[h->nreasons++] = digest;
	return true;
}

/*
 * log_down --- log the reason, with the address
 */
static void
log_down(const StoreHealth *h, const StoreError *error, bool still)
{
	if (is_one_of_masters(h))
		return;
	ereport(LOG,
			(still ? errmsg("lockredis: the lock store is still down") :
			 errmsg("lockredis: the lock store is down"),
			 errdetail_internal("%s%s%s", error->address,
								error->address[0] ? ": " : "", error->detail)));
}

/*
 * store_is_down --- the store has not answered everything, or not done it
 */
static void
store_is_down(StoreHealth *h, const StoreError *error)
{
	h->next_try = lr_now() + Min(h->retry_delay, probe_interval(h));
	h->retry_delay = Min(h->retry_delay * 2, HEALTH_RETRY_MAX);
	fallback_failed(h->id);
	health_doubt_facts(h);
	node_set_error(h->node, error->address, error->detail);
	if (h->state == NODE_DOWN)
	{
		if (is_new_reason(h, error->detail))
			log_down(h, error, true);
		return;
	}

	set_state(h, NODE_DOWN);
	h->nreasons = 0;
	(void) is_new_reason(h, error->detail);
	log_down(h, error, false);
}

/* Has the node replied, even if with a refusal? */
static bool
was_answered(StoreOutcome outcome)
{
	return outcome != STORE_PENDING && outcome != STORE_DOWN &&
		outcome != STORE_UNKNOWN;
}

/*
 * is_usable --- is the store still usable for locks, judging by this reply?
 *
 * A store that is loading answers TIME and refuses the rest: it is down.  If it denies
 * us the access to one key, that says nothing about others.
 */
static bool
is_usable(const StoreOp *op)
{
	if (due_op_adds(op) || op->kind == STORE_FACTS || op->answer.own_fault)
		return true;
	return op->outcome != STORE_REFUSED && op->outcome != STORE_DENIED;
}

/*
 * is_of_node --- does the result of this operation concern this node?
 *
 * A node that redirects a request is not to blame for the answer of the other node.
 */
static bool
is_of_node(const StoreHealth *h, const StoreOp *op)
{
	return h->node == lr_store(h->id)->node || lr_nmasters > 0 ||
		op->sent.part == h->node - NODE_MASTER;
}

/*
 * health_judge --- see watchdog.h
 */
void
health_judge(StoreHealth *h, const DueBatch *b)
{
	const StoreOp *ops = b->ops;
	bool		was_up = h->state == NODE_UP;
	bool		answered = true;
	bool		usable = ops[0].outcome == STORE_OK;
	uint32		epoch;

	for (int i = 0; i < b->nops; i++)
	{
		if (!is_of_node(h, &ops[i]))
			continue;
		answered = answered && was_answered(ops[i].outcome);
		usable = usable && is_usable(&ops[i]) &&
			(i >= b->nheaders || ops[i].outcome == STORE_OK);
	}
	if (answered)
		node_set_silent(h->node, false);
	if (b->nitems <= SMALL_BATCH && ops[0].outcome == STORE_OK)
		node_set_round_trip(h->node, lr_now() - ops[0].sent.at);
	if (!answered || !usable)
	{
		store_is_down(h, b->store->error(b->handle));
		return;
	}
	store_is_up(h);

	/* At a new connection the node may be another one, or have lost our data. */
	epoch = b->store->connections(b->handle);
	if (!was_up || epoch != h->connection_epoch)
	{
		if (h->node == lr_store(h->id)->node)
			lt_renew_now(h->id, RENEW_ALL);
		else if (lr_nmasters > 0)
			lt_renew_now(h->id, RENEW_LACKING);
		else
			lt_renew_now(h->id, h->node - NODE_MASTER);
	}
	judge_facts(h, b, epoch != h->connection_epoch);
	h->connection_epoch = epoch;
}

/* ----------
 * When to ask
 * ----------
 */

/*
 * health_retry_at --- see watchdog.h
 *
 * Not later than the next attempt, even if it took long to log that the store is down:
 * otherwise that would be a probe alone, and a store that refuses all writes would seem to
 * be up.
 */
int64
health_retry_at(const StoreHealth *h)
{
	return h->next_try != 0 ? h->next_try : lr_now() + HEALTH_RETRY_MIN;
}

bool
health_wants_probe(const StoreHealth *h, int64 now)
{
	return h->state != NODE_UP || node_is_silent(h->node) || now >= h->next_probe;
}

int64
health_next(const StoreHealth *h)
{
	bool		steady = h->state == NODE_UP && !node_is_silent(h->node);

	return steady ? h->next_probe : h->next_try;
}

bool
health_wants_proof(const StoreHealth *h, const DueBatch *b)
{
	return h->state != NODE_UP || !b->store->connected(b->handle) || is_one_of_masters(h);
}

bool
health_wants_facts(const StoreHealth *h, const DueBatch *b)
{
	return lr_store_can(h->id, STORE_HAS_FACTS) && h->state == NODE_UP &&
		b->store->connected(b->handle) && lr_now() >= h->next_facts;
}

/* ----------
 * Several masters
 * ----------
 */

/*
 * health_tell_masters --- log changes in one line, once all masters have been tried
 */
void
health_tell_masters(void)
{
	static int64 told_at = 0;
	int			up = 0;
	StringInfoData reasons;

	if (!masters_changed || lr_nmasters == 0 || lr_now() - told_at < MASTERS_INTERVAL)
		return;
	initStringInfo(&reasons);
	for (int i = 0; i < lr_nmasters; i++)
	{
		NodeStatus	status;

		(void) node_get_status(NODE_MASTER + i, &status);
		if (status.state == NODE_CONNECTING)
		{
			pfree(reasons.data);
			return;
		}
		up += status.state == NODE_UP;
		if (status.state == NODE_DOWN)
			appendStringInfo(&reasons, "%s%s: %s", reasons.len > 0 ? "\n" : "", status.address,
							 status.last_error);
	}
	ereport(LOG,
			(errmsg("lockredis: %d of %d masters are up (%d needed)",
					up, lr_nmasters, masters_quorum(lr_nmasters)),
			 reasons.len > 0 ? errdetail_internal("%s", reasons.data) : 0));
	pfree(reasons.data);
	masters_changed = false;
	told_at = lr_now();
}

/* ----------
 * Losses
 * ----------
 */

/* The most lines */
#define LINES_MAX			50
/* within this interval */
#define LINES_INTERVAL		(10 * LR_US_PER_S)

static int64 interval_ends = 0;
static int	lines = 0;
static uint64 left_out = 0;		/* of those beyond the most lines */
static MemoryContext line_context = NULL;

static const char *
level_of(const LossRecord *r)
{
	if (!r->in_scope[SCOPE_XACT])
		return "session-level";
	return r->in_scope[SCOPE_SESSION] ? "session-level and transaction-level" :
		"transaction-level";
}

static void
write_record(const LossRecord *r)
{
	ereport(LOG,
			(errmsg("lockredis: process %d lost the %s lock \"%s\": %s",
					r->pid, level_of(r), lr_name_to_show(r->name, r->name_len),
					lost_reason_text(&r->lost)),
			 r->on_lost == ON_LOST_MARK ? 0 :
			 errdetail("It was taken with \"%s\" set to \"%s\".", "lockredis.on_lost",
					   r->on_lost == ON_LOST_CANCEL ? "cancel" : "terminate")));
}

static void
write_left_out(void)
{
	uint64		n = left_out + losses_take_left_out();

	left_out = 0;
	if (n > 0)
		ereport(LOG,
				(errmsg("lockredis: %llu more losses of locks were not logged",
						(unsigned long long) n)));
}

/*
 * loss_log_write --- log the new losses, within the limit
 */
void
loss_log_write(void)
{
	LossRecord	r;
	MemoryContext before;
	bool		empty = !losses_any();

	if ((lines > 0 || empty) && lr_now() >= interval_ends)
	{
		write_left_out();
		lines = 0;
	}
	if (empty)
		return;

	if (line_context == NULL)
		line_context = AllocSetContextCreate(TopMemoryContext, "lockredis losses",
											 ALLOCSET_SMALL_SIZES);
	before = MemoryContextSwitchTo(line_context);
	while (losses_take(&r))
	{
		if (lines == 0)
			interval_ends = lr_now() + LINES_INTERVAL;
		if (lines++ < LINES_MAX)
			write_record(&r);
		else
			left_out++;
		MemoryContextReset(line_context);
	}
	MemoryContextSwitchTo(before);
}

/*
 * loss_log_next --- when to write a line even if no other lock is lost
 */
int64
loss_log_next(void)
{
	return left_out > 0 ? interval_ends : LR_NEVER;
}

void
loss_log_finish(void)
{
	loss_log_write();
	write_left_out();
}
