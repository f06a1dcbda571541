/*-------------------------------------------------------------------------
 *
 * node_batch.c
 *	  A batch of operations at one Redis node; see node_batch.h.
 *
 * A batch is sent in the order of its array.  Each operation is one EVALSHA (or TIME or
 * INFO); adjacent ones of the same kind and script share a command if the script takes
 * several locks (see ops.c).  Operations that replicas have to confirm are followed by a
 * WAIT (see flight.c).
 *
 * Nothing in here raises or allocates in a memory context, so it may run at the end of a
 * transaction and of the process.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/node_batch.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "names.h"
#include "settings.h"
#include "stats.h"
#include "store/nodes.h"
#include "store/redis/node_batch.h"

/*
 * A connection over which the node has answered so recently is used again without a
 * check.  If the node has closed it since, that shows when the reply is read, and
 * nothing is lost.  The time must be short: a surplus reply, which may come a little
 * late, would be taken for the reply to the next request.
 */
#define HEARD_LATELY		(10 * LR_US_PER_MS)

static void
nbatch_finish(NodeBatch *b)
{
	if (!batch_finish(&b->batch))
		return;
	if (b->drop)
		redis_conn_close(&b->conn);
	flight_leave(b);
}

/* ----------
 * The connection ends
 * ----------
 */

/*
 * nbatch_give_up --- nothing more will be sent or read for open operations
 *
 * "unsent" is the outcome of those that were never sent.
 */
static void
nbatch_give_up(NodeBatch *b, StoreOutcome unsent)
{
	batch_give_up(&b->batch, unsent);
	nbatch_finish(b);
}

/*
 * nbatch_connection_gone --- the connection was closed during a batch
 *
 * A kept connection may have died unnoticed, so connect once more; but not after a
 * timeout or an invalid reply, nor if it was connecting that failed.
 */
static void
nbatch_connection_gone(NodeBatch *b, bool try_again)
{
	flight_ground(b);
	confirm_lost(b);
	b->batch.error = b->conn.failure.error;
	if (b->target.kind == TARGET_SHARD)
		cluster_want_map();
	if (b->batch.left > 0 && try_again && !b->reconnected &&
		b->target.node != NODE_NONE)
	{
		b->reconnected = true;
		b->next = 0;
		redis_conn_open(&b->conn, &b->target, b->batch.deadline);
		return;
	}
	refusal_report(b);
	nbatch_give_up(b, b->conn.failure.outcome);
}

void
node_batch_fail(NodeBatch *b, int sqlstate, const char *detail)
{
	redis_conn_fail(&b->conn, sqlstate, "%s", detail);
	nbatch_connection_gone(b, false);
}

/* ----------
 * Sending
 * ----------
 */

/*
 * pass_is_to_send --- is the operation still to be sent?  One that only waits for
 * replicas is not.
 */
static bool
pass_is_to_send(const NodeBatch *b, const StoreOp *op)
{
	return op->outcome == STORE_PENDING && !op->sent.done && batch_has(&b->batch, op);
}

/*
 * pass_group_size --- how many operations from "first" on share a command
 */
static int
pass_group_size(const NodeBatch *b, int first)
{
	const StoreOp *ops = b->batch.ops;
	int			max = ops[first].args.alone ? 1 :
		Min(redis_op_group(&ops[first]), b->batch.nops - first);
	int			n = 1;

	Assert(ops[first].args.together <= max);
	if (ops[first].args.together > 0)
		return ops[first].args.together;
	while (n < max && !ops[first + n].args.alone &&
		   redis_ops_are_alike(&ops[first + n], &ops[first]) &&
		   ops[first + n].sent.slot == ops[first].sent.slot && !ops[first].sent.asking &&
		   !ops[first + n].sent.asking && pass_is_to_send(b, &ops[first + n]))
		n++;
	return n;
}

/*
 * pass_put --- append ops[first .. first + n) as one command; false when out of memory
 *
 * An EVAL loads its script for the commands behind it.
 */
static bool
pass_put(NodeBatch *b, int first, int n)
{
	RespOut    *out = &b->conn.out;
	uint64		starts_at = out->put;
	LuaId		script;

	redis_put_ops(out, &b->batch.ops[first], n, ~b->loaded, redis_conn_has_shards(&b->conn));
	if (!resp_out_fits(out, starts_at))
		return false;
	if (redis_op_script(&b->batch.ops[first], &script))
		b->loaded |= SCRIPT_BIT(script);
	return true;
}

