/*-------------------------------------------------------------------------
 *
 * table_conditions.h
 *	  Waits for conditions of locks, in the memory of the table worker.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/table/table_conditions.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_TABLE_CONDITIONS_H
#define LR_TABLE_CONDITIONS_H

#include "lockredis.h"

#include "store/table/requests.h"

/*
 * What is left to do of an operation of the kind, once the lock is as it has to be: given
 * back by the wait that begins, or there, of him who notifies.  Sets the outcome, and
 * raises nothing.
 */
extern void condition_carry_out(TableOp *op);

#endif							/* LR_TABLE_CONDITIONS_H */
