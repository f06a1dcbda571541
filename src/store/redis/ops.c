/*-------------------------------------------------------------------------
 *
 * ops.c
 *	  Encodes operations of the store interface, and reads their replies.
 *
 * It works in memory only, without a connection or a batch.  Nothing in here raises,
 * allocates in a memory context or waits.
 *
 * Redis identifies a script by its digest (EVALSHA).  That is computed with OpenSSL's SHA1,
 * which does not raise.  Should it fail, no node has a script with that digest, and each
 * gets the text.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/ops.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include <openssl/sha.h>

#include "utils/builtins.h"

#include "names.h"
#include "store/redis/resp.h"

/*
 * This script, called without any key, does nothing; it shows whether the node runs
 * scripts at all.
 */
#define PROOF_SCRIPT		LUA_REENTRANT_RENEW

/* Name and text of each script; the rest is computed. */
static RedisScript scripts[LUA_COUNT] =
{
#include "store/redis/lua_texts.h"
};

/* ----------
 * Scripts
 * ----------
 */

const RedisScript *
redis_script(LuaId id)
{
	RedisScript *script = &scripts[id];
	uint8		digest[SHA_DIGEST_LENGTH] = {0};

	if (script->text_len == 0)
	{
		script->text_len = strlen(script->text);
		(void) SHA1((const uint8 *) script->text, script->text_len, digest);
		(void) hex_encode((const char *) digest, sizeof(digest), script->sha1);
		script->evalsha_len = snprintf(script->evalsha, sizeof(script->evalsha),
									   "$7\r\nEVALSHA\r\n$%d\r\n%s\r\n",
									   2 * SHA_DIGEST_LENGTH, script->sha1);
	}
	return script;
}

/* ----------
 * Which script
 * ----------
 */

/*
 * op_call --- the description of an operation on a lock; NULL if it concerns no lock
 */
static const KindCall *
op_call(const StoreOp *op)
{
	if (op->args.together > 0)
		return &lr_kind(op->lock_kind)->together;
	return op->kind < STORE_CALLS ? lr_call(op->lock_kind, op->kind) : NULL;
}

bool
redis_op_script(const StoreOp *op, LuaId *script)
{
	const KindCall *call = op_call(op);

	*script = call != NULL ? call->script : PROOF_SCRIPT;
	return call != NULL || op->kind == STORE_PROBE;
}

int
redis_op_group(const StoreOp *op)
{
	const KindCall *call = op_call(op);

	return call != NULL && call->group > 1 ? call->group : 1;
}

/*
 * redis_ops_are_alike --- see resp.h
 *
 * They may be of two kinds of lock if the script is the same: then its keys and
 * arguments are the same, too.
 */
bool
redis_ops_are_alike(const StoreOp *one, const StoreOp *other)
{
	const KindCall *call = op_call(one);

	return one->kind == other->kind &&
		(one->lock_kind == other->lock_kind ||
		 (call != NULL && call->script == op_call(other)->script)) &&
		(one->min_replicas > 0) == (other->min_replicas > 0) &&
		one->args.quiet == other->args.quiet;
}

/* ----------
 * Requests
 * ----------
 */

/*
 * op_put_name --- a key or channel of a lock, by its pattern
 */
static void
op_put_name(RespOut *out, const StoreOp *op, const char *pattern)
{
	char		derived[LR_DERIVED_MAX];
	char		with[LR_OWNER_MAX] = "";

	if (strcmp(pattern, NAME_LOCK) == 0)
	{
		resp_put_bulk(out, op->name, op->name_len);
		return;
	}
	if (strchr(pattern, '@') != NULL)
		(void) lr_owner_text(op->owner, with);
	else if (strchr(pattern, '#') != NULL)
		(void) hex_encode((const char *) op->id, STORE_ID_LEN, with);
	resp_put_bulk(out, derived,
				  lr_derived_name(pattern, op->name, op->name_len, with, derived));
}

/*
 * op_put_owner --- an owner; 0: there is none
 */
static void
op_put_owner(RespOut *out, uint64 owner)
{
	char		text[LR_OWNER_MAX];

	resp_put_bulk(out, text, owner != 0 ? lr_owner_text(owner, text) : 0);
}

/*
 * op_put_beside --- the field of the write lock that the session of a reader holds as
 * well
 */
