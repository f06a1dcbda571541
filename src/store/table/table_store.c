/*-------------------------------------------------------------------------
 *
 * table_store.c
 *	  Locks in a table of this server: the store interface of store.h.
 *
 * A batch is submitted to the table worker in pieces, through this process's
 * request in shared memory.  The worker answers each piece when its transaction has
 * been committed.  Each piece costs one wake-up of the worker, and one of this process.
 *
 * An operation that may have been carried out, but was not answered, ends as unknown, and its
 * hold becomes an orphan, as with any other store.  But a create cannot run late, as it
 * can with a network: the worker never takes a request that was withdrawn, and carries out one
 * that it has taken before any that is submitted later.  So not_after stays 0.
 *
 * There is no listener: a session that releases a lock wakes the waiters of this server
 * without the store.
 *
 * An operation that another transaction blocks was not carried out.  A process that can wait
 * submits it again, in rounds, so the rest of the batch is not delayed.  The watchdog, and a
 * session at the end of a transaction or its own end, submit it only once.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/table/table_store.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "access/xlog.h"
#include "storage/ipc.h"
#include "utils/memutils.h"

#include "names.h"
#include "settings.h"
#include "stats.h"
#include "store/nodes.h"
#include "store/table/table_int.h"

/* How often to look for the answer where the latch may not be used (us). */
#define POLL_MIN			50L
#define POLL_MAX			1000L

/* How long to wait between rounds for blocked operations (us). */
#define ROUND_PAUSE			(50 * LR_US_PER_MS)

#define NOT_RUNNING			"The table worker is not running."

typedef struct TableHandle
{
	StoreBatch	batch;
	TableRequest *request;
	bool		patient;		/* the watchdog's: submits even to a silent worker */
	bool		repeats;		/* submits blocked operations again */
	int			asked;			/* number of operations submitted to the worker, */
	int			first;			/* the first of them in the batch, */
	int64		asked_at;		/* and when they were submitted */
	int			next;			/* the first operation not yet submitted in this
								 * round */
	int64		next_round;		/* when that begins; 0: this one has not ended */
	long		poll;			/* current interval of STORE_POLL */
} TableHandle;

/* ----------
 * Outcomes
 * ----------
 */

static void
table_set_error(TableHandle *h, int sqlstate, const char *detail,
				const char *hint)
{
	batch_set_error(&h->batch, sqlstate, detail);
	h->batch.error.hint = hint[0] != '\0' ? hint : NULL;
	if (h->patient)
		snprintf(h->batch.error.address, sizeof(h->batch.error.address),
				 "database \"%s\"", lr_database);
}

/*
 * table_fail --- end the batch without submitting or reading anything more
 *
 * "unsent" is the outcome of operations that have not been carried out.
 */
static void
table_fail(TableHandle *h, StoreOutcome unsent, int sqlstate, const char *detail)
{
	table_set_error(h, sqlstate, detail, "");
	batch_give_up(&h->batch, unsent);
	batch_finish(&h->batch);
	h->asked = 0;
}

/*
 * read_answers --- read the answers of a request that is done
 *
 * A blocked operation has not run, so it counts as not submitted.
 */
static void
read_answers(TableHandle *h)
{
	TableRequest *request = h->request;

	for (int i = h->first, n = 0; i < h->next; i++)
	{
		StoreOp    *op = &h->batch.ops[i];
		StoreOutcome outcome;

		if (op->outcome != STORE_PENDING || op->sent.at == 0)
			continue;
		outcome = request_get_answer(request, n++, op);
		if (outcome == STORE_BLOCKED)
			batch_mark_unsent(op);
		if (outcome != STORE_BLOCKED || !h->repeats)
			batch_settle(&h->batch, op, outcome);
	}
	h->asked = 0;
	if (request->trouble.sqlstate != 0)
		table_set_error(h, request->trouble.sqlstate, request->trouble.detail,
						request->trouble.hint);
	request_free(request);
	if (!h->patient && node_is_silent(NODE_TABLE))
		node_set_silent(NODE_TABLE, false);
	batch_finish(&h->batch);
}

