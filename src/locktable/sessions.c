/*-------------------------------------------------------------------------
 *
 * sessions.c
 *	  The lock table: slots of sessions, how partitions are locked, and sessions woken and
 *	  signalled; losses for the server log.
 *
 * A process that changes a key under its partition lock notes which sessions can go on,
 * and wakes them after it has released the lock.  A session that has lost a lock may
 * have to be signalled (lockredis.on_lost); a lock for each few sessions guards that, so
 * that none is signalled once its commit has begun.
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

/* The partition that this process has locked; it never has two. */
static LWLock *locked = NULL;

/* What it has to do for a session after that: wake it, and signal it if it has lost a lock. */
typedef struct WakeUp
{
	bool		listed;			/* in to_wake */
	OnLost		on_lost;
	int			pid;			/* of the session that has lost it */
} WakeUp;

/* By session, and those that are listed; see lt_make_wake_room(). */
static WakeUp *wake_ups = NULL;
static LrIndex *to_wake = NULL;
static int	nto_wake = 0;
static bool wakes_watchdog = false;

/* Several sessions share one. */
static LWLock *
sessions_signal_lock(LrIndex session)
{
	return lt_lwlock(LT_SIGNAL_LOCK + session % LT_SIGNAL_LOCKS);
}

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
	LWLock	   *lock = sessions_signal_lock(LrMyProcNumber);

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
	if (to_wake != NULL)
		return;
	wake_ups = MemoryContextAllocZero(TopMemoryContext, sizeof(WakeUp) * lt_table->nsessions);
	to_wake = MemoryContextAlloc(TopMemoryContext, sizeof(LrIndex) * lt_table->nsessions);
}

/*
 * lt_add_to_wake --- the session can go on
 */
void
lt_add_to_wake(LrIndex session)
{
	if (wake_ups[session].listed)
		return;
	wake_ups[session] = (WakeUp) {.listed = true, .on_lost = ON_LOST_MARK};
	to_wake[nto_wake++] = session;
}

/*
 * lt_nudge --- a session may look again, and notes that until it does
 */
void
lt_nudge(LrIndex session)
{
	if (lt_wait_of(session)->woken_at == 0)
		lt_wait_of(session)->woken_at = lr_now();
	lt_add_to_wake(session);
}

/*
 * lt_add_loser --- the session has to be signalled; once, whatever it has lost
 */
void
lt_add_loser(LrIndex session, OnLost on_lost)
{
	lt_add_to_wake(session);
	wake_ups[session].on_lost = Max(wake_ups[session].on_lost, on_lost);
	wake_ups[session].pid = lt_sessions[session].pid;
}

