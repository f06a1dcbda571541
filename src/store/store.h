/*-------------------------------------------------------------------------
 *
 * store.h
 *	  The interface of a store, a place that keeps locks (Redis, a table).
 *
 * A store runs operations in batches.  The caller fills an array of StoreOp, calls
 * start(), and then step() until that returns that each operation has an outcome.
 * No call is a blocking request for a single key, so that a pipelined batch, several
 * independent masters, a cluster, or a worker that answers through shared memory fit
 * behind the same functions.  Callers ask what a store can do (features), not which
 * one it is.
 *
 * Sessions use one handle each, the watchdog several, and one listener.  A handle
 * belongs to one process and serves one batch at a time.
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
 * - A STORE_CREATE, like all operations of store_runs_once() (op.h), is handed to the
 *   store once.  It may be sent again only if it surely did not run: the store has
 *   said so (NOSCRIPT), or had ended the connection before.  All other operations
 *   check the owner, or a ticket, and may be repeated.
 * - An operation that another transaction blocks is retried with STORE_WAIT until
 *   shortly before the deadline, and ends as STORE_BLOCKED; with other steps, at once.
 * - No operation but STORE_RELEASE with keep_ms lowers the time to live of an owner's
 *   lock; a release without it and STORE_FORCE end it.
 * - Operations may share a request, but not its refusal: those that were refused
 *   together are tried one by one before that is their outcome, unless the store
 *   refuses everything.
 * - Creates that are taken together are one request with one answer, and are never
 *   separated.  If one of the locks is held, the creates of the free ones end as
 *   STORE_BUSY with STORE_VALUE_NONE.
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

/* A StoreSent.not_after whose clock is not known, or is not asked. */
#define NOT_AFTER_UNKNOWN	PG_INT64_MAX

/* Arguments that only a few operations have.  With all others they are 0. */
typedef struct StoreArgs
{
	StoreChange change;			/* define: how to change the number */
	int64		floor;			/* mint: the token must be above this */
	bool		acted;			/* release of a notification: its session acted on it, so
								 * it is not passed on */
	bool		quiet;			/* release of what was not held: notifies nobody */
	int			item;			/* release: which of the batch, for the caller */
	uint32		wanted;			/* release by several nodes: bits of those whose replies
								 * are worth a short wait; it counts all the same when
								 * most have done it */
	bool		alone;			/* renew, release: send it in a request of its own, as
								 * others would be refused with it */

	/* All others are of a create. */
	bool		fenced;			/* also take a fencing token */
	int			together;		/* that many adjacent creates are taken all or none; each
								 * of them has the number.  0 = this one alone */
	int64		wait_ms;		/* how long to announce the wait, for kinds that do; 0 =
								 * not at all */
	int64		since_ms;		/* when the wait began, by the store's clock; 0 = now */
	uint64		beside;			/* owner of this session's lock of the key of another
								 * kind; 0 = none */
	uint64		here;			/* a kind that is placed: owner by which a session here
								 * holds the key and can pass it on; 0 = none */
	uint64		gives_back;		/* a wait for a condition: owner of the lock that it
								 * releases; 0 = released before */
} StoreArgs;

/* Where an operation was sent, and what follows from that, whatever was answered. */
typedef struct StoreSent
{
	int64		at;				/* lr_now() before the first byte, 0 = nothing was sent */
	bool		again;			/* more than once: an earlier one may have run, or may
								 * still run */
	bool		done;			/* done, but without an outcome until replicas have
								 * confirmed it, or have not */
	uint32		topology;		/* epoch (nodes.c) of the master that it was sent to; 0
								 * if no master is looked for.  In a copy for one of
								 * several masters: the life of its row (nodes.c) */
	int64		not_after;		/* create, define: the store's clock (ms) after which it
								 * can no longer run */

	/* The node, if there are several; for the store only. */
	int			part;
	int			slot;
	int			redirects;		/* how often it was redirected */
	bool		asking;			/* to a node that is about to get the slot */

	/* Bits of nodes, if each has every lock; else 0. */
	uint32		nodes;			/* create, renew: those that may have it; release: those
								 * that may still have it, and will not be asked again */
	uint32		without;		/* create: those that are not known to have it */
} StoreSent;

