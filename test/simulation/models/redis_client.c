/*-------------------------------------------------------------------------
 *
 * redis_client.c
 *	  Stands for redis_store.c and all below it: the store interface, over the
 *	  simulated network.
 *
 * What matters above store.h is as there: a batch goes out in commands of
 * neighbours of the same kind, one refused key refuses its command, whose operations
 * are then tried one by one if the node runs scripts at all, a batch is
 * repeated once over a new connection but for creates, what was sent and not
 * answered is unknown, a node that let a request time out is marked silent, a
 * create carries the latest moment at which it may run by an estimate of the
 * node's clock that errs to the early side.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/models/redis_client.c
 *
 *-------------------------------------------------------------------------
 */
#include "../../../src/lockredis.h"

#include "../../../src/instance.h"
#include "../../../src/store/node.h"
#include "../../../src/store/redis/listener.h"
#include "../../../src/settings.h"

#include "../kernel/network.h"
#include "../kernel/redis_model.h"
#include "../workload/workload.h"
#include "kinds.h"
#include "redis_link.h"

#define FLIGHT_MAX	256
#define PASSES_MAX	4

typedef struct Command
{
	int			first;
	int			n;				/* 0: does the node run scripts at all? */
	int64		sent_at;
} Command;

struct StoreHandle
{
	RedisLink	link;
	bool		patient;
	bool		stays;

	bool		active;
	StoreOp    *ops;
	int			nops;
	int			left;
	int			next;
	int64		deadline;
	int64		progress_at;
	int64		reply_until;
	bool		reconnected;
	int			passes;
	bool		runs_scripts;
	bool		doubt;
	bool		proving;
	Command		flight[FLIGHT_MAX];
	int			flight_first;
	int			flight_n;

	StoreError	error;
};

/* ----------
 * Outcomes
 * ----------
 */

static void
set_error(StoreHandle *h, int sqlstate, const char *detail)
{
	memset(&h->error, 0, sizeof(h->error));
	h->error.sqlstate = sqlstate;
	strlcpy(h->error.detail, detail, sizeof(h->error.detail));
}

static void
settle(StoreHandle *h, StoreOp *op, StoreOutcome outcome)
{
	Assert(op->outcome == STORE_PENDING);
	op->outcome = outcome;
	h->left--;
}

static void
finish(StoreHandle *h)
{
	if (h->active && h->left == 0)
	{
		h->active = false;
		h->ops = NULL;
		h->nops = 0;
	}
}

static void
give_up(StoreHandle *h)
{
	for (int i = 0; i < h->nops && h->left > 0; i++)
		if (h->ops[i].outcome == STORE_PENDING)
			settle(h, &h->ops[i], h->ops[i].sent_at != 0 ? STORE_UNKNOWN : STORE_DOWN);
	h->flight_n = 0;
	finish(h);
}

static void
start_pass(StoreHandle *h)
{
	h->next = 0;
	h->proving = false;
}

static void
ground_flight(StoreHandle *h)
{
	for (; h->flight_n > 0; h->flight_n--)
	{
		Command    *c = &h->flight[h->flight_first];

		for (int i = c->first; i < c->first + c->n; i++)
			if (h->ops[i].kind == STORE_CREATE)
				settle(h, &h->ops[i], STORE_UNKNOWN);
		h->flight_first = (h->flight_first + 1) % FLIGHT_MAX;
	}
}

static void
connection_gone(StoreHandle *h, bool try_again, const char *detail)
{
	link_close(&h->link);
	ground_flight(h);
	set_error(h, ERRCODE_CONNECTION_FAILURE, detail);
	if (h->left > 0 && try_again && !h->reconnected && !h->stays)
	{
		h->reconnected = true;
		start_pass(h);
		link_open(&h->link);
		return;
	}
	give_up(h);
}

/* ----------
 * Sending
 * ----------
 */

static RedisVerb
verb_of(StoreOpKind kind)
{
	static const RedisVerb verbs[] = {
		[STORE_CREATE] = REDIS_CREATE,
		[STORE_SET] = REDIS_SET,
		[STORE_RELEASE] = REDIS_RELEASE,
		[STORE_RENEW] = REDIS_RENEW,
		[STORE_MINT] = REDIS_MINT,
		[STORE_FORCE] = REDIS_FORCE,
		[STORE_INSPECT] = REDIS_INSPECT,
		[STORE_PROBE] = REDIS_PROBE,
		[STORE_FACTS] = REDIS_TIME,
		[STORE_TIME] = REDIS_TIME,
	};

	return verbs[kind];
}

