/*-------------------------------------------------------------------------
 *
 * transaction.c
 *	  Locks that follow the transaction, and the guard of its commit.
 *
 * Everything that may fail is done at PRE_COMMIT: a later error would be a PANIC.  The
 * releases are sent at RESOURCE_RELEASE_AFTER_LOCKS of the top transaction, or of a
 * subtransaction that aborts, when its changes are visible (or undone) and its
 * heavyweight locks are gone.  A slow store holds up this client, and those whom a
 * NOTIFY of the transaction wakes after that; a ROLLBACK TO also those that wait for a
 * lock of the transaction itself.  release_patience() limits that to some 100 ms, or to
 * a few round trips of a store that is far away.  Nothing in there raises, allocates or
 * looks at the latch; see release_run_at_end().
 *
 * What belongs to a subtransaction is in a list (track.c); one that aborts removes its
 * entries.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/session/transaction.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "access/xact.h"
#include "utils/resowner.h"

#include "session/session.h"
#include "session/session_int.h"

static bool committing = false;

/* A job has failed: the abort has to give back the holds of all jobs. */
static bool job_failed = false;

/*
 * xact_clean_up --- clean up everything that an error has left unfinished; never raises
 *
 * An interrupt may have left anything behind, and FATAL does not even pass PG_CATCH; so what
 * has no reason to be done at once is left to this after other errors, too.
 */
static void
xact_clean_up(void)
{
	pending_abandon();
	lt_return_rows();
}

/* ----------
 * Ends of transactions and subtransactions; nothing here raises
 * ----------
 */

/*
 * xact_end_holds --- end holds of one scope; the last hold of a lock goes into the batch
 */
static void
xact_end_holds(HeldEntry *entry, LockScope scope, int n)
{
	HoldView	view;

	lt_look(entry->hold, &view);
	view.scope[scope].count -= n;
	if (view.scope[SCOPE_SESSION].count == 0 && view.scope[SCOPE_XACT].count == 0)
	{
		(void) release_add(entry, true, NULL);
		return;
	}
	(void) lt_set_scope(entry->hold, scope, &view.scope[scope], 0, 0);
	lt_set_committing(entry->hold, false);
}

/*
 * xact_end_record --- the row of a recorded token is unlocked
 */
static void
xact_end_record(const Track *t, bool commit)
{
	t->entry->recorded_here = false;
	if (!commit)
		t->entry->recorded = t->before;
}

/*
 * xact_end_count --- have a record counted, or subtract an entry
 *
 * There is one request for each record, added with the entry that made the record: the
 * amount includes that of later entries.
 */
static void
xact_end_count(const Track *t, bool commit)
{
	if (!commit)
		counts_undo(t);
	else if (t->first)
		release_add_count(&t->key, t->hold);
}

/*
 * xact_end_tracks --- end what was done in that subtransaction, or in one that has committed
 * into it, the newest first
 *
 * A token is recorded under a transaction-level hold, so that entry of it is newer than that of
 * the hold.
 */
static void
xact_end_tracks(SubTransactionId subid, bool commit)
{
	while (!dlist_is_empty(&tracks))
	{
		Track	   *t = dlist_tail_element(Track, link, &tracks);

		if (t->subid < subid)
			return;
		dlist_delete(&t->link);
		if (t->kind == TRACK_HOLD)
		{
			xact_end_holds(t->entry, SCOPE_XACT, 1);
			continue;
		}
		if (t->kind == TRACK_RECORDED)
			xact_end_record(t, commit);
		else
			xact_end_count(t, commit);
		pfree(t);
	}
}

static void
xact_sub_callback(SubXactEvent event, SubTransactionId subid,
				  SubTransactionId parent, void *arg)
{
	if (event != SUBXACT_EVENT_ABORT_SUB)
		return;
	xact_clean_up();
	unreturned_end(false, true);
	track_abort_sub(subid);
	idle_mind();
}

/*
 * xact_end_aborted_sub --- release the Redis locks of an aborted subtransaction
 *
 * Its heavyweight locks have been released.  By CurrentResourceOwner we see that this
 * is called for the subtransaction itself, not for a portal in it.
 */
static void
xact_end_aborted_sub(void)
{
	if (dlist_is_empty(&tracks) || !IsSubTransaction() ||
		CurrentResourceOwner != CurTransactionResourceOwner)
		return;
	xact_end_tracks(GetCurrentSubTransactionId(), false);
	release_run_at_end();
}

static void
xact_end_failed_job(HeldEntry *entry, void *arg)
{
	int			n = entry->job_count;

	entry->job_count = 0;
	if (n > 0)
		xact_end_holds(entry, SCOPE_SESSION, n);
}

static void
xact_forget(void)
{
	track_end_transaction();
	if (committing)
		lt_mark_committing(false);
	committing = false;
}

