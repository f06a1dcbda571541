/*-------------------------------------------------------------------------
 *
 * arguments.h
 *	  What the files of this folder share: the arguments of SQL functions, and whether
 *	  they may be called here; what one file has for another.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/sql/arguments.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_ARGUMENTS_H
#define LR_ARGUMENTS_H

#include "lockredis.h"

#include "fmgr.h"

#include "names.h"
#include "session/session.h"

/* ----------
 * arguments.c: The arguments of SQL functions, and whether they may be called here.
 * ----------
 */

/* Raises an error if the argument is null; "what" names it. */
extern void arg_require(FunctionCallInfo fcinfo, int argno, const char *what);

/*
 * The first argument, a key.  Raises an error if it is invalid, or without the preload.
 */
extern void arg_key(FunctionCallInfo fcinfo, LrName *name);

/*
 * The kind of lock that an argument names.  If the function has no such argument: the
 * kind that the session holds of the key, or "usual" if it holds none.
 */
extern KindId arg_kind(FunctionCallInfo fcinfo, int argno, const LrName *name, KindId usual);

/* A number of permits, at least "least"; and the count of a new latch. */
extern int64 arg_permits(FunctionCallInfo fcinfo, int argno, int32 least);
extern int64 arg_latch_count(FunctionCallInfo fcinfo, int argno);

/* How long a function waits. */
typedef enum WaitRule
{
	WAITS,						/* without a limit: it has no argument "wait" */
	TRIES,						/* until its limit, which must not be null */
	TRIES_OR_WAITS				/* the same, but null is no limit */
} WaitRule;

/*
 * The parameters of a shape, see verbs.c.  The row of a function sets only those that its
 * shape uses.
 */
typedef struct Verb
{
	KindId		kind;			/* kind of lock */
	LockScope	scope;			/* level of the lock */
	WaitRule	wait;			/* how long it waits */
	StoreChange change;			/* how it changes a number */
	int			most;			/* how many waiting sessions it notifies */
	bool		unowned;		/* no session holds what it takes */
	bool		total;			/* counts held permits, too */
	const char *procedure;		/* its name, if it ends the caller's transaction */
} Verb;

/*
 * Fill in the request for a lock.  The arguments are "wait", unless the function waits
 * without a limit, and "lease", if it has one, from number "first" on.
 */
extern void arg_request(FunctionCallInfo fcinfo, const Verb *verb, int first,
						AcquireRequest *request);

/*
 * The same for a function that takes a lock, with these arguments behind the key; raises an
 * error if it may not do so here.
 */
extern void arg_take(FunctionCallInfo fcinfo, const Verb *verb, AcquireRequest *request);

/*
 * A lease in milliseconds.  If it is null: that of the settings, and *renewed is set; or an
 * error if "renewed" is NULL, for what belongs to no session: nobody renews it.
 */
extern int64 arg_lease_ms(FunctionCallInfo fcinfo, int argno, bool *renewed);

/* A time to live in milliseconds; null: 0. */
extern int64 arg_ttl_ms(FunctionCallInfo fcinfo, int argno);

/* A time limit in microseconds, or WAIT_FOREVER. */
extern int64 arg_wait_us(FunctionCallInfo fcinfo, WaitRule rule, int argno);

/* hold_at_least of redis_with_lock, in microseconds; null: 0. */
extern int64 arg_keep_us(FunctionCallInfo fcinfo, int argno);

/*
 * The names of the keys in the array that is the first argument: each once, in the
 * order of their bytes.
 */
extern const LrName *arg_keys(FunctionCallInfo fcinfo, int *n);

/* A token, which is returned; a new one if the argument is null. */
extern text *arg_new_token(FunctionCallInfo fcinfo, int argno, LockToken *token);

/*
 * The id, of STORE_ID_LEN bytes, of the token lock whose token the argument is, or of a
 * permit; and the text of a permit's id, of LR_SECRET_ID_LEN bytes.
 */
extern void arg_id(FunctionCallInfo fcinfo, int argno, KindId kind, uint8 *id);
extern text *id_to_text(const uint8 *id);

/* The id, of STORE_ID_LEN bytes, of the condition that an argument names. */
extern void arg_condition(FunctionCallInfo fcinfo, int argno, uint8 *id);

/* Raises an error if session-level holds may not be taken or released here. */
extern void require_unrestricted(void);

/*
 * Likewise, also if lockredis.session_locks forbids them.  It forbids taking one, also by
 * redis_await_lock, and waiting for a condition.  It concerns neither jobs nor releases.
 */
extern void require_session_locks(void);

/*
 * A result of type integer; raises an error if the number is too large, since other
 * programs may have set it.
 */
extern Datum int_result(int64 number);

/* A result of type interval */
extern Datum interval_from_us(int64 us);

/* ----------
 * replicated.c: Changes that logical replication applies to the tables of the extension.
 * ----------
 */

/* Is it our trigger function?  Its owner is whoever ran ALTER EXTENSION UPDATE. */
extern bool replicated_is_trigger(Oid function);

/* ----------
 * tokens.c: Statements on the tables that have tokens, run as the owner of the table.
 * ----------
 */

#define FENCE_TABLE		"redis_fences"
#define COUNTER_TABLE	"redis_lock_counters"

/* The columns of these tables; redis_lock_counters has the first two. */
#define TOKEN_COLUMNS	3

extern const Oid token_types[TOKEN_COLUMNS];

/* A row that a statement uses, that was replicated, or that is in the table. */
typedef struct TokenRow
{
	Datum		value[TOKEN_COLUMNS];	/* key, token, recorded_at */
	bool		isnull[TOKEN_COLUMNS];
} TokenRow;

/* Raise: insert the row, or raise the token of the row of that key. */
typedef enum TokenStatement
{
	FENCE_RAISE,
	FENCE_READ,					/* sets *token */
	FENCE_DELETE,
	COUNTER_RAISE,
	TOKEN_STATEMENTS
} TokenStatement;

/*
 * Run a statement on the table, which is in that schema, as the owner of the table.
 * Returns the number of rows.
 */
extern uint64 tokens_run(TokenStatement statement, Oid schema, Oid table,
						 const TokenRow *row, int64 *token);

/* Set while one of them runs: this server itself writes, whatever session_replication_role is. */
extern bool tokens_running;

/* ----------
 * fence.c: Locks with fencing tokens.
 * ----------
 */

/*
 * Take a lock with its token.  At transaction level, record the token in this
 * transaction, in the table that is in the schema of the SQL function.  False: busy.
 */
extern bool fence_take(const LrName *name, AcquireRequest *request, Oid function,
					   int64 *token);

/* ----------
 * job.c: Procedures that end the caller's transaction.
 * ----------
 */

/* (key, command, wait, lease [, hold_at_least], ran) */
extern Datum job_call(FunctionCallInfo fcinfo, const Verb *verb, const LrName *name);

/* redis_await_lock(key, lease, kind) */
extern Datum job_await(FunctionCallInfo fcinfo, const Verb *verb, const LrName *name);

#endif							/* LR_ARGUMENTS_H */
