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

#include "instance.h"
#include "keyname.h"
#include "kinds/kind.h"
#include "locktable/hold.h"
#include "locktable/locktable.h"
#include "report.h"
#include "store/store.h"
#include "terms.h"

/* ----------
 * request.c: How a lock is asked for.
 * ----------
 */

#define WAIT_FOREVER		INT64CONST(-1)

typedef struct AcquireRequest
{
	LockTerms	terms;
	int64		wait_us;		/* 0 = do not wait, or WAIT_FOREVER */
	int64		began;			/* from when on that counts, and lock_timeout;
								 * 0 = from now on */
	bool		fenced;			/* take a fencing token too */
	const char *token;			/* of a token lock, as in StoreOp; not terminated */
	int			token_len;
	LrIndex		gives_back;		/* wait for a condition: hold of the lock that goes by
								 * that; else not looked at */
} AcquireRequest;

/*
 * Raise if the request wants a fencing token that this store cannot give in the
 * present mode.
 */
extern void request_require_counter(const AcquireRequest *request, StoreId store);

/* Raise if that store, which is in use, has no locks of the kind in the present mode. */
extern void request_require_store(KindId kind, StoreId store);

/* Raises unless the store can keep a lock of this name. */
extern void request_require_name(const LrName *name, StoreId store);

/* All of that for a number of that kind, where numbers are counted at present. */
extern void request_require_number(KindId kind, const LrName *name);

/* Has the hold a fencing token that is good for this request? */
extern bool request_is_met_by(const AcquireRequest *request, const HoldView *view);

/* The time to live (ms) that a request on these terms asks for. */
extern int64 request_ttl_ms(const LockTerms *terms);

/* ----------
 * held.c: The index of the holds of this backend.
 * ----------
 */

typedef struct HeldKey
{
	const char *data;			/* in the lock table, once held */
	int			len;
	uint32		hash;			/* of the name */
	KindId		kind;			/* of an entry: LockKind.held_as */
	uint64		number;			/* of an entry of a kind of which each is one more:
								 * which one it is; else 0 */
} HeldKey;

typedef struct HeldEntry
{
	HeldKey		key;
	LrIndex		hold;			/* LR_NONE: reserved by an acquire */
	int			job_count;		/* session-level holds that only the job runner
								 * gives back */
	int			failed_jobs;	/* of these, to be given back by the abort */
	CommitGuard guard;			/* as in the lock table */
	int64		recorded;		/* fencing token that this hold recorded in the
								 * fence table, 0 = none */
	bool		recorded_here;	/* and has its row locked in this transaction */
	uint64		taken;			/* number of its TRACK_TAKEN, see track.c */
	uint64		older;			/* numbers of its neighbours of the same key; 0 = */
	uint64		newer;			/* it is the last */
	uint32		hash;			/* of simplehash, */
	char		status;			/* likewise */
} HeldEntry;

/* The key as the index has it; points into *name. */
static inline HeldKey
held_key(const LrName *name, KindId kind)
{
	HeldKey		key = {name->data, name->len, name->hash, kind, 0};

	return key;
}

/* And back: a copy of the name. */
extern void held_copy_name(const HeldKey *key, LrName *name);

/* Before anything else of this file.  May raise. */
extern void held_open(void);

/* How many are there, one that was left by an interrupted acquire included? */
extern int	held_count(void);

/*
 * The entry of a lock of that kind, or one that it takes again; NULL: there is none.  Of
 * a kind of which each is one more: the newest, the one before another, and the one
 * with that owner number.
 */
extern HeldEntry *held_find(const LrName *name, KindId kind);
extern HeldEntry *held_older(const HeldEntry *entry);
extern HeldEntry *held_find_owner(const LrName *name, KindId kind, uint64 owner);
extern HeldEntry *held_find_key(const HeldKey *key);

/*
 * As which kind the session has the key: "first" if it has it as that, or not at all.
 * Of several kinds the one that its session took first: the write lock.
 */
extern KindId held_kind_of(const LrName *name, KindId first);

/* Walk over all entries; nothing may be deleted meanwhile. */
typedef void (*HeldCallback) (HeldEntry *entry, void *arg);
extern void held_walk(HeldCallback callback, void *arg);

/*
 * An acquire makes its entry before it asks the store, because afterwards
 * nothing may fail, and completes it with the hold.
 */
extern void held_reserve(const LrName *name, KindId kind);
extern HeldEntry *held_complete(LrIndex hold, CommitGuard guard);

/*
 * The same for several at once, whose names have to stay until all are completed or
 * forgotten.
 */
