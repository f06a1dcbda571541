/*-------------------------------------------------------------------------
 *
 * refusal.c
 *	  How a batch handles error replies.
 *
 * One lock that is refused must not keep the others from being served, and a node that
 * refuses everybody must not be asked thousands of times.
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
 * refusal_of_rest --- the node refuses everybody: all open operations get this outcome
 *
 * Operations already carried out go on waiting for replicas.
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
 * refusal_not_master --- the node is not a master, or not any more
 */
static void
refusal_not_master(NodeBatch *b)
{
	b->drop = true;
	redis_target_is_no_master(&b->target);
	redis_target_want_addresses(&b->target, WANT_MASTER);
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
 * allowed keeps the others from being served.  The watchdog does this even for a single
 * lock, to find out whether the node refuses this one or all.  Locks that are taken
 * together are never separated.
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
		b->batch.ops[i].alone = true;
		if (outcome == STORE_DENIED)
			flight_never_ran(&b->batch.ops[i], cmd);
	}
	b->doubt = true;
}

/*
 * refusal_of_one --- the reply for one lock of several is an error
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
 * refusal_of_wait --- the reply to a WAIT is an error
 *
 * If the node was the master before, it may not be any more.
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
 * refusal_send_on --- hand on an operation that did not run, to this row or PART_xxx
 *
 * Nodes that disagree may redirect it back and forth: after REDIRECTS_MAX times it waits
 * for the map.
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
	return cluster_find_node(b->target.place, host[0] != '\0' ? host : b->target.url.host,
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
 * refusal_take --- take an error reply to a command
 *
 * If it was for several locks, one of them may be the cause.  They are retried one by
 * one, in the same batch, but only if a script without a key shows that the node runs
 * scripts: otherwise thousands of commands might be refused one by one.
 */
void
refusal_take(NodeBatch *b, const RedisCommand *cmd)
{
	const RedisValue *v = b->conn.in.values;
	StoreOp    *ops = &b->batch.ops[cmd->first];
	char		words[REDIS_WORDS_MAX];
	StoreOutcome outcome;

	b->loaded = 0;				/* a script in a refused EVAL may not have been loaded */
	if (refusal_not_loaded(b, cmd, v) || refusal_redirects(b, cmd, v->str))
		return;
	outcome = redis_error_words(v, b->target.url.user, words, sizeof(words));
	if (cmd->kind == COMMAND_OPS && ops->kind == STORE_FACTS)
	{
		/* Not worth failing for: INFO is not needed. */
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
