/*-------------------------------------------------------------------------
 *
 * ledger.c
 *	  What a session knows to be true, beside what the product says: which of
 *	  its locks were lost, whether it was told, and whether its commit may pass.
 *
 * The rules are those of the contract.  A commit must fail if a guarded lock of
 * its transaction was known to be lost before the guard looked last, which is
 * not before the last of its waits for the store; or if a lost session-level
 * lock was unlocked in it, but for one that was taken in a subtransaction that
 * has been rolled back.  It must not fail with "was lost" without such a cause.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/workload/ledger.c
 *
 *-------------------------------------------------------------------------
 */
#include "workload.h"

#include "../../../src/locktable/locktable_int.h"
#include "../../../src/store/store.h"
#include "../../../src/store/redis/quorum.h"
#include "../../../src/store/nodes.h"

#define MAX_TAKEN	64
#define MAX_HOLDS	64

typedef struct Taken
{
	uint64		owner;
	CommitGuard guard[SCOPE_COUNT]; /* the strictest, of each level */
	SubTransactionId sub;		/* in which it was taken, 0 = before; of both
								 * levels the session's counts */
	SubTransactionId xact;		/* where it was taken at transaction level */
	bool		at_session;		/* is it held at session level? */
	bool		unlocked_loss;	/* lost, and unlocked in this transaction */
	bool		may_be_loss;	/* likewise, or lost while it was unlocked */
} Taken;

static Taken taken[MAX_TAKEN];
static int	ntaken = 0;

static bool release_was_gone;	/* in this transaction */
static TimestampTz statement_began;
static int	losses_seen;		/* in this statement */
static int	losses_told;
static int64 guard_looks_after;
static uint32 guard_knows_master[MAX_HOLDS];
static uint64 lost_then[MAX_HOLDS]; /* by hold: owner, if it was lost then */

/* ----------
 * Taking and losing
 * ----------
 */

static Taken *
find(uint64 owner)
{
	for (int i = ntaken - 1; i >= 0; i--)
		if (taken[i].owner == owner)
			return &taken[i];
	return NULL;
}

/* By the levels at which it is held. */
static CommitGuard
guard_of(const Taken *t)
{
	CommitGuard guard = t->at_session ? t->guard[SCOPE_SESSION] : GUARD_OFF;

	return t->xact != InvalidSubTransactionId ? Max(guard, t->guard[SCOPE_XACT]) : guard;
}

void
ledger_taken(const HeldEntry *entry, LockScope scope, CommitGuard guard)
{
	uint64		owner = lt_holds[entry->hold].claim.owner;
	Taken	   *t = find(owner);

	if (t == NULL)
	{
		if (ntaken == MAX_TAKEN)
		{
			memmove(&taken[0], &taken[1], sizeof(Taken) * (MAX_TAKEN - 1));
			ntaken--;
		}
		t = &taken[ntaken++];
		t->owner = owner;
		t->sub = GetCurrentSubTransactionId();
		t->unlocked_loss = t->may_be_loss = false;
		t->at_session = false;
		t->xact = InvalidSubTransactionId;
	}

	/* One that was passed on within this server may come back as it was. */
	if (scope == SCOPE_SESSION && lt_holds[entry->hold].scope[SCOPE_SESSION].count == 1)
		t->at_session = false;
	if (scope == SCOPE_SESSION ? !t->at_session : t->xact == InvalidSubTransactionId)
		t->guard[scope] = GUARD_OFF;
	t->guard[scope] = Max(t->guard[scope], guard);
	if (scope == SCOPE_XACT && t->xact == InvalidSubTransactionId)
		t->xact = GetCurrentSubTransactionId();
	if (scope == SCOPE_SESSION && !t->at_session)
	{
		t->at_session = true;
		t->sub = GetCurrentSubTransactionId();
	}
}

void
ledger_retaken(const HeldEntry *entry, uint64 before)
{
	Taken	   *t = find(before);
	SubTransactionId sub = t == NULL ? InvalidSubTransactionId : t->sub;

	ledger_taken(entry, SCOPE_SESSION, lt_holds[entry->hold].scope[SCOPE_SESSION].guard);
	find(lt_holds[entry->hold].claim.owner)->sub = sub;
}

/* This session has given up a lock that was lost: it must be told. */
static void
note_loss(uint64 owner, CommitGuard guard)
{
	Taken	   *t = find(owner);

	/* At the end of a transaction or session nobody needs to know any more. */
	if (t == NULL || backend_must_not_raise != NULL || backend_exiting)
		return;
	losses_seen++;
	if (guard == GUARD_OFF || xact_depth() == 0)
		return;
	t->unlocked_loss = t->may_be_loss = true;
}

