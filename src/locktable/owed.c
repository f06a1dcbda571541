/*-------------------------------------------------------------------------
 *
 * owed.c
 *	  The lock table: amounts that the store has to count for a session.
 *
 * Permits are returned to a semaphore, and a latch is counted down.  The store does so
 * once, however often it is asked, as long as it remembers the ticket.  So the watchdog
 * repeats a request until it is answered.
 *
 * The store forgets tickets after an hour.  A request that may have run must not be
 * repeated after that, so it is dropped if it has not been answered by then.  A request
 * that was certainly never sent waits for as long as it takes, unless the store refuses it.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/locktable/owed.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "utils/timestamp.h"

#include "locktable/locktable_int.h"
#include "settings.h"

/* How long a request is repeated after the first one that may have run. */
#define OWED_REPEATED		(59 * 60 * LR_US_PER_S)

bool
lt_owe(const LrName *name, KindId kind, LockScope scope, int64 amount, LrIndex *hold)
{
	LockTerms	terms = {.kind = kind,.scope = scope,.amount = amount};
	TimestampTz now = GetCurrentTimestamp();
	LrHold	   *h;

	if (!lt_take_row())
		return false;
	*hold = lt_alloc_hold();
	h = &lt_holds[*hold];

	lt_lock(name->hash);
	lt_init_waiting_hold(*hold, lt_make_key(name->data, name->len, name->hash), &terms);
	h->claim.owner = lr_new_owner();
	h->state = HOLD_OWED;
	h->given.owed = true;
	h->scope[scope].count = 1;
	h->scope[scope].acquired_at = now;
	lt_link_hold(*hold);
	lt_unlock();
	return true;
}

LrIndex
lt_find_owed(const LrName *name, KindId kind)
{
	LrIndex		hold = LR_NONE;
	LrIndex		key;

	lt_lock_shared(name->hash);
	key = lt_find_key(name->data, name->len, name->hash);
	if (key != LR_NONE)
		for (hold = lt_keys[key].first_hold; hold != LR_NONE; hold = lt_holds[hold].next)
			if (lt_holds[hold].state == HOLD_OWED && lt_holds[hold].kind == kind &&
				lt_holds[hold].session == LrMyProcNumber &&
				lt_holds[hold].scope[SCOPE_XACT].count > 0)
				break;
	lt_unlock();
	return hold;
}

void
lt_owe_more(LrIndex hold, int64 amount)
{
	lt_lock_hold(hold);
	Assert(lt_holds[hold].state == HOLD_OWED);
	lt_holds[hold].given.amount += amount;
	if (lt_holds[hold].given.amount == 0)
		lt_free_hold(hold);
	lt_unlock();
}

/* No lock: only its session writes the amount. */
int64
lt_owed_amount(LrIndex hold)
{
	return lt_holds[hold].given.amount;
}

void
lt_owed_done(LrIndex hold)
{
	lt_lock_hold(hold);
	Assert(lt_holds[hold].state == HOLD_OWED);
	lt_free_hold(hold);
	lt_unlock();
}

void
lt_leave_owed(LrIndex hold, const StoreOp *op)
{
	LrHold	   *h = &lt_holds[hold];

	lt_lock_hold(hold);
	Assert(h->state == HOLD_OWED);
	lt_first_trace(h, lt_claim_of(op, h->key));
	h->lasts = OWED_REPEATED;
	lt_make_orphan(hold);
	h->as.count.first_at = op->sent.at;
	h->as.count.sent = op->sent.at != 0;
	lt_unlock();
}

/* ----------
 * For the watchdog
 * ----------
 */

/*
 * lt_decide_owed --- may the store still be asked to count it?  partition lock held
 *
 * Before the request is sent, it is noted that it may have run from now on, and where:
 * no other place is asked after that.
 */
bool
lt_decide_owed(LrIndex hold, StoreId store, int64 now)
{
	LrHold	   *h = &lt_holds[hold];

	if (h->as.count.sent == 0)
	{
		h->as.count.first_at = now;
		lt_note_place(h, store);
	}
	else if (lt_is_at_old_place(h, store) || now - h->as.count.first_at >= OWED_REPEATED)
		return false;
	h->as.count.sent++;
	return true;
}
