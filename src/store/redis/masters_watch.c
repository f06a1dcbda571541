/*-------------------------------------------------------------------------
 *
 * masters_watch.c
 *	  The watchdog asks each independent master whether it is up.
 *
 * The store is up as long as a majority is, so its health says nothing about a single
 * master.  Therefore each master has a batch of the watchdog's own that only serves to
 * fill its row in redis_lock_status, and to find out when a silent master answers again.
 * Whether a master has a vote is not decided here (nodes.c): sessions ask it whether
 * it is up or not.
 *
 * Nothing here waits, and it raises only when out of memory at the start.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/masters_watch.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "settings.h"
#include "store/nodes.h"
#include "store/redis/node_batch.h"
#include "store/redis/quorum.h"

/* How often a master that is up is asked. */
#define ASK_INTERVAL		(5 * LR_US_PER_S)

/* Shortest interval for one that may be down. */
#define ASK_MIN				(50 * LR_US_PER_MS)

/* A master that is down is tried again after 0.1 to 1 s. */
#define RETRY_MIN			(100 * LR_US_PER_MS)
#define RETRY_MAX			LR_US_PER_S

/* Shortest interval between two log lines about changes. */
#define LOG_INTERVAL		LR_US_PER_S

typedef struct Probe
{
	NodeBatch	node;
	StoreOp		ops[2];			/* the questions: does it run scripts, and what is it? */
	bool		asked;			/* they are not answered yet */
	int64		asked_at;
	NodeState	state;
	int64		retry_delay;
	int64		next_ask;
	char		why[256];		/* why it is down */
	char		warned_policy[32];
} Probe;

typedef struct MastersWatch
{
	int			n;
	Probe	   *probe[LR_MAX_MASTERS];
	bool		changed;		/* since the last log line */
	int64		logged_at;
} MastersWatch;

static MastersWatch watch;

static Probe *
probe_make(int row)
{
	Probe	   *p = MemoryContextAllocZero(TopMemoryContext, sizeof(Probe));

	if (!node_batch_make(&p->node, NODE_MASTER + row, "probe", true, true))
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory")));
	return p;
}

/*
 * redis_masters_watch_start --- begin with the present settings, of whichever topology
 */
void
redis_masters_watch_start(void)
{
	for (int i = 0; i < watch.n; i++)
	{
		node_batch_abandon(&watch.probe[i]->node);
		redis_conn_close(&watch.probe[i]->node.conn);
	}
	watch.n = lr_nmasters;
	watch.changed = true;
	watch.logged_at = 0;
	if (lr_has_masters() && lr_lease > lr_max_lease)
		ereport(WARNING,
				(errcode(ERRCODE_WARNING),
				 errmsg("\"%s\" is longer than \"%s\"", "lockredis.lease",
						"lockredis.max_lease"),
				 errdetail("With several masters no lock can have such a lease, and the server would not start with these settings."),
				 errhint("Lower \"%s\".", "lockredis.lease")));
	for (int i = 0; i < watch.n; i++)
	{
		if (watch.probe[i] == NULL)
			watch.probe[i] = probe_make(i);
		watch.probe[i]->state = NODE_CONNECTING;
		watch.probe[i]->retry_delay = RETRY_MIN;
		watch.probe[i]->asked = false;
		watch.probe[i]->next_ask = 0;
		node_set_silent(NODE_MASTER + i, false);
		node_set_state(NODE_MASTER + i, NODE_CONNECTING);
		masters_forget(i);
	}
}

/* ----------
 * Up or down
 * ----------
 */

/*
 * watch_tell --- log changes in one line, once all masters have been tried
 */
static void
watch_tell(int64 now)
{
	int			up = 0;
	StringInfoData reasons;

	if (!watch.changed || (watch.logged_at != 0 && now - watch.logged_at < LOG_INTERVAL))
		return;
	for (int i = 0; i < watch.n; i++)
		if (watch.probe[i]->state == NODE_CONNECTING)
			return;
	initStringInfo(&reasons);
	for (int i = 0; i < watch.n; i++)
	{
		const Probe *p = watch.probe[i];
		char		address[128];

		up += p->state == NODE_UP;
		if (p->state == NODE_UP)
			continue;
		redis_target_show(&p->node.target, address, sizeof(address));
		appendStringInfo(&reasons, "%s%s: %s", reasons.len > 0 ? "\n" : "", address, p->why);
	}
	ereport(LOG,
			(errmsg("lockredis: %d of %d masters are up (%d needed)",
					up, watch.n, masters_quorum(watch.n)),
			 reasons.len > 0 ? errdetail_internal("%s", reasons.data) : 0));
	pfree(reasons.data);
	watch.changed = false;
	watch.logged_at = now;
}

