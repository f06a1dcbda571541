/*-------------------------------------------------------------------------
 *
 * request.c
 *	  How a lock is asked for, and what follows from it for the store.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/session/request.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "session/request.h"
#include "settings.h"
#include "store/stores.h"

/*
 * request_ttl_ms --- what the store is asked for: a key that must stay locked for
 * a time does so even if this server crashes in the next moment
 */
int64
request_ttl_ms(const LockTerms *terms)
{
	if (terms->keep_until == 0)
		return terms->lease_ms;
	return Max(terms->lease_ms, lr_ms_up(terms->keep_until - lr_now()));
}

/*
 * request_require_counter --- does the store hand out tokens that mean something?
 *
 * In fallback mode those of the table are no continuation of those of Redis.
 * At transaction level the fence table sees to that.
 */
void
request_require_counter(const AcquireRequest *request, StoreId store)
{
	if (!request->fenced || request->terms.scope != SCOPE_SESSION ||
		!lr_store_can(store, STORE_SERVER_ONLY) || !lr_has_fallback())
		return;
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("session-level fencing tokens are not available while Redis is out of reach"),
			 errdetail("Locks are kept in the table, which does not know the counters in Redis."),
			 errhint("Use redis_fenced_xact_lock.")));
}