/*
 * take_back --- end the batch without waiting any longer
 */
static void
take_back(TableHandle *h, const char *detail)
{
	if (h->asked > 0 && request_withdraw(h->request))
	{
		for (int i = h->first; i < h->next; i++)
			if (h->batch.ops[i].outcome == STORE_PENDING)
				batch_mark_unsent(&h->batch.ops[i]);
	}
	else if (h->asked > 0 && request_state(h->request) == REQUEST_DONE)
	{
		read_answers(h);
		if (!h->batch.active)
			return;
	}
	table_fail(h, STORE_DOWN, ERRCODE_STORE_FAILED, detail);
}

/* ----------
 * Asking
 * ----------
 */

/*
 * begin_round --- is it time to submit the blocked operations again?
 *
 * All others of the batch have been answered.  If the time would not suffice for an answer, the
 * batch ends with these operations blocked.
 */
static bool
begin_round(TableHandle *h)
{
	int64		now = lr_now();

	if (h->next_round == 0)
		h->next_round = now + ROUND_PAUSE;
	if (h->next_round > h->batch.deadline - lr_command_timeout * LR_US_PER_MS / 4)
	{
		batch_give_up(&h->batch, STORE_BLOCKED);
		batch_finish(&h->batch);
	}
	if (!h->batch.active || now < h->next_round)
		return false;
	h->next = 0;
	h->next_round = 0;
	return true;
}

/*
 * submit_next --- submit the next piece, unless the worker still has an abandoned one
 */
static void
submit_next(TableHandle *h)
{
	TableRequest *request = h->request;
	int			room = h->patient ? REQUEST_ROOM_WATCHDOG : REQUEST_ROOM;

	if (request_state(request) != REQUEST_FREE)
		return;
	h->asked_at = lr_now();
	while (h->asked == 0)
	{
		if (h->next == h->batch.nops && !begin_round(h))
			return;
		for (h->first = h->next; h->asked < room && h->next < h->batch.nops; h->next++)
		{
			StoreOp    *op = &h->batch.ops[h->next];

			if (op->outcome != STORE_PENDING)
				continue;
			op->sent.at = h->asked_at;
			request_put_op(request, h->asked++, op);
		}
	}
	request->nops = h->asked;
	request_submit(request);
}

/*
 * table_proceed --- do all that can be done without waiting
 */
static void
table_proceed(TableHandle *h)
{
	while (h->batch.active)
	{
		if (h->asked == 0)
			submit_next(h);
		if (h->asked == 0 || request_state(h->request) != REQUEST_DONE)
			return;
		read_answers(h);
	}
}

/*
 * table_check_time --- end the batch if its time is over
 *
 * If the worker has not answered for all of command_timeout, other sessions need not wait for
 * it as well: until it answers again only the watchdog submits requests.
 */
static void
table_check_time(TableHandle *h)
{
	int64		now;

	if (!h->batch.active)
		return;
	now = lr_now();
	if (now < h->batch.deadline)
		return;
	if (h->asked > 0 &&
		now - h->asked_at >= lr_command_timeout * LR_US_PER_MS)
		node_set_silent(NODE_TABLE, true);
	take_back(h, requests_have_worker() ?
			  "The table worker did not answer in time." : NOT_RUNNING);
}

/*
 * table_wait_latch --- wait for our latch
 *
 * The worker sets it when it has answered our request, even an abandoned one.
 */
static void
table_wait_latch(TableHandle *h)
{
	int64		until = h->next_round != 0 ? h->next_round : h->batch.deadline;

	(void) WaitLatch(MyLatch,
					 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					 lr_ms_until(until, lr_now()), LR_WAIT_REPLY);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
}

/*
 * table_wait_poll --- wait for a moment without the latch
 *
 * At the end of a session or transaction this does not wait for a missing worker: the
 * watchdog releases the locks when there is one again.
 */
