/*-------------------------------------------------------------------------
 *
 * redis_store.c
 *	  Locks in Redis: implements the store interface of store.h.
 *
 * A handle has a set of nodes for each topology that lockredis.url may name: one node or
 * a cluster (part_batch.c), or several masters (quorum_batch.c).  They route operations
 * and combine answers, and node_batch.c asks a node; here is what all nodes of a set do,
 * and the ways of waiting for them.
 *
 * Normally an operation on one node costs two system calls: a write, and a read that
 * waits for a short time.  Only a slower reply needs a poll().  A connection that has not
 * been used for a moment is checked first, by a read that does not wait.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/redis_store.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include <poll.h>

#include "utils/memutils.h"

#include "settings.h"
#include "stats.h"
#include "store/nodes.h"
#include "store/redis/cluster_map.h"
#include "store/redis/conn.h"
#include "store/redis/discovery.h"
#include "store/redis/node_batch.h"
#include "store/redis/quorum.h"

/* How often (ms) redis_wait() checks the latch and interrupts. */
#define WAIT_SLICE			100

/* A StoreHandle of this store. */
typedef struct RedisHandle
{
	NodeSet    *set;			/* the one in use, of these: */
	PartBatch	one;
	PartBatch	cluster;
	QuorumBatch masters;

	bool		left;			/* see redis_stay() */
} RedisHandle;

static NodeSet *
redis_set(StoreHandle *h)
{
	return ((RedisHandle *) h)->set;
}

static const NodeSetMethod parts_method = {
	.start = part_batch_start,
	.look = part_batch_look,
	.abandon = part_batch_abandon,
	.drop = part_batch_drop,
	.parted = true,
	.link_size = sizeof(NodeBatch),
};

static const NodeSetMethod masters_method = {
	.start = quorum_batch_start,
	.look = quorum_batch_look,
	.abandon = quorum_batch_abandon,
	.drop = quorum_batch_drop,
	.closed = quorum_batch_closed,
	.link_size = sizeof(QuorumLink),
};

/* ----------
 * All nodes of a set
 * ----------
 */

static void
set_process(NodeSet *s, bool readable, bool briefly)
{
	for (int i = 0; i < s->n; i++)
		if (node_set_is_busy(s, i))
			node_batch_process(s->node[i], readable, briefly);
	s->method->look(s);
}

static void
set_check_time(NodeSet *s, StoreStep how)
{
	for (int i = 0; i < s->n; i++)
		if (node_set_is_busy(s, i))
			node_batch_check_time(s->node[i]);
	s->over = lr_now() >= s->batch.deadline;
	s->leave = how == STORE_POLL;
	s->method->look(s);
}

static int64
set_until(const NodeSet *s)
{
	int64		until = s->batch.active ? Min(s->batch.deadline, s->look_at) : LR_NEVER;

	for (int i = 0; i < s->n; i++)
		if (node_set_is_busy(s, i))
			until = Min(until, node_batch_until(s->node[i]));
	return until;
}

/*
 * set_busy --- the nodes that are at work, and their number
 */
static int
set_busy(const NodeSet *s, NodeBatch **busy)
{
	int			n = 0;

	for (int i = 0; i < s->n; i++)
		if (node_set_is_busy(s, i))
			busy[n++] = s->node[i];
	return n;
}

/*
 * set_check_connections --- between batches: close those that are not good any more
 *
 * A node may still owe answers to batches that have ended: they are taken.
 */
static void
set_check_connections(NodeSet *s)
{
	for (int i = 0; i < s->n; i++)
	{
		NodeBatch  *b = s->node[i];

		if (node_set_is_busy(s, i))
		{
			node_batch_process(b, true, false);
			node_batch_check_time(b);
		}
		else if (b != NULL && b->conn.state == CONN_READY)
			(void) node_batch_check_connection(b, false);
	}
	s->method->look(s);
}

/* What nobody waits for is sent, what is under way is given up, and all connections end. */
static void
set_close(NodeSet *s)
{
	for (int i = 0; i < s->n; i++)
		if (s->node[i] != NULL)
			node_batch_send_idle(s->node[i]);
	s->method->abandon(s);
	for (int i = 0; i < s->n; i++)
	{
		NodeBatch  *b = s->node[i];

		if (b == NULL)
			continue;
		node_batch_abandon(b);
		redis_conn_close(&b->conn);
		redis_target_set(&b->target, s->first + i);
	}
	if (s->method->closed != NULL)
		s->method->closed(s);
}

