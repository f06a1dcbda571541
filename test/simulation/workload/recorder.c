/*-------------------------------------------------------------------------
 *
 * recorder.c
 *	  Between the SQL functions and the verbs of the session: what was asked for and
 *	  what came of it goes into the history and the book.
 *
 * The linker puts these before the product's own; see WRAP in the Makefile.  An
 * operation that is left by an error has failed; one that is left by the end of
 * the session has no outcome.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/workload/recorder.c
 *
 *-------------------------------------------------------------------------
 */
#include "workload.h"

#include "../../../src/session/session.h"
#include "../../../src/settings.h"
#include "../../../src/store/nodes.h"
#include "../backend/heap.h"
#include "../kernel/history.h"
#include "../kernel/redis_nodes.h"
#include "permits.h"

#define WRONG(...) sim_fail("wrong answer", __VA_ARGS__)

int			recorder_transaction = -1;

static bool job_begins = false;

void
recorder_job_begins(bool begins)
{
	job_begins = begins;
}

static int
begin(HistoryWhat what, const char *key, KindId kind, LockScope scope)
{
	int			n = history_call(what, MyProcPid, key, kind, scope);

	history_at(n)->transaction = recorder_transaction;
	return n;
}

static void
fail(int n)
{
	history_at(n)->sqlstate = geterrcode();
	history_return(n, HISTORY_FAILED);
}

#define RECORDED(n, call) \
	PG_TRY(); \
	{ \
		call; \
	} \
	PG_CATCH(); \
	{ \
		fail(n); \
		PG_RE_THROW(); \
	} \
	PG_END_TRY()

/* ----------
 * Taking
 * ----------
 */

/* In the middle of session_multi_lock(): what it takes counts when it has all. */
static bool takes_several = false;

extern bool __real_session_lock(const LrName *name, const AcquireRequest *request,
								HeldEntry **got);
extern bool __wrap_session_lock(const LrName *name, const AcquireRequest *request,
								HeldEntry **got);

/* No lock of one owner: the history does not know it. */
static bool
take_permit(const LrName *name, const AcquireRequest *request, HeldEntry **got)
{
	int64		began = sim_now();
	HeldEntry  *entry = NULL;

	if (__real_session_lock(name, request, &entry))
	{
		ledger_taken(entry, request->terms.scope, request->terms.guard);
		permits_taken(name, request->terms.scope);
		if (got != NULL)
			*got = entry;
	}
	if (request->wait_us >= 0)
		time_check("a try for a permit", began, request->wait_us);
	return entry != NULL;
}

/*
 * Of several masters the clocks may run apart, and so much is taken off (docs/masters.md);
 * a clock that gains, as kernel/server.c has it, takes up to 1 % more.
 */
static int64
relied_on(int64 lease_ms)
{
	return (sim_config.masters > 0 ? lease_ms - lease_ms / 50 - 2 : lease_ms) * SIM_MS;
}

bool
__wrap_session_lock(const LrName *name, const AcquireRequest *request, HeldEntry **got)
{
	KindId		kind = lr_kind(request->terms.kind)->held_as;
	int			n;
	HistoryRecord *r;
	bool		job = job_begins;
	HeldEntry  *entry = NULL;
	HoldView	view;
	bool		taken = false;

	if (takes_several)
		return __real_session_lock(name, request, got);
	if (kind == KIND_PERMIT)
		return take_permit(name, request, got);
	n = begin(HISTORY_LOCK, name->data, kind, request->terms.scope);
	r = history_at(n);
	job_begins = false;
	r->fenced = request->fenced;
	r->renewed = request->terms.renewed;
	r->lease_us = relied_on(request->terms.lease_ms);
	r->wait_us = request->wait_us;
	RECORDED(n, taken = __real_session_lock(name, request, &entry));
	if (taken)
	{
		ledger_taken(entry, request->terms.scope, request->terms.guard);
		book_taken(name, kind, request->terms.scope, job);
		lt_look(entry->hold, &view);

		if (request->fenced && fences_are_comparable())
			r->token = view.fence;
		if (got != NULL)
			*got = entry;
	}
	history_return(n, taken ? HISTORY_YES : HISTORY_NO);
	if (request->wait_us >= 0)
		time_check("a try for a lock", r->called, request->wait_us);
	return taken;
}

extern bool __real_session_multi_lock(const LrName *names, int n, const AcquireRequest *request);
extern bool __wrap_session_multi_lock(const LrName *names, int n, const AcquireRequest *request);

/*
 * Each of the keys is taken at a moment of its own.  One that is held for a while and
 * given back when the call fails is a lock that had no effect.
 */
