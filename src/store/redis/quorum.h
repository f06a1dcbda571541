/*-------------------------------------------------------------------------
 *
 * quorum.h
 *	  Several masters that all have a lock: votes, and batches at all of them.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/quorum.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_QUORUM_H
#define LR_QUORUM_H

#include "lockredis.h"

#include "store/redis/node_batch.h"
#include "store/redis/url.h"
#include "store/store.h"

/* ----------
 * quorum.c: What independent masters say of one operation, as one outcome.
 *
 * Each of them was asked the same, by a copy of the operation.  More than half of all
 * that are configured have to agree, whether they can be reached or not: two such
 * majorities have a node in common.
 *
 * Nothing here knows connections, waits or has state.
 * ----------
 */

/* What one node says. */
typedef struct QuorumVote
{
	const StoreOp *copy;		/* NULL: it was not asked */
	bool		awaited;		/* it may yet answer, and that is worth waiting for */
	bool		counts;			/* of a create: it cannot have forgotten a lock */
} QuorumVote;

/*
 * The outcome that the votes of n nodes are, with its results in *op;
 * STORE_PENDING: it depends on those that are awaited.
 */
extern StoreOutcome quorum_decide(StoreOp *op, const QuorumVote *votes, int n);

/*
 * Of a create that is busy: has nobody a majority, as far as is known?  Then who asks
 * again may get it.
 */
extern bool quorum_is_split(const QuorumVote *votes, int n);

/* The clocks of nodes run apart: so much (ms) of a lease is not relied on. */
extern int64 quorum_drift_ms(int64 lease_ms);

/* ----------
 * quorum_link.c: The part of one of several masters: its connection, what it was asked, what is owed.
 *
 * It is asked by copies of operations, which have their texts here.  So an answer may come
 * when the operation has its outcome, and nobody has its memory any more.  A copy and its
 * number are good until all of the link have been answered.
 *
 * Nothing here knows of other masters.
 * ----------
 */

/* What a copy is for, when its answer comes. */
typedef enum CopyFate
{
	COPY_PLAIN,					/* a vote, or nothing any more */
	COPY_RENEWS,				/* a renewal that a majority has done: if this node
								 * has nobody's lock, it gets ours again */
	COPY_REPAIRS,				/* the create that does so: is the lock still had? */
	COPY_WITNESS,				/* the question: if it is not, give it back there */
	COPY_UNDOES					/* a release of a token that is asked for again */
} CopyFate;

typedef struct CopyNote
{
	uint8		fate;			/* CopyFate */
	uint8		other;			/* renewal, repair: a link whose node has the lock;
								 * witness: that of the repair */
	bool		heard;			/* its answer was looked at */
	int			op;				/* the first of the operations that it is a vote on;
								 * -1: on none */
} CopyNote;

/* The link to one node, and what it was asked. */
typedef struct QuorumLink
{
	NodeBatch	node;
	StoreOp    *copies;			/* of operations; their texts are here, too */
	CopyNote   *notes;			/* of each */
	int			size;			/* there is room for so many, */
	int			used;			/* and so many there are */
	int			mine;			/* those from here on are of this batch */
	int			nheard;			/* so many were heard, */
	int			heard_to;		/* all of those before this one */
	int64		tainted_until;	/* not to be asked for locks with that token before, */
	uint8		tainted_id[STORE_ID_LEN];
	bool		all_tainted;	/* or with any */
	uint32		linger_epoch;	/* the socket that is being connected, */
	int64		linger_until;	/* and until when that is worth waiting for */
	char	   *texts;
	size_t		text_size;
	size_t		text_used;
} QuorumLink;

/*
 * What a majority has done waits so long at most for connections that are just being made,
 * and for what is still to be sent: so that all nodes have the lock, or none of them.
 */
#define LINGER_TIME			(20 * LR_US_PER_MS)

/* NULL without memory. */
extern QuorumLink *link_make(NodeId node, const char *role, bool patient);

