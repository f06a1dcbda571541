/*-------------------------------------------------------------------------
 *
 * redis_store.c
 *	  Locks in one Redis node: the store interface of store.h.
 *
 * A batch is sent in the order of its array.  Each operation is one EVALSHA
 * (or TIME); neighbours of the same kind share one where the script takes
 * several keys (renewals, releases).  Commands in flight are remembered in a
 * ring of fixed size, so that nothing is allocated on the way.
 *
 * A batch goes through its array in passes.  The first is all there is unless
 * a script was not loaded (the next pass sends what is still open, that script
 * in full), a command for several locks was refused (see take_error), or the
 * connection was lost (the next pass goes out on a new one).
 * A create that may have been read by Redis never gets into another pass.
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

#include "keyname.h"
#include "instance.h"
#include "store/node.h"
#include "store/redis/conn.h"
#include "store/redis/scripts.h"
#include "store/redis/redis_store.h"
#include "settings.h"
#include "stats.h"
#include "wait_events.h"

/* Keys in one script: longer ones would hold up Redis. */
#define RENEW_GROUP			200
#define RELEASE_GROUP		100

/* Commands in flight, and bytes not yet taken by the kernel. */
#define FLIGHT_MAX			256
#define OUT_HIGH_WATER		65536

/*
 * A connection that was heard so short a time ago is not looked at before it is
 * used again.  If the node has ended it since, that is found when the reply is
 * read, and nothing is lost by it; but a reply too many would be taken for that
 * to the next request, and who sends one may do so a little later.
 */
#define HEARD_LATELY		(10 * LR_US_PER_MS)

/* Sent again because a script was not loaded: somebody flushes all the time. */
#define PASSES_MAX			4

/* Longer than anybody waits, and still good to calculate with (ms). */
#define TTL_MAX				(LR_NEVER / LR_US_PER_MS - 1)

/* The largest number that Lua and JSON have exactly. */
#define TOKEN_MAX			INT64CONST(9007199254740991)

typedef struct RedisCommand
{
	int			first;			/* its operations: ops[first ..] */
	int			nops;			/* 0: does it run scripts at all? */
	uint64		starts_at;		/* in the stream of the connection */
	int64		encoded_at;
} RedisCommand;

struct StoreHandle
{
	RedisConn	conn;
	bool		patient;		/* watchdog: asks a silent node too */
	bool		stays;			/* see store.h: the node is not the one that
								 * others talk to */

	/* The batch. */
	bool		active;
	StoreOp    *ops;
	int			nops;
	int			left;			/* without outcome */
	int			next;			/* to be put into a command in this pass */
	int			passes;
	int64		deadline;
	int64		progress_at;	/* the node was last heard, or asked */
	int64		reply_until;	/* it must be heard again */
	bool		reconnected;	/* once, after commands were sent */
	bool		drop;			/* close when the batch is done */
	uint32		missing;		/* scripts that were found not loaded */
	uint32		in_full;		/* scripts to send in full in this pass */
	bool		runs_scripts;	/* it has done so in this batch */
	bool		doubt;			/* it has refused what it may refuse to all */
	bool		proving;		/* asked whether it runs scripts: wait for that */
	RedisCommand flight[FLIGHT_MAX];
	int			flight_first;
	int			flight_n;

	StoreError	error;
};

static const LuaId op_script[] = {
	[STORE_CREATE] = LUA_REENTRANT_CREATE,
	[STORE_SET] = LUA_REENTRANT_SET,
	[STORE_RELEASE] = LUA_REENTRANT_RELEASE,
	[STORE_RENEW] = LUA_REENTRANT_RENEW,
	[STORE_MINT] = LUA_REENTRANT_MINT,
	[STORE_FORCE] = LUA_REENTRANT_FORCE,
	[STORE_INSPECT] = LUA_REENTRANT_INSPECT,
	[STORE_PROBE] = LUA_REENTRANT_RENEW,
};

static bool
is_script(StoreOpKind kind)
{
	return kind != STORE_TIME && kind != STORE_FACTS;
}

/* These take several locks in one command. */
static bool
is_shared(StoreOpKind kind)
{
	return kind == STORE_RENEW || kind == STORE_RELEASE;
}

/* ----------
 * Outcomes
 * ----------
 */

static void
settle(StoreHandle *h, StoreOp *op, StoreOutcome outcome)
{
	Assert(op->outcome == STORE_PENDING);
	op->outcome = outcome;
	h->left--;
}

static RedisCommand *
oldest_command(StoreHandle *h)
{
	return h->flight_n > 0 ? &h->flight[h->flight_first] : NULL;
}

static void
land_oldest(StoreHandle *h)
{
	h->flight_first = (h->flight_first + 1) % FLIGHT_MAX;
	h->flight_n--;
}

/*
 * finish --- the batch is done when nothing is left
 */
static void
finish(StoreHandle *h)
{
	if (!h->active || h->left > 0)
		return;
	h->active = false;
	h->ops = NULL;
	h->nops = 0;
	if (h->drop)
		redis_conn_close(&h->conn);
}

/*
 * give_up --- nothing more will be sent or read for what is still open
 *
 * "unsent" is the outcome of what was never sent.
 */
