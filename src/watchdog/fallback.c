/*-------------------------------------------------------------------------
 *
 * fallback.c
 *	  The decision which store new locks go to: Redis, or the table while Redis
 *	  is away.
 *
 * New locks go to the table when Redis has not done for lockredis.fallback_after what
 * sessions or the watchdog ask, and the watchdog has asked in vain for most of that time:
 * a watchdog that was stopped itself cannot tell.  They go back when Redis has answered
 * the watchdog steadily for a while, so that an unsteady Redis, or one that the watchdog
 * cannot reach, does not cause a change each time.
 *
 * Above the stores, only this file and workers_register() know them by their ids,
 * since the mode names them.  How the table answers plays no part.  A standby cannot
 * write to the table, and stays with Redis.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/watchdog/fallback.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "access/xlog.h"

#include "locktable/watch.h"
#include "settings.h"
#include "stats.h"
#include "store/nodes.h"
#include "store/stores.h"
#include "watchdog/watchdog.h"

/*
 * Redis is steady when it has answered for half of fallback_after, at least for this.
 */
#define STEADY_MIN			(2 * LR_US_PER_S)

/*
 * If the watchdog did not look for half of fallback_after, at least for this, it does
 * not know what happened meanwhile.
 */
#define STALL_MIN			LR_US_PER_S

/*
 * How often Redis is asked within fallback_after, and within the time for which it has
 * to be steady.
 */
#define PROBES_BEFORE		5
#define PROBES_STEADY		4

/* The effective fallback_after in microseconds. */
static int64 after = 0;

static int64 steady_since = 0;	/* Redis has answered steadily since; 0 = not */

/*
 * fallback_safe_after --- the effective fallback_after in milliseconds
 *
 * A renewed lock must live until the table takes over.  When Redis falls silent, at
 * least what lr_left_at_renewal() returns is left of its lease.
 */
static int64
fallback_safe_after(void)
{
	int64		left = lr_left_at_renewal(lr_lease * LR_US_PER_MS);

	return Min(lr_fallback_after, (left - 1) / LR_US_PER_MS);
}

/*
 * fallback_check_settings --- warn of settings that do not fit each other
 *
 * Such settings are no reason to keep a database from starting, and a reload must not
 * accept what the next start refuses.  So both give the same warning and use a safe
 * value.
 */
void
fallback_check_settings(void)
{
	if (!lr_has_fallback() || fallback_safe_after() == lr_fallback_after)
		return;
	ereport(WARNING,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("\"%s\" must be below two thirds of \"%s\"",
					"lockredis.fallback_after", "lockredis.lease"),
			 errdetail("Locks would be lost before they could be carried over to the table, so %lld ms are used instead of %d ms.",
					   (long long) fallback_safe_after(), lr_fallback_after)));
}

/*
 * fallback_start --- apply the settings that the watchdog has read
 */
void
fallback_start(void)
{
	if (!lr_has_fallback())
		return;
	after = fallback_safe_after() * LR_US_PER_MS;
	silence_set_limits(Max(STALL_MIN, after / 2), lr_lease * LR_US_PER_MS);
}

/* ----------
 * How the stores answer
 * ----------
 */

/* Is this the store whose silence counts? */
static bool
is_watched_store(StoreId store)
{
	return lr_has_fallback() && store == STORE_REDIS;
}

/* How long Redis has to answer before locks go back to it. */
static int64
steady_time(void)
{
	return Max(STEADY_MIN, after / 2);
}

/*
 * fallback_new_place --- this is another Redis, which may have served others until now
 *
 * So the silence is measured from now on, and no key is known to have stayed on this
 * server.
 */
void
fallback_new_place(StoreId store)
{
	if (!is_watched_store(store))
		return;
	silence_begin_anew(lr_now());
	steady_since = 0;
}

void
fallback_asked(StoreId store, int64 now)
{
	if (is_watched_store(store))
		silence_asked(now);
}

/*
 * fallback_answered --- a store has answered
 *
 * A late answer means that Redis is not steady.
 */
void
fallback_answered(StoreId store, int64 now)
{
	int64		asked_since;

	if (!is_watched_store(store))
		return;
	asked_since = silence_asked_since();
	if (asked_since != 0 && now - asked_since > fallback_probe_interval(store))
		steady_since = 0;
	silence_answered(now);
	if (steady_since == 0)
	{
		steady_since = now;
		topology_tell();
	}
}

void
fallback_failed(StoreId store)
{
	if (is_watched_store(store))
		steady_since = 0;
}

int64
fallback_probe_interval(StoreId store)
{
	if (!is_watched_store(store))
		return LR_NEVER;
	return Min(after / PROBES_BEFORE, steady_time() / PROBES_STEADY);
}

/* ----------
 * The decision
 * ----------
 */

/* The holds are made due after that is visible to all; see current_change. */
static void
change_store(StoreId to, const char *why)
{
	current_change(to, why);
	lt_renew_now(to, RENEW_ALL);
	lr_count(STAT_SWITCHES);
	ereport(LOG,
			(errmsg_internal("%s", to == STORE_TABLE ?
							 _("lockredis: locks are kept in the table from now on") :
							 _("lockredis: locks are kept in Redis again from now on")),
			 errdetail_internal("%s", why)));
}

/*
 * leave_redis --- Redis has been silent for too long
 */
static void
leave_redis(int64 silence)
{
	NodeStatus	status;
	char		why[256];

	/* steady_since may still be set, as a request under way has not failed yet. */
	steady_since = 0;
	(void) node_get_status(lr_store(STORE_REDIS)->node, &status);
	snprintf(why, sizeof(why), _("Redis has not answered for %.1f s: %.190s"),
			 silence / (double) LR_US_PER_S,
			 status.state == NODE_DOWN ? status.last_error :
			 _("A request is under way."));
	change_store(STORE_TABLE, why);
}

static void
return_to_redis(int64 steady)
{
	char		why[256];

	snprintf(why, sizeof(why), _("Redis has answered for %.1f s."),
			 steady / (double) LR_US_PER_S);
	change_store(STORE_REDIS, why);
}

/*
 * That it was asked in vain for four fifths of fallback_after suffices, since it is
 * asked every fifth.
 */
static int64
when_to_leave(int64 served_at)
{
	int64		asked_since = silence_asked_since();

	if (asked_since == 0)
		return LR_NEVER;
	return lr_later(served_at + after,
					asked_since + after * (PROBES_BEFORE - 1) / PROBES_BEFORE);
}

/*
 * fallback_step --- decide which store new locks go to
 *
 * Time in which the watchdog did not look counts neither as steadiness nor as silence.
 */
void
fallback_step(void)
{
	int64		now = lr_now();
	int64		served_at;

	if (!lr_has_fallback())
		return;
	if (!silence_look(now) && steady_since != 0)
		steady_since = now;
	served_at = silence_last_service();
	if (current_store() == STORE_REDIS)
	{
		if (now >= when_to_leave(served_at) && !RecoveryInProgress())
			leave_redis(now - served_at);
	}
	else if (steady_since != 0 && silence_last_answer() - steady_since >= steady_time())
		return_to_redis(now - steady_since);
}

int64
fallback_next(void)
{
	if (!lr_has_fallback() || current_store() != STORE_REDIS || RecoveryInProgress())
		return LR_NEVER;
	return when_to_leave(silence_last_service());
}
