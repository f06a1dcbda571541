/*-------------------------------------------------------------------------
 *
 * transam.c
 *	  Transaction ids and their outcome.
 *
 * A snapshot is the number of commits until then, which serves as the list of
 * what was running, since an id keeps the number of its commit.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/backend/transam.c
 *
 *-------------------------------------------------------------------------
 */
#include "heap.h"

#include "access/transam.h"

#include "../kernel/server.h"

#define XIDS_MAX	16384

typedef enum Outcome
{
	RUNNING,
	COMMITTED,					/* a subtransaction: if its parent did */
	ABORTED
} Outcome;

typedef struct Xids
{
	uint32		n;
	uint32		ncommits;
	uint32		nflushed;		/* of these */
	uint32		nlives;			/* of the server */
	bool		is_due;			/* the WAL writer has something to do */
	struct
	{
		uint16		parent;
		uint16		outcome;
		uint32		commit;		/* its number; of a top one */
	}			xid[XIDS_MAX];
} Xids;

static Xids *xids;

void
transam_init(void)
{
	xids = sim_durable("transaction ids", sizeof(Xids));
}

/*
 * What was running when the server before crashed, and of what was committed and not
 * flushed the last.
 */
void
transam_recover(void)
{
	uint32		last = xids->nflushed + sim_draw(xids->ncommits - xids->nflushed + 1);

	for (uint32 i = 0; i < xids->n; i++)
		if (xids->xid[i].outcome == RUNNING || xids->xid[i].commit > last)
			xids->xid[i].outcome = ABORTED;
	transam_flush();
	xids->nlives++;
	xids->is_due = false;
}

TransactionId
transam_assign(TransactionId parent)
{
	if (xids->n == XIDS_MAX)
		sim_fail("simulator", "too many transactions");
	xids->xid[xids->n].parent = parent;
	return FirstNormalTransactionId + xids->n++;
}

#define OF(id)	xids->xid[(id) - FirstNormalTransactionId]

void
transam_end(TransactionId xid, bool commit)
{
	OF(xid).outcome = commit ? COMMITTED : ABORTED;
	if (commit && OF(xid).parent == InvalidTransactionId)
	{
		OF(xid).commit = ++xids->ncommits;
		transam_flush();
	}
}

void
transam_flush(void)
{
	xids->nflushed = xids->ncommits;
}

/* The WAL writer, in a copy whose process may have ended. */
static void
write_wal(void *arg, int64_t life)
{
	Xids	   *x = arg;

	if (!server_is_up() || x->nlives != life)
		return;
	x->nflushed = x->ncommits;
	x->is_due = false;
}

void
transam_commit_soon(TransactionId xid)
{
	OF(xid).outcome = COMMITTED;
	OF(xid).commit = ++xids->ncommits;
	if (!xids->is_due)
		sim_at(sim_now() + SIM_PICK(200 * SIM_MS, SIM_MS, 600 * SIM_MS), write_wal, xids,
			   xids->nlives);
	xids->is_due = true;
}

TransactionId
transam_top(TransactionId xid)
{
	while (OF(xid).parent != InvalidTransactionId)
		xid = OF(xid).parent;
	return xid;
}

/* It, and all around it. */
static bool
all_are_not(TransactionId xid, Outcome outcome)
{
	for (; xid != InvalidTransactionId; xid = OF(xid).parent)
		if (OF(xid).outcome == outcome)
			return false;
	return true;
}

bool
transam_is_running(TransactionId xid)
{
	return all_are_not(xid, ABORTED) && OF(transam_top(xid)).outcome == RUNNING;
}

bool
transam_did_commit(TransactionId xid)
{
	return all_are_not(xid, ABORTED) && OF(transam_top(xid)).outcome == COMMITTED;
}

uint32
transam_snapshot(void)
{
	return xids->ncommits;
}

bool
transam_is_seen(TransactionId xid, uint32 snapshot)
{
	return transam_did_commit(xid) && OF(transam_top(xid)).commit <= snapshot;
}