static void
give_up(StoreHandle *h, StoreOutcome unsent)
{
	for (int i = 0; i < h->nops && h->left > 0; i++)
	{
		StoreOp    *op = &h->ops[i];

		if (op->outcome == STORE_PENDING)
			settle(h, op, op->sent_at != 0 ? STORE_UNKNOWN : unsent);
	}
	h->flight_n = 0;
	finish(h);
}

/*
 * mark_unsent --- this command surely did not run
 *
 * One for the same operation on a connection that was lost may have.
 */
static void
mark_unsent(StoreOp *op, const RedisCommand *cmd)
{
	if (op->sent_at >= cmd->encoded_at)
	{
		op->sent_at = 0;
		op->not_after = 0;
	}
}

/*
 * ground_flight --- the connection is gone: what becomes of commands in flight
 *
 * Of which no byte can have been read, those have not been sent.  Others may have
 * run: a create ends here, the rest stays open and may be repeated.
 */
static void
ground_flight(StoreHandle *h)
{
	RedisCommand *cmd;

	while ((cmd = oldest_command(h)) != NULL)
	{
		bool		sent = cmd->starts_at < h->conn.bytes_sent;

		for (int i = cmd->first; i < cmd->first + cmd->nops; i++)
		{
			StoreOp    *op = &h->ops[i];

			if (sent)
			{
				if (op->kind == STORE_CREATE)
					settle(h, op, STORE_UNKNOWN);
			}
			else
				mark_unsent(op, cmd);
		}
		land_oldest(h);
	}
}

static void
start_pass(StoreHandle *h)
{
	h->next = 0;
	h->in_full = h->missing;
	h->missing = 0;
	h->proving = false;
}

/*
 * report_error --- have what a session was told in redis_lock_status too
 *
 * The watchdog says there itself what it finds, and what is due to this process
 * alone is nobody's business.
 */
static void
report_error(StoreHandle *h)
{
	if (!h->patient &&
		ERRCODE_TO_CATEGORY(h->error.sqlstate) == ERRCODE_CONNECTION_EXCEPTION)
		node_report_error(STORE_REDIS, h->error.detail);
}

/*
 * connection_gone --- the connection has been closed under a batch
 *
 * A kept connection may have died unnoticed, so one new one is tried; not
 * after a time-out or nonsense, and not when connecting is what failed.
 */
static void
connection_gone(StoreHandle *h, bool try_again)
{
	ground_flight(h);
	h->error = h->conn.error;
	if (h->left > 0 && try_again && !h->reconnected && !h->stays)
	{
		h->reconnected = true;
		start_pass(h);
		redis_conn_open(&h->conn, h->deadline);
		return;
	}
	report_error(h);
	give_up(h, h->conn.failure);
}

/*
 * nonsense --- a reply that no script of ours gives
 */
static void
nonsense(StoreHandle *h)
{
	redis_conn_fail(&h->conn, STORE_DOWN, ERRCODE_CONNECTION_FAILURE,
					"The node's answer makes no sense.");
	connection_gone(h, false);
}

/* ----------
 * Sending
 * ----------
 */

static void
note_progress(StoreHandle *h, int64 now)
{
	h->progress_at = now;
	h->reply_until = Min(h->deadline, now + lr_command_timeout * LR_US_PER_MS);
}

/*
 * group_size --- how many operations from "first" on share a command
 */
static int
group_size(const StoreHandle *h, int first)
{
	StoreOpKind kind = h->ops[first].kind;
	int			max = 1;
	int			n = 1;

	if (h->ops[first].alone)
		return 1;
	if (kind == STORE_RENEW)
		max = RENEW_GROUP;
	else if (kind == STORE_RELEASE)
		max = RELEASE_GROUP;

	while (n < max && first + n < h->nops &&
		   h->ops[first + n].kind == kind &&
		   !h->ops[first + n].alone &&
		   h->ops[first + n].outcome == STORE_PENDING)
		n++;
	return n;
}

static void
put_owner(RedisConn *c, uint64 owner)
{
	char		text[LR_OWNER_MAX];

	redis_put_bulk(c, text, lr_owner_text(owner, text));
}

static void
put_name(RedisConn *c, const StoreOp *op)
{
	redis_put_bulk(c, op->name, op->name_len);
}

static void
put_channel(RedisConn *c, const StoreOp *op)
{
	char		channel[LR_DERIVED_MAX];

	redis_put_bulk(c, channel, lr_channel_name(op->name, op->name_len, channel));
}

static void
put_token(RedisConn *c, const StoreOp *op)
{
	char		token[LR_DERIVED_MAX];

	redis_put_bulk(c, token, lr_token_name(op->name, op->name_len, token));
}

/*
 * put_script --- the beginning of a script call
 */
static void
put_script(StoreHandle *h, LuaId id, int nkeys, int nargs)
{
	RedisConn  *c = &h->conn;
	const RedisScript *script = redis_script(id);

	redis_put_array(c, 3 + nkeys + nargs);
	if (h->in_full & (1 << id))
	{
		redis_put_bulk(c, "EVAL", 4);
		redis_put_bulk(c, script->text, script->text_len);
	}
	else
	{
		redis_put_bulk(c, "EVALSHA", 7);
		redis_put_bulk(c, script->sha1, 40);
	}
	redis_put_int(c, nkeys);
}

/*
 * put_command --- ops[first .. first + n) as one command
 */