/*
 * pass_drop_next --- the next operation does not fit into memory: settle it as not sent
 * this time
 */
static void
pass_drop_next(NodeBatch *b)
{
	StoreOp    *op = &b->batch.ops[b->next++];

	batch_set_error(&b->batch, ERRCODE_OUT_OF_MEMORY, "Out of memory.");
	batch_settle(&b->batch, op, op->sent.at != 0 ? STORE_UNKNOWN : STORE_DOWN);
}

/*
 * pass_encode_asking --- the next command is for a slot that is being moved to this node
 *
 * If there is no memory for ASKING, the node will answer that the slot is not its own.
 */
static void
pass_encode_asking(NodeBatch *b, int64 now)
{
	RespOut    *out = &b->conn.out;
	uint64		starts_at = out->put;

	resp_put_request(out, 1, "ASKING");
	if (resp_out_fits(out, starts_at))
		flight_push(b, COMMAND_ASKING, 0, 0, starts_at, now);
}

/*
 * pass_encode_next --- encode the next command of this pass
 *
 * When out of memory, try with fewer operations.
 */
static void
pass_encode_next(NodeBatch *b)
{
	StoreOp    *op = &b->batch.ops[b->next];
	int			n = pass_group_size(b, b->next);
	int64		now = lr_now();
	uint64		starts_at;

	if (op->sent.asking)
		pass_encode_asking(b, now);
	starts_at = b->conn.out.put;

	/* It must not run any more when nobody waits for the reply. */
	for (int i = 0; i < n && store_runs_once(op->kind); i++)
		op[i].sent.not_after = (flight_limit(b, now) + b->conn.clock_offset) / LR_US_PER_MS;
	while (!pass_put(b, b->next, n))
	{
		if (n == 1 || op->args.together > 0)
		{
			while (n-- > 0)
				pass_drop_next(b);
			return;
		}
		n /= 2;
	}
	for (int i = 0; i < n; i++)
	{
		if (op[i].sent.at == 0)
			op[i].sent.at = now;
		else
			op[i].sent.again = true;
		if (b->target.kind == TARGET_VOTER)
			op[i].sent.topology = b->conn.facts.life;
		else if (b->target.kind != TARGET_SHARD)
			op[i].sent.topology = b->target.topology;
		/*
		 * The check whether it can still run would ask the node that the map names, not
		 * this one.
		 */
		if (op->sent.asking && store_runs_once(op->kind))
			op[i].sent.not_after = NOT_AFTER_UNKNOWN;
		confirm_want(b, &op[i]);
	}
	b->asked = b->asked || op->kind == STORE_PROBE;
	flight_push(b, COMMAND_OPS, b->next, n, starts_at, now);
	b->next += n;
}

/*
 * pass_send --- send as many commands as the ring, the buffer and the kernel accept
 *
 * False if the connection was lost.
 */
static bool
pass_send(NodeBatch *b)
{
	const StoreBatch *batch = &b->batch;
	RespOut    *out = &b->conn.out;

	for (;;)
	{
		bool		more;

		while (b->next < batch->nops && !pass_is_to_send(b, &batch->ops[b->next]))
			b->next++;
		more = (b->next < batch->nops || b->wanted > 0) &&
			b->flight_n < FLIGHT_MAX - 1;
		if (more && !resp_out_is_high(out))
		{
			if (b->next < batch->nops)
				pass_encode_next(b);
			else if (!confirm_put(b))
			{
				redis_conn_fail(&b->conn, ERRCODE_OUT_OF_MEMORY, "Out of memory.");
				return false;
			}
			continue;
		}
		if (resp_out_is_empty(out))
			return true;
		if (!redis_conn_flush(&b->conn))
			return false;
		if (!more || !resp_out_is_empty(out))
			return true;
	}
}

/* ----------
 * Replies
 * ----------
 */

/*
 * reply_note_clock --- note the node's clock if the reply for the operation has it
 */
static void
reply_note_clock(NodeBatch *b, const StoreOp *op, int64 now)
{
	if (op->answer.store_ms != 0)
		b->conn.clock_offset = redis_clock_offset(op->answer.store_ms * LR_US_PER_MS, now);
}

/*
 * reply_note_service --- the node has done this operation: it serves others, too
 *
 * One that is loading answers TIME and INFO, and serves nobody.  One that refuses writes is no
 * use to a session, although it answers what is only read: a lock that is taken or released is
 * always written.  A place that lockredis.url does not name any more says nothing about the
 * present one.  But what a session is answered there in a long statement counts: the present
 * place may be the same one under another name.
 */
