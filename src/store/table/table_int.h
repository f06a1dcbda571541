/*-------------------------------------------------------------------------
 *
 * table_int.h
 *	  Internals of table mode: the requests of sessions and the watchdog; and the tables,
 *	  their rows, and the operations on them.
 *
 * But for the requests, only the files of the worker use it, inside a transaction.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/table/table_int.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_TABLE_INT_H
#define LR_TABLE_INT_H

#include "lockredis.h"

#include "access/genam.h"
#include "access/relscan.h"
#include "executor/tuptable.h"
#include "nodes/execnodes.h"
#include "port/atomics.h"
#include "utils/snapshot.h"
#include "utils/timestamp.h"

#include "store/store.h"

/*
 * Why the table worker could not carry out an operation.  Plain data in shared memory: the
 * worker writes it, and the process that submitted the request reads it.
 */
typedef struct TableTrouble
{
	int			sqlstate;		/* 0: none; ERRCODE_LOCK_NOT_AVAILABLE: blocked by
								 * another transaction */
	char		detail[256];
	char		hint[160];
} TableTrouble;

#define BLOCKED_HINT	\
	"Look for transactions that were left open in the database that \"lockredis.database\" names."

/* "hint": may be empty. */
extern void table_trouble_set(TableTrouble *trouble, int sqlstate, const char *hint,
							  const char *format,...) pg_attribute_printf(4, 5);

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
 * Nothing in here waits, raises an error or allocates memory.
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
	StoreOp		op;				/* its pointers are the worker's */
	char		name[LR_NAME_MAX];
	char		text[LR_OWNER_MAX]; /* a whole owner, or the digest of a token */
} TableOp;

typedef struct TableRequest
{
	pg_atomic_uint32 state;		/* RequestState */
	int			client;			/* proc number of the process to wake */
	int			nops;
	TableTrouble trouble;		/* of the last operation that had any */
	TableOp		op[REQUEST_ROOM];	/* the watchdog has further ones, elsewhere */
} TableRequest;

/*
 * The requests that have changed a count, and the transactions that did it; used by
 * table_counts.c, until requests_forget().
 */
#define TABLE_TICKETS		8192

typedef struct TableTicket
{
	pg_atomic_uint64 owner;		/* 0 = none */
	TransactionId done_by;
	TransactionId undone_by;
} TableTicket;

typedef struct TableTickets
{
	uint32		next;
	TableTicket ticket[TABLE_TICKETS];
} TableTickets;

/* ---- for the process that submits a request ---- */

/* The request of this process: free, or still abandoned. */
extern TableRequest *request_open(bool watchdog);
extern RequestState request_state(TableRequest *request);

/* Write operation i of a free request that has room for it; the caller sets nops. */
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

/* Withdraw the request, if it is under way, without reading any answer. */
extern void request_drop(TableRequest *request);

/* The answer to the request of that owner was read: it needs no ticket any more. */
extern void requests_forget(uint64 owner);

/* Is there a worker that takes requests? */
extern bool requests_have_worker(void);

/* A number that changes when a worker starts, and when it finds the tables (again). */
extern uint32 requests_epoch(void);

/*
 * The wall clock, if it had not been set since this server started: it never jumps, and all
 * table workers of this instance have the same.
 */
extern TimestampTz requests_clock(void);

/* ---- for the worker ---- */

/* The most operations that all requests together can have. */
extern int	requests_max_ops(void);

/* Why the last worker ended before it was connected to its database; only workers use it. */
extern TableTrouble *requests_unconnected(void);

extern void requests_worker_enter(void);
extern void requests_worker_leave(void);
extern void requests_new_epoch(void);

/* An operation of a request that was taken. */
typedef struct TableJob
{
	TableRequest *request;
	StoreOp    *op;				/* in the request */
} TableJob;

/*
 * Take all requests that were submitted, and return the number of their operations, which are in
 * the order of the requests.  There is room for requests_max_ops() jobs.
 */
