/*-------------------------------------------------------------------------
 *
 * table_store.c
 *	  Locks in a table of this server: the store interface of store.h.
 *
 * A batch is handed to the table worker in pieces, through this process's
 * request in shared memory; the worker answers each when its transaction has
 * been committed.  One wake-up there, one back.
 *
 * What may have been carried out, and was not answered, ends as unknown; the
 * hold becomes an orphan then, as with any other store.  But there is no moment
 * up to which a create may still run, as there is with a network: a request
 * that has been withdrawn is never taken, and what is asked after one that had
 * been taken is carried out after it.  So not_after stays 0.
 *
 * There is no listener: a release by a session of this server wakes its local
 * waiters without the store.
 *
 * What another transaction blocks was not carried out, so whoever can wait asks for it
 * again, in rounds: the rest of the batch is not held up.  At the end of a transaction or
 * a session, and by the watchdog, it is asked once.
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

#include "instance.h"
#include "settings.h"
#include "store/batch.h"
#include "store/nodes.h"
#include "store/table/requests.h"
#include "wait_events.h"

/* Where the latch may not be used: look for the answer so often (us). */
#define POLL_MIN			50L
#define POLL_MAX			1000L

/* What is blocked: so long until the next round, at first and later (us). */
#define ROUND_MIN			(10 * LR_US_PER_MS)
#define ROUND_MAX			(100 * LR_US_PER_MS)

#define NOT_RUNNING			"The table worker is not running."

typedef struct TableHandle
{
	StoreBatch	batch;
	TableRequest *request;
	bool		patient;		/* watchdog: asks a silent worker too */
	bool		repeats;		/* asks again for what is blocked */
	int			asked;			/* so many operations are with the worker: */
	int		   *asked_ops;
	int64		asked_at;		/* since then */
	int			next;			/* of this round the first that was not asked */
	int64		pause;			/* before the next round, */
	int64		next_round;		/* which begins then; 0: this one has not ended */
	long		poll;			/* present interval of STORE_POLL */
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
	h->batch.error.hint = hint;
	if (h->patient)
		snprintf(h->batch.error.address, sizeof(h->batch.error.address),
				 "database \"%s\"", lr_database);
}

/*
 * table_fail --- nothing more will be asked or read: end the batch
 *
 * "unsent" is the outcome of what has not been carried out.
 */
static void
table_fail(TableHandle *h, StoreOutcome unsent, int sqlstate, const char *detail)
{
	table_set_error(h, sqlstate, detail, NULL);
	batch_give_up(&h->batch, unsent);
	batch_finish(&h->batch);
	h->asked = 0;
}

/*
 * read_answers --- the request is done: take what it says
 *
 * What was blocked has not run: it is as if it had not been asked.
 */
static void
read_answers(TableHandle *h)
{
	TableRequest *request = h->request;

	for (int i = 0; i < h->asked; i++)
	{
		StoreOp    *op = &h->batch.ops[h->asked_ops[i]];
		StoreOutcome outcome = request_get_answer(request, i, op);

		if (outcome == STORE_BLOCKED)
			batch_mark_unsent(op);
		if (outcome != STORE_BLOCKED || !h->repeats)
			batch_settle(&h->batch, op, outcome);
	}
	h->asked = 0;
	if (request->trouble.fault != TABLE_FAULT_NONE)
		table_set_error(h, request->trouble.sqlstate, request->trouble.detail,
						table_trouble_hint(request->trouble.fault));
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
	if (h->asked > 0)
	{
		if (request_withdraw(h->request))
		{
			for (int i = 0; i < h->asked; i++)
				batch_mark_unsent(&h->batch.ops[h->asked_ops[i]]);
		}
		else if (request_state(h->request) == REQUEST_DONE)
		{
			read_answers(h);
			if (!h->batch.active)
				return;
		}
	}
	table_fail(h, STORE_DOWN, ERRCODE_STORE_FAILED, detail);
}

/* ----------
 * Asking
 * ----------
 */

/*
 * begin_round --- all of the batch was asked, and what is left is blocked: is it time to
 * ask for that again?
 *
 * If there would be no time for the answer it remains blocked.
 */
