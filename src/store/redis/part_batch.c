/*-------------------------------------------------------------------------
 *
 * part_batch.c
 *	  A batch whose operations each go to one node, the only one or one of a Redis
 *	  Cluster; see node_batch.h.
 *
 * The map from slots to nodes is in shared memory (store/nodes.h), with an epoch for
 * each slot.  An operation is routed by reading both together, and remembers the epoch,
 * so its answer counts only if the node that it was sent to by the map still has the
 * slot.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/part_batch.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "settings.h"
#include "store/nodes.h"
#include "store/redis/node_batch.h"

/*
 * Pause before an operation is sent again that its node could not serve: the map, or the
 * keys of a slot, are on their way.
 */
#define AGAIN_PAUSE			(20 * LR_US_PER_MS)

/*
 * Retries of the watchdog.  After so many it leaves the operation for later: other
 * renewals wait for the end of its batch.
 */
#define AGAIN_PATIENCE		3

/* How often to check whether the map has changed. */
#define MAP_POLL			(5 * LR_US_PER_MS)

/* The shortest interval at which the watchdog is asked for a new map. */
#define MAP_WANTED_AGAIN	(100 * LR_US_PER_MS)

/* How many connections a process keeps. */
#define LINKS_KEPT			16

/* ----------
 * Routing
 * ----------
 */

/*
 * parts_give_up --- end an operation that belongs to no link; it is not sent any more
 */
static void
parts_give_up(PartBatch *c, StoreOp *op)
{
	op->outcome = op->sent.at != 0 ? STORE_UNKNOWN : STORE_DOWN;
	c->set.batch.left--;
}

/*
 * parts_fail_op --- the same, with the reason
 */
static void
parts_fail_op(PartBatch *c, StoreOp *op, int sqlstate, const char *detail)
{
	batch_set_error(&c->set.batch, sqlstate, detail);
	parts_give_up(c, op);
}

static bool
parts_is_open(const StoreOp *op)
{
	return op->outcome == STORE_PENDING && op->sent.part < 0;
}

/*
 * parts_owner --- the row that the map names for an operation, and the epoch of its slot;
 * CLUSTER_NO_NODE if there is none, or the map is not that of our settings
 */
static int
parts_owner(const PartBatch *c, const StoreOp *op, uint32 *epoch)
{
	int			row = CLUSTER_NO_NODE;

	if (node_get_place() != lr_place)
		return CLUSTER_NO_NODE;
	if (op->kind < STORE_CALLS)
		return cluster_owner(op->sent.slot, epoch);
	if (c->set.home != CLUSTER_NO_NODE)
		return c->set.home;
	for (int i = 0; i < SLOT_COUNT && row == CLUSTER_NO_NODE; i++)
		row = cluster_owner(i, NULL);
	return row;
}

/*
 * cluster_is_taken --- is the link still working for the node that was in this row
 * before?
 *
 * That ends soon, as that node does not belong to the cluster any more.
 */
static bool
cluster_is_taken(const PartBatch *c, int row)
{
	return row != CLUSTER_NO_NODE && node_set_is_busy(&c->set, row) &&
		redis_target_is_outdated(&c->set.node[row]->target);
}

/*
 * parts_choose --- the row to send an operation to; CLUSTER_NO_NODE: not known yet
 *
 * An operation redirected to a known row goes there, and all others to that of the map.
 */
static int
parts_choose(const PartBatch *c, StoreOp *op)
{
	bool		sent_on = op->sent.part <= PART_SENT_TO(0) && node_get_place() == lr_place;
	uint32		epoch = 0;
	int			row;

	row = sent_on ? PART_SENT_ROW(op->sent.part) : parts_owner(c, op, &epoch);
	if (cluster_is_taken(c, row))
		return CLUSTER_NO_NODE;
	if (!sent_on && row != CLUSTER_NO_NODE)
	{
		op->sent.topology = epoch;
		op->sent.asking = false;
	}
	return row;
}

/*
 * cluster_has_none --- do we know that no node has the slot?
 *
 * Before the nodes have been asked, after a start, we do not know yet.
 */
static bool
cluster_has_none(const PartBatch *c, const StoreOp *op)
{
	return node_get_place() == lr_place && cluster_was_asked() &&
		parts_owner(c, op, NULL) == CLUSTER_NO_NODE;
}

