/*-------------------------------------------------------------------------
 *
 * sessions.c
 *	  The lock table: slots of sessions, how they are woken and signalled; losses for the
 *	  server log.
 *
 * A process that changes a key under its partition lock notes in a WakeList which
 * sessions can go on, and wakes them after it has released the lock.  A session that
 * has lost a lock may have to be signalled (lockredis.on_lost); a lock for each few
 * sessions guards that, so that none is signalled once its commit has begun.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/locktable/sessions.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include <signal.h>

#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "locktable/locktable_int.h"

typedef struct Loser
{
	LrIndex		session;
	int			pid;
	OnLost		on_lost;
} Loser;

/* The lists that belong to a WakeList, and who is in the first; see lt_make_wake_room(). */
static LrIndex *wake_room = NULL;
static bool *in_wake_room = NULL;
static Loser *losers = NULL;

/* ----------
 * Slots
 * ----------
 */

void
lt_session_enter(void)
{
	LrSession  *s = &lt_sessions[LrMyProcNumber];

	lt_make_wake_room();
	s->datid = MyDatabaseId;
	s->userid = GetAuthenticatedUserId();
	s->wait.state = WAIT_NONE;
	pg_atomic_write_u32(&s->nlost, 0);
	s->stocked_rows = 0;
	s->committing = false;
	s->signalled = false;
	s->pid = MyProcPid;
}

/*
 * lt_session_leave --- from now on nobody may signal this process
 */
void
lt_session_leave(void)
{
	LWLock	   *lock = lt_signal_lock(LrMyProcNumber);

	lt_check_session_end();
	LWLockAcquire(lock, LW_EXCLUSIVE);
	lt_sessions[LrMyProcNumber].pid = 0;
	LWLockRelease(lock);
}

/* ----------
 * Waking
 * ----------
 */

/*
 * lt_make_wake_room --- allocate what a process needs to wake others
 *
 * A release can let all sessions go on that wait for the key, if they can have it
 * together, and nothing can be allocated under a partition lock.
 */
void
lt_make_wake_room(void)
{
	if (wake_room != NULL)
		return;
	in_wake_room = MemoryContextAllocZero(TopMemoryContext, sizeof(bool) * lt_table->nsessions);
	losers = MemoryContextAlloc(TopMemoryContext, sizeof(Loser) * lt_table->nsessions);
	wake_room = MemoryContextAlloc(TopMemoryContext, sizeof(LrIndex) * lt_table->nsessions);
}

/*
 * lt_add_to_wake --- the session can go on
 */
void
lt_add_to_wake(WakeList *wakes, LrIndex session)
{
	if (in_wake_room[session])
		return;
	in_wake_room[session] = true;
	wake_room[wakes->nsessions++] = session;
}

/*
 * lt_add_loser --- the session has to be signalled; once, whatever it has lost
 */
void
lt_add_loser(WakeList *wakes, LrIndex session, OnLost on_lost)
{
	int			i = 0;

	while (i < wakes->nlosers && losers[i].session != session)
		i++;
	if (i == wakes->nlosers)
		losers[wakes->nlosers++] = (Loser) {session, lt_sessions[session].pid, on_lost};
	losers[i].on_lost = Max(losers[i].on_lost, on_lost);
}

void
lt_wake_session(LrIndex session)
{
	SetLatch(&GetPGProcByNumber(session)->procLatch);
}

/*
 * sessions_signal --- lockredis.on_lost: end the statement or the session
 *
 * Never once its transaction is past pre-commit: it could only be interrupted in the
 * wait for a synchronous standby then, which would not undo its commit.
 */
static void
sessions_signal(const Loser *loser)
{
	LrSession  *s = &lt_sessions[loser->session];
	LWLock	   *lock = lt_signal_lock(loser->session);

	LWLockAcquire(lock, LW_EXCLUSIVE);
	if (s->pid == loser->pid && !s->committing &&
		pg_atomic_read_u32(&s->nlost) > 0)
	{
		s->signalled = true;
		(void) kill(loser->pid,
					loser->on_lost == ON_LOST_TERMINATE ? SIGTERM : SIGINT);
	}
	LWLockRelease(lock);
}

/*
 * lt_wake --- wake the sessions of the list; never under a lock
 *
 * This process looks before it sleeps, and sees its own losses.
 */
void
lt_wake(const WakeList *wakes)
{
	for (int i = 0; i < wakes->nsessions; i++)
	{
		in_wake_room[wake_room[i]] = false;
		if (wake_room[i] != LrMyProcNumber)
			lt_wake_session(wake_room[i]);
	}
	if (wakes->watchdog)
		lr_wake_watchdog();
	for (int i = 0; i < wakes->nlosers; i++)
		if (losers[i].session != LrMyProcNumber)
			sessions_signal(&losers[i]);
}

/*
 * lt_unlock --- release the lock, then wake the sessions that can go on
 */
void
lt_unlock(LWLock *lock, const WakeList *wakes)
{
	lt_check_change(lock);
	LWLockRelease(lock);
	lt_wake(wakes);
}

/*
 * lt_wake_all_waiters --- all look again: the watchdog ends, or another store is in use
 */
void
lt_wake_all_waiters(void)
{
	for (LrIndex i = 0; i < lt_table->nsessions; i++)
		if (lt_wait_of(i)->state != WAIT_NONE)
			lt_wake_session(i);
}

