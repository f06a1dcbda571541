/*-------------------------------------------------------------------------
 *
 * flight.c
 *	  Commands of a batch that are in flight to one Redis node, and what becomes of them.
 *
 * They are kept in a ring of fixed size, in the order in which the node answers them, so
 * that nothing has to be allocated.  node_batch.c puts them there, and takes replies
 * that are no errors.
 *
 * Nothing in here waits, raises or allocates in a memory context.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/flight.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "settings.h"
#include "stats.h"
#include "store/nodes.h"
#include "store/redis/node_batch.h"

/*
 * The reply must be here (ms) before command_timeout and the call are over.  A node
 * checks every 100 ms whether a WAIT has ended.
 */
#define WAIT_MARGIN			250

static const char *const replicas_hint =
gettext_noop("Check the replicas of the lock store, and \"lockredis.min_replicas\".");

/* ----------
 * The ring
 * ----------
 */

static RedisCommand *
flight_at(NodeBatch *b, int i)
{
	return &b->flight[(b->flight_first + i) % FLIGHT_MAX];
}

RedisCommand *
flight_oldest(NodeBatch *b)
{
	return b->flight_n > 0 ? flight_at(b, 0) : NULL;
}

/* An empty ring starts again at its first entry, which is in the cache. */
void
flight_land_oldest(NodeBatch *b)
{
	b->flight_n--;
	b->past_n = Max(b->past_n - 1, 0);
	b->flight_first = b->flight_n > 0 ? (b->flight_first + 1) % FLIGHT_MAX : 0;
}

/*
 * flight_limit --- until when to wait for the reply to a command sent now
 */
int64
flight_limit(const NodeBatch *b, int64 now)
{
	return Min(b->batch.deadline, now + lr_command_timeout * LR_US_PER_MS);
}

void
flight_note_progress(NodeBatch *b, int64 now)
{
	b->progress_at = now;
	b->reply_until = flight_limit(b, now);
}

/*
 * flight_push --- add a command for ops[first .. first + n), which has just been encoded
 */
void
flight_push(NodeBatch *b, RedisCommandKind kind, int first, int n,
			uint64 starts_at, int64 now)
{
	RedisCommand *cmd = flight_at(b, b->flight_n);

	if (kind == COMMAND_FORGET)
		b->past_n++;
	else if (!flight_is_any(b))
		flight_note_progress(b, now);
	b->flight_n++;
	cmd->kind = kind;
	cmd->first = first;
	cmd->nops = n;
	cmd->starts_at = starts_at;
	cmd->encoded_at = now;
}

/*
 * flight_never_ran --- this command certainly did not run for this operation
 *
 * An earlier command for the same operation, on a connection that was lost, may have
 * run.
 */
static void
flight_never_ran(StoreOp *op, const RedisCommand *cmd)
{
	if (op->sent.at >= cmd->encoded_at)
		batch_mark_unsent(op);
}

void
flight_leave(NodeBatch *b)
{
	b->past_n = b->flight_n;
	b->wanted = 0;
}

/*
 * left_take_one --- take the reply to the oldest release that was left; v is NULL if it
 * will not come
 */
static bool
left_take_one(NodeBatch *b, const redisReply *v)
{
	const LeftRelease *left = &b->left[0];
	StoreOp		op = {.kind = STORE_RELEASE,.lock_kind = left->kind,.store = left->store,
	.hold = left->hold,.owner = left->owner,.sent.topology = left->topology};
	bool		known = v != NULL && v->type != REDIS_REPLY_ERROR;

	op.outcome = known ? redis_take_op(&op, v, false) : STORE_UNKNOWN;
	if (op.outcome == STORE_PENDING)
		return false;
	if (!known)
		b->ran = 0;
	memmove(b->left, b->left + 1, sizeof(LeftRelease) * --b->left_n);
	b->answered(&op);
	return true;
}

/*
 * flight_ground --- the connection is gone: decide about the commands in flight
 *
 * A command counts as not sent if the node cannot have read a byte of it.  Any other may
 * have run: an operation that must run only once is settled as unknown, and all others
 * stay open and may be repeated.
 */
