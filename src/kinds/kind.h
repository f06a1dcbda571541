/*-------------------------------------------------------------------------
 *
 * kind.h
 *	  What a kind of lock is: one constant description.
 *
 * The lock table, the wait loop, the watchdog and the stores know kinds only by
 * these descriptions, as PostgreSQL's lock manager knows its lock methods by
 * their conflict tables.  A new kind is a description, scripts in a folder of its
 * own, and its SQL functions.  The row of such a function (sql/verbs.c) says
 * which kind it means; what the table store does is a table of functions by kind.  No
 * other code names a kind (script/structure): it goes by these fields.
 *
 * The descriptions are constant: nothing in this folder has state or does I/O, and
 * the functions below only look at them.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/kinds/kind.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_KIND_H
#define LR_KIND_H

#include "lockredis.h"

#include "port/pg_bitutils.h"

#include "kinds/lua_ids.h"
#include "names.h"
#include "store/op.h"

typedef enum KindId
{
	KIND_REENTRANT,
	KIND_READ,
	KIND_WRITE,
	KIND_FAIR,
	KIND_TOKEN,
	KIND_PERMIT,
	KIND_CONDITION,
	KIND_SEMAPHORE,
	KIND_LATCH,
	KIND_COUNT
} KindId;

/* A set of kinds; small, as each key has several. */
typedef uint16 KindSet;

/* The simulator has two kinds more, behind the NULL of lr_kinds. */
#define KIND_ROOM			(KIND_COUNT + 3)

#define KIND_BIT(id)		(1U << (id))

/* Of these a key has one at a time, but for several readers. */
#define KINDS_APART \
	(KIND_BIT(KIND_REENTRANT) | KIND_BIT(KIND_READ) | KIND_BIT(KIND_WRITE) | \
	 KIND_BIT(KIND_FAIR) | KIND_BIT(KIND_TOKEN))

/* Arguments of scripts; most are fields of StoreOp. */
typedef enum KindArg
{
	ARG_END = 0,
	ARG_OWNER,
	ARG_TEXT,					/* a token, or the whole owner as inspected */
	ARG_LEASE,
	ARG_KEEP,					/* how long the key stays locked; usually 0 */
	ARG_NOT_AFTER,
	ARG_FLOOR,
	ARG_WRITE,					/* unusual: write even if that changes nothing,
								 * since replicas have to confirm it, and they
								 * confirm what this connection wrote last */
	ARG_PUBLISH,				/* the command that publishes, usually PUBLISH; empty:
								 * publish nothing */
	ARG_CHANNEL,				/* the channel to publish to.  It is not among the keys:
								 * while a slot of a cluster is moved, a script runs only
								 * where all of its keys are */
	ARG_RELEASED,				/* the message of a release */
	ARG_WAIT,					/* for how long the wait is announced */
	ARG_HERE,					/* owner by which a session of this server holds it */
	ARG_SINCE,					/* when the wait began */
	ARG_BESIDE,					/* field of the write lock that this session holds */
	ARG_PREFIX,					/* prefix of the names of readers' timeouts */
	ARG_READ_WRITE_CHANNEL,
	ARG_CHANGE,					/* how to change the number at a name, */
	ARG_AMOUNT,					/* and by which amount; or how many */
	ARG_DIGEST,					/* StoreOp.id as 40 hexadecimal digits */
	ARG_PERMIT,					/* id of the permit, 16 bytes */
	ARG_PERMITS_CHANNEL,
	ARG_GIVES_BACK,				/* owner of the lock that a wait for a condition releases */
	ARG_ACTED					/* did its session act on the notification? */
} KindArg;

/* How to read the answer for one lock. */
typedef enum KindReply
{
	REPLY_CREATED,				/* taken, busy, late, or another type of value */
	REPLY_QUEUED,				/* the same, always with the store's clock */
	REPLY_TOGETHER,				/* all taken, late, or which lock is in the way */
	REPLY_DONE,					/* 1, or the other holder */
	REPLY_WATCHED,				/* TTL of the whole lock, or the other holder */
	REPLY_TOKEN,				/* a token, or the other holder */
	REPLY_TOLD,					/* how many were notified; -1: the owner is not there */
	REPLY_INSPECTED,			/* what the key holds */
	REPLY_VALUE,				/* the number at a name */
	REPLY_AWAITED,				/* as REPLY_QUEUED, or the other holder of the lock */
	REPLY_NOTIFIED				/* how many were notified, or the other holder */
} KindReply;

