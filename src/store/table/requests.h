/*-------------------------------------------------------------------------
 *
 * requests.h
 *	  Requests of sessions and the watchdog to the table worker, and its answers.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/table/requests.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_REQUESTS_H
#define LR_REQUESTS_H

#include "lockredis.h"

#include "port/atomics.h"

#include "store/store.h"

/*
 * Why the table worker could not carry out an operation.  Plain data in shared memory: the
 * worker writes it, and the process that submitted the request reads it.
 */
typedef enum TableFault
{
	TABLE_FAULT_NONE,
	TABLE_NO_DATABASE,
	TABLE_NO_EXTENSION,
	TABLE_WRONG_FORM,			/* of the tables, or the wrong encoding */
	TABLE_OLD_EXTENSION,		/* a version without the table in question */
	TABLE_BLOCKED,				/* by an open transaction */
	TABLE_ERROR					/* any other error that PostgreSQL has raised */
} TableFault;

typedef struct TableTrouble
{
	TableFault	fault;			/* TABLE_FAULT_NONE: none */
	int			sqlstate;
	char		detail[256];
} TableTrouble;

/*
 * Set the fault, its SQLSTATE and its detail.  With TABLE_ERROR the SQLSTATE is that of an
 * internal error, unless the caller sets another one afterwards.
 */
extern void table_trouble_set(TableTrouble *trouble, TableFault fault,
							  const char *format,...) pg_attribute_printf(3, 4);

/* The hint that goes with a fault: static text, or NULL. */
extern const char *table_trouble_hint(TableFault fault);

/* ----------
 * requests.c: Requests of sessions and the watchdog to the table worker, and its answers.
 *
 * Each process has one request in shared memory: plain data, no pointers.  The
 * process fills it and submits it; the worker takes it, carries it out and
 * answers it.  The state alone decides which process may do what:
 *
 * 	 FREE --submit--> SUBMITTED --take--> TAKEN --answer--> DONE --free--> FREE
 * 						  |                 |
 * 						  +--withdraw       +--withdraw--> ABANDONED
 * 						  |  (never ran)	   (may have run)	|
 * 						  v                                     |
 * 						 FREE <-----------answer----------------+
 *
 * A request that is withdrawn before the worker takes it never runs.  The worker
 * carries out one batch of requests after the other, so a request that is submitted
 * after an abandoned one is carried out after it.
 *
 * Nothing in here waits or raises an error, and only a starting worker allocates
 * memory.
 * ----------
 */

/* The operations that fit into one request; larger batches are submitted in pieces. */
#define REQUEST_ROOM			4
#define REQUEST_ROOM_WATCHDOG	256

typedef enum RequestState
{
	REQUEST_FREE,
	REQUEST_SUBMITTED,
	REQUEST_TAKEN,
	REQUEST_DONE,
	REQUEST_ABANDONED
} RequestState;

/* An operation in shared memory, with the texts that it points to elsewhere. */
typedef struct TableOp
{
	StoreOp		op;				/* its pointers are NULL */
	int			text_len;
	char		name[LR_NAME_MAX];
	char		text[LR_OWNER_MAX]; /* owner_text, or the digest of a token */
} TableOp;

typedef struct TableRequest
{
	pg_atomic_uint32 state;		/* RequestState */
	int			client;			/* proc number of the process to wake */
	int			first_op;		/* index of its first operation in the pool */
	int			room;
	int			nops;

	TableTrouble trouble;		/* of the last operation that had any */
} TableRequest;

/*
 * The requests that have changed a count, and the transactions that did it; used by
 * table_counts.c alone.
 */
#define TABLE_TICKETS		8192

typedef struct TableTicket
{
	uint64		owner;			/* 0 = none */
	TransactionId done_by;
	TransactionId undone_by;
} TableTicket;

typedef struct TableTickets
{
	uint32		next;
	TableTicket ticket[TABLE_TICKETS];
} TableTickets;

extern Size requests_shmem_size(void);
extern void requests_shmem_init(void);

/* ---- for the process that submits a request ---- */

/* The request of this process: free, or still abandoned. */
extern TableRequest *request_open(bool watchdog);
extern RequestState request_state(TableRequest *request);

/* Write operation i of a free request; the caller sets nops. */
extern void request_put_op(TableRequest *request, int i, const StoreOp *op);
extern void request_submit(TableRequest *request);

/*
 * Withdraw the request.  True: it never ran.  False: it may have run, and if its state is
 * REQUEST_DONE now, it has.
 */
extern bool request_withdraw(TableRequest *request);

/* Copy the results of operation i of a request that is DONE, and return its outcome. */
extern StoreOutcome request_get_answer(TableRequest *request, int i, StoreOp *op);

/* Called when the answers have been read. */
extern void request_free(TableRequest *request);

/* Is there a worker that takes requests? */
extern bool requests_have_worker(void);

/* A number that changes when a worker starts, and when it finds the tables (again). */
extern uint32 requests_epoch(void);

/* ---- for the worker ---- */

/* The most operations that all requests together can have. */
extern int	requests_max_ops(void);

extern void requests_worker_enter(void);
extern void requests_worker_leave(void);
extern void requests_new_epoch(void);

/*
 * Note whether the worker is connecting to its database.  Returns what was noted before: true
 * at the start of a worker says that the last one ended while it was connecting.
 */
extern bool requests_set_connecting(bool connecting);

/* Has a request been submitted since the last call? */
extern bool requests_wanted(void);

/* Take all requests that were submitted.  The array is valid until the next call. */
extern TableRequest **requests_take(int *n);

extern TableTickets *requests_tickets(void);

/*
 * Read operation i of a request that was taken, whose texts stay in the request; store its
 * results.
 */
extern void request_take_op(TableRequest *request, int i, StoreOp *op);
extern void request_put_results(TableRequest *request, int i, const StoreOp *op);

/* Called when all its operations have outcomes: wakes the process that submitted it. */
extern void request_answer(TableRequest *request);

#endif							/* LR_REQUESTS_H */