static void
op_put_beside(RespOut *out, const StoreOp *op)
{
	char		text[LR_OWNER_MAX + 6];
	int			len = 0;

	if (op->args.beside != 0)
	{
		len = lr_owner_text(op->args.beside, text);
		memcpy(text + len, ":write", 6);
		len += 6;
	}
	resp_put_bulk(out, text, len);
}

/*
 * op_put_permit --- the id of our own permit, or the one that the caller has given
 */
static void
op_put_permit(RespOut *out, const StoreOp *op)
{
	uint8		id[LR_SECRET_ID_LEN];

	if (op->owner != 0)
		lr_secret_id(op->owner, id);
	resp_put_bulk(out, (const char *) (op->owner != 0 ? id : op->id), sizeof(id));
}

static void
op_put_change(RespOut *out, StoreChange change)
{
	static const char *const words[] = {
		[CHANGE_SET] = "set",
		[CHANGE_INIT] = "init",
		[CHANGE_ADD] = "add",
		[CHANGE_DRAIN] = "drain",
		[CHANGE_DELETE] = "delete",
	};

	resp_put_text(out, words[change]);
}

/*
 * op_put_arg --- put one argument, taken from a field of the operation
 */
static void
op_put_arg(RespOut *out, const StoreOp *op, KindArg arg, bool sharded)
{
	char		digest[2 * STORE_ID_LEN + 1];

	switch (arg)
	{
		case ARG_END:
			break;
		case ARG_OWNER:
			op_put_owner(out, op->owner);
			break;
		case ARG_TEXT:
			resp_put_bulk(out, op->text, op->text_len);
			break;
		case ARG_LEASE:
			resp_put_int(out, op->lease_ms);
			break;
		case ARG_KEEP:
			resp_put_int(out, op->keep_ms);
			break;
		case ARG_NOT_AFTER:
			resp_put_int(out, op->sent.not_after);
			break;
		case ARG_FLOOR:
			resp_put_int(out, op->args.floor);
			break;
		case ARG_WRITE:
			resp_put_bulk(out, "1", 1);
			break;
		case ARG_PUBLISH:
			resp_put_text(out, op->args.quiet ? "" : sharded ? "SPUBLISH" : "PUBLISH");
			break;
		case ARG_CHANNEL:
			op_put_name(out, op, lr_channels[lr_kind(op->lock_kind)->topic]);
			break;
		case ARG_RELEASED:
			resp_put_bulk(out, "0", 1);
			break;
		case ARG_WAIT:
			resp_put_int(out, op->args.wait_ms);
			break;
		case ARG_SINCE:
			resp_put_int(out, op->args.since_ms);
			break;
		case ARG_BESIDE:
			op_put_beside(out, op);
			break;
		case ARG_PREFIX:
			op_put_name(out, op, NAME_READERS);
			break;
		case ARG_READ_WRITE_CHANNEL:
			op_put_name(out, op, NAME_READ_WRITE_CHANNEL);
			break;
		case ARG_CHANGE:
			op_put_change(out, op->args.change);
			break;
		case ARG_AMOUNT:
			resp_put_int(out, op->amount);
			break;
		case ARG_DIGEST:
			resp_put_bulk(out, digest,
						  hex_encode((const char *) op->id, STORE_ID_LEN, digest));
			break;
		case ARG_GIVES_BACK:
			op_put_owner(out, op->args.gives_back);
			break;
		case ARG_HERE:
			op_put_owner(out, op->args.here);
			break;
		case ARG_ACTED:
			resp_put_int(out, op->args.acted ? 1 : 0);
			break;
		case ARG_PERMIT:
			op_put_permit(out, op);
			break;
		case ARG_PERMITS_CHANNEL:
			op_put_name(out, op, NAME_PERMITS_CHANNEL);
			break;
	}
}

/*
 * op_is_usual --- is this the value that the script assumes if the argument is left out?
 */
static bool
op_is_usual(const StoreOp *op, KindArg arg, bool sharded)
{
	switch (arg)
	{
		case ARG_WRITE:
			return op->min_replicas == 0;
		case ARG_PUBLISH:
			return !op->args.quiet && !sharded;
		case ARG_KEEP:
			return op->keep_ms == 0;
		case ARG_AMOUNT:
			return op->amount == 0;
		default:
			return false;
	}
}

static bool
op_all_usual(const StoreOp *ops, int n, const KindArg *args, bool sharded)
{
	for (int i = 0; i < n; i++)
		for (int a = 0; args[a] != ARG_END; a++)
			if (!op_is_usual(&ops[i], args[a], sharded))
				return false;
	return true;
}