static void
reply_note_service(const NodeBatch *b, const StoreOp *op, StoreOutcome outcome, int64 now)
{
	bool		writes = (op->kind == STORE_CREATE || op->kind == STORE_RELEASE) &&
		!lr_kind(op->lock_kind)->ownerless;

	if (b->target.node != NODE_NONE && op->kind != STORE_TIME && op->kind != STORE_FACTS)
		silence_heard(now, outcome == STORE_OK && !b->patient && writes ? op->sent.at : 0);
}

/*
 * reply_take_one --- take the reply for one operation; false if it is not a valid one
 */
static bool
reply_take_one(NodeBatch *b, StoreOp *op, const RedisCommand *cmd,
			   const redisReply *v, int64 now)
{
	StoreOutcome outcome = redis_take_op(op, v, op->sent.at < cmd->encoded_at);

	if (outcome == STORE_PENDING)
		return false;
	reply_note_clock(b, op, now);
	reply_note_service(b, op, outcome, now);
	if (op->kind == STORE_FACTS)
		redis_conn_take_info(&b->conn, v->str);
	if (outcome == STORE_OK)
		confirm_done(b, op);
	else
		batch_settle(&b->batch, op, outcome);
	return true;
}

/*
 * reply_take_together --- take the one reply to creates that are taken together
 */
static bool
reply_take_together(NodeBatch *b, const RedisCommand *cmd, const redisReply *v, int64 now)
{
	StoreOp    *ops = &b->batch.ops[cmd->first];
	int			which;
	StoreOutcome outcome = redis_take_together(ops, cmd->nops, v, &which);

	if (outcome == STORE_PENDING)
		return false;
	reply_note_clock(b, &ops[Max(which, 0)], now);
	reply_note_service(b, ops, outcome, now);
	for (int i = 0; i < cmd->nops; i++)
	{
		if (outcome == STORE_OK)
			confirm_done(b, &ops[i]);
		else
			batch_settle(&b->batch, &ops[i], which < 0 || which == i ? outcome : STORE_BUSY);
	}
	return true;
}

/*
 * reply_take_good --- take a reply that is no error; false if it is not a valid one
 */
static bool
reply_take_good(NodeBatch *b, const RedisCommand *cmd, int64 now)
{
	const redisReply *v = b->conn.in.reply;
	StoreOp    *ops = &b->batch.ops[cmd->first];
	bool		good = true;
	LuaId		script;

	if (redis_op_script(ops, &script))
	{
		b->runs_scripts = true;
		b->ran |= SCRIPT_BIT(script);
	}
	if (ops->args.together > 0)
		return reply_take_together(b, cmd, v, now);
	if (redis_op_group(ops) == 1 || (cmd->nops == 1 && v->type == REDIS_REPLY_INTEGER))
		return reply_take_one(b, ops, cmd, v, now);

	if (v->type != REDIS_REPLY_ARRAY || v->elements != cmd->nops)
		return false;
	for (int i = 0; good && i < cmd->nops; i++)
	{
		if (v->element[i]->type == REDIS_REPLY_ERROR)
			refusal_of_one(b, &ops[i], v->element[i]);
		else
			good = reply_take_one(b, &ops[i], cmd, v->element[i], now);
	}
	return good;
}

/*
 * past_is_owed --- is the reply to a command of a batch that has ended the next one?
 */
static bool
past_is_owed(NodeBatch *b)
{
	return b->past_n > 0 && flight_oldest(b)->starts_at < b->conn.out.sent;
}

/*
 * past_take --- take it; false if it is not a valid one
 */
static bool
past_take(NodeBatch *b, int64 now)
{
	const redisReply *v = b->conn.in.reply;

	if (v->type != REDIS_REPLY_ERROR)
		silence_heard(now, 0);
	return flight_take_past(b, v);
}

/*
 * reply_take --- a reply has been parsed; false if the batch has failed
 *
 * A reply to a command that was not sent yet is not valid.
 */
