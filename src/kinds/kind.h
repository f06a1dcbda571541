/*-------------------------------------------------------------------------
 *
 * kind.h
 *	  What a kind of lock is: one constant description.
 *
 * The lock table, the wait loop, the watchdog and the stores know kinds by
 * these descriptions only; as PostgreSQL's lock manager knows its lock methods
 * by their conflict tables.  A new kind is a description in a file of its own,
 * its scripts beside it, and its SQL functions.  Code that serves all kinds goes
 * by the fields here; a kind is named only where that one is meant, as by the
 * functions of conditions and of token locks.
 *
 * Constant data: nothing in this folder calls anything, has state, or does I/O.
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

#include "keyname.h"
#include "kinds/lua_ids.h"
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

#define KIND_BIT(id)		(1U << (id))

/* The arguments that a script is given; fields of StoreOp. */
typedef enum KindArg
{
	ARG_END = 0,
	ARG_OWNER,
	ARG_OWNER_TEXT,
	ARG_LEASE,
	ARG_KEEP,					/* usually 0 */
	ARG_COUNT,					/* how many to notify at most */
	ARG_NOT_AFTER,
	ARG_FLOOR,
	ARG_WRITE,					/* unusual: write even if that changes nothing,
								 * since replicas have to confirm it, and they
								 * confirm what this connection wrote last */
	ARG_PUBLISH,				/* the command that publishes; empty: none does.
								 * PUBLISH is the usual one */
	ARG_CHANNEL,				/* where: it is no key, and a slot of a cluster that is
								 * on its way could not have it beside the lock */
	ARG_RELEASED,				/* and its message */
	ARG_WAIT,					/* for how long to be announced */
	ARG_SINCE,					/* when the wait began */
	ARG_BESIDE,					/* field of the write lock of the same session */
	ARG_PREFIX,					/* of the names of time-outs */
	ARG_READ_WRITE_CHANNEL,
	ARG_CHANGE,					/* what to do to the number at a name, */
	ARG_AMOUNT,					/* with that */
	ARG_TOKEN,
	ARG_DIGEST,					/* StoreOp.id as 40 hexadecimal digits */
	ARG_PERMIT,					/* its id, 16 bytes */
	ARG_PERMITS_CHANNEL,
	ARG_GIVES_BACK,				/* owner of the lock that goes with it */
	ARG_ACTED					/* was it acted on? */
} KindArg;

/* How the answer for one lock is read. */
typedef enum KindReply
{
	REPLY_CREATED,				/* taken, busy, late or no lock of ours */
	REPLY_QUEUED,				/* the same, and always the clock */
	REPLY_TOGETHER,				/* all of several taken, late, or which is in the way */
	REPLY_DONE,					/* 1, or who has it instead */
	REPLY_WATCHED,				/* how long the whole lock is there, or who has it
								 * instead */
	REPLY_TOKEN,				/* a token, or who has it instead */
	REPLY_TOLD,					/* how many were told, -1: the owner is gone */
	REPLY_INSPECTED,			/* what there is */
	REPLY_VALUE,				/* the number at a name */
	REPLY_AWAITED,				/* as REPLY_QUEUED, or who has the lock instead */
	REPLY_NOTIFIED				/* how many were told, or who has it instead */
} KindReply;

#define KIND_MAX_KEYS		6
#define KIND_MAX_ARGS		6

/*
 * An operation of store.h as the call of a script.  One without keys is none that
 * this kind has.
 */
typedef struct KindCall
{
	LuaId		script;
	const char *keys[KIND_MAX_KEYS];	/* of each lock: patterns of keyname.h */
	const char *fenced_key;		/* one more when a token is wanted */
	KindArg		once[KIND_MAX_ARGS];	/* arguments of the call, */
	KindArg		each[KIND_MAX_ARGS];	/* then those of each lock, */
	KindArg		unusual[KIND_MAX_ARGS]; /* behind these, of each lock again, but
										 * only if one is not as usual */
	int			group;			/* so many locks share a call, and the reply is
								 * an array of answers (or just a number, if
								 * there is one lock); 1 = each has its own */
	KindReply	reply;
} KindCall;

typedef struct LockKind
{
	const char *name;			/* as redis_locks.kind shows it */
	const char *unlock;			/* the function that releases it at session level */
	const char *made_by;		/* function that defines how many there are, or NULL */

	/*
	 * KIND_BITs of the kinds that it conflicts with: other sessions cannot hold the
	 * key as one of those at the same time.  Symmetric: checked by
	 * lr_kinds_conflict().
	 */
	uint32		excludes;

	/*
	 * KIND_BITs of the kinds that the store keeps in a value of the same form, so
	 * that a key can have one together with this one or after it.  While a session of
	 * this server holds the key as any other kind, a request is refused at once, as
	 * the store would do.
	 */
	uint32		alike;

	/*
	 * The kind that a session holds once it has the lock.  Kinds with the same
	 * held_as are the same lock: a session that holds one takes the other again, and
	 * the same functions release both.
	 */
	KindId		held_as;

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
	 * KIND_BITs of the kinds that a session which holds this one may take of the same
	 * key in addition (a writer that reads).
	 */
	uint32		beside;

	/*
	 * May a session of this server pass it to the next one, without the store?
	 */
	bool		handed_over;

	/*
	 * Does a session that waits announce that in the store, so that others do not
	 * overtake it?
	 */
	bool		announced;

	/*
	 * Is the order in which sessions get it the store's, if that keeps one
	 * (STORE_HAS_ORDER)?  Then each of them asks by itself, in no queue of this
	 * server, and is told when it is its turn.
	 */
	bool		placed;

	/* The topic by which each of them is notified; it has a channel for each owner. */
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
	 * The longest time (ms) without a look at one that is held, whose lease others
	 * may shorten; 0: nobody does.
	 */
	int64		watched_ms;

	/*
	 * Can it be had from independent masters, by a majority of votes?  Only if each of
	 * them can answer yes or no by itself.
	 */
	bool		voted;

	/* The topic of the messages that a release sends. */
	LrTopic		topic;

	/*
	 * Does that channel get another slot than a name with a hash tag?  Then such a name
	 * is refused in a cluster, as all keys of a script have to be in one slot.
	 */
	bool		untagged;

	KindCall	calls[STORE_CALLS];

	/*
	 * STORE_CREATE of several locks in one call, all of them or none, with one
	 * answer; at most "group".  Without keys: there is no such call.
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

/* By KindId. */
extern const LockKind *const lr_kinds[];

static inline const LockKind *
lr_kind(KindId id)
{
	return lr_kinds[id];
}

/* Do these exclude each other: can two sessions not hold them at the same time? */
extern bool lr_kinds_conflict(KindId one, KindId other);

/* Is it a number that is counted, and no lock? */
static inline bool
lr_is_number(KindId kind)
{
	return lr_kind(kind)->calls[STORE_TALLY].keys[0] != NULL;
}

/* Does a create leave anything that has to be given back? */
static inline bool
lr_leaves_something(KindId kind)
{
	return lr_kind(kind)->calls[STORE_RELEASE].keys[0] != NULL;
}

#endif							/* LR_KIND_H */