void
flight_ground(NodeBatch *b)
{
	RedisCommand *cmd;

	while ((cmd = flight_oldest(b)) != NULL)
	{
		bool		sent = cmd->starts_at < b->conn.out.sent;

		while (cmd->kind == COMMAND_LEFT && b->left_n > 0)
			(void) left_take_one(b, NULL);
		for (int i = cmd->first; i < cmd->first + cmd->nops && cmd->kind == COMMAND_OPS; i++)
		{
			StoreOp    *op = &b->batch.ops[i];

			if (!sent)
				flight_never_ran(op, cmd);
			else if (store_runs_once(op->kind))
				batch_settle(&b->batch, op, STORE_UNKNOWN);
		}
		flight_land_oldest(b);
	}
}

/* ----------
 * Error replies
 *
 * One lock that is refused must not keep the others from being served, and a node that
 * refuses everybody must not be asked thousands of times.
 * ----------
 */

/*
 * refusal_report --- show a session's error in redis_lock_status, too
 *
 * The watchdog reports its own errors there.  An error of one operation says nothing
 * about the node.
 */
void
refusal_report(const NodeBatch *b)
{
	const StoreError *error = &b->batch.error;

	if (!b->patient && store_has_failed(error->sqlstate))
		node_report_error(b->target.node, b->target.place, error->detail);
}

/*
 * refusal_not_master --- the node is not a master, or not any more
 */
static void
refusal_not_master(NodeBatch *b)
{
	b->drop = true;
	redis_target_is_no_master(&b->target);
	redis_target_want_addresses(&b->target, true);
}

/*
 * refusal_note --- record an error reply, and what follows from its code
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
		error->sqlstate = ERRCODE_STORE_DENIED;
	else
		error->sqlstate = ERRCODE_STORE_FAILED;
	snprintf(error->detail, sizeof(error->detail), "The node answered: %s",
			 words);
	if (b->target.kind == TARGET_NODE && error->hint == NULL)
		error->hint = redis_words_hint(words);
	refusal_report(b);

	/* It may serve others. */
	if (b->target.node != NODE_NONE && !redis_words_concern_all(words))
		silence_heard(lr_now(), 0);

	if (redis_words_begin(words, "READONLY"))
		refusal_not_master(b);
	if (redis_words_begin(words, "CLUSTERDOWN"))
		cluster_want_map();

	/* A new connection may be authenticated. */
	if (redis_words_begin(words, "NOAUTH"))
		b->drop = true;
}

/*
 * refusal_may_go_alone --- after this refusal of a command: retry with one command per
 * lock?
 *
 * Redis checks the rights to all keys before it runs a script, so one key that is not
 * allowed keeps the others from being served.  A node that refuses all need not be asked
 * for each.  A batch that asks whether the node runs scripts does this even for a single
 * lock, until it knows whether the node refuses this one or all.  Locks that are taken
 * together are never separated.
 */
static bool
refusal_may_go_alone(const NodeBatch *b, const RedisCommand *cmd,
					 const char *words)
{
	const StoreOp *op = &b->batch.ops[cmd->first];

	return redis_op_group(op) > 1 && op->args.together == 0 &&
		b->passes < PASSES_MAX && !b->refuses && !redis_words_concern_all(words) &&
		(cmd->nops > 1 || (b->asked && !b->runs_scripts));
}

/*
 * refusal_go_alone --- leave the operations open for the next pass, in one command each
 *
 * A missing right is reported before the script runs.  After other errors the script may
 * have run in part.
 */
static void
refusal_go_alone(NodeBatch *b, const RedisCommand *cmd, StoreOutcome outcome)
{
	for (int i = cmd->first; i < cmd->first + cmd->nops; i++)
	{
		b->batch.ops[i].args.alone = true;
		if (outcome == STORE_DENIED)
			flight_never_ran(&b->batch.ops[i], cmd);
	}
}

/*
 * refusal_of_one --- the reply for one lock of several is an error
 */