static void
probe_set_state(Probe *p, NodeState state)
{
	if (p->state == state)
		return;
	p->state = state;
	node_set_state(p->node.target.node, state);
	watch.changed = true;
}

/*
 * probe_failed --- the master does not answer, or cannot be used for locks
 */
static void
probe_failed(Probe *p, const StoreError *error)
{
	NodeId		node = p->node.target.node;

	redis_conn_close(&p->node.conn);
	p->next_ask = lr_now() + p->retry_delay;
	p->retry_delay = Min(p->retry_delay * 2, RETRY_MAX);
	strlcpy(p->why, error->detail, sizeof(p->why));
	masters_forget(node - NODE_MASTER);
	node_set_error(node, error->address, error->detail);
	probe_set_state(p, NODE_DOWN);
}

static void
probe_is_up(Probe *p)
{
	NodeId		node = p->node.target.node;
	NodeStatus	status;

	p->retry_delay = RETRY_MIN;
	p->next_ask = p->asked_at + ASK_INTERVAL;
	node_set_round_trip(node, lr_now() - p->ops[0].sent.at);
	(void) node_get_status(node, &status);
	node_warn_of_eviction(&status, p->warned_policy, sizeof(p->warned_policy));
	probe_set_state(p, NODE_UP);
}

/* ----------
 * Asking
 * ----------
 */

/*
 * probe_ask --- begin to ask the master, over a new connection if there is none
 */
static void
probe_ask(Probe *p, int64 now)
{
	memset(p->ops, 0, sizeof(p->ops));
	p->ops[0].kind = STORE_PROBE;
	p->ops[1].kind = STORE_FACTS;
	p->asked = true;
	p->asked_at = now;
	node_batch_join(&p->node, p->ops, lengthof(p->ops), 0, lengthof(p->ops),
					now + lr_call_budget());
}

/*
 * probe_judge --- evaluate the answers; the node may have become a replica
 */
static void
probe_judge(Probe *p)
{
	RedisConn  *c = &p->node.conn;

	p->asked = false;
	if (p->ops[0].outcome == STORE_OK && c->state == CONN_READY && c->facts.shown.role != ROLE_MASTER)
		redis_conn_fail(c, ERRCODE_STORE_FAILED, "The node is a replica.");
	if (p->ops[0].outcome != STORE_OK)
		probe_failed(p, &p->node.batch.error);
	else if (c->state != CONN_READY)
		probe_failed(p, &c->failure.error);
	else
	{
		/* It may have been started again meanwhile: then it has to be given the locks. */
		if (p->node.reconnected)
			probe_set_state(p, NODE_CONNECTING);
		probe_is_up(p);
	}
}

/*
 * probe_next_ask --- when to ask the master again, which has answered or is down
 *
 * If a session has found it silent, at once: to find out whether it still is; likewise if
 * another server has been found in its row, to which it may have to be connected.
 */
static int64
probe_next_ask(const Probe *p)
{
	if (redis_conn_is_other(&p->node.conn))
		return 0;
	return p->state == NODE_UP && node_is_silent(p->node.target.node) ?
		p->asked_at + ASK_MIN : p->next_ask;
}

/*
 * probe_step --- one master: read what has come, and ask again when it is time
 */
static void
probe_step(Probe *p, int64 now)
{
	NodeBatch  *b = &p->node;

	if (b->batch.active)
	{
		node_batch_process(b, true, false);
		node_batch_check_time(b);
	}
	else if (b->conn.state == CONN_READY && !node_batch_check_connection(b, false))
		probe_failed(p, &b->conn.failure.error);
	if (!p->asked && now >= probe_next_ask(p))
		probe_ask(p, now);
	if (p->asked && !b->batch.active)
		probe_judge(p);
}

void
redis_masters_watch_step(void)
{
	int64		now = lr_now();

	if (watch.n == 0)
		return;
	for (int i = 0; i < watch.n; i++)
		probe_step(watch.probe[i], now);
	watch_tell(now);
}

void
redis_masters_watch_interests(StoreInterests *in)
{
	if (watch.changed && watch.n > 0 && watch.logged_at != 0)
		store_wait_until(in, watch.logged_at + LOG_INTERVAL);
	for (int i = 0; i < watch.n; i++)
	{
		const Probe *p = watch.probe[i];

		store_wait_until(in, p->asked ? node_batch_until(&p->node) : probe_next_ask(p));
		redis_conn_interests(&p->node.conn, in);
	}
}
