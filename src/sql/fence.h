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

#include "names.h"
#include "session/session.h"

/* ----------
 * fence_table.c: The table that has the highest fencing token recorded for each key.
 * ----------
 */

/*
 * Record the token in the row of the key, in the table in "schema", if it is above the
 * one there.  Waits while another transaction has the row locked, and compares again.
 * If the token is not recorded, returns false, with the row's token in *row; the row is
 * then locked, so nobody else can change it.
 */
extern bool fences_raise(const LrName *name, Oid schema, int64 token, int64 *row);

/* Read the recorded token; false if there is none. */
extern bool fences_read(const LrName *name, Oid schema, int64 *row);

/* Delete the row; false if there was none. */
extern bool fences_delete(const LrName *name, Oid schema);

/* ----------
 * replicated.c: Changes that logical replication applies to the tables of the extension.
 * ----------
 */

/*
 * Set while this server itself writes to the tables, whatever session_replication_role
 * is.
 */
extern bool replicated_is_own;

/* Is it our trigger function?  Its owner is whoever ran ALTER EXTENSION UPDATE. */
extern bool replicated_is_trigger(Oid function);

/* ----------
 * fence.c: Locks with fencing tokens.
 * ----------
 */

/*
 * Take a lock with its token.  At transaction level, record the token in this
 * transaction, in the table that is in the schema of the SQL function.  False: busy.
 */
extern bool fence_take(const LrName *name, AcquireRequest *request, Oid function,
					   int64 *token);

#endif							/* LR_FENCE_H */