void
refusal_of_one(NodeBatch *b, StoreOp *op, const redisReply *v)
{
	char		words[REDIS_WORDS_MAX];
	StoreOutcome outcome = redis_error_words(v, b->target.url.user, words,
											 sizeof(words));

	refusal_note(b, outcome, words);
	op->answer.own_fault = !redis_words_concern_all(words);
	batch_settle(&b->batch, op, outcome);
}

/*
 * refusal_of_wait --- the reply to a WAIT is an error
 *
 * If the node was the master before, it may not be any more.
 */
static void
refusal_of_wait(NodeBatch *b, const redisReply *v)
{
	char		words[REDIS_WORDS_MAX];
	StoreOutcome outcome = redis_error_words(v, b->target.url.user, words,
											 sizeof(words));

	refusal_note(b, outcome, words);
	if (redis_words_begin(words, "UNBLOCKED") ||
		redis_words_begin(words, "ERR WAIT cannot"))
		refusal_not_master(b);
}

/*
 * refusal_is_undone --- does a release of this create follow it?
 *
 * The release may have run, if its own script was loaded.  So the create must not be
 * sent again: it would run after the release, and nobody would know of the lock.
 */
static bool
refusal_is_undone(const NodeBatch *b, const StoreOp *create)
{
	for (const StoreOp *op = create + 1; op < b->batch.ops + b->batch.nops; op++)
		if (op->kind == STORE_RELEASE && op->owner == create->owner &&
			memcmp(op->id, create->id, STORE_ID_LEN) == 0 &&
			op->name_len == create->name_len &&
			memcmp(op->name, create->name, op->name_len) == 0)
			return true;
	return false;
}

/*
 * refusal_not_loaded --- did the command not run because its script was not loaded?
 *
 * Returns true if so; the operations are open again for the next pass, or settled.
 */
static bool
refusal_not_loaded(NodeBatch *b, const RedisCommand *cmd, const redisReply *v)
{
	StoreOp    *ops = &b->batch.ops[cmd->first];
	LuaId		script;

	if (!redis_words_begin(v->str, "NOSCRIPT") || b->passes >= PASSES_MAX ||
		!redis_op_script(ops, &script))
		return false;

	b->loaded &= ~SCRIPT_BIT(script);
	for (int i = 0; i < cmd->nops; i++)
		flight_never_ran(&ops[i], cmd);
	if (b->unread && ops->kind == STORE_CREATE && refusal_is_undone(b, ops))
		for (int i = 0; i < cmd->nops; i++)
			batch_settle(&b->batch, &ops[i], STORE_DOWN);
	return true;
}

/*
 * refusal_send_on --- hand on an operation that did not run, to this row; CLUSTER_NO_NODE:
 * to that of the map, after a pause
 *
 * Nodes that disagree may redirect it back and forth: after REDIRECTS_MAX times it goes by
 * the map.
 */
static void
refusal_send_on(NodeBatch *b, StoreOp *op, int row, bool asking)
{
	bool		at_once = row != CLUSTER_NO_NODE && ++op->sent.redirects <= REDIRECTS_MAX;

	if (!at_once)
		op->sent.redirects = 0;
	op->sent.asking = asking;
	batch_hand_on(&b->batch, op, at_once ? PART_SENT_TO(row) : PART_LATER);
	b->handed_on++;
}

/*
 * refusal_other_node --- row of the node in "MOVED slot address" or "ASK slot address"
 *
 * An empty host means the node that has answered.
 */
static int
refusal_other_node(const NodeBatch *b, const char *words)
{
	char		host[LR_HOST_MAX];
	const char *at = strrchr(words, ' ') + 1;
	const char *colon = strrchr(at, ':');

	if (colon == NULL || colon - at >= LR_HOST_MAX)
		return CLUSTER_NO_NODE;
	memcpy(host, at, colon - at);
	host[colon - at] = '\0';
	return cluster_find_node(b->target.place, host[0] != '\0' ? host : b->target.url.at.host,
							 atoi(colon + 1));
}

