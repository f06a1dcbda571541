/*-------------------------------------------------------------------------
 *
 * fence_table.h
 *	  The table that has the highest fencing token recorded for each key.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/sql/fence_table.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_FENCE_TABLE_H
#define LR_FENCE_TABLE_H

#include "lockredis.h"

#include "keyname.h"

/*
 * The row of the key in the table in "schema": record the token if it is above
 * the row.  Waits for another transaction that has the row locked, and judges
 * anew.  False: *row has what is there, which is ours to see from now on, as the
 * row is locked.
 */
extern bool fences_raise(const LrName *name, Oid schema, int64 token, int64 *row);

/* What is recorded; false: nothing. */
extern bool fences_read(const LrName *name, Oid schema, int64 *row);

/* False: there was none. */
extern bool fences_delete(const LrName *name, Oid schema);

#endif							/* LR_FENCE_TABLE_H */
