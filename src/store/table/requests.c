/*-------------------------------------------------------------------------
 *
 * requests.c
 *	  Requests to the table worker in shared memory; see table_int.h.
 *
 * There is an array of requests, one for each backend process and the last one for
 * the watchdog, which has more operations than fit into the others.  The
 * state of a request is an atomic that says which process may change the rest of it.
 *
 * The worker goes through the requests in order, and the watchdog's is the last.  So if the
 * watchdog releases what an abandoned request may have taken, and the worker finds both in one
 * round, it carries out the abandoned request first.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/table/requests.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "storage/proc.h"
#include "storage/shmem.h"

#include "settings.h"
#include "store/stores.h"
#include "store/table/table_int.h"

/* The value of "worker" if there is none. */
#define NO_WORKER			0

/* The index of the watchdog's request; lower ones are proc numbers. */
#define WATCHDOG_REQUEST	MaxBackends

#define REQUESTS			(WATCHDOG_REQUEST + 1)

typedef struct Requests
{
	pg_atomic_uint32 worker;	/* its proc number + 1 */
	pg_atomic_uint32 epoch;
	TimestampTz clock_began;	/* the wall clock, less lr_now(), at the start */
	TableTrouble unconnected;
	TableTickets tickets;
	TableOp		more[REQUEST_ROOM_WATCHDOG - REQUEST_ROOM]; /* of the watchdog */
	TableRequest request[FLEXIBLE_ARRAY_MEMBER];
} Requests;

static Requests *requests = NULL;

/*
 * table_trouble_set --- see table_int.h
 */
void
table_trouble_set(TableTrouble *trouble, int sqlstate, const char *hint, const char *format,...)
{
	va_list		args;

	trouble->sqlstate = sqlstate;
	strlcpy(trouble->hint, hint, sizeof(trouble->hint));
	va_start(args, format);
	vsnprintf(trouble->detail, sizeof(trouble->detail), format, args);
	va_end(args);
}

/* ----------
 * Shared memory
 * ----------
 */

int
requests_max_ops(void)
{
	return MaxBackends * REQUEST_ROOM + REQUEST_ROOM_WATCHDOG;
}

/*
 * requests_shmem_size --- the shared memory that this file uses, in bytes
 */
Size
requests_shmem_size(void)
{
	return !lr_has_store(STORE_TABLE) ? 0 :
		add_size(offsetof(Requests, request), mul_size(REQUESTS, sizeof(TableRequest)));
}

/*
 * requests_shmem_init --- attach to the requests; the first process initializes them
 *
 * Called with AddinShmemInitLock held.
 */
void
requests_shmem_init(void)
{
	bool		found;

	if (!lr_has_store(STORE_TABLE))
		return;
	requests = ShmemInitStruct("lockredis table requests",
							   requests_shmem_size(), &found);
	if (found)
		return;

	memset(requests, 0, requests_shmem_size());
	pg_atomic_init_u32(&requests->worker, NO_WORKER);
	pg_atomic_init_u32(&requests->epoch, 0);
	requests->clock_began = GetCurrentTimestamp() - lr_now();
	for (int i = 0; i < REQUESTS; i++)
		pg_atomic_init_u32(&requests->request[i].state, REQUEST_FREE);
}

static TableOp *
op_in(TableRequest *request, int i)
{
	Assert(i < REQUEST_ROOM || request == &requests->request[WATCHDOG_REQUEST]);
	return i < REQUEST_ROOM ? &request->op[i] : &requests->more[i - REQUEST_ROOM];
}

RequestState
request_state(TableRequest *request)
{
	RequestState state = pg_atomic_read_u32(&request->state);

	/* The rest of the request was written before its state: read it after that. */
	pg_read_barrier();
	return state;
}

static bool
request_change_state(TableRequest *request, RequestState from, RequestState to)
{
	uint32		expected = from;

	return pg_atomic_compare_exchange_u32(&request->state, &expected, to);
}

/* ----------
 * For the process that asks
 * ----------
 */

bool
request_withdraw(TableRequest *request)
{
	return request_change_state(request, REQUEST_SUBMITTED, REQUEST_FREE) ||
		(!request_change_state(request, REQUEST_TAKEN, REQUEST_ABANDONED) &&
		 request_state(request) == REQUEST_FREE);
}

void
request_free(TableRequest *request)
{
	Assert(request_state(request) == REQUEST_DONE);
	pg_memory_barrier();
	pg_atomic_write_u32(&request->state, REQUEST_FREE);
}

void
request_drop(TableRequest *request)
{
	if (!request_withdraw(request) && request_state(request) == REQUEST_DONE)
		request_free(request);
}

/*
 * request_open --- the request of this process
 *
 * The process that had it before may have ended without freeing it.
 */
TableRequest *
request_open(bool watchdog)
{
	TableRequest *request =
		&requests->request[watchdog ? WATCHDOG_REQUEST : LrMyProcNumber];

	request_drop(request);
	return request;
}

/*
 * request_put_op --- copy an operation, with the texts that it points to, into the request
 */
