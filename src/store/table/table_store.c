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
 * There is no listener.  A release by a session of this server wakes its local
 * waiters without the store, and all other users of the table are programs
 * that tell nobody.
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

#include "locktable/locktable.h"
#include "store/node.h"
#include "settings.h"
#include "store/table/requests.h"
#include "wait_events.h"

/* Where the latch may not be used: look for the answer so often (us). */
#define POLL_MIN			50L
#define POLL_MAX			1000L

struct StoreHandle
{
	TableRequest *request;
	bool		patient;		/* watchdog: asks a silent worker too */

	/* The batch. */
	bool		active;
	StoreOp    *ops;
	int			nops;
	int			done;			/* so many have outcomes, */
	int			asked;			/* and so many more are with the worker */
	int64		deadline;
	long		poll;			/* present interval of STORE_POLL */

	StoreError	error;
};

/* ----------
 * Outcomes
 * ----------
 */

static void
finish(StoreHandle *h)
{
	h->active = false;
	h->asked = 0;
	h->ops = NULL;
	h->nops = 0;
}

static void
set_error(StoreHandle *h, int sqlstate, const char *detail, const char *hint)
{
	memset(&h->error, 0, sizeof(h->error));
	h->error.sqlstate = sqlstate;
	strlcpy(h->error.detail, detail, sizeof(h->error.detail));
	h->error.hint = hint;
	if (h->patient)
		snprintf(h->error.address, sizeof(h->error.address), "database \"%s\"",
				 lr_database);
}

/*
 * settle_rest --- nothing more will be asked or read
 */
static void
settle_rest(StoreHandle *h, StoreOutcome asked, StoreOutcome unasked)
{
	for (int i = h->done; i < h->nops; i++)
	{
		StoreOp    *op = &h->ops[i];
		bool		was_asked = i < h->done + h->asked;

		op->outcome = was_asked ? asked : unasked;
		if (op->outcome == STORE_DOWN || op->outcome == STORE_REFUSED)
			op->sent_at = 0;
	}
	finish(h);
}

static const char *
fault_hint(TableFault fault)
{
	switch (fault)
	{
		case TABLE_NO_DATABASE:
			return gettext_noop("Create the database, and the extension in it, or set \"lockredis.database\" to another one.");
		case TABLE_NO_EXTENSION:
			return gettext_noop("Run CREATE EXTENSION lockredis in the database that \"lockredis.database\" names.");
		case TABLE_WRONG_FORM:
			return gettext_noop("Set \"lockredis.database\" to a database with encoding UTF8 and the extension as its script makes it.");
		case TABLE_BLOCKED:
			return gettext_noop("Look for transactions that were left open in the database that \"lockredis.database\" names.");
		default:
			return NULL;
	}
}

static void
copy_answer(StoreOp *op, const TableOp *answer)
{
	op->outcome = answer->outcome;
	op->store_ms = answer->store_ms;
	op->ttl_ms = answer->ttl_ms;
	op->fence = answer->fence;
	op->hold_count = answer->hold_count;
	op->value = answer->value;
	strlcpy(op->type_name, answer->value == STORE_VALUE_NONE ? "none" : "row",
			sizeof(op->type_name));
	if (op->kind != STORE_FORCE)
		strlcpy(op->holder, answer->holder, sizeof(op->holder));
}

/*
 * read_answer --- the request is done: take what it says
 */
static void
read_answer(StoreHandle *h)
{
	TableRequest *request = h->request;

	for (int i = 0; i < h->asked; i++)
		copy_answer(&h->ops[h->done + i], request_op(request, i));
	if (request->fault != TABLE_FAULT_NONE)
		set_error(h, request->sqlstate, request->detail, fault_hint(request->fault));
	request_free(request);
	h->done += h->asked;
	h->asked = 0;
	if (!h->patient && node_is_silent(NODE_TABLE))
		node_set_silent(NODE_TABLE, false);
	if (h->done == h->nops)
		finish(h);
}

/*
 * take_back --- end the batch without waiting any longer
 */
static void
take_back(StoreHandle *h, int sqlstate, const char *detail)
{
	bool		never_ran = true;

	if (h->asked > 0)
	{
		never_ran = request_withdraw(h->request);
		if (!never_ran && request_state(h->request) == REQUEST_DONE)
		{
			read_answer(h);
			if (!h->active)
				return;
		}
	}
	set_error(h, sqlstate, detail, NULL);
	settle_rest(h, never_ran ? STORE_DOWN : STORE_UNKNOWN, STORE_DOWN);
}

/* ----------
 * Asking
 * ----------
 */

static void
fill(TableOp *out, const StoreOp *op)
{
	/* All but the texts, of which only so much as is there. */
	memset(out, 0, offsetof(TableOp, name));
	out->kind = op->kind;
	out->owner = op->owner;
	out->lease_ms = op->lease_ms;
	out->keep_ms = op->keep_ms;
	out->count = op->count;
	out->fenced = op->fenced;
	out->floor = op->floor;
	out->name_len = op->name_len;
	if (op->name_len > 0)
		memcpy(out->name, op->name, op->name_len);
	if (op->kind == STORE_FORCE)
	{
		out->owner_text_len = Min(op->owner_text_len, LR_OWNER_MAX - 1);
		memcpy(out->holder, op->owner_text, out->owner_text_len);
	}
}

/*
 * ask --- hand the next piece over, unless an abandoned one is still with the
 * worker
 */
