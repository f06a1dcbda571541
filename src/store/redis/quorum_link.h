/*-------------------------------------------------------------------------
 *
 * quorum_link.h
 *	  The part of one of several masters: its connection, what it was asked, what is owed.
 *
 * It is asked by copies of operations, which have their texts here.  So an answer may come
 * when the operation has its outcome, and nobody has its memory any more.  A copy and its
 * number are good until all of the link have been answered.
 *
 * Nothing here knows of other masters.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/quorum_link.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_REDIS_QUORUM_LINK_H
#define LR_REDIS_QUORUM_LINK_H

#include "lockredis.h"

#include "store/redis/node_batch.h"

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

#endif							/* LR_REDIS_QUORUM_LINK_H */