static void
put_command(StoreHandle *h, int first, int n)
{
	RedisConn  *c = &h->conn;
	StoreOp    *op = &h->ops[first];

	switch (op->kind)
	{
		case STORE_CREATE:
			put_script(h, LUA_REENTRANT_CREATE, op->fenced ? 2 : 1, 3);
			put_name(c, op);
			if (op->fenced)
				put_token(c, op);
			redis_put_int(c, op->lease_ms);
			put_owner(c, op->owner);
			redis_put_int(c, op->not_after);
			break;
		case STORE_SET:
			put_script(h, LUA_REENTRANT_SET, 1, 3);
			put_name(c, op);
			put_owner(c, op->owner);
			redis_put_int(c, op->count);
			redis_put_int(c, op->lease_ms);
			break;
		case STORE_RELEASE:
			put_script(h, LUA_REENTRANT_RELEASE, 2 * n, 2 + 2 * n);
			for (int i = 0; i < n; i++)
			{
				put_name(c, &op[i]);
				put_channel(c, &op[i]);
			}
			redis_put_bulk(c, "PUBLISH", 7);
			redis_put_bulk(c, "0", 1);
			for (int i = 0; i < n; i++)
			{
				put_owner(c, op[i].owner);
				redis_put_int(c, op[i].keep_ms);
			}
			break;
		case STORE_RENEW:
			put_script(h, LUA_REENTRANT_RENEW, n, 2 * n);
			for (int i = 0; i < n; i++)
				put_name(c, &op[i]);
			for (int i = 0; i < n; i++)
			{
				put_owner(c, op[i].owner);
				redis_put_int(c, op[i].lease_ms);
			}
			break;
		case STORE_MINT:
			put_script(h, LUA_REENTRANT_MINT, 2, 2);
			put_name(c, op);
			put_token(c, op);
			put_owner(c, op->owner);
			redis_put_int(c, op->floor);
			break;
		case STORE_FORCE:
			put_script(h, LUA_REENTRANT_FORCE, 2, 3);
			put_name(c, op);
			put_channel(c, op);
			redis_put_bulk(c, "PUBLISH", 7);
			redis_put_bulk(c, "0", 1);
			redis_put_bulk(c, op->owner_text, op->owner_text_len);
			break;
		case STORE_INSPECT:
			put_script(h, LUA_REENTRANT_INSPECT, 1, 0);
			put_name(c, op);
			break;
		case STORE_PROBE:
			put_script(h, LUA_REENTRANT_RENEW, 0, 0);
			break;
		case STORE_TIME:
			redis_put_array(c, 1);
			redis_put_bulk(c, "TIME", 4);
			break;
		case STORE_FACTS:
			redis_put_array(c, 1);
			redis_put_bulk(c, "INFO", 4);
			break;
	}

	/* EVAL has loaded it for the commands behind. */
	if (is_script(op->kind))
		h->in_full &= ~(1 << op_script[op->kind]);
}

/*
 * push_command --- remember what was put together: ops[first .. first + n)
 */
static void
push_command(StoreHandle *h, int first, int n, uint64 starts_at, int64 now)
{
	RedisCommand *cmd = &h->flight[(h->flight_first + h->flight_n) % FLIGHT_MAX];

	if (h->flight_n == 0)
		note_progress(h, now);
	h->flight_n++;
	cmd->first = first;
	cmd->nops = n;
	cmd->starts_at = starts_at;
	cmd->encoded_at = now;
}

/*
 * encode_next --- put the next command of this pass together
 *
 * Without memory for it, it is tried with fewer operations; if even one is too
 * large the operation surely does not reach the store.
 */
static void
encode_next(StoreHandle *h)
{
	RedisConn  *c = &h->conn;
	int			first = h->next;
	int			n = group_size(h, first);
	int64		now = lr_now();
	uint32		in_full = h->in_full;
	uint64		starts_at = c->bytes_put;

	if (h->ops[first].kind == STORE_CREATE)
	{
		int64		until = Min(h->deadline,
								now + lr_command_timeout * LR_US_PER_MS);

		h->ops[first].not_after = (until + c->clock_offset) / LR_US_PER_MS;
	}

	for (;;)
	{
		put_command(h, first, n);
		if (!c->out_failed)
			break;
		redis_conn_unput(c, starts_at);
		h->in_full = in_full;
		if (n == 1)
		{
			h->error.sqlstate = ERRCODE_OUT_OF_MEMORY;
			strlcpy(h->error.detail, "Out of memory.", sizeof(h->error.detail));
			settle(h, &h->ops[first],
				   h->ops[first].sent_at != 0 ? STORE_UNKNOWN : STORE_DOWN);
			h->next = first + 1;
			return;
		}
		n /= 2;
	}

	for (int i = first; i < first + n; i++)
	{
		if (h->ops[i].sent_at == 0)
			h->ops[i].sent_at = now;
	}
	h->next = first + n;
	push_command(h, first, n, starts_at, now);
}

/*
 * refuse_rest --- the node does nothing for anybody
 */
static void
refuse_rest(StoreHandle *h, StoreOutcome outcome)
{
	for (int i = 0; i < h->nops; i++)
		if (h->ops[i].outcome == STORE_PENDING)
			settle(h, &h->ops[i], outcome);
}