bool
__wrap_session_multi_lock(const LrName *names, int n, const AcquireRequest *request)
{
	int			record[SIM_MAX_KEYS];
	int			losses_seen = ledger_losses_seen();
	volatile bool returned = false;
	volatile bool taken = false;

	for (int i = 0; i < n; i++)
	{
		HistoryRecord *r;

		record[i] = begin(HISTORY_LOCK, names[i].data, request->terms.kind,
						  request->terms.scope);
		r = history_at(record[i]);
		r->several = true;
		r->renewed = request->terms.renewed;
		r->lease_us = relied_on(request->terms.lease_ms);
		r->wait_us = request->wait_us;
	}
	takes_several = true;
	history_asks_together(sim_slot(), MyProcPid);
	PG_TRY();
	{
		taken = __real_session_multi_lock(names, n, request);
		returned = true;
	}
	PG_FINALLY();
	{
		takes_several = false;
		history_asks_together(sim_slot(), 0);
		for (int i = 0; !returned && i < n; i++)
			fail(record[i]);
	}
	PG_END_TRY();
	for (int i = 0; taken && i < n; i++)
	{
		HeldEntry  *entry = held_find(&names[i], request->terms.kind);

		if (entry == NULL)
			WRONG("redis_multi_lock says that it has %s, and it has not", names[i].data);
		ledger_taken(entry, request->terms.scope, request->terms.guard);
		book_taken(&names[i], request->terms.kind, request->terms.scope, false);
	}
	if (!taken)
		ledger_gave_up(losses_seen);
	for (int i = 0; i < n; i++)
		history_return(record[i], taken ? HISTORY_YES : HISTORY_NO);
	return taken;
}

extern bool __real_session_multi_unlock(const LrName *names, int n, KindId kind);
extern bool __wrap_session_multi_unlock(const LrName *names, int n, KindId kind);

/* As with unlock_all one answer is for all: it says nothing of one. */
bool
__wrap_session_multi_unlock(const LrName *names, int n, KindId kind)
{
	int			record[SIM_MAX_KEYS];
	volatile bool all = true;
	volatile bool returned = false;
	volatile bool result = false;

	for (int i = 0; i < n; i++)
	{
		BookItem   *item = book_find(names[i].data, KIND_REENTRANT);

		record[i] = -1;
		all = all && item->session > item->job;
		if (item->session <= item->job)
			continue;
		record[i] = begin(HISTORY_UNLOCK, names[i].data, KIND_REENTRANT, SCOPE_SESSION);
		history_at(record[i])->count = 1;
		history_at(record[i])->together = true;
	}
	PG_TRY();
	{
		result = __real_session_multi_unlock(names, n, kind);
		returned = true;
	}
	PG_FINALLY();
	{
		for (int i = 0; i < n; i++)
		{
			BookItem   *item = book_find(names[i].data, KIND_REENTRANT);
			int			before = item->session;

			/* Of what was lost all goes. */
			if (result)
				book_gone(item, before - 1);
			else
				book_perhaps_gone(item, item->job);
			history_at(record[i])->count = Max(before - item->session, 1);
			history_return(record[i], returned ? HISTORY_YES : HISTORY_FAILED);
		}
	}
	PG_END_TRY();
	if (result && !all)
		WRONG("redis_multi_unlock says that it gave back what was not held");
	return result;
}

extern bool __real_session_extend(const LrName *name, KindId kind, int64 lease_ms, bool renewed);
extern bool __wrap_session_extend(const LrName *name, KindId kind, int64 lease_ms, bool renewed);

bool
__wrap_session_extend(const LrName *name, KindId kind, int64 lease_ms, bool renewed)
{
	int			n = begin(HISTORY_EXTEND, name->data, kind, 0);
	bool		result = false;

	history_at(n)->lease_us = relied_on(lease_ms);
	history_at(n)->renewed = renewed;
	RECORDED(n, result = __real_session_extend(name, kind, lease_ms, renewed));
	history_return(n, result ? HISTORY_YES : HISTORY_NO);
	if (!book_is_held(book_find(name->data, kind)))
		WRONG("redis_extend of %s, which is not held, returns", name->data);
	return result;
}

extern bool __real_session_force(const LrName *name, KindId kind);
extern bool __wrap_session_force(const LrName *name, KindId kind);

bool
__wrap_session_force(const LrName *name, KindId kind)
{
	int			n = begin(HISTORY_FORCE, name->data, kind, 0);
	bool		result = false;

	RECORDED(n, result = __real_session_force(name, kind));
	history_return(n, result ? HISTORY_YES : HISTORY_NO);
	return result;
}

/*
 * check_remembered --- the lease of a client elsewhere that was seen keeps the table from
 * giving the key away for as long
 */