static void
op_put_args(RespOut *out, const StoreOp *op, const KindArg *args, bool sharded)
{
	for (int i = 0; args[i] != ARG_END; i++)
		op_put_arg(out, op, args[i], sharded);
}

static int
op_count_keys(const KindCall *call, bool fenced)
{
	int			n = 0;

	while (call->keys[n] != NULL)
		n++;
	return n + (fenced && call->fenced_key != NULL);
}

static int
op_count_args(const KindArg *args)
{
	int			n = 0;

	while (args[n] != ARG_END)
		n++;
	return n;
}

/*
 * op_put_script --- the beginning of a script call
 */
static void
op_put_script(RespOut *out, LuaId id, ScriptSet in_full, int nkeys, int nargs)
{
	const RedisScript *script = redis_script(id);

	resp_put_array(out, 3 + nkeys + nargs);
	if (in_full & SCRIPT_BIT(id))
	{
		resp_put_bulk(out, "EVAL", 4);
		resp_put_bulk(out, script->text, script->text_len);
	}
	else
		resp_put_raw(out, script->evalsha, script->evalsha_len);
	resp_put_int(out, nkeys);
}

/*
 * op_put_call --- the call of a script for n locks, as its description says
 *
 * The order: the keys of each lock, the arguments of the call, those of each lock, and,
 * if any of these is unusual, the unusual ones of each lock.
 */
static void
op_put_call(RespOut *out, const KindCall *call, const StoreOp *ops, int n,
			ScriptSet in_full, bool sharded)
{
	bool		fenced = ops->args.fenced;
	bool		usual = op_all_usual(ops, n, call->unusual, sharded);

	Assert(call->keys[0] != NULL);
	Assert(n == 1 || n <= call->group);
	op_put_script(out, call->script, in_full,
				  n * op_count_keys(call, fenced),
				  op_count_args(call->once) + n * op_count_args(call->each) +
				  (usual ? 0 : n * op_count_args(call->unusual)));
	for (int i = 0; i < n; i++)
	{
		for (int k = 0; call->keys[k] != NULL; k++)
			op_put_name(out, &ops[i], call->keys[k]);
		if (fenced && call->fenced_key != NULL)
			op_put_name(out, &ops[i], call->fenced_key);
	}
	op_put_args(out, ops, call->once, sharded);
	for (int i = 0; i < n; i++)
		op_put_args(out, &ops[i], call->each, sharded);
	for (int i = 0; i < n && !usual; i++)
		op_put_args(out, &ops[i], call->unusual, sharded);
}

void
redis_put_ops(RespOut *out, const StoreOp *ops, int n, ScriptSet in_full, bool sharded)
{
	const KindCall *call = op_call(ops);

	if (call != NULL)
		op_put_call(out, call, ops, n, in_full, sharded);
	else if (ops->kind == STORE_PROBE)
		op_put_script(out, PROOF_SCRIPT, in_full, 0, 0);
	else
		resp_put_request(out, 1, ops->kind == STORE_TIME ? "TIME" : "INFO");
}

void
redis_put_forget(RespOut *out, const StoreOp *op)
{
	resp_put_array(out, 3);
	resp_put_bulk(out, "ZREM", 4);
	op_put_name(out, op, NAME_TICKETS);
	op_put_owner(out, op->owner);
}

void
redis_put_wait(RespOut *out, int replicas, int64 ms)
{
	Assert(ms > 0);				/* 0 means for ever */
	resp_put_array(out, 3);
	resp_put_bulk(out, "WAIT", 4);
	resp_put_int(out, replicas);
	resp_put_int(out, ms);
}

/* ----------
 * Replies
 *
 * Each reader returns the outcome, STORE_PENDING when there is no such reply.
 * ----------
 */

static void
op_copy_holder(StoreAnswer *answer, const redisReply *v)
{
	strlcpy(answer->holder, v->str, sizeof(answer->holder));
}

/*
 * op_take_number --- a number in a range, or a text: the present holder
 */
static StoreOutcome
op_take_number(StoreAnswer *answer, const redisReply *v, int64 least, int64 most, int64 *number)
{
	if (v->type == REDIS_REPLY_INTEGER)
	{
		if (v->integer < least || v->integer > most)
			return STORE_PENDING;
		*number = v->integer;
		return STORE_OK;
	}
	if (v->type != REDIS_REPLY_STRING)
		return STORE_PENDING;
	op_copy_holder(answer, v);
	return STORE_GONE;
}