/*
 * refusal_redirects --- does a node of a cluster answer that it cannot serve the slot,
 * or not yet?
 *
 * Returns true if so; nothing has run then.  The operation goes to the node named, if we
 * know that.  But after MOVED, a create goes where the map says, which may be about to
 * change: otherwise it could run at a node of which nobody would know that it was asked.
 */
static bool
refusal_redirects(NodeBatch *b, const RedisCommand *cmd, const char *words)
{
	bool		moved = redis_words_begin(words, "MOVED ");
	bool		ask = redis_words_begin(words, "ASK ");
	bool		again = redis_words_begin(words, "TRYAGAIN");

	if (b->target.kind != TARGET_SHARD || !(moved || ask || again))
		return false;
	if (moved)
		cluster_want_map();
	for (int i = 0; i < cmd->nops; i++)
	{
		StoreOp    *op = &b->batch.ops[cmd->first + i];
		int			row = again ? CLUSTER_NO_NODE : refusal_other_node(b, words);

		flight_never_ran(op, cmd);
		if (op->args.together == 0)
			op->args.alone = true;
		if (moved && (store_runs_once(op->kind) || row == b->batch.part))
			row = CLUSTER_NO_NODE;
		refusal_send_on(b, op, row, ask);
	}
	return true;
}

/*
 * refusal_take --- take an error reply to a command
 *
 * If it was for several locks, one of them may be the cause.  They are retried one by
 * one, in the same batch, unless it has refused a script without a key, too.
 */
void
refusal_take(NodeBatch *b, const RedisCommand *cmd)
{
	const redisReply *v = b->conn.in.reply;
	StoreOp    *ops = &b->batch.ops[cmd->first];
	char		words[REDIS_WORDS_MAX];
	StoreOutcome outcome;

	if (b->unread)
		b->loaded = 0;			/* a script in a refused EVAL may not have been loaded */
	if (refusal_not_loaded(b, cmd, v) || refusal_redirects(b, cmd, v->str))
		return;
	outcome = redis_error_words(v, b->target.url.user, words, sizeof(words));
	if (ops->kind == STORE_FACTS)
	{
		/* Not worth failing for: INFO is not needed. */
		batch_settle(&b->batch, ops, outcome);
		return;
	}
	refusal_note(b, outcome, words);
	b->refuses = b->refuses || ops->kind == STORE_PROBE ||
		(outcome == STORE_DENIED && strstr(words, "permissions to run the ") != NULL);
	if (refusal_may_go_alone(b, cmd, words))
		refusal_go_alone(b, cmd, outcome);
	else
	{
		for (int i = 0; i < cmd->nops; i++)
		{
			ops[i].answer.own_fault = (cmd->nops == 1 || ops->args.together > 0) &&
				!redis_words_concern_all(words) &&
				(b->runs_scripts || !b->asked);
			batch_settle(&b->batch, &ops[i], outcome);
		}
	}
}

/* ----------
 * Confirmation by replicas
 *
 * The operations of a pass are followed by one WAIT, in the same write, for the most
 * replicas that one of them asks for.  Its reply is the number of replicas that have the
 * last write of this connection.  Then each operation that was carried out gets its
 * outcome, by its own number.
 *
 * - Only the last write of this very connection counts.  So each operation to be
 *	 confirmed writes something (ARG_WRITE), and none is confirmed over another
 *	 connection: on a new one that has written nothing, WAIT returns the number of
 *	 replicas, whatever they lack.  When the connection is lost before the confirmation, a
 *	 create is unknown; everything else is sent again, with a WAIT of its own.
 * - A WAIT blocks what follows it on the connection.  A session whose create is busy
 *	 does not wait for it: the reply is owed, and the next batch takes it.
 * - Only a number says that anything was replicated.  A node that has become a replica
 *	 meanwhile answers with an error, and may have served nobody but us for a while.
 * ----------
 */

void
confirm_want(NodeBatch *b, const StoreOp *op)
{
	b->wanted = Max(b->wanted, op->min_replicas);
}

/*
 * confirm_is_owed --- see node_batch.h; also in a signal handler
 */
