/*-------------------------------------------------------------------------
 *
 * failover.c
 *	  The master is another node now: what is held there, and who waits for it.
 *
 * Which node it is the store finds out (StoreRoutine.follow_step) and tells all
 * processes (store/nodes.h).  Here is what follows from it for the lock table:
 * everything that is held becomes due at the new master, in the order that
 * topology_change() asks for, and those who wait ask again.
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
#include "watchdog/watchdog_int.h"

/* A master that is named again is tried at once, but not more often. */
#define RETRY_INTERVAL		(100 * LR_US_PER_MS)

typedef struct Failover
{
	StoreId		id;
	bool		asks;			/* who is there, be it for the view alone */
	const StoreRoutine *store;	/* NULL: nobody says where it is */
	uint32		epoch;			/* of the master that the holds were made due for */
	bool		has_master;		/* there was one before */
	bool		named;			/* at the last look */
	int64		retried_at;
	uint32		news;			/* that the waiting sessions were woken for */
	uint32		returns;		/* of masters that locks were made due for */
} Failover;

static Failover failover;

void
failover_start(void)
{
	TopologyMaster master;

	memset(&failover, 0, sizeof(Failover));
	failover.returns = masters_returns();
	failover.id = lr_store_with(STORE_HAS_PLACE);
	if (failover.id == STORE_COUNT || lr_store(failover.id)->follow_start == NULL)
		return;
	lr_store(failover.id)->follow_start();
	failover.asks = lr_follows_master() || lr_nmasters > 0;
	if (!lr_follows_master())
		return;
	failover.store = lr_store(failover.id);
	failover.epoch = topology_epoch();
	failover.news = topology_news();
	topology_get_master(lr_place, &master);
	failover.has_master = master.at.host[0] != '\0' ||
		(failover.store->parted() && cluster_open_slots() < SLOT_COUNT);
}

/*
 * failover_leave --- our connection ends with this process
 */
void
failover_leave(void)
{
	if (failover.store != NULL)
		topology_lost(failover.epoch);
}

/*
 * failover_begin_anew --- over a new connection, for all that is held
 */
static void
failover_begin_anew(void)
{
	renewals_reconnect(failover.id, false);
	lt_renew_all_now(failover.id);
}

/*
 * failover_happened --- another node is the master
 *
 * It has served others for a while that nobody here has seen.
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
 * failover_step_slots --- slots of a cluster have other nodes now
 *
 * Who has them is asked of what is held there, and of nothing else.
 */
static void
failover_step_slots(void)
{
	uint32		epoch = topology_epoch();

	if (epoch == failover.epoch)
		return;
	failover.epoch = epoch;
	lt_renew_moved_now(failover.id);
	if (failover.has_master)
		lr_count(STAT_FAILOVERS);
	failover.has_master = true;
}

/*
 * failover_step --- ask who is the master, and see to what is held there
 *
 * A connection to a master that is not named any more, because somebody has
 * doubts, says nothing.  Nor does one to a master that was named again before this
 * was seen: only a new one confirms it.
 */
void
failover_step(void)
{
	uint32		epoch;
	bool		named;
	int64		now;

	if (failover.asks)
		lr_store(failover.id)->follow_step();
	if (lr_nmasters > 0 && masters_returns() != failover.returns)
	{
		failover.returns = masters_returns();
		lt_repair_now(failover.id);
	}
	if (failover.store == NULL)
		return;
	if (failover.store->parted())
	{
		failover_step_slots();
		failover_tell();
		return;
	}
	epoch = topology_epoch();
	named = topology_is_named();
	now = lr_now();
	if (epoch != failover.epoch)
		failover_happened(epoch);
	else if ((!named || !topology_is_confirmed()) &&
			 renewals_is_connected(failover.id))
		failover_begin_anew();
	else if (named && !failover.named && now - failover.retried_at >= RETRY_INTERVAL)
	{
		failover.retried_at = now;
		renewals_retry_now(failover.id);
	}
	failover.named = named;
	failover_tell();
}

/*
 * failover_tell --- whoever failed for want of a master may ask again
 */
void
failover_tell(void)
{
	uint32		news = topology_news();

	if (failover.store == NULL || news == failover.news)
		return;
	failover.news = news;
	lt_wake_all_waiters();
}

/*
 * failover_interests --- the sockets that it waits for, and until when
 */
int
failover_interests(StoreInterest *out, int64 *until, uint32 *epoch)
{
	*until = LR_NEVER;
	*epoch = 0;
	if (!failover.asks)
		return 0;
	return lr_store(failover.id)->follow_interests(out, until, epoch);
}
