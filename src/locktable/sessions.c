/*-------------------------------------------------------------------------
 *
 * sessions.c
 *	  The lock table: slots of sessions, whom to wake and whom to signal.
 *
 * Whoever changes a key under its partition lock notes in a WakeList who can go on
 * now, and wakes them when the lock is released.  Who has lost a lock may have to be
 * told by a signal (lockredis.on_lost); a lock for each few sessions guards that, so
 * that nobody is signalled once his commit has begun.
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

#include "locktable/hold.h"
#include "locktable/locktable_int.h"
#include "locktable/watch.h"

LrIndex    *lt_wake_room = NULL;

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
	s->committing = false;
	s->signalled = false;
	s->pid = MyProcPid;
}

/*
 * lt_session_leave --- nobody may signal this process from here on
 */
void
lt_session_leave(void)
{
	LWLock	   *lock = lt_signal_lock(LrMyProcNumber);

	LWLockAcquire(lock, LW_EXCLUSIVE);
	lt_sessions[LrMyProcNumber].pid = 0;
	LWLockRelease(lock);
}

/* ----------
 * Waking
 * ----------
 */

/*
 * lt_make_wake_room --- what a process needs before it can wake others
 */
void
lt_make_wake_room(void)
{
	if (lt_wake_room == NULL)
		lt_wake_room = MemoryContextAlloc(TopMemoryContext,
										  sizeof(LrIndex) * lt_table->nsessions);
}

void
lt_wake_session(LrIndex session)
{
	SetLatch(&GetPGProcByNumber(session)->procLatch);
}

/*
 * signal_loser --- lockredis.on_lost: end the statement or the session
 *
 * Never once its transaction is past pre-commit: it could only be cut in the
 * wait for a synchronous standby then, which would not undo its commit.
 */
static void
signal_loser(const WakeList *wakes)
{
	LrSession  *s = &lt_sessions[wakes->loser];
	LWLock	   *lock = lt_signal_lock(wakes->loser);

	LWLockAcquire(lock, LW_EXCLUSIVE);
	if (s->pid == wakes->loser_pid && !s->committing &&
		pg_atomic_read_u32(&s->nlost) > 0)
	{
		s->signalled = true;
		(void) kill(wakes->loser_pid, wakes->on_lost == ON_LOST_TERMINATE ? SIGTERM : SIGINT);
	}
	LWLockRelease(lock);
}

/* Never under a lock. */
void
lt_wake(const WakeList *wakes)
{
	if (wakes->session != LR_NONE)
		lt_wake_session(wakes->session);
	if (wakes->watchdog)
		lr_wake_watchdog();
	if (wakes->loser != LR_NONE && wakes->loser != LrMyProcNumber)
		signal_loser(wakes);
}

/*
 * lt_unlock --- and wake those who can go on: never under the lock
 */
void
lt_unlock(LWLock *lock, const WakeList *wakes)
{
	LWLockRelease(lock);
	lt_wake(wakes);
}

/*
 * lt_wake_all_waiters --- everybody looks again (the watchdog goes away)
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
mark_committing(bool committing)
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
	mark_committing(true);
}

void
lt_end_commit(void)
{
	mark_committing(false);
}

/*
 * let_signals_arrive --- run the handlers of what was sent to this process
 *
 * kill() has made the signal pending when it returns, but does not wait until
 * another process has run its handler.  To unblock a pending signal does: at
 * least one is delivered before sigprocmask() returns, and there are two kinds.
 */
static void
let_signals_arrive(void)
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
 * lt_take_signal --- see hold.h
 *
 * Whoever sends one holds the signal lock meanwhile, so what is not found here
 * has not been sent yet.
 */
bool
lt_take_signal(void)
{
	LrSession  *s = &lt_sessions[LrMyProcNumber];
	LWLock	   *lock = lt_signal_lock(LrMyProcNumber);

	/* A look without the lock: nearly always there was none. */
	if (!s->signalled)
		return false;
	LWLockAcquire(lock, LW_EXCLUSIVE);
	s->signalled = false;
	LWLockRelease(lock);
	let_signals_arrive();
	return true;
}

int
lt_lost_count(void)
{
	return (int) pg_atomic_read_u32(&lt_sessions[LrMyProcNumber].nlost);
}

/* ----------
 * The watchdog's presence
 * ----------
 */
