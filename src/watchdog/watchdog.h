/*-------------------------------------------------------------------------
 *
 * watchdog.h
 *	  What the files of the watchdog share, and what others use of it: its start, and the
 *	  life of a background worker.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/watchdog/watchdog.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_WATCHDOG_H
#define LR_WATCHDOG_H

#include "lockredis.h"

#include "locktable/watch.h"
#include "store/nodes.h"
#include "store/store.h"

/* ----------
 * watchdog.c: The background worker that renews leases, releases what was left
 * behind, and listens for releases; and what the table worker has in common with it.
 * ----------
 */

/* Have the postmaster start the watchdog and, if this server uses the table, its worker. */
extern void workers_register(void);

LR_NORETURN_PREFIX extern PGDLLEXPORT void lockredis_watchdog_main(Datum arg) LR_NORETURN_SUFFIX;
LR_NORETURN_PREFIX extern PGDLLEXPORT void lockredis_table_worker_main(Datum arg) LR_NORETURN_SUFFIX;

/* A worker that is to end checks at this interval whether it may. */
#define WORKER_END_POLL		(20 * LR_US_PER_MS)

/*
 * May the worker end?  It was asked to, and either has nothing left to do for sessions,
 * or "limit" (microseconds) has passed since.  *end_at is 0 until it was asked.
 */
extern bool worker_may_end(int64 *end_at, int64 limit);

/* ----------
 * due_batch.c: What is due in a store, as one batch of operations, and its replies.
 *
 * A batch is a TIME, perhaps a PROBE, the operations of each item that is due, and perhaps
 * FACTS.  The PROBE shows whether the store refuses one lock or all.
 * ----------
 */

/* The most holds in one batch: some 2 MB of requests, 10 ms of Redis. */
#define DUE_BATCH_MAX		5000

typedef struct DueBatch
{
	StoreId		id;
	const StoreRoutine *store;
	StoreHandle *handle;
	DueItem    *items;			/* DUE_BATCH_MAX of them */
	StoreOp    *ops;			/* enough for any batch of these */
	int			nheaders;		/* leading operations that concern no lock; the first is
								 * TIME */
	int			nitems;
	int			nops;
	int		   *first_op;		/* of each item */
} DueBatch;

/*
 * Roles of connections: of the batch by which the store is judged, of renewals that
 * replicas have to confirm, and of questions to one of several masters.
 */
#define ROLE_JUDGE			"watchdog"
#define ROLE_CONFIRM		"watchdog-replicas"
#define ROLE_PROBE			"probe"

extern void due_batch_make(DueBatch *b, StoreId store, const char *role, int part);

/* Make the operations of the items, with a PROBE if wanted or needed, and with FACTS if wanted. */
extern void due_batch_fill(DueBatch *b, bool probe, bool facts);

/*
 * Does the operation only add to what the store has?  A store that is full refuses such
 * operations.
 */
static inline bool
due_op_adds(const StoreOp *op)
{
	return op->kind == STORE_CREATE || op->kind == STORE_SET;
}

/* Pass the results to the lock table; what was not done is due again at "retry_at". */
extern void replies_apply(const DueBatch *b, int64 retry_at);

/* Nothing was sent for the item: it is due again then. */
extern void due_put_off(const DueItem *item, int64 at);

/*
 * The store's place has changed: take over the connection to the old place, with the
 * batch that is under way there, and leave another empty batch to the caller.
 */
extern void farewell_begin(DueBatch *b, bool under_way);

/* The requests to the place that lockredis.url named before. */
extern void farewell_step(void);
extern void farewell_interests(StoreInterests *in);

/* What was not done there will not be done: nobody else knows what is still to be counted. */
extern void farewell_end(void);

/* ----------
 * health.c: Is a store up?  Judged by its replies to the watchdog.  And the log of losses.
 * ----------
 */

/* The interval between attempts to reach a store that is down grows from 0.1 to 1 s. */
#define HEALTH_RETRY_MIN	(100 * LR_US_PER_MS)
#define HEALTH_RETRY_MAX	LR_US_PER_S

/* The most different reasons of one outage that are logged. */
#define HEALTH_REASONS		8

typedef struct StoreHealth
{
	StoreId		id;
	NodeId		node;
	NodeState	state;
	int64		retry_delay;
	int64		next_try;		/* no attempt before that, while the store is down */
	int64		next_probe;
	int64		up_at;			/* when the store last answered everything */
	int64		next_facts;
	uint32		connection_epoch;

	/* Digests of the reasons logged since the store went down. */
	uint32		reasons[HEALTH_REASONS];
	int			nreasons;

	/* What we have warned of. */
	char		warned_policy[32];
	bool		warned_replica;
} StoreHealth;

