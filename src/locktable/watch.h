/*-------------------------------------------------------------------------
 *
 * watch.h
 *	  The lock table for the watchdog: what is due, what came of it, whom to tell.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/locktable/watch.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_LOCKTABLE_WATCH_H
#define LR_LOCKTABLE_WATCH_H

#include "locktable/locktable.h"

typedef enum DueAction
{
	DUE_NOTHING,
	DUE_RENEW,
	DUE_GIVE_BACK,				/* an orphan, or what a loss or a move left */
	DUE_MOVE,					/* held, and belongs into this store now */
	DUE_COUNT,					/* an orphan that is to be counted */
	DUE_DROP					/* one that cannot be any more, or only at the place
								 * where lockredis.url pointed before */
} DueAction;

typedef struct DueItem
{
	LrIndex		hold;
	DueAction	action;
	KindId		kind;
	uint64		owner;
	uint8		id[STORE_ID_LEN];
	uint64		moves;
	int64		amount;			/* give back, count */
	uint32		nodes;			/* renew: that may have it; give back: of what most have
								 * given back, those that may have it still, */
	int64		ends_at;		/* until then; else 0 */
	bool		at_old_place;	/* give back: something may be there, too */
	int64		lease_ms;
	int			min_replicas;	/* renew, move: that have to confirm it */
	int64		not_after;
	int64		repair_at;		/* renew: of its hold, when it was collected */
	int64		keep_ms;		/* the key has to stay locked so long */
	bool		refused;		/* when it was asked for last */
	bool		alone;			/* not together with others in a request */
	int			name_len;
	char		name[LR_NAME_MAX];
} DueItem;

/*
 * Collect what is due in a store at "now", at most max items.  Losses by
 * expiry are marked on the way.  What is returned will not be due again before
 * "again".  With connected false nothing is returned, only postponed to "again".
 */
extern int	lt_collect_due(StoreId store, int64 now, bool connected, int64 again,
						   DueItem *items, int max, bool *more);

/* When the next item will be due there. */
extern int64 lt_next_due(StoreId store);

/* All becomes due now (the store came back, or takes new locks again). */
extern void lt_renew_all_now(StoreId store);

/* Of a store of several nodes: what that one has; what others have had before. */
extern void lt_renew_part_now(StoreId store, int part);
extern void lt_renew_moved_now(StoreId store);

/* One of several masters is back: renew what it may not have. */
extern void lt_repair_now(StoreId store);

/* May anything still be where lockredis.url pointed before?  Walks over all. */
extern bool lt_has_old_place(void);

/* Rows in use, those of waiting sessions too: 0 = there is nothing to do. */
extern int	lt_row_count(void);

/* ---- results of what was collected from a store ---- */

/* "watch_ms": StoreOp.watch_ms.  False: the answer counts for nothing. */
extern bool lt_renewed(const DueItem *item, int64 deadline, int64 watch_ms);
extern void lt_retry_at(LrIndex hold, uint64 owner, StoreId store, int64 at);
extern void lt_given_back(LrIndex hold, uint64 owner, StoreId store);

/* The store refused it, for what it asked; or has not done so this time. */
typedef struct Refusal
{
	bool		first;			/* in a row: worth saying */
	bool		over;			/* orphan or lost: what there was has run out */
	int64		again;			/* when to try again */
} Refusal;

extern Refusal lt_refused(const DueItem *item, bool alone);
extern void lt_not_refused(const DueItem *item);

/* A request to count it surely has not run, and never will. */
extern void lt_not_counted(const DueItem *item);

/* It was counted.  Can no other request for it arrive yet? */
extern bool lt_was_sent_once(const DueItem *item);

/* No create of it can run later than that, by the store's clock. */
extern void lt_limit_orphan(const DueItem *item, StoreId store, int64 not_after);

/* Of what most nodes have given back these may have it still: again then. */
extern void lt_still_left(const DueItem *item, StoreId store, uint32 nodes, int64 at);

/*
 * The store has the lock, until "deadline"; or it has not, or it is not known.
 * "not_after": the store's clock (ms) up to which the create may still run, 0 =
 * it cannot.
 */
extern void lt_moved(const DueItem *item, StoreId store, int64 deadline,
					 int64 not_after);
extern void lt_not_moved(const DueItem *item, StoreId store, int64 at,
						 int64 not_after);

/* Somebody else has the key there: lost. */
extern void lt_lose_by_move(const DueItem *item, StoreId store,
							const char *taken_by, int64 not_after);

/* ---- subscriptions ---- */

/* The owner: of topics that have a channel for each; else 0. */
typedef void (*WantedCallback) (LrTopic topic, uint64 owner, const char *name,
								int name_len);

extern bool lt_take_subscription_work(void);
extern void lt_wanted_subscriptions(WantedCallback callback);
extern void lt_subscription_confirmed(LrTopic topic, uint64 owner, const char *name,
									  int name_len);
extern void lt_reset_subscriptions(void);

/* False while somebody awaits the key. */
extern bool lt_end_subscription(LrTopic topic, uint64 owner, const char *name,
								int name_len);

/* ---- waiters ---- */

/*
 * A release was told: wake one local waiter of the key, or the one whose place that
 * owner is.
 */
extern void lt_wake_waiter(uint64 owner, const char *name, int name_len);

/* Sessions that ignored a wake-up for a second are passed over. */
extern void lt_pass_over_sleepers(void);
extern bool lt_has_waiters(void);
extern void lt_wake_all_waiters(void);

/* ---- the watchdog itself ---- */

extern void lt_watchdog_enter(void);
extern void lt_watchdog_leave(void);

/*
 * The watchdog says until when it sleeps; false when it must not.  "stores"
 * (STORE_BITs): those whose due times matter.
 */
extern bool lt_watchdog_sleeps_until(int64 until, uint32 stores);
extern void lt_watchdog_is_awake(void);

#endif							/* LR_LOCKTABLE_WATCH_H */
