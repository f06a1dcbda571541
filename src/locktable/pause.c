/*-------------------------------------------------------------------------
 *
 * pause.c
 *	  The lock table: after a release in the store, the head of a queue holds back, so
 *	  that clients elsewhere get their turn.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/locktable/pause.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "locktable/locktable_int.h"
#include "store/stores.h"

/*
 * How long the head holds back.  A client elsewhere is notified by a message and then
 * asks: it needs a round trip after the message, and time to run.
 */
#define PAUSE_MIN			(5 * LR_US_PER_MS)
#define PAUSE_ROUND_TRIPS	2
#define PAUSE_MAX			(500 * LR_US_PER_MS)

/* After a pause in which nobody came, there is none for so many times its length. */
#define VAIN_REST			20

/*
 * lt_pause_after --- how long the next head holds back after a release in the store
 *
 * "receivers" is how many clients were notified; one may be this server's watchdog.
 * We go by the usual round trip, since the last one may include a time for which the
 * watchdog was stopped.
 */
int64
lt_pause_after(StoreId store, int receivers)
{
	int64		round_trip = lr_usual_round_trip(store);

	if (receivers == 0)
		return 0;
	return Min(Max(PAUSE_MIN, PAUSE_ROUND_TRIPS * round_trip), PAUSE_MAX);
}

/*
 * lt_begin_pause --- let a client elsewhere go first, if the release notified one
 *
 * A client that was notified may just not have ended its subscription yet.  So if nobody
 * came in the last pause, there is none for a time, and pauses cost little.
 */
void
lt_begin_pause(LrKey *key, LrTopic topic, int receivers, int64 pause)
{
	int64		now;

	key->handoffs = 0;
	key->notified_elsewhere =
		receivers > (key->subscription[topic] == SUB_CONFIRMED ? 1 : 0);
	if (!key->notified_elsewhere)
		return;
	now = lr_now();
	if (now < key->no_pause_until)
		return;
	key->paused_until = now + pause;
	key->no_pause_until = key->paused_until + pause * VAIN_REST;
}

/*
 * lt_end_pause --- a session in front asks the store, so the pause is over for all
 *
 * The others in front are woken: they sleep until the end of the pause, and would not
 * see that there was one.  When they ask, the first one may not have its answer yet, so
 * they leave after_pause as it is.
 */
void
lt_end_pause(LrKey *key, WakeList *wakes)
{
	bool		paused = key->paused_until != 0;
	bool		others = key->front_tail != key->queue_head;

	if (paused || !others)
		key->after_pause = paused;
	key->paused_until = 0;
	if (paused && others)
		lt_nudge_front(key, wakes);
}

/*
 * lt_judge_pause --- did the head get the lock after a pause?
 *
 * If not, another client came, and may come again, so the next pause is not skipped.
 * That may also be a session of this server that waits in the order of the store.
 */
void
lt_judge_pause(LrKey *key, bool got_it)
{
	if (key->after_pause && !got_it)
		key->no_pause_until = 0;
	key->after_pause = false;
}