static bool
reply_take(NodeBatch *b)
{
	const redisReply *v = b->conn.in.reply;
	RedisCommand *cmd = flight_oldest(b);
	bool		good = cmd != NULL && b->conn.out.sent > cmd->starts_at;
	int64		now = lr_now();

	if (good && b->past_n > 0)
		good = past_take(b, now);
	else if (good && cmd->kind == COMMAND_WAIT)
		good = confirm_take(b, v);
	else if (good && cmd->kind == COMMAND_ASKING)
		good = v->type == REDIS_REPLY_STATUS || v->type == REDIS_REPLY_ERROR;
	else if (good && v->type == REDIS_REPLY_ERROR)
		refusal_take(b, cmd);
	else if (good)
		good = reply_take_good(b, cmd, now);
	if (!good)
	{
		node_batch_fail(b, ERRCODE_STORE_FAILED,
						"The node's answer makes no sense.");
		return false;
	}
	flight_land_oldest(b);
	flight_note_progress(b, now);
	return true;
}

/* ----------
 * Stepping
 * ----------
 */

/*
 * nbatch_retarget --- connect to the present target instead, within the same time limit
 */
static void
nbatch_retarget(NodeBatch *b)
{
	int64		until = b->conn.connect.until;

	redis_conn_close(&b->conn);
	redis_target_set(&b->target, b->target.node);
	redis_conn_open(&b->conn, &b->target, until);
}

/*
 * nbatch_is_overtaken --- must a new connection not be used any more?
 *
 * That is so if another node is the master by now, or is about to be, or if the master
 * is not known for sure since the watchdog's own connection has ended: a node that was
 * restarted meanwhile may have answered the handshake.
 */
static bool
nbatch_is_overtaken(const NodeBatch *b)
{
	char		why[sizeof(b->batch.error.detail)];

	return b->target.kind == TARGET_MASTER && b->target.node != NODE_NONE &&
		(redis_target_is_outdated(&b->target) ||
		 redis_target_look(&b->target, why, sizeof(why)) != TARGET_OPEN);
}

/*
 * nbatch_connect --- go on connecting; false while the connection is not ready
 *
 * No password is sent to where a former lockredis.url points, and no request to a former
 * master: starting again finds out who is the master now, or why nobody is.
 */
static bool
nbatch_connect(NodeBatch *b)
{
	RedisConn  *c = &b->conn;

	if ((c->state == CONN_CONNECTING || c->state == CONN_SECURING) &&
		redis_target_is_outdated(&b->target))
		nbatch_retarget(b);
	redis_conn_advance(c);
	if (c->state == CONN_READY && nbatch_is_overtaken(b))
	{
		nbatch_retarget(b);
		redis_conn_advance(c);
	}
	if (c->state == CONN_CLOSED)
		nbatch_connection_gone(b, false);
	if (c->state != CONN_READY)
		return false;
	lr_count(STAT_CONNECTS);
	b->connection = c->socket.epoch;
	b->loaded = b->unread ? 0 : ~(ScriptSet) 0;
	b->ran = 0;
	flight_ground(b);
	return true;
}

/*
 * nbatch_take_replies --- take all complete ones; true if the batch goes on over this
 * connection
 */
static bool
nbatch_take_replies(NodeBatch *b)
{
	while (b->batch.active && redis_conn_reply(&b->conn))
	{
		if (!reply_take(b))
			return false;
	}
	return true;
}

/*
 * node_batch_process --- see node_batch.h
 *
 * Sends before it reads, so that the node has something to do meanwhile.
 */
void
node_batch_process(NodeBatch *b, bool readable, bool briefly)
{
	RedisConn  *c = &b->conn;
	int			nreads = 0;

	readable = readable && !b->quiet;
	b->quiet = false;
	while (b->batch.active)
	{
		RedisRead	got;

		if (c->state != CONN_READY)
		{
			if (!nbatch_connect(b))
				return;
			readable = false;
		}
		if (redis_conn_close_other(c))
		{
			nbatch_connection_gone(b, true);
			continue;
		}
		if (!flight_is_any(b) && b->next >= b->batch.nops)
		{
			/* A script was not loaded, or a lock needs its own command: the next pass. */
			b->passes++;
			b->next = 0;
		}
		if (!pass_send(b))
		{
			nbatch_connection_gone(b, true);
			continue;
		}
		nbatch_finish(b);
		if (!readable || !b->batch.active)
			return;

		got = redis_conn_receive(c, briefly);
		briefly = false;
		if (got == REDIS_READ_NOTHING || !nbatch_take_replies(b))
			return;
		if (c->state == CONN_CLOSED)
		{
			nbatch_connection_gone(b, !c->garbled);
			continue;
		}
		redis_target_set_silent(&b->target, false);
		nbatch_finish(b);
		readable = redis_conn_reads_on(got, &nreads);
	}
}

