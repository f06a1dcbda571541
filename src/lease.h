/*-------------------------------------------------------------------------
 *
 * lease.h
 *	  What part of a lease is enough for what.
 *
 * Several have to agree on these: a lock is renewed in time to outlive the
 * change to another store, and is not passed on with less than its next commit
 * would want.
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

/* The longest that there is. */
#define LR_LEASE_MAX_MS		(INT64CONST(24) * 24 * 60 * 60 * 1000)

/* A commit wants more of a lease to be left than a tenth of it, or this. */
#define LR_MARGIN_MAX		LR_US_PER_S

static inline int64
lr_commit_margin(int64 lease)
{
	return Min(lease / 10, LR_MARGIN_MAX);
}

/* What is left of a lease when it is renewed: a third has passed. */
static inline int64
lr_left_at_renewal(int64 lease)
{
	return lease * 2 / 3;
}

/*
 * Renewals that are due a little later go out with those that are due now: a
 * twelfth of their lease before, at most this.
 */
#define LR_EARLY_MAX		(2 * LR_US_PER_S)

static inline int64
lr_early_renewal(int64 lease)
{
	return Min(lease / 12, LR_EARLY_MAX);
}

#endif							/* LR_LEASE_H */
