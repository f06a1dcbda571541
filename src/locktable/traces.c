/*-------------------------------------------------------------------------
 *
 * traces.c
 *	  The lock table: in which stores, and where, something of a hold may be.
 *
 * A trace goes when its store has said that nothing of the owner is there, and
 * not before: what was sent and not answered, or lies where lockredis.url pointed
 * before, is still to be given back.
 *
 * Partition lock held.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/locktable/traces.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "locktable/locktable_int.h"
#include "settings.h"
#include "store/stores.h"

/*
 * lt_is_at_old_place --- may it be where the settings pointed that store before?
 */
bool
lt_is_at_old_place(const LrHold *h, StoreId store)
{
	return (h->traces & STORE_BIT(store)) != 0 && h->place != lr_place &&
		lr_store_can(store, STORE_HAS_PLACE);
}

/*
 * lt_is_past --- was that the epoch of a former master?  0 is none.
 */
bool
lt_is_past(LrIndex key, uint32 topology)
{
	return topology != 0 && topology != lt_epoch_of(key);
}

/*
 * lt_is_of_old_master --- was what the store has of it said by a former master?
 *
 * What went there and is not here died with it, or will when it becomes a replica.
 */
bool
lt_is_of_old_master(const LrHold *h, StoreId store)
{
	return (h->traces & STORE_BIT(store)) != 0 && h->topology != lt_epoch_of(h->key) &&
		lr_store_can(store, STORE_HAS_PLACE);
}

/*
 * lt_promised_ms --- for so long a former master has said that it has the lock; 0:
 * none, or the present one has been asked since
 *
 * What the present one has of it may be older.  So whoever asks it first, be it the
 * watchdog or the session, asks for as much.
 */
int64
lt_promised_ms(LrIndex hold)
{
	const LrHold *h = &lt_holds[hold];
	int64		until;

	if (!lt_is_of_old_master(h, h->store))
		return 0;
	until = lr_later(lt_deadline(hold), h->keep_until);
	return lr_later(lr_ms_up(until - lr_now()), 0);
}

/*
 * lt_pending_create --- by the store's clock: until when may a create that was not
 * answered still run there?  0: none can.
 *
 * What went to a former master has no future.  In a cluster it may have gone to the node
 * that has the slot now: by ASK, or since it has the slot again, or still, by a higher
 * number.
 */
int64
lt_pending_create(const LrHold *h, StoreId store)
{
	if (h->not_after[store] == 0 || !lt_is_of_old_master(h, store))
		return h->not_after[store];
	return cluster_is_on() ? NOT_AFTER_UNKNOWN : 0;
}

bool
lt_is_at_any_old_place(const LrHold *h)
{
	for (int s = 0; s < STORE_COUNT; s++)
		if (lt_is_at_old_place(h, s))
			return true;
	return false;
}

/*
 * lt_note_place --- the store has said that it has the lock, where this process
 * asks
 */
void
lt_note_place(LrHold *h, StoreId store)
{
	if (!lr_store_can(store, STORE_HAS_PLACE))
		return;
	h->place = lr_place;
	h->topology = lt_epoch_of(h->key);
}

/*
 * lt_note_answer --- the same, of an answer that was found to be of its present
 * store: "moves" was lt_moves() then
 *
 * By now another node may be the master, which nobody has asked.
 */
void
lt_note_answer(LrHold *h, uint64 moves)
{
	if (!lr_store_can(h->store, STORE_HAS_PLACE))
		return;
	h->place = lr_place;
	h->topology = (uint32) moves;
}

/*
 * lt_first_trace --- a create of that owner has run there, or may yet
 *
 * "topology" is that of the master which was asked, 0 where none is looked for.
 */
void
lt_first_trace(LrHold *h, StoreId store, uint64 owner, uint32 topology)
{
	h->owner = owner;
	h->store = store;
	h->traces = STORE_BIT(store);
	h->place = lr_place;
	h->topology = topology != 0 ? topology : lt_epoch_of(h->key);
}

/*
 * lt_trace_of_move --- a create of it is about to be sent there
 */
void
lt_trace_of_move(LrHold *h, StoreId store)
{
	h->traces |= STORE_BIT(store);
	if (lr_store_can(store, STORE_LATE_CREATES))
		h->not_after[store] = NOT_AFTER_UNKNOWN;
	lt_note_place(h, store);
}

/*
 * lt_forget_trace --- the store that this process talks to has nothing of it
 *
 * Another one, at the place where it was before, may: only the watchdog can give
 * that back.
 */
void
lt_forget_trace(LrHold *h, StoreId store)
{
	if (h->not_after[store] != 0 || lt_is_at_old_place(h, store))
		return;
	h->traces &= ~STORE_BIT(store);
}

/*
 * lt_here_since --- taken there then: since when can nobody elsewhere have the
 * key, if the store that all share is silent?
 *
 * That others may have it in the shared store says nothing.
 */
int64
lt_here_since(StoreId store, int64 when)
{
	return lr_store_can(store, STORE_SERVER_ONLY) ? when : 0;
}