/* What was answered.  What does not belong to the outcome is 0. */
typedef struct StoreAnswer
{
	bool		own_fault;		/* refused, denied: because of this operation; the store
								 * does others */
	int64		store_ms;		/* create (unless busy, but for kinds that are
								 * announced), time: the store's clock */
	int64		fence;			/* create (fenced), mint: the first token */
	int64		ttl_ms;			/* busy, inspect: time to live; set, renew of kinds that
								 * others may shorten: what the whole lock had */
	StoreValueKind value;		/* busy, wrong type, inspect */
	char		holder[LR_OWNER_MAX];	/* busy, gone, inspect; may be truncated */
	char		type_name[16];	/* wrong type, inspect: the store's name of it */
	char		digest[41];		/* inspect: digest of all holders, if there may be
								 * several; else empty */
	int			count;			/* inspect of a lock: how often it is held; release,
								 * force, notify: how many were notified */
	bool		clear;			/* create of a kind that is placed: nobody elsewhere
								 * waits; if busy, "here" holds the key besides */
	bool		unplaced;		/* busy and clear: the owner has no place in the queue */
	bool		changed;		/* define: the number was changed */
	int64		available;		/* define, value, count: how many are free (drain: were
								 * free); inspect: how many more can be taken */
	int64		total;			/* how many there are, including held ones */
} StoreAnswer;

typedef struct StoreOp
{
	StoreOpKind kind;
	KindId		lock_kind;

	/* For the caller: the store that it goes to, and HoldView.moves of its hold. */
	StoreId		store;
	uint64		moves;
	int			hold;			/* release, renew: index of the hold */

	/*
	 * Renew: is the lock not released by now?  A node of several that lacked it may have
	 * got it again behind the release.
	 */
	bool		(*is_held) (const struct StoreOp *op);

	/* Arguments.  What pointers refer to stays valid until there is an outcome. */
	const char *name;			/* full key name, UTF-8; not NUL-terminated */
	int			name_len;
	uint64		owner;			/* owner number of this instance; 0 = see id */
	uint8		id[STORE_ID_LEN];	/* the id of kinds that the store does not identify by
									 * the owner */
	const char *text;			/* create of a token lock: its token; STORE_FORCE: the
								 * whole owner, as inspected; else NULL */
	int			text_len;
	int64		lease_ms;		/* create, set (0: leave it), renew */
	int64		keep_ms;		/* release: leave the key locked for that long; create,
								 * set: a release will do so, even if this server crashes */
	int64		amount;			/* define, create of a semaphore, release, count: how
								 * many; create (fenced), mint: how many more tokens;
								 * notify: how many at most */
	int			min_replicas;	/* create, set, renew, mint: number of replicas that have
								 * to confirm it, or it ends as STORE_UNCONFIRMED.
								 * Ignored by a store without replicas */
	StoreArgs	args;

	StoreSent	sent;
	StoreOutcome outcome;
	StoreAnswer answer;
} StoreOp;

/* Who holds a lock, as inspected: the digest of several owners, or the only one. */
static inline const char *
store_owners(const StoreAnswer *seen)
{
	return seen->digest[0] != '\0' ? seen->digest : seen->holder;
}

/* Does this STORE_FORCE name that owner, or that digest of owners? */
static inline bool
store_names_owner(const StoreOp *op, const char *owner)
{
	return op->text_len == (int) strlen(owner) &&
		memcmp(owner, op->text, op->text_len) == 0;
}

/*
 * SQLSTATEs of a store that fails.  They are not of class 08: connection pools take
 * that for an error of the connection to PostgreSQL, and would close a good one.
 */
#define ERRCODE_STORE_UNREACHABLE	ERRCODE_SYSTEM_ERROR
#define ERRCODE_STORE_DENIED		ERRCODE_SYSTEM_ERROR
#define ERRCODE_STORE_FAILED		ERRCODE_IO_ERROR

/* Is it one of those? */
static inline bool
store_has_failed(int sqlstate)
{
	return ERRCODE_TO_CATEGORY(sqlstate) == ERRCODE_TO_CATEGORY(ERRCODE_STORE_FAILED);
}

/*
 * Why operations of the last batch ended in an outcome from STORE_REFUSED on.  These
 * are plain buffers, so that they can be written where nothing may be allocated.
 */