/* The most keys and arguments of a call, with the end of the list. */
#define KIND_MAX_KEYS		(6 + 1)
#define KIND_MAX_ARGS		(6 + 1)

/*
 * The script call of an operation of store.h.  A kind lacks the operations whose call
 * has no keys.  STORE_SET is the call of STORE_RENEW.
 */
typedef struct KindCall
{
	LuaId		script;
	const char *keys[KIND_MAX_KEYS];	/* keys of each lock: patterns of names.h */
	const char *fenced_key;		/* one more key if a fencing token is wanted */
	KindArg		once[KIND_MAX_ARGS];	/* arguments of the call, */
	KindArg		each[KIND_MAX_ARGS];	/* then those of each lock, */
	KindArg		unusual[KIND_MAX_ARGS]; /* then more of each lock, but only if one of them
										 * is not as usual */
	int			group;			/* how many locks can share a call; then the reply is an
								 * array of answers (or just a number, if there is one
								 * lock).  0: each has its own, and its answer */
	KindReply	reply;
} KindCall;

typedef struct LockKind
{
	const char *name;			/* as redis_locks.kind shows it */
	const char *unlock;			/* the function that releases it at session level */
	const char *made_by;		/* function that defines the number of permits, or NULL */

	/*
	 * The kinds that it conflicts with: other sessions cannot hold the key as one of
	 * those at the same time.  Symmetric: checked by lr_kinds_conflict().
	 */
	KindSet		excludes;

	/*
	 * The kinds that the store keeps in a value of the same form, so that a key can
	 * have one together with this one or after it.  While a session of this server
	 * holds the key as any other kind, a request is refused at once, as the store would
	 * do.
	 */
	KindSet		alike;

	/*
	 * The kind that a session holds once it has the lock.  Kinds with the same
	 * held_as are the same lock: a session that holds one takes the other again, and
	 * the same functions release both.
	 */
	KindId		held_as;

	/*
	 * If it is a wait for a condition: the lock whose condition that is, and which the
	 * wait releases.
	 */
	KindId		condition_of;	/* meaningless for all other kinds */

	/*
	 * Does a session that takes it twice have two locks (permits), instead of one that
	 * it holds twice?
	 */
	bool		each_own;

	/*
	 * For kinds that do not exclude themselves, so that several sessions may ask at
	 * once: after a refusal, does only the first of the queue ask the store?  When it
	 * has got its lock, the next one may ask.
	 */
	bool		one_asks;

	/*
	 * The kinds beside which their own session may take this one of the same key (a
	 * writer that reads).
	 */
	KindSet		beside;

	/*
	 * May a session of this server pass it to the next one in the queue of this server,
	 * without the store?  A kind that is "placed" is passed on in the order of the store.
	 * Both only to a session that wants this very kind, whatever its held_as.
	 */
	bool		handed_over;

	/*
	 * Does a session that waits announce that in the store, so that others do not
	 * overtake it?
	 */
	bool		announced;

	/*
	 * Does the store decide in which order sessions get it, if it keeps one
	 * (STORE_HAS_ORDER)?  Then each session asks by itself, in no queue of this server,
	 * and is notified when it is its turn.
	 */
	bool		placed;

	/*
	 * The topic by which sessions are notified of their turn; each owner has a channel.
	 */
	LrTopic		turn_topic;

	/*
	 * Does a session hold it only until it has taken something else (the notification
	 * of a condition, until it has the lock again)?  Then it excludes nobody, its end
	 * is no loss, and redis_locks shows the session as one that waits.
	 */
	bool		passing;

	/*
	 * Does it belong to no session of this server (a token lock)?  Then no hold is left
	 * when a create was answered, and the lock table knows only the sessions that wait.
	 */
	bool		ownerless;

	/*
	 * Can several clients hold the key at once, as this kind or as one that the store
	 * keeps with it (a writer's key can become that of readers)?
	 */
	bool		shared;

	/*
	 * In fallback mode, can it be taken in the table while Redis is away?  Then the
	 * locks that are held are moved to the table, and back.
	 */
	bool		falls_back;

	/*
	 * If others may shorten the lease of a held lock: how often (ms) the watchdog
	 * checks it; 0 if nobody does.
	 */
	int64		watched_ms;

	/*
	 * Can independent masters grant it, by a majority of votes?  Only if each of them
	 * can answer yes or no by itself.
	 */
	bool		voted;

	/* The topic of the messages that a release sends. */
	LrTopic		topic;

	/*
	 * Is the cluster slot of that channel another one if the name has a hash tag?  Then
	 * a cluster refuses such a name, as all keys of a script have to be in one slot.
	 */
	bool		untagged;

	KindCall	calls[STORE_CALLS];

	/*
	 * STORE_CREATE of several locks in one call: all of them or none, with one answer,
	 * and at most "group" locks.  A kind without keys here has no such call.
	 */
	KindCall	together;
} LockKind;

