/*-------------------------------------------------------------------------
 *
 * failover.c
 *	  What happens to held locks and to waiting sessions when the master changes.
 *
 * The store finds out which node is the master (StoreRoutine.follow_step), and tells
 * all processes (store/nodes.h).  This file applies that to the lock table:
 * everything that is held becomes due at the new master, in the order that
 * topology_change() requires, and waiting sessions ask again.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/watchdog/failover.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "locktable/watch.h"
#include "settings.h"
#include "stats.h"
#include "store/nodes.h"
#include "store/stores.h"
#include "watchdog/watchdog.h"

/* Least time between immediate attempts to reach a master that is named again. */
#define RETRY_INTERVAL		(100 * LR_US_PER_MS)

typedef struct Failover
{
	StoreId		id;
	const StoreRoutine *store;	/* NULL: no store has a place */
	bool		follows;		/* others name the master */
	uint32		epoch;			/* of the master for which holds were made due */
	bool		has_master;		/* a master was known before */
	bool		named;			/* a master was named at the last step */
	int64		retried_at;
	uint32		news;			/* topology_news() for which waiters were woken */
	uint32		returns;		/* node_returns() for which locks were made due */
} Failover;

static Failover failover;

void
failover_start(void)
{
	TopologyMaster master;

	memset(&failover, 0, sizeof(Failover));
	failover.returns = node_returns();
	failover.id = lr_store_with(STORE_HAS_PLACE);
	if (failover.id == STORE_COUNT)
		return;
	failover.store = lr_store(failover.id);
	failover.store->follow_start();
	if (lr_has_masters() && lr_lease > lr_max_lease)
		ereport(WARNING,
				(errcode(ERRCODE_WARNING),
				 errmsg("\"%s\" is longer than \"%s\"", "lockredis.lease",
						"lockredis.max_lease"),
				 errdetail("With several masters no lock can have such a lease, and the server would not start with these settings."),
				 errhint("Lower \"%s\".", "lockredis.lease")));
	failover.follows = lr_follows_master();
	failover.epoch = topology_epoch();
	topology_get_master(lr_place, &master);
	failover.has_master = master.at.host[0] != '\0' ||
		(failover.store->parted() && cluster_has_map());
}

/*
 * failover_leave --- the watchdog ends, and its connection with it
 */
void
failover_leave(void)
{
	if (failover.follows)
		topology_lost(failover.epoch);
}

/*
 * failover_begin_anew --- make a new connection, and make everything due
 */
static void
failover_begin_anew(void)
{
	renewals_reconnect(failover.id, false);
	lt_renew_now(failover.id, RENEW_ALL);
}

/*
 * failover_happened --- another node is the master
 *
 * It may have served others for a while, which nobody here has seen.
 */
static void
failover_happened(uint32 epoch)
{
	failover.epoch = epoch;
	node_set_silent(failover.store->node, false);
	failover_begin_anew();
	fallback_new_place(failover.id);
	if (failover.has_master)
		lr_count(STAT_FAILOVERS);
	failover.has_master = true;
}

/*
 * failover_step_slots --- slots of a cluster have moved to other nodes
 *
 * Only the holds in those slots become due.
 */
static void
failover_step_slots(void)
{
	uint32		epoch = topology_epoch();

	if (epoch == failover.epoch)
		return;
	failover.epoch = epoch;
	lt_renew_now(failover.id, RENEW_MOVED);
	if (failover.has_master)
		lr_count(STAT_FAILOVERS);
	failover.has_master = true;
}

/*
 * failover_step --- ask which node is the master, and apply what has changed
 *
 * If the master is not named any more, because some process doubts it, replies over the
 * present connection prove nothing: only a new one confirms the master.  The store does
 * not name it again before the next step, so the doubt is seen here.
 */
void
failover_step(void)
{
	uint32		epoch;
	bool		named;
	int64		now;

	if (failover.store != NULL)
		failover.store->follow_step();
	if (lr_nmasters > 0 && node_returns() != failover.returns)
	{
		failover.returns = node_returns();
		lt_renew_now(failover.id, RENEW_LACKING);
	}
	if (!failover.follows)
		return;
	if (failover.store->parted())
	{
		failover_step_slots();
		return;
	}
	epoch = topology_epoch();
	named = topology_is_named();
	now = lr_now();
	if (epoch != failover.epoch)
		failover_happened(epoch);
	else if (!named && renewals_is_connected(failover.id))
		failover_begin_anew();
	else if (named && !failover.named && now - failover.retried_at >= RETRY_INTERVAL)
	{
		failover.retried_at = now;
		renewals_retry_now(failover.id);
	}
	failover.named = named;
}

/*
 * failover_tell --- wake the sessions whose requests failed, if they should ask again
 */
void
failover_tell(void)
{
	uint32		news = topology_news();

	if (news == failover.news)
		return;
	failover.news = news;
	lt_wake_all_waiters();
}

/*
 * failover_interests --- the sockets that the store waits for, and until when
 */
void
failover_interests(StoreInterests *in)
{
	if (failover.store != NULL)
		failover.store->follow_interests(in);
}