static void
fill(StoreHandle *h, StoreOp *op, int64 now, RedisArg *a)
{
	char		owner[LR_OWNER_MAX];

	memcpy(a->key, op->name, op->name_len);
	if (op->kind == STORE_FORCE)
		memcpy(a->owner, op->owner_text, op->owner_text_len);
	else if (op->owner != 0)
	{
		lr_owner_text(op->owner, owner);
		strlcpy(a->owner, owner, REDIS_OWNER);
	}
	if (op->kind == STORE_CREATE)
	{
		int64		until = Min(h->deadline, now + lr_command_timeout * LR_US_PER_MS);

		op->not_after = (until + h->link.clock_offset) / LR_US_PER_MS;
	}
	a->lease_ms = op->lease_ms;
	a->keep_ms = op->keep_ms;
	a->not_after = op->not_after;
	a->floor = op->floor;
	a->count = op->count;
	a->fenced = op->fenced;
	a->shared = op->lock_kind != KIND_REENTRANT;
	a->excludes_nobody = op->lock_kind == KIND_FREE;
}

static bool
is_shared(StoreOpKind kind)
{
	return kind == STORE_RENEW || kind == STORE_RELEASE;
}

/* Of each command when it is put together. */
static Command *
push_command(StoreHandle *h, int first)
{
	Command    *c = &h->flight[(h->flight_first + h->flight_n) % FLIGHT_MAX];
	int64		now = lr_now();

	c->first = first;
	c->n = 0;
	c->sent_at = now;
	if (h->flight_n++ == 0)
	{
		h->progress_at = now;
		h->reply_until = Min(h->deadline, now + lr_command_timeout * LR_US_PER_MS);
	}
	return c;
}

static void
send_proof(StoreHandle *h)
{
	RedisRequest q;

	memset(&q, 0, sizeof(q));
	q.verb = REDIS_PROBE;
	q.n = 1;
	h->proving = true;
	(void) push_command(h, 0);
	sim_yield("send");
	net_send(h->link.conn, &q, sizeof(q));
}

static void
send_command(StoreHandle *h)
{
	StoreOp    *op = &h->ops[h->next];
	int			max = is_shared(op->kind) && !op->alone ? REDIS_GROUP : 1;
	Command    *c = push_command(h, h->next);
	int64		now = c->sent_at;
	RedisRequest q;

	memset(&q, 0, sizeof(q));
	q.verb = verb_of(op->kind);
	while (q.n < max && h->next < h->nops && h->ops[h->next].kind == op->kind &&
		   (q.n == 0 || !h->ops[h->next].alone) &&
		   h->ops[h->next].outcome == STORE_PENDING)
	{
		fill(h, &h->ops[h->next], now, &q.arg[q.n++]);
		if (h->ops[h->next].sent_at == 0)
			h->ops[h->next].sent_at = now;
		h->next++;
	}
	c->n = q.n;
	sim_yield("send");
	net_send(h->link.conn, &q, sizeof(q));
}

static void
send_commands(StoreHandle *h)
{
	for (;;)
	{
		if (h->doubt && !h->runs_scripts && !h->proving)
			send_proof(h);
		while (h->next < h->nops && h->ops[h->next].outcome != STORE_PENDING)
			h->next++;
		if (h->next == h->nops || h->flight_n == FLIGHT_MAX || h->proving)
			return;
		send_command(h);
	}
}

/* ----------
 * Replies
 * ----------
 */

static void
take_answer(StoreHandle *h, StoreOp *op, const RedisAnswer *a, bool repeated)
{
	strlcpy(op->holder, a->holder, sizeof(op->holder));
	op->ttl_ms = a->ttl_ms;
	op->fence = a->fence;
	op->store_ms = a->store_ms;
	op->hold_count = a->count;
	op->receivers = a->receivers;
	if (op->kind == STORE_INSPECT)
	{
		op->value = a->there ? STORE_VALUE_LOCK : STORE_VALUE_NONE;
		strlcpy(op->type_name, a->there ? "hash" : "none", sizeof(op->type_name));
		if (!a->there)
			op->ttl_ms = STORE_NO_TTL;
	}
	else
		op->value = STORE_VALUE_LOCK;
	switch (a->result)
	{
		case REDIS_DONE:
			settle(h, op, STORE_OK);
			break;
		case REDIS_BUSY:
			settle(h, op, STORE_BUSY);
			break;
		case REDIS_LATE:
			settle(h, op, STORE_LATE);
			break;
		case REDIS_GONE:

			/* The same request over a connection that was lost may have done it. */
			settle(h, op, repeated && (op->kind == STORE_RELEASE || op->kind == STORE_FORCE) ?
				   STORE_UNKNOWN : STORE_GONE);
			if (op->kind == STORE_RELEASE && op->outcome == STORE_GONE)
				ledger_release_gone(op->owner);
			break;
	}
}

/*
 * go_alone --- open again for the next pass, each in a command of its own
 *
 * Who has no right to a key is told so before anything is done.
 */
