/*-------------------------------------------------------------------------
 *
 * due_times.c
 *	  The lock table: in which stores something of a hold may be, and when the watchdog
 *	  has to look at it.
 *
 * Each hold has a due time for each store, in a dense array: for a renewal, for the
 * end of a lease, or for the release of an orphan.  The watchdog reads the whole array
 * of a store to find its work, which takes a tenth of a millisecond for 100,000 holds.
 *
 * Due times are set under the partition lock, and read without it.  A process that sets
 * one looks afterwards until when the watchdog says that it sleeps; the watchdog says that
 * first and then reads the due times.  With a full barrier between the two steps on either
 * side at least one of them sees the other's write.
 *
 * What is due stays due until the watchdog has looked.  When new locks go to another
 * store, or a store may be another one than before, the watchdog makes all holds due
 * there.  A session that goes by the former state, as it has not read lockredis.url again,
 * cannot put that off.  A hold that the watchdog's walk cannot see yet needs another order:
 * the watchdog sets the store, barrier, looks for owners; lt_grant sets the owner, barrier,
 * looks which store is in use.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/locktable/due_times.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "locktable/locktable_int.h"
#include "settings.h"

/* Look no more often: nobody renews so often that a lease is shortened twice meanwhile. */
#define WATCH_LEAST_MS		INT64CONST(100)

/* ----------
 * In which stores something of a hold may be, and where in them
 *
 * A trace goes when its store has said that nothing of the owner is there, and not
 * before: a create that was not answered, or a lock where lockredis.url pointed
 * before, has yet to be released.
 *
 * Partition lock held.
 * ----------
 */

/*
 * lt_is_at_old_place --- may something of the hold be where lockredis.url pointed before?
 */
bool
lt_is_at_old_place(const LrHold *h, StoreId store)
{
	return (h->traces & STORE_BIT(store)) != 0 && h->claim.place != lr_place &&
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
	return (h->traces & STORE_BIT(store)) != 0 && h->claim.topology != lt_epoch_of(h->key) &&
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

	if (!lt_is_of_old_master(h, h->claim.store))
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
	if (!lr_store_can(store, STORE_LATE_CREATES))
		return 0;
	if (h->not_after == 0 || !lt_is_of_old_master(h, store))
		return h->not_after;
	return cluster_is_on() ? NOT_AFTER_UNKNOWN : 0;
}

/*
 * lt_set_not_after --- note until when a create may still run in that store, if it can be late
 * there
 */
void
lt_set_not_after(LrHold *h, StoreId store, int64 not_after)
{
	if (lr_store_can(store, STORE_LATE_CREATES))
		h->not_after = not_after;
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
	h->claim.place = lr_place;
	h->claim.topology = lt_epoch_of(h->key);
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
	if (!lr_store_can(h->claim.store, STORE_HAS_PLACE))
		return;
	h->claim.place = lr_place;
	h->claim.topology = (uint32) moves;
}

/*
 * lt_claim_of --- the claim that an operation on the key has made, or is about to make
 *
 * If no master was looked for, it is the present one.
 */
LrClaim
lt_claim_of(const StoreOp *op, LrIndex key)
{
	LrClaim		claim = {.owner = op->owner,.place = lr_place,.store = op->store};

	claim.topology = op->sent.topology != 0 ? op->sent.topology : lt_epoch_of(key);
	return claim;
}

/*
 * lt_first_trace --- a create has run in the store of the claim, or may still run
 */
void
lt_first_trace(LrHold *h, LrClaim claim)
{
	h->claim = claim;
	h->traces = STORE_BIT(claim.store);
}

/*
 * lt_trace_of_move --- a create is about to be sent, to move the lock to that store
 */
