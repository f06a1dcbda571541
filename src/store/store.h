/*-------------------------------------------------------------------------
 *
 * store.h
 *	  What a place that keeps locks (Redis, a table) offers to the rest.
 *
 * A store runs operations in batches.  The caller fills an array of StoreOp,
 * calls start() and then step() until it says that each operation has an
 * outcome.  No call is one blocking request a key, so that a pipelined batch,
 * several independent masters, a cluster or a worker that answers through
 * shared memory fit behind the same functions.  Nothing above this
 * interface knows which store it talks to.
 *
 * Who uses it: sessions (one handle each), the watchdog (one handle and one
 * listener).  A handle belongs to one process and serves one batch at a time.
 *
 * Rules for every implementation:
 *
 * - start() and step() report through the outcome of each operation, never by
 *   raising.  The only thing that may raise is CHECK_FOR_INTERRUPTS(), and
 *   only in step(STORE_WAIT).  After such a longjmp the caller must call
 *   abandon() before anything else; until then the handle is dirty and
 *   start() on it must abandon by itself.
 * - step(STORE_POLL) is for places where nothing may raise, allocate in a
 *   memory context, or touch a latch (transaction end, process exit): it
 *   waits with poll(2) or short sleeps only.
 * - An operation that may have reached the store and has no reply ends as
 *   STORE_UNKNOWN, one that surely has not as STORE_DOWN.
 * - A STORE_CREATE, and what else runs once (op.h), is handed to the store once.
 *   Sending it again is allowed only when it surely did not run: the store has said
 *   so (NOSCRIPT), or it had ended the connection before.
 *   All other operations check the owner and may be repeated.
 * - What another transaction blocks is tried again until shortly before the deadline with
 *   STORE_WAIT, and is STORE_BLOCKED then; otherwise it is that at once.
 * - No operation but STORE_RELEASE with keep_ms lowers a time to live; a release
 *   without it and STORE_FORCE end it.
 * - Operations may share a request, but not its refusal: those that were refused
 *   together are tried one by one before that is their outcome, unless the
 *   store refuses everybody.
 * - Creates that are taken together are one request with one answer, and are never
 *   parted.  If one of them is not free the others, which are, are STORE_BUSY with
 *   STORE_VALUE_NONE.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/store.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_STORE_H
#define LR_STORE_H

#include "lockredis.h"

#include "kinds/kind.h"
#include "store/nodes.h"
#include "store/op.h"

/* A StoreOp.not_after by a clock that nobody knows, or that nobody asks. */
#define NOT_AFTER_UNKNOWN	PG_INT64_MAX

