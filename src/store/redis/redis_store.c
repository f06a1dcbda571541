/*-------------------------------------------------------------------------
 *
 * redis_store.c
 *	  Locks in Redis: implements the store interface of store.h.
 *
 * A handle serves the topology that lockredis.url names: one node (node_batch.c), a
 * cluster (cluster_batch.c) or several masters (quorum_batch.c).  They do the work; here
 * are the ways of waiting for them.
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
#include "store/redis/cluster_batch.h"
#include "store/redis/conn.h"
#include "store/redis/discovery.h"
#include "store/redis/node_batch.h"
#include "store/redis/quorum.h"

/* How often (ms) redis_wait() checks the latch and interrupts. */
#define WAIT_SLICE			100

/* A StoreHandle of this store. */
typedef struct RedisHandle
{
	NodeBatch	node;			/* used for one node */
	ClusterBatch *cluster;		/* NULL: never used */
	bool		in_cluster;		/* the settings name a cluster: it is used */
	int			home;			/* see redis_aim() */
	QuorumBatch *masters;		/* NULL: never used */
	bool		at_masters;		/* the settings name several masters: they are used */
	bool		left;			/* see redis_stay() */
} RedisHandle;

static NodeBatch *
redis_node(StoreHandle *h)
{
	return &((RedisHandle *) h)->node;
}

/*
 * redis_cluster --- the batch at a cluster; NULL: the handle is not used for one
 */
static ClusterBatch *
redis_cluster(const StoreHandle *h)
{
	const RedisHandle *handle = (const RedisHandle *) h;

	return handle->in_cluster ? handle->cluster : NULL;
}

/*
 * redis_masters --- the batch at several masters; NULL: not used for several
 */
static QuorumBatch *
redis_masters(const StoreHandle *h)
{
	const RedisHandle *handle = (const RedisHandle *) h;

	return handle->at_masters ? handle->masters : NULL;
}

static bool
redis_is_patient(const char *role)
{
	return strncmp(role, "watchdog", strlen("watchdog")) == 0;
}

static bool
redis_is_judge(const char *role)
{
	return strcmp(role, "watchdog") == 0;
}

/*
 * redis_leave --- close the connections of the topology used so far
 */
static void
redis_leave(RedisHandle *h)
{
	if (h->in_cluster)
	{
		cluster_batch_drop(h->cluster);
		cluster_batch_close(h->cluster);
	}
	else if (h->at_masters)
	{
		quorum_batch_drop(h->masters);
		quorum_batch_close(h->masters);
	}
	else
	{
		node_batch_drop(&h->node);
		redis_conn_close(&h->node.conn);
	}
}

/*
 * redis_look_where --- switch to the topology that the present settings name
 *
 * If there is no memory for that, the handle is used for one node for now, and cannot
 * connect.
 */
static void
redis_look_where(RedisHandle *h)
{
	bool		cluster = redis_url_is_cluster(lr_redis_url);
	bool		masters = lr_nmasters > 0;
	const char *role = h->node.conn.role;

	if (h->left || (cluster == h->in_cluster && masters == h->at_masters))
		return;
	redis_leave(h);
	h->in_cluster = h->at_masters = false;
	if (cluster && h->cluster == NULL)
	{
		h->cluster = malloc(sizeof(ClusterBatch));
		if (h->cluster == NULL)
			return;
		cluster_batch_init(h->cluster, role, redis_is_patient(role), redis_is_judge(role));
		h->cluster->home = h->home;
	}
	if (masters && h->masters == NULL)
	{
		h->masters = malloc(sizeof(QuorumBatch));
		if (h->masters == NULL)
			return;
		quorum_batch_init(h->masters, role, redis_is_patient(role));
	}
	h->in_cluster = cluster;
	h->at_masters = masters;
}

/* ----------
 * Waiting
 * ----------
 */

static StoreBatch *
redis_batch(StoreHandle *h)
{
	if (redis_masters(h) != NULL)
		return &redis_masters(h)->batch;
	return redis_cluster(h) != NULL ? &redis_cluster(h)->batch : &redis_node(h)->batch;
}

/*
 * redis_check_connections --- between batches: close those that are not good any more
 */
