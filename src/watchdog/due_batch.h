/*-------------------------------------------------------------------------
 *
 * due_batch.h
 *	  What is due in a store, as one batch of operations.
 *
 * A batch is a TIME, perhaps a PROBE, the operations of each item that is due,
 * and perhaps FACTS.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/watchdog/due_batch.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_DUE_BATCH_H
#define LR_DUE_BATCH_H

#include "lockredis.h"

#include "locktable/watch.h"
#include "store/store.h"

/* So many holds in one batch: some 2 MB of requests, 10 ms of Redis. */
#define DUE_BATCH_MAX		5000

/* What a handle of the watchdog works with. */
typedef struct Workplace
{
	StoreHandle *handle;
	DueItem    *items;			/* DUE_BATCH_MAX of them */
	StoreOp    *ops;			/* enough for any batch of these */
} Workplace;

typedef struct DueBatch
{
	StoreId		id;
	const StoreRoutine *store;
	Workplace	at;
	int			nheaders;		/* operations that concern no lock; the first
								 * is TIME */
	int			nitems;
	int			nops;
	int		   *first_op;		/* of each item */
} DueBatch;

/* As whom: the one that judges the store, or another one of the watchdog. */
#define ROLE_JUDGE			"watchdog"
#define ROLE_CONFIRM		"watchdog-replicas"

extern void workplace_make(StoreId store, const char *role, Workplace *w);
extern void due_batch_make(DueBatch *b, StoreId store, const char *role);

/* Has it to show whether the store does anything for us? */
extern bool due_batch_needs_proof(const DueBatch *b);

/* Make the operations of the items: with a PROBE, with FACTS? */
extern void due_batch_fill(DueBatch *b, bool probe, bool facts);

/* One that carries out an item; the rest of it is zero. */
extern void due_batch_op(StoreOp *op, StoreId store, StoreOpKind kind,
						 const DueItem *item);

/* What only adds to what is there: a store that is full refuses it. */
static inline bool
due_op_adds(const StoreOp *op)
{
	return op->kind == STORE_CREATE || op->kind == STORE_SET;
}

#endif							/* LR_DUE_BATCH_H */