typedef struct StoreOp
{
	StoreOpKind kind;
	KindId		lock_kind;

	/* The caller's own: where it goes, and HoldView.moves of its hold. */
	StoreId		store;
	uint64		moves;
	int			hold;			/* release: index of its hold */

	/* Arguments.  Pointers stay valid until there is an outcome. */
	const char *name;			/* full key name, UTF-8; not NUL-terminated */
	int			name_len;
	uint64		owner;			/* owner number of this instance; 0 = see id */
	uint8		id[STORE_ID_LEN];	/* kinds that the store does not know by the owner:
									 * what it does know them by */
	const char *token;			/* create of a token lock: its token; else NULL */
	int			token_len;
	const char *owner_text;		/* STORE_FORCE: the owner as inspected, whole;
								 * else NULL */
	int			owner_text_len;
	int64		lease_ms;		/* create, set (0: leave it), renew */
	int64		keep_ms;		/* release: leave the key locked that long;
								 * create, set: it will be, even if this
								 * server crashes */
	int			count;			/* notify: how many at most */
	bool		fenced;			/* create: take a fencing token too */
	int64		floor;			/* mint: the token must be above it */
	int64		wait_ms;		/* create: announce for so long that it is awaited,
								 * if that is so; 0 = not at all */
	int64		since_ms;		/* create: when it was asked for first, by the
								 * store's clock; 0 = this is the first time */
	uint64		beside;			/* create: owner of what this session has of the
								 * key as another kind; 0 = nothing */
	uint64		gives_back;		/* create of a wait for a condition: owner of the
								 * lock that is given back by it; 0 = it was */
	bool		acted;			/* release: of what was told, which nobody else has to
								 * be told instead */
	int			min_replicas;	/* create, set, renew, mint: so many replicas have to
								 * confirm it, or it is STORE_UNCONFIRMED.  A store
								 * without replicas heeds it not */
	bool		alone;			/* renew, release: in a request of its own, since
								 * others would be refused with it */
	StoreChange change;			/* define: what to do to the number, */
	int64		amount;			/* with that; create of a semaphore, release, count:
								 * how many; mint: so many more tokens */
	uint32		wanted;			/* release: bits of nodes, of several that all have it,
								 * whose answer is worth a moment; it counts when
								 * most of them have done it all the same */
	int			together;		/* create: so many, which follow each other, are
								 * taken all or none; each of them has the number.
								 * 0 = this one alone */

	/* The store's own: to which of its nodes it goes, if it has several. */
	int			part;
	int			slot;
	int			redirects;		/* so often it was sent elsewhere */
	bool		asking;			/* to a node that is about to get the slot */
	bool		quiet;			/* release of what was not had: nobody is told */
	int64		sent_at;		/* lr_now() before the first byte went out, 0 =
								 * nothing was sent */

	/* Results. */
	StoreOutcome outcome;
	uint32		topology;		/* epoch (topology.c) of the master that it was
								 * sent to; 0 where none is looked for.  A copy for
								 * one of several masters: the life of its row
								 * (masters.c) */
	int64		not_after;		/* create, define, once sent: the store's clock
								 * (ms) after which it can no longer run */
	int64		store_ms;		/* create (unless busy, but for kinds that are
								 * announced), time: the store's clock */
	int64		ttl_ms;			/* busy, inspect */
	uint32		nodes;			/* of several that all have it, bits.  Create, renew:
								 * those that may have it, for all that was asked;
								 * release: that may have it still, and will not be
								 * asked any more.  0 where there are no such */
	int64		fence;			/* create (fenced), mint: the first token; else 0 */
	int			hold_count;		/* inspect of a lock */
	int			receivers;		/* release, force, notify: how many were told */
	bool		resent;			/* sent more than once: the first may have run, or may
								 * yet */
	bool		done;			/* carried out; no outcome before replicas have
								 * confirmed it, or have not */
	bool		own_fault;		/* refused, denied: this one, for what it asks;
								 * the store does others */
	StoreValueKind value;		/* busy, wrong type, inspect */
	char		holder[LR_OWNER_MAX];	/* busy, gone, inspect; may be cut */
	char		type_name[16];	/* wrong type, inspect: the store's word */
	char		digest[41];		/* inspect: of all who have it, if they may be
								 * several; else empty */
	bool		changed;		/* define: there is another number now */
	int64		available;		/* define, value, count: so many are free (what was
								 * drained: were); inspect: so many more can be had */
	int64		total;			/* and there are, with those that somebody has */
	int64		watch_ms;		/* set, renew of kinds that others may shorten: for
								 * how long the store had all of the lock */
	uint32		without;		/* create by most of several masters (bits): those
								 * that are not known to have it */
} StoreOp;

/* The results of an operation: all from the outcome on. */
#define STORE_RESULTS(op)	((char *) (op) + offsetof(StoreOp, outcome))
#define STORE_RESULTS_SIZE	(sizeof(StoreOp) - offsetof(StoreOp, outcome))

/*
 * What a store that fails is to SQL.  It is none of class 08: pools of connections take
 * that for the connection to PostgreSQL, and close one that is in order.
 */
#define ERRCODE_STORE_UNREACHABLE	ERRCODE_SYSTEM_ERROR
#define ERRCODE_STORE_DENIED		ERRCODE_SYSTEM_ERROR
#define ERRCODE_STORE_FAILED		ERRCODE_IO_ERROR

static inline bool
store_has_failed(int sqlstate)
{
	return ERRCODE_TO_CATEGORY(sqlstate) == ERRCODE_TO_CATEGORY(ERRCODE_STORE_FAILED);
}

/*
 * Why the last batch had an outcome from STORE_REFUSED on.  Plain buffers, so
 * that it can be written where nothing may be allocated.
 */
typedef struct StoreError
{
	int			sqlstate;		/* one of those above, or another one; 0 = none */
	char		detail[1024];	/* a sentence with the node's words, of several
								 * nodes a line each; without any address, user or
								 * password */
	char		address[128];	/* for the server log and pg_monitor only */
	const char *hint;			/* static text or NULL */
} StoreError;

