/*-------------------------------------------------------------------------
 *
 * tickets.c
 *	  Tickets of this backend that the store need not remember any longer.
 *
 * The store notes a ticket for an hour, so that a request which is repeated counts once.
 * That of one that was answered is not needed any more, and the next request for the
 * same name takes it away.  For few names only: others last their hour, as do those that
 * fell out of here.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/session/tickets.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "session/tickets.h"

#define TICKETS				64

static struct
{
	uint32		hash;			/* of the name; another one with it does no harm, as
								 * a ticket is taken away where it is only */
	uint64		ticket;			/* 0 = none */
}			tickets[TICKETS];

uint64
tickets_last(uint32 hash)
{
	return tickets[hash % TICKETS].hash == hash ? tickets[hash % TICKETS].ticket : 0;
}

/*
 * tickets_note --- see tickets.h
 *
 * Not if it was sent twice: the one that was answered is the second, and the first may
 * still lie in a buffer of the network.
 */
void
tickets_note(uint32 hash, const StoreOp *op)
{
	tickets[hash % TICKETS].hash = hash;
	tickets[hash % TICKETS].ticket = op->resent ? 0 : op->owner;
}