/*
 * xact_release_callback --- release the locks of a transaction or aborted
 * subtransaction
 *
 * This is called for each resource owner of every transaction, so it must be quick when
 * there is nothing to do.
 */
static void
xact_release_callback(ResourceReleasePhase phase, bool is_commit, bool is_top_level,
					  void *arg)
{
	if (phase != RESOURCE_RELEASE_AFTER_LOCKS)
		return;
	if (!is_top_level && !is_commit)
		xact_end_aborted_sub();
	if (!is_top_level || CurrentResourceOwner != TopTransactionResourceOwner)
		return;

	if (!is_commit)
		xact_clean_up();
	if (!dlist_is_empty(&tracks) || job_failed)
	{
		xact_end_tracks(TopSubTransactionId, is_commit);
		if (job_failed && !is_commit)
		{
			held_walk(xact_end_failed_job, NULL);
			job_failed = false;
		}
		release_end_transaction();
		lt_check_transaction_end();
	}
	xact_forget();
}

/* ----------
 * The commit
 * ----------
 */

/*
 * xact_begin_commit --- from now on, nobody signals this session for a lost lock
 *
 * Returns true if it was signalled before.  If no statement has been ended by that
 * signal yet, the next CHECK_FOR_INTERRUPTS raises it.  The caller has to call that
 * before the wait for a synchronous standby: a cancel would end that wait with no more
 * than a warning.
 */
static bool
xact_begin_commit(void)
{
	/* Without holds, no session is signalled. */
	if (held_count() > 0)
	{
		committing = true;
		lt_mark_committing(true);
	}
	return lt_take_signal();
}

/*
 * xact_guard_commit --- raise unless this transaction may commit, or be prepared
 *
 * The transaction in which PostgreSQL drops the temporary tables of a session that ends
 * is not the user's, and is never refused.  All others are: also those of statements
 * that commit in between (VACUUM, CREATE INDEX CONCURRENTLY), which can fail there
 * anyway, and those of workers that run functions of users.  What a backend does
 * between statements (notifications, invalidations) writes nothing.
 *
 * We cannot see here whether a NOTIFY is pending.
 */
static void
xact_guard_commit(void)
{
	bool		has_xid = TransactionIdIsValid(GetTopTransactionIdIfAny());
	bool		signalled;
	dlist_iter	at;

	if (proc_exit_inprogress || !ask_is_open())
		return;
	if (has_xid)
		track_refuse_unlocked_loss();
	signalled = xact_begin_commit();
	guard_check_holds(has_xid);
	if (signalled)
		CHECK_FOR_INTERRUPTS();
	dlist_foreach(at, &tracks)
	{
		const Track *t = dlist_container(Track, link, at.cur);

		if (t->kind == TRACK_HOLD)
			lt_set_committing(t->entry->hold, true);
	}
}

void
xact_before_commit_prepared(void)
{
	if (ask_is_open() && xact_begin_commit())
		CHECK_FOR_INTERRUPTS();
}

/*
 * xact_callback --- guard the commit, and clean up at the end
 *
 * An error has disabled all timeouts, so idle_mind() arms ours again here and in
 * xact_sub_callback.
 */
static void
xact_callback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			xact_guard_commit();
			break;
		case XACT_EVENT_PRE_PREPARE:
			if (track_has(TRACK_HOLD))
				ereport(ERROR,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("cannot PREPARE a transaction that holds Redis locks")));
			if (counts_pending > 0)
				ereport(ERROR,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("cannot PREPARE a transaction that changes counts in Redis")));

			/*
			 * A token is recorded under a transaction-level hold, and its entry goes
			 * before that.
			 */
			Assert(!track_has(TRACK_RECORDED));
			xact_guard_commit();
			break;
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_ABORT:
			/*
			 * FATAL may have interrupted a wait.  The lock table still has its terms,
			 * which unreturned_end() would overwrite.
			 */
			if (event == XACT_EVENT_ABORT && !unreturned_is_empty())
				xact_clean_up();
			unreturned_end(event == XACT_EVENT_COMMIT, false);
			idle_mind();
			break;
		default:
			break;
	}
}

/*
 * xact_end_session --- on_shmem_exit callback: release everything
 *
 * It runs after the transaction has been aborted, while shared memory still exists.
 */
static void
xact_end_session(int code, Datum arg)
{
	xact_clean_up();
	(void) release_everything();
	ask_close();
	lt_session_leave();
}

void
xact_register_callbacks(void)
{
	session_at_exit = xact_end_session;
	RegisterXactCallback(xact_callback, NULL);
	RegisterSubXactCallback(xact_sub_callback, NULL);
	RegisterResourceReleaseCallback(xact_release_callback, NULL);
}

void
xact_job_failed(void)
{
	job_failed = true;
}