static void
redis_check_connections(StoreHandle *h)
{
	if (redis_masters(h) != NULL)
		quorum_batch_check_connections(redis_masters(h));
	else if (redis_cluster(h) != NULL)
		cluster_batch_check_connections(redis_cluster(h));
	else if (redis_node(h)->conn.state == CONN_READY)
		(void) node_batch_check_connection(redis_node(h), false);
}

static void
redis_process(StoreHandle *h, bool readable, bool briefly)
{
	if (redis_masters(h) != NULL)
		quorum_batch_process(redis_masters(h), readable);
	else if (redis_cluster(h) != NULL)
		cluster_batch_process(redis_cluster(h), readable, briefly);
	else
		node_batch_process(redis_node(h), readable, briefly);
}

static void
redis_check_time(StoreHandle *h, StoreStep how)
{
	if (redis_masters(h) != NULL)
		quorum_batch_check_time(redis_masters(h));
	else if (redis_cluster(h) != NULL)
		cluster_batch_check_time(redis_cluster(h), how == STORE_POLL);
	else
		node_batch_check_time(redis_node(h));
}

static int64
redis_until(StoreHandle *h)
{
	if (redis_masters(h) != NULL)
		return quorum_batch_until(redis_masters(h));
	return redis_cluster(h) != NULL ? cluster_batch_until(redis_cluster(h)) :
		node_batch_until(redis_node(h));
}

/*
 * redis_busy --- which nodes have work to do?  *alone: one, and nothing else is waited for
 */
static int
redis_busy(StoreHandle *h, NodeBatch **busy, bool *alone)
{
	ClusterBatch *c = redis_cluster(h);
	int			n;

	*alone = false;
	if (redis_masters(h) != NULL)
		return quorum_batch_busy(redis_masters(h), busy);
	busy[0] = redis_node(h);
	n = c != NULL ? cluster_batch_busy(c, busy) : 1;
	*alone = n == 1 && (c == NULL || c->batch.left == 0);
	return n;
}

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
 * redis_step --- go on with the batch to its end, waiting as "how" says
 *
 * Once, recv() itself waits for the reply of a node: most replies arrive before it is
 * worth a poll(), so this saves one system call per request.  It does so even if the time
 * is up: this takes little time, and the reply may be there.
 */
static bool
redis_step(StoreHandle *h, StoreStep how)
{
	const StoreBatch *batch = redis_batch(h);
	NodeBatch  *busy[NODE_MASTERS];
	bool		readable = how == STORE_NOWAIT;
	bool		briefly = false;
	bool		waited = how == STORE_NOWAIT;

	if (!batch->active)
	{
		redis_check_connections(h);
		return true;
	}
	for (;;)
	{
		int			n;
		bool		alone;

		redis_process(h, readable, briefly);
		if (!batch->active)
			return true;
		n = redis_busy(h, busy, &alone);
		briefly = alone && !waited && busy[0]->conn.socket.can_wait &&
			node_batch_awaits_reply(busy[0]);
		readable = true;
		if (briefly)
		{
			waited = true;
			continue;
		}
		redis_check_time(h, how);
		if (!batch->active)
			return true;
		if (how == STORE_NOWAIT)
			return false;
		n = redis_busy(h, busy, &alone);
		redis_wait(busy, n, redis_until(h), how);
	}
}

/* ----------
 * The interface
 * ----------
 */

/* The links to all nodes; nothing is connected yet. */
static StoreHandle *
redis_open(const char *role)
{
	RedisHandle *h = MemoryContextAllocZero(TopMemoryContext,
											sizeof(RedisHandle));

	/* Let everything that may raise on first use do so now. */
	(void) redis_script(REDIS_PROOF_SCRIPT);
	(void) LR_WAIT_CONNECT;
	(void) LR_WAIT_REPLY;

	h->home = CLUSTER_NO_NODE;
	if (!node_batch_make(&h->node, NODE_REDIS, role, redis_is_patient(role),
						 redis_is_judge(role)))
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory")));
	return (StoreHandle *) h;
}

/*
 * redis_aim --- what concerns no lock goes to this part
 */