/*
 * node_batch_check_time --- end the batch whose time is up
 */
void
node_batch_check_time(NodeBatch *b)
{
	int64		now;

	if (!b->batch.active)
		return;
	now = lr_now();
	if (b->conn.state != CONN_READY)
	{
		/* redis_conn_advance() checks the connection's own limit. */
		if (now >= b->batch.deadline)
			node_batch_fail(b, ERRCODE_STORE_UNREACHABLE,
							"Could not connect to the node in time.");
		return;
	}
	if (now < b->reply_until)
		return;

	/*
	 * If the node had all of its time, mark it as silent, so that no other process waits
	 * as long; unless it is waiting for replicas.
	 */
	if (now - b->progress_at >= lr_command_timeout * LR_US_PER_MS &&
		!confirm_is_awaited(b))
		redis_target_set_silent(&b->target, true);
	node_batch_fail(b, ERRCODE_STORE_FAILED,
					"The node did not answer in time.");
}

int64
node_batch_until(const NodeBatch *b)
{
	if (b->conn.state == CONN_READY)
		return redis_conn_has_more(&b->conn) ? 0 : b->reply_until;
	return Min(b->batch.deadline, redis_conn_until(&b->conn));
}

bool
node_batch_awaits_reply(const NodeBatch *b)
{
	return b->conn.state == CONN_READY && flight_is_any(b) && b->conn.out.len == 0;
}

/* ----------
 * Beginning and end
 * ----------
 */

bool
node_batch_make(NodeBatch *b, NodeId node, const char *role, bool patient,
				bool judge)
{
	b->patient = patient;
	b->target.scout = judge;
	redis_target_set(&b->target, node);
	return redis_conn_make(&b->conn, role, judge);
}

NodeBatch *
node_set_link(NodeSet *s, int row)
{
	NodeBatch  *b = s->node[row];

	if (b != NULL)
		return b;
	b = calloc(1, s->method->link_size);
	if (b == NULL ||
		!node_batch_make(b, s->first + row, s->role, s->patient, s->judge && row == s->home))
	{
		free(b);
		return NULL;
	}
	b->unread = !s->method->parted;
	s->node[row] = b;
	return b;
}

/*
 * node_batch_drop --- drop a batch without touching its operations
 *
 * For batches that a longjmp has left: the memory of the operations may be gone.  With
 * replies still to come the connection is of no further use.
 */
void
node_batch_drop(NodeBatch *b)
{
	if (!b->batch.active)
		return;
	if (b->drop || b->conn.state != CONN_READY || flight_is_any(b))
		redis_conn_close(&b->conn);
	b->flight_n = b->past_n;
	batch_forget(&b->batch);
}

/*
 * nbatch_refuse --- fail the batch before anything is tried
 */
static void
nbatch_refuse(NodeBatch *b, int sqlstate, const char *detail)
{
	batch_set_error(&b->batch, sqlstate, detail);
	nbatch_give_up(b, STORE_DOWN);
}

void
node_batch_abandon(NodeBatch *b)
{
	if (!b->batch.active)
		return;
	if (b->conn.state != CONN_READY || flight_is_any(b))
	{
		flight_ground(b);
		confirm_lost(b);
		redis_conn_close(&b->conn);
	}
	nbatch_refuse(b, ERRCODE_STORE_FAILED,
				  "The request was given up before it was answered.");
}

/*
 * node_batch_check_connection --- see node_batch.h
 *
 * What comes while replies are owed is expected.
 */
bool
node_batch_check_connection(NodeBatch *b, bool lately)
{
	RedisConn  *c = &b->conn;
	int			nreads = 0;

	if (redis_conn_close_other(c))
		return false;
	if (b->left_n > 0 && lately)
		return true;
	while (past_is_owed(b) && redis_conn_next(c, &nreads))
	{
		if (past_take(b, lr_now()))
			flight_land_oldest(b);
		else
			redis_conn_fail(c, ERRCODE_STORE_FAILED, "The node's answer makes no sense.");
	}
	return c->state == CONN_READY && (past_is_owed(b) || redis_conn_check(c, lately));
}

void
node_batch_send_idle(NodeBatch *b)
{
	if (!b->batch.active && node_batch_is_connected(b) && !resp_out_is_empty(&b->conn.out))
		(void) redis_conn_flush(&b->conn);
}