typedef enum StoreStep
{
	STORE_NOWAIT,				/* do what is possible now, and return */
	STORE_WAIT,					/* wait with the latch, interruptible */
	STORE_POLL					/* wait without the latch, raise nothing */
} StoreStep;

/* A socket that an event loop of the caller has to watch. */
typedef struct StoreInterest
{
	pgsocket	sock;
	uint32		events;			/* WL_SOCKET_READABLE | WL_SOCKET_WRITEABLE */
} StoreInterest;

#define STORE_MAX_INTERESTS		16

/*
 * What a store can do and is; the code above goes by these, never by which store
 * it is.
 */
#define STORE_HAS_FENCE			0x01	/* tokens: create fenced, mint */
#define STORE_HAS_PUSH			0x02	/* wakes waiters itself: has a listener */
#define STORE_HAS_FACTS			0x04	/* says something of itself: STORE_FACTS */
#define STORE_HAS_PLACE			0x08	/* a setting says where it is, and may
										 * point elsewhere while locks are held:
										 * lr_place, stay() */
#define STORE_LATE_CREATES		0x10	/* a create may run after its caller has
										 * given it up, until not_after */
#define STORE_SERVER_ONLY		0x20	/* excludes the sessions of this server
										 * and nobody else: whoever has a key
										 * there took it here */

#define STORE_HAS_REPLICAS		0x40	/* they can be made to confirm:
										 * min_replicas of an operation */
#define STORE_HAS_ORDER			0x80	/* keeps the order in which they came who
										 * wait: the kinds that are placed */
#define STORE_HAS_TOGETHER		0x100	/* creates that are taken together */
#define STORE_HAS_DIGESTS		0x200	/* of tokens, not tokens themselves: it is told
										 * the SHA-256 instead, and StoreOp.id is the
										 * beginning of that */

/* Each store has its own, which it makes of this; see batch.h. */
typedef struct StoreHandle StoreHandle;
typedef struct StoreListener StoreListener;

/* What let_go() returns instead of a time. */
#define STORE_NOT_CONNECTED		INT64CONST(-1)
#define STORE_LET_GO			INT64CONST(-2)

/* What a listener tells.  CONFIRMED: every message from now on arrives. */
typedef enum StoreEvent
{
	STORE_LISTEN_CONFIRMED,
	STORE_LISTEN_RELEASED,		/* somebody gave the lock back */
	STORE_LISTEN_REFUSED,		/* nothing is told of this one */
	STORE_LISTEN_LOST			/* name NULL: connection lost, all are void */
} StoreEvent;

/* The owner: of topics that have a channel for each (lr_topic_of_owners); else 0. */
typedef void (*StoreEventCallback) (StoreEvent event, LrTopic topic, uint64 owner,
									const char *name, int name_len);

/*
 * The answer to a release that nobody has waited for: STORE_OK, GONE or WRONG_TYPE; or
 * STORE_UNKNOWN: it was an error, or will not come.
 */
typedef void (*StoreAnswered) (const StoreOp *op);