static bool
begin_round(TableHandle *h)
{
	int64		now = lr_now();

	if (h->next_round == 0)
	{
		h->next_round = now + h->pause;
		h->pause = Min(h->pause * 2, ROUND_MAX);
		if (h->next_round > h->batch.deadline - lr_command_timeout * LR_US_PER_MS / 4)
		{
			batch_give_up(&h->batch, STORE_BLOCKED);
			batch_finish(&h->batch);
			return false;
		}
	}
	if (now < h->next_round)
		return false;
	h->next = 0;
	h->next_round = 0;
	return true;
}

/*
 * put_op --- that operation into the request, unless it has its outcome
 */
static void
put_op(TableHandle *h, int i)
{
	StoreOp    *op = &h->batch.ops[i];

	if (op->outcome != STORE_PENDING)
		return;
	request_put_op(h->request, h->asked, op);
	op->sent_at = h->asked_at;
	h->asked_ops[h->asked++] = i;
}

/*
 * submit_next --- hand the next piece over, unless an abandoned one is still
 * with the worker
 */
static void
submit_next(TableHandle *h)
{
	TableRequest *request = h->request;

	if (request_state(request) != REQUEST_FREE)
		return;
	h->asked_at = lr_now();
	while (h->asked == 0)
	{
		if (h->next == h->batch.nops && !begin_round(h))
			return;
		for (; h->asked < request->room && h->next < h->batch.nops; h->next++)
			put_op(h, h->next);
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
 * table_check_time --- has the worker had its time?
 *
 * If it had all of command_timeout, nobody else needs to wait as long: they
 * leave it to the watchdog.
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
 * table_wait_latch --- the worker sets it when it has answered, even an
 * abandoned one
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
 * table_wait_poll --- without the latch
 *
 * At the end of a session or transaction nobody waits for a worker that is
 * not there: the watchdog gives back what is left when it is.
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
 * Asking again, when the piece before is done or an abandoned request has been
 * answered, is part of it.
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
table_open_handle(const char *role)
{
	TableHandle *h = MemoryContextAllocZero(TopMemoryContext, sizeof(TableHandle));

	/* What may raise on first use must not do so later. */
	(void) LR_WAIT_REPLY;

	h->patient = strcmp(role, "watchdog") == 0;
	h->request = request_open(h->patient);
	h->asked_ops = MemoryContextAlloc(TopMemoryContext,
									  sizeof(int) * h->request->room);
	return (StoreHandle *) h;
}

/*
 * table_forget_batch --- drop a batch that a longjmp has left
 */
static void
table_forget_batch(TableHandle *h)
{
	if (h->batch.active && h->asked > 0 && !request_withdraw(h->request) &&
		request_state(h->request) == REQUEST_DONE)
		request_free(h->request);
	h->asked = 0;
	batch_forget(&h->batch);
}

static void
table_abandon(StoreHandle *handle)
{
	TableHandle *h = (TableHandle *) handle;

	if (h->batch.active)
		take_back(h, "The request was given up before it was answered.");
}

/*
 * table_start --- begin a batch, unless it is known to be in vain
 */
static void
table_start(StoreHandle *handle, StoreOp *ops, int nops, int64 deadline)
{
	TableHandle *h = (TableHandle *) handle;

	table_forget_batch(h);
	batch_start(&h->batch, ops, nops, deadline);
	if (!h->batch.active)
		return;

	h->poll = POLL_MIN;
	h->next = 0;
	h->next_round = 0;
	h->pause = ROUND_MIN;
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

static int
table_interests(StoreHandle *handle, StoreInterest *out, int64 *until,
				uint32 *epoch)
{
	TableHandle *h = (TableHandle *) handle;

	*epoch = requests_epoch();
	*until = h->batch.active ? h->batch.deadline : LR_NEVER;
	return 0;
}

static void
table_reserve(StoreHandle *handle, int n)
{
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
	.role = ROLE_TABLE,
	.shmem_size = requests_shmem_size,
	.shmem_init = requests_shmem_init,
	.open = table_open_handle,
	.start = table_start,
	.step = table_step,
	.abandon = table_abandon,
	.interests = table_interests,
	.reserve = table_reserve,
	.error = table_error,
	.connected = table_connected,
	.disconnect = table_abandon,
};
