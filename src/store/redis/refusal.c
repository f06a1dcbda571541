/*-------------------------------------------------------------------------
 *
 * refusal.c
 *	  What a batch makes of error replies.
 *
 * One lock that is refused must not keep the others from being served, and a node
 * that refuses everybody must not be asked thousands of times.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/refusal.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "store/nodes.h"
#include "store/redis/node_batch.h"

/*
 * refusal_report --- have what a session was told in redis_lock_status too
 *
 * The watchdog says there itself what it finds, and what is due to this process
 * alone is nobody's business.
 */
void
refusal_report(const NodeBatch *b)
{
	const StoreError *error = &b->batch.error;

	if (!b->patient && store_has_failed(error->sqlstate))
		node_report_error(b->target.node, b->target.place, error->detail);
}

/*
 * refusal_of_rest --- the node does nothing for anybody
 *
 * What it has done before waits for its replicas.
 */
void
refusal_of_rest(NodeBatch *b, StoreOutcome outcome)
{
	StoreBatch *batch = &b->batch;

	for (int i = 0; i < batch->nops; i++)
	{
		if (batch->ops[i].outcome == STORE_PENDING && !batch->ops[i].done &&
			batch_has(batch, &batch->ops[i]))
			batch_settle(batch, &batch->ops[i], outcome);
	}
}

/*
 * refusal_not_master --- it may have been one when we connected
 */
static void
refusal_not_master(NodeBatch *b)
{
	b->drop = true;
	redis_target_is_no_master(&b->target);
	redis_target_want_addresses(&b->target, WANT_MASTER);
}

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
		error->sqlstate = ERRCODE_STORE_DENIED;
	else
		error->sqlstate = ERRCODE_STORE_FAILED;
	snprintf(error->detail, sizeof(error->detail), "The node answered: %s",
			 words);
	if (b->target.kind == TARGET_NODE && error->hint == NULL)
		error->hint = redis_words_hint(words);
	refusal_report(b);

	if (redis_words_begin(words, "READONLY"))
		refusal_not_master(b);
	if (redis_words_begin(words, "CLUSTERDOWN"))
		cluster_want_map();

	/* Who is not authenticated may be after connecting again. */
	if (redis_words_begin(words, "NOAUTH"))
		b->drop = true;
}

/*
 * refusal_may_go_alone --- is this refusal of a command worth asking for each of
 * its locks?
 *
 * Redis checks the rights to all keys before it runs a script, so one key that
 * is not allowed keeps the others from being served.  The watchdog also wants
 * to know of a single one whether it is the lock or all locks.  What is taken
 * together is not asked for in parts.
 */
