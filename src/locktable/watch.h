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
	DUE_GIVE_BACK,				/* an orphan, or our owner that the store may still
								 * have after a loss or a move */
	DUE_MOVE,					/* held, and new locks are taken in this store now */
	DUE_COUNT,					/* an orphan that the store has to count */
	DUE_DROP					/* an orphan that the store can no longer have, unless
								 * where lockredis.url pointed before */
} DueAction;

typedef struct DueItem
{
	DueAction	action;
	StoreOp		op;				/* the request, but for its kind, and its name, which is
								 * in "name" */
	uint32		nodes;			/* renew: the nodes that may have it; give back: when
								 * most have released it, those that may still have it, */
	int64		ends_at;		/* until then; only read if most have released it */
	bool		at_old_place;	/* give back: where lockredis.url pointed before, too */
	int64		not_after;
	int64		look_at;		/* renew: look_at of its hold when this was collected */
	char		name[LR_NAME_MAX];
} DueItem;

/*
 * Collect what is due in a store at "now", at most max items.  Losses by expiry are marked
 * on the way.  What is returned is due again when its lease ends, if it is held in that
 * store, else at "again".  With connected false nothing is returned: what the store would be
 * asked is put off, to "again" at the latest.
 */
extern int	lt_collect_due(StoreId store, int64 now, bool connected, int64 again,
						   DueItem *items, int max);

/* When the next item will be due there. */
extern int64 lt_next_due(StoreId store);

/*
 * Holds become due now: all, as the store is back, or new locks are taken in it again; those
 * whose node has changed; those that one of several masters may not have, which is back; or
 * else, in a store of several nodes, those at this node.
 */
#define RENEW_ALL			(-1)
#define RENEW_MOVED			(-2)
#define RENEW_LACKING		(-3)

extern void lt_renew_now(StoreId store, int which);

/* May any hold still be where lockredis.url pointed before?  Looks at all of them. */
extern bool lt_has_old_place(void);

/* Rows in use, with those of waiting sessions; 0 = there is nothing to do. */
extern int	lt_row_count(void);

/* What the watchdog has to do for an item that was answered. */
typedef struct DueResult
{
	bool		refused;		/* report that the store refuses it, for the first time in a
								 * row */
	bool		is_farewell;	/* do it where lockredis.url pointed before, too */
	bool		forget;			/* it was counted, and no other request for it can still
								 * run: the store may forget it */
	const char *dropped;		/* report that it is not counted, or may not be, and why;
								 * or NULL */
} DueResult;

/*
 * The request for an item was answered, or not even sent: "op", which is the CREATE of a
 * move, with the SET behind it.  "time": the TIME that was sent before it.  What was not done
 * is due again at "retry_at".  What is still to be done where lockredis.url pointed before is
 * asked for only if there is room for it.
 */
extern DueResult lt_answered(const DueItem *item, const StoreOp *op, const StoreOp *time,
							 int64 retry_at, bool has_room);

/* ---- subscriptions ---- */

typedef void (*SubscriptionCallback) (const TopicKey *key);

extern bool lt_take_subscription_work(void);
extern void lt_wanted_subscriptions(SubscriptionCallback callback);
extern void lt_subscription_confirmed(const TopicKey *topic);
extern void lt_reset_subscriptions(void);

/* False: it goes on, as somebody awaits the key. */
extern bool lt_end_subscription(const TopicKey *topic);

/* ---- waiters ---- */

/*
 * A release was announced: wake one waiter of this server, or the one whose place in the
 * store's queue has that owner.
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
 * The watchdog announces until when it will sleep; false: it must not, as something is
 * due before.  "stores" (STORE_BITs): the stores whose due times count.
 */
extern bool lt_watchdog_sleeps_until(int64 until, uint32 stores);
extern void lt_watchdog_is_awake(void);

/* ---- losses, which the watchdog logs ---- */

typedef struct LossRecord
{
	int			pid;
	bool		in_scope[SCOPE_COUNT];
	OnLost		on_lost;
	LockLoss	lost;
	int			name_len;
	char		name[LR_NAME_MAX];
} LossRecord;

extern bool losses_any(void);

/* Take the oldest record; false: there is none. */
extern bool losses_take(LossRecord *r);

/* How many there was no room for, since this was last called. */
extern uint64 losses_take_left_out(void);

#endif							/* LR_LOCKTABLE_WATCH_H */
