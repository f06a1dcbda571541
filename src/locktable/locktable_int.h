/*-------------------------------------------------------------------------
 *
 * locktable_int.h
 *	  Structures of the lock table in shared memory, for src/locktable/ only.
 *
 * Who may write what:
 *	 - keys, holds, queue links, due times: under the partition lock of the key; due
 *	   times and owners are also read without it (see due_times.c);
 *	 - free lists: under their pool's spinlock.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/locktable/locktable_int.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_LOCKTABLE_INT_H
#define LR_LOCKTABLE_INT_H

#include "port/atomics.h"
#include "storage/lwlock.h"
#include "storage/spin.h"

#include "locktable/watch.h"
#include "store/nodes.h"
#include "store/stores.h"

#define LT_PARTITIONS		64

/* The number of signal locks; several sessions share one. */
#define LT_SIGNAL_LOCKS		16

/* The size of forced, by the hash of the key. */
#define LT_FORCED			(4 * LT_PARTITIONS)

/* Records of losses: not much more than the watchdog logs at once; see watchdog/health.c. */
#define LT_LOSSES			64

/* Sessions wait no longer than this for the release of an orphan. */
#define SENT_PATIENCE		LR_US_PER_S

/* A watchdog that wakes up so soon need not be woken for the first waiting session. */
#define TICK_SOON			(1500 * LR_US_PER_MS)

/* nodes.c has the first lock of the tranche. */
#define LT_FIRST_LWLOCK		1

/*
 * The light-weight locks: one a partition, by the hash of the key; those that a process holds
 * while it signals a session, and the session to prevent that; one with which only one session
 * at a time decides whether it has to break a cycle; one of the losses, which is taken for a
 * moment, also under that of a partition.
 */
#define LT_SIGNAL_LOCK		LT_PARTITIONS
#define LT_DEADLOCK_LOCK	(LT_SIGNAL_LOCK + LT_SIGNAL_LOCKS)
#define LT_LOSSES_LOCK		(LT_DEADLOCK_LOCK + 1)
#define LT_LWLOCKS			(LT_LOSSES_LOCK + 1)

/* A byte, as each key has several. */
typedef uint8 SubscriptionState;
enum
{
	SUB_NONE,
	SUB_WANTED,
	SUB_CONFIRMED
};

/* Sessions, linked by LrWait.prev and next. */
typedef struct LrList
{
	LrIndex		head;
	LrIndex		tail;
} LrList;

/*
 * What is noted of such a list, with the first session in it.  It passes to the one that
 * becomes the first (lt_list_insert, lt_list_remove).  A list that was empty begins anew.
 */
typedef struct LrOfList
{
	int64		pause_until;	/* a queue: until then, in lr_now() time, those in front
								 * let others go first, */
	int64		no_pause_until; /* and do not do so again until then; 0 once somebody
								 * came (see VAIN_REST) */
	int64		searched_at;	/* lr_now() of the last search for a deadlock */
	LrIndex		asks_ahead;		/* a queue: session whose create takes tokens for others;
								 * LR_NONE once the store gave the lock to any session
								 * since */
} LrOfList;

/* Sessions that queue for a key; see queue.c. */
typedef struct LrQueue
{
	LrList		list;
	KindSet		kinds;			/* the kinds of all that have queued since it was empty */
	bool		scarce;			/* a session was refused since it was empty: of kinds
								 * with one_asks, only the first asks */
} LrQueue;

/* Sessions that wait in the order of the store; see places.c. */
typedef struct LrPlaces
{
	LrList		list;
	int			nordered;		/* how many of them wait for a lock (not passing), */
	int			nplaceless;		/* have no place in the store, */
	int			nlined;			/* are in line */
} LrPlaces;

