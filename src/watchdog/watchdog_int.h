/*-------------------------------------------------------------------------
 *
 * watchdog_int.h
 *	  What the files of the watchdog share.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/watchdog/watchdog_int.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_WATCHDOG_INT_H
#define LR_WATCHDOG_INT_H

#include "lockredis.h"

#include "locktable/watch.h"
#include "store/nodes.h"
#include "store/store.h"

/* ----------
 * loss_log.c: Losses of locks in the server log; for the watchdog.
 * ----------
 */

/* Write what has come, and when to look again. */
extern void loss_log_write(void);
extern int64 loss_log_next(void);

/* It ends: what was left out must not wait. */
extern void loss_log_finish(void);

/* ----------
 * due_batch.c: What is due in a store, as one batch of operations.
 *
 * A batch is a TIME, perhaps a PROBE, the operations of each item that is due,
 * and perhaps FACTS.
 * ----------
 */

/* So many holds in one batch: some 2 MB of requests, 10 ms of Redis. */
#define DUE_BATCH_MAX		5000

/* What a handle of the watchdog works with. */
typedef struct Workplace
{
	StoreHandle *handle;
	DueItem    *items;			/* DUE_BATCH_MAX of them */
	StoreOp    *ops;			/* enough for any batch of these */
} Workplace;

typedef struct DueBatch
{
	StoreId		id;
	const StoreRoutine *store;
	Workplace	at;
	int			nheaders;		/* operations that concern no lock; the first
								 * is TIME */
	int			nitems;
	int			nops;
	int		   *first_op;		/* of each item */
} DueBatch;

/* As whom: the one that judges the store, or another one of the watchdog. */
#define ROLE_JUDGE			"watchdog"
#define ROLE_CONFIRM		"watchdog-replicas"

extern void workplace_make(StoreId store, const char *role, Workplace *w);
extern void due_batch_make(DueBatch *b, StoreId store, const char *role);

/* Has it to show whether the store does anything for us? */
extern bool due_batch_needs_proof(const DueBatch *b);

/* Make the operations of the items: with a PROBE, with FACTS? */
extern void due_batch_fill(DueBatch *b, bool probe, bool facts);

/* One that carries out an item; the rest of it is zero. */
extern void due_batch_op(StoreOp *op, StoreId store, StoreOpKind kind,
						 const DueItem *item);

/* What only adds to what is there: a store that is full refuses it. */
static inline bool
due_op_adds(const StoreOp *op)
{
	return op->kind == STORE_CREATE || op->kind == STORE_SET;
}

/* ----------
 * replies.c: What the replies to a batch say about the locks in it.
 * ----------
 */

/* Tell the lock table; what was not done is due again at "retry_at". */
extern void replies_apply(const DueBatch *b, int64 retry_at);

/* ----------
 * health.c: Is a store there?  Judged by what it answers the watchdog.
 * ----------
 */

/* A store that is away is asked again after 0.1 to 1 s. */
#define HEALTH_RETRY_MIN	(100 * LR_US_PER_MS)
#define HEALTH_RETRY_MAX	LR_US_PER_S

/* So many different reasons of one outage are logged. */
#define HEALTH_REASONS		8

typedef struct StoreHealth
{
	StoreId		id;
	NodeId		node;
	NodeState	state;
	int64		retry_delay;
	int64		next_try;		/* not before, while the store is away */
	int64		next_probe;
	int64		next_facts;
	uint32		connection_epoch;

	/* Digests of the reasons that were logged since it went down. */
	uint32		reasons[HEALTH_REASONS];
	int			nreasons;

	/* What was warned of. */
	char		warned_policy[32];
	bool		warned_replica;
} StoreHealth;

extern void health_start(StoreHealth *h, StoreId id, NodeId node);

/* The settings have changed: it is another one, or lets us in as another. */
extern void health_forget(StoreHealth *h);

/* What the replies of a batch say. */
extern void health_judge(StoreHealth *h, const DueBatch *b);

/* When to try again what the store did not do. */
extern int64 health_retry_at(const StoreHealth *h);

/* Is it to be asked, although nothing is due? */
extern bool health_wants_probe(const StoreHealth *h, int64 now);

/* When it is to be asked at the latest. */
extern int64 health_next(const StoreHealth *h);

/* Is it unknown whether it would do the operations of this batch? */
extern bool health_wants_proof(const StoreHealth *h, const DueBatch *b);

/* Is it to say something of itself? */
extern bool health_wants_facts(const StoreHealth *h, const DueBatch *b);

/* Does it serve us, over the connection that there is? */
extern bool health_serves(const StoreHealth *h, const DueBatch *b);