/* Room for so many more; made if there is memory. */
extern bool link_has_room(QuorumLink *l, int more, size_t more_text);

/* Forget all copies; there is none without its answer. */
extern void link_reset(QuorumLink *l);

/*
 * A copy of an operation, as that kind of one; or of n that are taken together: all of them
 * or none.  Its number, that of the first; -1 without memory.
 */
extern int	link_put(QuorumLink *l, const StoreOp *op, StoreOpKind kind);
extern int	link_put_group(QuorumLink *l, const StoreOp *ops, int n, StoreOpKind kind,
						   int *first);

/* The last n copies are for the node. */
extern void link_ask(QuorumLink *l, int n, int64 deadline);

/* That copy is the vote of its node on that operation; returns the copy. */
extern int	link_vote(QuorumLink *l, int copy, int which);

/* What is to be done when it has its answer. */
extern void link_watch(QuorumLink *l, int copy, CopyFate fate, int other);

/* That one is not to be sent any more; nor any that nobody needs. */
extern void link_cancel_one(StoreOp *copy);
extern void link_cancel(QuorumLink *l);

/* Has a copy an answer that was not heard? */
extern bool link_has_news(const QuorumLink *l);

/* Can this release not run any more? */
extern bool copy_is_plain(const StoreOp *copy);

/* A release with that token may yet run there; may one with the token of this create? */
extern void link_taint(QuorumLink *l, const StoreOp *release);
extern bool link_is_tainted(const QuorumLink *l, const StoreOp *op, int64 now);

/* Is it just about to be connected? */
extern bool link_is_soon_ready(QuorumLink *l, int64 now);

/* ----------
 * quorum_batch.c: A batch of operations at several independent masters.
 *
 * Each node is asked all of them, by copies, and the outcome of an operation is what a
 * majority says (quorum.h).  The batch ends with the last outcome: what slower nodes
 * still have to say is owed, and is taken when it comes, or with the next batch if nobody
 * steps the handle until then, by the link to that node, whose own batch goes on meanwhile.
 * What the next batch asks goes behind it on the same connection.  So a release runs after
 * a create that was not answered yet.  As nobody may read for long that a script was not
 * loaded, what a connection uses for the first time is sent in full.
 *
 * Nothing waits here, raises or allocates in a memory context.
 * ----------
 */

typedef enum QuorumPhase
{
	PHASE_ASKED,
	PHASE_FIRST,				/* one node is asked before the others */
	PHASE_RAISE,				/* counters of tokens that are behind */
	PHASE_PAUSE					/* until it is tried once more */
} QuorumPhase;

/* An operation of the caller. */
typedef struct QuorumOp
{
	QuorumPhase phase;
	int			attempt;
	int64		again_at;		/* PHASE_PAUSE */
	int64		linger_until;	/* granted: settled then, at the latest */
	int			first;			/* PHASE_FIRST: that node */
	int64		token;			/* PHASE_RAISE: what their counters have to be */
	uint32		left_out;		/* nodes: bits.  One may yet do what an attempt before
								 * asked of it, nobody knows when */
	int			copy[LR_MAX_MASTERS];	/* in the link; -1: not asked */
	int			undo[LR_MAX_MASTERS];	/* the release behind it; -1: none */
} QuorumOp;

typedef struct QuorumBatch
{
	char		role[32];
	bool		patient;
	int			n;				/* masters; those of the links that there are */
	QuorumLink *link[LR_MAX_MASTERS];	/* NULL: without memory */
	StoreBatch	batch;			/* the caller's */
	bool		over;			/* its time is */
	int64		look_at;		/* all operations are looked at then; or when this
								 * is not so any more: */
	uint32		silent;			/* nodes that nobody waits for: bits */
	uint32		epochs;			/* of their sockets and connections, the sum, */
	uint32		life[LR_MAX_MASTERS];	/* and of the rows, when they were looked at */
	bool		was_over;
	QuorumOp   *states;
	int			nstates;		/* room for so many */
} QuorumBatch;