static void
ask(StoreHandle *h)
{
	TableRequest *request = h->request;
	int64		now = lr_now();
	int			n = Min(request->room, h->nops - h->done);

	if (request_state(request) != REQUEST_FREE)
		return;
	for (int i = 0; i < n; i++)
	{
		fill(request_op(request, i), &h->ops[h->done + i]);
		h->ops[h->done + i].sent_at = now;
	}
	request->nops = n;
	h->asked = n;
	h->poll = POLL_MIN;
	request_submit(request);
}

/*
 * proceed --- do all that can be done without waiting
 */
static void
proceed(StoreHandle *h)
{
	while (h->active)
	{
		if (h->asked == 0)
			ask(h);
		if (h->asked == 0 || request_state(h->request) != REQUEST_DONE)
			return;
		read_answer(h);
	}
}

/*
 * check_time --- has the worker had its time?
 *
 * If it had all of command_timeout, nobody else needs to wait as long: they
 * leave it to the watchdog.
 */
static void
check_time(StoreHandle *h)
{
	if (!h->active || lr_now() < h->deadline)
		return;
	if (h->asked > 0 &&
		lr_now() - h->ops[h->done].sent_at >= lr_command_timeout * LR_US_PER_MS)
		node_set_silent(NODE_TABLE, true);
	take_back(h, ERRCODE_CONNECTION_FAILURE,
			  table_worker_running() ?
			  "The table worker did not answer in time." :
			  "The table worker is not running.");
}

/*
 * wait_latch --- the worker sets it when it has answered, even an abandoned one
 */
static void
wait_latch(StoreHandle *h)
{
	(void) WaitLatch(MyLatch,
					 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					 lr_ms_until(h->deadline, lr_now()), LR_WAIT_REPLY);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
}

/*
 * wait_poll --- without the latch
 *
 * At the end of a session or transaction nobody waits for a worker that is
 * not there: the watchdog gives back what is left when it is.
 */
static void
wait_poll(StoreHandle *h)
{
	if (!table_worker_running())
	{
		take_back(h, ERRCODE_CONNECTION_FAILURE,
				  "The table worker is not running.");
		return;
	}
	pgstat_report_wait_start(LR_WAIT_REPLY);
	pg_usleep(h->poll);
	pgstat_report_wait_end();
	h->poll = Min(h->poll + h->poll / 4, POLL_MAX);
}

static bool
table_step(StoreHandle *h, StoreStep how)
{
	for (;;)
	{
		proceed(h);
		check_time(h);
		if (!h->active)
			return true;
		switch (how)
		{
			case STORE_NOWAIT:
				return false;
			case STORE_WAIT:
				wait_latch(h);
				break;
			case STORE_POLL:
				wait_poll(h);
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
	StoreHandle *h = MemoryContextAllocZero(TopMemoryContext, sizeof(StoreHandle));

	/* What may raise on first use must not do so later. */
	(void) LR_WAIT_REPLY;

	h->patient = strcmp(role, "watchdog") == 0;
	h->request = request_open(h->patient);
	return h;
}

/*
 * forget_batch --- drop a batch without touching its operations
 *
 * For those that were left by a longjmp: their memory may be gone.
 */
static void
forget_batch(StoreHandle *h)
{
	if (h->active && h->asked > 0 && !request_withdraw(h->request) &&
		request_state(h->request) == REQUEST_DONE)
		request_free(h->request);
	finish(h);
}

static void
table_abandon(StoreHandle *h)
{
	if (h->active)
		take_back(h, ERRCODE_CONNECTION_FAILURE,
				  "The request was given up before it was answered.");
}

/*
 * refuse_batch --- fail it before anything is tried
 */
static void
refuse_batch(StoreHandle *h, StoreOutcome outcome, int sqlstate,
			 const char *detail)
{
	set_error(h, sqlstate, detail, NULL);
	settle_rest(h, outcome, outcome);
}

static void
table_start(StoreHandle *h, StoreOp *ops, int nops, int64 deadline)
{
	forget_batch(h);

	h->ops = ops;
	h->nops = nops;
	h->done = h->asked = 0;
	h->deadline = deadline;
	h->poll = POLL_MIN;
	h->error.sqlstate = 0;
	h->error.detail[0] = '\0';
	h->error.hint = NULL;
	h->active = nops > 0;
	for (int i = 0; i < nops; i++)
	{
		ops[i].outcome = STORE_PENDING;
		ops[i].sent_at = 0;
		ops[i].not_after = 0;
		ops[i].own_fault = false;
	}
	if (!h->active)
		return;

	if (RecoveryInProgress())
		refuse_batch(h, STORE_REFUSED, ERRCODE_READ_ONLY_SQL_TRANSACTION,
					 "This server is a standby: it cannot write the table of locks.");
	else if (!h->patient && node_is_silent(NODE_TABLE) && lr_watchdog_running())
		refuse_batch(h, STORE_DOWN, ERRCODE_CONNECTION_FAILURE,
					 "The table worker did not answer lately; it is tried again in the background.");
	else if (lr_now() >= deadline)
		refuse_batch(h, STORE_DOWN, ERRCODE_CONNECTION_FAILURE,
					 "There was no time left to ask the table worker.");
	else
		proceed(h);
}

static int
table_interests(StoreHandle *h, StoreInterest *out, int64 *until, uint32 *epoch)
{
	*epoch = table_epoch();
	*until = h->active ? h->deadline : LR_NEVER;
	return 0;
}

static void
table_reserve(StoreHandle *h, int n)
{
}

static const StoreError *
table_error(StoreHandle *h)
{
	return &h->error;
}

static bool
table_connected(StoreHandle *h)
{
	return table_worker_running();
}

const StoreRoutine table_store = {
	.name = "table",
	.features = STORE_HAS_FENCE | STORE_SERVER_ONLY,
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
