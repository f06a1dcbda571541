/*-------------------------------------------------------------------------
 *
 * tickets.h
 *	  Tickets of this backend that the store need not remember any longer.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/session/tickets.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_TICKETS_H
#define LR_TICKETS_H

#include "lockredis.h"

#include "store/store.h"

/* The ticket of the last request for that name which was answered; 0: none. */
extern uint64 tickets_last(uint32 hash);

/* That request was answered. */
extern void tickets_note(uint32 hash, const StoreOp *op);

#endif							/* LR_TICKETS_H */
