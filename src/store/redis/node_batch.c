/*-------------------------------------------------------------------------
 *
 * node_batch.c
 *	  A batch of operations at one Redis node; see node_batch.h.
 *
 * A batch is sent in the order of its array.  Each operation is one EVALSHA (or
 * TIME or INFO); neighbours of the same operation and kind of lock share one
 * where the script takes several locks (see ops.h).
 *
 * Nothing in here raises or allocates in a memory context, so it may run at the
 * end of a transaction and of the process.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/node_batch.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "instance.h"
#include "settings.h"
#include "stats.h"
#include "store/node.h"
#include "store/redis/node_batch.h"

/*
 * A connection that was heard so short a time ago is not looked at before it is
 * used again.  If the node has ended it since, that is found when the reply is
 * read, and nothing is lost by it; but a reply too many would be taken for that
 * to the next request, and who sends one may do so a little later.
 */
#define HEARD_LATELY		(10 * LR_US_PER_MS)

/* Sent again because a script was not loaded: somebody flushes all the time. */
#define PASSES_MAX			4

static void
nbatch_finish(NodeBatch *b)
{
	if (batch_finish(&b->batch) && b->drop)
		redis_conn_close(&b->conn);
	Assert(b->batch.active || b->flight_n == 0);
}

/* ----------
 * Commands in flight
 * ----------
 */

static RedisCommand *
flight_oldest(NodeBatch *b)
{
	return b->flight_n > 0 ? &b->flight[b->flight_first] : NULL;
}

static void
flight_land_oldest(NodeBatch *b)
{
	b->flight_first = (b->flight_first + 1) % FLIGHT_MAX;
	b->flight_n--;
}

/*
 * flight_limit --- until when the reply to what is sent now is awaited at most
 */
static int64
flight_limit(const NodeBatch *b, int64 now)
{
	return Min(b->batch.deadline, now + lr_command_timeout * LR_US_PER_MS);
}

static void
flight_note_progress(NodeBatch *b, int64 now)
{
	b->progress_at = now;
	b->reply_until = flight_limit(b, now);
}

/*
 * flight_push --- remember what was put together: ops[first .. first + n)
 */
static void
flight_push(NodeBatch *b, int first, int n, uint64 starts_at, int64 now)
{
	RedisCommand *cmd = &b->flight[(b->flight_first + b->flight_n) % FLIGHT_MAX];

	if (b->flight_n == 0)
		flight_note_progress(b, now);
	b->flight_n++;
	cmd->first = first;
	cmd->nops = n;
	cmd->starts_at = starts_at;
	cmd->encoded_at = now;
}

/*
 * flight_never_ran --- this command surely did not run for this operation
 *
 * One for the same operation on a connection that was lost may have.
 */
static void
flight_never_ran(StoreOp *op, const RedisCommand *cmd)
{
	if (op->sent_at >= cmd->encoded_at)
		batch_mark_unsent(op);
}

/*
 * flight_ground --- the connection is gone: what becomes of commands in flight
 *
 * Of which no byte can have been read, those have not been sent.  Others may have
 * run: a create ends here, the rest stays open and may be repeated.
 */
static void
flight_ground(NodeBatch *b)
{
	RedisCommand *cmd;

	while ((cmd = flight_oldest(b)) != NULL)
	{
		bool		sent = cmd->starts_at < b->conn.out.sent;

		for (int i = cmd->first; i < cmd->first + cmd->nops; i++)
		{
			StoreOp    *op = &b->batch.ops[i];

			if (!sent)
				flight_never_ran(op, cmd);
			else if (op->kind == STORE_CREATE)
				batch_settle(&b->batch, op, STORE_UNKNOWN);
		}
		flight_land_oldest(b);
	}
}

/* ----------
 * The connection ends
 * ----------
 */

static void
pass_start(NodeBatch *b)
{
	b->next = 0;
	b->in_full = b->missing;
	b->missing = 0;
	b->proving = false;
}

/*
 * nbatch_give_up --- nothing more will be sent or read for what is open
 *
 * "unsent" is the outcome of what was never sent.
 */
static void
nbatch_give_up(NodeBatch *b, StoreOutcome unsent)
{
	batch_give_up(&b->batch, unsent);
	b->flight_n = 0;
	nbatch_finish(b);
}

/*
 * nbatch_report_error --- have what a session was told in redis_lock_status too
 *
 * The watchdog says there itself what it finds, and what is due to this process
 * alone is nobody's business.
 */
