/*-------------------------------------------------------------------------
 *
 * untold.h
 *	  What no session has, and a statement took that has not ended yet.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/session/untold.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_UNTOLD_H
#define LR_UNTOLD_H

#include "lockredis.h"

#include "keyname.h"
#include "locktable/locktable.h"

typedef struct Untold Untold;

/*
 * Before the store is asked; may raise.  NULL: not in a statement, so nobody notices its
 * end.
 */
extern Untold *untold_make(const LrName *name, const LockTerms *terms);

/*
 * It is had, by that owner number if the store knows it by that (else 0): from here on it is
 * given back if the statement fails.
 */
extern void untold_begin(Untold *u, uint64 owner);

/* The same of permits whose number nobody knew before. */
extern void untold_begin_some(Untold *u, int64 amount);

/* The end of a transaction, or of a subtransaction that aborts; raises nothing. */
extern void untold_transaction_ends(bool commit);
extern void untold_subtransaction_aborts(void);
extern bool untold_is_empty(void);

/* What has this id, as long as that of its kind is, was given back in the same statement. */
extern void untold_forget(const LrName *name, KindId kind, const uint8 *id);

/* So many were given back to the semaphore in the same statement. */
extern void untold_forget_some(const char *name, int len, KindId kind, int64 amount);

#endif							/* LR_UNTOLD_H */
