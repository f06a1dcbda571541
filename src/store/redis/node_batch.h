/*-------------------------------------------------------------------------
 *
 * node_batch.h
 *	  A batch at one node.
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

#include "store/batch.h"
#include "store/redis/conn.h"
#include "store/redis/resp.h"

/* ----------
 * node_batch.c: A batch of operations at one Redis node.
 *
 * The batch goes through its operations in passes.  The first is all there is
 * unless a script was not loaded (the next pass sends what is still open, that
 * script in full), a command for several locks was refused (each goes alone in
 * the next one), or the connection was lost (the next one goes out on a new
 * connection).  A create that may have been read never gets into another pass.
 *
 * Nothing waits here: who does says when there is something to read, and when a
 * time limit has passed.
 * ----------
 */

/* Commands in flight. */
#define FLIGHT_MAX			256

/*
 * Where an operation of a batch at several nodes is that no node has: to be sent by the
 * map, when that has another node for its slot than has refused it, or after a while;
 * later, to the same.
 */
#define PART_BY_MAP			(-1)
#define PART_LATER			(-2)
#define PART_ROUTE			(-3)	/* by the map as it is */
#define PART_SENT_TO(row)	(-16 - (row))	/* there, as a node has said */
#define PART_SENT_ROW(part)	(-16 - (part))

/* So often an operation goes on at once to where a node says. */
#define REDIRECTS_MAX		5

/* Sent again because a script was not loaded: somebody flushes all the time. */
#define PASSES_MAX			4

typedef enum RedisCommandKind
{
	COMMAND_OPS,
	COMMAND_PROOF,				/* does the node run scripts at all? */
	COMMAND_ASKING,				/* the one behind is for a slot that is on its way */
	COMMAND_WAIT				/* see confirm.c */
} RedisCommandKind;

typedef struct RedisCommand
{
	RedisCommandKind kind;
	int			first;			/* its operations: ops[first .. first + nops) */
	int			nops;
	uint64		starts_at;		/* in the stream of the connection */
	int64		encoded_at;
} RedisCommand;

/* So many releases may be left without an answer; see left.c. */
#define LEFT_MAX			16

typedef struct LeftRelease
{
	int			nops;			/* so many of its command are here, from the first on */
	KindId		kind;			/* these as in StoreOp */
	StoreId		store;
	int			hold;
	uint64		owner;
	uint32		topology;
} LeftRelease;

typedef struct NodeBatch
{
	RedisTarget target;
	RedisConn	conn;			/* to it, kept between batches */
	uint32		connections;	/* made so far */
	bool		patient;		/* watchdog: asks a silent node too */
	bool		unread;			/* what it answers may be read by nobody for long */
	bool		quiet;			/* the last wait for several nodes saw nothing of it */
	ScriptSet	loaded;			/* then: scripts that it has from this connection */
	StoreBatch	batch;

	/* The pass. */
	int			passes;
	int			next;			/* operation to be put into a command */
	ScriptSet	missing;		/* scripts that were found not loaded */
	ScriptSet	in_full;		/* scripts to send in full in this pass */

	/* Commands in flight: a ring, so that nothing is allocated on the way. */
	RedisCommand flight[FLIGHT_MAX];
	int			flight_first;
	int			flight_n;

	/* The connection during the batch. */
	int64		now;			/* lr_now() if nothing was waited for since it was
								 * read, else 0 */
	int64		progress_at;	/* the node was last heard, or asked */
	int64		reply_until;	/* it must be heard again */
	bool		reconnected;	/* once, after commands were sent */
	int			handed_on;		/* operations that other nodes have to do */
	bool		drop;			/* close when the batch is done */

	/* What replicas have to confirm; see confirm.c. */
	int			wanted;			/* so many, of what was sent since the last WAIT */
	int			ndone;			/* operations that were answered before theirs */
	int64		wait_ms;		/* for how long the node was told to wait, */
	int64		wait_until;		/* and until when it does so at most, by itself */
	int			owed;			/* replies to WAITs of batches that have ended, */
	int			owed_idle;		/* and behind them those to what nobody waits for */
	int			unsent_idle;	/* and so many of that have not been sent yet */

	/* Releases of batches that have ended, which are answered before all else. */
	LeftRelease left[LEFT_MAX];
	int			left_n;
	StoreAnswered answered;
	ScriptSet	ran;			/* over this connection, without an error since */

	/* What is known of the node. */
	bool		runs_scripts;	/* it has done so in this batch */
	bool		doubt;			/* it has refused what it may refuse to all */
	bool		proving;		/* asked whether it runs scripts: wait for that */
} NodeBatch;

/*
 * Raises when out of memory.  "judge": what the node does here says whether it is
 * there, and which node is the master.
 */
extern void node_batch_init(NodeBatch *b, NodeId node, const char *role,
							bool patient, bool judge);

/* The same, but false when out of memory. */
extern bool node_batch_make(NodeBatch *b, NodeId node, const char *role,
							bool patient, bool judge);

/* Begin; what is refused at once has its outcome. */
extern void node_batch_start(NodeBatch *b, StoreOp *ops, int nops,
							 int64 deadline);

/*
 * The same, or go on, with "n" of these operations, those of that part (StoreOp.part):
 * the batch is that of several nodes.
 */