static void
nbatch_report_error(const NodeBatch *b)
{
	const StoreError *error = &b->batch.error;

	if (!b->patient &&
		ERRCODE_TO_CATEGORY(error->sqlstate) == ERRCODE_CONNECTION_EXCEPTION)
		node_report_error(b->target.node, b->target.place, error->detail);
}

/*
 * nbatch_connection_gone --- the connection has been closed under a batch
 *
 * A kept connection may have died unnoticed, so one new one is tried; not
 * after a time-out or nonsense, and not when connecting is what failed.
 */
static void
nbatch_connection_gone(NodeBatch *b, bool try_again)
{
	flight_ground(b);
	b->batch.error = b->conn.failure.error;
	if (b->batch.left > 0 && try_again && !b->reconnected &&
		b->target.node != NODE_NONE)
	{
		b->reconnected = true;
		pass_start(b);
		redis_conn_open(&b->conn, &b->target, b->batch.deadline);
		return;
	}
	nbatch_report_error(b);
	nbatch_give_up(b, b->conn.failure.outcome);
}

void
node_batch_fail(NodeBatch *b, int sqlstate, const char *detail)
{
	redis_conn_fail(&b->conn, sqlstate, detail);
	nbatch_connection_gone(b, false);
}

/* ----------
 * Sending
 * ----------
 */

/*
 * pass_group_size --- how many operations from "first" on share a command
 */
static int
pass_group_size(const NodeBatch *b, int first)
{
	const StoreOp *ops = b->batch.ops;
	int			max = ops[first].alone ? 1 :
		Min(redis_op_group(&ops[first]), b->batch.nops - first);
	int			n = 1;

	while (n < max && !ops[first + n].alone &&
		   redis_ops_are_alike(&ops[first + n], &ops[first]) &&
		   ops[first + n].outcome == STORE_PENDING)
		n++;
	return n;
}

/*
 * pass_put --- put ops[first .. first + n) as one command; false without memory
 *
 * EVAL has loaded a script for the commands behind.
 */
static bool
pass_put(NodeBatch *b, int first, int n)
{
	RespOut    *out = &b->conn.out;
	uint64		starts_at = out->put;
	LuaId		script;

	if (n > 0)
		redis_put_ops(out, &b->batch.ops[first], n, b->in_full);
	else
		redis_put_proof(out, b->in_full);
	if (out->failed)
	{
		resp_out_undo(out, starts_at);
		return false;
	}
	if (n == 0)
		b->in_full &= ~SCRIPT_BIT(REDIS_PROOF_SCRIPT);
	else if (redis_op_script(&b->batch.ops[first], &script))
		b->in_full &= ~SCRIPT_BIT(script);
	return true;
}

/*
 * pass_drop_next --- an operation that is too large surely does not reach the
 * store this time
 */
static void
pass_drop_next(NodeBatch *b)
{
	StoreOp    *op = &b->batch.ops[b->next++];

	batch_set_error(&b->batch, ERRCODE_OUT_OF_MEMORY, "Out of memory.");
	batch_settle(&b->batch, op, op->sent_at != 0 ? STORE_UNKNOWN : STORE_DOWN);
}

/*
 * pass_encode_next --- put the next command of this pass together
 *
 * Without memory for it, it is tried with fewer operations.
 */
static void
pass_encode_next(NodeBatch *b)
{
	StoreOp    *op = &b->batch.ops[b->next];
	int			n = pass_group_size(b, b->next);
	int64		now = lr_now();
	uint64		starts_at = b->conn.out.put;

	/* When nobody awaits the reply any more it may not run any more. */
	if (op->kind == STORE_CREATE)
		op->not_after = (flight_limit(b, now) + b->conn.clock_offset) / LR_US_PER_MS;
	while (!pass_put(b, b->next, n))
	{
		if (n == 1)
		{
			pass_drop_next(b);
			return;
		}
		n /= 2;
	}
	for (int i = 0; i < n; i++)
	{
		if (op[i].sent_at == 0)
			op[i].sent_at = now;
	}
	flight_push(b, b->next, n, starts_at, now);
	b->next += n;
}

/*
 * nbatch_refuse_rest --- the node does nothing for anybody
 */
static void
nbatch_refuse_rest(NodeBatch *b, StoreOutcome outcome)
{
	StoreBatch *batch = &b->batch;

	for (int i = 0; i < batch->nops; i++)
	{
		if (batch->ops[i].outcome == STORE_PENDING)
			batch_settle(batch, &batch->ops[i], outcome);
	}
}

/*
 * pass_encode_proof --- ask whether the node runs scripts at all, with no key
 *
 * Without memory even for that, what was refused stays refused; but what is under
 * way is answered first.
 */
