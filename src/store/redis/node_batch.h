/*-------------------------------------------------------------------------
 *
 * node_batch.h
 *	  A batch at one node, and the nodes that a batch is for.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/node_batch.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_NODE_BATCH_H
#define LR_NODE_BATCH_H

#include "lockredis.h"

#include "store/store.h"
#include "store/redis/conn.h"
#include "store/redis/resp.h"

/* ----------
 * node_batch.c: A batch of operations at one Redis node.
 *
 * The batch goes through its operations in passes.  Usually there is only one.  There is
 * another one if a script was not loaded (the operations still open are sent again, with
 * that script in full), if a command for several locks was refused (each lock then gets
 * a command of its own), or if the connection was lost (they go out over a new one).  A
 * create that the node may have read is never sent in a second pass.
 *
 * Nothing waits here: the caller waits, and says when there is something to read and
 * when a time limit has passed.
 * ----------
 */

/* Commands in flight. */
#define FLIGHT_MAX			256

/*
 * StoreSent.part of an operation in a batch at several nodes while it belongs to none of
 * them.
 */
#define PART_LATER			(-2)	/* no node could serve it: route it after a pause */
#define PART_ROUTE			(-3)	/* route it by the present map */
#define PART_SENT_TO(row)	(-16 - (row))	/* a node has redirected it to this row */
#define PART_SENT_ROW(part)	(-16 - (part))

/* How many redirects of an operation are followed at once. */
#define REDIRECTS_MAX		5

/* Limit on passes for missing scripts, in case somebody keeps flushing them. */
#define PASSES_MAX			4

typedef enum RedisCommandKind
{
	COMMAND_OPS,
	COMMAND_ASKING,				/* the next command is for a slot that is being
								 * moved to this node */
	COMMAND_WAIT,				/* see flight.c */
	COMMAND_LEFT,				/* releases whose batch has ended; see flight.c */
	COMMAND_FORGET				/* nobody needs its result */
} RedisCommandKind;

typedef struct RedisCommand
{
	RedisCommandKind kind;
	int			first;			/* it is for ops[first .. first + nops) */
	int			nops;
	uint64		starts_at;		/* position in the connection's stream */
	int64		encoded_at;
} RedisCommand;

/* How many releases may be left unanswered; see flight.c. */
#define LEFT_MAX			16

typedef struct LeftRelease
{
	KindId		kind;			/* all of this as in StoreOp */
	StoreId		store;
	int			hold;
	uint64		owner;
	uint32		topology;
} LeftRelease;

typedef struct NodeBatch
{
	RedisTarget target;
	RedisConn	conn;			/* to the target, kept between batches */
	uint32		connection;		/* socket.epoch of the last one that was made */
	bool		patient;		/* watchdog: asks even a silent node */
	bool		unread;			/* the node's answers may stay unread for long */
	bool		quiet;			/* the last wait for several nodes found
								 * nothing to read from it */
	ScriptSet	loaded;			/* scripts that the node is taken to have: if
								 * "unread", only those sent over this connection */
	StoreBatch	batch;

	/* The present pass. */
	int			passes;
	int			next;			/* next operation to be put into a command */

	/* Commands in flight, in a ring of fixed size. */
	RedisCommand flight[FLIGHT_MAX];
	int			flight_first;
	int			flight_n;
	int			past_n;			/* the first so many are of batches that have ended */

	/* The connection during the batch. */
	int64		progress_at;	/* when the node last answered, or was first asked */
	int64		reply_until;	/* the node must answer before that */
	bool		reconnected;	/* already connected again once, after commands
								 * were sent */
	int			handed_on;		/* number of operations handed on to other nodes */
	bool		drop;			/* close the connection when the batch is done */

	/* What replicas have to confirm; see flight.c. */
	int			wanted;			/* most replicas wanted by an operation sent
								 * since the last WAIT */
	int			ndone;			/* operations carried out that still wait for replicas */
	int64		wait_ms;		/* how long the node was told to wait */
	int64		wait_until;		/* when that wait ends at the latest, if it starts now */

	/* Releases of batches that have ended, in the order of their answers. */
	LeftRelease left[LEFT_MAX];
	int			left_n;
	StoreAnswered answered;
	ScriptSet	ran;			/* scripts that ran over this connection; emptied
								 * with a new one, and if such a release is
								 * answered by an error, or not at all */

	/* What is known of the node. */
	bool		runs_scripts;	/* it has run one in this batch */
	bool		asked;			/* it was sent one without a key */
	bool		refuses;		/* and has refused that */
} NodeBatch;