/*
 * encode_proof --- ask whether the node runs scripts at all, with no key
 *
 * Without memory even for that, what was refused stays refused.
 */
static void
encode_proof(StoreHandle *h)
{
	uint64		starts_at = h->conn.bytes_put;

	put_script(h, LUA_REENTRANT_RENEW, 0, 0);
	if (h->conn.out_failed)
	{
		redis_conn_unput(&h->conn, starts_at);
		refuse_rest(h, STORE_REFUSED);
		return;
	}
	h->in_full &= ~(1 << LUA_REENTRANT_RENEW);
	h->proving = true;
	push_command(h, 0, 0, starts_at, lr_now());
}

/*
 * send_commands --- as many as the ring, the buffer and the kernel take
 *
 * False when the connection was lost over it.
 */
static bool
send_commands(StoreHandle *h)
{
	RedisConn  *c = &h->conn;

	for (;;)
	{
		bool		more;

		if (h->doubt && !h->runs_scripts && !h->proving)
			encode_proof(h);
		while (h->next < h->nops && h->ops[h->next].outcome != STORE_PENDING)
			h->next++;
		more = h->next < h->nops && h->flight_n < FLIGHT_MAX && !h->proving;
		if (more && c->out_len - c->out_pos < OUT_HIGH_WATER)
		{
			encode_next(h);
			continue;
		}
		if (c->out_pos == c->out_len)
			return true;
		if (!redis_conn_flush(c))
			return false;
		if (!more || c->out_pos < c->out_len)
			return true;
	}
}

/* ----------
 * Replies
 * ----------
 */

static void
copy_holder(StoreOp *op, const RedisValue *v)
{
	strlcpy(op->holder, v->str, sizeof(op->holder));
}

/*
 * take_number_or_holder --- the reply of set, renew and mint for one lock
 *
 * A number (in *number), or a text that says who has it instead.
 */
static bool
take_number_or_holder(StoreHandle *h, StoreOp *op, const RedisValue *v,
					  int64 *number)
{
	if (v->type == REDIS_REPLY_INTEGER)
	{
		*number = v->integer;
		return true;
	}
	if (v->type != REDIS_REPLY_STRING)
		return false;
	copy_holder(op, v);
	settle(h, op, STORE_GONE);
	return true;
}

static bool
is_ttl(const RedisValue *v)
{
	return v->type == REDIS_REPLY_INTEGER && v->integer >= STORE_NO_TTL;
}

static bool
take_create(StoreHandle *h, StoreOp *op, const RedisValue *v)
{
	if (v->type != REDIS_REPLY_ARRAY || v->elements != 3 ||
		v[1].type != REDIS_REPLY_INTEGER)
		return false;

	switch (v[1].integer)
	{
		case 0:
		case 2:
			if (v[2].type != REDIS_REPLY_INTEGER ||
				v[3].type != REDIS_REPLY_INTEGER ||
				v[2].integer < 0 || v[2].integer > TOKEN_MAX ||
				v[3].integer < 0 || v[3].integer > TOKEN_MAX / LR_US_PER_MS ||
				(v[1].integer == 0 && op->fenced && v[2].integer == 0))
				return false;
			op->fence = v[2].integer;
			op->store_ms = v[3].integer;
			redis_conn_set_clock(&h->conn, op->store_ms * LR_US_PER_MS, lr_now());
			settle(h, op, v[1].integer == 0 ? STORE_OK : STORE_LATE);
			return true;
		case 1:
		case 3:
		case 4:
			if (!is_ttl(&v[2]) || v[3].type != REDIS_REPLY_STRING)
				return false;
			op->ttl_ms = Min(v[2].integer, TTL_MAX);
			if (v[1].integer == 3)
			{
				strlcpy(op->type_name, v[3].str, sizeof(op->type_name));
				op->value = strcmp(op->type_name, "string") == 0 ?
					STORE_VALUE_TOKEN : STORE_VALUE_OTHER;
				settle(h, op, STORE_WRONG_TYPE);
				return true;
			}
			copy_holder(op, &v[3]);
			op->value = v[1].integer == 1 ? STORE_VALUE_LOCK : STORE_VALUE_TOKEN;
			settle(h, op, STORE_BUSY);
			return true;
	}
	return false;
}

/*
 * take_told --- how many were told of a release, or that the owner is not there
 *
 * If the connection was lost over the same request before, it may well be that
 * request which removed the owner: then nobody can say that it was gone.
 */
static bool
take_told(StoreHandle *h, StoreOp *op, const RedisValue *v)
{
	bool		repeated = op->sent_at < oldest_command(h)->encoded_at;

	if (v->type != REDIS_REPLY_INTEGER || v->integer < -1 ||
		v->integer > PG_INT32_MAX)
		return false;
	op->receivers = Max((int) v->integer, 0);
	if (v->integer >= 0)
		settle(h, op, STORE_OK);
	else
		settle(h, op, repeated ? STORE_UNKNOWN : STORE_GONE);
	return true;
}

