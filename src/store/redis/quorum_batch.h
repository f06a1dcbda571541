/*-------------------------------------------------------------------------
 *
 * quorum_batch.h
 *	  A batch of operations at several independent masters.
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
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/quorum_batch.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_REDIS_QUORUM_BATCH_H
#define LR_REDIS_QUORUM_BATCH_H

#include "lockredis.h"

#include "store/redis/quorum_link.h"
#include "store/redis/url.h"

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

#endif							/* LR_REDIS_QUORUM_BATCH_H */