static void
check_remembered(const LrName *name, const StoreOp *op)
{
	int64		begin;
	int64		left;

	if (!lr_has_fallback() || strncmp(op->answer.holder, "elsewhere", 9) != 0)
		return;
	begin = silence_asked_since();
	if (begin == 0)
		begin = server_clock();
	left = silence_hold_off(name->hash) + server_clock() - begin;
	if (left < op->answer.ttl_ms * SIM_MS)
		sim_fail("two holders", "%s: the table gives it away %.3f ms before a lease ends that was seen",
				 name->data, (op->answer.ttl_ms * SIM_MS - left) / 1000.0);
}

extern void __real_session_inspect(const LrName *name, KindId kind, StoreOp *op);
extern void __wrap_session_inspect(const LrName *name, KindId kind, StoreOp *op);

void
__wrap_session_inspect(const LrName *name, KindId kind, StoreOp *op)
{
	int			n = begin(HISTORY_IS_LOCKED, name->data, kind, 0);

	RECORDED(n, __real_session_inspect(name, kind, op));
	if (op->store == STORE_REDIS && op->outcome == STORE_OK)
	{
		redis_note_seen(name->data, op->answer.holder);
		check_remembered(name, op);
	}
	history_return(n, op->answer.value != STORE_VALUE_NONE ? HISTORY_YES : HISTORY_NO);
}

/* ----------
 * Giving back
 * ----------
 */

extern bool __real_session_unlock(const LrName *name, KindId kind);
extern bool __wrap_session_unlock(const LrName *name, KindId kind);

static bool
unlock_lock(const LrName *name, KindId kind)
{
	BookItem   *item = book_find(name->data, kind);
	int			own = item->session - item->job;

	/* Of what a job has it says no, and that is no loss. */
	int			n = own <= 0 && item->job > 0 ? -1 :
		begin(HISTORY_UNLOCK, name->data, kind, SCOPE_SESSION);
	volatile bool returned = false;
	volatile bool result = false;

	history_at(n)->count = 1;
	PG_TRY();
	{
		result = __real_session_unlock(name, kind);
		returned = true;
	}
	PG_FINALLY();
	{
		if (!returned)
		{
			fail(n);
			book_perhaps_gone(item, item->job);
		}
	}
	PG_END_TRY();
	history_return(n, result ? HISTORY_YES : HISTORY_NO);
	if (result && own <= 0)
		WRONG("redis_unlock says that it gave back %s, which was not held", name->data);
	if (own > 0)
		book_gone(item, result ? item->session - 1 : item->job);
	return result;
}

static bool
unlock_permit(const LrName *name)
{
	bool		result = false;

	PG_TRY();
	{
		result = __real_session_unlock(name, KIND_PERMIT);
	}
	PG_CATCH();
	{
		permits_perhaps_unlocked(name);
		PG_RE_THROW();
	}
	PG_END_TRY();
	permits_unlocked(name, result);
	return result;
}

bool
__wrap_session_unlock(const LrName *name, KindId kind)
{
	if (kind == KIND_PERMIT)
		return unlock_permit(name);
	return unlock_lock(name, kind);
}

extern bool __real_session_unlock_job(const LrName *name, HeldEntry *entry);
extern bool __wrap_session_unlock_job(const LrName *name, HeldEntry *entry);

bool
__wrap_session_unlock_job(const LrName *name, HeldEntry *entry)
{
	KindId		kind = entry->key.kind;
	BookItem   *item = book_find(name->data, kind);
	int			n = begin(HISTORY_UNLOCK, name->data, kind, SCOPE_SESSION);
	bool		result = false;

	history_at(n)->count = 1;
	item->job--;
	item->session--;
	RECORDED(n, result = __real_session_unlock_job(name, entry));
	ledger_job_ends();
	history_return(n, result ? HISTORY_YES : HISTORY_NO);
	return result;
}

/* All that can go: a record for each key, and all at the same time. */
typedef struct Batch
{
	LockScope	scope;
	SubTransactionId sub;		/* only what was taken in it; 0 = whatever */
	bool		jobs;
	int			n;
	int			record[4 * SIM_MAX_KEYS];
} Batch;

static int
own_count(const BookItem *item, const Batch *batch)
{
	if (batch->scope == SCOPE_SESSION)
		return batch->jobs ? item->session : item->session - item->job;
	return item->xact != InvalidSubTransactionId &&
		(batch->sub == InvalidSubTransactionId || item->xact == batch->sub);
}

static void
batch_begin_item(BookItem *item, void *arg)
{
	Batch	   *batch = arg;
	int			n = own_count(item, batch);
	int			record;

	if (n <= 0)
		return;
	record = begin(HISTORY_UNLOCK, item->key, item->kind, batch->scope);
	history_at(record)->count = n;
	history_at(record)->together = true;
	batch->record[batch->n++] = record;
}