static bool
take_inspect(StoreHandle *h, StoreOp *op, const RedisValue *v)
{
	if (v->type != REDIS_REPLY_ARRAY || v->elements != 4 ||
		v[1].type != REDIS_REPLY_STRING ||
		v[2].type != REDIS_REPLY_INTEGER || v[2].integer < -2 ||
		v[3].type != REDIS_REPLY_STRING || v[4].type != REDIS_REPLY_STRING)
		return false;

	strlcpy(op->type_name, v[1].str, sizeof(op->type_name));
	if (strcmp(op->type_name, "none") == 0)
		op->value = STORE_VALUE_NONE;
	else if (strcmp(op->type_name, "string") == 0)
		op->value = STORE_VALUE_TOKEN;
	else if (v[4].len > 0)
	{
		int64		count = strtoi64(v[4].str, NULL, 10);

		op->value = STORE_VALUE_LOCK;
		op->hold_count = (int) Min(Max(count, PG_INT32_MIN), PG_INT32_MAX);
		copy_holder(op, &v[3]);
	}
	else
		op->value = STORE_VALUE_OTHER;
	op->ttl_ms = Min(Max(v[2].integer, STORE_NO_TTL), TTL_MAX);
	settle(h, op, STORE_OK);
	return true;
}

/*
 * concerns_all --- would everybody get this answer, whatever he asks for?
 *
 * One that is not known here may be about one key.
 */
static bool
concerns_all(const char *words)
{
	static const char *const codes[] = {
		"LOADING", "READONLY", "MASTERDOWN", "MISCONF", "NOREPLICAS",
		"CLUSTERDOWN", "BUSY", "UNKILLABLE", "NOSCRIPT", "NOAUTH", "WRONGPASS",
		"DENIED", "ERR invalid password", "ERR max number of clients"
	};

	for (int i = 0; i < lengthof(codes); i++)
		if (strncmp(words, codes[i], strlen(codes[i])) == 0)
			return true;
	return false;
}

/*
 * note_error --- the node refuses something, in these words
 */
static void
note_error(StoreHandle *h, StoreOutcome outcome, const char *words)
{
	h->error = h->conn.error;
	h->error.hint = NULL;
	h->error.sqlstate = outcome == STORE_DENIED ?
		ERRCODE_SQLSERVER_REJECTED_ESTABLISHMENT_OF_SQLCONNECTION :
		ERRCODE_CONNECTION_FAILURE;
	if (strncmp(words, "FENCERANGE", 10) == 0)
		h->error.sqlstate = ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE;
	if (outcome == STORE_DENIED && !concerns_all(words))
		h->error.hint = redis_rights_hint;
	snprintf(h->error.detail, sizeof(h->error.detail),
			 "The node answered: %s", words);
	report_error(h);

	/*
	 * A replica may have been a master when we connected, and whoever is not
	 * authenticated may be after connecting again.
	 */
	if (strncmp(words, "READONLY", 8) == 0)
	{
		h->drop = true;
		if (h->conn.by_name && !h->stays)
			node_want_addresses(WANT_MASTER);
	}
	if (strncmp(words, "NOAUTH", 6) == 0)
		h->drop = true;
}

/*
 * take_own_error --- one lock of several has an error for a reply
 */
static void
take_own_error(StoreHandle *h, StoreOp *op, const RedisValue *v)
{
	char		words[192];
	StoreOutcome outcome = redis_error_words(v, words, sizeof(words));

	note_error(h, outcome, words);
	op->own_fault = !concerns_all(words);
	settle(h, op, outcome);
}

/*
 * take_one --- the reply, or the part of it, for one operation
 *
 * False: it is none of the replies that there can be.
 */
static bool
take_one(StoreHandle *h, StoreOp *op, const RedisValue *v)
{
	int64		number;

	switch (op->kind)
	{
		case STORE_CREATE:
			return take_create(h, op, v);
		case STORE_SET:
		case STORE_RENEW:
			if (!take_number_or_holder(h, op, v, &number))
				return false;
			if (op->outcome == STORE_PENDING)
			{
				if (number != 1)
					return false;
				settle(h, op, STORE_OK);
			}
			return true;
		case STORE_RELEASE:
		case STORE_FORCE:
			return take_told(h, op, v);
		case STORE_MINT:
			if (!take_number_or_holder(h, op, v, &number))
				return false;
			if (op->outcome == STORE_PENDING)
			{
				if (number <= op->floor || number < 1 || number > TOKEN_MAX)
					return false;
				op->fence = number;
				settle(h, op, STORE_OK);
			}
			return true;
		case STORE_INSPECT:
			return take_inspect(h, op, v);
		case STORE_PROBE:
			if (v->type != REDIS_REPLY_ARRAY || v->elements != 0)
				return false;
			settle(h, op, STORE_OK);
			return true;
		case STORE_TIME:
			if (!redis_value_time(v, &number))
				return false;
			op->store_ms = number / LR_US_PER_MS;
			redis_conn_set_clock(&h->conn, number, lr_now());
			settle(h, op, STORE_OK);
			return true;
		case STORE_FACTS:
			if (v->type != REDIS_REPLY_STRING)
				return false;
			if (!h->stays)
				redis_conn_take_info(&h->conn, v->str);
			settle(h, op, STORE_OK);
			return true;
	}
	return false;
}

/*
 * may_go_alone --- is this refusal of a command worth asking for each of its
 * locks?
 *
 * Redis checks the rights to all keys before it runs a script, so one key that
 * is not allowed keeps the others from being served.  The watchdog also wants
 * to know of a single one whether it is the lock or all locks.
 */