/* Linked before the product's own; see the Makefile. */
extern void __wrap_lt_drop_lost(LrIndex hold);
extern void __real_lt_drop_lost(LrIndex hold);

void
__wrap_lt_drop_lost(LrIndex hold)
{
	CommitGuard guard = GUARD_OFF;

	for (int i = 0; i < SCOPE_COUNT; i++)
		if (lt_holds[hold].scope[i].count > 0)
			guard = Max(guard, lt_holds[hold].scope[i].guard);
	if (!condition_is_awaited || lt_holds[hold].as.lost.reason != LOST_WAITING)
		note_loss(lt_holds[hold].claim.owner, guard);
	__real_lt_drop_lost(hold);
}

/* Whoever gets it next, on this server or elsewhere, reads what was committed under it. */
extern ReleaseStart __wrap_lt_begin_release(LrIndex hold, bool aside, HoldView *view);
extern ReleaseStart __real_lt_begin_release(LrIndex hold, bool aside, HoldView *view);

ReleaseStart
__wrap_lt_begin_release(LrIndex hold, bool aside, HoldView *view)
{
	if (xact_is_early)
		sim_fail("released early",
				 "%s, and what was done under it is not visible, or has locks of PostgreSQL",
				 lt_keys[lt_holds[hold].key].name);
	if (lr_kind(lt_holds[hold].kind)->passing)
		condition_acted(hold);
	return __real_lt_begin_release(hold, aside, view);
}

/* A release found nothing, whatever the store. */
extern uint32 __wrap_losses_add(int pid, const char *name, int len, const ScopeHold *scope,
								const LockLoss *loss);
extern uint32 __real_losses_add(int pid, const char *name, int len, const ScopeHold *scope,
								const LockLoss *loss);

/* The answer by which a lock is about to be lost wrongly; NULL = none. */
static const StoreOp *lost_by;

extern void __wrap_lt_lose(LrIndex hold, const StoreOp *op);
extern void __real_lt_lose(LrIndex hold, const StoreOp *op);

void
__wrap_lt_lose(LrIndex hold, const StoreOp *op)
{
	lost_by = op->moves != lt_moves(&lt_holds[hold]) ? op : NULL;
	__real_lt_lose(hold, op);
	lost_by = NULL;
}

/*
 * Under the partition lock.  What it was asked about is another store or master; it was
 * already when lt_lose() began, as that of a slot changes under another lock.
 */
static void
check_lost_by(const char *name, const ScopeHold *scope)
{
	const LrHold *h = (const LrHold *) ((const char *) scope - offsetof(LrHold, scope));

	if (scope < lt_holds[0].scope || h >= &lt_holds[lt_table->max_locks])
		return;					/* an orphan, whose release was sent */
	if (lost_by != NULL && lost_by->moves != lt_moves(h))
		sim_fail("lock table", "%s is lost by an answer of before it has moved", name);
	master_check_lost(h - lt_holds);
}

uint32
__wrap_losses_add(int pid, const char *name, int len, const ScopeHold *scope,
				  const LockLoss *loss)
{
	if (backend_locks_held() == 0)
		release_was_gone = true;
	else
	{
		check_lost_by(name, scope);
		if (loss->reason == LOST_EXPIRED)
			check_expiry(name, scope);
		check_rolling(name, scope);
	}
	return __real_losses_add(pid, name, len, scope, loss);
}

/* The session's part of a lock that the transaction has too. */
extern bool __wrap_lt_set_scope(LrIndex hold, LockScope scope, const ScopeHold *part,
								int64 deadline, uint64 moves);
extern bool __real_lt_set_scope(LrIndex hold, LockScope scope, const ScopeHold *part,
								int64 deadline, uint64 moves);

bool
__wrap_lt_set_scope(LrIndex hold, LockScope scope, const ScopeHold *part,
					int64 deadline, uint64 moves)
{
	const LrHold *h = &lt_holds[hold];
	Taken	   *t = find(h->claim.owner);

	if (t != NULL && scope == SCOPE_SESSION && part->count == 0 &&
		h->scope[SCOPE_SESSION].count > 0)
	{
		/*
		 * If not at session level, it was about to be taken there, and was not.
		 * One that is lost while it is given up was given up before, but may be
		 * taken for one that was not: the store says so after this.
		 */
		if (t->at_session)
		{
			t->may_be_loss = true;
			if (h->state == HOLD_LOST &&
				h->as.lost.at < statement_began)
				note_loss(h->claim.owner, guard_of(t));
		}
		t->at_session = false;
	}
	return __real_lt_set_scope(hold, scope, part, deadline, moves);
}

/*
 * Of several masters each has a batch of copies; what they are as one is that of whoever
 * asked.
 */
