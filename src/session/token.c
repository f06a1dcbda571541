/*-------------------------------------------------------------------------
 *
 * token.c
 *	  Token locks, which belong to whoever knows the token, not to a session.
 *
 * To take one is an acquire like any other (waiting.c), which leaves no hold.  All
 * later requests act on the token that they name, and may be repeated.
 *
 * Tokens are credentials.  They appear in no message, view or log, nor in shared
 * memory: the lock table and the table worker have digests of them.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/session/token.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "common/cryptohash.h"
#include "common/sha1.h"
#include "common/sha2.h"
#include "storage/latch.h"
#include "utils/builtins.h"

#include "locktable/watch.h"
#include "session/session.h"
#include "session/session_int.h"
#include "settings.h"
#include "stats.h"
#include "store/nodes.h"
#include "store/stores.h"

/* A request that has failed at once is repeated after this time. */
#define REPEAT_MS			100

/* ----------
 * What a token is to a store
 * ----------
 */

/*
 * token_digest --- the digest of a token, by the algorithm TYPE
 */
static void
token_digest(pg_cryptohash_type type, const char *bytes, int len, uint8 *out, Size size)
{
	pg_cryptohash_ctx *ctx = pg_cryptohash_create(type);

	if (ctx == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory")));
	if (pg_cryptohash_init(ctx) < 0 ||
		pg_cryptohash_update(ctx, (const uint8 *) bytes, len) < 0 ||
		pg_cryptohash_final(ctx, out, size) < 0)
	{
		const char *reason = pg_cryptohash_error(ctx);

		pg_cryptohash_free(ctx);
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not compute the digest of a token: %s", reason)));
	}
	pg_cryptohash_free(ctx);
}

/*
 * Redis keeps the token itself; later requests have its SHA-1, which scripts can
 * compute.  The table, which others may read, keeps only the SHA-256, and later
 * requests have the beginning of that.
 */
void
token_make(const char *bytes, int len, LockToken *out)
{
	uint8		digest[PG_SHA256_DIGEST_LENGTH];
	char	   *hex;

	if (!lr_store_can(lr_first_store(), STORE_HAS_DIGESTS))
	{
		token_digest(PG_SHA1, bytes, len, out->id, SHA1_DIGEST_LENGTH);
		out->data = bytes;
		out->len = len;
		return;
	}
	token_digest(PG_SHA256, bytes, len, digest, sizeof(digest));
	memcpy(out->id, digest, STORE_ID_LEN);
	hex = palloc(2 * sizeof(digest));
	(void) hex_encode((const char *) digest, sizeof(digest), hex);
	out->data = hex;
	out->len = 2 * sizeof(digest);
}

/* ----------
 * Taking
 * ----------
 */

bool
session_token_lock(const LrName *name, AcquireRequest *request, const LockToken *token)
{
	Untold	   *u;

	memcpy(request->terms.id, token->id, STORE_ID_LEN);
	request->token = token->data;
	request->token_len = token->len;
	u = untold_make(name, &request->terms);
	return session_take(name, request, u);
}

/* ----------
 * Asking for one that may be there
 * ----------
 */

/*
 * token_ask --- repeat a request until it is answered
 *
 * This takes at most as long as a request may take.  If a release finds the lock gone,
 * it may have been released by an earlier attempt that was not answered.
 */
static void
token_ask(StoreOp *op)
{
	int64		until = lr_now() + lr_call_budget();
	bool		unknown = false;

	for (;;)
	{
		ask_run_within(op, until);
		ask_distrust(op);
		if (op->outcome == STORE_GONE && op->kind == STORE_RELEASE && unknown)
			op->outcome = STORE_UNKNOWN;
		else if (op->outcome == STORE_UNKNOWN || op->outcome == STORE_DOWN)
		{
			unknown = unknown || op->outcome == STORE_UNKNOWN;
			if (lr_now() + REPEAT_MS * LR_US_PER_MS < until)
			{
				(void) WaitLatch(MyLatch,
								 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
								 REPEAT_MS, LR_WAIT_REPLY);
				ResetLatch(MyLatch);
				CHECK_FOR_INTERRUPTS();
				continue;
			}
		}
		return;
	}
}

/*
 * token_do --- run a request; false: the token does not hold the key
 */
static bool
token_do(const LrName *name, const LockToken *token, StoreOpKind kind, int64 lease_ms)
{
	HeldKey		key = held_key(name, KIND_TOKEN);
	StoreOp		op;

	session_enter();
	request_require_store(KIND_TOKEN, current_store());
	ask_prepare(&op, kind, &key, lr_first_store());
	memcpy(op.id, token->id, STORE_ID_LEN);
	op.lease_ms = lease_ms;
	op.min_replicas = lease_ms > 0 ? lr_min_replicas : 0;
	token_ask(&op);
	if (ask_says_lost(&op))
		return false;

	/* The lease may be longer now even if the store has not answered. */
	if (lease_ms > 0)
		silence_saw_ttl(name->hash, lease_ms);
	if (op.outcome != STORE_OK)
		ask_report_failure(ERROR, op.outcome);
	return true;
}

bool
session_token_is_held(const LrName *name, const LockToken *token)
{
	return token_do(name, token, STORE_SET, 0);
}

bool
session_token_extend(const LrName *name, const LockToken *token, int64 lease_ms)
{
	return token_do(name, token, STORE_SET, lease_ms);
}

/* Wake a session of this server that waits, since the store may not notify anybody. */
bool
session_token_unlock(const LrName *name, const LockToken *token)
{
	if (!token_do(name, token, STORE_RELEASE, 0))
		return false;
	untold_forget(name, KIND_TOKEN, token->id);
	lt_wake_waiter(0, name->data, name->len);
	lr_count(STAT_RELEASES);
	xact_warn_early_unlock();
	return true;
}
