/*-------------------------------------------------------------------------
 *
 * quorum.h
 *	  Independent masters that each keep every lock: votes, and batches at all of them.
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
 * quorum.c: Combines what independent masters say about one operation into one outcome.
 *
 * Each of them was asked the same, by a copy of the operation.  More than half of all
 * configured masters have to agree, whether they can be reached or not: any two such
 * majorities have a node in common.
 *
 * Nothing here knows about connections, waits or has state.
 * ----------
 */

/* The vote of one node. */
typedef struct QuorumVote
{
	const StoreOp *copy;		/* NULL: the node was not asked */
	bool		awaited;		/* it may still answer, and that is worth waiting for;
								 * or its answer is still to be heard */
	bool		counts;			/* create: the node cannot have forgotten a lock */
} QuorumVote;

/*
 * Returns the outcome that the votes of n nodes amount to, with its results in *op;
 * STORE_PENDING if it depends on awaited nodes.
 */
extern StoreOutcome quorum_decide(StoreOp *op, const QuorumVote *votes, int n);

/*
 * For a busy create: does nobody have a majority, as far as is known?  If so, another
 * attempt may succeed.
 */
extern bool quorum_is_split(const QuorumVote *votes, int n);

/*
 * The part of a lease (ms) that is not relied on, as the clocks of nodes run at
 * different speeds.
 */
extern int64 quorum_drift_ms(int64 lease_ms);

/* ----------
 * quorum_link.c: The link to one of several masters: its connection, what it was asked,
 * and the answers it owes.
 *
 * The node is asked by copies of operations, whose texts are kept here, too.  So an
 * answer may come after the operation has its outcome, when the caller's memory may be
 * gone.  A copy and its index stay valid until all copies of the link have been
 * answered.
 *
 * Nothing here knows about other masters.
 * ----------
 */

/* What to do when a copy is answered. */
typedef enum CopyFate
{
	COPY_PLAIN,					/* nothing, except that it may be a vote */
	COPY_RENEWS,				/* a renewal that a majority has done: if the
								 * lock is gone here, and nobody else has it,
								 * create it again */
	COPY_REPAIRS,				/* that create: when done, release it if the lock was
								 * released meanwhile */
	COPY_UNDOES					/* a release with a token, which the next
								 * request uses again */
} CopyFate;

typedef struct CopyNote
{
	uint8		fate;			/* CopyFate */
	bool		heard;			/* quorum_hear() has seen its answer */
	int			op;				/* the operation (of a group the first) on
								 * which it is a vote; -1: none */
	char	   *texts;			/* name and text of the copy */
} CopyNote;

/* The link to one node. */
typedef struct QuorumLink
{
	NodeBatch	node;
	StoreOp    *copies;			/* of operations, each with texts of its own */
	CopyNote   *notes;			/* one for each copy */
	int			size;			/* allocated copies */
	int			used;			/* used copies */
	int			mine;			/* first copy of the present batch */
	int			nheard;			/* how many copies were heard */
	int			heard_to;		/* all before this one were heard */
	int64		tainted_until;	/* until then, do not ask the node for locks
								 * with that token */
	uint8		tainted_id[STORE_ID_LEN];
	bool		all_tainted;	/* or with any token */
} QuorumLink;

/*
 * How long an operation that a majority has done waits for connections that are just
 * being made, and for requests not sent yet, so that normally all nodes have the lock,
 * or none of them.
 */
#define LINGER_TIME			(20 * LR_US_PER_MS)

/* Forget the copies from this one on, which were not handed over. */
extern void link_cut(QuorumLink *l, int from);

/* Forget all copies, also those without an answer. */
extern void link_reset(QuorumLink *l);

/*
 * Copy an operation, as one of this kind; returns the index of the copy, or -1 when out of
 * memory.
 */
extern int	link_put(QuorumLink *l, const StoreOp *op, StoreOpKind kind);

/* Hand the last n copies over to the batch of the node. */
extern void link_ask(QuorumLink *l, int n, int64 deadline);

/* Do not send this copy, which was not sent yet. */
extern void link_cancel_one(StoreOp *copy);

/* The same for all copies that nobody needs any more. */
extern void link_cancel(QuorumLink *l);

/* Does a copy have an answer that was not heard yet? */
static inline bool
link_has_news(const QuorumLink *l)
{
	return l->nheard < l->used - (l->node.batch.active ? l->node.batch.left : 0);
}

/* Was this release answered, and sent only once?  If not, it may still run. */
extern bool copy_is_plain(const StoreOp *copy);