static bool
may_go_alone(const StoreHandle *h, const RedisCommand *cmd, const char *words)
{
	return is_shared(h->ops[cmd->first].kind) && h->passes < PASSES_MAX &&
		!concerns_all(words) &&
		(cmd->nops > 1 || (h->patient && !h->runs_scripts));
}

/*
 * go_alone --- open again for the next pass, each in a command of its own
 *
 * Who has no right to a key is told so before the script runs; of other errors
 * nobody knows how far it came.
 */
static void
go_alone(StoreHandle *h, const RedisCommand *cmd, StoreOutcome outcome)
{
	for (int i = cmd->first; i < cmd->first + cmd->nops; i++)
	{
		h->ops[i].alone = true;
		if (outcome == STORE_DENIED)
			mark_unsent(&h->ops[i], cmd);
	}
	h->doubt = true;
}

/*
 * take_error --- an error reply to a command
 *
 * If it was for several locks, one of them may be the cause.  They are tried
 * one by one, in the same batch: but only when a script without a key shows that
 * this node runs scripts, or thousands of commands would be refused one by one.
 */
static void
take_error(StoreHandle *h, const RedisCommand *cmd)
{
	const RedisValue *v = h->conn.values;
	StoreOp    *ops = &h->ops[cmd->first];
	bool		is_proof = cmd->nops == 0;
	char		words[192];
	StoreOutcome outcome;

	if ((is_proof || is_script(ops->kind)) && h->passes < PASSES_MAX &&
		strncmp(v->str, "NOSCRIPT", 8) == 0)
	{
		/* It did not run: open again for the next pass. */
		h->missing |= 1 << (is_proof ? LUA_REENTRANT_RENEW : op_script[ops->kind]);
		for (int i = 0; i < cmd->nops; i++)
			mark_unsent(&ops[i], cmd);
		if (is_proof)
		{
			h->passes++;
			start_pass(h);
		}
		return;
	}

	outcome = redis_error_words(v, words, sizeof(words));
	if (!is_proof && ops->kind == STORE_FACTS)
	{
		/* Not worth failing for. */
		settle(h, ops, outcome);
		return;
	}
	note_error(h, outcome, words);
	if (is_proof)
		refuse_rest(h, outcome);
	else if (may_go_alone(h, cmd, words))
		go_alone(h, cmd, outcome);
	else
	{
		for (int i = 0; i < cmd->nops; i++)
		{
			ops[i].own_fault = cmd->nops == 1 && !concerns_all(words) &&
				(h->runs_scripts || !h->patient);
			settle(h, &ops[i], outcome);
		}
	}
}

/*
 * take_good --- a reply that is no error; false if there is no such reply
 */
static bool
take_good(StoreHandle *h, const RedisCommand *cmd)
{
	const RedisValue *v = h->conn.values;
	StoreOp    *ops = &h->ops[cmd->first];
	bool		good = true;

	if (cmd->nops == 0)
	{
		h->proving = false;
		h->runs_scripts = true;
		return v->type == REDIS_REPLY_ARRAY && v->elements == 0;
	}
	h->runs_scripts = h->runs_scripts || is_script(ops->kind);
	if (!is_shared(ops->kind))
		return take_one(h, ops, v);

	if (v->type != REDIS_REPLY_ARRAY || v->elements != cmd->nops)
		return false;
	for (int i = 0; good && i < cmd->nops; i++)
	{
		if (v[1 + i].type == REDIS_REPLY_ERROR)
			take_own_error(h, &ops[i], &v[1 + i]);
		else
			good = take_one(h, &ops[i], &v[1 + i]);
	}
	return good;
}

/*
 * take_reply --- a reply has been parsed; false if the batch ended over it
 */
static bool
take_reply(StoreHandle *h)
{
	RedisCommand *cmd = oldest_command(h);

	/* Nobody can answer what has not been sent. */
	if (cmd == NULL || h->conn.bytes_sent <= cmd->starts_at)
	{
		nonsense(h);
		return false;
	}

	if (h->conn.values->type == REDIS_REPLY_ERROR)
		take_error(h, cmd);
	else if (!take_good(h, cmd))
	{
		nonsense(h);
		return false;
	}
	land_oldest(h);
	note_progress(h, lr_now());
	return true;
}

/* ----------
 * Stepping
 * ----------
 */

/*
 * process --- do all that can be done without waiting
 *
 * "readable" says whether reading is worth the try: right after a request was
 * sent it is not.
 */
static void
process(StoreHandle *h, bool readable)
{
	RedisConn  *c = &h->conn;

	while (h->active)
	{
		RedisRead	got;

		if (c->state != CONN_READY)
		{
			redis_conn_advance(c);
			if (c->state == CONN_CLOSED)
			{
				connection_gone(h, false);
				return;
			}
			if (c->state != CONN_READY)
				return;
			lr_count(STAT_CONNECTS);
			readable = false;
		}

		if (h->flight_n == 0 && h->next >= h->nops)
		{
			/* Something was not loaded, or is to go alone: the next pass. */
			h->passes++;
			start_pass(h);
		}
		if (!send_commands(h))
		{
			connection_gone(h, true);
			continue;
		}
		finish(h);
		if (!readable || !h->active)
			return;

		got = redis_conn_receive(c);
		if (got == REDIS_READ_NOTHING)
			return;
		while (h->active && redis_conn_reply(c))
		{
			if (!take_reply(h))
				return;
		}
		if (c->state == CONN_CLOSED)
		{
			connection_gone(h, !c->garbled);
			continue;
		}
		if (!h->stays && node_is_silent(STORE_REDIS))
			node_set_silent(STORE_REDIS, false);
		finish(h);
		readable = got == REDIS_READ_FULL;
	}
}

