/*-------------------------------------------------------------------------
 *
 * redis_store.c
 *	  Locks in one Redis node: the store interface of store.h.
 *
 * A handle has one node, and lets node_batch.c do the work; here are the ways
 * of waiting for it.
 *
 * In the steady state an operation costs two system calls: a write, and a read
 * that waits for a short time; only a slower reply needs the wait event set.  A
 * connection that has not been used for a moment is looked at first, by a read
 * that does not wait.
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
#include "store/redis/discovery.h"
#include "store/redis/listener.h"
#include "store/redis/node_batch.h"
#include "store/redis/tls_context.h"
#include "wait_events.h"

/* A StoreHandle of this store. */
typedef struct RedisHandle
{
	NodeBatch	node;
} RedisHandle;

static NodeBatch *
redis_node(StoreHandle *h)
{
	return &((RedisHandle *) h)->node;
}

/* ----------
 * Waiting
 * ----------
 */

/* What pg_stat_activity shows. */
static uint32
redis_wait_event(const NodeBatch *b)
{
	return b->conn.state == CONN_READY ? LR_WAIT_REPLY : LR_WAIT_CONNECT;
}

static long
redis_wait_timeout(const NodeBatch *b)
{
	return lr_ms_until(node_batch_until(b), lr_now());
}

/*
 * redis_watch --- have the connection watched by a wait event set
 */
static bool
redis_watch(NodeBatch *b)
{
	if (redis_socket_watch(&b->conn.socket, redis_conn_events(&b->conn)))
		return true;
	node_batch_fail(b, ERRCODE_INSUFFICIENT_RESOURCES,
					"Could not create a wait event set in this server process.");
	return false;
}

/*
 * redis_wait_latch --- wait for the socket or the latch; true if the socket may
 * be ready
 *
 * It may when the time is over: a process that was stopped for long finds the
 * reply there, which tells more than a time-out.
 */