extern void held_reserve_all(const LrName *const *names, int n, KindId kind);
extern HeldEntry *held_complete_one(const LrName *name, KindId kind, LrIndex hold,
									CommitGuard guard);

/*
 * Remove what was reserved and not completed; the next call that looks does so,
 * too.
 */
extern void held_forget_reserved(void);

/* The same lock, taken again after it was given back: another hold. */
extern void held_replace(HeldEntry *entry, LrIndex hold);

/* Moves other entries. */
extern void held_delete(HeldEntry *entry);

/* A stricter guard is asked for; or that was taken back. */
extern void held_tighten_guard(HeldEntry *entry, CommitGuard guard);
extern void held_set_guard(HeldEntry *entry, CommitGuard guard);

/* Whose loss it is, if it is one. */
extern LossLevel held_loss_level(const HeldEntry *entry, const HoldView *view);

/*
 * No hold has so little left of its lease before this that a commit has to ask for
 * more.  A lease that is set later is to be noted.
 */
extern int64 held_commit_floor;
extern void held_note_lease(const HeldEntry *entry);

/* How many entries have GUARD_VERIFY. */
extern int	held_nverified;

/* ----------
 * untold.c: What no session has, and a statement took that has not ended yet.
 * ----------
 */

typedef struct Untold Untold;

/*
 * Before the store is asked; may raise.  NULL: not in a statement, so nobody notices its
 * end.
 */
extern Untold *untold_make(const LrName *name, const LockTerms *terms);

/*
 * It is had, by that owner number if the store knows it by that (else 0): from here on it is
 * given back if the statement fails.
 */
extern void untold_begin(Untold *u, uint64 owner);

/* The same of permits whose number nobody knew before. */
extern void untold_begin_some(Untold *u, int64 amount);

/* The end of a transaction, or of a subtransaction that aborts; raises nothing. */
extern void untold_transaction_ends(bool commit);
extern void untold_subtransaction_aborts(void);
extern bool untold_is_empty(void);

/* What has this id, as long as that of its kind is, was given back in the same statement. */
extern void untold_forget(const LrName *name, KindId kind, const uint8 *id);

/* So many were given back to the semaphore in the same statement. */
extern void untold_forget_some(const char *name, int len, KindId kind, int64 amount);

/* ----------
 * track.c: What a transaction remembers by subtransaction.
 * ----------
 */

/* ---- the stack ---- */

typedef enum TrackKind
{
	TRACK_HOLD,					/* a transaction-level hold */
	TRACK_TAKEN,				/* a session-level hold was taken */
	TRACK_RECORDED,				/* a token was written to the fence table */
	TRACK_COUNT					/* so much is to be counted after the commit */
} TrackKind;

typedef struct Track
{
	TrackKind	kind;
	SubTransactionId subid;
	HeldKey		key;			/* stays while it is held */
	LrIndex		hold;			/* hold and taken; count: the record */
	uint64		owner;			/* taken and recorded: which acquire it was */
	uint64		number;			/* taken: HeldEntry.taken of the newest */
	int64		before;			/* recorded: the token recorded until then */
	int64		amount;			/* count: */
	bool		first;			/* count: this has made the record */
} Track;

/* Room for one entry, or for n, before they are made.  May raise. */
extern void track_reserve(void);
extern void track_reserve_many(int n);

/*
 * Remember for the present subtransaction, without raising: a transaction-level
 * hold was taken, a session-level one was taken, a token was recorded.
 */
extern void track_hold(const HeldKey *key, LrIndex hold);
extern void track_taken(HeldEntry *entry);
extern void track_recorded(HeldEntry *entry, int64 token);

/* And that so much was added to what is counted after the commit. */
extern void track_count_later(const HeldKey *key, LrIndex hold, int64 amount, bool first);

/* A transaction-level hold goes before the end of its subtransaction. */
extern void track_forget_hold(LrIndex hold);

/* A session-level hold was given back and taken again, as another one. */
extern void track_retaken(LrIndex before, LrIndex hold);

/* A session-level hold was given back, and had not been lost. */
extern void track_forget_taken(uint64 owner);

/* All entries, the oldest first; and how many of them are TRACK_HOLD. */
extern int	track_count(void);
extern const Track *track_at(int i);
extern int	track_nholds(void);

/* Where those of the present, innermost subtransaction begin. */
extern int	track_first_of(SubTransactionId subid);

/* Forget all; or from there on, what an aborted subtransaction did. */
extern void track_cut_all(void);
extern void track_cut_aborted(int first, SubTransactionId parent);

