/*-------------------------------------------------------------------------
 *
 * graph.c
 *	  The lock table as a part of the wait-for graph.
 *
 * A session in a key's queue waits for the session of this server that has the
 * key.  That it also waits for those ahead of it in the queue is left out:
 * they wait for the same holder and for nothing else, so a cycle through one
 * of them is one without it too.  (Parallel workers of one of them may wait for
 * somebody else, but that keeps nobody from the key before it has it.)  This
 * way each session has one edge at most, all sessions of a queue have the same
 * one, and one of them can search for all.
 *
 * All here are copies of single moments.  What makes a cycle out of them is in
 * deadlock.c.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/locktable/graph.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "locktable/graph.h"
#include "locktable/locktable_int.h"

/*
 * holder_of --- the hold that keeps others of this server from the key
 *
 * As lt_live_hold(), which marks what has expired; this one only passes it
 * over.  Partition lock held, shared is enough.
 */
static LrIndex
holder_of(const LrKey *key, int64 now)
{
	for (LrIndex i = key->first_hold; i != LR_NONE; i = lt_holds[i].next)
	{
		HoldState	state = lt_holds[i].state;

		if ((state == HOLD_HELD || state == HOLD_RELEASING ||
			 state == HOLD_HANDED) &&
			lt_deadline(i) > now)
			return i;
	}
	return LR_NONE;
}

static void
copy_wait(LrIndex session, LrIndex hold, KeyWait *wait)
{
	const LrSession *s = &lt_sessions[session];
	const LrKey *key = &lt_keys[s->wait.key];
	const LrHold *h = &lt_holds[hold];

	wait->pid = s->pid;
	wait->userid = s->userid;
	wait->generation = s->wait.generation;
	wait->scope = s->wait.terms.scope;
	wait->hold = hold;
	wait->owner = h->owner;
	wait->holder = h->session;
	wait->holder_pid = lt_sessions[h->session].pid;
	wait->name_len = key->name_len;
	memcpy(wait->name, key->name, key->name_len);
}

/*
 * lock_awaited_key --- the lock of the partition of the key that it waits for
 *
 * Acquired in shared mode; NULL, and nothing is acquired, if it does not wait.
 * While the lock is held the wait cannot end.
 */
static LWLock *
lock_awaited_key(LrIndex session)
{
	const LrWait *w = &lt_sessions[session].wait;
	uint32		hash = w->hash;
	LWLock	   *lock;

	if (w->state != WAIT_QUEUED)
		return NULL;
	lock = lt_partition(hash);
	LWLockAcquire(lock, LW_SHARED);
	if (w->state == WAIT_QUEUED && w->hash == hash)
		return lock;
	LWLockRelease(lock);
	return NULL;
}

bool
lt_key_wait(LrIndex session, KeyWait *wait)
{
	LWLock	   *lock = lock_awaited_key(session);
	LrIndex		hold;

	if (lock == NULL)
		return false;
	hold = holder_of(&lt_keys[lt_sessions[session].wait.key], lr_now());
	if (hold != LR_NONE)
		copy_wait(session, hold, wait);
	LWLockRelease(lock);
	return hold != LR_NONE;
}

uint64
lt_wait_generation(LrIndex session)
{
	const LrWait *w = &lt_sessions[session].wait;

	return w->state == WAIT_QUEUED ? w->generation : 0;
}

/*
 * lt_begin_search --- true: this session is the one who does it
 *
 * Without a key there is nothing to search from.
 */
bool
lt_begin_search(int64 interval, int64 *ask_again)
{
	const LrWait *w = &lt_sessions[LrMyProcNumber].wait;
	int64		now = lr_now();
	LWLock	   *lock;
	LrKey	   *key;
	bool		begin = false;

	*ask_again = now + interval;
	if (w->state != WAIT_QUEUED)
		return false;
	lock = lt_partition(w->hash);
	LWLockAcquire(lock, LW_EXCLUSIVE);
	if (w->state == WAIT_QUEUED)
	{
		key = &lt_keys[w->key];
		begin = key->searched_at + interval <= now;
		if (begin)
			key->searched_at = now;
		else
			*ask_again = key->searched_at + interval;
	}
	LWLockRelease(lock);
	return begin;
}

/*
 * lt_suspect_waiter --- without a lock: only that session acts on the number,
 * and only while it is that of its present wait
 */
void
lt_suspect_waiter(LrIndex session, uint64 generation)
{
	lt_sessions[session].wait.suspected = generation;
	lt_wake_session(session);
}

bool
lt_is_suspected(void)
{
	const LrWait *w = &lt_sessions[LrMyProcNumber].wait;

	return w->suspected != 0 && w->suspected == w->generation;
}

/*
 * lt_take_suspicion --- to be asked before the search, so that one that comes
 * meanwhile is not lost
 */
bool
lt_take_suspicion(void)
{
	bool		suspected = lt_is_suspected();

	lt_sessions[LrMyProcNumber].wait.suspected = 0;
	return suspected;
}

/*
 * lt_claim_deadlock --- one of a cycle, and no other one, breaks it
 *
 * All who find a cycle come through here one by one.  The first one is marked
 * as leaving.  For the others the cycle is broken then: its wait is marked, or
 * over, or another one already.
 */
bool
lt_claim_deadlock(const LrIndex *sessions, const uint64 *generations, int n)
{
	LrWait	   *self = &lt_sessions[LrMyProcNumber].wait;
	bool		unbroken = true;

	LWLockAcquire(lt_deadlock_lock(), LW_EXCLUSIVE);
	for (int i = 0; unbroken && i < n; i++)
		unbroken = lt_wait_generation(sessions[i]) == generations[i] &&
			(generations[i] == 0 ||
			 lt_sessions[sessions[i]].wait.leaving != generations[i]);
	if (unbroken)
		self->leaving = self->generation;
	LWLockRelease(lt_deadlock_lock());
	return unbroken;
}

/*
 * lt_own_queue --- who has, and who awaits, the key that this session awaits
 */
bool
lt_own_queue(int *pids, int room, int *npids, int *holder_pid)
{
	LWLock	   *lock = lock_awaited_key(LrMyProcNumber);
	const LrKey *key;
	LrIndex		hold;

	if (lock == NULL)
		return false;
	key = &lt_keys[lt_sessions[LrMyProcNumber].wait.key];
	hold = holder_of(key, lr_now());
	*holder_pid = hold == LR_NONE ? 0 :
		lt_sessions[lt_holds[hold].session].pid;
	*npids = 0;
	for (LrIndex s = key->queue_head; s != LR_NONE && *npids < room;
		 s = lt_sessions[s].wait.next)
		pids[(*npids)++] = lt_sessions[s].pid;
	LWLockRelease(lock);
	return true;
}