/*
 * parts_explain --- the reason why nobody knows which node has the slot
 */
static void
parts_explain(char *out, size_t size)
{
	out[0] = '\0';
	if (!cluster_has_map())
		topology_get_reason(out, size);
	if (out[0] == '\0')
		strlcpy(out, "Which node of the cluster has the slot of the key is not known at present.",
				size);
}

/*
 * parts_note_error --- if the link has finished its part, take over its error
 */
static void
parts_note_error(PartBatch *c, int row)
{
	StoreError *error = &c->set.node[row]->batch.error;

	if (node_set_is_busy(&c->set, row) || error->sqlstate == 0)
		return;
	if (c->set.batch.error.sqlstate == 0 || row == c->set.home)
		c->set.batch.error = *error;
	error->sqlstate = 0;
}

/*
 * parts_join --- hand n operations over to the link to this row
 */
static void
parts_join(PartBatch *c, int row, int n)
{
	StoreBatch *batch = &c->set.batch;
	NodeBatch  *b = node_set_link(&c->set, row);

	if (b != NULL)
	{
		parts_note_error(c, row);
		node_batch_join(b, batch->ops, batch->nops, row, n, batch->deadline);
		return;
	}
	for (int i = 0; i < batch->nops; i++)
		if (batch->ops[i].outcome == STORE_PENDING && batch->ops[i].sent.part == row)
		{
			batch->left++;
			parts_fail_op(c, &batch->ops[i], ERRCODE_OUT_OF_MEMORY, "Out of memory.");
		}
}

/*
 * parts_rests --- is the operation not to be sent now, as its node could not serve it?
 */
static bool
parts_rests(PartBatch *c, StoreOp *op, int64 now)
{
	if (op->sent.part != PART_LATER)
		return false;
	if (c->set.patient && c->tried_again >= AGAIN_PATIENCE)
		parts_give_up(c, op);
	else if (now < c->refused_at + AGAIN_PAUSE)
		c->set.look_at = Min(c->set.look_at, c->refused_at + AGAIN_PAUSE);
	else
		return false;
	return true;
}

/*
 * parts_want_map --- some operations wait for the map
 */
static void
parts_want_map(PartBatch *c, int64 now)
{
	c->set.look_at = Min(c->set.look_at, now + MAP_POLL);
	if (now - c->map_wanted_at >= MAP_WANTED_AGAIN)
	{
		c->map_wanted_at = now;
		cluster_want_map();
	}
}

/*
 * parts_route --- hand operations without a link over to links, where that is possible
 */
static void
parts_route(PartBatch *c)
{
	StoreBatch *batch = &c->set.batch;
	int			n[NODE_MASTERS] = {0};
	int64		now = lr_now();
	bool		again = false;
	char		why[sizeof(batch->error.detail)];

	c->set.look_at = LR_NEVER;
	for (int i = 0; i < batch->nops; i++)
	{
		StoreOp    *op = &batch->ops[i];
		int			row;

		if (!parts_is_open(op) || parts_rests(c, op, now))
			continue;
		row = parts_choose(c, op);
		if (row != CLUSTER_NO_NODE)
		{
			again = again || op->sent.part == PART_LATER;
			op->sent.part = row;
			n[row]++;
			batch->left--;
		}
		else if (cluster_has_none(c, op))
		{
			parts_explain(why, sizeof(why));
			parts_fail_op(c, op, ERRCODE_STORE_FAILED, why);
		}
		else
		{
			op->sent.part = PART_LATER;
			parts_want_map(c, now);
		}
	}
	c->tried_again += again;
	for (int row = 0; row < c->set.n; row++)
		if (n[row] > 0)
			parts_join(c, row, n[row]);
}

/* ----------
 * The batch
 * ----------
 */

/*
 * parts_end --- end the batch, and close connections beyond LINKS_KEPT
 */
