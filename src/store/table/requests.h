/*-------------------------------------------------------------------------
 *
 * requests.h
 *	  What sessions and the watchdog ask of the table worker, and its answers.
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
 * Why the table worker could not do what was asked.  Plain data: it is written by the
 * worker and read by who asked, through shared memory.
 */
typedef enum TableFault
{
	TABLE_FAULT_NONE,
	TABLE_NO_DATABASE,
	TABLE_NO_EXTENSION,
	TABLE_WRONG_FORM,			/* the tables or the encoding */
	TABLE_OLD_EXTENSION,		/* a table is not there yet */
	TABLE_BLOCKED,				/* by somebody's open transaction */
	TABLE_ERROR					/* an error of PostgreSQL's own */
} TableFault;

typedef struct TableTrouble
{
	TableFault	fault;			/* TABLE_FAULT_NONE: none */
	int			sqlstate;
	char		detail[256];
} TableTrouble;

/*
 * The SQLSTATE follows from the fault; that of TABLE_ERROR is an internal error
 * unless the caller knows better.
 */
extern void table_trouble_set(TableTrouble *trouble, TableFault fault,
							  const char *format,...) pg_attribute_printf(3, 4);

/* What to do about it: static text, or NULL. */
extern const char *table_trouble_hint(TableFault fault);

/* ----------
 * requests.c: What sessions and the watchdog ask of the table worker, and its answers.
 *
 * One request a process, in shared memory: plain data, no pointers.  The
 * process fills it and submits it, the worker takes it, carries it out and
 * answers it.  Who may do what is decided by the state alone:
 *
 * 	 FREE --submit--> SUBMITTED --take--> TAKEN --answer--> DONE --free--> FREE
 * 						  |                 |
 * 						  +--withdraw       +--withdraw--> ABANDONED
 * 						  |  (never ran)	   (may have run)	|
 * 						  v                                     |
 * 						 FREE <-----------answer----------------+
 *
 * A request that was withdrawn before it was taken surely never runs.  The
 * worker runs requests one batch after the other, so whatever is submitted
 * after an abandoned one is carried out after it.
 *
 * Nothing in here waits or raises, and nothing allocates but a worker that
 * starts.
 * ----------
 */

/* Operations in one request; larger batches go in pieces. */
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

/* An operation on its way to the worker and back: what it points to stands beside it. */
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
	int			client;			/* proc number, to be woken */
	int			first_op;		/* its operations in the pool */
	int			room;
	int			nops;

	TableTrouble trouble;		/* the last that one of its operations met */
} TableRequest;

/*
 * Requests that have been counted, and by which transactions; see table_counts.c,
 * whose they are.
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

/* ---- for the process that asks ---- */

/* The request of this process, free or still abandoned. */
extern TableRequest *request_open(bool watchdog);
extern RequestState request_state(TableRequest *request);

/* Write operation i of a free request; the caller sets nops. */
extern void request_put_op(TableRequest *request, int i, const StoreOp *op);
extern void request_submit(TableRequest *request);

/*
 * Do not want it any more.  True: it never ran.  False: it may have (or, if
 * its state is REQUEST_DONE now, it has).
 */
extern bool request_withdraw(TableRequest *request);

/* What became of operation i of a request that is DONE; the outcome. */
extern StoreOutcome request_get_answer(TableRequest *request, int i, StoreOp *op);

/* The answers have been read. */
extern void request_free(TableRequest *request);

/* Is there a worker that takes requests? */
extern bool requests_have_worker(void);

/* Changes when the worker starts or finds the tables (again). */
extern uint32 requests_epoch(void);

/* ---- for the worker ---- */

/* So many operations there can be in all requests together. */
extern int	requests_max_ops(void);

extern void requests_worker_enter(void);
extern void requests_worker_leave(void);
extern void requests_new_epoch(void);

/*
 * Note that the worker connects to its database, or no longer does.  Returns
 * what was noted before: true at the start of a worker says that the last one
 * ended over it.
 */
extern bool requests_set_connecting(bool connecting);

/* Has anything been submitted since this was asked last? */
extern bool requests_wanted(void);

/* Take all that was submitted; an array that stays the worker's own. */
extern TableRequest **requests_take(int *n);

extern TableTickets *requests_tickets(void);

/*
 * Operation i of a request that was taken, whose texts stay in the request; what came of it.
 */
extern void request_take_op(TableRequest *request, int i, StoreOp *op);
extern void request_put_results(TableRequest *request, int i, const StoreOp *op);

/* All its operations have outcomes: wake whoever asked. */
extern void request_answer(TableRequest *request);

#endif							/* LR_REQUESTS_H */
