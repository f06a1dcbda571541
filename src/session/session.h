/*-------------------------------------------------------------------------
 *
 * session.h
 *	  What a session does with locks, for functions of SQL and for the library.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/session/session.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_SESSION_H
#define LR_SESSION_H

#include "lockredis.h"

#include "lib/ilist.h"
#include "storage/ipc.h"

#include "kinds/kind.h"
#include "locktable/locktable.h"
#include "names.h"
#include "report.h"
#include "store/store.h"

/* ----------
 * ask.c: How a lock is asked for.
 * ----------
 */

#define WAIT_FOREVER		INT64CONST(-1)

typedef struct AcquireRequest
{
	LockTerms	terms;
	int64		wait_us;		/* 0 = do not wait, or WAIT_FOREVER */
	int64		began;			/* start of the wait, also for lock_timeout; 0 = now */
	bool		fenced;			/* also take a fencing token */
	bool		unowned;		/* no session will have it: see session_acquire() */
	const char *token;			/* of a token lock, as in StoreOp; not terminated */
	int			token_len;
	LrIndex		gives_back;		/* wait for a condition: the hold of the lock that the
								 * wait releases; otherwise ignored */
} AcquireRequest;

/*
 * Raise if the request wants a fencing token that this store cannot give in the
 * present mode.
 */
extern void request_require_counter(const AcquireRequest *request, StoreId store);

/*
 * Raise if the present mode has no locks of this kind in that store, which is in use.
 */
extern void request_require_store(KindId kind, StoreId store);

/* Raises unless the store can keep a lock of this name. */
extern void request_require_name(const LrName *name, StoreId store);

/*
 * Raise unless the store that counts at present can keep a number of this kind and
 * name.
 */
extern void request_require_number(KindId kind, const LrName *name);

/* Does the hold have a fencing token that this request can use? */
extern bool request_is_met_by(const AcquireRequest *request, const HoldView *view);

/* The time to live (ms) that a request on these terms asks for. */
extern int64 request_ttl_ms(const LockTerms *terms);

/*
 * Arm the timeout that closes an idle connection, if there is one.  To be called after
 * each batch, and after an error, which has disabled all timeouts.
 */
extern void idle_mind(void);

/* ----------
 * held.c: The index of the holds of this backend.
 * ----------
 */

typedef struct HeldKey
{
	const char *data;			/* of an entry: in the lock table */
	int			len;
	uint32		hash;			/* of the name */
	KindId		kind;			/* of an entry: the LockKind.held_as of its lock */
} HeldKey;

typedef enum TrackKind
{
	TRACK_HOLD,					/* a transaction-level hold */
	TRACK_RECORDED,				/* a token was written to the fence table */
	TRACK_COUNT					/* a number changes after the commit */
} TrackKind;

/* Something that a transaction has done; see track.c. */
typedef struct Track
{
	dlist_node	link;
	TrackKind	kind;
	SubTransactionId subid;
	struct HeldEntry *entry;	/* hold, recorded: of the lock */
	int64		before;			/* recorded: the token that was recorded before */
	HeldKey		key;			/* count: the name; its data is in the record */
	LrIndex		hold;			/* count: the record */
	int64		amount;			/* count: change of the number */
	bool		first;			/* count: this entry made the record */
} Track;

typedef struct HeldEntry
{
	dlist_node	link;			/* in its bucket of the index, */
	dlist_node	in_all;			/* and in the list of all entries */
	HeldKey		key;
	LrIndex		hold;
	int			job_count;		/* session-level holds of the job runner, which only that
								 * releases */
	CommitGuard guard;			/* as in the lock table */
	int64		recorded;		/* fencing token that this hold recorded in the
								 * fence table, 0 = none */
	bool		recorded_here;	/* this transaction recorded it, and has locked its row */
	SubTransactionId taken_in;	/* session level: taken in this subtransaction */
	uint64		taken_by;		/* number of the transaction that took it */
	Track		track;			/* transaction level: what track.c knows of it */
} HeldEntry;