/* A release with a token has been answered, or never will be: may it still run? */
extern void link_hear_release(QuorumLink *l, const StoreOp *release);

/* A create with a token has been answered: does a release still run behind it? */
extern void link_hear_create(QuorumLink *l, int which);

/* May a release with the token of this create still run there? */
extern bool link_is_tainted(const QuorumLink *l, const StoreOp *op, int64 now);

/* ----------
 * quorum_batch.c: A batch of operations at several independent masters.
 *
 * Each node is asked for all operations, by copies, and the outcome of an operation is
 * what a majority says.  The batch ends with the last outcome.  What slower nodes still
 * have to answer is taken by their links when it comes, or with the next batch if nobody
 * steps the handle until then.  Requests of the next batch follow on the same
 * connection, so that a release runs after a create that has not been answered yet.  As
 * an answer that a script was not loaded may stay unread for long, a connection sends a
 * script in full when it first uses it.
 *
 * Nothing waits here, raises or allocates in a memory context.
 * ----------
 */

typedef enum QuorumPhase
{
	PHASE_ASKED,
	PHASE_FIRST,				/* one node is asked before the others */
	PHASE_RAISE,				/* counters of tokens that are behind are being raised */
	PHASE_PAUSE					/* before the next attempt */
} QuorumPhase;

/* State of one operation of the caller. */
typedef struct QuorumOp
{
	QuorumPhase phase;
	int			attempt;
	int64		again_at;		/* PHASE_PAUSE: when it ends */
	int64		linger_until;	/* a majority has done it: settle it then at
								 * the latest */
	int			first;			/* PHASE_FIRST: that node */
	int64		token;			/* PHASE_RAISE: what the counters have to reach */
	uint32		left_out;		/* nodes (bits) where a request of an earlier
								 * attempt may still run, nobody knows when */
	int			copy[LR_MAX_MASTERS];	/* index in the link; -1: not asked */
	int			undo[LR_MAX_MASTERS];	/* index of the release behind it; -1: none */
} QuorumOp;

typedef struct QuorumBatch
{
	NodeSet		set;
	/* All operations are looked at again if one of these has changed. */
	uint32		silent;			/* nodes (bits) not worth waiting for */
	uint32		epochs;			/* sum of their socket epochs, connections and lives */
	uint32		life[LR_MAX_MASTERS];	/* life of each row */
	bool		was_over;
	int64		began_at;		/* when the batch was started */
	QuorumOp   *states;
	int			nstates;		/* allocated states */
} QuorumBatch;

/* The link to the node in this row; NULL: not needed so far, or out of memory. */
static inline QuorumLink *
quorum_link(const QuorumBatch *b, int row)
{
	return (QuorumLink *) b->set.node[row];
}

/*
 * Size of the group that begins with this operation; 1 if it is not taken together with
 * others.
 */
static inline int
quorum_group(const StoreOp *op)
{
	return Max(op->args.together, 1);
}

/* See NodeSetMethod; the set is that of a QuorumBatch. */
extern void quorum_batch_start(NodeSet *s, StoreOp *ops, int nops, int64 deadline);
extern void quorum_batch_look(NodeSet *s);
extern void quorum_batch_abandon(NodeSet *s);
extern void quorum_batch_drop(NodeSet *s);
extern void quorum_batch_closed(NodeSet *s);

/* ----------
 * quorum_step.c: What several masters are asked for an operation, and what they have said
 * about it.
 * ----------
 */

/*
 * Copy n operations, one or a group, for this node, to be sent by link_ask(): they are its
 * votes on operation "which" and those behind it.  Returns how many were copied, all or
 * none.
 */
extern int	quorum_put(QuorumBatch *b, int row, int which, const StoreOp *ops, int n,
					   StoreOpKind kind);

/*
 * An attempt of n creates has failed: release what was granted, or may have been.  "quiet":
 * notify nobody.
 */
extern void quorum_undo(QuorumBatch *b, int which, int n, bool quiet);

/* Give an operation its outcome. */
extern void quorum_settle(QuorumBatch *b, int which, StoreOutcome outcome);

/* Take the new answers of one node; false if there are none. */
extern bool quorum_hear(QuorumBatch *b, int row);

/* Take those of all nodes. */
extern void quorum_hear_all(QuorumBatch *b);

/* Send what the answers have led to, behind what is under way. */
extern void quorum_send_behind(QuorumBatch *b);

/* Settle what can be settled. */
extern void quorum_look(QuorumBatch *b);

#endif							/* LR_QUORUM_H */