static const StoreBatch *asked[8];
static int	nasked = 0;

extern void __wrap_quorum_batch_start(NodeSet *s, StoreOp *ops, int nops, int64 deadline);
extern void __real_quorum_batch_start(NodeSet *s, StoreOp *ops, int nops, int64 deadline);

static bool
is_asked(const StoreBatch *b)
{
	for (int i = 0; i < nasked; i++)
		if (asked[i] == b)
			return true;
	return sim_config.masters == 0;
}

void
__wrap_quorum_batch_start(NodeSet *s, StoreOp *ops, int nops, int64 deadline)
{
	if (!is_asked(&s->batch))
	{
		Assert(nasked < lengthof(asked));
		asked[nasked++] = &s->batch;
	}
	__real_quorum_batch_start(s, ops, nops, deadline);
}

/* The store said that there was nothing to release. */
extern void __wrap_batch_settle(StoreBatch *b, StoreOp *op, StoreOutcome outcome);
extern void __real_batch_settle(StoreBatch *b, StoreOp *op, StoreOutcome outcome);

void
__wrap_batch_settle(StoreBatch *b, StoreOp *op, StoreOutcome outcome)
{
	Taken	   *t = is_asked(b) ? find(op->owner) : NULL;

	replica_check_answer(op, outcome);
	master_check_outcome(b, op, outcome);
	__real_batch_settle(b, op, outcome);
	if (t != NULL && op->kind == STORE_RELEASE && outcome == STORE_GONE)
		note_loss(op->owner, guard_of(t));
}

/*
 * ledger_job_ends --- the transaction has begun after its last commit, and done
 * nothing under its lock
 */
void
ledger_job_ends(void)
{
	for (int i = 0; i < ntaken; i++)
		taken[i].unlocked_loss = false;
}

/* ----------
 * Statements and transactions
 * ----------
 */

void
ledger_statement(void)
{
	statement_began = GetCurrentTimestamp();
	losses_seen = losses_told = 0;
}

/*
 * ledger_gave_up --- a call for several keys has them not: what it had of them
 * meanwhile, and lost, it would have given back
 */
void
ledger_gave_up(int seen_before)
{
	losses_seen = seen_before;
}

int
ledger_losses_seen(void)
{
	return losses_seen;
}

void
ledger_statement_ends(void)
{
	if (losses_seen > 0 && losses_told == 0)
		sim_fail("loss not told", "%d lost locks were dropped, and nobody was told",
				 losses_seen);
}

void
ledger_sub_ends(SubTransactionId sub, SubTransactionId parent, bool commit)
{
	for (int i = 0; i < ntaken; i++)
	{
		if (taken[i].xact == sub)
			taken[i].xact = commit ? parent : InvalidSubTransactionId;
		if (taken[i].sub != sub)
			continue;
		taken[i].sub = parent;
		if (!commit)
			taken[i].unlocked_loss = taken[i].may_be_loss = false;
	}
}

void
ledger_transaction_ends(void)
{
	release_was_gone = false;
	for (int i = 0; i < ntaken; i++)
	{
		taken[i].sub = taken[i].xact = InvalidSubTransactionId;
		taken[i].unlocked_loss = taken[i].may_be_loss = false;
	}
}

/* ----------
 * The guard
 * ----------
 */

/*
 * look --- what the guard, which looks after this, has to know of
 *
 * A loss is known when it is counted, which is a moment after it is seen in the
 * hold.
 */
static void
look(void)
{
	uint32		n = 0;
	uint32		known;

	Assert(lt_table->max_locks <= MAX_HOLDS);
	guard_looks_after = sim_now();
	memset(guard_knows_master, 0, sizeof(guard_knows_master));
	known = topology_epoch();
	memset(lost_then, 0, sizeof(lost_then));
	for (LrIndex i = 0; i < lt_table->max_locks; i++)
		if (lt_holds[i].session == LrMyProcNumber && lt_holds[i].state == HOLD_HELD)
		{
			uint32		epoch = lt_epoch_of(lt_holds[i].key);

			/* A change that is being made is known when all of it is. */
			guard_knows_master[i] = epoch <= known ? epoch : 0;
		}
	for (LrIndex i = 0; i < lt_table->max_locks; i++)
		if (lt_holds[i].session == LrMyProcNumber && lt_holds[i].state == HOLD_LOST)
		{
			lost_then[i] = lt_holds[i].claim.owner;
			n++;
		}
	if (n != lt_sessions[LrMyProcNumber].nlost.value)
		memset(lost_then, 0, sizeof(lost_then));
}

void
ledger_guard_begins(void)
{
	look();
}

void
ledger_waited(void)
{
	look();
}