static void
pass_encode_proof(NodeBatch *b)
{
	uint64		starts_at = b->conn.out.put;

	if (!pass_put(b, 0, 0))
	{
		if (b->flight_n == 0)
			nbatch_refuse_rest(b, STORE_REFUSED);
		return;
	}
	b->proving = true;
	flight_push(b, 0, 0, starts_at, lr_now());
}

/*
 * pass_send --- as many commands as the ring, the buffer and the kernel take
 *
 * False when the connection was lost over it.
 */
static bool
pass_send(NodeBatch *b)
{
	const StoreBatch *batch = &b->batch;
	RespOut    *out = &b->conn.out;

	for (;;)
	{
		bool		more;

		if (b->doubt && !b->runs_scripts && !b->proving)
			pass_encode_proof(b);
		while (b->next < batch->nops &&
			   batch->ops[b->next].outcome != STORE_PENDING)
			b->next++;
		more = b->next < batch->nops && b->flight_n < FLIGHT_MAX && !b->proving;
		if (more && !resp_out_is_high(out))
		{
			pass_encode_next(b);
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
 * Error replies
 * ----------
 */

/*
 * refusal_note --- the node refuses something, in these words
 */
static void
refusal_note(NodeBatch *b, StoreOutcome outcome, const char *words)
{
	StoreError *error = &b->batch.error;

	*error = b->conn.failure.error;
	error->hint = outcome == STORE_DENIED && !redis_words_concern_all(words) ?
		redis_rights_hint : NULL;
	if (redis_words_begin(words, "FENCERANGE"))
		error->sqlstate = ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE;
	else if (outcome == STORE_DENIED)
		error->sqlstate = ERRCODE_SQLSERVER_REJECTED_ESTABLISHMENT_OF_SQLCONNECTION;
	else
		error->sqlstate = ERRCODE_CONNECTION_FAILURE;
	snprintf(error->detail, sizeof(error->detail), "The node answered: %s",
			 words);
	nbatch_report_error(b);

	/*
	 * A replica may have been a master when we connected, and whoever is not
	 * authenticated may be after connecting again.
	 */
	if (redis_words_begin(words, "READONLY"))
	{
		b->drop = true;
		redis_target_want_addresses(&b->target, WANT_MASTER);
	}
	if (redis_words_begin(words, "NOAUTH"))
		b->drop = true;
}

/*
 * refusal_may_go_alone --- is this refusal of a command worth asking for each of
 * its locks?
 *
 * Redis checks the rights to all keys before it runs a script, so one key that
 * is not allowed keeps the others from being served.  The watchdog also wants
 * to know of a single one whether it is the lock or all locks.
 */
static bool
refusal_may_go_alone(const NodeBatch *b, const RedisCommand *cmd,
					 const char *words)
{
	return redis_op_group(&b->batch.ops[cmd->first]) > 1 &&
		b->passes < PASSES_MAX && !redis_words_concern_all(words) &&
		(cmd->nops > 1 || (b->patient && !b->runs_scripts));
}

/*
 * refusal_go_alone --- open again for the next pass, each in a command of its own
 *
 * Who has no right to a key is told so before the script runs; of other errors
 * nobody knows how far it came.
 */
static void
refusal_go_alone(NodeBatch *b, const RedisCommand *cmd, StoreOutcome outcome)
{
	for (int i = cmd->first; i < cmd->first + cmd->nops; i++)
	{
		b->batch.ops[i].alone = true;
		if (outcome == STORE_DENIED)
			flight_never_ran(&b->batch.ops[i], cmd);
	}
	b->doubt = true;
}

/*
 * refusal_of_one --- one lock of several has an error for a reply
 */
static void
refusal_of_one(NodeBatch *b, StoreOp *op, const RedisValue *v)
{
	char		words[REDIS_WORDS_MAX];
	StoreOutcome outcome = redis_error_words(v, b->target.url.user, words,
											 sizeof(words));

	refusal_note(b, outcome, words);
	op->own_fault = !redis_words_concern_all(words);
	batch_settle(&b->batch, op, outcome);
}

/*
 * refusal_not_loaded --- the command did not run for want of its script; true if
 * it is open again, for the next pass
 */
static bool
refusal_not_loaded(NodeBatch *b, const RedisCommand *cmd, const RedisValue *v)
{
	StoreOp    *ops = &b->batch.ops[cmd->first];
	bool		is_proof = cmd->nops == 0;
	LuaId		script = REDIS_PROOF_SCRIPT;

	if (!redis_words_begin(v->str, "NOSCRIPT") || b->passes >= PASSES_MAX ||
		(!is_proof && !redis_op_script(ops, &script)))
		return false;

	b->missing |= SCRIPT_BIT(script);
	for (int i = 0; i < cmd->nops; i++)
		flight_never_ran(&ops[i], cmd);
	if (is_proof)
	{
		b->passes++;
		pass_start(b);
	}
	return true;
}

/*
 * refusal_take --- an error reply to a command
 *
 * If it was for several locks, one of them may be the cause.  They are tried
 * one by one, in the same batch: but only when a script without a key shows that
 * this node runs scripts, or thousands of commands would be refused one by one.
 */
static void
refusal_take(NodeBatch *b, const RedisCommand *cmd)
{
	const RedisValue *v = b->conn.in.values;
	StoreOp    *ops = &b->batch.ops[cmd->first];
	char		words[REDIS_WORDS_MAX];
	StoreOutcome outcome;

	if (refusal_not_loaded(b, cmd, v))
		return;
	outcome = redis_error_words(v, b->target.url.user, words, sizeof(words));
	if (cmd->nops > 0 && ops->kind == STORE_FACTS)
	{
		/* Not worth failing for. */
		batch_settle(&b->batch, ops, outcome);
		return;
	}
	refusal_note(b, outcome, words);
	if (cmd->nops == 0)
		nbatch_refuse_rest(b, outcome);
	else if (refusal_may_go_alone(b, cmd, words))
		refusal_go_alone(b, cmd, outcome);
	else
	{
		for (int i = 0; i < cmd->nops; i++)
		{
			ops[i].own_fault = cmd->nops == 1 && !redis_words_concern_all(words) &&
				(b->runs_scripts || !b->patient);
			batch_settle(&b->batch, &ops[i], outcome);
		}
	}
}

/* ----------
 * Replies
 * ----------
 */

/*
 * reply_take_one --- the reply, or the part of it, for one operation
 *
 * False: it is none of the replies that there can be.
 */
static bool
reply_take_one(NodeBatch *b, StoreOp *op, const RedisCommand *cmd,
			   const RedisValue *v)
{
	bool		repeated = op->sent_at < cmd->encoded_at;
	RedisAnswer answer;

	if (!redis_take_op(op, v, repeated, &answer))
		return false;
	if (answer.clock != 0)
		b->conn.clock_offset = redis_clock_offset(answer.clock, lr_now());
	if (answer.info != NULL)
		redis_conn_take_info(&b->conn, answer.info);
	batch_settle(&b->batch, op, answer.outcome);
	return true;
}

/*
 * reply_take_good --- a reply that is no error; false if there is no such reply
 */
static bool
reply_take_good(NodeBatch *b, const RedisCommand *cmd)
{
	const RedisValue *v = b->conn.in.values;
	StoreOp    *ops = &b->batch.ops[cmd->first];
	bool		good = true;
	LuaId		script;

	if (cmd->nops == 0)
	{
		b->proving = false;
		b->runs_scripts = true;
		return redis_take_proof(v);
	}
	if (redis_op_script(ops, &script))
		b->runs_scripts = true;
	if (redis_op_group(ops) == 1)
		return reply_take_one(b, ops, cmd, v);

	if (v->type != REDIS_REPLY_ARRAY || v->elements != cmd->nops)
		return false;
	for (int i = 0; good && i < cmd->nops; i++)
	{
		if (v[1 + i].type == REDIS_REPLY_ERROR)
			refusal_of_one(b, &ops[i], &v[1 + i]);
		else
			good = reply_take_one(b, &ops[i], cmd, &v[1 + i]);
	}
	return good;
}

/*
 * reply_take --- a reply has been parsed; false if the batch ended over it
 *
 * Nobody can answer what has not been sent.
 */
static bool
reply_take(NodeBatch *b)
{
	RedisCommand *cmd = flight_oldest(b);
	bool		good = cmd != NULL && b->conn.out.sent > cmd->starts_at;

	if (good && b->conn.in.values->type == REDIS_REPLY_ERROR)
		refusal_take(b, cmd);
	else if (good)
		good = reply_take_good(b, cmd);
	if (!good)
	{
		node_batch_fail(b, ERRCODE_CONNECTION_FAILURE,
						"The node's answer makes no sense.");
		return false;
	}
	flight_land_oldest(b);
	flight_note_progress(b, lr_now());
	return true;
}

/* ----------
 * Stepping
 * ----------
 */

/*
 * nbatch_connect --- go on connecting; false while there is no connection
 *
 * No password goes to where another lockredis.url pointed.
 */
static bool
nbatch_connect(NodeBatch *b)
{
	RedisConn  *c = &b->conn;

	if (c->state == CONN_CONNECTING && redis_target_is_outdated(&b->target))
	{
		redis_target_set(&b->target, b->target.node);
		redis_conn_open(c, &b->target, c->connect.until);
	}
	redis_conn_advance(c);
	if (c->state == CONN_CLOSED)
		nbatch_connection_gone(b, false);
	if (c->state != CONN_READY)
		return false;
	lr_count(STAT_CONNECTS);
	return true;
}

/*
 * nbatch_take_replies --- all that are complete; true if the batch goes on with
 * the connection it has
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

	while (b->batch.active)
	{
		RedisRead	got;

		if (c->state != CONN_READY)
		{
			if (!nbatch_connect(b))
				return;
			readable = false;
		}
		if (b->flight_n == 0 && b->next >= b->batch.nops)
		{
			/* Something was not loaded, or is to go alone: the next pass. */
			b->passes++;
			pass_start(b);
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
		readable = got == REDIS_READ_FULL;
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
		/* Its own limit is the business of redis_conn_advance(). */
		if (now >= b->batch.deadline)
			node_batch_fail(b, ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION,
							"Could not connect to the node in time.");
		return;
	}
	if (now < b->reply_until)
		return;

	/* If it had all of its time, nobody else needs to wait as long. */
	if (now - b->progress_at >= lr_command_timeout * LR_US_PER_MS)
		redis_target_set_silent(&b->target, true);
	node_batch_fail(b, ERRCODE_CONNECTION_FAILURE,
					"The node did not answer in time.");
}

int64
node_batch_until(const NodeBatch *b)
{
	if (b->conn.state == CONN_READY)
		return b->reply_until;
	return Min(b->batch.deadline, redis_conn_until(&b->conn));
}

bool
node_batch_awaits_reply(const NodeBatch *b)
{
	return b->conn.state == CONN_READY && b->flight_n > 0 &&
		b->conn.out.len == 0;
}

/* ----------
 * Beginning and end
 * ----------
 */

void
node_batch_init(NodeBatch *b, NodeId node, const char *role, bool patient)
{
	b->patient = patient;
	redis_target_set(&b->target, node);
	redis_conn_init(&b->conn, role, patient);
}

/*
 * nbatch_drop --- drop a batch without touching its operations
 *
 * For those that were left by a longjmp: their memory may be gone.  Replies
 * that are still to come make the connection useless.
 */
static void
nbatch_drop(NodeBatch *b)
{
	if (!b->batch.active)
		return;
	if (b->drop || b->conn.state != CONN_READY || b->flight_n > 0)
		redis_conn_close(&b->conn);
	b->flight_n = 0;
	batch_forget(&b->batch);
}

/*
 * nbatch_refuse --- fail it before anything is tried
 */
static void
nbatch_refuse(NodeBatch *b, const char *detail)
{
	batch_set_error(&b->batch, ERRCODE_CONNECTION_FAILURE, detail);
	nbatch_give_up(b, STORE_DOWN);
}

void
node_batch_abandon(NodeBatch *b)
{
	if (!b->batch.active)
		return;
	if (b->conn.state != CONN_READY || b->flight_n > 0)
	{
		flight_ground(b);
		redis_conn_close(&b->conn);
	}
	nbatch_refuse(b, "The request was given up before it was answered.");
}

/*
 * nbatch_has_connection --- is there one that was good just now, to where the
 * settings point?
 *
 * Here is decided whether that is worth a system call.
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
		redis_conn_check(c, now - b->progress_at < HEARD_LATELY);
}

/*
 * node_batch_start --- see node_batch.h
 */
void
node_batch_start(NodeBatch *b, StoreOp *ops, int nops, int64 deadline)
{
	int64		now = lr_now();

	nbatch_drop(b);
	batch_start(&b->batch, ops, nops, deadline);
	b->passes = 1;
	b->next = 0;
	b->missing = b->in_full = 0;
	b->reply_until = deadline;
	b->reconnected = b->drop = false;
	b->runs_scripts = b->doubt = b->proving = false;
	if (!b->batch.active)
		return;

	if (!b->patient && node_is_silent(b->target.node) && lr_watchdog_running())
		nbatch_refuse(b, "The node did not answer lately; it is tried again in the background.");
	else if (now >= deadline)
		nbatch_refuse(b, "There was no time left to ask the node.");
	else if (nbatch_has_connection(b, now))
		node_batch_process(b, false, false);
	else if (b->target.node == NODE_NONE)
		nbatch_refuse(b, "The connection was lost.");
	else
	{
		redis_conn_open(&b->conn, &b->target, deadline);
		node_batch_process(b, false, false);
	}
}