bool
confirm_is_owed(const NodeBatch *b)
{
	for (int i = 0; i < b->past_n; i++)
		if (b->flight[(b->flight_first + i) % FLIGHT_MAX].kind == COMMAND_WAIT)
			return true;
	return false;
}

/*
 * confirm_wait_ms --- how long the node is to wait; never 0, which means for ever
 *
 * If the reply to a WAIT of an earlier batch is owed, this one begins when that ends.
 */
static int64
confirm_wait_ms(const NodeBatch *b, int64 now)
{
	int64		ms = lr_replica_timeout;
	int64		begins = confirm_is_owed(b) ? Max(now, b->wait_until) : now;
	int64		left = (b->batch.deadline - begins) / LR_US_PER_MS;

	ms = Min(ms, Max(lr_command_timeout - WAIT_MARGIN, lr_command_timeout / 2));
	ms = Min(ms, left - WAIT_MARGIN);
	return Max(ms, 1);
}

bool
confirm_put(NodeBatch *b)
{
	RespOut    *out = &b->conn.out;
	uint64		starts_at = out->put;
	int64		now = lr_now();

	b->wait_ms = confirm_wait_ms(b, now);
	b->wait_until = now + b->wait_ms * LR_US_PER_MS;
	redis_put_wait(out, b->wanted, b->wait_ms);
	if (!resp_out_fits(out, starts_at))
		return false;
	b->wanted = 0;
	flight_push(b, COMMAND_WAIT, 0, 0, starts_at, now);
	return true;
}

void
confirm_done(NodeBatch *b, StoreOp *op)
{
	if (op->min_replicas == 0)
	{
		batch_settle(&b->batch, op, STORE_OK);
		return;
	}
	op->sent.done = true;
	b->ndone++;
}

/*
 * confirm_settle --- so many replicas have everything: settle the operations carried out
 *
 * Returns the most replicas that one of them has asked for in vain.
 *
 * -1: the connection is gone.  A create was carried out, but nobody knows on how many
 * replicas; like one without a reply it is unknown, and will be released.  Everything
 * else may be sent again.
 */
static int
confirm_settle(NodeBatch *b, int64 replicas)
{
	int			wanted = 0;

	for (int i = 0; i < b->batch.nops && b->ndone > 0; i++)
	{
		StoreOp    *op = &b->batch.ops[i];

		if (!op->sent.done || op->outcome != STORE_PENDING || !batch_has(&b->batch, op))
			continue;
		b->ndone--;
		op->sent.done = replicas >= 0;
		if (replicas >= op->min_replicas)
			batch_settle(&b->batch, op, STORE_OK);
		else if (replicas >= 0)
		{
			lr_count(STAT_UNREPLICATED);
			wanted = Max(wanted, op->min_replicas);
			batch_settle(&b->batch, op, STORE_UNCONFIRMED);
		}
		else if (store_runs_once(op->kind))
			batch_settle(&b->batch, op, STORE_UNKNOWN);
	}
	return wanted;
}

/*
 * confirm_too_few --- report that too few replicas have confirmed
 */
static void
confirm_too_few(NodeBatch *b, int64 replicas, int wanted)
{
	StoreError *error = &b->batch.error;
	bool		whole = b->wait_ms % 1000 == 0;

	*error = b->conn.failure.error;
	error->sqlstate = ERRCODE_STORE_FAILED;
	error->hint = replicas_hint;
	snprintf(error->detail, sizeof(error->detail), "%d of %d replicas confirmed it within %d %s.",
			 (int) replicas, wanted, (int) (whole ? b->wait_ms / 1000 : b->wait_ms),
			 whole ? "s" : "ms");
	refusal_report(b);
}

/*
 * confirm_take --- see node_batch.h
 *
 * An error is reported in the node's words: a right is missing, or the node is no longer
 * a master.  In that case another one is, or soon will be.
 */
