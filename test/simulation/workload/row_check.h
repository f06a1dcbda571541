/*-------------------------------------------------------------------------
 *
 * row_check.h
 *	  What the tables of table mode say of a lock.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/workload/row_check.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_ROW_CHECK_H
#define SIM_ROW_CHECK_H

#include "workload.h"

/* Until when that owner has the key by the rows that are committed; 0 = not at all. */
extern int64 rows_owned_until(const char *key, uint64 owner);

/* A key that this server has by the rows, and nobody knows of; or NULL. */
typedef bool (*RowIsKnown) (const char *key, const char *owner);
extern const char *rows_find_unknown(RowIsKnown knows);

/* A create or a mint was answered: do the tokens in reserve count for who has issued them? */
extern void check_issuer(LrIndex hold, const StoreOp *op);

/* Do the rows fit each other? */
extern void check_rows(void);

#endif							/* SIM_ROW_CHECK_H */