/*
 * What a script that creates or defines says first; see its text.
 */
typedef enum CreateReply
{
	CREATE_DONE = 0,			/* then the token and the clock; without a token
								 * the clock is all of the reply */
	CREATE_BUSY = 1,			/* then TTL and owner */
	CREATE_LATE = 2,			/* then 0 and the clock */
	CREATE_WRONG_TYPE = 3,		/* then TTL and type */
	CREATE_TOKEN = 4,			/* then TTL and value: a lock of another program */
	CREATE_MISSING = 6,			/* nobody has said how many there are */
	CREATE_CLEAR = 7,			/* busy, and nobody elsewhere waits */
	CREATE_UNPLACED = 8			/* likewise, and the owner has no place */
} CreateReply;

/*
 * op_take_clock --- the clock of the store (ms); false: it is none
 */
static bool
op_take_clock(StoreAnswer *answer, const redisReply *v)
{
	if (v->type != REDIS_REPLY_INTEGER || v->integer < 0 ||
		v->integer > STORE_TOKEN_MAX / LR_US_PER_MS)
		return false;
	answer->store_ms = v->integer;
	return true;
}

/*
 * op_take_fence --- the token when nothing was in the way, 0 if none was asked for
 */
static StoreOutcome
op_take_fence(StoreOp *op, const redisReply *v)
{
	bool		done = v->element[0]->integer == CREATE_DONE;
	const redisReply *token = v->element[1];

	if (token->type != REDIS_REPLY_INTEGER || token->integer < 0 ||
		token->integer > STORE_TOKEN_MAX || (done && op->args.fenced && token->integer == 0))
		return STORE_PENDING;
	op->answer.fence = token->integer;
	return done ? STORE_OK : STORE_LATE;
}

/*
 * op_take_obstacle --- the rest of the reply when something was
 */
static StoreOutcome
op_take_obstacle(StoreAnswer *answer, const redisReply *v)
{
	if (v->element[1]->type != REDIS_REPLY_INTEGER || v->element[1]->integer < STORE_NO_TTL ||
		v->element[2]->type != REDIS_REPLY_STRING)
		return STORE_PENDING;
	answer->ttl_ms = Min(v->element[1]->integer, STORE_TTL_MAX);
	if (v->element[0]->integer == CREATE_WRONG_TYPE)
	{
		strlcpy(answer->type_name, v->element[2]->str, sizeof(answer->type_name));
		answer->value = strcmp(answer->type_name, "string") == 0 ?
			STORE_VALUE_TOKEN : STORE_VALUE_OTHER;
		return STORE_WRONG_TYPE;
	}
	op_copy_holder(answer, v->element[2]);
	answer->value = v->element[0]->integer == CREATE_TOKEN ? STORE_VALUE_TOKEN :
		STORE_VALUE_LOCK;
	return STORE_BUSY;
}

/*
 * op_take_queued --- the reply to a create that always has the clock
 *
 * {code, number, text, clock}.  If the lock was taken, a text says that nobody elsewhere
 * waits.
 */
static StoreOutcome
op_take_queued(StoreOp *op, const redisReply *v)
{
	if (v->type != REDIS_REPLY_ARRAY || v->elements != 4 ||
		v->element[0]->type != REDIS_REPLY_INTEGER || v->element[2]->type != REDIS_REPLY_STRING ||
		!op_take_clock(&op->answer, v->element[3]))
		return STORE_PENDING;
	switch (v->element[0]->integer)
	{
		case CREATE_DONE:
		case CREATE_LATE:
			op->answer.clear = v->element[2]->len > 0;
			return op_take_fence(op, v);
		case CREATE_CLEAR:
		case CREATE_UNPLACED:
			op->answer.clear = true;
			op->answer.unplaced = v->element[0]->integer == CREATE_UNPLACED;
			return op_take_obstacle(&op->answer, v);
		case CREATE_BUSY:
		case CREATE_WRONG_TYPE:
		case CREATE_TOKEN:
			return op_take_obstacle(&op->answer, v);
		case CREATE_MISSING:
			return STORE_MISSING;
	}
	return STORE_PENDING;
}

/*
 * op_take_awaited --- the same, or the present holder of the lock that was to be
 * released
 */
static StoreOutcome
op_take_awaited(StoreOp *op, const redisReply *v)
{
	if (v->type != REDIS_REPLY_STRING)
		return op_take_queued(op, v);
	op_copy_holder(&op->answer, v);
	return STORE_GONE;
}