void
lt_add_watchdog(void)
{
	wakes_watchdog = true;
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
sessions_signal(LrIndex session)
{
	const WakeUp *loser = &wake_ups[session];
	LrSession  *s = &lt_sessions[session];
	LWLock	   *lock = sessions_signal_lock(session);

	LWLockAcquire(lock, LW_EXCLUSIVE);
	if (s->pid == loser->pid && !s->committing)
	{
		/* First, for lt_take_signal: the session may be about to drop its last loss. */
		s->signalled = true;
		pg_memory_barrier();
		if (pg_atomic_read_u32(&s->nlost) > 0)
			(void) kill(loser->pid,
						loser->on_lost == ON_LOST_TERMINATE ? SIGTERM : SIGINT);
	}
	LWLockRelease(lock);
}

/*
 * sessions_wake --- wake those that can go on; never under a lock
 *
 * This process looks before it sleeps, and sees its own losses.
 */
static void
sessions_wake(void)
{
	for (int i = 0; i < nto_wake; i++)
	{
		LrIndex		session = to_wake[i];

		wake_ups[session].listed = false;
		if (session == LrMyProcNumber)
			continue;
		lt_wake_session(session);
		if (wake_ups[session].on_lost != ON_LOST_MARK)
			sessions_signal(session);
	}
	if (wakes_watchdog)
		lr_wake_watchdog();
	nto_wake = 0;
	wakes_watchdog = false;
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
 * Partition locks
 * ----------
 */

/*
 * lt_lock --- lock the partition of the keys with that hash, to change it
 */
void
lt_lock(uint32 hash)
{
	locked = lt_lwlock(hash % LT_PARTITIONS);
	LWLockAcquire(locked, LW_EXCLUSIVE);
}

/*
 * lt_lock_shared --- likewise, only to read
 */
void
lt_lock_shared(uint32 hash)
{
	locked = lt_lwlock(hash % LT_PARTITIONS);
	LWLockAcquire(locked, LW_SHARED);
}

/*
 * lt_lock_hold --- lock the partition of a hold of this session; its key cannot change
 */
void
lt_lock_hold(LrIndex hold)
{
	lt_lock(lt_key_of(hold)->hash);
}

/*
 * lt_lock_owned --- likewise for a hold of any session, if it still has that owner
 *
 * False: the slot has another key or owner by now, and nothing is locked.
 */
bool
lt_lock_owned(LrIndex hold, uint64 owner)
{
	uint32		hash = lt_key_of(hold)->hash;

	lt_lock(hash);
	if (lt_key_of(hold)->hash == hash && lt_holds[hold].claim.owner == owner)
		return true;
	LWLockRelease(locked);
	return false;
}

/*
 * lt_lock_slot --- likewise, whatever owner it has; false: it has none, or another one by
 * now
 */
bool
lt_lock_slot(LrIndex hold)
{
	uint64		owner = lt_holds[hold].claim.owner;

	return owner != 0 && lt_lock_owned(hold, owner);
}

/*
 * lt_unlock --- release the lock, then wake the processes that can go on
 */
void
lt_unlock(void)
{
	lt_check_change(locked);
	LWLockRelease(locked);
	sessions_wake();
}

/* ----------
 * Commit and losses of this session
 * ----------
 */

void
lt_mark_committing(bool committing)
{
	LrSession  *s = &lt_sessions[LrMyProcNumber];
	LWLock	   *lock = sessions_signal_lock(LrMyProcNumber);

	LWLockAcquire(lock, LW_EXCLUSIVE);
	s->committing = committing;
	LWLockRelease(lock);
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
	LWLock	   *lock = sessions_signal_lock(LrMyProcNumber);

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

static LossRecord *
losses_record(uint32 number)
{
	return &lt_table->losses.ring[number % LT_LOSSES];
}

/*
 * losses_new --- how many records has the watchdog yet to take?
 */
static uint32
losses_new(void)
{
	return pg_atomic_read_u32(&lt_table->losses.added) -
		pg_atomic_read_u32(&lt_table->losses.taken);
}

/*
 * losses_add --- add a record and return its number; if the ring is full, only count the
 * loss
 */
uint32
losses_add(int pid, const char *name, int len, const ScopeHold *scope,
		   const LockLoss *loss)
{
	uint32		number = 0;

	LWLockAcquire(lt_lwlock(LT_LOSSES_LOCK), LW_EXCLUSIVE);
	if (losses_new() < LT_LOSSES)
	{
		number = pg_atomic_add_fetch_u32(&lt_table->losses.added, 1);
		losses_fill(losses_record(number), pid, name, len, scope, loss);
	}
	else
		pg_atomic_fetch_add_u64(&lt_table->losses.left_out, 1);
	LWLockRelease(lt_lwlock(LT_LOSSES_LOCK));
	return number;
}

/*
 * losses_find --- copy the loss of a record, unless a later one has its room by now
 */
void
losses_find(uint32 number, LockLoss *loss)
{
	LWLockAcquire(lt_lwlock(LT_LOSSES_LOCK), LW_SHARED);
	if (number != 0 && pg_atomic_read_u32(&lt_table->losses.added) - number < LT_LOSSES)
		*loss = losses_record(number)->lost;
	LWLockRelease(lt_lwlock(LT_LOSSES_LOCK));
}

/*
 * losses_any --- are there records to be logged?
 */
bool
losses_any(void)
{
	return losses_new() > 0;
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
	if (!losses_any())
		return false;
	LWLockAcquire(lt_lwlock(LT_LOSSES_LOCK), LW_EXCLUSIVE);
	*r = *losses_record(pg_atomic_add_fetch_u32(&lt_table->losses.taken, 1));
	LWLockRelease(lt_lwlock(LT_LOSSES_LOCK));
	return true;
}

uint64
losses_take_left_out(void)
{
	return pg_atomic_exchange_u64(&lt_table->losses.left_out, 0);
}