static void
go_alone(StoreHandle *h, const Command *c)
{
	for (int i = c->first; i < c->first + c->n; i++)
	{
		h->ops[i].alone = true;
		if (h->ops[i].sent_at == c->sent_at)
			h->ops[i].sent_at = 0;
	}
	h->doubt = true;
}

static void
refuse_rest(StoreHandle *h, StoreOutcome outcome)
{
	for (int i = 0; i < h->nops; i++)
		if (h->ops[i].outcome == STORE_PENDING)
			settle(h, &h->ops[i], outcome);
}

/* Is it worth asking for each of its locks? */
static bool
may_go_alone(const StoreHandle *h, const Command *c, const RedisReply *r)
{
	return is_shared(h->ops[c->first].kind) && h->passes < PASSES_MAX && !r->loading &&
		(c->n > 1 || (h->patient && !h->runs_scripts));
}

static void
take_refusal(StoreHandle *h, const Command *c, const RedisReply *r)
{
	StoreOutcome outcome = r->loading ? STORE_REFUSED : STORE_DENIED;

	set_error(h, r->loading ? ERRCODE_CONNECTION_FAILURE :
			  ERRCODE_SQLSERVER_REJECTED_ESTABLISHMENT_OF_SQLCONNECTION,
			  r->loading ? "The node answered: LOADING" : "The node answered: NOPERM");
	if (c->n == 0)
		refuse_rest(h, outcome);
	else if (may_go_alone(h, c, r))
		go_alone(h, c);
	else
		for (int i = c->first; i < c->first + c->n; i++)
		{
			h->ops[i].own_fault = c->n == 1 && !r->loading &&
				(h->runs_scripts || !h->patient);
			settle(h, &h->ops[i], outcome);
		}
}

static void
take_good(StoreHandle *h, const Command *c, const RedisReply *r)
{
	if (r->verb == REDIS_TIME || r->verb == REDIS_CREATE)
		link_set_clock(&h->link, r->answer[0].store_ms * LR_US_PER_MS);
	if (r->verb != REDIS_TIME)
		h->runs_scripts = true;
	if (c->n == 0)
		h->proving = false;
	for (int i = 0; i < c->n; i++)
	{
		StoreOp    *op = &h->ops[c->first + i];

		take_answer(h, op, &r->answer[i], op->sent_at < c->sent_at);
	}
}

static void
take_reply(StoreHandle *h, const RedisReply *r)
{
	Command    *c = &h->flight[h->flight_first];

	Assert(h->flight_n > 0);
	if (r->denied || r->loading)
		take_refusal(h, c, r);
	else
		take_good(h, c, r);
	h->flight_first = (h->flight_first + 1) % FLIGHT_MAX;
	h->flight_n--;
	h->progress_at = lr_now();
	h->reply_until = Min(h->deadline, h->progress_at + lr_command_timeout * LR_US_PER_MS);
}

/* ----------
 * Stepping
 * ----------
 */

static void
process(StoreHandle *h)
{
	while (h->active)
	{
		RedisReply	reply;
		bool		heard = false;

		link_advance(&h->link);
		if (h->link.state == LINK_CLOSED)
		{
			connection_gone(h, false, "Could not connect to the node.");
			return;
		}
		if (h->link.state != LINK_READY)
			return;
		if (h->flight_n == 0 && h->next >= h->nops)
		{
			h->passes++;
			start_pass(h);
		}
		send_commands(h);
		sim_yield("receive");
		while (h->active && h->flight_n > 0 &&
			   net_receive(h->link.conn, &reply, sizeof(reply)))
		{
			take_reply(h, &reply);
			heard = true;
			finish(h);
		}
		if (heard && !h->stays && node_is_silent(NODE_REDIS))
			node_set_silent(NODE_REDIS, false);
		if (!h->active)
			return;
		if (net_state(h->link.conn) == NET_CLOSED)
		{
			connection_gone(h, true, "The node closed the connection.");
			continue;
		}
		if (!heard && !(h->next < h->nops))
			return;
		if (!heard)
			return;
	}
}

static void
check_time(StoreHandle *h)
{
	int64		now;

	if (!h->active)
		return;
	now = lr_now();
	if (h->link.state != LINK_READY)
	{
		if (now >= h->deadline)
			connection_gone(h, false, "Could not connect to the node in time.");
		return;
	}
	if (now < h->reply_until)
		return;
	if (!h->stays && now - h->progress_at >= lr_command_timeout * LR_US_PER_MS)
		node_set_silent(NODE_REDIS, true);
	connection_gone(h, false, "The node did not answer in time.");
}

static int64
wait_until(const StoreHandle *h)
{
	if (h->link.state == LINK_READY)
		return h->reply_until;
	return Min(h->deadline, h->link.connect_until);
}

/*
 * wait_latch --- for the node or the latch
 */
