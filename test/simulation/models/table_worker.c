/*-------------------------------------------------------------------------
 *
 * table_worker.c
 *	  Stands for the product's table_worker.c and what it does to the tables: takes
 *	  requests, carries them out on a model of the rows, answers.
 *
 * The requests and their states are the product's (requests.c), and so is the
 * client (table_store.c).  A worker may end at any moment, with its
 * transaction committed or not.  Some rows are blocked at times, as by the open
 * transaction of a program.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/models/table_worker.c
 *
 *-------------------------------------------------------------------------
 */
#include "../workload/workload.h"

#include <signal.h>

#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/shmem.h"

#include "../../../src/instance.h"
#include "../../../src/store/node.h"
#include "../../../src/store/table/requests.h"
#include "../../../src/store/table/table_worker.h"
#include "../../../src/watchdog/worker.h"
#include "../kernel/redis_model.h"
#include "kinds.h"
#include "table_model.h"

#define MAX_ROWS	64
#define SWEEP		(10 * SIM_S)

typedef struct Row
{
	bool		there;
	bool		shared;			/* as in kernel/redis_model.c */
	bool		excludes_nobody;
	int			len;
	char		key[LR_NAME_MAX];
	uint64		owner;			/* 0: of a program, or kept */
	int			count;
	int64		lease_ms;
	int64		until;
	int64		fence;			/* of the key, stays */
} Row;

static Row *rows;

void
table_worker_register(void)
{
}

void
table_model_attach(void)
{
	rows = sim_durable("rows of the model", sizeof(Row) * MAX_ROWS);
}

/* What was taken by a server that has ended counts no more. */
void
table_model_new_server(void)
{
	table_model_attach();
	for (int i = 0; i < MAX_ROWS; i++)
		if (rows[i].owner != 0)
			rows[i].there = false;
}

static Row *
find_in(Row *in, const char *key, int len)
{
	for (int i = 0; i < MAX_ROWS; i++)
	{
		Row		   *r = &in[i];

		if (r->len == 0)
		{
			r->len = len;
			memcpy(r->key, key, len);
		}
		if (!r->shared && r->len == len && memcmp(r->key, key, len) == 0)
			return r;
	}
	sim_fail("simulator", "too many rows");
}

/* One who has the key together with others: that one, or any that is live (0). */
static Row *
find_shared(Row *in, const char *key, int len, uint64 owner)
{
	for (int i = 0; i < MAX_ROWS; i++)
	{
		Row		   *r = &in[i];

		if (r->shared && r->there && r->len == len && memcmp(r->key, key, len) == 0 &&
			(owner == 0 ? r->until > sim_now() && !r->excludes_nobody : r->owner == owner))
			return r;
	}
	return NULL;
}

static Row *
new_shared(Row *in, const char *key, int len)
{
	for (int i = 0; i < MAX_ROWS; i++)
	{
		Row		   *r = &in[i];

		if (r->len != 0 && !(r->shared && !r->there))
			continue;
		memset(r, 0, sizeof(Row));
		r->shared = true;
		r->len = len;
		memcpy(r->key, key, len);
		return r;
	}
	sim_fail("simulator", "too many rows");
}

/* What that owner has, or would have. */
static Row *
find_of(Row *in, const TableOp *op)
{
	Row		   *r = find_in(in, op->name, op->name_len);

	if (lr_kind(op->lock_kind)->held_as != KIND_REENTRANT && op->lock_kind != KIND_WRITE)
		r = find_shared(in, op->name, op->name_len, op->owner);
	return r != NULL ? r : new_shared(in, op->name, op->name_len);
}

int64
table_owned_until(const char *key, int len, uint64 owner)
{
	Row		   *r = find_in(rows, key, len);

	if (!r->there || r->owner != owner)
		r = find_shared(rows, key, len, owner);
	return r != NULL && r->there && r->owner == owner ? r->until : 0;
}

const char *
table_find_row(void)
{
	for (int i = 0; i < MAX_ROWS; i++)
		if (rows[i].there && rows[i].owner != 0 && rows[i].until > sim_now())
			return rows[i].key;
	return NULL;
}

/* ----------
 * Operations
 * ----------
 */

static void
lengthen(Row *r, int64 lease_ms)
{
	if (r->until < sim_now() + lease_ms * SIM_MS)
	{
		r->until = sim_now() + lease_ms * SIM_MS;
		r->lease_ms = lease_ms;
	}
}

static void
show(const Row *r, TableOp *op)
{
	if (r->owner != 0)
		(void) lr_owner_text(r->owner, op->holder);
	else
		strlcpy(op->holder, "program", LR_OWNER_MAX);
}

static void
create(Row *in, Row *r, TableOp *op)
{
	bool		shares = op->lock_kind == KIND_SHARED || op->lock_kind == KIND_READ;
	Row		   *other = op->lock_kind == KIND_FREE ? NULL :
		shares ? find_in(in, op->name, op->name_len) :
		find_shared(in, op->name, op->name_len, 0);

	if (other != NULL && other->there && other->until > sim_now() &&
		!(op->beside != 0 && other->owner == op->beside))
		r = other;
	if (r->there && r->until > sim_now())
	{
		op->outcome = STORE_BUSY;
		op->value = STORE_VALUE_LOCK;
		op->ttl_ms = (r->until - sim_now()) / SIM_MS + 1;
		show(r, op);
		return;
	}
	if (op->fenced)
		op->fence = ++r->fence;
	r->excludes_nobody = op->lock_kind == KIND_FREE;
	r->there = true;
	r->owner = op->owner;
	r->count = 1;
	r->lease_ms = op->lease_ms;
	r->until = sim_now() + op->lease_ms * SIM_MS;
	op->outcome = STORE_OK;
}

