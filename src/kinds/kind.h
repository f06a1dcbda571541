/*-------------------------------------------------------------------------
 *
 * kind.h
 *	  What a kind of lock is: one constant description.
 *
 * The lock table, the wait loop, the watchdog and the stores know kinds by
 * these descriptions only; as PostgreSQL's lock manager knows its lock methods
 * by their conflict tables.  A new kind is a description in a file of its own,
 * its scripts beside it, and its SQL functions.  Nobody asks which kind it is:
 * what differs has a field here.
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
	const char *unlock;			/* what gives it back at session level */
	const char *made_by;		/* function that defines how many there are, or NULL */

	/*
	 * KIND_BITs of the holds of other sessions that there cannot be beside one
	 * of this kind.  Symmetric: checked by lr_kinds_conflict().
	 */
	uint32		excludes;

	/*
	 * KIND_BITs of what the same key can hold in the store together with it, or
	 * after it; a lock of another kind is in the way like any other value.
	 */
	uint32		alike;

	/*
	 * As which kind its session knows it: kinds for which that is the same take each
	 * other again, and are given back by the same functions.
	 */
	KindId		held_as;

	/* Is each that its session takes one more, instead of the same again? */
	bool		each_own;

	/*
	 * If those who wait do not exclude each other: does the first of them alone ask
	 * the store, once one was refused?  Who has got it lets the next one look.
	 */
	bool		one_asks;

	/* KIND_BITs of further locks of the key that its own session may take. */
	uint32		beside;

	/*
	 * May a session of this server pass it to the next one, without the store?
	 */
	bool		handed_over;

	/* Does a session that waits say so in the store, for others to let it pass? */
	bool		announced;

	/*
	 * Is the order in which sessions get it the store's, if that keeps one
	 * (STORE_HAS_ORDER)?  Then each of them asks by itself, in no queue of this
	 * server, and is told when it is its turn.
	 */
	bool		placed;

	/* Where each of them is told that: one of the topics with a channel for each. */
	LrTopic		turn_topic;

	/*
	 * Has its session it only while it is about to take something else?  Then it is no
	 * lock for anybody else: its end is no loss, and redis_locks shows its session as
	 * one that waits.
	 */
	bool		passing;

	/*
	 * Has nobody here what was taken?  Then a create that was answered leaves no hold
	 * behind, and sessions only wait for it.
	 */
	bool		ownerless;

	/*
	 * Can several have it, or one that the store keeps together with it?
	 */
	bool		shared;

	/*
	 * Is it had in the table while Redis is away?  Then what is held is carried over
	 * to there, and back.
	 */
	bool		falls_back;

	/*
	 * The longest time (ms) without a look at one that is held, whose lease others
	 * may shorten; 0: nobody does.
	 */
	int64		watched_ms;

	/*
	 * Can the most of several stores, which know nothing of each other, decide who has
	 * it?  Then each of them says yes or no, and keeps nothing that they would have to
	 * agree on.
	 */
	bool		voted;

	/* Where its releases are told. */
	LrTopic		topic;

	/*
	 * Has that channel another hash tag than a name with one?  Then there is none of
	 * such a name in a cluster: what a script is given has to be in one slot.
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

/* Can two sessions not have these at the same time? */
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