bool
confirm_take(NodeBatch *b, const redisReply *v)
{
	int			wanted;

	if (v->type == REDIS_REPLY_ERROR)
	{
		/* If no operation was carried out, their own errors have been reported. */
		if (b->ndone > 0)
			refusal_of_wait(b, v);
		(void) confirm_settle(b, 0);
		return true;
	}
	if (v->type != REDIS_REPLY_INTEGER || v->integer < 0)
		return false;
	wanted = confirm_settle(b, v->integer);
	if (wanted > 0)
		confirm_too_few(b, v->integer, wanted);
	return true;
}

void
confirm_lost(NodeBatch *b)
{
	b->wanted = 0;
	(void) confirm_settle(b, -1);
}

bool
confirm_is_awaited(NodeBatch *b)
{
	const RedisCommand *cmd = flight_oldest(b);

	return cmd != NULL && cmd->kind == COMMAND_WAIT;
}

/* ----------
 * Releases whose batch has ended before they were answered
 *
 * The node answers them before anything that is sent over the connection later, so the
 * next batch reads their replies first.  What is to be known of them is kept in an array
 * of fixed size.  If the connection is lost, or a reply is an error, the caller is notified:
 * the watchdog then repeats the release, and the session's next request may overtake it.
 * After that, and on a new connection, the next release waits for its answer, because the
 * node may no longer have the script.
 * ----------
 */

/*
 * left_may_begin --- may the batch end before its releases are answered?
 *
 * Each must have been sent exactly once, in the order in which it will be answered, and
 * the node must have its script.
 */
static bool
left_may_begin(const NodeBatch *b)
{
	const StoreBatch *batch = &b->batch;

	if (!batch->active || b->conn.state != CONN_READY || !resp_out_is_empty(&b->conn.out) ||
		b->next < batch->nops || b->passes != 1 || b->reconnected || b->drop ||
		b->left_n + batch->nops > LEFT_MAX)
		return false;
	for (int i = 0; i < batch->nops; i++)
	{
		LuaId		script;

		if (batch->ops[i].outcome != STORE_PENDING ||
			!redis_op_script(&batch->ops[i], &script) ||
			(b->ran & SCRIPT_BIT(script)) == 0)
			return false;
	}
	return true;
}

bool
left_begin(NodeBatch *b, StoreAnswered answered)
{
	if (!left_may_begin(b))
		return false;
	for (int at = b->past_n; at < b->flight_n; at++)
	{
		RedisCommand *cmd = flight_at(b, at);

		Assert(cmd->kind == COMMAND_OPS);
		cmd->kind = COMMAND_LEFT;
		for (int i = cmd->first; i < cmd->first + cmd->nops; i++)
		{
			const StoreOp *op = &b->batch.ops[i];
			LeftRelease *left = &b->left[b->left_n++];

			left->kind = op->lock_kind;
			left->store = op->store;
			left->hold = op->hold;
			left->owner = op->owner;
			left->topology = op->sent.topology;
		}
	}
	flight_leave(b);
	b->answered = answered;
	batch_forget(&b->batch);
	return true;
}

/*
 * left_take --- take the reply to a command for n releases that were left
 *
 * After a reply that is not valid the connection is closed; what it did not answer is
 * lost with that.
 */
static bool
left_take(NodeBatch *b, int n, const redisReply *v)
{
	StoreOp		like = {.kind = STORE_RELEASE,.lock_kind = b->left[0].kind};
	bool		one = v->type == REDIS_REPLY_ERROR || redis_op_group(&like) == 1 ||
		(n == 1 && v->type == REDIS_REPLY_INTEGER);

	if (!one && (v->type != REDIS_REPLY_ARRAY || v->elements != n))
		return false;
	for (int i = 0; i < n; i++)
		if (!left_take_one(b, one ? v : v->element[i]))
			return false;
	return true;
}

bool
flight_take_past(NodeBatch *b, const redisReply *v)
{
	const RedisCommand *cmd = flight_oldest(b);

	if (cmd->kind == COMMAND_LEFT)
		return left_take(b, cmd->nops, v);
	return v->type == REDIS_REPLY_INTEGER || v->type == REDIS_REPLY_ERROR;
}