typedef struct StoreRoutine
{
	const char *name;			/* "redis" */
	int			features;		/* STORE_HAS_FENCE and the like */
	NodeId		node;			/* its first node, and what that is */
	NodeRole	role;

	/* Its shared memory, where it is used; NULL: none. */
	Size		(*shmem_size) (void);
	void		(*shmem_init) (void);

	/*
	 * Make a handle in TopMemoryContext; does not connect.  "role" is shown
	 * to the store as part of the connection's name.
	 */
	StoreHandle *(*open) (const char *role);

	/*
	 * Hand over a batch.  "deadline" (lr_now() time) bounds the whole of it,
	 * connecting included; within it connect_timeout and command_timeout
	 * bound each part.  Sends what it can without waiting.
	 */
	void		(*start) (StoreHandle *h, StoreOp *ops, int nops,
						  int64 deadline);

	/* True when every operation of the batch has an outcome. */
	bool		(*step) (StoreHandle *h, StoreStep how);

	/*
	 * Between start() and step(), for releases: if all were sent over a connection that
	 * has done such before, the batch ends here, and none of them has an outcome.
	 * Later batches go behind it, and "answered" is called for each as soon as its
	 * answer is read along with one of those, or one of those finds the connection
	 * lost.  Not with several nodes.  False: go on with step().  NULL: a
	 * store that does not do that.
	 */
	bool		(*leave) (StoreHandle *h, StoreAnswered answered);

	/* Give the batch up: closes what is dirty, gives each an outcome. */
	void		(*abandon) (StoreHandle *h);

	/*
	 * For event loops that step with STORE_NOWAIT: which sockets to watch,
	 * and until when at most (lr_now() time).  Returns their number.
	 * "epoch" changes whenever a socket was replaced.  Between batches kept
	 * connections are watched too, and a step closes those that have died.
	 */
	int			(*interests) (StoreHandle *h, StoreInterest *out,
							  int64 *until, uint32 *epoch);

	/*
	 * This create of a semaphore, or count, was answered, and nobody will repeat or
	 * undo it: it need not be remembered that it has run.  That is said along with the
	 * next batch over the same connection, or before it is closed; nobody waits for
	 * it, and if it gets lost the store forgets by itself, later.  Between batches.
	 * NULL: one that remembers the last requests only.
	 */
	void		(*forget) (StoreHandle *h, const StoreOp *op);

	/* Make room so that a batch of releases of n keys can go out unraised. */
	void		(*reserve) (StoreHandle *h, int n);

	const StoreError *(*error) (StoreHandle *h);

	/* Is there a kept connection that was good when last looked at? */
	bool		(*connected) (StoreHandle *h);

	/*
	 * Changes when a connection was made.  NULL: with the epoch of interests().
	 */
	uint32		(*connections) (StoreHandle *h);

	/* Close all sockets now; the handle stays usable. */
	void		(*disconnect) (StoreHandle *h);

	/*
	 * In a signal handler, at any moment of all others: end the connection if
	 * it was not used since that time (lr_now()), no batch is under way, and
	 * nothing is owed.  The next batch finds that out.  Returns when it was
	 * used last, now if it is in use, STORE_LET_GO if it has just been ended.
	 * NULL: none is kept.
	 */
	int64		(*let_go) (StoreHandle *h, int64 unused_since);

	/*
	 * Until disconnect() serve over the connection that there is, wherever
	 * the settings point now, and make no other: without it all is
	 * STORE_DOWN.  NULL: a store that has but one place.
	 */
	void		(*stay) (StoreHandle *h);

	/*
	 * The watchdog: can a connection be made by the settings, as far as this server
	 * knows?  If not the error says why, and those that there are stay.  NULL: yes.
	 */
	bool		(*usable) (StoreError *error);

	/*
	 * Where it is several nodes that fail one by one, each of which has some of the
	 * locks: is it so now; which of them has this one, -1 if nobody knows; is there
	 * such a part?  What concerns no lock is for the part that a handle is aimed at.
	 * The row of part p in the table of nodes is NODE_MASTER + p.  NULL: never.
	 */
	bool		(*parted) (void);
	int			(*part_of) (const char *name, int len);
	bool		(*has_part) (int part);
	void		(*aim) (StoreHandle *h, int part);

	/* Can it keep locks of that kind, as it is now?  NULL: all. */
	bool		(*takes_kind) (KindId kind);

	/*
	 * Can it keep a lock of that name?  Locks that are taken together have to be of
	 * the same group.  NULL: any; there is one group.
	 */
	bool		(*takes_name) (const char *name, int len);
	int			(*group_of) (const char *name, int len);

	/*
	 * The watchdog: others may say where the store is (topology.c).  Begin with
	 * the present settings; ask and listen, without waiting; for what.  NULL: a
	 * store of which nobody says so.
	 */
	void		(*follow_start) (void);
	void		(*follow_step) (void);
	void		(*follow_reload) (void);	/* the settings were read again, and
											 * are the same */
	int			(*follow_interests) (StoreInterest *out, int64 *until,
									 uint32 *epoch);

	/* The listener: NULL without STORE_HAS_PUSH. */
	StoreListener *(*listener_open) (StoreEventCallback callback);
	void		(*listener_subscribe) (StoreListener *l, LrTopic topic, uint64 owner,
									   const char *name, int name_len);
	void		(*listener_unsubscribe) (StoreListener *l, LrTopic topic, uint64 owner,
										 const char *name, int name_len);
	/* Reads and writes what is possible; connects again when it is time. */
	void		(*listener_step) (StoreListener *l);
	int			(*listener_interests) (StoreListener *l, StoreInterest *out,
									   int64 *until, uint32 *epoch);
	void		(*listener_close) (StoreListener *l);
} StoreRoutine;

extern const StoreRoutine redis_store;
extern const StoreRoutine table_store;

#endif							/* LR_STORE_H */