static bool
redis_wait_latch(NodeBatch *b)
{
	const RedisSocket *s = &b->conn.socket;
	long		timeout = redis_wait_timeout(b);
	bool		ready = false;
	bool		latched = false;

	if (s->fd == PGINVALID_SOCKET)
		latched = (WaitLatch(MyLatch,
							 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
							 timeout, redis_wait_event(b)) & WL_LATCH_SET) != 0;
	else
	{
		WaitEvent	occurred[2];
		int			n;

		if (!redis_watch(b))
			return false;
		n = WaitEventSetWait(s->set, timeout, occurred, lengthof(occurred),
							 redis_wait_event(b));
		ready = n == 0;
		for (int i = 0; i < n; i++)
		{
			if (occurred[i].events & WL_LATCH_SET)
				latched = true;
			else
				ready = true;
		}
	}

	if (latched)
	{
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
	return ready;
}

/*
 * redis_wait_poll --- the same with poll(2) and without the latch
 *
 * The names of the wait events have been allocated by redis_open().
 */
static bool
redis_wait_poll(NodeBatch *b)
{
	uint32		events = redis_conn_events(&b->conn);
	struct pollfd pfd;
	bool		ready;

	pfd.fd = b->conn.socket.fd; /* ignored by poll() when there is none */
	pfd.events = 0;
	pfd.revents = 0;
	if (events & WL_SOCKET_READABLE)
		pfd.events |= POLLIN;
	if (events & WL_SOCKET_WRITEABLE)
		pfd.events |= POLLOUT;

	/* A signal only makes us look at the time and come back. */
	pgstat_report_wait_start(redis_wait_event(b));
	ready = poll(&pfd, 1, (int) redis_wait_timeout(b)) >= 0;
	pgstat_report_wait_end();
	return ready;
}

/*
 * redis_may_wait_briefly --- let recv() itself wait for the reply, once
 *
 * Most replies are there before a wait event set is worth asking: it saves a
 * system call in each request.  What may raise when the set is made must do
 * so in any case, not only behind a slow reply.
 */
static bool
redis_may_wait_briefly(NodeBatch *b, StoreStep how)
{
	return how != STORE_NOWAIT && b->conn.socket.can_wait &&
		node_batch_awaits_reply(b) && (how != STORE_WAIT || redis_watch(b));
}

/*
 * redis_step --- go on with the batch, waiting as "how" says, to its end
 */
static bool
redis_step(StoreHandle *h, StoreStep how)
{
	NodeBatch  *b = redis_node(h);
	bool		readable = how == STORE_NOWAIT;
	bool		briefly = false;
	bool		waited = false;

	if (!b->batch.active)
	{
		if (b->conn.state == CONN_READY)
			(void) node_batch_check_connection(b, false);
		return true;
	}
	for (;;)
	{
		node_batch_process(b, readable, briefly, 0);
		briefly = false;
		if (!b->batch.active)
			return true;

		/* Even if the time is up: this takes little, and the reply may be there. */
		if (!waited && redis_may_wait_briefly(b, how))
		{
			waited = readable = briefly = true;
			continue;
		}
		node_batch_check_time(b);
		if (!b->batch.active)
			return true;
		switch (how)
		{
			case STORE_NOWAIT:
				return false;
			case STORE_WAIT:
				readable = redis_wait_latch(b);
				break;
			case STORE_POLL:
				readable = redis_wait_poll(b);
				break;
		}
	}
}

/* ----------
 * The interface
 * ----------
 */

static StoreHandle *
redis_open(const char *role)
{
	RedisHandle *h = MemoryContextAllocZero(TopMemoryContext,
											sizeof(RedisHandle));

	/* What may raise on first use must not do so later. */
	(void) redis_script(REDIS_PROOF_SCRIPT);
	(void) LR_WAIT_CONNECT;
	(void) LR_WAIT_REPLY;

	node_batch_init(&h->node, NODE_REDIS, role,
					strncmp(role, "watchdog", strlen("watchdog")) == 0,
					strcmp(role, "watchdog") == 0);
	return (StoreHandle *) h;
}

static void
redis_start(StoreHandle *h, StoreOp *ops, int nops, int64 deadline)
{
	node_batch_start(redis_node(h), ops, nops, deadline);
}

static void
redis_abandon(StoreHandle *h)
{
	node_batch_abandon(redis_node(h));
}

static int
redis_interests(StoreHandle *h, StoreInterest *out, int64 *until, uint32 *epoch)
{
	const NodeBatch *b = redis_node(h);
	bool		active = b->batch.active;

	*epoch = b->conn.socket.epoch;
	*until = active ? node_batch_until(b) : LR_NEVER;
	if (b->conn.socket.fd == PGINVALID_SOCKET)
		return 0;
	out->sock = b->conn.socket.fd;
	out->events = active ? redis_conn_events(&b->conn) : WL_SOCKET_READABLE;
	return 1;
}

static bool
redis_connected(StoreHandle *h)
{
	return node_batch_is_connected(redis_node(h));
}

static int64
redis_let_go(StoreHandle *h, int64 unused_since)
{
	return node_batch_let_go(redis_node(h), unused_since);
}

/*
 * redis_reserve --- have the buffer as large as releases of n keys need
 *
 * Only to make it likely that they go out in few writes: with less memory they
 * go out in smaller commands.  A release of one key, its script included,
 * always fits into the buffer that every connection starts with.
 */
static void
redis_reserve(StoreHandle *h, int n)
{
	(void) resp_out_room(&redis_node(h)->conn.out, redis_release_size(n));
}

static const StoreError *
redis_error(StoreHandle *h)
{
	return &redis_node(h)->batch.error;
}

static void
redis_disconnect(StoreHandle *h)
{
	NodeBatch  *b = redis_node(h);

	node_batch_abandon(b);
	redis_conn_close(&b->conn);
	redis_target_set(&b->target, NODE_REDIS);
}

static void
redis_stay(StoreHandle *h)
{
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

const StoreRoutine redis_store = {
	.name = "redis",
	.features = STORE_HAS_FENCE | STORE_HAS_PUSH | STORE_HAS_FACTS |
		STORE_HAS_PLACE | STORE_LATE_CREATES | STORE_HAS_REPLICAS | STORE_HAS_ORDER |
		STORE_HAS_TOGETHER | STORE_HAS_CONDITIONS,
	.node = NODE_REDIS,
	.role = ROLE_MASTER,
	.open = redis_open,
	.start = redis_start,
	.step = redis_step,
	.abandon = redis_abandon,
	.interests = redis_interests,
	.reserve = redis_reserve,
	.error = redis_error,
	.connected = redis_connected,
	.disconnect = redis_disconnect,
	.let_go = redis_let_go,
	.stay = redis_stay,
	.usable = redis_usable,
	.follow_start = redis_follow_start,
	.follow_step = redis_follow_step,
	.follow_interests = redis_follow_interests,
	.listener_open = redis_listener_open,
	.listener_subscribe = redis_listener_subscribe,
	.listener_unsubscribe = redis_listener_unsubscribe,
	.listener_step = redis_listener_step,
	.listener_interests = redis_listener_interests,
	.listener_close = redis_listener_close,
};