static void
parts_end(PartBatch *c)
{
	int			n = 0;

	batch_forget(&c->set.batch);
	for (int i = 0; i < c->set.n; i++)
		n += c->set.node[i] != NULL && node_batch_is_connected(c->set.node[i]);
	for (; n > LINKS_KEPT; n--)
	{
		NodeBatch  *oldest = NULL;

		for (int i = 0; i < c->set.n; i++)
		{
			NodeBatch  *b = c->set.node[i];

			if (b != NULL && node_batch_is_connected(b) &&
				(oldest == NULL || b->progress_at < oldest->progress_at))
				oldest = b;
		}
		node_batch_send_idle(oldest);
		redis_conn_close(&oldest->conn);
	}
}

/*
 * parts_end_open --- end operations that belong to no link if it is time, or if they
 * cannot be sent now and that is not waited for
 */
static void
parts_end_open(PartBatch *c)
{
	char		why[sizeof(c->set.batch.error.detail)];

	if (!c->set.over && !c->set.leave &&
		(lr_now() < c->map_until || cluster_has_map()))
		return;
	parts_explain(why, sizeof(why));
	for (int i = 0; i < c->set.batch.nops && c->set.batch.left > 0; i++)
	{
		StoreOp    *op = &c->set.batch.ops[i];

		if (parts_is_open(op))
			parts_fail_op(c, op, ERRCODE_STORE_FAILED, parts_owner(c, op, NULL) != CLUSTER_NO_NODE ?
						  "The slot of the key is being moved to another node." : why);
	}
	c->set.look_at = LR_NEVER;
}

/*
 * part_batch_look --- handle what links have handed on, what has to be routed again,
 * and what failed; end the batch if all is done
 */
void
part_batch_look(NodeSet *s)
{
	PartBatch  *c = (PartBatch *) s;
	bool		busy = false;
	int			handed_on = 0;

	if (!s->batch.active)
		return;
	for (int i = 0; i < s->n; i++)
		if (s->node[i] != NULL)
		{
			handed_on += s->node[i]->handed_on;
			s->node[i]->handed_on = 0;
			parts_note_error(c, i);
			busy = busy || node_set_is_busy(s, i);
		}
	s->batch.left += handed_on;
	if (s->batch.left == 0)
	{
		if (!busy)
			parts_end(c);
		return;
	}
	if (handed_on > 0)
		c->refused_at = lr_now();
	if (handed_on > 0 || lr_now() >= s->look_at)
		parts_route(c);
	if (s->batch.left > 0)
		parts_end_open(c);
	if (s->batch.left == 0)
		part_batch_look(s);
}

void
part_batch_drop(NodeSet *s)
{
	batch_forget(&s->batch);
	for (int i = 0; i < s->n; i++)
		if (s->node[i] != NULL)
		{
			node_batch_drop(s->node[i]);
			s->node[i]->handed_on = 0;
			s->node[i]->batch.error.sqlstate = 0;
		}
}

void
part_batch_start(NodeSet *s, StoreOp *ops, int nops, int64 deadline)
{
	PartBatch  *c = (PartBatch *) s;

	part_batch_drop(s);
	batch_start(&s->batch, ops, nops, deadline);
	c->map_wanted_at = 0;
	c->map_until = lr_now() + lr_connect_timeout * LR_US_PER_MS;
	c->tried_again = 0;
	s->over = s->leave = false;
	s->look_at = LR_NEVER;
	if (s->n == 1 && nops > 0)
	{
		s->batch.left = 0;
		node_batch_join(s->node[0], ops, nops, 0, nops, deadline);
	}
	for (int i = 0; i < nops && s->n > 1; i++)
	{
		s->look_at = 0;
		ops[i].sent.part = PART_ROUTE;
		if (ops[i].kind < STORE_CALLS)
			ops[i].sent.slot = slot_of(ops[i].name, ops[i].name_len);
	}
	part_batch_look(s);
}

void
part_batch_abandon(NodeSet *s)
{
	PartBatch  *c = (PartBatch *) s;

	if (!s->batch.active)
		return;
	for (int i = 0; i < s->n; i++)
		if (s->node[i] != NULL)
		{
			node_batch_abandon(s->node[i]);
			s->node[i]->handed_on = 0;
		}
	for (int i = 0; i < s->batch.nops; i++)
		if (s->batch.ops[i].outcome == STORE_PENDING)
			parts_give_up(c, &s->batch.ops[i]);
	batch_set_error(&s->batch, ERRCODE_STORE_FAILED,
					"The request was given up before it was answered.");
	parts_end(c);
}