/* The index key of a lock.  It points into *name. */
static inline HeldKey
held_key(const LrName *name, KindId kind)
{
	HeldKey		key = {name->data, name->len, name->hash, kind};

	return key;
}

/* Copy the name of an index key. */
extern void held_copy_name(const HeldKey *key, LrName *name);

/* The number of entries. */
extern int	held_count(void);

/*
 * held_find: the entry of the session's lock of that kind, or of one with the same
 * held_as; NULL if there is none.  With each_own that is the newest entry; held_older
 * returns the one before, and held_find_owner the one with that owner number.
 */
extern HeldEntry *held_find(const LrName *name, KindId kind);
extern HeldEntry *held_older(const HeldEntry *entry);
extern HeldEntry *held_find_owner(const LrName *name, KindId kind, uint64 owner);

/*
 * The kind as which the session holds the key: "first" if it holds it as that, or not
 * at all.  If it holds the key as several other kinds, the write lock, which it took
 * first.
 */
extern KindId held_kind_of(const LrName *name, KindId first);

/*
 * Call the function for each entry, those of one key one after the other.  It may delete
 * that entry, and no other.
 */
typedef void (*HeldCallback) (HeldEntry *entry, void *arg);
extern void held_walk(HeldCallback callback, void *arg);

/*
 * An acquire reserves room for its entries before it asks the store, because nothing may
 * fail afterwards.  When a lock is acquired, held_add makes its entry; it never raises.
 */
extern void held_reserve(int n);
extern HeldEntry *held_add(const LrName *name, KindId kind, LrIndex hold, CommitGuard guard);

/* The lock was released and acquired again: the entry gets the new hold. */
extern void held_replace(HeldEntry *entry, LrIndex hold);

/* Delete an entry. */
extern void held_delete(HeldEntry *entry);

/*
 * held_tighten_guard makes the guard stricter, if it is not as strict already;
 * held_set_guard sets it in any case.
 */
extern void held_tighten_guard(HeldEntry *entry, CommitGuard guard);
extern void held_set_guard(HeldEntry *entry, CommitGuard guard);

/* Which level a loss of this hold concerns. */
extern LossLevel held_loss_level(const HeldEntry *entry, const HoldView *view);

/*
 * Before this time, every hold has enough of its lease left for a commit.  Whenever a
 * lease is set, held_note_lease has to be called.
 */
extern int64 held_commit_floor;
extern void held_note_lease(const HeldEntry *entry);

/* How many entries have GUARD_VERIFY. */
extern int	held_nverified;

/* ----------
 * track.c: What a transaction remembers by subtransaction.
 * ----------
 */

/* ---- what it has done, in this order ---- */

extern dlist_head tracks;

/* Is something of that kind among it? */
extern bool track_has(TrackKind kind);

/*
 * Record in the present subtransaction that the part of a scope was taken of a hold.
 * Never raises.
 */
extern void track_acquired(HeldEntry *entry, LockScope scope);

/* A transaction-level hold is released before its subtransaction ends. */
extern void track_forget_hold(HeldEntry *entry);

/* Record that a token of a transaction-level hold was recorded.  May raise. */
extern void track_recorded(HeldEntry *entry, int64 token);

/*
 * A number is about to change after the commit: get room to record that, which may raise;
 * and record it, which does not.  "hold": the record in the lock table, if there is one.
 */
extern Track *track_for_count(LrIndex hold);
extern void track_count_later(Track *t, const HeldKey *key, LrIndex hold, int64 amount);

/* ---- unlocked losses ---- */

/*
 * The subtransaction in which the session took its part of the hold; Invalid: before this
 * transaction.
 */
extern SubTransactionId track_taken_in(const HeldEntry *entry);

/*
 * The session drops a lost hold, which it took in that subtransaction; if it was a
 * session-level one, the commit must know.  Must be called before the record of the loss is
 * dropped.  Never raises.
 */
extern void track_unlocked_loss(const HeldKey *key, const HoldView *view,
								SubTransactionId taken_in);