static void
redis_aim(StoreHandle *h, int part)
{
	RedisHandle *handle = (RedisHandle *) h;

	handle->home = part;
	if (handle->cluster != NULL)
		handle->cluster->home = part;
}

static void
redis_start(StoreHandle *h, StoreOp *ops, int nops, int64 deadline)
{
	redis_look_where((RedisHandle *) h);
	if (redis_masters(h) != NULL)
		quorum_batch_start(redis_masters(h), ops, nops, deadline);
	else if (redis_cluster(h) != NULL)
		cluster_batch_start(redis_cluster(h), ops, nops, deadline);
	else
		node_batch_start(redis_node(h), ops, nops, deadline);
}

/*
 * redis_leave_unanswered --- see StoreRoutine.leave; only with one node
 */
static bool
redis_leave_unanswered(StoreHandle *h, StoreAnswered answered)
{
	return redis_masters(h) == NULL && redis_cluster(h) == NULL &&
		left_begin(redis_node(h), answered);
}

static void
redis_abandon(StoreHandle *h)
{
	if (redis_masters(h) != NULL)
		quorum_batch_abandon(redis_masters(h));
	else if (redis_cluster(h) != NULL)
		cluster_batch_abandon(redis_cluster(h));
	else
		node_batch_abandon(redis_node(h));
}

/*
 * redis_batch_interests --- the socket of one node, also between batches
 */
static void
redis_batch_interests(const NodeBatch *b, StoreInterests *in)
{
	if (b->conn.socket.fd != PGINVALID_SOCKET)
		store_wait_for(in, b->conn.socket.fd,
					   b->batch.active ? redis_conn_events(&b->conn) : WL_SOCKET_READABLE,
					   b->conn.socket.epoch);
}

/*
 * redis_interests --- the sockets to wait for, and until when
 *
 * While a batch waits for other nodes, nobody reads from one that has answered.
 */
static void
redis_interests(StoreHandle *h, StoreInterests *in)
{
	const ClusterBatch *c = redis_cluster(h);
	const QuorumBatch *q = redis_masters(h);
	int			most = in->n + STORE_MAX_INTERESTS;

	if (q != NULL || redis_batch(h)->active)
		store_wait_until(in, redis_until(h));
	if (q != NULL)
	{
		for (int i = 0; i < q->n; i++)
			if (q->link[i] != NULL &&
				(q->link[i]->node.batch.active || !q->batch.active))
				redis_batch_interests(&q->link[i]->node, in);
	}
	else if (c != NULL)
	{
		for (int i = 0; i < NODE_MASTERS; i++)
			if (c->link[i] != NULL && in->n < most &&
				(c->link[i]->batch.active || !c->batch.active))
				redis_batch_interests(c->link[i], in);
	}
	else
		redis_batch_interests(redis_node(h), in);
}

static bool
redis_connected(StoreHandle *h)
{
	if (redis_masters(h) != NULL)
		return quorum_batch_is_connected(redis_masters(h));
	return redis_cluster(h) != NULL ? cluster_batch_is_connected(redis_cluster(h)) :
		node_batch_is_connected(redis_node(h));
}

/*
 * redis_connections --- see store.h
 *
 * With several nodes the sockets would not do: an unreachable node gets a new one again
 * and again.
 */
static uint32
redis_connections(StoreHandle *h)
{
	if (redis_masters(h) != NULL)
		return quorum_batch_connections(redis_masters(h));
	return redis_cluster(h) != NULL ? cluster_batch_connections(redis_cluster(h)) :
		redis_node(h)->conn.socket.epoch;
}

static int64
redis_let_go(StoreHandle *h, int64 unused_since)
{
	if (redis_masters(h) != NULL)
		return quorum_batch_let_go(redis_masters(h), unused_since);
	return redis_cluster(h) != NULL ?
		cluster_batch_let_go(redis_cluster(h), unused_since) :
		node_batch_let_go(redis_node(h), unused_since);
}

/*
 * redis_forget --- see store.h; several masters have no counts
 */
static void
redis_forget(StoreHandle *h, const StoreOp *op)
{
	if (redis_masters(h) != NULL)
		return;
	if (redis_cluster(h) != NULL)
		cluster_batch_forget(redis_cluster(h), op);
	else
		node_batch_forget(redis_node(h), op);
}