/* ---- unlocked losses ---- */

/*
 * A lost hold goes: if it was a session-level one, the commit must know.  Never
 * raises, and comes before the record of the loss is dropped.
 */
extern void track_unlocked_loss(const HeldKey *key, const HoldView *view);

/* One that was not forgotten, or NULL; *view is that of a lost hold. */
extern const LrName *track_get_unlocked_loss(const HoldView **view);

/*
 * The transaction has ended, or has done nothing under those locks: it is that
 * of a DISCARD ALL, or began when a job had ended.
 */
extern void track_forget_unlocked_losses(void);

/* ---- subtransactions end ---- */

/* Its entries and losses are its parent's. */
extern void track_commit_sub(SubTransactionId subid, SubTransactionId parent);

/* Its losses are forgotten; its entries are what track_cut_aborted() takes away. */
extern void track_abort_sub(SubTransactionId subid);

/* ----------
 * transaction.c: Locks that follow the transaction, and the guard of its commit.
 * ----------
 */

/* Once, when the library is preloaded. */
extern void xact_register_callbacks(void);

/*
 * COMMIT PREPARED is about to run, for which there is no callback: no signal of
 * on_lost from here to the end of the statement.
 */
extern void xact_before_commit_prepared(void);

/* Bring whatever was left by an error to its end.  Never raises. */
extern void xact_clean_up(void);

/* Warnings, each once a transaction. */
extern void xact_warn_snapshot(LockScope scope);
extern void xact_warn_early_unlock(void);

/* Statements that hold a transaction open without a block: DO and CALL. */
extern void xact_enter_procedural(void);
extern void xact_leave_procedural(void);

/* Is one running, and no other around it? */
extern bool xact_in_outermost_procedural(void);

/* The job runner's command failed: release its hold at the end of the abort. */
extern void xact_release_job_at_abort(const LrName *name, KindId kind);

/* ----------
 * idle.c: Connections of this backend that nobody uses are closed.
 * ----------
 */

/* Before the first request: the handle whose connection is minded.  May raise. */
extern void idle_open(const StoreRoutine *store, StoreHandle *handle);

/*
 * There may be a connection, or an error has ended all time-outs: see to it that
 * the connection is closed some day.
 */
extern void idle_mind(void);

/* A lock call runs, or has ended: keep its connection, or not. */
extern void idle_keep(bool keep);

/* ----------
 * token.c: Token locks: they belong to whoever knows the token, not to a session.
 * ----------
 */

/* A token as the stores of this server's mode are told it. */
typedef struct LockToken
{
	const char *data;			/* what the lock is made with; not terminated */
	int			len;
	uint8		id[STORE_ID_LEN];	/* what it is known by from then on */
} LockToken;

/* Of the token's bytes, which have to stay. */
extern void token_make(const char *bytes, int len, LockToken *out);

/* Complete the request with the token, and take the lock.  False: busy. */
extern bool session_token_lock(const LrName *name, AcquireRequest *request,
							   const LockToken *token);

/* Has the token the key?  If it has: lengthen its lease, or give it back. */
extern bool session_token_is_held(const LrName *name, const LockToken *token);
extern bool session_token_extend(const LrName *name, const LockToken *token,
								 int64 lease_ms);
extern bool session_token_unlock(const LrName *name, const LockToken *token);

/* ----------
 * session.c: The Redis locks of this backend: take, ask, change, end.
 * ----------
 */

/*
 * Take the lock, again if this session has it.  False: busy.  *got, unless NULL
 * was passed, is good until the next call of this or any function below.
 */
extern bool session_lock(const LrName *name, const AcquireRequest *request,
						 HeldEntry **got);

/*
 * Take a lock of a kind that is ownerless: the session does not have it.  False: busy.
 * "untold", if not NULL, is had with it.
 */
extern bool session_take(const LrName *name, const AcquireRequest *request,
						 Untold *untold);

/* What a backend needs before its first lock or question; raises. */
extern void session_enter(void);

/* DISCARD ALL: give all back.  A cancel cannot stop it, and it raises nothing. */
extern void session_discard(void);

/*
 * Of this session, without asking the store.  False: no hold, not even lost.  Of a kind
 * of which each is one more: all of them, with their counts.
 */
extern bool session_look(const LrName *name, KindId kind, HoldView *view);

/* Raise that a lost hold of this session was to be used. */
extern void session_refuse_lost(const LrName *name, const HoldView *view);

/* Keep the hold, or each of them, at least that long from now.  False: one is lost. */
extern bool session_extend(const LrName *name, KindId kind, int64 lease_ms,
						   bool renewed);