extern int	requests_take(TableJob *jobs);

extern TableTickets *requests_tickets(void);

/* Called when all its operations have outcomes: wakes the process that submitted it. */
extern void request_answer(TableRequest *request);

/* ----------
 * keyed_table.c: A table with a unique key of text columns, read and written without waiting
 * for other transactions.
 *
 * The table worker serves all sessions, so it must not wait until somebody else commits the
 * insert of one key.  SQL has no statement that either inserts a row or reports at once that an
 * open transaction has inserted it.  The table access functions can do that.
 *
 * Used inside a transaction, with an active snapshot.  Rows are read as they are now, not as of
 * that snapshot.
 * ----------
 */

#define KEYED_MAX_COLUMNS	16

/* The most columns in a key, which are the first ones of the table. */
#define KEYED_MAX_KEYS		3

typedef struct KeyedTable
{
	Relation	rel;
	ResultRelInfo *indexes;
	EState	   *estate;
	Relation	index;			/* of the key */
	int			nkeys;
	IndexScanDesc group;		/* by all columns of the key but the last */
	SnapshotData dirty;			/* of all scans */
	TupleTableSlot *row;		/* the row that was found or written last */
} KeyedTable;

/*
 * Use a relation that is open and locked, and whose first columns are the key.  False: it has
 * no unique index on exactly these.
 */
extern bool keyed_begin(KeyedTable *table, Relation rel, int nkeys);
extern void keyed_end(KeyedTable *table);

/* Raise the error that another transaction is in the way. */
LR_NORETURN_PREFIX extern void keyed_blocked(void) LR_NORETURN_SUFFIX;

/*
 * Find the row with these values in all columns of the key.  Raises an error if an open transaction
 * has inserted it.
 */
extern bool keyed_find(KeyedTable *table, const Datum *keys);

/*
 * Find all rows with these values in all columns of the key but the last, one after the other, to
 * the last one.  Rows that open transactions have inserted are skipped.  The caller may delete the
 * row found last.
 */
extern void keyed_begin_group(KeyedTable *table, const Datum *keys);
extern bool keyed_next_of_group(KeyedTable *table);

/* Raises an error if another transaction inserts the same key at this moment. */
extern void keyed_insert(KeyedTable *table, Datum *values, bool *nulls);

/*
 * Change these columns of the row that was found, or delete it.  False: another transaction is
 * changing it, or has changed it since.
 */
extern bool keyed_update(KeyedTable *table, Datum *values, bool *nulls, bool *changed);
extern bool keyed_delete(KeyedTable *table);

/* ----------
 * tables.c: The tables of table mode: finding, checking and opening them.
 *
 * redis_lock_rows has a row for each locked key, redis_lock_shares one for each reader and each
 * permit, redis_lock_counters the last fencing token of each key, and redis_lock_values the
 * numbers of permits, semaphores and latches.  The script of the extension creates them, but
 * their owner can change them.  So their form is checked whenever they are opened.
 * ----------
 */

typedef enum TableId
{
	IN_ROWS,
	IN_COUNTERS,				/* from here on: opened only by operations that
								 * need them, */
	IN_SHARES,					/* and from here on: not there in version 1.0 */
	IN_VALUES,
	IN_COUNT
} TableId;

/* What a column contains. */
typedef enum Field
{
	FIELD_KEY,
	FIELD_KIND,
	FIELD_OWNER,
	FIELD_HOLDS,
	FIELD_NUMBER,
	FIELD_LEASE,
	FIELD_FENCE,				/* a number; from here on null is allowed */
	FIELD_UNTIL,				/* until when the row counts; null: for ever */
	FIELD_INSTANCE,
	FIELD_SINCE,				/* from here on: not read, and set only in a new
								 * entry */
	FIELD_COMMENT
} Field;

typedef struct TableFields
{
	const char *name;
	int			nkeys;
	int			ncolumns;
	Field		column[9];
} TableFields;