/* Refuse the commit if there is a loss that still counts. */
extern void track_refuse_unlocked_loss(void);

/*
 * Forget these losses.  The transaction has ended, or has done nothing under those
 * locks: it is that of a DISCARD ALL, or began after a job had ended.
 */
extern void track_forget_unlocked_losses(void);

/* Forget those of a subtransaction. */
extern void track_abort_sub(SubTransactionId subid);

/* The transaction has ended, and what it has done was dealt with. */
extern void track_end_transaction(void);

/* ---- warnings, each once per transaction ---- */

extern void track_warn_snapshot(LockScope scope);
extern void track_warn_early_unlock(void);

/*
 * How many DO and CALL run, one in the other; run_utility() counts them.  They keep a
 * transaction open without a transaction block: track_warn_snapshot() warns in them, too.
 * job_commit_call() ends the transaction with its command only if no other one runs.
 */
extern int	track_procedural_depth;

/* ----------
 * transaction.c: Locks that follow the transaction, and the guard of its commit.
 * ----------
 */

/* To be called once, when the library is preloaded. */
extern void xact_register_callbacks(void);

/*
 * COMMIT PREPARED is about to run, for which PostgreSQL has no callback.  From now on
 * to the end of the statement, on_lost signals nobody.
 */
extern void xact_before_commit_prepared(void);

/*
 * A job has failed, and with it all in whose commands it was run: release the holds of the
 * job runner at the end of the abort.
 */
extern void xact_job_failed(void);

/* ----------
 * unowned.c: Token locks, which belong to whoever knows the token.
 * ----------
 */

/* A token in the form that the store of the present mode uses. */
typedef struct LockToken
{
	const char *data;			/* the create sends this; not terminated */
	int			len;
	uint8		id[STORE_ID_LEN];	/* all later requests send this */
} LockToken;

/* Make it from the bytes of a token, which must stay valid. */
extern void token_make(const char *bytes, int len, LockToken *out);

/* Complete the request with the token, and take the lock.  False: busy. */
extern bool session_token_lock(const LrName *name, AcquireRequest *request,
							   const LockToken *token);

/* ----------
 * session.c: Acquire, inspect, extend and take away Redis locks.
 * ----------
 */

/*
 * Acquire the lock, also if this session holds it already.  False: busy.  *got, unless
 * "got" is NULL, is valid as long as the session holds the lock.
 */
extern bool session_lock(const LrName *name, const AcquireRequest *request,
						 HeldEntry **got);

/*
 * Set up what a backend needs before its first request; may raise.  At the end of the
 * session, session_at_exit is called.
 */
extern void session_enter(void);
extern pg_on_exit_callback session_at_exit;

/*
 * DISCARD ALL: release all locks.  A cancel does not stop that, and nothing is raised
 * until it is done.  A WARNING follows if the store has not answered.
 */
extern void session_discard(void);

/*
 * Look at the session's hold without asking the store.  False: it has none, not even a
 * lost one.  With each_own, *view has the counts of all of them.
 */
extern bool session_look(const LrName *name, KindId kind, HoldView *view);

/* Raise an error: the session has tried to use a lost hold. */
extern void session_refuse_lost(const LrName *name, const HoldView *view);

/*
 * Extend the lease of the hold, or with each_own of all holds, to at least lease_ms
 * from now.  False: one is lost.
 */
extern bool session_extend(const LrName *name, KindId kind, int64 lease_ms,
						   bool renewed);

/* Look at a hold of the session, and raise if it is lost. */
extern void session_look_held(const LrName *name, LrIndex hold, HoldView *view);

/* Get a new fencing token above "floor" for the hold from the store, or raise. */
extern int64 session_mint(const LrName *name, LrIndex hold,
						  const AcquireRequest *request, int64 floor);

/*
 * Raise if the session holds the key as another kind that does not allow the wanted one
 * in addition: the session would wait for itself.
 */
extern void session_require_beside(const LrName *name, KindId wanted);

/* Ask the store which owner holds the key.  Raises if it does not answer. */
extern void session_inspect(const LrName *name, KindId kind, StoreOp *op);