/* No clock shows less (ms since 1970), but a count or a flag may. */
#define CLOCK_LEAST			60000

/*
 * op_take_created --- the reply to a create: an array with this many elements, or only
 * the clock
 *
 * A node that answers 1 to everything has not granted anything.
 */
static StoreOutcome
op_take_created(StoreOp *op, const redisReply *v, int elements)
{
	if (v->type == REDIS_REPLY_INTEGER)
		return !op->args.fenced && v->integer >= CLOCK_LEAST && op_take_clock(&op->answer, v) ?
			STORE_OK : STORE_PENDING;
	if (v->type != REDIS_REPLY_ARRAY || v->elements != elements ||
		v->element[0]->type != REDIS_REPLY_INTEGER)
		return STORE_PENDING;
	switch (v->element[0]->integer)
	{
		case CREATE_DONE:
		case CREATE_LATE:
			return op_take_clock(&op->answer, v->element[2]) ? op_take_fence(op, v) :
				STORE_PENDING;
		case CREATE_BUSY:
		case CREATE_WRONG_TYPE:
		case CREATE_TOKEN:
			return op_take_obstacle(&op->answer, v);
	}
	return STORE_PENDING;
}

/*
 * op_take_notified --- how many were notified of a release, or that the owner was not there
 *
 * If the same request was sent before, over a connection that was lost, it may have
 * removed the owner itself: then it is unknown whether the lock was lost before.
 */
static StoreOutcome
op_take_notified(StoreAnswer *answer, const redisReply *v, bool repeated)
{
	if (v->type != REDIS_REPLY_INTEGER || v->integer < -1 ||
		v->integer > PG_INT32_MAX)
		return STORE_PENDING;
	answer->count = Max((int) v->integer, 0);
	if (v->integer >= 0)
		return STORE_OK;
	return repeated ? STORE_UNKNOWN : STORE_GONE;
}

/*
 * op_take_inspected --- type, TTL, owner, hold count; a digest of all owners, if there
 * may be several; and how many more there may be
 */
static StoreOutcome
op_take_inspected(StoreAnswer *answer, const redisReply *v)
{
	if (v->type != REDIS_REPLY_ARRAY || v->elements < 4 || v->elements > 6 ||
		v->element[0]->type != REDIS_REPLY_STRING ||
		v->element[1]->type != REDIS_REPLY_INTEGER || v->element[1]->integer < -2 ||
		v->element[2]->type != REDIS_REPLY_STRING || v->element[3]->type != REDIS_REPLY_STRING)
		return STORE_PENDING;

	strlcpy(answer->type_name, v->element[0]->str, sizeof(answer->type_name));
	if (strcmp(answer->type_name, "none") == 0)
		answer->value = STORE_VALUE_NONE;
	else if (strcmp(answer->type_name, "number") == 0)
		answer->value = STORE_VALUE_NUMBER;
	else if (strcmp(answer->type_name, "string") == 0 && v->element[3]->len == 0)
		answer->value = STORE_VALUE_TOKEN;
	else if (v->element[3]->len > 0)
	{
		int64		count = strtoi64(v->element[3]->str, NULL, 10);

		answer->value = STORE_VALUE_LOCK;
		answer->count = (int) Min(Max(count, PG_INT32_MIN), PG_INT32_MAX);
		op_copy_holder(answer, v->element[2]);
		if (v->elements == 6 && v->element[5]->type == REDIS_REPLY_INTEGER)
			answer->available = v->element[5]->integer;
	}
	else
		answer->value = STORE_VALUE_OTHER;
	if (v->elements >= 5 && v->element[4]->type == REDIS_REPLY_STRING)
		strlcpy(answer->digest, v->element[4]->str, sizeof(answer->digest));
	answer->ttl_ms = Min(Max(v->element[1]->integer, STORE_NO_TTL), STORE_TTL_MAX);
	return STORE_OK;
}

static bool
op_is_count(const redisReply *v)
{
	return v->type == REDIS_REPLY_INTEGER || v->type == REDIS_REPLY_STRING;
}

/*
 * op_take_value --- the number at a name, and what came of a change
 *
 * {code, what is free, what there is, clock}
 */