typedef struct StoreError
{
	int			sqlstate;		/* one of those above or another one; 0 = none */
	char		detail[1024];	/* a sentence with the node's message, of several nodes a
								 * line each; without any address, user or password */
	char		address[128];	/* for the server log and pg_monitor only */
	const char *hint;			/* NULL, or text that lasts until the next batch */
} StoreError;

typedef enum StoreStep
{
	STORE_NOWAIT,				/* do what is possible now, and return */
	STORE_WAIT,					/* wait, interruptible */
	STORE_POLL					/* wait, raise nothing */
} StoreStep;

/* A socket that an event loop of the caller has to watch. */
typedef struct StoreInterest
{
	pgsocket	sock;
	uint32		events;			/* WL_SOCKET_READABLE | WL_SOCKET_WRITEABLE */
	uint32		number;			/* differs from that of any other socket of the process,
								 * as descriptors are used again */
} StoreInterest;

#define STORE_MAX_INTERESTS		16

/* All that an event loop waits for; each of its parts adds its own. */
typedef struct StoreInterests
{
	StoreInterest *socket;
	int			n;
	int			max;			/* room in socket[] */
	int64		until;			/* lr_now() time; starts as LR_NEVER */
} StoreInterests;

/* Wake up then at the latest. */
static inline void
store_wait_until(StoreInterests *in, int64 until)
{
	in->until = Min(in->until, until);
}

/* Interval for a socket for which there is no room. */
#define UNWATCHED_POLL			(10 * LR_US_PER_MS)

/* Wake up for these events of the socket; "number" tells its owner which it is. */
static inline void
store_wait_for(StoreInterests *in, pgsocket sock, uint32 events, uint32 number)
{
	if (in->n < in->max)
		in->socket[in->n++] = (StoreInterest) {.sock = sock,.events = events,.number = number};
	else
		store_wait_until(in, lr_now() + UNWATCHED_POLL);
}

/* What a store can do; callers go by these features, not by which store it is. */
#define STORE_HAS_FENCE			0x01	/* tokens: create fenced, mint */
#define STORE_HAS_PUSH			0x02	/* notifies waiters: has a listener */
#define STORE_HAS_FACTS			0x04	/* reports facts of itself: STORE_FACTS */
#define STORE_HAS_PLACE			0x08	/* a setting names its place, which may change
										 * while locks are held: lr_place, stay() */
#define STORE_LATE_CREATES		0x10	/* a create may run after its caller has given up,
										 * until not_after */
#define STORE_SERVER_ONLY		0x20	/* excludes only the sessions of this server: any
										 * key that is held there is held by one of them */

#define STORE_HAS_REPLICAS		0x40	/* has replicas that can confirm: min_replicas of
										 * an operation */
#define STORE_HAS_ORDER			0x80	/* keeps the order of waiting sessions, for kinds with "placed" */
#define STORE_HAS_TOGETHER		0x100	/* takes several creates together */
#define STORE_HAS_DIGESTS		0x200	/* has digests of tokens, not the tokens: it gets
										 * the SHA-256 instead, and StoreOp.id is the
										 * beginning of that */

/* Each store defines these for itself; see batch.c. */
typedef struct StoreHandle StoreHandle;
typedef struct StoreListener StoreListener;

/* What let_go() returns instead of a time. */
#define STORE_NOT_CONNECTED		INT64CONST(-1)
#define STORE_LET_GO			INT64CONST(-2)

#define STORE_NO_PART			(-1)

/* What group_of() returns for a name that the store cannot keep. */
#define STORE_NO_GROUP			(-1)

/* Events of a listener.  CONFIRMED: every message from now on arrives. */
typedef enum StoreEvent
{
	STORE_LISTEN_CONFIRMED,
	STORE_LISTEN_RELEASED,		/* the lock was released */
	STORE_LISTEN_REFUSED,		/* no messages about this name */
	STORE_LISTEN_LOST			/* messages may have been lost, all are void; key is
								 * NULL */
} StoreEvent;

typedef void (*StoreEventCallback) (StoreEvent event, const TopicKey *key);

/* Is this name not awaited any more? */
typedef bool (*StoreUnused) (const TopicKey *key);