/* Take the lock away from its holder.  False: nobody held it. */
extern bool session_force(const LrName *name, KindId kind);

/* ----------
 * unlock.c: Release Redis locks.
 * ----------
 */

/*
 * Release one session-level hold.  False, with a WARNING, if there is none or it was
 * lost.
 */
extern bool session_unlock(const LrName *name, KindId kind);

/*
 * The same for each of these keys.  False if one was not held, or was lost, with a
 * WARNING for each.
 */
extern bool session_multi_unlock(const LrName *names, int n, KindId kind);

/* Release a hold of the job runner, which session_unlock does not touch.  False: it was lost. */
extern bool session_unlock_job(const LrName *name, HeldEntry *entry);

/* Release all session-level holds.  Returns the number of keys. */
extern int64 session_unlock_all(void);

/* ----------
 * multi.c: Several keys at once, all of them or none.
 * ----------
 */

/* The most keys in a call.  Redis serves nobody else while it takes their locks. */
#define MULTI_MAX			1000

/*
 * Acquire the locks of these keys, which are distinct and sorted by their bytes.
 * False: one of them was busy all the time.  In that case, and when this raises,
 * everything is as it was before.
 */
extern bool session_multi_lock(const LrName *names, int n, const AcquireRequest *request);

/* ----------
 * unowned.c: The numbers of semaphores and latches, and permits that belong to no
 * session.
 * ----------
 */

/*
 * Read the number of a name (STORE_VALUE), or change it (STORE_DEFINE), as the kind and
 * the arguments in *op say; *op has the results then.  False: there is no such number.
 * Raises if the store does not answer.
 */
extern bool session_number(const LrName *name, KindId kind, StoreOp *op);

/*
 * Acquire as many permits of a semaphore as the request says, or wait for a latch.
 * False: the time was over before.
 */
extern bool session_wait_for_number(const LrName *name, AcquireRequest *request);

/*
 * Acquire a permit, which then belongs to whoever knows its id.  False: none was free
 * in time.
 */
extern bool session_acquire(const LrName *name, const AcquireRequest *request, uint8 *id);

/*
 * Release the token lock or the permit with that id, of STORE_ID_LEN bytes, or extend its
 * lease to at least lease_ms from now; with 0, only look whether it is there.  False: it
 * is gone.
 */
extern bool session_release_id(const LrName *name, KindId kind, const uint8 *id);
extern bool session_extend_id(const LrName *name, KindId kind, const uint8 *id,
							  int64 lease_ms);

/*
 * Take all free permits of a semaphore.  They are released if the statement fails.
 */
extern int64 session_drain(const LrName *name, KindId kind);

/*
 * Permits are released, or a latch is counted down: have the store count now.  To be called
 * after session_enter().  False, after a WARNING: the store has not answered, and will count
 * it once.  *left: the number that is left.
 */
extern bool counts_now(const LrName *name, KindId kind, int64 amount, int64 *left);

/*
 * Have the store count when this transaction has committed, unless the present
 * subtransaction aborts.
 */
extern void counts_at_commit(const LrName *name, KindId kind, int64 amount);

/* ----------
 * condition.c: Wait for, and notify, the conditions of locks that this backend holds.
 * ----------
 */

/*
 * "kind" is that of the wait, "id" that of the condition: STORE_ID_LEN bytes, the digest
 * of its name.
 */

/*
 * Release the lock, wait for its condition, and acquire the lock again.  False: the
 * time (wait_us, or WAIT_FOREVER) was over first.
 */
extern bool session_condition_wait(const LrName *name, KindId kind, const uint8 *id,
								   int64 wait_us);

/*
 * Notify at most that many of the waiting clients, or all of them (CONDITION_ALL).
 * Returns how many were notified.
 */
#define CONDITION_ALL		PG_INT32_MAX
extern int64 session_condition_notify(const LrName *name, KindId kind, const uint8 *id,
									  int most);

#endif							/* LR_SESSION_H */