void
request_put_op(TableRequest *request, int i, const StoreOp *op)
{
	TableOp    *out = op_in(request, i);

	Assert(op->name_len <= LR_NAME_MAX);
	out->op = *op;
	out->op.name = out->op.text = NULL;
	out->op.text_len = Min(op->text_len, LR_OWNER_MAX);
	if (op->name_len > 0)
		memcpy(out->name, op->name, op->name_len);
	if (out->op.text_len > 0)
		memcpy(out->text, op->text, out->op.text_len);
}

/*
 * request_get_answer --- copy the results of an operation, and return its outcome
 *
 * The caller sets op->outcome.  The worker does not set the type, as a table has rows only.
 */
StoreOutcome
request_get_answer(TableRequest *request, int i, StoreOp *op)
{
	const StoreOp *done = &op_in(request, i)->op;

	Assert(request_state(request) == REQUEST_DONE);
	op->answer = done->answer;
	strlcpy(op->answer.type_name, done->answer.value == STORE_VALUE_NONE ? "none" : "row",
			sizeof(op->answer.type_name));
	return done->outcome;
}

/*
 * request_submit --- let the worker take the request, and wake it
 *
 * The exchange is a full barrier: a worker that is not seen here will see the request when it
 * starts.
 */
void
request_submit(TableRequest *request)
{
	uint32		worker;

	Assert(request_state(request) == REQUEST_FREE);
	request->client = LrMyProcNumber;
	request->trouble.sqlstate = 0;
	(void) pg_atomic_exchange_u32(&request->state, REQUEST_SUBMITTED);
	worker = pg_atomic_read_u32(&requests->worker);
	if (worker != NO_WORKER)
		SetLatch(&GetPGProcByNumber(worker - 1)->procLatch);
}

bool
requests_have_worker(void)
{
	return pg_atomic_read_u32(&requests->worker) != NO_WORKER;
}

uint32
requests_epoch(void)
{
	return pg_atomic_read_u32(&requests->epoch);
}

/* ----------
 * For the worker
 * ----------
 */

TableTrouble *
requests_unconnected(void)
{
	return &requests->unconnected;
}

/*
 * requests_worker_enter --- this process is the worker from now on
 *
 * The last worker may or may not have committed the requests that it had taken.  So they are
 * answered as unknown, and are not carried out again.
 *
 * The exchange is a full barrier; see request_submit().
 */
void
requests_worker_enter(void)
{
	for (int i = 0; i < REQUESTS; i++)
	{
		TableRequest *request = &requests->request[i];
		RequestState state = request_state(request);

		if (state != REQUEST_TAKEN && state != REQUEST_ABANDONED)
			continue;
		for (int j = 0; j < request->nops; j++)
		{
			StoreOp    *op = &op_in(request, j)->op;

			op->outcome = STORE_UNKNOWN;
			memset(&op->answer, 0, sizeof(StoreAnswer));
		}
		request_answer(request);
	}
	requests_new_epoch();
	(void) pg_atomic_exchange_u32(&requests->worker, LrMyProcNumber + 1);
}

/*
 * requests_worker_leave --- from now on there is no worker
 */
void
requests_worker_leave(void)
{
	pg_atomic_write_u32(&requests->worker, NO_WORKER);
}

/*
 * requests_new_epoch --- note that a worker has started or has found the tables
 */
void
requests_new_epoch(void)
{
	(void) pg_atomic_fetch_add_u32(&requests->epoch, 1);
}

int
requests_take(TableJob *jobs)
{
	int			n = 0;

	for (int i = 0; i < REQUESTS; i++)
	{
		TableRequest *request = &requests->request[i];

		if (pg_atomic_read_u32(&request->state) != REQUEST_SUBMITTED ||
			!request_change_state(request, REQUEST_SUBMITTED, REQUEST_TAKEN))
			continue;
		for (int j = 0; j < request->nops; j++)
		{
			TableOp    *in = op_in(request, j);

			in->op.name = in->name;
			in->op.text = in->text;
			jobs[n++] = (TableJob) {request, &in->op};
		}
	}
	return n;
}

void
request_answer(TableRequest *request)
{
	int			client = request->client;

	pg_write_barrier();
	if (!request_change_state(request, REQUEST_TAKEN, REQUEST_DONE))
		(void) request_change_state(request, REQUEST_ABANDONED, REQUEST_FREE);

	/* Even if it was abandoned: its process may be waiting to submit another one. */
	SetLatch(&GetPGProcByNumber(client)->procLatch);
}

/*
 * requests_tickets --- the last requests that changed a count
 */
TableTickets *
requests_tickets(void)
{
	return &requests->tickets;
}

/*
 * requests_forget --- see table_int.h
 */
void
requests_forget(uint64 owner)
{
	for (int i = 0; i < TABLE_TICKETS; i++)
	{
		pg_atomic_uint64 *its = &requests->tickets.ticket[i].owner;
		uint64		same = owner;

		if (pg_atomic_read_u64(its) == owner)
			(void) pg_atomic_compare_exchange_u64(its, &same, 0);
	}
}

TimestampTz
requests_clock(void)
{
	return requests->clock_began + lr_now();
}