extern const TableFields table_fields[IN_COUNT];

/* The instance that a row belongs to. */
typedef enum EntryOf
{
	OF_NOBODY,
	OF_US,
	OF_OTHERS
} EntryOf;

/* A row in C.  Fields that its table has no column for mean nothing. */
typedef struct Entry
{
	bool		there;			/* the table has a row of the key */
	bool		anew;			/* a new entry is to overwrite that row */
	KindId		kind;
	char		owner[LR_OWNER_MAX];
	EntryOf		of;
	int			holds;
	int64		number;			/* a fencing token (0: none), or the number that
								 * was set */
	int64		lease_ms;
	TimestampTz until;
	int64		left_ms;		/* for how long it still counts; 0: it does not, or
								 * is not there */
} Entry;

/* The tables that are open in this transaction. */
typedef struct LockTables
{
	Oid			schema;			/* of the extension */
	KeyedTable	table[IN_COUNT];
	bool		is_open[IN_COUNT];
	Entry		entry[IN_COUNT];	/* the row that was found last */
	bool		must_flush;		/* the transaction wrote something that has to
								 * survive a crash */
	TableTrouble trouble;		/* what tables_fail() is to say */
} LockTables;

/* What an operation of a kind of lock does to the rows. */
typedef void (*RowOperation) (LockTables *tables, StoreOp *op);

/* Open redis_lock_rows, and act as its owner until tables_close().  May fail. */
extern void tables_open(LockTables *tables);
extern void tables_close(LockTables *tables);

/*
 * Open a further table, if it is not open yet.  False: it cannot be used, and tables->trouble
 * says why; operations that do not need it can still be carried out.
 */
extern bool tables_have(LockTables *tables, TableId in);

/*
 * Raise an error, which says tables->trouble: the operation cannot be carried out, and what it
 * has written is undone.
 */
LR_NORETURN_PREFIX extern void tables_fail(LockTables *tables) LR_NORETURN_SUFFIX;

/* ----------
 * entries.c: Rows of the tables, read and written as entries.
 *
 * Only lockredis is to write into the tables, but their owner can write anything.  A row
 * that lacks a value, or has no lease that is valid, is treated like one of another
 * instance: it does not count.  Numbers become such as lockredis writes, and an owner that
 * is none of lockredis's only matches no operation.  So the code that uses an entry needs
 * no further checks.
 * ----------
 */

/* Appended to the owner of a key that stays locked after its release. */
#define KEPT_SUFFIX			"/kept"

/* The owner of the row that the readers of a key share. */
#define SHARED_OWNER		"readers"

/* Prefixes of the SHA-256 of a token, and of the id of a permit. */
#define TOKEN_OWNER			"token:"
#define PERMIT_OWNER		"permit:"

/* Set the outcome: the lock is not available for so many milliseconds. */
extern void entry_busy(StoreOp *op, int64 ttl_ms);

/*
 * Open a table only to look into it.  False: it cannot be used, so nobody has anything in it.
 * Fails if another session has locked it, so that nothing is known.
 */
extern bool entry_may_look(LockTables *tables, TableId in);

/*
 * Find the entry with the operation's key, and with this kind and owner if the table's key has
 * them.  Fails if another transaction is inserting or changing it, as all that writes one does.
 */
extern Entry *entry_find(LockTables *tables, TableId in, const StoreOp *op, KindId kind,
						 const char *owner);

/* The shares of a key of one kind. */
typedef struct Shares
{
	int			n;
	int64		first_ms;		/* after which the first of them ends */
	int64		lease_ms;		/* the longest of their leases */
	uint64		sum;			/* changes when their owners do */
}			Shares;

/* Look at them, and delete permits that have ended, and shares of other instances. */
extern Shares shares_look(LockTables *tables, const StoreOp *op, KindId kind);

/* Insert a share of the key.  "keep": it outlives this server. */
extern void share_insert(LockTables *tables, StoreOp *op, KindId kind, const char *owner,
						 bool keep);

