/*-------------------------------------------------------------------------
 *
 * masters_watch.c
 *	  The watchdog asks each independent master whether it is up.
 *
 * The store is up as long as a majority is, so its health says nothing about a single
 * master.  Therefore each master has a connection of the watchdog that only serves to
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
#include "store/redis/conn.h"
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

/*
 * The questions: does it run commands, and what is it?  All but the first are sections
 * of INFO.
 */
static const char *const questions[] = {"PING", "server", "memory", "replication"};

typedef struct Probe
{
	NodeId		node;
	RedisTarget target;
	RedisConn	conn;
	NodeState	state;
	int64		retry_delay;
	int64		next_try;
	int64		asked_at;
	int64		answer_until;	/* 0 = no answer is awaited */
	int			answered;		/* number of questions answered */
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

/*
 * redis_masters_watch_start --- begin with the present settings, of whichever topology
 */
void
redis_masters_watch_start(void)
{
	for (int i = 0; i < watch.n; i++)
		redis_conn_close(&watch.probe[i]->conn);
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
		Probe	   *p = watch.probe[i];

		if (p == NULL)
		{
			p = MemoryContextAllocZero(TopMemoryContext, sizeof(Probe));
			redis_conn_init(&p->conn, "probe", true);
			watch.probe[i] = p;
		}
		p->node = NODE_MASTER + i;
		redis_target_set(&p->target, p->node);
		p->state = NODE_CONNECTING;
		p->retry_delay = RETRY_MIN;
		p->next_try = p->answer_until = 0;
		node_set_silent(p->node, false);
		node_set_state(p->node, NODE_CONNECTING);
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
		redis_target_show(&p->target, address, sizeof(address));
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
	node_set_state(p->node, state);
	watch.changed = true;
}

/*
 * probe_failed --- the master does not answer, or cannot be used for locks
 */
static void
probe_failed(Probe *p, int64 now)
{
	const StoreError *error = &p->conn.failure.error;

	redis_conn_close(&p->conn);
	p->answer_until = 0;
	p->next_try = now + p->retry_delay;
	p->retry_delay = Min(p->retry_delay * 2, RETRY_MAX);
	strlcpy(p->why, error->detail, sizeof(p->why));
	masters_forget(p->node - NODE_MASTER);
	node_set_error(p->node, error->address, error->detail);
	probe_set_state(p, NODE_DOWN);
}

static void
probe_is_up(Probe *p, int64 now)
{
	NodeStatus	status;

	p->answer_until = 0;
	p->retry_delay = RETRY_MIN;
	node_set_round_trip(p->node, now - p->asked_at);
	(void) node_get_status(p->node, &status);
	node_warn_of_eviction(&status, p->warned_policy, sizeof(p->warned_policy));
	redis_target_set_silent(&p->target, false);
	probe_set_state(p, NODE_UP);
}

/* ----------
 * Asking
 * ----------
 */

/*
 * probe_connect --- true if the connection is ready
 */
static bool
probe_connect(Probe *p, int64 now)
{
	RedisConn  *c = &p->conn;

	if (redis_conn_close_other(c))
		p->answer_until = p->next_try = 0;
	if (c->state == CONN_READY)
		return true;
	if (c->state == CONN_CLOSED)
	{
		if (now < p->next_try)
			return false;
		redis_target_set(&p->target, p->node);
		p->asked_at = 0;
		redis_conn_open(c, &p->target, now + lr_connect_timeout * LR_US_PER_MS);
	}
	redis_conn_advance(c);
	if (c->state == CONN_CLOSED)
		probe_failed(p, now);
	return c->state == CONN_READY;
}

/*
 * probe_ask --- send all questions
 */
static void
probe_ask(Probe *p, int64 now)
{
	RespOut    *out = &p->conn.out;

	for (int i = 0; i < lengthof(questions); i++)
	{
		resp_put_array(out, i == 0 ? 1 : 2);
		if (i > 0)
			resp_put_text(out, "INFO");
		resp_put_text(out, questions[i]);
	}
	p->asked_at = now;
	p->answered = 0;
	p->answer_until = now + lr_command_timeout * LR_US_PER_MS;
	if (!redis_conn_flush(&p->conn))
		probe_failed(p, now);
}

/*
 * probe_take --- take an answer; the node may have become a replica
 */
static void
probe_take(Probe *p, int64 now)
{
	RedisConn  *c = &p->conn;
	const RedisValue *v = c->in.values;

	if (p->answer_until == 0)
		redis_conn_fail(c, ERRCODE_STORE_FAILED, "The node sent something that was not asked for.");
	else if (v->type == REDIS_REPLY_ERROR)
		redis_conn_refused(c);
	else if (v->type == REDIS_REPLY_STRING)
		redis_conn_take_info(c, v->str);
	if (c->state == CONN_READY && c->facts.role != ROLE_MASTER)
		redis_conn_fail(c, ERRCODE_STORE_FAILED, "The node is a replica.");
	if (c->state != CONN_READY)
		probe_failed(p, now);
	else if (++p->answered == lengthof(questions))
		probe_is_up(p, now);
}

/*
 * probe_receive --- read what has come; false if the master has failed
 */
static bool
probe_receive(Probe *p, int64 now)
{
	RedisConn  *c = &p->conn;
	int			nreads = 0;

	while (redis_conn_next(c, &nreads))
		probe_take(p, now);
	if (c->state == CONN_CLOSED && p->next_try <= now)
		probe_failed(p, now);
	return c->state == CONN_READY;
}

/*
 * probe_next_ask --- when to ask a master again that has answered
 *
 * If a session has found it silent, at once: to find out whether it still is.
 */
static int64
probe_next_ask(const Probe *p)
{
	bool		doubtful = p->state != NODE_UP || node_is_silent(p->node);

	return p->asked_at == 0 ? 0 : p->asked_at + (doubtful ? ASK_MIN : ASK_INTERVAL);
}

/*
 * probe_step --- one master: connect, read what has come, and ask again when it is time
 */
static void
probe_step(Probe *p, int64 now)
{
	if (!probe_connect(p, now) || !probe_receive(p, now))
		return;
	if (p->answer_until != 0 && now >= p->answer_until)
	{
		redis_target_set_silent(&p->target, true);
		redis_conn_fail(&p->conn, ERRCODE_STORE_FAILED,
						"The node did not answer in time.");
		probe_failed(p, now);
	}
	else if (p->answer_until == 0 && now >= probe_next_ask(p))
		probe_ask(p, now);
	else
		(void) redis_conn_flush(&p->conn);
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

		if (p->conn.state == CONN_CLOSED)
			store_wait_until(in, p->next_try);
		else if (p->conn.state == CONN_READY)
			store_wait_until(in, p->answer_until != 0 ? p->answer_until : probe_next_ask(p));
		redis_conn_interests(&p->conn, in);
	}
}