/* ----------
 * Commit and losses of this session
 * ----------
 */

static void
sessions_mark_committing(bool committing)
{
	LrSession  *s = &lt_sessions[LrMyProcNumber];
	LWLock	   *lock = lt_signal_lock(LrMyProcNumber);

	LWLockAcquire(lock, LW_EXCLUSIVE);
	s->committing = committing;
	LWLockRelease(lock);
}

void
lt_begin_commit(void)
{
	sessions_mark_committing(true);
}

void
lt_end_commit(void)
{
	sessions_mark_committing(false);
}

/*
 * sessions_let_signals_arrive --- run the handlers of signals sent to this process
 *
 * When kill() returns, the signal is pending, but another process may not have run its
 * handler yet.  To unblock a pending signal does that: at least one is delivered before
 * sigprocmask() returns, and there are two kinds.
 */
static void
sessions_let_signals_arrive(void)
{
	sigset_t	signals;
	sigset_t	before;

	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	for (int i = 0; i < 2; i++)
	{
		sigprocmask(SIG_BLOCK, &signals, &before);
		sigprocmask(SIG_SETMASK, &before, NULL);
	}
}

/*
 * lt_take_signal --- see locktable.h
 *
 * "signalled" is set before a signal is sent, under the signal lock.  So what is not
 * found here has not been sent yet.
 */
bool
lt_take_signal(void)
{
	LrSession  *s = &lt_sessions[LrMyProcNumber];
	LWLock	   *lock = lt_signal_lock(LrMyProcNumber);

	/* Look without the lock first: nearly always there was none. */
	if (!s->signalled)
		return false;
	LWLockAcquire(lock, LW_EXCLUSIVE);
	s->signalled = false;
	LWLockRelease(lock);
	sessions_let_signals_arrive();
	return true;
}

int
lt_lost_count(void)
{
	return (int) pg_atomic_read_u32(&lt_sessions[LrMyProcNumber].nlost);
}

/* ----------
 * Losses that are not in the server log yet
 *
 * A process that finds a loss may not log it: it holds a partition lock, or is at
 * the end of a transaction or of its life, where a message could raise.  So it
 * writes a plain record of the loss into a ring in shared memory, and the watchdog
 * logs it (watchdog/health.c).  A new watchdog goes on with the records in the ring.
 *
 * The lock of the ring may be taken while a partition lock is held.
 * ----------
 */

void
losses_note(LockLoss *loss, LostReason reason, const char *taken_by)
{
	loss->reason = reason;
	loss->at = GetCurrentTimestamp();
	strlcpy(loss->taken_by, taken_by ? taken_by : "", LR_OWNER_MAX);
}

/*
 * losses_fill --- fill a record, with the stricter on_lost of both scopes
 */
static void
losses_fill(LossRecord *r, int pid, const char *name, int len,
			const ScopeHold *scope, const LockLoss *loss)
{
	r->pid = pid;
	r->lost = *loss;
	r->on_lost = ON_LOST_MARK;
	for (int i = 0; i < SCOPE_COUNT; i++)
	{
		r->in_scope[i] = scope[i].count > 0;
		if (r->in_scope[i])
			r->on_lost = Max(r->on_lost, scope[i].on_lost);
	}
	r->name_len = len;
	memcpy(r->name, name, len);
}

/*
 * losses_add --- add a record; if the ring is full, only count the loss
 */
void
losses_add(int pid, const char *name, int len, const ScopeHold *scope,
		   const LockLoss *loss)
{
	uint32		n;

	LWLockAcquire(lt_losses_lock(), LW_EXCLUSIVE);
	n = pg_atomic_read_u32(&lt_table->losses.n);
	if (n < LT_LOSSES)
	{
		losses_fill(&lt_table->losses.ring[(lt_table->losses.first + n) % LT_LOSSES], pid, name,
					len, scope, loss);
		pg_atomic_write_u32(&lt_table->losses.n, n + 1);
	}
	else
		pg_atomic_fetch_add_u64(&lt_table->losses.left_out, 1);
	LWLockRelease(lt_losses_lock());
}

/*
 * losses_any --- are there records in the ring?
 */
bool
losses_any(void)
{
	return pg_atomic_read_u32(&lt_table->losses.n) > 0;
}

/*
 * losses_take --- see watch.h
 *
 * Only the watchdog takes records, so a record that it has seen without the lock is
 * still there.
 */
bool
losses_take(LossRecord *r)
{
	uint32		n;

	if (!losses_any())
		return false;
	LWLockAcquire(lt_losses_lock(), LW_EXCLUSIVE);
	n = pg_atomic_read_u32(&lt_table->losses.n);
	*r = lt_table->losses.ring[lt_table->losses.first];
	lt_table->losses.first = (lt_table->losses.first + 1) % LT_LOSSES;
	pg_atomic_write_u32(&lt_table->losses.n, n - 1);
	LWLockRelease(lt_losses_lock());
	return true;
}

void
losses_leave_out(void)
{
	pg_atomic_fetch_add_u64(&lt_table->losses.left_out, 1);
}

bool
losses_any_left_out(void)
{
	return pg_atomic_read_u64(&lt_table->losses.left_out) > 0;
}

uint64
losses_take_left_out(void)
{
	return pg_atomic_exchange_u64(&lt_table->losses.left_out, 0);
}