/* So many operations from this one on are taken together, or it is one. */
static inline int
quorum_group(const StoreOp *op)
{
	return Max(op->together, 1);
}

extern void quorum_batch_init(QuorumBatch *b, const char *role, bool patient);

/* As of NodeBatch. */
extern void quorum_batch_start(QuorumBatch *b, StoreOp *ops, int nops, int64 deadline);
extern void quorum_batch_drop(QuorumBatch *b);
extern void quorum_batch_process(QuorumBatch *b, bool readable);
extern void quorum_batch_check_time(QuorumBatch *b);
extern int64 quorum_batch_until(const QuorumBatch *b);
extern void quorum_batch_abandon(QuorumBatch *b);

/* The links that have something to send or to read; returns how many. */
extern int	quorum_batch_busy(QuorumBatch *b, NodeBatch **out);

/* Make room for n operations, if there is memory. */
extern void quorum_batch_reserve(QuorumBatch *b, int n);

/* Between batches. */
extern void quorum_batch_check_connections(QuorumBatch *b);
extern bool quorum_batch_is_connected(const QuorumBatch *b);
extern int64 quorum_batch_let_go(QuorumBatch *b, int64 unused_since);
extern void quorum_batch_close(QuorumBatch *b);

/* Grows with each connection that is made. */
extern uint32 quorum_batch_connections(const QuorumBatch *b);

/* ----------
 * quorum_ask.c: What several masters are asked on the way to an outcome.
 *
 * "which": the number of an operation of the batch; the first of n that are taken together.
 * ----------
 */

/* Put them for that node, to be asked by link_ask(); returns how many. */
extern int	quorum_put_group(QuorumBatch *b, int row, int which, int n, StoreOpKind kind);

/* All nodes that were not asked yet, and may be. */
extern void quorum_ask_rest(QuorumBatch *b, int which, int n);

/*
 * An attempt has failed: give back what was granted, or may have been.  "quiet": nobody
 * else is told.  Will nothing stay then?  And once more.
 */
extern void quorum_undo(QuorumBatch *b, int which, int n, bool quiet);
extern bool quorum_undoes_all(const QuorumBatch *b, int which, int n);
extern void quorum_begin_attempt(QuorumBatch *b, int which, int n);

/* Have the counters of a majority reach the token; false: they have. */
extern bool quorum_raise(QuorumBatch *b, int which, const QuorumVote *votes);

/* A node has said who has the lock there: take it from him. */
extern void quorum_turn_force(QuorumBatch *b, int which);

/* ----------
 * quorum_after.c: What masters are asked behind the outcome of an operation.
 * ----------
 */

/* The lock is lost: nor is it to stay at those that still have it. */
extern void quorum_give_up(QuorumBatch *b, int which);

/* It was renewed: what a minority has forgotten it gets again. */
extern void quorum_watch(QuorumBatch *b, int which);

/* An answer that may have come after the outcome: that copy of the link. */
extern void quorum_look_after(QuorumBatch *b, int row, int which);

/* ----------
 * quorum_step.c: What several masters have said of an operation, and what follows.
 * ----------
 */

/* This is the outcome. */
extern void quorum_settle(QuorumBatch *b, int which, StoreOutcome outcome);

/* What a node has answered since it was heard last; what all have. */
extern void quorum_hear(QuorumBatch *b, int row);
extern void quorum_hear_all(QuorumBatch *b);

/* Decide what can be decided. */
extern void quorum_look(QuorumBatch *b);

/* ----------
 * masters_watch.c: The watchdog asks each of the independent masters whether it is there.
 * ----------
 */

/* As the follow_xxx of StoreRoutine; do nothing where there are none. */
extern void redis_masters_watch_start(void);
extern void redis_masters_watch_step(void);
extern int	redis_masters_watch_interests(StoreInterest *out, int64 *until,
										  uint32 *epoch);

#endif							/* LR_QUORUM_H */