/* There are as many keys and holds as there may be locks. */
typedef struct LrKey
{
	uint32		hash;
	LrIndex		next;			/* of the same bucket, or in the free list */
	LrIndex		first_hold;		/* all but waiting ones */
	KindSet		hold_kinds;		/* the kinds of these holds, and perhaps of some that are
								 * gone; see lt_has_kinds */
	uint16		name_len;
	LrQueue		queue;
	LrPlaces	places;
	int			nwaiting;		/* its holds that are WAITING */
	int			handoffs;		/* hand-overs in a row, since the store gave the lock */
	int64		clear_at;		/* sessions that came here by then came before all that
								 * wait elsewhere; see places.c; 0 = not known */
	int64		here_from;		/* nobody elsewhere has it, if Redis has been
								 * silent since then or before; 0 = not known */
	KindId		here_kind:8;	/* the kind as which it was held here from here_from on */
	bool		notified_elsewhere; /* the last release notified a client elsewhere */
	bool		ordered;		/* sessions stand as a store wants that keeps an order;
								 * see lt_keep_order */
	SubscriptionState subscription[TOPIC_COUNT];
	char		name[LR_NAME_MAX];
} LrKey;

/* What a store has, or may have, under an owner number of this instance. */
typedef struct LrClaim
{
	uint64		owner;			/* 0 = none yet, or nothing */
	uint32		topology;		/* the epoch of the master that confirmed it, */
	uint32		place;			/* and lr_place where Redis has it */
	uint32		moves;			/* raised whenever the store changes; see lt_moves */
	StoreId		store:8;
} LrClaim;

/* What a store gave with the lock, or has to count. */
typedef struct LrGiven
{
	int64		fence;			/* the last fencing token of the hold; 0 = none */
	int64		amount;			/* as in StoreOp */
	uint8		id[STORE_ID_LEN];	/* likewise */
	StoreId		fence_store:8;	/* that issued the token */
	bool		fenced;			/* it is the token of the present session */
	bool		owed;			/* the store has to count it, not to release it */
} LrGiven;

/* Fencing tokens in reserve, after that of the hold, for sessions that it is handed to. */
typedef struct LrReserve
{
	uint32		topology;		/* the epoch of the master that has issued them */
	int			left;			/* how many are left */
} LrReserve;

/* A change that a store is to count, left to the watchdog. */
typedef struct LrCount
{
	int64		first_at;		/* when the first of the requests in "sent" was sent */
	int			sent;			/* how many requests to count it may have run, or may
								 * still run */
} LrCount;

/* An orphan whose release was sent, or is about to be; see hold.c. */
typedef struct LrSent
{
	int64		until;			/* until when others wait for the answer; 0 = they do
								 * not, */
	int			pid;			/* of its session */
	bool		repeated;		/* has the watchdog sent it again? */
} LrSent;

/* What the watchdog has to know to renew a lock. */
typedef struct LrRenewal
{
	uint32		n;				/* how often it was renewed */
	uint16		refusals;		/* by the store, in a row; many are not counted */
	bool		alone;			/* the store refuses it, and what is sent along with it */
	bool		committing;		/* its transaction is past pre-commit: renewed even if
								 * the caller chose its lease */
} LrRenewal;

/* A lock that its session has, is handed or releases. */
typedef struct LrHeld
{
	int64		here_from;		/* see LrKey */
	int64		look_at;		/* when to ask for what is left of it, whether it is
								 * renewed or not, as others may have shortened the lease
								 * or some of several masters may not have it; LR_NEVER =
								 * when one of these is back; 0 = not */
	LrReserve	reserve;
} LrHeld;

/* How it was lost; see LockLoss. */
typedef struct LrLost
{
	TimestampTz at;
	uint32		record;			/* the number of its LossRecord, which says by whom it
								 * was taken, for as long as it is in the ring; 0 = it
								 * has none */
	LostReason	reason:8;
} LrLost;

/* What only some states have; all 0 when a hold comes to another member. */
typedef union LrOfState
{
	LrHeld		held;			/* HELD, HANDED, RELEASING */
	LrLost		lost;			/* LOST */
	LrSent		sent;			/* ORPHAN: what the store has to release, */
	LrCount		count;			/* or (LrGiven.owed) to count */
} LrOfState;