/* ----------
 * renewals.c: The watchdog's own requests: renewals, and giving back what was left.
 * ----------
 */

extern void renewals_start(void);
extern void renewals_step(void);

/*
 * The settings of this store have changed, perhaps its place: forget what was
 * known.  The caller makes everything due.
 */
extern void renewals_reconnect(StoreId store, bool place_changed);

/* Is there a connection to this store?  Try now, if there is none. */
extern bool renewals_is_connected(StoreId store);
extern void renewals_retry_now(StoreId store);

/* The sockets of all stores; "epoch" changes if that of one does. */
extern int	renewals_interests(StoreInterest *out, int64 *until, uint32 *epoch);

/* STORE_BITs of the stores where something could be sent. */
extern uint32 renewals_idle(void);

/* Is there a connection to this node that serves us? */
extern bool renewals_serves(NodeId node);

/* ----------
 * confirmed.c: The watchdog's renewals that replicas have to confirm.
 * ----------
 */

/*
 * Take over what replicas have to confirm of a batch that is not sent yet.  What
 * there is no room for now is due again soon.
 */
extern void confirmed_take(DueBatch *b);

extern void confirmed_step(void);

/* As renewals_interests, at most so many; and renewals_reconnect. */
#define CONFIRMED_MAX_INTERESTS	(LR_REPLICAS_MAX * STORE_MAX_INTERESTS)

extern int	confirmed_interests(StoreInterest *out, int64 *until, uint32 *epoch);
extern void confirmed_reconnect(StoreId store);

/* ----------
 * farewell.c: The watchdog's requests to the place where a store was before.
 * ----------
 */

/*
 * The store's place has changed: take over the connection to the old one, with
 * the batch that is under way there, and leave another workplace.
 */
extern void farewell_begin(StoreId store, bool under_way, Workplace *w);

/* Give this back there; false: there is no room just now. */
extern bool farewell_give_back(const DueItem *item);

extern void farewell_step(void);
extern int	farewell_interests(StoreInterest *out, int64 *until, uint32 *epoch);

/* ----------
 * fallback.c: The decision which store new locks go to: Redis, or the table while Redis
 * is away.
 *
 * Runs in the watchdog, which tells here what the stores do, and sees to it that
 * what was decided (store/stores.h) reaches those who wait and what is held.
 * ----------
 */

extern void fallback_start(void);
extern void fallback_reload(void);

/* The store is at another place: what was known of it is of the old one. */
extern void fallback_new_place(StoreId store);

/* A store was asked something; it answered; it did not, or with a refusal. */
extern void fallback_asked(StoreId store, int64 now);
extern void fallback_answered(StoreId store, int64 now);
extern void fallback_failed(StoreId store);

/* How often a store has to be asked. */
extern int64 fallback_probe_interval(StoreId store);

/* Decide; when to be called next at the latest. */
extern void fallback_step(void);
extern int64 fallback_next(void);

/* ----------
 * failover.c: The master is another node now: what is held there, and who waits for it.
 * ----------
 */

/* With the present settings; again when they have changed. */
extern void failover_start(void);

/* before_shmem_exit */
extern void failover_leave(void);

/* Before the requests of a round of the watchdog, and after them. */
extern void failover_step(void);
extern void failover_tell(void);

extern int	failover_interests(StoreInterest *out, int64 *until, uint32 *epoch);

/* ----------
 * subscriptions.c: The watchdog's ear: releases of awaited keys, told by the store.
 * ----------
 */

extern void subscriptions_start(void);
extern void subscriptions_step(void);

/* The settings have changed: listen where they point now. */
extern void subscriptions_reconnect(void);

extern int	subscriptions_interests(StoreInterest *out, int64 *until,
									uint32 *epoch);

/* ----------
 * resolver.c: Has host names resolved, without waiting for it.
 *
 * Runs in the watchdog only.  It is asked through store/nodes.h, by any
 * process, for any number of names, and answers there, one after the other.
 * ----------
 */

/*
 * Does a connection of the watchdog to this node serve it, so that what is known
 * of its addresses is good enough?
 */
typedef bool (*NodeServes) (NodeId node);

/* Take an answer that has come, start what is wanted. */
extern void resolver_step(NodeServes serves);
extern int	resolver_interests(StoreInterest *out, int64 *until, uint32 *epoch);

/* The settings of this node have changed: resolve its name, and no other. */
extern void resolver_restart(NodeId node);

/* At the end of the watchdog: leave no process behind. */
extern void resolver_stop(void);

#endif							/* LR_WATCHDOG_INT_H */