extern void __real_lt_raise_deadline(LrIndex hold, int64 deadline, uint64 moves);
extern void __wrap_lt_raise_deadline(LrIndex hold, int64 deadline, uint64 moves);

/* An answer is applied: the guard judges all anew. */
void
__wrap_lt_raise_deadline(LrIndex hold, int64 deadline, uint64 moves)
{
	__real_lt_raise_deadline(hold, deadline, moves);
	look();
}

static bool
has_xid(void)
{
	return TransactionIdIsValid(GetTopTransactionIdIfAny());
}

static bool
is_guarded(const LrHold *h)
{
	CommitGuard guard = GUARD_OFF;

	for (int i = 0; i < SCOPE_COUNT; i++)
		if (h->scope[i].count > 0)
			guard = Max(guard, h->scope[i].guard);
	return guard != GUARD_OFF && (h->scope[SCOPE_XACT].count > 0 || has_xid());
}

/* When it was lost, or its lease has ended or will end. */
static int64
end_of(LrIndex hold)
{
	const LrHold *h = &lt_holds[hold];

	if (h->state == HOLD_LOST)
		return h->as.lost.at - (GetCurrentTimestamp() - sim_now());
	if (h->state == HOLD_HELD)
		return server_time(lt_deadline(hold));
	return SIM_NEVER;
}

static bool
has_unlocked_loss(void)
{
	for (int i = 0; i < ntaken; i++)
		if (taken[i].unlocked_loss)
			return true;
	return false;
}

/* So much of a lease has to be left at a commit, or its store is asked. */
static int64
asks_from(LrIndex i)
{
	return server_time(lt_deadline(i) -
					   lr_commit_margin(lt_longest_lease_ms(lt_holds[i].scope) * LR_US_PER_MS));
}

void
ledger_guard_passed(void)
{
	if (has_xid() && has_unlocked_loss())
		sim_fail("commit under a loss",
				 "a lost lock was unlocked in this transaction, which commits");
	for (LrIndex i = 0; i < lt_table->max_locks; i++)
	{
		const LrHold *h = &lt_holds[i];

		if (h->session != LrMyProcNumber ||
			(h->state != HOLD_HELD && h->state != HOLD_LOST) || !is_guarded(h))
			continue;
		if (h->state == HOLD_LOST ? lost_then[i] == h->claim.owner :
			end_of(i) < guard_looks_after)
			sim_fail("commit under a loss",
					 "%s was lost %.3f ms before the guard looked last, and the commit goes on",
					 lt_keys[h->key].name, (guard_looks_after - end_of(i)) / 1000.0);
		if (h->state == HOLD_HELD && asks_from(i) <= guard_looks_after)
			sim_fail("commit under a loss",
					 "%s was to end %.3f ms after the guard looked last, and was not asked about",
					 lt_keys[h->key].name, (end_of(i) - guard_looks_after) / 1000.0);
		if ((sim_config.sentinels || sim_config.cluster) && h->state == HOLD_HELD &&
			h->claim.store == STORE_REDIS && h->claim.topology < guard_knows_master[i])
			sim_fail("former master",
					 "%s was not asked about at the master that was known when the guard looked last, and the commit goes on",
					 lt_keys[h->key].name);
	}
}

/*
 * Is there a lock that makes this commit fail?  One that is lost and whose
 * session is signalled for that does so even if it is not guarded.
 */
static bool
has_cause(void)
{
	if (release_was_gone)
		return true;

	/* It was judged, then somebody was stopped, and meanwhile it was renewed. */
	if (sim_unstopped_since() >= xact_guard_since)
		return true;
	for (int i = 0; i < ntaken; i++)
		if (taken[i].may_be_loss)
			return true;
	for (LrIndex i = 0; i < lt_table->max_locks; i++)
	{
		const LrHold *h = &lt_holds[i];

		if (h->session != LrMyProcNumber)
			continue;
		if (h->state == HOLD_LOST ||
			(is_guarded(h) && end_of(i) < sim_now() + SIM_S))
			return true;

		/* Another node is the master, and it was not asked. */
		if ((sim_config.sentinels || sim_config.cluster) && is_guarded(h) &&
			h->claim.topology != lt_epoch_of(h->key))
			return true;
	}
	return false;
}

void
ledger_told(int elevel, int sqlstate, const char *message)
{
	/* A statement that was cut short says so; the loss is in the server log. */
	if (elevel >= ERROR || (elevel >= WARNING && strstr(message, "lost") != NULL))
		losses_told++;
	if (elevel >= ERROR && xact_in_pre_commit &&
		strstr(message, "could not commit") != NULL && !has_cause())
		sim_fail("refused without a cause", "%s", message);
}