typedef struct LrHold
{
	LrIndex		key;			/* whose hash leads to the partition */
	LrIndex		session;		/* LR_NONE: orphan */
	LrIndex		next;			/* of the same key, or in the free list */
	LrIndex		prev;			/* of the same key */
	KindId		kind:8;
	HoldState	state:8;
	uint8		traces;			/* STORE_BITs of stores where our owner may be */
	uint32		nodes;			/* bits of those of several nodes that may have it; of
								 * an orphan: 0, or those that may still have it when
								 * most have released it */
	LrClaim		claim;			/* its store has confirmed the deadline */
	pg_atomic_uint64 deadline;	/* lr_now() time; only raised, and never once
								 * it has passed */
	int64		not_after;		/* the clock (ms) of the store with
								 * STORE_LATE_CREATES up to which a create that was
								 * not answered may still run there; 0 = none */
	int64		keep_until;		/* see LockTerms */
	int64		lasts;			/* the longest lease that was requested, answered or not,
								 * or that a scope has (microseconds); once its session
								 * no longer has it (lt_is_left): until when stores may
								 * have it */
	LrRenewal	renewal;
	LrGiven		given;
	ScopeHold	scope[SCOPE_COUNT];
	LrOfState	as;
} LrHold;

typedef enum WaitState
{
	WAIT_NONE,
	WAIT_QUEUED,
	WAIT_PLACED,				/* in the order of the store: see places.c */
	WAIT_HANDED,				/* was handed the lock, does not know yet */
	WAIT_FAILED,				/* see lt_fail_waiters */
	WAIT_UNREPLICATED			/* likewise, as replicas were missing */
} WaitState;

/* What the store has answered a session that waits in its order. */
typedef enum LrStanding
{
	STANDING_NEW,				/* nothing yet */
	STANDING_ANSWERED,			/* as far as is known it has a place */
	STANDING_PLACELESS,			/* it has none: a session here will pass the lock on */
	STANDING_LINED				/* likewise, and it is in line to ask for one */
} LrStanding;

/*
 * What a waiting session has asked the store for, and has there, or may have: an
 * announcement, a place, or the lock.
 */
typedef struct LrAsked
{
	LrClaim		claim;			/* kinds that are announced */
	uint64		disowned;		/* the owner that lt_disown() has left to the watchdog
								 * since the last request; 0 = none */
	uint64		named;			/* owner of a lock here that its last request named
								 * (StoreArgs.here); 0 = none */
	int64		until;			/* its request ends by then */
	bool		trying;			/* it asks the store */
} LrAsked;

/* A session in the order of the store. */
typedef struct LrPlace
{
	int64		came_at;		/* lr_now() when it came, */
	int64		notified_at;	/* when it was notified of its turn; 0 = it was not, or
								 * has asked since */
	LrStanding	standing;		/* what the store has answered since it came */
	SubscriptionState subscription; /* to the channel of its owner (LrAsked.claim) */
} LrPlace;

/* Generations of waits that may be in a deadlock. */
typedef struct LrCycle
{
	uint64		leaving;		/* that a deadlock ends; under the deadlock lock */
	uint64		suspected;		/* that may be in one; 0 = none */
} LrCycle;

/* A session awaits one key at a time, so this is part of its slot. */
typedef struct LrWait
{
	WaitState	state;
	LrIndex		key;			/* whose hash leads to the partition */
	LrIndex		hold;			/* that it waits with */
	LrIndex		handed;			/* the hold that it was handed, */
	bool		early;			/* while it asked the store; see handover.c */
	bool		in_front;		/* may ask the store: of the queue or line, or it is in
								 * the order of the store and not in line */
	bool		asleep;			/* counted in nwaiters */
	LockTerms	terms;			/* with which it asks for the lock */
	LrAsked		asked;
	LrPlace		place;
	LrIndex		prev;			/* session before it in the queue or list of the key */
	LrIndex		next;
	LrOfList	of_list;		/* if it is the first there */
	int64		woken_at;		/* lr_now() of a wake-up that it has not acted on; 0 =
								 * none */
	int64		looks_at;		/* when it looks again unless woken, or has ended its
								 * request; 0 = it is not in front */
	uint64		generation;		/* one more with each wait in this slot */
	LrCycle		cycle;
	TimestampTz since;
	char		blocker[LR_OWNER_MAX];	/* owner elsewhere, as the store named it last;
										 * empty = not known */
} LrWait;