static void
wait_latch(StoreHandle *h)
{
	int64		until = wait_until(h);

	backend_must_hold_no_lock("a wait for the store");
	sim_yield("wait");
	backend_drain();
	while (!MyLatch->is_set && !link_is_ready(&h->link) && sim_now() < until)
		sim_block(until, true, "store");
	ledger_waited();
	if (MyLatch->is_set)
	{
		ResetLatch(MyLatch);
		sim_check_for_interrupts();
	}
}

static void
wait_poll(StoreHandle *h)
{
	int64		until = wait_until(h);

	backend_must_hold_no_lock("a wait for the store");
	sim_yield("wait");
	backend_drain();
	while (!link_is_ready(&h->link) && sim_now() < until)
		sim_block(until, true, "store");
}

static bool
redis_step(StoreHandle *h, StoreStep how)
{
	if (!h->active)
	{
		link_check(&h->link);
		return true;
	}
	for (;;)
	{
		process(h);
		check_time(h);
		if (!h->active)
			return true;
		if (how == STORE_NOWAIT)
			return false;
		if (how == STORE_WAIT)
			wait_latch(h);
		else
			wait_poll(h);
	}
}

/* ----------
 * The interface
 * ----------
 */

static StoreHandle *
redis_open(const char *role)
{
	StoreHandle *h = MemoryContextAllocZero(TopMemoryContext, sizeof(StoreHandle));

	h->patient = strcmp(role, "watchdog") == 0;
	link_init(&h->link);
	return h;
}

static void
forget_batch(StoreHandle *h)
{
	if (!h->active)
		return;
	if (h->link.state != LINK_READY || h->flight_n > 0)
		link_close(&h->link);
	h->flight_n = 0;
	h->left = 0;
	finish(h);
}

static void
redis_abandon(StoreHandle *h)
{
	if (!h->active)
		return;
	if (h->link.state != LINK_READY || h->flight_n > 0)
	{
		ground_flight(h);
		link_close(&h->link);
	}
	set_error(h, ERRCODE_CONNECTION_FAILURE, "The request was given up before it was answered.");
	give_up(h);
}

static void
refuse(StoreHandle *h, const char *detail)
{
	set_error(h, ERRCODE_CONNECTION_FAILURE, detail);
	give_up(h);
}

static void
redis_start(StoreHandle *h, StoreOp *ops, int nops, int64 deadline)
{
	backend_must_hold_no_lock("a request");
	forget_batch(h);
	h->ops = ops;
	h->nops = nops;
	h->left = nops;
	h->next = 0;
	h->deadline = deadline;
	h->reply_until = deadline;
	h->reconnected = false;
	h->passes = 0;
	h->runs_scripts = h->doubt = h->proving = false;
	h->error.sqlstate = 0;
	h->error.detail[0] = '\0';
	h->active = nops > 0;
	for (int i = 0; i < nops; i++)
	{
		ops[i].outcome = STORE_PENDING;
		ops[i].sent_at = 0;
		ops[i].not_after = 0;
		ops[i].own_fault = false;
	}
	if (!h->active)
		return;
	if (!h->patient && node_is_silent(NODE_REDIS) && lr_watchdog_running())
	{
		refuse(h, "The node did not answer lately; it is tried again in the background.");
		return;
	}
	if (lr_now() >= deadline)
	{
		refuse(h, "There was no time left to ask the node.");
		return;
	}
	link_check(&h->link);
	if (h->link.state != LINK_READY && h->stays)
	{
		refuse(h, "The connection was lost.");
		return;
	}
	if (h->link.state != LINK_READY)
		link_open(&h->link);
	process(h);
}

static int
redis_interests(StoreHandle *h, StoreInterest *out, int64 *until, uint32 *epoch)
{
	*until = h->active ? wait_until(h) : LR_NEVER;
	return link_interest(&h->link, out, epoch);
}

static void
redis_reserve(StoreHandle *h, int n)
{
}

static const StoreError *
redis_error(StoreHandle *h)
{
	return &h->error;
}

static bool
redis_connected(StoreHandle *h)
{
	return h->link.state == LINK_READY;
}

static void
redis_disconnect(StoreHandle *h)
{
	redis_abandon(h);
	link_close(&h->link);
	h->stays = false;
}

static void
redis_stay(StoreHandle *h)
{
	h->stays = true;
}

const StoreRoutine redis_store = {
	.name = "redis",
	.features = STORE_HAS_FENCE | STORE_HAS_PUSH | STORE_HAS_FACTS |
		STORE_HAS_PLACE | STORE_LATE_CREATES,
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
	.stay = redis_stay,
	.listener_open = redis_listener_open,
	.listener_subscribe = redis_listener_subscribe,
	.listener_unsubscribe = redis_listener_unsubscribe,
	.listener_step = redis_listener_step,
	.listener_interests = redis_listener_interests,
	.listener_close = redis_listener_close,
};