/* ----------
 * Waiting
 * ----------
 */

/*
 * redis_wait --- wait for some nodes, or for the map of the cluster
 *
 * This does not wait for the latch, because no answer sets it.  A signal ends poll(), and
 * one that came before, while recv() waited for example, has set the latch, so poll() does
 * not wait then.  One that comes just before poll() is noticed after WAIT_SLICE.  The latch
 * is only reset if poll() found nothing to read.
 *
 * A single node is read from in any case: a reply may have come while this process was
 * stopped, and the time may be over now.
 *
 * With STORE_POLL it cannot raise: redis_open() has allocated the names of the wait
 * events.
 */
static void
redis_wait(NodeBatch **busy, int n, int64 until, StoreStep how)
{
	struct pollfd pfd[NODE_MASTERS];
	bool		connecting = n > 0 && busy[0]->conn.state != CONN_READY;
	long		timeout = lr_ms_until(until, lr_now());
	int			ready;

	for (int i = 0; i < n; i++)
	{
		uint32		events = redis_conn_events(&busy[i]->conn);

		pfd[i].fd = busy[i]->conn.socket.fd;	/* poll() ignores it if there is none */
		pfd[i].events = ((events & WL_SOCKET_READABLE) ? POLLIN : 0) |
			((events & WL_SOCKET_WRITEABLE) ? POLLOUT : 0);
		pfd[i].revents = 0;
	}
	if (how == STORE_WAIT && MyLatch->is_set)
		timeout = 0;
	pgstat_report_wait_start(connecting ? LR_WAIT_CONNECT : LR_WAIT_REPLY);
	ready = poll(pfd, n, (int) Min(timeout, WAIT_SLICE));
	pgstat_report_wait_end();
	for (int i = 0; i < n; i++)
		busy[i]->quiet = n > 1 && pfd[i].revents == 0 &&
			!redis_conn_has_more(&busy[i]->conn);
	if (how == STORE_WAIT)
	{
		if (ready <= 0 &&
			WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, 0,
					  LR_WAIT_REPLY) & WL_LATCH_SET)
			ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

/*
 * set_is_awaited --- is the reply of a single node waited for, and nothing else?
 */
static bool
set_is_awaited(const NodeSet *s)
{
	NodeBatch  *busy[NODE_MASTERS];

	return s->look_at == LR_NEVER && set_busy(s, busy) == 1 &&
		busy[0]->conn.socket.can_wait && node_batch_awaits_reply(busy[0]);
}

/*
 * redis_step --- go on with the batch to its end, waiting as "how" says
 *
 * In a cluster it returns as soon as one of the nodes has done its part.
 *
 * First, recv() itself waits for the reply, if that is possible: most replies arrive before it
 * is worth a poll(), so this saves one system call per request.  It does so even if the time is
 * up: this takes little time, and the reply may be there.
 */
static bool
redis_step(StoreHandle *h, StoreStep how)
{
	NodeSet    *s = redis_set(h);
	NodeBatch  *busy[NODE_MASTERS];
	int			nbusy = 0;		/* nodes that were waited for */

	if (!s->batch.active)
	{
		set_check_connections(s);
		return true;
	}
	if (how == STORE_NOWAIT || set_is_awaited(s))
		set_process(s, true, how != STORE_NOWAIT);
	for (;;)
	{
		if (s->batch.active)
			set_check_time(s, how);
		if (!s->batch.active)
			return true;
		if (how == STORE_NOWAIT || (s->method->parted && set_busy(s, busy) < nbusy))
			return false;
		nbusy = set_busy(s, busy);
		redis_wait(busy, nbusy, set_until(s), how);
		set_process(s, true, false);
	}
}

/* ----------
 * The interface
 * ----------
 */

static void
redis_set_init(NodeSet *s, const NodeSetMethod *method, NodeId first, int n,
			   int home, const char *role)
{
	s->method = method;
	strlcpy(s->role, role, sizeof(s->role));
	s->patient = strcmp(role, "session") != 0;
	s->judge = s->patient && strcmp(role, "watchdog-replicas") != 0;
	s->first = first;
	s->n = n;
	s->home = home;
	s->needed = 1;
	s->look_at = LR_NEVER;
}

/*
 * redis_look_where --- switch to the nodes that the present settings name
 */
static void
redis_look_where(RedisHandle *h)
{
	NodeSet    *set = redis_url_is_cluster(lr_redis_url) ? &h->cluster.set :
		lr_nmasters > 0 && h->one.set.first == NODE_REDIS ? &h->masters.set : &h->one.set;

	if (h->left || set == h->set)
		return;
	h->set->method->drop(h->set);
	set_close(h->set);
	h->set = set;
}

/* All sets of nodes; nothing is connected yet. */
static StoreHandle *
redis_open(const char *role, int part)
{
	RedisHandle *h = MemoryContextAllocZero(TopMemoryContext,
											sizeof(RedisHandle));

	/* Let everything that may raise on first use do so now. */
	(void) LR_WAIT_CONNECT;
	(void) LR_WAIT_REPLY;

	redis_set_init(&h->one.set, &parts_method, part == STORE_NO_PART ? NODE_REDIS :
				   NODE_MASTER + part, 1, 0, role);
	redis_set_init(&h->cluster.set, &parts_method, NODE_MASTER, NODE_MASTERS, part, role);
	redis_set_init(&h->masters.set, &masters_method, NODE_MASTER, 0, NODE_NONE, role);
	h->set = &h->one.set;
	if (node_set_link(h->set, 0) == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory")));
	return (StoreHandle *) h;
}

static void
redis_start(StoreHandle *h, StoreOp *ops, int nops, int64 deadline)
{
	redis_look_where((RedisHandle *) h);
	redis_set(h)->method->start(redis_set(h), ops, nops, deadline);
}

static bool
redis_leave(StoreHandle *h, StoreAnswered answered)
{
	NodeSet    *s = redis_set(h);

	if (s->n > 1 || !left_begin(s->node[0], answered))
		return false;
	batch_forget(&s->batch);
	return true;
}

static void
redis_abandon(StoreHandle *h)
{
	redis_set(h)->method->abandon(redis_set(h));
}

/*
 * redis_interests --- the sockets to wait for, and until when
 *
 * While a batch waits for other nodes, nobody reads from one that has answered.
 */
static void
redis_interests(StoreHandle *h, StoreInterests *in)
{
	const NodeSet *s = redis_set(h);
	int			most = in->n + STORE_MAX_INTERESTS;

	store_wait_until(in, set_until(s));
	for (int i = 0; i < s->n; i++)
	{
		const NodeBatch *b = s->node[i];

		if (b != NULL && in->n < most && (b->batch.active || !s->batch.active) &&
			b->conn.socket.fd != PGINVALID_SOCKET)
			store_wait_for(in, b->conn.socket.fd,
						   b->batch.active ? redis_conn_events(&b->conn) : WL_SOCKET_READABLE,
						   b->conn.socket.epoch);
	}
}

/*
 * set_is_asked --- is it this node that what concerns no lock is about?
 */
static bool
set_is_asked(const NodeSet *s, int i)
{
	return s->node[i] != NULL && (s->home == NODE_NONE || s->home == i);
}

/*
 * redis_connected --- to "home", if that is set, else to as many nodes as are needed
 */
static bool
redis_connected(StoreHandle *h)
{
	const NodeSet *s = redis_set(h);
	int			n = 0;

	for (int i = 0; i < s->n; i++)
		n += set_is_asked(s, i) && node_batch_is_connected(s->node[i]);
	return n >= s->needed;
}

/*
 * redis_connections --- see store.h
 *
 * The present sockets would not do: an unreachable node gets a new one again and again.
 */
static uint32
redis_connections(StoreHandle *h)
{
	const NodeSet *s = redis_set(h);
	uint32		n = 0;

	for (int i = 0; i < s->n; i++)
		if (set_is_asked(s, i))
			n += s->node[i]->connection;
	return n;
}

/*
 * redis_let_go --- see store.h
 *
 * If some connections are kept, returns when they were last used.
 */
static int64
redis_let_go(StoreHandle *h, int64 unused_since)
{
	const NodeSet *s = redis_set(h);
	int64		used = STORE_NOT_CONNECTED;
	bool		gone = false;

	if (s->batch.active)
		return lr_now();
	for (int i = 0; i < s->n; i++)
	{
		int64		its_use = s->node[i] == NULL ? STORE_NOT_CONNECTED :
			node_batch_let_go(s->node[i], unused_since);

		gone = gone || its_use == STORE_LET_GO;
		used = Max(used, its_use);
	}
	return used == STORE_NOT_CONNECTED && gone ? STORE_LET_GO : used;
}

/*
 * redis_forget --- see store.h; several masters have no counts
 *
 * Not at a node that is only importing the slot: it serves nothing without ASKING, and
 * the store forgets the ticket by itself in the end.
 */
static void
redis_forget(StoreHandle *h, const StoreOp *op)
{
	NodeSet    *s = redis_set(h);
	int			part = op->sent.part;

	if (part >= 0 && part < s->n && s->node[part] != NULL && !op->sent.asking)
		node_batch_forget(s->node[part], op);
}

static const StoreError *
redis_error(StoreHandle *h)
{
	return &redis_set(h)->batch.error;
}

static void
redis_disconnect(StoreHandle *h)
{
	((RedisHandle *) h)->left = false;
	set_close(redis_set(h));
}

/*
 * redis_stay --- see store.h
 *
 * Only a handle for one node can stay where it is.  After a change of the settings
 * nobody knows the map of the former cluster, or the addresses of the former masters.
 */
static void
redis_stay(StoreHandle *h)
{
	RedisHandle *handle = (RedisHandle *) h;

	handle->left = true;
	if (handle->set == &handle->one.set)
		redis_target_leave(&handle->set->node[0]->target);
	else
		set_close(handle->set);
}

static bool
redis_usable(StoreError *error)
{
	RedisFailure why;
	bool		tls = false;

	for (int i = 0; i < Max(lr_nmasters, 1); i++)
		tls = tls || lr_redis_url[i].tls;
	if (!tls || tls_context_is_usable(&why))
		return true;
	*error = why.error;
	return false;
}

/*
 * redis_part_of --- row of the node that has the slot of the lock
 */
static int
redis_part_of(const char *name, int len)
{
	return cluster_owner(slot_of(name, len), NULL);
}

static bool
redis_has_part(int part)
{
	ClusterNode node;
	uint32		generation;

	if (!cluster_is_on())
		return part < lr_nmasters;
	return cluster_get_node(lr_place, part, &node, &generation) && node.has_slots;
}

/*
 * redis_takes_kind --- several masters only keep kinds of lock that they can vote on
 */
static bool
redis_takes_kind(KindId kind)
{
	return lr_nmasters == 0 || lr_kind(kind)->voted;
}

/*
 * redis_group_of --- in a cluster, the slot, in which all keys of a lock have to be
 */
static int
redis_group_of(const char *name, int len)
{
	if (!redis_url_is_cluster(lr_redis_url))
		return 0;
	return slot_is_split(name, len) ? STORE_NO_GROUP : slot_of(name, len);
}

/*
 * redis_follow_start --- begin with the present settings, of whichever topology
 */
static void
redis_follow_start(void)
{
	node_start(lr_place, lr_follows_master(), redis_url_is_cluster(lr_redis_url), lr_nmasters);
	redis_cluster_watch_start();
	redis_discovery_start();
}

static void
redis_follow_step(void)
{
	redis_discovery_step();
	redis_cluster_watch_step();
}

static void
redis_follow_interests(StoreInterests *in)
{
	redis_discovery_interests(in);
	redis_cluster_watch_interests(in);
}

const StoreRoutine redis_store = {
	.name = "redis",
	.features = STORE_HAS_FENCE | STORE_HAS_PUSH | STORE_HAS_FACTS |
		STORE_HAS_PLACE | STORE_LATE_CREATES | STORE_HAS_REPLICAS | STORE_HAS_ORDER |
		STORE_HAS_TOGETHER,
	.node = NODE_REDIS,
	.open = redis_open,
	.start = redis_start,
	.leave = redis_leave,
	.step = redis_step,
	.abandon = redis_abandon,
	.interests = redis_interests,
	.forget = redis_forget,
	.error = redis_error,
	.connected = redis_connected,
	.connections = redis_connections,
	.disconnect = redis_disconnect,
	.let_go = redis_let_go,
	.stay = redis_stay,
	.usable = redis_usable,
	.parted = cluster_is_on,
	.part_of = redis_part_of,
	.has_part = redis_has_part,
	.takes_kind = redis_takes_kind,
	.group_of = redis_group_of,
	.follow_start = redis_follow_start,
	.follow_step = redis_follow_step,
	.follow_reload = redis_cluster_watch_reload,
	.follow_interests = redis_follow_interests,
	.listener_open = redis_listener_open,
	.listener_subscribe = redis_listener_subscribe,
	.listener_sweep = redis_listener_sweep,
	.listener_step = redis_listener_step,
	.listener_interests = redis_listener_interests,
	.listener_close = redis_listener_close,
};