typedef struct LrSession
{
	int			pid;			/* 0 = free */
	pg_atomic_uint32 nlost;		/* its holds that are lost */
	int			stocked_rows;	/* reserved for what it is about to take; its own */
	bool		committing;		/* past pre-commit; under the signal lock */
	bool		signalled;		/* was sent a signal, and has not asked since
								 * (lt_take_signal); likewise */
	Oid			datid;
	Oid			userid;
	LrWait		wait;
} LrSession;

/*
 * Slots from "nused" on have never been used, and nobody looks at them: their memory is
 * as the kernel gave it, zeroed.  It is only raised.
 */
typedef struct LrPool
{
	slock_t		mutex;
	LrIndex		first_free;		/* of slots below nused */
	pg_atomic_uint32 nused;
} LrPool;

/*
 * Which requests for a key may have been granted before the key was taken away by force.
 * Several keys share an entry, and the last force of one owner has its own time.
 */
typedef struct LrForced
{
	int64		all_until;		/* all that were sent until then (lr_now()), */
	int64		until;			/* and those of this owner until then */
	uint64		owner;
} LrForced;

/*
 * The records from "taken" on are new, up to "added".  The ring is written under its lock;
 * both numbers are also read, and "left_out" used, without.
 */
typedef struct LrLosses
{
	pg_atomic_uint32 added;
	pg_atomic_uint32 taken;
	pg_atomic_uint64 left_out;	/* neither logged nor counted in the log yet */
	LossRecord	ring[LT_LOSSES];
} LrLosses;

typedef struct LrTable
{
	int			max_locks;
	int			nbuckets;		/* a power of two, at least LT_PARTITIONS */
	int			nsessions;
	LrPool		key_pool;
	LrPool		hold_pool;
	pg_atomic_uint32 nrows;		/* rows of redis_locks: at most max_locks */
	pg_atomic_uint32 nwaiters;
	pg_atomic_uint64 last_wait; /* lr_now() when the first of them fell asleep */
	pg_atomic_uint32 norphans;	/* holds that were left to the watchdog */

	/* the watchdog */
	pg_atomic_uint64 sleeps_until[STORE_COUNT]; /* unless something is due
												 * there; 0 = it is awake */
	pg_atomic_uint32 subscription_work;

	LrForced	forced[LT_FORCED];	/* under the partition lock */
	LrLosses	losses;
} LrTable;

extern LrTable *lt_table;
extern LrIndex *lt_buckets;
extern LrKey *lt_keys;
extern LrHold *lt_holds;
extern pg_atomic_uint64 *lt_due[STORE_COUNT];	/* when the watchdog has to look at
												 * each hold, 0 = never; NULL: a store
												 * of another mode */
extern LrSession *lt_sessions;

/*
 * A walk over all holds looks at so many slots, and not at those that come into use
 * meanwhile: see README.proofs.md.
 */
static inline LrIndex
lt_used_slots(void)
{
	return (LrIndex) pg_atomic_read_u32(&lt_table->hold_pool.nused);
}

/* What the session waits for, if it waits. */
static inline LrWait *
lt_wait_of(LrIndex session)
{
	return &lt_sessions[session].wait;
}

/* Does the session wait for the key, in the queue or in the store's order? */
static inline bool
lt_is_waiting(const LrWait *w)
{
	return w->state == WAIT_QUEUED || w->state == WAIT_PLACED;
}

/*
 * Does the session wait for a key with that hash, whose partition lock is held?  If so, the
 * wait cannot end meanwhile.
 *
 * Without its wait we may hold the lock of a key that it waited for before, and it may begin
 * to wait under another lock just now.  So it writes the key first (lt_enqueue), and whoever
 * sees that it waits also sees for which key.
 */
static inline bool
lt_waits_for(const LrWait *w, uint32 hash)
{
	if (!lt_is_waiting(w))
		return false;
	pg_read_barrier();
	return lt_keys[w->key].hash == hash;
}

/* The key of a hold; of a slot that is free now, the one that it had last. */
static inline LrKey *
lt_key_of(LrIndex hold)
{
	return &lt_keys[lt_holds[hold].key];
}

/* The epoch of the master that has the key. */
static inline uint32
lt_epoch_of(LrIndex key)
{
	return cluster_epoch_of(lt_keys[key].name, lt_keys[key].name_len);
}