/*
 * The answer to a release that was left: STORE_OK, GONE or WRONG_TYPE; or STORE_UNKNOWN
 * if it was an error, or will not come.
 */
typedef void (*StoreAnswered) (const StoreOp *op);

typedef struct StoreRoutine
{
	const char *name;			/* "redis" */
	int			features;		/* STORE_HAS_FENCE and the like */
	NodeId		node;			/* its first node */

	/*
	 * Make a handle in TopMemoryContext; does not connect.  "role" is shown
	 * to the store as part of the connection's name.  In a store of several nodes,
	 * operations that concern no lock go to "part", of several masters all operations; or
	 * to any with STORE_NO_PART.
	 */
	StoreHandle *(*open) (const char *role, int part);

	/*
	 * Hand over a batch.  "deadline" (lr_now() time) bounds the whole of it,
	 * connecting included; within it connect_timeout and command_timeout
	 * bound each part.  Sends what it can without waiting.  If it needs memory and gets
	 * none, it is sent in smaller parts, or ends as STORE_DOWN.
	 */
	void		(*start) (StoreHandle *h, StoreOp *ops, int nops,
						  int64 deadline);

	/*
	 * True when every operation of the batch has an outcome.  A store whose nodes have
	 * operations of their own also returns when one of them has done its part.
	 */
	bool		(*step) (StoreHandle *h, StoreStep how);

	/*
	 * Between start() and step(), for releases: if all were sent over a connection that
	 * has done such before, end the batch, without any outcome.  Later batches follow
	 * on the same connection.  "answered" is called for each release, as soon as its
	 * answer is read along with a later batch, or when such a batch finds the
	 * connection lost.  Not with several nodes.  False: go on with step().  NULL: the
	 * store does not do that.
	 */
	bool		(*leave) (StoreHandle *h, StoreAnswered answered);

	/*
	 * Give up the batch: closes a dirty connection, and gives each operation an
	 * outcome.
	 */
	void		(*abandon) (StoreHandle *h);

	/*
	 * For event loops that step with STORE_NOWAIT: add up to STORE_MAX_INTERESTS
	 * sockets to watch, and until when at most.  Between batches kept connections are
	 * watched too, and a step closes those that have died.
	 */
	void		(*interests) (StoreHandle *h, StoreInterests *in);

	/*
	 * This create of a semaphore, or count, was answered, and will be neither repeated
	 * nor undone, so the store need not remember its ticket.  The store learns that
	 * along with the next batch over the same connection, or before the connection is
	 * closed.  Nobody waits for it; if it gets lost, the store forgets the ticket later
	 * by itself.  Between batches.
	 */
	void		(*forget) (StoreHandle *h, const StoreOp *op);

	const StoreError *(*error) (StoreHandle *h);

	/* Is there a connection that was good when last checked? */
	bool		(*connected) (StoreHandle *h);

	/* Changes when a connection is made. */
	uint32		(*connections) (StoreHandle *h);

	/* Close all sockets now; the handle stays usable. */
	void		(*disconnect) (StoreHandle *h);

	/*
	 * In a signal handler, which may interrupt any other function: end the connection
	 * if it was not used since that time (lr_now()), no batch is under way, and the
	 * store does not wait for replicas.  The next batch notices that; answers to
	 * releases that were left are lost then.  Returns when it was last used, now if it
	 * is in use, STORE_LET_GO if it has just been ended.  NULL: the store keeps no
	 * connection.
	 */
	int64		(*let_go) (StoreHandle *h, int64 unused_since);

	/*
	 * Until disconnect(), serve over the present connection, whatever the settings say
	 * now, and make no other: if it is lost, all operations end as STORE_DOWN.  NULL: a
	 * store that has only one place.
	 */
	void		(*stay) (StoreHandle *h);

	/*
	 * The watchdog: can a connection be made by the settings, as far as this server
	 * knows?  If not, the error says why, and existing connections stay.  NULL: yes.
	 */
	bool		(*usable) (StoreError *error);

	/*
	 * A store of several nodes, which fail independently: does each of them have some of
	 * the locks now; which part has this lock, STORE_NO_PART if that is not known; is there such
	 * a part, or such a node, if each has all of the locks?  Part p is NODE_MASTER + p in the
	 * table of nodes.  NULL: never several.
	 */
	bool		(*parted) (void);
	int			(*part_of) (const char *name, int len);
	bool		(*has_part) (int part);

	/* Can it keep locks of that kind, in its present form?  NULL: all. */
	bool		(*takes_kind) (KindId kind);

	/*
	 * Locks that are taken together have to be in the same group.  STORE_NO_GROUP: it
	 * cannot keep a lock of that name.  NULL: a single group, with any name.
	 */
	int			(*group_of) (const char *name, int len);

	/*
	 * The watchdog: others may name the node of the store (nodes.c).  Begin with the
	 * present settings; ask and listen without waiting; the sockets to wait for.  NULL:
	 * nobody else names it.
	 */
	void		(*follow_start) (void);
	void		(*follow_step) (void);
	void		(*follow_reload) (void);	/* the settings were read again without a
											 * change */
	void		(*follow_interests) (StoreInterests *in);

	/* The listener: NULL without STORE_HAS_PUSH. */
	StoreListener *(*listener_open) (StoreEventCallback callback);
	/* Listen for messages about this name; if it does already, confirm that again. */
	void		(*listener_subscribe) (StoreListener *l, const TopicKey *key);
	/* Stop listening for messages about names that are unused; are any left? */
	bool		(*listener_sweep) (StoreListener *l, StoreUnused unused);
	/* Reads and writes what is possible; connects again when it is time to. */
	void		(*listener_step) (StoreListener *l);
	void		(*listener_interests) (StoreListener *l, StoreInterests *in);
	void		(*listener_close) (StoreListener *l);
} StoreRoutine;

