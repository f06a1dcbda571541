/*-------------------------------------------------------------------------
 *
 * table_tickets.c
 *	  Which requests have been counted, for when nobody has read the answer.
 *
 * Whether a request that the worker has taken was carried out is the status of its
 * transaction, and who asks again does so soon: the watchdog, as what a session leaves
 * behind.  So the last requests are kept, each with its transaction, in shared memory:
 * the worker may end between its commit and the question.
 *
 *	 session: takes two permits, is cancelled
 *									worker: commits that, and ends
 *	 watchdog: undo
 *									the next worker: it was committed; two permits back
 *
 * A question that comes when thousands of others have been counted since finds nothing,
 * as if the request had not run.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/table/table_tickets.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "access/transam.h"
#include "access/xact.h"

#include "store/table/requests.h"
#include "store/table/table_int.h"

void
tickets_add(uint64 owner)
{
	TableTickets *tickets = requests_tickets();
	TableTicket *t = &tickets->ticket[tickets->next];

	tickets->next = (tickets->next + 1) % TABLE_TICKETS;
	t->owner = owner;
	t->done_by = GetTopTransactionId();
	t->undone_by = InvalidTransactionId;
}

static bool
ticket_is_done(TransactionId xid)
{
	return TransactionIdIsValid(xid) &&
		(TransactionIdIsCurrentTransactionId(xid) || TransactionIdDidCommit(xid));
}

/*
 * tickets_find --- of one that was carried out, and not undone
 *
 * There may be several of one owner: the transactions of all but one have failed.
 */
static TableTicket *
tickets_find(uint64 owner)
{
	TableTickets *tickets = requests_tickets();

	for (int i = 0; i < TABLE_TICKETS; i++)
	{
		TableTicket *t = &tickets->ticket[i];

		if (t->owner == owner && ticket_is_done(t->done_by) &&
			!ticket_is_done(t->undone_by))
			return t;
	}
	return NULL;
}

bool
tickets_has(uint64 owner)
{
	return tickets_find(owner) != NULL;
}

void
tickets_remove(uint64 owner)
{
	TableTicket *t = tickets_find(owner);

	if (t != NULL)
		t->undone_by = GetTopTransactionId();
}
