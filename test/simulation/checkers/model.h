/*-------------------------------------------------------------------------
 *
 * model.h
 *	  A lock as an object whose calls take effect one after the other, each at one
 *	  moment between its call and its return.
 *
 * The state is what clients may believe, not what the stores have:
 *	 - what was granted is the client's from some moment of the call on;
 *	 - what ended with an error, or with busy, has given nothing;
 *	 - a release that ended with an error may or may not have given back;
 *	 - a lock is lost, at the latest when somebody else gets it, only if its client
 *	   was told so, or it may have been: its first lease has ended, somebody has
 *	   taken it away or forced it, its session has ended, or is in the middle of
 *	   a call that never returned;
 *	 - one that is lost is not held again without being taken again, but for one that
 *	   was lost before the call that took it returned: who was stopped there cannot
 *	   know;
 *	 - a fencing token is higher than those of all former holders; after somebody has
 *	   taken the lock away, than those of its server: that may pass it on, with tokens
 *	   in reserve, before it knows.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/checkers/model.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_MODEL_H
#define SIM_MODEL_H

#include "../kernel/history.h"

/*
 * Instead of the tokens of servers: a counter of tokens was lost, or there is another store: its first ones and the
 * last ones of before, which may still be on their way, cannot be compared.
 */
#define TOKENS_ANEW		(-1)

/*
 * When a lease may end that is counted from this call: a millisecond before, as Redis
 * counts it from the beginning of a millisecond (lr_lease_deadline).
 */
static inline int64_t
model_lease_end(const HistoryRecord *r, int64_t lease_us)
{
	return r->called + lease_us - SIM_MS;
}

/* Of all sessions and kinds, and some of sessions that have ended. */
#define MODEL_HOLDERS	32

typedef struct Holder
{
	int			who;
	int			kind;
	int			server;			/* of its session */
	int			session;		/* holds at session level */
	int			xact;			/* 0 or 1 */
	bool		lost;
	bool		unseen;			/* lost before the call that took it had returned: its
								 * session may find that out later */
	bool		robbed;			/* somebody took it away since it was taken, or before it was
								 * handed on */
	int64_t		returned;		/* that call */
	int64_t		may_end;		/* not before then can it be lost unnoticed */
	int64_t		last_call;		/* of its session */
	int64_t		token;			/* 0 = none was asked for */
} Holder;

typedef struct LockState
{
	int			n;				/* by who, then kind */
	Holder		holder[MODEL_HOLDERS];
	int64_t		token[SIM_MAX_SERVERS]; /* the highest that was given out to each server */
	bool		robbed;			/* somebody took it away, from whoever had it then or
								 * has been handed it since */
	int64_t		freed;			/* when a release of it returned last, or somebody who did
								 * not know of his loss may have handed it on */
} LockState;

/* A record, and what the rest of the history says of it. */
typedef struct Call
{
	const HistoryRecord *record;
	bool		again;			/* lock: its session surely has it already, */
	bool		perhaps_again;	/* or may have it */
	int64_t		may_end;		/* lock: see above */
	int64_t		last_call;		/* lock: likewise */
	int64_t		wanted_since;	/* lock: all the time since then somebody has asked
								 * for it, and may have been handed it */
} Call;

/* So many things can come of a call, numbered from 0. */
extern int	model_outcomes(const Call *call);

/* One of them: false, it cannot take effect in that state. */
extern bool model_step(LockState *state, const Call *call, int outcome,
					   const uint32_t *excludes);

/* Is it a call that takes effect in the model? */
extern bool model_has(const HistoryRecord *record);

extern void model_describe(const LockState *state, char *text, size_t size);

#endif							/* SIM_MODEL_H */