/*
 * redis_reserve --- make the buffer large enough for releases of n keys
 *
 * This only makes it likely that they go out in few writes: if there is no memory for
 * it, they are split into smaller commands.  A release of one key, with its script,
 * always fits into the buffer that every connection starts with.
 */
static void
redis_reserve(StoreHandle *h, int n)
{
	if (redis_masters(h) != NULL)
		quorum_batch_reserve(redis_masters(h), n);
	else
		(void) resp_out_room(&redis_node(h)->conn.out, redis_release_size(n));
}

static const StoreError *
redis_error(StoreHandle *h)
{
	return &redis_batch(h)->error;
}

static void
redis_disconnect(StoreHandle *h)
{
	NodeBatch  *b = redis_node(h);
	RedisHandle *handle = (RedisHandle *) h;

	handle->left = false;
	if (handle->cluster != NULL)
		cluster_batch_close(handle->cluster);
	if (handle->masters != NULL)
		quorum_batch_close(handle->masters);
	node_batch_send_idle(b);
	node_batch_abandon(b);
	redis_conn_close(&b->conn);
	redis_target_set(&b->target, NODE_REDIS);
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
	((RedisHandle *) h)->left = true;
	if (redis_masters(h) != NULL)
		quorum_batch_close(redis_masters(h));
	else if (redis_cluster(h) != NULL)
		cluster_batch_close(redis_cluster(h));
	else
		redis_target_leave(&redis_node(h)->target);
}

static bool
redis_usable(StoreError *error)
{
	RedisFailure why;

	if (!lr_redis_url->tls || tls_context_is_usable(&why))
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
	uint32		epoch;

	return cluster_owner(slot_of(name, len), &epoch);
}

static bool
redis_has_part(int part)
{
	ClusterNode node;
	uint32		generation;

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
 * redis_takes_name --- in a cluster, all keys of a lock have to be in one slot
 */
static bool
redis_takes_name(const char *name, int len)
{
	return !redis_url_is_cluster(lr_redis_url) || !slot_is_split(name, len);
}

static int
redis_group_of(const char *name, int len)
{
	return redis_url_is_cluster(lr_redis_url) ? slot_of(name, len) : 0;
}

/*
 * redis_follow_start --- begin with the present settings, of whichever topology
 */
static void
redis_follow_start(void)
{
	redis_cluster_watch_start();
	redis_discovery_start();
	redis_masters_watch_start();
}

static void
redis_follow_step(void)
{
	redis_discovery_step();
	redis_cluster_watch_step();
	redis_masters_watch_step();
}

static void
redis_follow_interests(StoreInterests *in)
{
	redis_discovery_interests(in);
	redis_cluster_watch_interests(in);
	redis_masters_watch_interests(in);
}

const StoreRoutine redis_store = {
	.name = "redis",
	.features = STORE_HAS_FENCE | STORE_HAS_PUSH | STORE_HAS_FACTS |
		STORE_HAS_PLACE | STORE_LATE_CREATES | STORE_HAS_REPLICAS | STORE_HAS_ORDER |
		STORE_HAS_TOGETHER,
	.node = NODE_REDIS,
	.role = ROLE_MASTER,
	.open = redis_open,
	.start = redis_start,
	.leave = redis_leave_unanswered,
	.step = redis_step,
	.abandon = redis_abandon,
	.interests = redis_interests,
	.forget = redis_forget,
	.reserve = redis_reserve,
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
	.aim = redis_aim,
	.takes_kind = redis_takes_kind,
	.takes_name = redis_takes_name,
	.group_of = redis_group_of,
	.follow_start = redis_follow_start,
	.follow_step = redis_follow_step,
	.follow_reload = redis_cluster_watch_reload,
	.follow_interests = redis_follow_interests,
	.listener_open = redis_listener_open,
	.listener_subscribe = redis_listener_subscribe,
	.listener_unsubscribe = redis_listener_unsubscribe,
	.listener_step = redis_listener_step,
	.listener_interests = redis_listener_interests,
	.listener_close = redis_listener_close,
};