/*
 * check_time --- is the time for connecting or for a reply up?
 */
static void
check_time(StoreHandle *h)
{
	RedisConn  *c = &h->conn;
	int64		now;

	if (!h->active)
		return;
	now = lr_now();
	if (c->state != CONN_READY)
	{
		/* Its own limit is the business of redis_conn_advance(). */
		if (now < h->deadline)
			return;
		redis_conn_fail(c, STORE_DOWN,
						ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION,
						"Could not connect to the node in time.");
	}
	else
	{
		if (now < h->reply_until)
			return;
		/* If it had all of its time, nobody else needs to wait as long. */
		if (!h->stays &&
			now - h->progress_at >= lr_command_timeout * LR_US_PER_MS)
			node_set_silent(STORE_REDIS, true);
		redis_conn_fail(c, STORE_DOWN, ERRCODE_CONNECTION_FAILURE,
						"The node did not answer in time.");
	}
	connection_gone(h, false);
}

/*
 * wait_until --- when the batch has to be looked at even if nothing happens
 */
static int64
wait_until(const StoreHandle *h)
{
	if (h->conn.state == CONN_READY)
		return h->reply_until;
	return Min(h->deadline, redis_conn_until(&h->conn));
}

/*
 * prepare_wait_set --- have the connection watched by a wait event set
 *
 * Made once a connection, normally before anything but the handshake is sent.
 * Creating one can raise (no descriptors left, say), which becomes an outcome
 * as the store interface demands; only resources that are ours are at stake.
 */
static bool
prepare_wait_set(StoreHandle *h)
{
	RedisConn  *c = &h->conn;
	MemoryContext context = CurrentMemoryContext;
	uint32		events = redis_conn_events(c);
	WaitEventSet *volatile set = NULL;
	volatile bool good = true;

	if (c->wait_set != NULL)
	{
		if (c->wait_events != events)
			ModifyWaitEvent(c->wait_set, c->wait_position, events, NULL);
		c->wait_events = events;
		return true;
	}

	PG_TRY();
	{
		set = LrCreateWaitEventSet(3);
		AddWaitEventToSet(set, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, NULL);
		if (IsUnderPostmaster)
			AddWaitEventToSet(set, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, NULL, NULL);
		c->wait_position = AddWaitEventToSet(set, events, c->sock, NULL, NULL);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		FlushErrorState();
		if (set != NULL)
			FreeWaitEventSet(set);
		good = false;
	}
	PG_END_TRY();

	if (!good)
	{
		redis_conn_fail(c, STORE_DOWN, ERRCODE_INSUFFICIENT_RESOURCES,
						"Could not create a wait event set in this server process.");
		connection_gone(h, false);
		return false;
	}
	c->wait_set = set;
	c->wait_events = events;
	return true;
}

/*
 * wait_latch --- wait for the socket or the latch; true if the socket may be
 * ready
 *
 * It may when the time is over: a process that was stopped for long finds the
 * reply there, which tells more than a time-out.
 */