static StoreOutcome
op_take_value(StoreAnswer *answer, const redisReply *v)
{
	if (v->type != REDIS_REPLY_ARRAY || v->elements != 4 ||
		v->element[0]->type != REDIS_REPLY_INTEGER || !op_is_count(v->element[1]) ||
		!op_take_clock(answer, v->element[3]))
		return STORE_PENDING;
	switch (v->element[0]->integer)
	{
		case CREATE_DONE:
		case CREATE_BUSY:
			if (!op_is_count(v->element[2]))
				return STORE_PENDING;
			answer->changed = v->element[0]->integer == CREATE_DONE;
			if (resp_value_number(v->element[1], &answer->available) &&
				resp_value_number(v->element[2], &answer->total))
				return STORE_OK;
			strlcpy(answer->type_name, "string", sizeof(answer->type_name));
			answer->value = STORE_VALUE_TOKEN;
			answer->ttl_ms = STORE_NO_TTL;
			return STORE_WRONG_TYPE;
		case CREATE_LATE:
			return STORE_LATE;
		case CREATE_WRONG_TYPE:
			return op_take_obstacle(answer, v);
		case CREATE_MISSING:
			return STORE_MISSING;
	}
	return STORE_PENDING;
}

/*
 * op_take_call --- the reply of a script for one lock, as its description says
 */
static StoreOutcome
op_take_call(StoreOp *op, KindReply reply, const redisReply *v, bool repeated)
{
	int64		number = 0;
	StoreOutcome outcome;

	switch (reply)
	{
		case REPLY_CREATED:
			return op_take_created(op, v, 3);
		case REPLY_QUEUED:
			return op_take_queued(op, v);
		case REPLY_DONE:
			return op_take_number(&op->answer, v, 1, 1, &number);
		case REPLY_WATCHED:
			return op_take_number(&op->answer, v, 1, STORE_TOKEN_MAX, &op->answer.ttl_ms);
		case REPLY_TOKEN:
			return op_take_number(&op->answer, v, Max(op->args.floor + 1, 1), STORE_TOKEN_MAX,
								  &op->answer.fence);
		case REPLY_TOLD:
			return op_take_notified(&op->answer, v, repeated);
		case REPLY_INSPECTED:
			return op_take_inspected(&op->answer, v);
		case REPLY_VALUE:
			return op_take_value(&op->answer, v);
		case REPLY_AWAITED:
			return op_take_awaited(op, v);
		case REPLY_NOTIFIED:
			outcome = op_take_number(&op->answer, v, 0, PG_INT32_MAX, &number);
			if (outcome == STORE_OK)
				op->answer.count = (int) number;
			return outcome;
		case REPLY_TOGETHER:
			break;				/* redis_take_together() */
	}
	return STORE_PENDING;
}

/*
 * op_take_plain --- the reply to an operation that concerns no lock
 */
static StoreOutcome
op_take_plain(StoreOp *op, const redisReply *v)
{
	int64		us;

	switch (op->kind)
	{
		case STORE_PROBE:
			return v->type == REDIS_REPLY_ARRAY && v->elements == 0 ? STORE_OK : STORE_PENDING;
		case STORE_TIME:
			if (!resp_value_time(v, &us))
				return STORE_PENDING;
			op->answer.store_ms = us / LR_US_PER_MS;
			return STORE_OK;
		case STORE_FACTS:
			return v->type == REDIS_REPLY_STRING ? STORE_OK : STORE_PENDING;
		default:
			return STORE_PENDING;
	}
}

StoreOutcome
redis_take_op(StoreOp *op, const redisReply *v, bool repeated)
{
	const KindCall *call = op_call(op);

	return call != NULL ? op_take_call(op, call->reply, v, repeated) : op_take_plain(op, v);
}

/*
 * redis_take_together --- see resp.h
 *
 * The reply describes an obstacle like that to a single create, followed by the number
 * of the lock in question.
 */
StoreOutcome
redis_take_together(StoreOp *ops, int n, const redisReply *v, int *which)
{
	bool		obstacle = v->type == REDIS_REPLY_ARRAY && v->elements == 4;
	StoreOutcome outcome;

	*which = -1;
	if (obstacle)
	{
		const redisReply *number = v->element[3];

		if (number->type != REDIS_REPLY_INTEGER || number->integer < 1 || number->integer > n)
			return STORE_PENDING;
		*which = (int) number->integer - 1;
	}
	outcome = op_take_created(&ops[Max(*which, 0)], v, obstacle ? 4 : 3);
	return obstacle == (outcome == STORE_BUSY || outcome == STORE_WRONG_TYPE) ?
		outcome : STORE_PENDING;
}
