/*-------------------------------------------------------------------------
 *
 * lease.h
 *	  Which part of a lease suffices for which purpose.
 *
 * Several parts of the code have to agree on these limits: a lock is renewed early
 * enough to outlive a change to another store, and is not passed on with less of its
 * lease than the next commit requires.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/lease.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_LEASE_H
#define LR_LEASE_H

#include "lockredis.h"

/* The longest possible lease. */
#define LR_LEASE_MAX_MS		(INT64CONST(24) * 24 * 60 * 60 * 1000)

/*
 * When a lease ends for its holder whose request was sent at that time.  Redis counts the
 * lease from the beginning of the millisecond in which it runs the request, and since
 * version 8 may remove the key as soon as that time is over.
 */
static inline int64
lr_lease_deadline(int64 sent_at, int64 lease_ms)
{
	return sent_at + (lease_ms - 1) * LR_US_PER_MS;
}

/* The shortest lease, asked for from now on, that ends no earlier than what is left. */
static inline int64
lr_lease_to_keep(int64 left)
{
	return left > 0 ? lr_ms_up(left) + 1 : 0;
}

/* A commit requires that more than a tenth of the lease is left, or more than this. */
#define LR_MARGIN_MAX		LR_US_PER_S

static inline int64
lr_commit_margin(int64 lease)
{
	return Min(lease / 10, LR_MARGIN_MAX);
}

/* How much of a lease is left when it is renewed, after a third of it. */
static inline int64
lr_left_at_renewal(int64 lease)
{
	return lease * 2 / 3;
}

/*
 * The watchdog sends renewals that are due soon together with those that are due now:
 * up to a twelfth of their lease early, but at most this.
 */
#define LR_EARLY_MAX		(2 * LR_US_PER_S)

static inline int64
lr_early_renewal(int64 lease)
{
	return Min(lease / 12, LR_EARLY_MAX);
}

#endif							/* LR_LEASE_H */