/*
 * Changes with the store that a hold is in, and with that store's master: answers to
 * requests from before do not count any more.
 */
static inline uint64
lt_moves(const LrHold *h)
{
	return ((uint64) h->claim.moves << 32) |
		(lr_store_can(h->claim.store, STORE_HAS_PLACE) ? lt_epoch_of(h->key) : 0);
}

/* Does no session have it any more? */
static inline bool
lt_is_left(const LrHold *h)
{
	return h->state == HOLD_LOST || h->state == HOLD_ORPHAN;
}

/* Does a session have it, or was one handed it? */
static inline bool
lt_is_had(const LrHold *h)
{
	return h->state == HOLD_HELD || h->state == HOLD_HANDED;
}

/* A time in shared memory that others may write. */
static inline int64
lt_read_time(pg_atomic_uint64 *t)
{
	return (int64) pg_atomic_read_u64(t);
}

/* Until when the hold counts; a time, also once it has passed. */
static inline int64
lt_deadline(LrIndex hold)
{
	return lt_read_time(&lt_holds[hold].deadline);
}

/* When the watchdog has to look at the hold; LR_NEVER where 0 is noted. */
static inline int64
lt_read_due(LrIndex hold, StoreId store)
{
	int64		due = lt_read_time(&lt_due[store][hold]);

	return due != 0 ? due : LR_NEVER;
}

/* Does a held lock have to move to this store? */
static inline bool
lt_is_wanted_in(const LrHold *h, StoreId store)
{
	return store != h->claim.store && current_store() == store &&
		lr_kind(h->kind)->falls_back;
}

/*
 * sessions.c: the lock of a partition.  This process has one at a time, and wakes the
 * processes that it has noted meanwhile when it releases it.
 */
extern void lt_lock(uint32 hash);
extern void lt_lock_shared(uint32 hash);
extern void lt_lock_hold(LrIndex hold);
extern bool lt_lock_owned(LrIndex hold, uint64 owner);
extern bool lt_lock_slot(LrIndex hold);
extern void lt_unlock(void);

/* A session that can go on, one that has lost a lock, the watchdog; partition lock held. */
extern void lt_add_to_wake(LrIndex session);
extern void lt_nudge(LrIndex session);
extern void lt_add_loser(LrIndex session, OnLost on_lost);
extern void lt_add_watchdog(void);

/* At once; and the room that a process needs to note those that it has to wake. */
extern void lt_wake_session(LrIndex session);
extern void lt_make_wake_room(void);

/* The loss of a record, as long as that is in the ring; partition lock held. */
extern void losses_find(uint32 number, LockLoss *loss);

/* locktable.c: the locks themselves. */
extern LWLock *lt_lwlock(uint32 n);

/* Pools and keys.  All of these: partition lock held. */
extern LrIndex lt_find_key(const char *name, int len, uint32 hash);
extern LrIndex lt_make_key(const char *name, int len, uint32 hash);

/* Rows are what max_locks counts. */
extern bool lt_reserve_row(void);
extern bool lt_take_row(void);
extern void lt_free_rows(int n);
extern LrIndex lt_alloc_hold(void);
extern int	lt_hold_rows(const LrHold *hold);
extern int64 lt_handed_lease_ms(const LrHold *h);
extern bool lt_has_ordered_hold(const LrKey *key);
extern void lt_list_insert(LrList *list, LrIndex session, LrIndex prev);
extern void lt_list_remove(LrList *list, LrIndex session);

/* due_times.c: what is where; partition lock held. */
extern bool lt_is_at_old_place(const LrHold *h, StoreId store);
extern bool lt_is_at_any_old_place(const LrHold *h);
extern bool lt_is_past(LrIndex key, uint32 topology);
extern bool lt_is_of_old_master(const LrHold *h, StoreId store);
extern int64 lt_promised_ms(LrIndex hold);
extern int64 lt_pending_create(const LrHold *h, StoreId store);
extern void lt_set_not_after(LrHold *h, StoreId store, int64 not_after);
extern void lt_note_place(LrHold *h, StoreId store);
extern void lt_note_answer(LrHold *h, uint64 moves);
extern LrClaim lt_claim_of(const StoreOp *op, LrIndex key);
extern void lt_first_trace(LrHold *h, LrClaim claim);
extern void lt_trace_of_move(LrHold *h, StoreId store);
extern void lt_forget_trace(LrHold *h, StoreId store);
extern int64 lt_here_since(StoreId store, int64 when);

