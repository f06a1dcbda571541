/*-------------------------------------------------------------------------
 *
 * table_tickets.h
 *	  Which requests have been counted, for when nobody has read the answer.
 *
 * For the table worker only.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/table/table_tickets.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_TABLE_TICKETS_H
#define LR_TABLE_TICKETS_H

#include "lockredis.h"

/* The present transaction does what that owner has asked for, or undoes it. */
extern void tickets_add(uint64 owner);
extern void tickets_remove(uint64 owner);

/* Has that been done, by this transaction or by one that was committed? */
extern bool tickets_has(uint64 owner);

#endif							/* LR_TABLE_TICKETS_H */