static bool
find_own(Row *r, TableOp *op)
{
	if (r->there && r->owner == op->owner)
		return true;
	op->outcome = STORE_GONE;
	if (r->there && r->until > sim_now())
		show(r, op);
	return false;
}

static void
release(Row *r, TableOp *op)
{
	if (op->keep_ms > 0)
	{
		r->owner = 0;
		r->until = sim_now() + op->keep_ms * SIM_MS;
	}
	else
		r->there = false;
}

static void
inspect(Row *r, TableOp *op)
{
	if (r->there && r->until > sim_now())
	{
		op->value = STORE_VALUE_LOCK;
		op->ttl_ms = (r->until - sim_now()) / SIM_MS + 1;
		op->hold_count = r->count;
		show(r, op);
	}
	else
		op->ttl_ms = STORE_NO_TTL;
}

static bool
force(Row *r, TableOp *op)
{
	TableOp		seen;

	memset(&seen, 0, sizeof(seen));
	if (r->there)
		show(r, &seen);
	if (!r->there || r->until <= sim_now() ||
		strncmp(seen.holder, op->owner_text, op->owner_text_len) != 0)
		return false;
	redis_note_robbed(seen.holder);
	r->there = false;
	return true;
}

static void
execute(Row *in, TableOp *op)
{
	Row		   *r = op->name_len > 0 ? find_of(in, op) : NULL;

	op->outcome = STORE_OK;
	switch (op->kind)
	{
		case STORE_CREATE:
			create(in, r, op);
			break;
		case STORE_SET:
			if (!find_own(r, op))
				break;
			r->count = op->count;
			if (op->lease_ms > 0)
				lengthen(r, op->lease_ms);
			op->watch_ms = (r->until - sim_now()) / SIM_MS;
			break;
		case STORE_RENEW:
			if (!find_own(r, op))
				break;
			lengthen(r, op->lease_ms);
			op->watch_ms = (r->until - sim_now()) / SIM_MS;
			break;
		case STORE_RELEASE:
			if (find_own(r, op))
				release(r, op);
			break;
		case STORE_MINT:
			if (find_own(r, op))
				op->fence = r->fence = Max(r->fence, op->floor) + 1;
			break;
		case STORE_FORCE:
			if (!force(r, op))
				op->outcome = STORE_GONE;
			break;
		case STORE_INSPECT:
			inspect(r, op);
			break;
		case STORE_TIME:
			op->store_ms = sim_now() / SIM_MS;
			break;
		case STORE_PROBE:
		case STORE_FACTS:
			break;
		case STORE_DEFINE:
		case STORE_VALUE:
		case STORE_TALLY:
			sim_fail("table", "no kind of here has a number");
			break;
		case STORE_NOTIFY:
			sim_fail("table", "nobody waits for a condition here");
	}
	sim_trace("table: operation %d on %.*s of %llu: outcome %d", op->kind, op->name_len,
			  op->name, (unsigned long long) op->owner, op->outcome);
}

/* ----------
 * Transactions
 * ----------
 */

static void
refuse_blocked(TableRequest *request, TableOp *op)
{
	table_op_begin(op);
	op->outcome = STORE_BLOCKED;
	request->trouble.fault = TABLE_BLOCKED;
	request->trouble.sqlstate = ERRCODE_LOCK_NOT_AVAILABLE;
	strlcpy(request->trouble.detail, "Another transaction was in the way.",
			sizeof(request->trouble.detail));
}

/* The worker may end here. */
static void
fall_over(void)
{
	sim_yield("worker");
	if (!sim_config.calm && sim_chance(10))
	{
		sim_trace("the worker dies");
		sim_disturbed(sim_now() + 2 * SIM_S);
		proc_exit(1);
	}
}

/* Others ask for something meanwhile, and are served together then. */
static void
commit_takes(void)
{
	int64		time;

	if (sim_config.calm || !sim_chance(sim_config.slow_table))
		return;
	time = SIM_PICK(2 * SIM_MS, 20 * SIM_MS, 200 * SIM_MS);
	sim_disturbed(sim_now() + time);
	pg_usleep((long) time);
}

static void
serve(void)
{
	int			n;
	TableRequest **taken = requests_take(&n);
	Row			changed[MAX_ROWS];

	if (n == 0)
		return;
	fall_over();
	memcpy(changed, rows, sizeof(changed));
	for (int i = 0; i < n; i++)
		for (int j = 0; j < taken[i]->nops; j++)
		{
			sim_yield("row");
			if (!sim_config.calm && sim_chance(20))
				refuse_blocked(taken[i], request_op(taken[i], j));
			else
				execute(changed, request_op(taken[i], j));
		}
	commit_takes();
	fall_over();
	memcpy(rows, changed, sizeof(changed));
	sim_trace("table: committed");
	fall_over();
	for (int i = 0; i < n; i++)
		request_answer(taken[i]);
}

static void
worker_leave(int code, Datum arg)
{
	requests_worker_leave();
}

void
table_worker_main(void)
{
	int64		end_at = 0;

	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	table_model_attach();

	/* What a new worker does not remember counts for a lease from now on. */
	for (int i = 0; i < MAX_ROWS; i++)
		if (rows[i].there && rows[i].owner != 0)
			rows[i].until = sim_now() + rows[i].lease_ms * SIM_MS;
	before_shmem_exit(worker_leave, 0);
	requests_worker_enter();
	while (!worker_may_end(&end_at, 3 * SIM_S))
	{
		sim_check_for_interrupts();
		if (requests_wanted())
			serve();
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 end_at != 0 ? 20 : 10000, 0);
		ResetLatch(MyLatch);
	}
	proc_exit(1);
}