/* Link, unlink and free; partition lock held. */
extern void lt_link_hold(LrIndex hold);
extern void lt_ask_longer(LrHold *h, int64 lease_ms);
extern void lt_unlink_hold(LrIndex hold);

/*
 * May the key have a hold of these kinds?  False is certain, and saves a walk over its
 * holds.  After a walk over all of them in vain, hold_kinds is set to what was seen.
 */
static inline bool
lt_has_kinds(const LrKey *key, KindSet kinds)
{
	return (key->hold_kinds & kinds) != 0;
}
extern void lt_free_hold(LrIndex hold);

/*
 * Of an operation that found the lock gone: who has the key now, as far as the store says,
 * and the reason of the loss.
 */
static inline const char *
lt_taken_by(const StoreOp *op)
{
	return op->outcome == STORE_WRONG_TYPE ? op->answer.type_name : op->answer.holder;
}

static inline LostReason
lt_reason_of(const StoreOp *op)
{
	return op->outcome == STORE_WRONG_TYPE || op->answer.holder[0] != '\0' ?
		LOST_TAKEN : LOST_DELETED;
}

/* lose.c; partition lock held. */
extern void lt_copy_loss(const LrHold *h, LockLoss *loss);
extern void lt_lose_if_expired(LrIndex hold);
extern void lt_leave_to_watchdog(LrIndex hold);
extern void lt_leave_until(LrIndex hold, int64 due);
extern void lt_make_orphan(LrIndex hold);
extern void lt_free_and_nudge(LrIndex hold);

/* A live hold that keeps the session from the key; marks expired ones lost. */
extern LrIndex lt_conflicting_hold(LrKey *key, LrIndex session, KindId kind, int64 now);
extern bool lt_is_live(LrIndex hold, int64 now);
extern bool lt_keeps_from(LrIndex hold, LrIndex session, KindId kind);
extern bool lt_is_being_given_back(const LrKey *key, KindId kind, const uint8 *id);
extern void lt_lose_locked(LrIndex hold, LostReason reason, const char *taken_by);
extern void lt_lost_is_there(LrIndex hold);
extern void lt_drop_handed(LrIndex session);
extern void lt_drop_lost_locked(LrIndex hold);

/*
 * Leave to the watchdog what a waiting session has in the store (LrAsked).  False: there is no
 * row for that, so others cannot pass over the session yet.
 */
extern bool lt_disown(LrIndex session);
extern LrIndex lt_make_record(LrIndex session);
extern void lt_disown_next(LrIndex session);

/* The lock is held once, on these terms. */
extern void lt_set_terms(LrHold *h, const LockTerms *terms, TimestampTz now);

/* queue.c; partition lock held. */
extern LrIndex lt_make_unqueued(const LrName *name, const LockTerms *terms);
extern void lt_init_waiting_hold(LrIndex hold, LrIndex key, const LockTerms *terms);
extern void lt_fall_asleep(LrWait *w, int64 now);
extern void lt_queue_insert(LrQueue *queue, LrIndex session, LrIndex prev);
extern bool lt_queue_remove(LrQueue *queue, LrIndex session);
extern bool lt_leave_queue(LrIndex session);
extern void lt_queue_scarce(LrQueue *queue);
extern bool lt_would_be_in_front(const LrQueue *queue, KindId kind);

/* Sessions in front may look again; if a lock of that kind kept them from the key. */
extern void lt_nudge_front(const LrQueue *queue);
extern void lt_nudge_after(LrKey *key, KindId kind);

/* If a lock that excludes these kinds, and is held now, does not keep one of them from it. */
extern void lt_nudge_beside(const LrQueue *queue, KindSet excluded);

extern void lt_begin_pause(LrIndex hold, const StoreOp *release);

/* Do those who wait for that kind stand in an order that the store keeps? */
extern bool lt_is_placed_by(KindId kind, StoreId store);
extern StoreId lt_keep_order(LrKey *key);
extern void lt_wait_on(LrIndex session, bool first);