extern void node_batch_join(NodeBatch *b, StoreOp *ops, int nops, int part, int n,
							int64 deadline);

/* Drop a batch that a longjmp has left. */
extern void node_batch_drop(NodeBatch *b);

/*
 * Do all that can be done without waiting.  "readable": reading is worth the
 * try; right after a request was sent it is not.  "briefly": reading may wait
 * for a short time.  "now": lr_now() if it has just been read, else 0.
 */
extern void node_batch_process(NodeBatch *b, bool readable, bool briefly,
							   int64 now);

/* Is the time for connecting or for a reply up?  Until when is it not? */
extern void node_batch_check_time(NodeBatch *b);
extern int64 node_batch_until(const NodeBatch *b);

/* Are replies awaited, and all requests sent? */
extern bool node_batch_awaits_reply(const NodeBatch *b);

/*
 * Between batches: is the connection, if there is one, still good?  Closes it when
 * not.  "lately": it was heard a moment ago.
 */
extern bool node_batch_check_connection(NodeBatch *b, bool lately);

/*
 * Between batches: have the store forget this request, which was answered.  That goes
 * along with the next batch, or is sent before the connection is closed in order.
 */
extern void node_batch_forget(NodeBatch *b, const StoreOp *op);
extern void node_batch_send_idle(NodeBatch *b);

/* Is there a connection between batches that was good when last looked at? */
static inline bool
node_batch_is_connected(const NodeBatch *b)
{
	return b->conn.state == CONN_READY && !b->conn.socket.shut;
}

/* As let_go() of a store. */
extern int64 node_batch_let_go(NodeBatch *b, int64 unused_since);

/* For lack of something in this process there is no connection. */
extern void node_batch_fail(NodeBatch *b, int sqlstate, const char *detail);

/* End it without waiting any longer; each operation gets an outcome. */
extern void node_batch_abandon(NodeBatch *b);

/* ----------
 * flight.c: Commands of a batch that are under way at one Redis node.
 * ----------
 */

/* Until when the reply to what is sent now is awaited at most. */
extern int64 flight_limit(const NodeBatch *b, int64 now);

/* The node was heard now, or asked first. */
extern void flight_note_progress(NodeBatch *b, int64 now);

/* What was put together, ops[first .. first + n), is under way. */
extern void flight_push(NodeBatch *b, RedisCommandKind kind, int first, int n,
						uint64 starts_at, int64 now);

/* The one that is answered next, or NULL; and it has been answered. */
extern RedisCommand *flight_oldest(NodeBatch *b);
extern void flight_land_oldest(NodeBatch *b);

/* It surely did not run for this operation. */
extern void flight_never_ran(StoreOp *op, const RedisCommand *cmd);

/* The connection is gone. */
extern void flight_ground(NodeBatch *b);

/* Go through the operations again, for those that are still open. */
extern void flight_start_pass(NodeBatch *b);

/* ----------
 * refusal.c: What a batch makes of error replies.
 * ----------
 */

/* An error reply to a whole command; to one lock of it. */
extern void refusal_take(NodeBatch *b, const RedisCommand *cmd);
extern void refusal_of_one(NodeBatch *b, StoreOp *op, const RedisValue *v);

/* To the question what replicas have. */
extern void refusal_of_wait(NodeBatch *b, const RedisValue *v);

/* Nothing is done for anybody: all that is open has this outcome. */
extern void refusal_of_rest(NodeBatch *b, StoreOutcome outcome);

/* Have what a session was told in redis_lock_status too. */
extern void refusal_report(const NodeBatch *b);

/* ----------
 * confirm.c: What replicas of a Redis node have to confirm.
 * ----------
 */

/* This operation has been put into a command. */
extern void confirm_want(NodeBatch *b, const StoreOp *op);

/*
 * Put the WAIT for all that has been put before it.  False without memory: the
 * operations have no outcome then, and the connection is of no use.
 */
extern bool confirm_put(NodeBatch *b);

/* The operation was carried out: that is its outcome, or replicas are awaited. */
extern void confirm_done(NodeBatch *b, StoreOp *op);

/* The reply to a WAIT; false if there is no such reply. */
extern bool confirm_take(NodeBatch *b, const RedisValue *v);

/* The connection is gone, and with it what it would have said. */
extern void confirm_lost(NodeBatch *b);

/* Is the next reply one to a WAIT? */
extern bool confirm_is_awaited(NodeBatch *b);

/* The batch has ended: replies to WAITs may be under way. */
extern void confirm_leave(NodeBatch *b);

/* That is one of these replies; false if there is no such reply. */
extern bool confirm_swallow(NodeBatch *b, const RedisValue *v);

/* ----------
 * left.c: Releases whose batch has ended before they were answered.
 * ----------
 */

/*
 * All of the batch was sent, and all that is under way is releases: remember them, and
 * end it.  False: the batch is to be gone on with.
 */
extern bool left_begin(NodeBatch *b, StoreAnswered answered);

/* The reply to the oldest of their commands; false if there is no such reply. */
extern bool left_take(NodeBatch *b, const RedisValue *v);

/* The connection that would have brought their replies is gone. */
extern void left_lose(NodeBatch *b);

#endif							/* LR_NODE_BATCH_H */
