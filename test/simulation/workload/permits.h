/*-------------------------------------------------------------------------
 *
 * permits.h
 *	  What this session has of permits, by what it was told.
 *
 * Beside book.h, since of a permit the session has several holds at a time.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/workload/permits.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_PERMITS_H
#define SIM_PERMITS_H

#include "workload.h"

extern void permits_taken(const LrName *name, LockScope scope);

/* redis_permit_unlock has returned; it has ended with an error. */
extern void permits_unlocked(const LrName *name, bool given_back);
extern void permits_perhaps_unlocked(const LrName *name);

/* So many keys have permits of session level; all of them are given back, or perhaps. */
extern int	permits_keys_had(void);
extern void permits_all_gone(bool surely);

extern void permits_sub_ends(SubTransactionId sub, SubTransactionId parent, bool commit);
extern void permits_transaction_ends(void);

/* Does the lock table say the same of this session? */
extern void permits_check(void);

/* ---- table_check.c's: of the id of a hold ---- */

extern const char *permit_id_of(LrIndex hold);

#endif							/* SIM_PERMITS_H */