/*
 * Returns false when out of memory.  "judge": what happens over this connection decides
 * whether the node counts as up, and which node is the master.
 */
extern bool node_batch_make(NodeBatch *b, NodeId node, const char *role,
							bool patient, bool judge);

/*
 * Begin a batch, or add to the one under way: "n" of these operations, those whose
 * StoreSent.part is "part", are for this node.  One that is refused at once has its
 * outcome on return.
 */
extern void node_batch_join(NodeBatch *b, StoreOp *ops, int nops, int part, int n,
							int64 deadline);

/* Drop a batch that a longjmp has left behind. */
extern void node_batch_drop(NodeBatch *b);

/*
 * Do all that can be done without waiting.  "readable": there may be something to read;
 * right after a request was sent there is not.  "briefly": reading may wait for a short
 * time.
 */
extern void node_batch_process(NodeBatch *b, bool readable, bool briefly);

/* End the batch if the time for connecting or for a reply is up. */
extern void node_batch_check_time(NodeBatch *b);

/* Returns when to call that. */
extern int64 node_batch_until(const NodeBatch *b);

/* Have all requests been sent, and are replies still to come? */
extern bool node_batch_awaits_reply(const NodeBatch *b);

/*
 * Between batches: is the connection, if there is one, still good?  Closes it if not.
 * "lately": the node answered a moment ago.
 */
extern bool node_batch_check_connection(NodeBatch *b, bool lately);

/*
 * Between batches: have the store forget this request, which was answered.  The command
 * goes out with the next batch, or by node_batch_send_idle() before the connection is
 * closed.
 */
extern void node_batch_forget(NodeBatch *b, const StoreOp *op);
extern void node_batch_send_idle(NodeBatch *b);

/* Between batches: is there a connection that was good when last checked? */
static inline bool
node_batch_is_connected(const NodeBatch *b)
{
	return b->conn.state == CONN_READY && !b->conn.socket.shut;
}

/* See StoreRoutine.let_go. */
extern int64 node_batch_let_go(NodeBatch *b, int64 unused_since);

/* Close the connection with this error, which ends the batch. */
extern void node_batch_fail(NodeBatch *b, int sqlstate, const char *detail);

/* End the batch without waiting any longer; each operation gets an outcome. */
extern void node_batch_abandon(NodeBatch *b);

/* ----------
 * A set of nodes: those that a handle of redis_store.c works with, which passes on to all
 * of them what it is asked.
 *
 * What depends on the topology is behind NodeSetMethod: which operation goes to which
 * node, and what their answers amount to.
 * ----------
 */

typedef struct NodeSet NodeSet;

/* Nothing in there waits, raises or allocates in a memory context. */
typedef struct NodeSetMethod
{
	/* Begin a batch; an earlier one that a longjmp has left is dropped. */
	void		(*start) (NodeSet *s, StoreOp *ops, int nops, int64 deadline);

	/*
	 * The nodes have worked, or it is time (look_at, over): go on with the batch, or
	 * end it.
	 */
	void		(*look) (NodeSet *s);

	/* End the batch without waiting any longer; each operation gets an outcome. */
	void		(*abandon) (NodeSet *s);

	/* Drop a batch that a longjmp has left behind; its operations may be gone. */
	void		(*drop) (NodeSet *s);

	/* The connections were closed: what was asked is not answered any more.  Or NULL. */
	void		(*closed) (NodeSet *s);

	/* Is each operation for one of the nodes only? */
	bool		parted;

	/* A NodeBatch, or what begins with one. */
	size_t		link_size;
} NodeSetMethod;

struct NodeSet
{
	const NodeSetMethod *method;
	char		role[32];
	bool		patient;		/* as in NodeBatch */
	bool		judge;			/* as for node_batch_make() */
	NodeId		first;			/* row of the first node */
	int			n;				/* how many there are at most */
	NodeBatch  *node[NODE_MASTERS]; /* NULL: not needed so far, or out of memory */
	int			home;			/* node that all is about which concerns no lock;
								 * NODE_NONE: any */
	int			needed;			/* connected to so many it is connected */
	StoreBatch	batch;			/* the caller's */
	int64		look_at;		/* when to look at the batch; LR_NEVER */
	bool		over;			/* its deadline has passed */
	bool		leave;			/* end what cannot be sent now */
};