extern const LockKind reentrant_kind;
extern const LockKind read_kind;
extern const LockKind write_kind;
extern const LockKind fair_kind;
extern const LockKind token_kind;
extern const LockKind permit_kind;
extern const LockKind condition_kind;
extern const LockKind semaphore_kind;
extern const LockKind latch_kind;

/* The descriptions, by KindId; the last one is NULL. */
extern const LockKind *const lr_kinds[];

/* What the kind is. */
static inline const LockKind *
lr_kind(KindId id)
{
	return lr_kinds[id];
}

static inline bool
kindset_has(KindSet kinds, KindId kind)
{
	return (kinds & KIND_BIT(kind)) != 0;
}

static inline void
kindset_add(KindSet *kinds, KindId kind)
{
	*kinds |= KIND_BIT(kind);
}

/*
 * Find the next kind of the set, beginning with *kind; false: there is none.  A loop is
 * "for (KindId kind = 0; kindset_next(kinds, &kind); kind++)".
 */
static inline bool
kindset_next(KindSet kinds, KindId *kind)
{
	kinds &= ~(KIND_BIT(*kind) - 1);
	if (kinds == 0)
		return false;
	*kind = pg_rightmost_one_pos32(kinds);
	return true;
}

/* The call of an operation (below STORE_CALLS). */
static inline const KindCall *
lr_call(KindId kind, StoreOpKind op)
{
	return &lr_kind(kind)->calls[op == STORE_SET ? STORE_RENEW : op];
}

/* Do these kinds conflict?  Then two sessions cannot hold the key as one each. */
static inline bool
lr_kinds_conflict(KindId one, KindId other)
{
	bool		conflict = kindset_has(lr_kind(one)->excludes, other);

	Assert(conflict == kindset_has(lr_kind(other)->excludes, one));
	return conflict;
}

/* Is it a lock?  Then it conflicts at least with the reentrant lock. */
static inline bool
lr_is_lock(KindId kind)
{
	return kindset_has(lr_kind(kind)->excludes, KIND_REENTRANT);
}

/* Is it a number that is counted (semaphore, latch) rather than a lock? */
static inline bool
lr_is_number(KindId kind)
{
	return lr_kind(kind)->calls[STORE_TALLY].keys[0] != NULL;
}

/* Does a create leave anything that has to be released? */
static inline bool
lr_leaves_something(KindId kind)
{
	return lr_kind(kind)->calls[STORE_RELEASE].keys[0] != NULL;
}

/* ----------
 * Script calls that several kinds have in common
 * ----------
 */

/* These scripts look at what the key holds, so they serve all kinds of locks. */
#define CALLS_OF_ANY_LOCK \
	[STORE_FORCE] = { \
		.script = LUA_REENTRANT_FORCE, \
		.keys = {NAME_LOCK}, \
		.once = {ARG_PUBLISH, ARG_RELEASED}, \
		.each = {ARG_TEXT, ARG_READ_WRITE_CHANNEL, ARG_PREFIX, \
				 ARG_PERMITS_CHANNEL, ARG_CHANNEL}, \
		.reply = REPLY_TOLD, \
	}, \
	[STORE_INSPECT] = { \
		.script = LUA_REENTRANT_INSPECT, \
		.keys = {NAME_LOCK}, \
		.each = {ARG_PREFIX}, \
		.reply = REPLY_INSPECTED, \
	}

/* Locks in one script: more would hold up Redis. */
#define REENTRANT_RENEW_GROUP	200

/* For kinds that are the reentrant lock once they are held (held_as). */
#define CALLS_OF_HAD_REENTRANT \
	[STORE_RENEW] = { \
		.script = LUA_REENTRANT_RENEW, \
		.keys = {NAME_LOCK}, \
		.each = {ARG_OWNER, ARG_LEASE}, \
		.unusual = {ARG_WRITE}, \
		.group = REENTRANT_RENEW_GROUP, \
		.reply = REPLY_DONE, \
	}, \
	[STORE_MINT] = { \
		.script = LUA_REENTRANT_MINT, \
		.keys = {NAME_LOCK, NAME_COUNTER}, \
		.each = {ARG_OWNER, ARG_FLOOR, ARG_AMOUNT}, \
		.reply = REPLY_TOKEN, \
	}

#endif							/* LR_KIND_H */