static bool
wait_latch(StoreHandle *h)
{
	RedisConn  *c = &h->conn;
	uint32		wait_event = c->state == CONN_READY ? LR_WAIT_REPLY : LR_WAIT_CONNECT;
	long		timeout = lr_ms_until(wait_until(h), lr_now());
	bool		ready = false;
	bool		latched = false;

	if (c->sock == PGINVALID_SOCKET)
		latched = (WaitLatch(MyLatch,
							 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
							 timeout, wait_event) & WL_LATCH_SET) != 0;
	else
	{
		WaitEvent	occurred[2];
		int			n;

		if (!prepare_wait_set(h))
			return false;
		n = WaitEventSetWait(c->wait_set, timeout, occurred, lengthof(occurred),
							 wait_event);
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
 * wait_poll --- the same with poll(2) and without the latch
 *
 * The names of the wait events have been allocated by redis_open().
 */
static bool
wait_poll(StoreHandle *h)
{
	RedisConn  *c = &h->conn;
	uint32		events = redis_conn_events(c);
	struct pollfd pfd;
	bool		ready;

	pfd.fd = c->sock;			/* ignored by poll() when there is none */
	pfd.events = 0;
	pfd.revents = 0;
	if (events & WL_SOCKET_READABLE)
		pfd.events |= POLLIN;
	if (events & WL_SOCKET_WRITEABLE)
		pfd.events |= POLLOUT;

	/* A signal only makes us look at the time and come back. */
	pgstat_report_wait_start(c->state == CONN_READY ? LR_WAIT_REPLY : LR_WAIT_CONNECT);
	ready = poll(&pfd, 1, (int) lr_ms_until(wait_until(h), lr_now())) >= 0;
	pgstat_report_wait_end();
	return ready;
}

/*
 * may_wait_briefly --- let recv() itself wait for the reply, once
 *
 * Most replies are there before a wait event set is worth asking: it saves a
 * system call in each request.  What may raise when the set is made must do
 * so in any case, not only behind a slow reply.
 */
static bool
may_wait_briefly(StoreHandle *h, StoreStep how)
{
	RedisConn  *c = &h->conn;

	return how != STORE_NOWAIT && c->state == CONN_READY &&
		c->can_wait_briefly && h->flight_n > 0 && c->out_len == 0 &&
		(how != STORE_WAIT || prepare_wait_set(h));
}

static bool
redis_step(StoreHandle *h, StoreStep how)
{
	bool		readable = how == STORE_NOWAIT;
	bool		waited = false;

	if (!h->active)
	{
		if (h->conn.state == CONN_READY)
			(void) redis_conn_check(&h->conn, false);
		return true;
	}
	for (;;)
	{
		process(h, readable);
		check_time(h);
		if (!h->active)
			return true;
		if (!waited && may_wait_briefly(h, how))
		{
			waited = readable = h->conn.wait_briefly = true;
			continue;
		}
		switch (how)
		{
			case STORE_NOWAIT:
				return false;
			case STORE_WAIT:
				readable = wait_latch(h);
				break;
			case STORE_POLL:
				readable = wait_poll(h);
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
	StoreHandle *h = MemoryContextAllocZero(TopMemoryContext, sizeof(StoreHandle));

	h->patient = strcmp(role, "watchdog") == 0;

	/* What may raise on first use must not do so later. */
	(void) redis_script(LUA_REENTRANT_CREATE);
	(void) LR_WAIT_CONNECT;
	(void) LR_WAIT_REPLY;

	redis_conn_init(&h->conn, role, h->patient);
	return h;
}

/*
 * forget_batch --- drop a batch without touching its operations
 *
 * For those that were left by a longjmp: their memory may be gone.  Replies
 * that are still to come make the connection useless.
 */
static void
forget_batch(StoreHandle *h)
{
	if (!h->active)
		return;
	if (h->conn.state != CONN_READY || h->flight_n > 0)
		redis_conn_close(&h->conn);
	h->flight_n = 0;
	h->left = 0;
	finish(h);
}

static void
redis_abandon(StoreHandle *h)
{
	if (!h->active)
		return;
	if (h->conn.state != CONN_READY || h->flight_n > 0)
	{
		ground_flight(h);
		redis_conn_close(&h->conn);
	}
	memset(&h->error, 0, sizeof(h->error));
	h->error.sqlstate = ERRCODE_CONNECTION_FAILURE;
	strlcpy(h->error.detail, "The request was given up before it was answered.",
			sizeof(h->error.detail));
	give_up(h, STORE_DOWN);
}

/*
 * refuse_batch --- fail it before anything is tried
 */
static void
refuse_batch(StoreHandle *h, const char *detail)
{
	memset(&h->error, 0, sizeof(h->error));
	h->error.sqlstate = ERRCODE_CONNECTION_FAILURE;
	strlcpy(h->error.detail, detail, sizeof(h->error.detail));
	give_up(h, STORE_DOWN);
}

static void
redis_start(StoreHandle *h, StoreOp *ops, int nops, int64 deadline)
{
	RedisConn  *c = &h->conn;
	int64		now;

	forget_batch(h);

	h->ops = ops;
	h->nops = nops;
	h->left = nops;
	h->next = 0;
	h->passes = 1;
	h->deadline = deadline;
	h->reply_until = deadline;
	h->reconnected = false;
	h->drop = false;
	h->missing = h->in_full = 0;
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

	if (!h->patient && node_is_silent(STORE_REDIS) && lr_watchdog_running())
	{
		refuse_batch(h, "The node did not answer lately; it is tried again in the background.");
		return;
	}
	now = lr_now();
	if (now >= deadline)
	{
		refuse_batch(h, "There was no time left to ask the node.");
		return;
	}

	if (c->state == CONN_READY && c->url_epoch != lr_url_epoch && !h->stays)
		redis_conn_close(c);
	if (c->state != CONN_READY ||
		!redis_conn_check(c, now - h->progress_at < HEARD_LATELY))
	{
		if (h->stays)
		{
			refuse_batch(h, "The connection was lost.");
			return;
		}
		redis_conn_open(c, deadline);
	}
	process(h, false);
}

static int
redis_interests(StoreHandle *h, StoreInterest *out, int64 *until, uint32 *epoch)
{
	*epoch = h->conn.socket_epoch;
	*until = h->active ? wait_until(h) : LR_NEVER;
	if (h->conn.sock == PGINVALID_SOCKET)
		return 0;
	out->sock = h->conn.sock;
	out->events = h->active ? redis_conn_events(&h->conn) : WL_SOCKET_READABLE;
	return 1;
}

static bool
redis_connected(StoreHandle *h)
{
	return h->conn.state == CONN_READY;
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
	/* Name, channel and owner with what frames them. */
	size_t		per_key = 2 * (LR_NAME_MAX + 32) + LR_OWNER_MAX + 64;
	size_t		script = redis_script(LUA_REENTRANT_RELEASE)->text_len + 256;

	(void) redis_conn_room(&h->conn,
						   Min(n, RELEASE_GROUP) * per_key + script);
}

static const StoreError *
redis_error(StoreHandle *h)
{
	return &h->error;
}

static void
redis_disconnect(StoreHandle *h)
{
	redis_abandon(h);
	redis_conn_close(&h->conn);
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