extern const StoreRoutine redis_store;
extern const StoreRoutine table_store;

/* ----------
 * batch.c: For stores only: a batch under way, the state that every store keeps.
 *
 * It implements the rules above that do not depend on the store: each operation gets one
 * outcome, an operation that may have run never counts as not run, and a batch that a
 * longjmp has left is dropped without touching its operations.  A store has a StoreBatch
 * in its handle and does the rest: it sends, reads, and waits.
 *
 * Nothing in there waits, allocates or raises.
 * ----------
 */

typedef struct StoreBatch
{
	bool		active;			/* from batch_start() to batch_finish() */
	StoreOp    *ops;			/* the caller's; NULL unless active */
	int			nops;
	int			part;			/* it owns the operations of this part; see StoreSent */
	int			left;			/* number of operations without outcome */
	int64		deadline;		/* lr_now() time */
	StoreError	error;			/* kept when the batch has ended */
} StoreBatch;

/*
 * Begin: no operation has an outcome, and none was sent.  An empty batch is not active.
 */
extern void batch_start(StoreBatch *batch, StoreOp *ops, int nops,
						int64 deadline);

/*
 * Begin with the "n" operations of that part, after another batch has begun all of
 * them; or add them to the batch under way.
 */
extern void batch_join(StoreBatch *batch, StoreOp *ops, int nops, int part, int n,
					   int64 deadline);

/* Does the operation belong to this batch? */
static inline bool
batch_has(const StoreBatch *batch, const StoreOp *op)
{
	return op->sent.part == batch->part;
}

/* An operation without outcome leaves this batch for another part. */
extern void batch_hand_on(StoreBatch *batch, StoreOp *op, int part);

/* Set the outcome of an operation of the batch that has none. */
extern void batch_settle(StoreBatch *batch, StoreOp *op, StoreOutcome outcome);

/* This operation surely did not reach the store, although it had been sent. */
extern void batch_mark_unsent(StoreOp *op);

/*
 * Settle all operations without outcome: those that were sent as STORE_UNKNOWN, the
 * others as "unsent".
 */
extern void batch_give_up(StoreBatch *batch, StoreOutcome unsent);

/* End the batch if all operations have an outcome; returns true if that ended it. */
extern bool batch_finish(StoreBatch *batch);

/* Drop the batch, without touching the operations, since they may be gone. */
extern void batch_forget(StoreBatch *batch);

/* Set the error for the caller; without address and hint. */
extern void batch_set_error(StoreBatch *batch, int sqlstate, const char *detail);

#endif							/* LR_STORE_H */