static void
table_wait_poll(TableHandle *h)
{
	if (!requests_have_worker())
	{
		take_back(h, NOT_RUNNING);
		return;
	}
	pgstat_report_wait_start(LR_WAIT_REPLY);
	pg_usleep(h->poll);
	pgstat_report_wait_end();
	h->poll = Min(h->poll + h->poll / 4, POLL_MAX);
}

/*
 * table_step --- see store.h
 *
 * A step also submits the next piece, once the one before or an abandoned request has been
 * answered.
 */
static bool
table_step(StoreHandle *handle, StoreStep how)
{
	TableHandle *h = (TableHandle *) handle;

	h->repeats = how == STORE_WAIT;
	for (;;)
	{
		table_proceed(h);
		table_check_time(h);
		if (!h->batch.active)
			return true;
		switch (how)
		{
			case STORE_NOWAIT:
				return false;
			case STORE_WAIT:
				table_wait_latch(h);
				break;
			case STORE_POLL:
				table_wait_poll(h);
				break;
		}
	}
}

/* ----------
 * The interface
 * ----------
 */

static StoreHandle *
table_open_handle(const char *role, int part)
{
	TableHandle *h = MemoryContextAllocZero(TopMemoryContext, sizeof(TableHandle));

	/* The first use of a wait event may raise an error, which must not happen later. */
	(void) LR_WAIT_REPLY;

	h->patient = strcmp(role, "watchdog") == 0;
	h->request = request_open(h->patient);
	return (StoreHandle *) h;
}

static void
table_abandon(StoreHandle *handle)
{
	TableHandle *h = (TableHandle *) handle;

	if (h->batch.active)
		take_back(h, "The request was given up before it was answered.");
}

/*
 * table_start --- begin a batch, unless it is certain to fail
 *
 * An error may have interrupted the last one.
 */
static void
table_start(StoreHandle *handle, StoreOp *ops, int nops, int64 deadline)
{
	TableHandle *h = (TableHandle *) handle;

	if (h->asked > 0)
		request_drop(h->request);
	batch_start(&h->batch, ops, nops, deadline);
	if (!h->batch.active)
		return;

	h->poll = POLL_MIN;
	h->asked = 0;
	h->next = 0;
	h->next_round = 0;
	if (RecoveryInProgress())
		table_fail(h, STORE_REFUSED, ERRCODE_READ_ONLY_SQL_TRANSACTION,
				   "This server is a standby: it cannot write the table of locks.");
	else if (!h->patient && node_is_silent(NODE_TABLE) && lr_watchdog_running())
		table_fail(h, STORE_DOWN, ERRCODE_STORE_FAILED,
				   "The table worker did not answer lately; it is tried again in the background.");
	else if (lr_now() >= deadline)
		table_fail(h, STORE_DOWN, ERRCODE_STORE_FAILED,
				   "There was no time left to ask the table worker.");
	else
		submit_next(h);
}

static void
table_interests(StoreHandle *handle, StoreInterests *in)
{
	TableHandle *h = (TableHandle *) handle;

	if (h->batch.active)
		store_wait_until(in, h->batch.deadline);
}

/*
 * table_connections --- see store.h; a worker counts as a connection
 */
static uint32
table_connections(StoreHandle *handle)
{
	return requests_epoch();
}

static void
table_forget(StoreHandle *handle, const StoreOp *op)
{
	requests_forget(op->owner);
}

static const StoreError *
table_error(StoreHandle *handle)
{
	return &((TableHandle *) handle)->batch.error;
}

static bool
table_connected(StoreHandle *handle)
{
	return requests_have_worker();
}

const StoreRoutine table_store = {
	.name = "table",
	.features = STORE_HAS_FENCE | STORE_SERVER_ONLY | STORE_HAS_DIGESTS,
	.node = NODE_TABLE,
	.open = table_open_handle,
	.start = table_start,
	.step = table_step,
	.abandon = table_abandon,
	.interests = table_interests,
	.forget = table_forget,
	.error = table_error,
	.connected = table_connected,
	.connections = table_connections,
	.disconnect = table_abandon,
};