/* The batch at the node in this row, made if needed; NULL when out of memory. */
extern NodeBatch *node_set_link(NodeSet *s, int row);

/* Is the node at work? */
static inline bool
node_set_is_busy(const NodeSet *s, int i)
{
	return s->node[i] != NULL && s->node[i]->batch.active;
}

/* ----------
 * part_batch.c: A batch whose operations each go to one node: the only one or, in a
 * Redis Cluster, the one that has its slot.
 *
 * There is a link to each node that was needed so far.  All links work at the same time
 * on operations of the same array: StoreSent.part says to which link an operation
 * belongs.  If a node sends an operation elsewhere, it leaves that link and is routed
 * again.
 *
 * Nothing waits here, raises or allocates in a memory context.
 * ----------
 */

typedef struct PartBatch
{
	NodeSet		set;			/* batch.left counts operations that belong to no
								 * link; batch.error is that at "home", or the first;
								 * look_at says when to route again */
	int64		refused_at;		/* when a node last sent an operation elsewhere */
	int64		map_wanted_at;	/* when we last asked for a new map */
	int64		map_until;		/* how long to wait for the first map */
	int			tried_again;	/* retries of what a node could not serve */
} PartBatch;

/* See NodeSetMethod; the set is that of a PartBatch. */
extern void part_batch_start(NodeSet *s, StoreOp *ops, int nops, int64 deadline);
extern void part_batch_look(NodeSet *s);
extern void part_batch_abandon(NodeSet *s);
extern void part_batch_drop(NodeSet *s);

/* ----------
 * flight.c: Commands of a batch that are in flight to one Redis node, and what becomes of
 * them.
 * ----------
 */

/* Until when to wait for the reply to a command sent now. */
extern int64 flight_limit(const NodeBatch *b, int64 now);

/* Note that the node has answered, or that the first command is about to be sent. */
extern void flight_note_progress(NodeBatch *b, int64 now);

/* A command for ops[first .. first + n) has been encoded. */
extern void flight_push(NodeBatch *b, RedisCommandKind kind, int first, int n,
						uint64 starts_at, int64 now);

/* The command that is answered next, or NULL. */
extern RedisCommand *flight_oldest(NodeBatch *b);

/* Are commands of this batch in flight? */
static inline bool
flight_is_any(const NodeBatch *b)
{
	return b->flight_n > b->past_n;
}

/* It has been answered: remove it. */
extern void flight_land_oldest(NodeBatch *b);

/* The connection is gone: decide about the commands in flight. */
extern void flight_ground(NodeBatch *b);

/* The batch has ended; replies to some of its commands may still come. */
extern void flight_leave(NodeBatch *b);

/* Take the reply to a command of such a batch; false if it is not a valid one. */
extern bool flight_take_past(NodeBatch *b, const redisReply *v);

/* An error reply to a whole command. */
extern void refusal_take(NodeBatch *b, const RedisCommand *cmd);

/* An error as the reply for one lock of a command. */
extern void refusal_of_one(NodeBatch *b, StoreOp *op, const redisReply *v);

/* Show the batch's error in redis_lock_status, too. */
extern void refusal_report(const NodeBatch *b);

/* This operation has been put into a command. */
extern void confirm_want(NodeBatch *b, const StoreOp *op);

/*
 * Append a WAIT for the operations encoded since the last one.  Returns false when out
 * of memory: the connection is of no further use then, as these operations could not be
 * confirmed.
 */
extern bool confirm_put(NodeBatch *b);

/* The operation was carried out: settle it, or wait for replicas first. */
extern void confirm_done(NodeBatch *b, StoreOp *op);

/* Take the reply to a WAIT; false if it is not a valid one. */
extern bool confirm_take(NodeBatch *b, const redisReply *v);

/* The connection is gone, so no confirmation will come. */
extern void confirm_lost(NodeBatch *b);

/* Is the next reply one to a WAIT? */
extern bool confirm_is_awaited(NodeBatch *b);

/* Does the node still owe the reply to a WAIT? */
extern bool confirm_is_owed(const NodeBatch *b);

/*
 * If all of the batch was sent and only releases are in flight, remember them and end
 * the batch.  False: the caller has to go on with the batch.
 */
extern bool left_begin(NodeBatch *b, StoreAnswered answered);

#endif							/* LR_NODE_BATCH_H */