extern void health_start(StoreHealth *h, StoreId id, NodeId node);

/* The settings have changed: this may be another store, or another user of it. */
extern void health_forget(StoreHealth *h);

/* Judge the store by the replies to a batch. */
extern void health_judge(StoreHealth *h, const DueBatch *b);

/* When to retry what the store did not do. */
extern int64 health_retry_at(const StoreHealth *h);

/* Must the store be asked, although nothing is due? */
extern bool health_wants_probe(const StoreHealth *h, int64 now);

/* When the store must be asked at the latest. */
extern int64 health_next(const StoreHealth *h);

/* Is it unknown whether the store does our operations?  It may be loading, for instance. */
extern bool health_wants_proof(const StoreHealth *h, const DueBatch *b);

/* Is it time for FACTS? */
extern bool health_wants_facts(const StoreHealth *h, const DueBatch *b);

/* Write which of several masters are up, if that has changed. */
extern void health_tell_masters(void);

/* Write the losses of locks that were recorded; and when to call this again. */
extern void loss_log_write(void);
extern int64 loss_log_next(void);

/* The watchdog ends: also write what the limit has kept back. */
extern void loss_log_finish(void);

/* ----------
 * renewals.c: The watchdog's own requests: renewals, and releases of what was left.
 * ----------
 */

extern void renewals_start(void);
extern void renewals_step(void);

/*
 * The settings of this store have changed, perhaps its place: forget its state.  The
 * caller makes everything due.
 */
extern void renewals_reconnect(StoreId store, bool place_changed);

/* Is there a connection to this store?  If there is none, try to make one now. */
extern bool renewals_is_connected(StoreId store);
extern void renewals_retry_now(StoreId store);

/* Add the sockets of all stores, and until when to sleep. */
extern void renewals_interests(StoreInterests *in);

/* STORE_BITs of the stores that a batch could be sent to. */
extern uint32 renewals_idle(void);

/* ----------
 * fallback.c: The decision which store new locks go to: Redis, or the table while Redis
 * is away.
 *
 * The watchdog reports here how the stores answer.  A decision (silence.c) wakes
 * the waiting sessions, and makes the held locks due.
 * ----------
 */

/* Warn of settings that do not fit each other, at the start of the server and at a reload. */
extern void fallback_check_settings(void);

/* Apply the settings that the watchdog has read. */
extern void fallback_start(void);

/* The store is at another place: what was known is about the old one. */
extern void fallback_new_place(StoreId store);

/* A request was sent to a store. */
extern void fallback_asked(StoreId store, int64 now);

/* The store has answered. */
extern void fallback_answered(StoreId store, int64 now);

/* The store has not answered, or has refused. */
extern void fallback_failed(StoreId store);

/* The interval at which a store has to be asked. */
extern int64 fallback_probe_interval(StoreId store);

/* Decide; and when to call this again at the latest. */
extern void fallback_step(void);
extern int64 fallback_next(void);

/* ----------
 * failover.c: What happens to held locks and to waiting sessions when the master changes.
 * ----------
 */

/* Begin with the present settings; called again when they have changed. */
extern void failover_start(void);

/* before_shmem_exit */
extern void failover_leave(void);

/* Before the requests of a round of the watchdog, and after them and a decision. */
extern void failover_step(void);
extern void failover_tell(void);

extern void failover_interests(StoreInterests *in);

/* ----------
 * subscriptions.c: The watchdog's listener: messages about releases of awaited keys.
 * ----------
 */

extern void subscriptions_start(void);
extern void subscriptions_step(void);

/* The settings have changed: listen at the place that they name now. */
extern void subscriptions_reconnect(void);

extern void subscriptions_interests(StoreInterests *in);

/* ----------
 * resolver.c: Has host names resolved, without waiting for it.
 *
 * It runs in the watchdog only.  Any process can request any number of names
 * through store/nodes.h, which also has the answers; they come one at a time.
 * ----------
 */

/* Take an answer that has come, and start the next request. */
extern void resolver_step(void);
extern void resolver_interests(StoreInterests *in);

/*
 * The settings of this node have changed: resolve its name.  If it has moved to another place,
 * forget the addresses of all other names.
 */
extern void resolver_restart(NodeId node, bool moved);

/* The watchdog ends: leave no process behind. */
extern void resolver_stop(void);

#endif							/* LR_WATCHDOG_H */
