/*-------------------------------------------------------------------------
 *
 * sent.c
 *	  The lock table: releases whose answer their session does not await
 *	  (lockredis.release_wait).
 *
 * As soon as the release is sent, the hold is an orphan.  The watchdog repeats the
 * release if the session has not read the answer after SENT_REPEAT.  That is harmless,
 * as a release checks the owner, and no owner is used twice.  Meanwhile the session
 * itself may ask for the key again, since its request follows the release on the same
 * connection.  The other sessions of this server wait for the answer; the first one
 * that waits has the release repeated at once.
 *
 *	 A sends the release of a, returns		the node runs it; the answer lies in A's socket
 *	 B wants the key: a is due now
 *											watchdog: repeats the release of a: gone
 *	 B is woken, asks, takes the key as b
 *	 A asks for something, reads its answer: the hold is not a's any more
 *
 * If a release runs twice, the second answer is that the owner is gone.  So that
 * answer, read by the session, means a loss only if nothing was repeated before.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/locktable/sent.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "locktable/hold.h"
#include "locktable/locktable_int.h"
#include "locktable/losses.h"
#include "stats.h"

/* If the session has not read the answer after this, the watchdog repeats the release. */
#define SENT_REPEAT			(100 * LR_US_PER_MS)

/* Other sessions wait for an answer no longer than this. */
#define SENT_PATIENCE		LR_US_PER_S

/* The answer wakes no session that waits in the order of the store, so that one polls. */
#define SENT_POLL			(10 * LR_US_PER_MS)

void
lt_leave_sent(LrIndex hold)
{
	LrHold	   *h = &lt_holds[hold];
	LWLock	   *lock = lt_lock_hold(hold);
	WakeList	wakes = WAKE_NOBODY;
	int64		now = lr_now();

	Assert(h->state == HOLD_RELEASING);
	lt_note_stay(hold, h->here_from);
	h->sent_by = MyProcPid;
	h->sent_until = now + SENT_PATIENCE;
	lt_leave_until(hold, now + SENT_REPEAT, &wakes);
	lt_unlock(lock, &wakes);
}

/*
 * sent_note_loss --- the release has found that the lock was gone
 */
static void
sent_note_loss(const LrHold *h, const char *taken_by, WakeList *wakes)
{
	const LrKey *key = &lt_keys[h->key];
	ScopeHold	scope[SCOPE_COUNT] = {0};

	scope[SCOPE_XACT].count = 1;
	lr_count(STAT_LOSSES);
	losses_add(h->sent_by, key->name, key->name_len, scope,
			   taken_by[0] != '\0' ? LOST_TAKEN : LOST_DELETED, taken_by);
	wakes->watchdog = true;
}

/*
 * lt_end_sent --- see hold.h
 *
 * The answer of a former master does not count, so the watchdog repeats the release.  It
 * also releases what may be left elsewhere.
 */
bool
lt_end_sent(LrIndex hold, uint64 owner, StoreId store, uint32 topology, bool released,
			int receivers, const char *taken_by)
{
	LrHold	   *h = &lt_holds[hold];
	int64		pause = lt_pause_after(store, receivers);
	LWLock	   *lock = lt_lock_owned(hold, owner);
	WakeList	wakes = WAKE_NOBODY;
	bool		notified = false;

	if (lock == NULL)
		return false;
	Assert(h->state == HOLD_ORPHAN && h->sent_by == MyProcPid);
	if ((released || !h->repeated) && !lt_is_past(h->key, topology))
	{
		if (released)
		{
			lt_begin_pause(lt_key_of(hold), lr_kind(h->kind)->topic, receivers, pause);
			notified = lt_key_of(hold)->notified_elsewhere;
		}
		else
			sent_note_loss(h, taken_by, &wakes);
		h->sent_until = 0;
		lt_forget_trace(h, store);
		if (h->traces == 0)
			lt_free_and_nudge(hold, &wakes);
		else
			lt_set_due_in_traces(hold, lr_now(), &wakes);
	}
	lt_unlock(lock, &wakes);
	return notified;
}

/*
 * lt_lose_sent --- see hold.h
 *
 * A request of this session over a new connection may overtake the release.
 */
void
lt_lose_sent(LrIndex hold, uint64 owner)
{
	LWLock	   *lock = lt_lock_owned(hold, owner);

	if (lock == NULL)
		return;
	lt_holds[hold].sent_by = 0;
	LWLockRelease(lock);
}

/*
 * lt_find_sent --- find a lock whose release another session has sent, and which conflicts
 * with "kind"; LR_NONE: there is none to wait for
 */
LrIndex
lt_find_sent(const LrKey *key, KindId kind, int64 now)
{
	if (!lt_has_kinds(key, lr_kind(kind)->excludes) || !lr_watchdog_running())
		return LR_NONE;
	for (LrIndex i = key->first_hold; i != LR_NONE; i = lt_holds[i].next)
		if (lt_holds[i].state == HOLD_ORPHAN && lt_holds[i].sent_until > now &&
			lt_holds[i].sent_by != MyProcPid && lr_kinds_conflict(kind, lt_holds[i].kind))
			return i;
	return LR_NONE;
}

/*
 * lt_awaits_sent --- does this session have to wait for the answer to such a release?
 */
bool
lt_awaits_sent(const LrKey *key, const LrWait *w, int64 now, int64 *look_again,
			   WakeList *wakes)
{
	LrIndex		sent = lt_find_sent(key, w->terms.kind, now);

	if (sent == LR_NONE)
		return false;
	if (!lt_holds[sent].repeated)
		lt_set_due(sent, lt_holds[sent].store, now, wakes);
	*look_again = w->state == WAIT_PLACED ? now + SENT_POLL : lt_holds[sent].sent_until;
	return true;
}
