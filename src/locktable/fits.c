/*-------------------------------------------------------------------------
 *
 * fits.c
 *	  The lock table: can a lock be handed to a session that waits, as it is?
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/locktable/fits.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "locktable/locktable_int.h"

/*
 * lt_handed_lease_ms --- the lease of a hold if all its scopes are renewed, else 0
 */
int64
lt_handed_lease_ms(const LrHold *h)
{
	int64		lease_ms = 0;

	if (h->state == HOLD_HANDED)
		return h->handed_lease_ms;
	for (int i = 0; i < SCOPE_COUNT; i++)
	{
		if (h->scope[i].count == 0)
			continue;
		if (!h->scope[i].renewed)
			return 0;
		lease_ms = Max(lease_ms, h->scope[i].lease_ms);
	}
	return lease_ms;
}

/*
 * lt_has_enough_left --- is more of the lease left than a commit needs?
 */
bool
lt_has_enough_left(int64 lease_ms, int64 left)
{
	return left > lr_commit_margin(lease_ms * LR_US_PER_MS);
}

/*
 * lt_fits --- can this lock serve the next session as it is?
 *
 * The session must want the kind, the renewed lease and the number of replicas with
 * which the store has the lock.  Neither side may leave the key locked after its
 * release.
 */
bool
lt_fits(LrIndex hold, int64 now, const LrWait *w)
{
	const LrHold *h = &lt_holds[hold];
	int64		lease_ms = lt_handed_lease_ms(h);

	return w->terms.kind == h->kind &&
		w->terms.renewed && w->terms.lease_ms == lease_ms &&
		w->terms.min_replicas == lt_min_replicas(h) &&
		w->terms.keep_until == 0 && h->keep_until <= now &&
		lt_has_enough_left(lease_ms, lt_deadline(hold) - now);
}

/*
 * lt_fitting_hold --- a lock that a session here has of the key, and that can serve one
 * that waits as it is; else LR_NONE
 */
LrIndex
lt_fitting_hold(const LrKey *key, const LrWait *w, int64 now)
{
	for (LrIndex i = key->first_hold; i != LR_NONE; i = lt_holds[i].next)
		if ((lt_holds[i].state == HOLD_HELD || lt_holds[i].state == HOLD_HANDED) &&
			lt_fits(i, now, w))
			return i;
	return LR_NONE;
}