/*
 * node_batch_forget --- see node_batch.h
 *
 * Sending it with the next batch saves a system call, unless many are waiting.  If the
 * node reads nothing and the buffer is full, it is not sent at all: the store forgets by
 * itself.
 */
void
node_batch_forget(NodeBatch *b, const StoreOp *op)
{
	RespOut    *out = &b->conn.out;
	uint64		starts_at = out->put;

	if (resp_out_is_high(out))
		node_batch_send_idle(b);
	if (b->batch.active || !node_batch_is_connected(b) || resp_out_is_high(out) ||
		b->flight_n >= FLIGHT_MAX / 2)
		return;
	redis_put_forget(out, op);
	if (resp_out_fits(out, starts_at))
		flight_push(b, COMMAND_FORGET, 0, 0, starts_at, 0);
}

/*
 * node_batch_let_go --- see node_batch.h
 *
 * Runs in a signal handler.  This is safe because a batch is marked active before it
 * checks its connection.  When the node's WAITs are over, replies owed for them have
 * arrived, whether they have been read or not.
 */
int64
node_batch_let_go(NodeBatch *b, int64 unused_since)
{
	int64		now = lr_now();

	if (b->batch.active || (confirm_is_owed(b) && now < b->wait_until))
		return now;
	if (!node_batch_is_connected(b))
		return STORE_NOT_CONNECTED;
	if (b->progress_at > unused_since)
		return b->progress_at;
	redis_socket_shut(&b->conn.socket);
	return STORE_LET_GO;
}

/*
 * nbatch_has_connection --- is there a good connection to the present target?
 *
 * Decides whether that is worth a system call.
 */
static bool
nbatch_has_connection(NodeBatch *b, int64 now)
{
	RedisConn  *c = &b->conn;

	if (redis_target_is_outdated(&b->target))
	{
		redis_conn_close(c);
		redis_target_set(&b->target, b->target.node);
	}
	return c->state == CONN_READY &&
		node_batch_check_connection(b, now - b->progress_at < HEARD_LATELY);
}

/*
 * nbatch_has_master --- is the master known surely enough to use an existing connection?
 *
 * If not, the batch has failed.  For new connections conn.c checks that.
 */
static bool
nbatch_has_master(NodeBatch *b, int64 now)
{
	char		why[sizeof(b->batch.error.detail)];

	if (b->conn.state != CONN_READY || redis_target_is_trusted(&b->target, now) ||
		redis_target_is_outdated(&b->target))
		return true;
	if (redis_target_look(&b->target, why, sizeof(why)) != TARGET_CLOSED)
		strlcpy(why, "Which node is the master is not known for sure at present.",
				sizeof(why));
	nbatch_refuse(b, ERRCODE_STORE_UNREACHABLE, why);
	return false;
}

/*
 * nbatch_begin --- begin the batch; "now" is the present time
 */
static void
nbatch_begin(NodeBatch *b, int64 now)
{
	int64		deadline = b->batch.deadline;

	b->passes = 1;
	b->next = 0;
	b->reply_until = deadline;
	b->reconnected = b->drop = false;
	b->runs_scripts = b->asked = b->refuses = false;
	b->wanted = b->ndone = b->handed_on = 0;
	if (!b->batch.active)
		return;

	if (!b->patient && node_is_silent(b->target.node) && lr_watchdog_running())
		nbatch_refuse(b, ERRCODE_STORE_FAILED,
					  "The node did not answer lately; it is tried again in the background.");
	else if (now >= deadline)
		nbatch_refuse(b, ERRCODE_STORE_FAILED,
					  "There was no time left to ask the node.");
	else if (!nbatch_has_master(b, now))
		return;
	else if (nbatch_has_connection(b, now))
		node_batch_process(b, false, false);
	else if (b->target.node == NODE_NONE)
		nbatch_refuse(b, ERRCODE_STORE_FAILED,
					  "The connection was lost.");
	else
	{
		redis_conn_open(&b->conn, &b->target, deadline);
		node_batch_process(b, false, false);
	}
}

/*
 * node_batch_join --- see node_batch.h
 *
 * Operations that come later go out in the next pass, and may have as many passes as the
 * first ones.
 */
void
node_batch_join(NodeBatch *b, StoreOp *ops, int nops, int part, int n, int64 deadline)
{
	bool		under_way = b->batch.active;

	batch_join(&b->batch, ops, nops, part, n, deadline);
	if (under_way)
		b->passes = 0;
	else
		nbatch_begin(b, lr_now());
}