void
lt_trace_of_move(LrHold *h, StoreId store)
{
	h->traces |= STORE_BIT(store);
	lt_set_not_after(h, store, NOT_AFTER_UNKNOWN);
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
	if ((h->not_after != 0 && lr_store_can(store, STORE_LATE_CREATES)) ||
		lt_is_at_old_place(h, store))
		return;
	h->traces &= ~STORE_BIT(store);
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

/* ----------
 * Due times
 * ----------
 */

static void
due_put(LrIndex hold, StoreId store, int64 due)
{
	pg_atomic_write_u64(&lt_due[store][hold], due != LR_NEVER ? (uint64) due : 0);
}

/*
 * lt_renew_lease_ms --- the longest lease that a scope of the hold wants
 * renewed, 0 = none
 *
 * From pre-commit to its release a transaction's hold is renewed in any case.
 * A hold that is handed over has no scopes, but the lease that its next session wants
 * (lt_fits).  Without the partition lock that session may have gone meanwhile.
 */
int64
lt_renew_lease_ms(const LrHold *hold)
{
	LrIndex		session = hold->session;
	int64		lease_ms = hold->state == HOLD_HANDED && session != LR_NONE ?
		lt_wait_of(session)->terms.lease_ms : 0;

	for (int i = 0; i < SCOPE_COUNT; i++)
		if (hold->scope[i].count > 0 &&
			(hold->scope[i].renewed || (i == SCOPE_XACT && hold->renewal.committing)))
			lease_ms = Max(lease_ms, hold->scope[i].lease_ms);
	return lease_ms;
}

/*
 * lt_min_replicas --- how many replicas have to confirm a longer lease
 */
int
lt_min_replicas(const LrHold *hold)
{
	int			n = hold->state == HOLD_HANDED ?
		lt_wait_of(hold->session)->terms.min_replicas : 0;

	for (int i = 0; i < SCOPE_COUNT; i++)
		if (hold->scope[i].count > 0)
			n = Max(n, hold->scope[i].min_replicas);
	return n;
}

/*
 * lt_lacks_replicas --- has the hold come to require more replicas than the request
 * did, and would the answer raise its deadline?
 *
 * Then the request is repeated.  An answer that does not raise the deadline counts.
 */
bool
lt_lacks_replicas(const DueItem *item, int64 deadline)
{
	return item->op.min_replicas < lt_min_replicas(&lt_holds[item->op.hold]) &&
		deadline > lt_deadline(item->op.hold);
}

/*
 * lt_due_of_held --- when to look at a held lock
 *
 * After a third of its lease if it is renewed, else at the end of its lease; earlier if
 * others may shorten the lease, or if some of several masters do not have the lock.
 */
int64
lt_due_of_held(const LrHold *hold, int64 deadline)
{
	int64		due = deadline -
		lr_left_at_renewal(lt_renew_lease_ms(hold) * LR_US_PER_MS);

	if (hold->as.held.look_at != 0)
		due = lr_earlier(due, hold->as.held.look_at);

	/* If the host has been up for less than the lease, this can be 0, which means "never". */
	return lr_later(due, 1);
}

/*
 * lt_watch_from --- when to look next at a hold whose lease others may shorten
 *
 * After a third of what is left of the lease in the store, even if it is not renewed.
 */
void
lt_watch_from(LrHold *hold, int64 now, int64 left_ms)
{
	LrHeld	   *held = &hold->as.held;
	int64		most = lr_kind(hold->kind)->watched_ms;
	int64		at = now + Max(Min(most, left_ms / 3), WATCH_LEAST_MS) * LR_US_PER_MS;

	if (most > 0)
		held->look_at = held->look_at != 0 ? lr_earlier(held->look_at, at) : at;
}

/*
 * lt_set_due --- set a due time, unless the hold is due already
 */
void
lt_set_due(LrIndex hold, StoreId store, int64 due)
{
	if (!lr_has_store(store))
		return;
	if (lt_read_due(hold, store) > lr_now())
		due_put(hold, store, due);
	pg_memory_barrier();
	if (lt_read_due(hold, store) < lt_read_time(&lt_table->sleeps_until[store]))
		lt_add_watchdog();
}

/*
 * lt_take_due --- the watchdog looks now, and sets the next due time
 */
void
lt_take_due(LrIndex hold, StoreId store)
{
	due_put(hold, store, LR_NEVER);
}

/*
 * lt_set_due_in_traces --- in all stores in which something of the hold may be
 */
void
lt_set_due_in_traces(LrIndex hold, int64 due)
{
	for (int s = 0; s < STORE_COUNT; s++)
		lt_set_due(hold, s, lt_holds[hold].traces & STORE_BIT(s) ? due : LR_NEVER);
}

/*
 * lt_is_left_in --- has a held lock left something in this store that should go?
 */
bool
lt_is_left_in(const LrHold *h, StoreId store)
{
	return store != h->claim.store && lr_store_can(store, STORE_SERVER_ONLY) &&
		(h->traces & STORE_BIT(store)) != 0;
}

/*
 * lt_is_to_be_asked --- does the store have to be asked whether it has the lock at all, as
 * lockredis.url has changed or another node is the master?
 */
bool
lt_is_to_be_asked(const LrHold *h)
{
	return lt_is_at_old_place(h, h->claim.store) || lt_is_of_old_master(h, h->claim.store);
}

/*
 * lt_set_due_in_own --- set the due time in the store of the hold, as its lease or a
 * scope has changed
 *
 * If that store has to be asked first whether it has the lock at all, the hold is due
 * for that already, perhaps later than now; the new due time must not delay it.
 */
void
lt_set_due_in_own(LrIndex hold)
{
	const LrHold *h = &lt_holds[hold];
	int64		due = lt_due_of_held(h, lt_deadline(hold));

	if (lt_is_to_be_asked(h))
		due = lr_earlier(due, lt_read_due(hold, h->claim.store));
	lt_set_due(hold, h->claim.store, due);
}

/*
 * lt_set_due_of_held --- set the due times of a held lock in all stores
 */
void
lt_set_due_of_held(LrIndex hold)
{
	const LrHold *h = &lt_holds[hold];

	for (int s = 0; s < STORE_COUNT; s++)
	{
		bool		now = s == h->claim.store ? lt_is_to_be_asked(h) :
			lt_is_wanted_in(h, s) || lt_is_left_in(h, s);

		lt_set_due(hold, s, now ? lr_now() :
				   s == h->claim.store ? lt_due_of_held(h, lt_deadline(hold)) : LR_NEVER);
	}
}

int64
lt_next_due(StoreId store)
{
	int64		next = LR_NEVER;

	for (LrIndex i = 0, n = lt_used_slots(); i < n; i++)
		next = lr_earlier(next, lt_read_due(i, store));
	return next;
}

/* ----------
 * For the watchdog: many holds become due.  It is awake, so nobody has to be woken.
 * ----------
 */

/*
 * due_is_meant --- is it one of the holds that lt_renew_now() is about?
 */
static bool
due_is_meant(const LrHold *h, StoreId store, int which)
{
	const LrKey *key = &lt_keys[h->key];

	switch (which)
	{
		case RENEW_ALL:
			return true;
		case RENEW_MOVED:
			return lt_is_of_old_master(h, store);
		case RENEW_LACKING:
			return h->claim.store == store && lt_is_had(h) && h->as.held.look_at != 0;
		default:
			return lr_store(store)->part_of(key->name, key->name_len) == which;
	}
}

/*
 * lt_renew_now --- see watch.h
 *
 * A hold that has another owner when it is locked was made since.  For holds that are not
 * renewed the watchdog finds nothing to do.
 */
void
lt_renew_now(StoreId store, int which)
{
	int64		now = lr_now();

	for (LrIndex i = 0, n = lt_used_slots(); i < n; i++)
	{
		LrHold	   *h = &lt_holds[i];

		if (!lt_lock_slot(i))
			continue;
		if (due_is_meant(h, store, which))
		{
			if (which == RENEW_LACKING)
				h->as.held.look_at = now;
			lt_set_due(i, store, now);
		}
		lt_unlock();
	}
}