/* Delete all shares of the key of one kind. */
extern void shares_drop(LockTables *tables, StoreOp *op, KindId kind);

/* A digest of an owner, to be added to those of others. */
extern uint64 shares_hash(const char *owner);

/* Make it a new entry of this owner.  "keep": it outlives this server. */
extern void entry_renew(Entry *e, const char *owner, int64 lease_ms, bool keep);

/* Start the lease anew, but never shorten it.  True: the entry has changed, and must be put. */
extern bool entry_lengthen(Entry *e, int64 lease_ms);

/* From now on the entry outlives this server. */
extern void entry_outlives(Entry *e);

/* Write the entry that was found last, as it is now; the outcome is STORE_OK. */
extern void entry_put(LockTables *tables, TableId in, StoreOp *op);

/* Lengthen the lease of the entry that was found last, and write it if it has changed. */
extern void entry_extend(LockTables *tables, TableId in, StoreOp *op);

/* Delete the entry that was found last; the outcome is STORE_OK. */
extern void entry_delete(LockTables *tables, TableId in, StoreOp *op);

/* Delete the rows that no longer count. */
extern void entries_sweep(LockTables *tables);

/* Find the row of the key.  Does this owner have it?  Does a token? */
extern Entry *row_find(LockTables *tables, const StoreOp *op);
extern bool row_is_of(const Entry *row, uint64 owner);
extern bool row_is_token(const Entry *row);

/* Describe its owner.  Set the outcome: that owner has the key, and for how long. */
extern void row_tell_owner(const Entry *row, char *out);
extern void row_is_taken(const Entry *row, StoreOp *op);

/* Is it the row that the readers of this server share? */
static inline bool
entry_is_shared(const Entry *e)
{
	return e->of == OF_US && strcmp(e->owner, SHARED_OWNER) == 0;
}

/*
 * Until when an entry counts depends on its instance:
 *
 * - this one: a session of this server took the lock.  The row counts until expires_at on
 * 	 requests_clock(), which never jumps.
 * - null: the entry outlives the server: a key that stays locked (hold_at_least), a token
 * 	 lock, a permit taken by id.  It counts until expires_at, on the wall clock.
 * - another one: that instance has ended, and its locks with it.  The row does not count.
 *
 * It never counts for longer than its lease.  The next owner may overwrite a row that no longer
 * counts, and the sweep deletes it.
 */

/* The time so many milliseconds from now, on the clock of the entry. */
extern TimestampTz entry_time_after(const Entry *e, int64 ms);

/* For how many more milliseconds an entry counts; 0: it no longer does. */
extern int64 entry_left_ms(const Entry *e);

/* Called once, when the worker starts. */
extern void entries_start(void);

/* ----------
 * table_counts.c: Numbers that are set from SQL: semaphores, latches, and how many permits
 * there are; and which sessions and ids have one.
 * ----------
 */

extern const RowOperation semaphore_operations[STORE_CALLS];
extern const RowOperation latch_operations[STORE_CALLS];
extern const RowOperation permit_operations[STORE_CALLS];

/*
 * For a key without a row: describe who has permits of it.  Results are set only if there are
 * permits.
 */
extern void permits_inspect(LockTables *tables, StoreOp *op);

/* ----------
 * table_conditions.c: Waits for conditions of locks, in the memory of the table worker.
 * ----------
 */

/*
 * Called when the transaction of any operation has been committed: does the part that is in
 * memory.  A beginning wait has released its lock by then, or the session that notifies has its
 * lock.  Sets the outcome, and raises no error.
 */
extern void condition_committed(StoreOp *op);

/* ----------
 * table_rows.c: What each operation does to the rows of the tables.
 * ----------
 */

/* Carry out one operation, and set its outcome.  May fail. */
extern void rows_execute(LockTables *tables, StoreOp *op);

#endif							/* LR_TABLE_INT_H */