static bool
refusal_may_go_alone(const NodeBatch *b, const RedisCommand *cmd,
					 const char *words)
{
	const StoreOp *op = &b->batch.ops[cmd->first];

	return redis_op_group(op) > 1 && op->together == 0 &&
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
void
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
 * refusal_of_wait --- the node does not say how many replicas have it
 *
 * Was it the master before, it is not now.
 */
void
refusal_of_wait(NodeBatch *b, const RedisValue *v)
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
 * refusal_is_undone --- is there a release of this create behind it?
 *
 * It may have run, its own script being there.  So the create must not be sent again:
 * that would be behind it, and nobody would know of the lock.
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
 * refusal_not_loaded --- the command did not run for want of its script; true if
 * it is open again, for the next pass
 */
static bool
refusal_not_loaded(NodeBatch *b, const RedisCommand *cmd, const RedisValue *v)
{
	StoreOp    *ops = &b->batch.ops[cmd->first];
	bool		is_proof = cmd->kind == COMMAND_PROOF;
	LuaId		script = REDIS_PROOF_SCRIPT;

	if (!redis_words_begin(v->str, "NOSCRIPT") || b->passes >= PASSES_MAX ||
		(!is_proof && !redis_op_script(ops, &script)))
		return false;

	b->missing |= SCRIPT_BIT(script);
	for (int i = 0; i < cmd->nops; i++)
		flight_never_ran(&ops[i], cmd);
	if (b->unread && !is_proof && ops->kind == STORE_CREATE && refusal_is_undone(b, ops))
	{
		for (int i = 0; i < cmd->nops; i++)
			batch_settle(&b->batch, &ops[i], STORE_DOWN);
		return true;
	}
	if (is_proof)
	{
		b->passes++;
		flight_start_pass(b);
	}
	return true;
}

/*
 * refusal_send_on --- an operation that did not run goes to that row; or PART_xxx
 *
 * Nodes that do not agree may send it to and fro: after some times it waits for the map.
 */
static void
refusal_send_on(NodeBatch *b, StoreOp *op, int part, bool asking)
{
	if (part == PART_LATER)
		op->redirects = 0;
	else if (part >= 0 && ++op->redirects > REDIRECTS_MAX)
	{
		op->redirects = 0;
		part = PART_BY_MAP;
		asking = false;
	}
	op->asking = asking;
	batch_hand_on(&b->batch, op, part >= 0 ? PART_SENT_TO(part) : part);
	b->handed_on++;
}

/*
 * refusal_other_node --- the node in "MOVED slot address" or "ASK slot address"
 *
 * Without a host it is the one that says so.
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
	return cluster_find_node(b->target.place, host[0] != '\0' ? host : b->target.url.host,
							 atoi(colon + 1));
}

/*
 * refusal_redirects --- a node of a cluster says that it is not its slot, or not yet;
 * true if that is what it says
 *
 * Then nothing has run.  What checks its owner goes where the node says, if that is
 * known here; a create goes where the map says, which may be about to change: else it
 * could run at a node of which nobody would know that it was asked.
 */
static bool
refusal_redirects(NodeBatch *b, const RedisCommand *cmd, const char *words)
{
	bool		moved = redis_words_begin(words, "MOVED ");
	bool		ask = redis_words_begin(words, "ASK ");
	bool		again = redis_words_begin(words, "TRYAGAIN");

	if (b->target.kind != TARGET_SHARD || cmd->kind != COMMAND_OPS ||
		!(moved || ask || again))
		return false;
	if (moved)
		cluster_want_map();
	for (int i = 0; i < cmd->nops; i++)
	{
		StoreOp    *op = &b->batch.ops[cmd->first + i];
		int			part = PART_LATER;

		flight_never_ran(op, cmd);
		if (op->together == 0)
			op->alone = true;
		if (!again)
			part = refusal_other_node(b, words);
		if (moved && (store_runs_once(op->kind) || part == b->batch.part))
			part = CLUSTER_NO_NODE;
		if (!again && part == CLUSTER_NO_NODE)
			part = PART_BY_MAP;
		refusal_send_on(b, op, part, ask);
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
void
refusal_take(NodeBatch *b, const RedisCommand *cmd)
{
	const RedisValue *v = b->conn.in.values;
	StoreOp    *ops = &b->batch.ops[cmd->first];
	char		words[REDIS_WORDS_MAX];
	StoreOutcome outcome;

	b->loaded = 0;				/* what was refused may not have been loaded */
	if (refusal_not_loaded(b, cmd, v) || refusal_redirects(b, cmd, v->str))
		return;
	outcome = redis_error_words(v, b->target.url.user, words, sizeof(words));
	if (cmd->kind == COMMAND_OPS && ops->kind == STORE_FACTS)
	{
		/* Not worth failing for. */
		batch_settle(&b->batch, ops, outcome);
		return;
	}
	refusal_note(b, outcome, words);
	if (cmd->kind == COMMAND_PROOF)
		refusal_of_rest(b, outcome);
	else if (refusal_may_go_alone(b, cmd, words))
		refusal_go_alone(b, cmd, outcome);
	else
	{
		for (int i = 0; i < cmd->nops; i++)
		{
			ops[i].own_fault = (cmd->nops == 1 || ops->together > 0) &&
				!redis_words_concern_all(words) &&
				(b->runs_scripts || !b->patient);
			batch_settle(&b->batch, &ops[i], outcome);
		}
	}
}
