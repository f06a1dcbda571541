/*-------------------------------------------------------------------------
 *
 * subscriptions.c
 *	  The watchdog's listener: messages about releases of awaited keys.
 *
 * One connection listens for all keys that sessions of this server wait for.  A
 * message wakes the first of them in the key's queue.  A key that nobody waits for
 * any more stays subscribed for a second at most, so that a busy key does not subscribe
 * and unsubscribe with each wait.  What is subscribed to, and what of that is confirmed, is
 * known to the listener and to the lock table; this file keeps nothing of it.
 *
 * A store that sends no messages has no listener; then this file only looks after
 * the waiting sessions.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/watchdog/subscriptions.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "locktable/watch.h"
#include "names.h"
#include "store/stores.h"
#include "watchdog/watchdog.h"

/* Interval at which waiters and idle subscriptions are checked. */
#define TICK				LR_US_PER_S

/* The store that sends messages, and its listener; NULL if there is none. */
static const StoreRoutine *teller = NULL;
static StoreListener *listener = NULL;
static bool subscribed = false; /* to anything */
static int64 next_tick = 0;

/* ----------
 * Called by the listener
 * ----------
 */

/*
 * on_listener_event --- callback of the listener, within subscriptions_step
 *
 * All void: the next round subscribes again to what is awaited.
 */
static void
on_listener_event(StoreEvent event, const TopicKey *key)
{
	switch (event)
	{
		case STORE_LISTEN_CONFIRMED:
			lt_subscription_confirmed(key);
			break;
		case STORE_LISTEN_RELEASED:
		case STORE_LISTEN_REFUSED:

			/*
			 * Refused: a session that asked while an earlier subscription was confirmed
			 * sleeps until it is notified.  Wake it: it asks once more, and then polls.
			 */
			lt_wake_waiter(key->owner, key->name, key->len);
			break;
		case STORE_LISTEN_LOST:
			lt_reset_subscriptions();
			SetLatch(MyLatch);
			break;
	}
}

/* ----------
 * Called by the loop
 * ----------
 */

/*
 * subscribe_key --- a session waits for this key
 *
 * The key's entry in the lock table may be new although we are subscribed already.
 */
static void
subscribe_key(const TopicKey *key)
{
	subscribed = true;
	teller->listener_subscribe(listener, key);
}

static bool
subscriptions_need_tick(void)
{
	return lt_has_waiters() || subscribed;
}

/*
 * subscriptions_start --- a new watchdog is subscribed to nothing
 */
void
subscriptions_start(void)
{
	if (lr_store_with(STORE_HAS_PUSH) != STORE_COUNT)
	{
		teller = lr_store(lr_store_with(STORE_HAS_PUSH));
		listener = teller->listener_open(on_listener_event);
	}
	lt_reset_subscriptions();
}

/*
 * subscriptions_step --- subscribe to awaited keys, and read messages
 */
void
subscriptions_step(void)
{
	int64		now = lr_now();

	if (listener != NULL && lt_take_subscription_work())
		lt_wanted_subscriptions(subscribe_key);
	if (subscriptions_need_tick() && now >= next_tick)
	{
		lt_pass_over_sleepers();
		if (listener != NULL)
			subscribed = teller->listener_sweep(listener, lt_end_subscription);
		next_tick = now + TICK;
	}
	if (listener != NULL)
		teller->listener_step(listener);
}

/*
 * subscriptions_reconnect --- see watchdog.h
 */
void
subscriptions_reconnect(void)
{
	if (listener == NULL)
		return;
	teller->listener_close(listener);
	listener = teller->listener_open(on_listener_event);
	lt_reset_subscriptions();
}

/*
 * subscriptions_interests --- the sockets of the listener, and until when to sleep
 */
void
subscriptions_interests(StoreInterests *in)
{
	if (listener != NULL)
		teller->listener_interests(listener, in);
	if (subscriptions_need_tick())
		store_wait_until(in, next_tick);
}
