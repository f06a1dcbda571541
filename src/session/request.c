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

#include "session/session.h"
#include "settings.h"
#include "store/nodes.h"
#include "store/stores.h"

/*
 * request_ttl_ms --- see session.h
 *
 * A key that has to stay locked for a time does so even if this server crashes right
 * after.
 */
int64
request_ttl_ms(const LockTerms *terms)
{
	if (terms->keep_until == 0)
		return terms->lease_ms;
	return lr_later(terms->lease_ms, lr_ms_up(terms->keep_until - lr_now()));
}

/*
 * request_lacks_counter --- are tokens of this store useless for the request?
 *
 * In fallback mode the table does not continue the tokens of Redis.  At transaction
 * level the fence table takes care of that.
 */
static bool
request_lacks_counter(const AcquireRequest *request, StoreId store)
{
	return request->fenced && request->terms.scope == SCOPE_SESSION &&
		lr_store_can(store, STORE_SERVER_ONLY) && lr_has_fallback();
}

void
request_require_counter(const AcquireRequest *request, StoreId store)
{
	if (!request_lacks_counter(request, store))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("session-level fencing tokens are not available while Redis is out of reach"),
			 errdetail("Locks are kept in the table, which does not know the counters in Redis."),
			 errhint("Use redis_fenced_xact_lock.")));
}

/*
 * Locks of a kind that does not fall back may still be held elsewhere, and only Redis
 * knows.
 */
void
request_require_store(KindId kind, StoreId store)
{
	const StoreRoutine *routine = lr_store(store);

	if (routine->takes_kind != NULL && !routine->takes_kind(kind))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the kind \"%s\" is not available with several masters",
						lr_kind(kind)->name),
				 errdetail("Masters that know nothing of each other cannot agree on it."),
				 errhint("Let \"%s\" name one master, Sentinels, or a cluster.",
						 "lockredis.url")));
	if (lr_kind(kind)->falls_back || !lr_has_fallback() ||
		!lr_store_can(store, STORE_SERVER_ONLY))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_STORE_UNREACHABLE),
			 errmsg("the kind \"%s\" is not available while Redis is out of reach",
					lr_kind(kind)->name),
			 errdetail("The table that stands in for Redis has no locks of this kind."),
			 errhint("Try again when redis_lock_status shows that Redis is in use.")));
}

void
request_require_name(const LrName *name, StoreId store)
{
	const StoreRoutine *routine = lr_store(store);

	if (routine->takes_name == NULL || routine->takes_name(name->data, name->len))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("lock key cannot be used in a Redis Cluster"),
			 errdetail("The keys that are made of it would not be in one slot."),
			 errhint("Use a name without braces, or with one non-empty {tag}.")));
}

void
request_require_number(KindId kind, const LrName *name)
{
	StoreId		store = current_store();

	request_require_store(kind, store);
	request_require_name(name, store);
	if (!lr_kind(kind)->untagged || !cluster_is_on() ||
		!lr_store_can(store, STORE_HAS_PLACE) || memchr(name->data, '{', name->len) == NULL)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("name of a %s must not contain a brace in a Redis Cluster",
					lr_kind(kind)->name),
			 errdetail("Its channel would be in another slot."),
			 errhint("Use a name without braces.")));
}

/*
 * request_is_met_by --- see session.h
 *
 * A token that a transaction got from the table is of no use at session level, even
 * when the lock is in Redis again.
 */
bool
request_is_met_by(const AcquireRequest *request, const HoldView *view)
{
	return view->fence != 0 && !request_lacks_counter(request, view->fence_store);
}
