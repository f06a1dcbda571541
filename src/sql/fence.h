/*-------------------------------------------------------------------------
 *
 * fence.h
 *	  Fencing tokens that transactions record, in a table.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/sql/fence.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_FENCE_H
#define LR_FENCE_H

#include "lockredis.h"

#include "keyname.h"
#include "session/session.h"

/* ----------
 * fence_table.c: The table that has the highest fencing token recorded for each key.
 * ----------
 */

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

/* ----------
 * replicated.c: What logical replication brings into the tables of the extension.
 * ----------
 */

/* What is written now is this server's own, whatever the session's role. */
extern bool replicated_is_own;

/* Is it our trigger function, whoever made it by ALTER EXTENSION UPDATE? */
extern bool replicated_is_trigger(Oid function);

/* ----------
 * fence.c: Locks with fencing tokens.
 * ----------
 */

/*
 * Take a lock with its token, and at transaction level record that in this transaction, in
 * the table beside that SQL function.  False: busy.
 */
extern bool fence_take(const LrName *name, AcquireRequest *request, Oid function,
					   int64 *token);

#endif							/* LR_FENCE_H */