/*
 * Have the store give the hold a new fencing token above "floor"; raises unless
 * it does.
 */
extern int64 session_mint(const LrName *name, const HeldEntry *entry,
						  const AcquireRequest *request, int64 floor);

/*
 * Raise if the session has the key as a kind beside which it cannot have that one:
 * it would wait for itself.
 */
extern void session_require_beside(const LrName *name, KindId wanted);

/* Ask the store who has the key; raises unless it says. */
extern void session_inspect(const LrName *name, KindId kind, StoreOp *op);

/* Take the lock away from whoever has it.  False: nobody had it. */
extern bool session_force(const LrName *name, KindId kind);

/* ----------
 * unlock.c: The Redis locks of this backend: give back.
 * ----------
 */

/* Give back one session-level hold.  False, with a WARNING: there was none. */
extern bool session_unlock(const LrName *name, KindId kind);

/*
 * The same of each of these keys.  False if one was not held, or was lost, with a
 * WARNING for each.
 */
extern bool session_multi_unlock(const LrName *const *names, int n);

/* The job runner's own hold, which session_unlock does not touch. */
extern bool session_unlock_job(const LrName *name, KindId kind);

/* Give back all of them; the number of keys. */
extern int64 session_unlock_all(void);

/* ----------
 * multi.c: Several keys at once, all of them or none.
 * ----------
 */

/* So many keys in a call; Redis is held up for as long as it takes their locks. */
#define MULTI_MAX			1000

/*
 * Take the locks of these keys, different ones in the order of their bytes; again
 * where this session has them.  False: one of them was busy for all of the time,
 * and all is as it was before.  So it is when this raises.
 */
extern bool session_multi_lock(const LrName *const *names, int n,
							   const AcquireRequest *request);

/* ----------
 * permits.c: Numbers that somebody sets, and permits that no session has.
 * ----------
 */

/*
 * Ask for the number of a name (STORE_VALUE), or change it (STORE_DEFINE): "kind" of *op, and
 * what belongs to it, says how; the answer is in *op then.  Raises unless the store says;
 * false: there is none.
 */
extern bool session_number(const LrName *name, KindId kind, StoreOp *op);

/*
 * Take as many as the request says of a semaphore, or wait for a latch.  False: it was not
 * so in time.
 */
extern bool session_wait_for_number(const LrName *name, AcquireRequest *request);

/*
 * Take a permit that is then nobody's but of who knows its id.  False: none was free in
 * time.
 */
extern bool session_acquire(const LrName *name, const AcquireRequest *request, uint8 *id);

/* Give it back, or keep it at least that long from now.  False: it is gone. */
extern bool session_release_id(const LrName *name, KindId kind, const uint8 *id);
extern bool session_extend_id(const LrName *name, KindId kind, const uint8 *id,
							  int64 lease_ms);

/* ----------
 * counts.c: What the store counts for this backend: permits that are given back to a
 * semaphore, and a latch that is counted down.
 * ----------
 */

/*
 * After session_enter().  Have the store count, now.  False, after a warning: it has not answered, and will count
 * it once.  *left: what there is then.
 */
extern bool counts_now(const LrName *name, KindId kind, int64 amount, int64 *left);

/* The store has said that there is another number: who waits may look. */
extern void counts_tell(const StoreOp *op);

/* When this transaction has committed, unless it or its subtransaction does not. */
extern void counts_at_commit(const LrName *name, KindId kind, int64 amount);

/* Does this transaction have any of these? */
extern bool counts_pending(void);

/*
 * At the end of a transaction, or of a subtransaction that aborts; nothing here raises,
 * allocates or uses a latch.
 */
extern void counts_undo(const Track *t);
extern void counts_add(const Track *t);
extern void counts_run_at_end(void);

/* After an error, or before the end of the session: what was under way. */
extern void counts_abandon(void);

/* ----------
 * condition.c: The conditions of the locks that this backend has: wait, notify.
 * ----------
 */

/* "id" of a condition: STORE_ID_LEN bytes, the digest of its name. */

/*
 * Give the lock back, wait for its condition, take it again.  False: wait_us (or
 * WAIT_FOREVER) are over.
 */
extern bool session_condition_wait(const LrName *name, const uint8 *id, int64 wait_us);

/* Tell as many of those who wait for it, or all there are (CONDITION_ALL); how many. */
#define CONDITION_ALL		PG_INT32_MAX
extern int64 session_condition_notify(const LrName *name, const uint8 *id, int most);

#endif							/* LR_SESSION_H */