static void
batch_begin(Batch *batch, LockScope scope, SubTransactionId sub, bool jobs)
{
	batch->scope = scope;
	batch->sub = sub;
	batch->jobs = jobs;
	batch->n = 0;
	book_walk(batch_begin_item, batch);
}

/* What jobs had that have failed goes with the abort. */
static void
batch_begin_failed_job(BookItem *item, void *arg)
{
	Batch	   *batch = arg;
	int			record;

	if (item->failed_jobs == 0)
		return;
	record = begin(HISTORY_UNLOCK, item->key, item->kind, SCOPE_SESSION);
	history_at(record)->count = item->failed_jobs;
	history_at(record)->together = true;
	batch->record[batch->n++] = record;
}

static void
batch_end(Batch *batch, HistoryResult result)
{
	for (int i = 0; i < batch->n; i++)
		history_return(batch->record[i], result);
	batch->n = 0;
}

static void
give_back_own(BookItem *item, void *arg)
{
	book_gone(item, item->job);
}

static void
perhaps_give_back_own(BookItem *item, void *arg)
{
	book_perhaps_gone(item, item->job);
}

extern int64 __real_session_unlock_all(void);
extern int64 __wrap_session_unlock_all(void);

int64
__wrap_session_unlock_all(void)
{
	Batch		batch;
	int			nkeys;
	volatile bool returned = false;
	volatile int64 result = 0;

	batch_begin(&batch, SCOPE_SESSION, InvalidSubTransactionId, false);
	nkeys = batch.n + permits_keys_had();
	PG_TRY();
	{
		result = __real_session_unlock_all();
		returned = true;
	}
	PG_FINALLY();
	{
		batch_end(&batch, returned ? HISTORY_YES : HISTORY_FAILED);
		book_walk(returned ? give_back_own : perhaps_give_back_own, NULL);
		permits_all_gone(returned);
	}
	PG_END_TRY();
	if (result > nkeys)
		WRONG("redis_unlock_all says that it gave back %lld keys, and %d were held",
			  (long long) result, nkeys);
	return result;
}

static void
give_back_all(BookItem *item, void *arg)
{
	book_gone(item, 0);
	item->job = 0;
}

extern void __real_session_discard(void);
extern void __wrap_session_discard(void);

void
__wrap_session_discard(void)
{
	Batch		batch;

	batch_begin(&batch, SCOPE_SESSION, InvalidSubTransactionId, true);
	__real_session_discard();
	batch_end(&batch, HISTORY_YES);
	book_walk(give_back_all, NULL);
	permits_all_gone(true);
}

extern void __real_xact_job_failed(void);
extern void __wrap_xact_job_failed(void);

static void
fail_jobs(BookItem *item, void *arg)
{
	item->failed_jobs = item->job;
}

void
__wrap_xact_job_failed(void)
{
	book_walk(fail_jobs, NULL);
	__real_xact_job_failed();
}

/* ----------
 * Transactions
 * ----------
 */

static Batch at_end;

static void
watch(XactMoment moment, bool commit, SubTransactionId sub, SubTransactionId parent)
{
	switch (moment)
	{
		case XACT_STARTS:
			recorder_transaction = history_call(HISTORY_TRANSACTION, MyProcPid, NULL, 0, 0);
			break;
		case XACT_GUARD_BEGINS:
			ledger_guard_begins();
			break;
		case XACT_GUARD_PASSED:
			ledger_guard_passed();
			break;
		case XACT_PREPARES:
			fences_transaction_prepares(sub);
			break;
		case XACT_RELEASES:
			if (commit)
				fences_transaction_commits();
			counts_transaction_ends(commit);
			batch_begin(&at_end, SCOPE_XACT, InvalidSubTransactionId, false);
			if (!commit)
				book_walk(batch_begin_failed_job, &at_end);
			break;
		case XACT_ENDS:
			batch_end(&at_end, HISTORY_YES);
			history_return(recorder_transaction, commit ? HISTORY_YES : HISTORY_NO);
			recorder_transaction = -1;
			ledger_transaction_ends();
			book_transaction_ends(commit);
			permits_transaction_ends();
			fences_transaction_ends();
			break;
		case XACT_SUB_RELEASES:
			batch_begin(&at_end, SCOPE_XACT, sub, false);
			break;
		case XACT_SUB_ENDS:
			batch_end(&at_end, HISTORY_YES);
			ledger_sub_ends(sub, parent, commit);
			book_sub_ends(sub, parent, commit);
			permits_sub_ends(sub, parent, commit);
			fences_sub_ends(sub, parent, commit);
			break;
	}
}

void
recorder_begin(void)
{
	xact_watch = watch;
	prepared_ends = fences_prepared_ends;
}