/* places.c; partition lock held. */
extern bool lt_has_enough_left(int64 lease_ms, int64 left);
extern bool lt_fits(LrIndex hold, int64 now, const LrWait *w);
extern LrIndex lt_fitting_hold(const LrKey *key, const LrWait *w, int64 now);
extern void lt_place_insert(LrPlaces *places, LrIndex session, LrIndex prev,
							LrStanding standing);
extern void lt_place_remove(LrPlaces *places, LrIndex session);
extern void lt_stand(LrPlaces *places, LrIndex session, LrStanding standing);
extern void lt_line_up(LrPlaces *places);
extern void lt_nudge_placeless(LrKey *key);
extern void lt_note_clear(LrIndex hold, const StoreOp *create);
extern LrIndex lt_find_place(const LrPlaces *places, uint64 owner);
extern void lt_nudge_place(LrKey *key, uint64 owner, bool its_turn);

/* turn.c; partition lock held. */
extern LrIndex lt_find_own(const LrKey *key, LrIndex session, KindId kind, int64 now);

/* grant.c; partition lock held. */
extern void lt_note_nodes(LrIndex hold, const StoreOp *op);

/* hold.c; partition lock held. */
extern void lt_moved(const DueItem *item, int64 deadline);
extern bool lt_raise_locked(LrIndex hold, int64 deadline);
extern LrIndex lt_find_sent(const LrKey *key, KindId kind, int64 now);
extern bool lt_awaits_sent(const LrKey *key, const LrWait *w, int64 now,
						   int64 *look_again);

/* handover.c; partition lock held. */
extern bool lt_hand_over(LrIndex hold);
extern void lt_nudge_behind(LrIndex hold);
extern bool lt_accept(LrIndex *hold);
extern void lt_refuse_handed(void);
extern void lt_take_handed_back(LrIndex session);

/* due_times.c; partition lock held. */
extern void lt_take_due(LrIndex hold, StoreId store);
extern void lt_set_due(LrIndex hold, StoreId store, int64 due);
extern void lt_set_due_in_traces(LrIndex hold, int64 due);
extern void lt_set_due_of_held(LrIndex hold);
extern void lt_nothing_due(LrIndex hold);
extern int64 lt_renew_lease_ms(const LrHold *hold);
extern int	lt_min_replicas(const LrHold *hold);
extern bool lt_lacks_replicas(const DueItem *item, int64 deadline);
extern int64 lt_due_of_held(const LrHold *hold, int64 deadline);
extern void lt_set_due_in_own(LrIndex hold);
extern void lt_watch_from(LrHold *hold, int64 now, int64 left_ms);
extern bool lt_is_left_in(const LrHold *h, StoreId store);
extern bool lt_is_to_be_asked(const LrHold *h);

/* owed.c; partition lock held. */
extern bool lt_decide_owed(LrIndex hold, StoreId store, int64 now);

/* ----------
 * check.c: is all of this consistent?  In builds with assertions only.
 * ----------
 */

#ifdef USE_ASSERT_CHECKING

/*
 * Each of these returns what is wrong, in memory that the next call uses again, or NULL if
 * nothing is.
 */

/* A key with its holds and queue, or the wait of a session: partition lock held. */
extern const char *lt_check_key(LrIndex key);
extern const char *lt_check_wait(LrIndex session);

/* All counters, and all due times: only while no process changes the lock table. */
extern const char *lt_check_counts(void);
extern const char *lt_check_due_times(void);

/* The code of the lock table calls these; they end the process if something is wrong. */

/* Before a changed partition is unlocked. */
extern void lt_check_change(LWLock *lock);

/* This session has ended. */
extern void lt_check_session_end(void);

/* For the simulator, too: the names of states, and to return what a check has found. */
extern const char *const lt_state_names[];

#define CHECK(call) \
	do { \
		const char *says_ = (call); \
		if (says_ != NULL) \
			return says_; \
	} while (0)

#else

#define lt_check_change(lock)			((void) 0)
#define lt_check_session_end()			((void) 0)

#endif							/* USE_ASSERT_CHECKING */

#endif							/* LR_LOCKTABLE_INT_H */
