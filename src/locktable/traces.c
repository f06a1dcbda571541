/*-------------------------------------------------------------------------
 *
 * traces.c
 *	  The lock table: in which stores, and where in them, something of a hold may be.
 *
 * A trace goes when its store has said that nothing of the owner is there, and not
 * before: a create that was not answered, or a lock where lockredis.url pointed
 * before, has yet to be released.
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
#include "store/nodes.h"
#include "store/stores.h"

/*
 * lt_is_at_old_place --- may something of the hold be where lockredis.url pointed before?
 */
bool
lt_is_at_old_place(const LrHold *h, StoreId store)
{
	return (h->traces & STORE_BIT(store)) != 0 && h->place != lr_place &&
		lr_store_can(store, STORE_HAS_PLACE);
}

/*
 * lt_is_past --- is that the epoch of a former master?  0 is no epoch.
 */
bool
lt_is_past(LrIndex key, uint32 topology)
{
	return topology != 0 && topology != lt_epoch_of(key);
}

/*
 * lt_is_of_old_master --- is what we know of the hold in that store from a former master?
 *
 * Writes that the present master did not get from it are lost: the former master is dead,
 * or drops them when it becomes a replica.
 */
bool
lt_is_of_old_master(const LrHold *h, StoreId store)
{
	return (h->traces & STORE_BIT(store)) != 0 && h->topology != lt_epoch_of(h->key) &&
		lr_store_can(store, STORE_HAS_PLACE);
}

/*
 * lt_promised_ms --- what is left of the lease that a former master has confirmed; 0: none
 * has, or the present master has confirmed the lock since
 *
 * The present master may have an older state of the lock.  So its first request, by the
 * watchdog or by the session, asks for at least so long a lease.
 */
int64
lt_promised_ms(LrIndex hold)
{
	const LrHold *h = &lt_holds[hold];
	int64		until;

	if (!lt_is_of_old_master(h, h->store))
		return 0;
	until = lr_later(lt_deadline(hold), h->keep_until);
	return lr_lease_to_keep(until - lr_now());
}

/*
 * lt_pending_create --- until when, by the store's clock, may a create that was not
 * answered still run there?  0: none can.
 *
 * A create that went to a former master has no effect any more.  In a cluster, however,
 * it may have gone to the node that has the slot now: by an ASK redirection, or because
 * that node has got the slot back, or has kept it under a higher epoch.
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
 * lt_note_place --- note that the hold is at the place, and at the master, which this
 * process asks now
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
 * lt_note_answer --- note that the present store of the hold has answered; "moves" is
 * lt_moves() as of the request
 *
 * The master is the one of that time: another node may be the master by now, which has
 * not been asked.
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
 * lt_first_trace --- a create of that owner has run in the store, or may still run
 *
 * "topology" is the epoch of the master that was asked, 0 if none was looked for.
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
 * lt_trace_of_move --- a create is about to be sent, to move the lock to that store
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
 * lt_forget_trace --- the store that this process asks has nothing of the hold
 *
 * The trace stays if a create may still run, or if something may be where lockredis.url
 * pointed before, which only the watchdog can release.
 */
void
lt_forget_trace(LrHold *h, StoreId store)
{
	if (h->not_after[store] != 0 || lt_is_at_old_place(h, store))
		return;
	h->traces &= ~STORE_BIT(store);
}

/*
 * lt_forget_gone --- that store has answered that the hold's owner is not there
 *
 * Of several masters only most have said so.  The others may still have the lock, and the
 * watchdog releases it there once the hold is LOST, and not before:
 *
 *	 S: has it at 1 and 2; client C elsewhere has had it at 3
 *	 2 is replaced by an empty server, which has no vote yet; C releases 3
 *	 watchdog: renewal: done at 1, gone at 2 and 3
 *	 watchdog: release at 1		C: takes it at 1 and 3, a majority
 *	 watchdog: the hold is LOST; until now S could believe in it
 *
 * As long as 1 has the lock, C gets no majority.
 */
void
lt_forget_gone(LrHold *h, StoreId store)
{
	if (masters_count() == 0 || !lr_store_can(store, STORE_HAS_PLACE))
		lt_forget_trace(h, store);
}

/*
 * lt_here_since --- the here_from (locktable.h) of a lock that was taken in that store at
 * "when"
 *
 * 0, not known, for the store that all servers share: others may take the key there.
 */
int64
lt_here_since(StoreId store, int64 when)
{
	return lr_store_can(store, STORE_SERVER_ONLY) ? when : 0;
}
