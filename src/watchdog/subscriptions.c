/*-------------------------------------------------------------------------
 *
 * subscriptions.c
 *	  The watchdog's listener: messages about releases of awaited keys.
 *
 * One connection listens for all keys that sessions of this server wait for.  A
 * message wakes the first of them in the key's queue.  A key that nobody waits for
 * any more stays subscribed for a moment, so that a busy key does not subscribe and
 * unsubscribe with each wait.
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

#include "utils/hsearch.h"
#include "utils/memutils.h"

#include "locktable/watch.h"
#include "names.h"
#include "store/stores.h"
#include "watchdog/watchdog.h"

/* Interval at which waiters and idle subscriptions are checked. */
#define TICK				LR_US_PER_S

typedef struct Subscription
{
	TopicKey	key;
	bool		confirmed;
	bool		idle;			/* nobody has waited for it since the last tick */
} Subscription;

static HTAB *subscriptions = NULL;

/* The store that sends messages, and its listener; NULL if there is none. */
static const StoreRoutine *teller = NULL;
static StoreListener *listener = NULL;
static int64 next_tick = 0;

/* ----------
 * Called by the listener
 * ----------
 */

static void
all_unconfirmed(void)
{
	HASH_SEQ_STATUS seq;
	Subscription *s;

	hash_seq_init(&seq, subscriptions);
	while ((s = hash_seq_search(&seq)) != NULL)
		s->confirmed = false;
	lt_reset_subscriptions();
}

/*
 * on_listener_event --- callback of the listener, within subscriptions_step
 */
static void
on_listener_event(StoreEvent event, const TopicKey *key)
{
	Subscription *s;

	switch (event)
	{
		case STORE_LISTEN_CONFIRMED:
			s = hash_search(subscriptions, key, HASH_FIND, NULL);
			if (s == NULL)
				break;
			s->confirmed = true;
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
			all_unconfirmed();
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
	bool		found;
	Subscription *s = hash_search(subscriptions, key, HASH_ENTER, &found);

	s->idle = false;
	if (!found)
	{
		s->confirmed = false;
		teller->listener_subscribe(listener, key);
	}
	else if (s->confirmed)
		lt_subscription_confirmed(key);
}

/*
 * keep_subscription --- a session waits for this channel
 */
static void
keep_subscription(const TopicKey *key)
{
	Subscription *s = hash_search(subscriptions, key, HASH_FIND, NULL);

	if (s != NULL)
		s->idle = false;
}

/*
 * drop_idle_subscriptions --- unsubscribe from channels that nobody waits for, neither at this
 * tick nor at the last one
 */
static void
drop_idle_subscriptions(void)
{
	HASH_SEQ_STATUS seq;
	Subscription *s;

	hash_seq_init(&seq, subscriptions);
	while ((s = hash_seq_search(&seq)) != NULL)
	{
		bool		was_idle = s->idle;

		s->idle = s->key.owner != 0 || lt_end_subscription(&s->key);
		if (s->idle && was_idle)
		{
			teller->listener_unsubscribe(listener, &s->key);
			hash_search(subscriptions, &s->key, HASH_REMOVE, NULL);
		}
	}
	lt_subscriptions(false, keep_subscription);
}

static bool
subscriptions_need_tick(void)
{
	return lt_has_waiters() || hash_get_num_entries(subscriptions) > 0;
}

/*
 * subscriptions_start --- a new watchdog is subscribed to nothing
 */
void
subscriptions_start(void)
{
	HASHCTL		ctl = {.keysize = sizeof(TopicKey),.entrysize = sizeof(Subscription),
	.hcxt = TopMemoryContext};

	subscriptions = hash_create("lockredis subscriptions", 64, &ctl,
								HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
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

	if (listener != NULL)
	{
		if (lt_take_subscription_work())
			lt_subscriptions(true, subscribe_key);
		teller->listener_step(listener);
	}
	if (subscriptions_need_tick() && now >= next_tick)
	{
		lt_pass_over_sleepers();
		drop_idle_subscriptions();
		next_tick = now + TICK;
	}
}

/*
 * subscriptions_reconnect --- see watchdog.h
 */
void
subscriptions_reconnect(void)
{
	HASH_SEQ_STATUS seq;
	Subscription *s;

	if (listener == NULL)
		return;
	teller->listener_close(listener);
	listener = teller->listener_open(on_listener_event);
	all_unconfirmed();
	hash_seq_init(&seq, subscriptions);
	while ((s = hash_seq_search(&seq)) != NULL)
		teller->listener_subscribe(listener, &s->key);
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
