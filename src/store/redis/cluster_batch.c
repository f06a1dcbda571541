/*-------------------------------------------------------------------------
 *
 * cluster_batch.c
 *	  A batch of operations at the nodes of a Redis Cluster; see cluster_batch.h.
 *
 * The map from slots to nodes is in shared memory (store/nodes.h), with an epoch for
 * each slot.  An operation is routed by reading both together, and remembers the epoch,
 * so its answer counts only if the node that it was sent to by the map still has the
 * slot.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/cluster_batch.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "settings.h"
#include "store/nodes.h"
#include "store/redis/cluster_batch.h"

/*
 * Pause before a retry after TRYAGAIN: the keys of the script are partly at another
 * node.
 */
#define TRYAGAIN_PAUSE		(20 * LR_US_PER_MS)

/*
 * Retries of the watchdog.  After so many it leaves the operation for later: other
 * renewals wait for the end of its batch.
 */
#define TRYAGAIN_PATIENCE	3

/* How often to check whether the map has changed. */
#define MAP_POLL			(5 * LR_US_PER_MS)

/*
 * How long to wait for a change of the map.  After that the operation is sent by the
 * present map again, since the nodes may have disagreed.  Also the shortest interval at
 * which the watchdog is asked for a new map.
 */
#define MAP_PATIENCE		(100 * LR_US_PER_MS)

/* How many connections a process keeps. */
#define LINKS_KEPT			16

/*
 * cluster_link --- the batch at the node in this row, made if needed; NULL when out of
 * memory
 */
static NodeBatch *
cluster_link(NodeSet *s, int row)
{
	NodeBatch  *b = s->node[row];

	if (b == NULL)
	{
		b = calloc(1, sizeof(NodeBatch));
		if (b == NULL)
			return NULL;
		if (!node_batch_make(b, NODE_MASTER + row, s->role, s->patient,
							 s->judge && row == s->home))
		{
			free(b);
			return NULL;
		}
		s->node[row] = b;
	}
	return b;
}

/* ----------
 * Routing
 * ----------
 */

/*
 * cluster_give_up --- end an operation that belongs to no link; it is not sent any more
 */
static void
cluster_give_up(ClusterBatch *c, StoreOp *op)
{
	op->outcome = op->sent.at != 0 ? STORE_UNKNOWN : STORE_DOWN;
	c->batch.left--;
}

/*
 * cluster_fail_op --- the same, with the reason
 */
static void
cluster_fail_op(ClusterBatch *c, StoreOp *op, int sqlstate, const char *detail)
{
	batch_set_error(&c->batch, sqlstate, detail);
	cluster_give_up(c, op);
}

static bool
cluster_is_open(const StoreOp *op)
{
	return op->outcome == STORE_PENDING && op->sent.part < 0;
}

/*
 * cluster_any_node --- a row for what concerns no key
 */
static int
cluster_any_node(const ClusterBatch *c)
{
	int			row = c->set.home;

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
cluster_is_taken(const ClusterBatch *c, int row)
{
	return row != CLUSTER_NO_NODE && c->set.node[row] != NULL && c->set.node[row]->batch.active &&
		redis_target_is_outdated(&c->set.node[row]->target);
}

/*
 * cluster_choose --- the row to send an operation to; CLUSTER_NO_NODE: not known yet
 *
 * An operation refused by the node of its slot waits until the map changes, or for
 * MAP_PATIENCE.  All operations wait until the map is that of our settings.
 */
static int
cluster_choose(const ClusterBatch *c, StoreOp *op)
{
	uint32		epoch;
	int			row;

	if (!cluster_is_of(lr_place))
		return CLUSTER_NO_NODE;
	if (op->kind >= STORE_CALLS)
	{
		row = cluster_any_node(c);
		return cluster_is_taken(c, row) ? CLUSTER_NO_NODE : row;
	}
	row = cluster_owner(op->sent.slot, &epoch);
	if (cluster_is_taken(c, row) ||
		(op->sent.part == PART_BY_MAP && epoch == op->sent.topology &&
		 lr_now() - c->refused_at < MAP_PATIENCE))
		return CLUSTER_NO_NODE;
	op->sent.topology = epoch;
	op->sent.asking = false;
	return row;
}

/*
 * cluster_has_none --- do we know that no node has the slot?
 *
 * Before the nodes have been asked, after a start, we do not know yet.
 */
static bool
cluster_has_none(const ClusterBatch *c, const StoreOp *op)
{
	return cluster_is_of(lr_place) && cluster_was_asked() &&
		(op->kind >= STORE_CALLS ? cluster_any_node(c) :
		 cluster_owner(op->sent.slot, NULL)) == CLUSTER_NO_NODE;
}

/*
 * cluster_explain --- the reason why nobody knows which node has the slot
 */
static void
cluster_explain(char *out, size_t size)
{
	out[0] = '\0';
	if (cluster_open_slots() == SLOT_COUNT)
		topology_get_reason(out, size);
	if (out[0] == '\0')
		strlcpy(out, "Which node of the cluster has the slot of the key is not known at present.",
				size);
}

/*
 * cluster_note_end --- if the link has finished its part, take over its error
 */
static void
cluster_note_end(ClusterBatch *c, int row)
{
	NodeBatch  *b = c->set.node[row];

	if (!c->at_work[row] || b->batch.active)
		return;
	c->at_work[row] = false;
	if (b->batch.error.sqlstate == 0 || (c->home_failed && row != c->set.home))
		return;
	c->batch.error = b->batch.error;
	c->home_failed = row == c->set.home;
}

/*
 * cluster_join --- hand n operations over to the link to this row
 */
static void
cluster_join(ClusterBatch *c, int row, int n)
{
	StoreBatch *batch = &c->batch;
	NodeBatch  *b = cluster_link(&c->set, row);

	if (b != NULL)
	{
		cluster_note_end(c, row);
		c->at_work[row] = true;
		node_batch_join(b, batch->ops, batch->nops, row, n, batch->deadline);
		return;
	}
	for (int i = 0; i < batch->nops; i++)
		if (batch->ops[i].outcome == STORE_PENDING && batch->ops[i].sent.part == row)
		{
			batch->left++;
			cluster_fail_op(c, &batch->ops[i], ERRCODE_OUT_OF_MEMORY, "Out of memory.");
		}
}

/*
 * cluster_route --- hand operations without a link over to links, where that is possible
 */
static void
cluster_route(ClusterBatch *c)
{
	StoreBatch *batch = &c->batch;
	int			n[NODE_MASTERS] = {0};
	int			missing = 0;
	bool		again = false;
	char		why[sizeof(c->batch.error.detail)];

	c->routed_by = topology_epoch();
	c->set.look_at = LR_NEVER;
	for (int i = 0; i < batch->nops; i++)
	{
		StoreOp    *op = &batch->ops[i];
		int			row;

		if (!cluster_is_open(op))
			continue;
		again = again || op->sent.part == PART_LATER;
		row = cluster_choose(c, op);
		if (row == CLUSTER_NO_NODE && cluster_has_none(c, op))
		{
			cluster_explain(why, sizeof(why));
			cluster_fail_op(c, op, ERRCODE_STORE_FAILED, why);
			continue;
		}
		if (row == CLUSTER_NO_NODE)
		{
			op->sent.part = PART_BY_MAP;
			missing++;
			continue;
		}
		op->sent.part = row;
		n[row]++;
		batch->left--;
	}
	c->tried_again += again;
	if (missing > 0)
	{
		int64		now = lr_now();

		c->set.look_at = now + MAP_POLL;
		if (now - c->map_wanted_at >= MAP_PATIENCE)
		{
			c->map_wanted_at = now;
			cluster_want_map();
		}
	}
	for (int row = 0; row < NODE_MASTERS; row++)
		if (n[row] > 0)
			cluster_join(c, row, n[row]);
}

/*
 * cluster_take_over --- handle operations that links have handed on
 *
 * An operation redirected to a known row goes there at once.  All are counted before any
 * link is joined, since joining an idle link resets its count.
 */
static void
cluster_take_over(ClusterBatch *c)
{
	StoreBatch *batch = &c->batch;
	int			n[NODE_MASTERS] = {0};
	int64		now = lr_now();
	int			handed_on = 0;

	for (int i = 0; i < NODE_MASTERS; i++)
		if (c->set.node[i] != NULL)
		{
			handed_on += c->set.node[i]->handed_on;
			c->set.node[i]->handed_on = 0;
		}
	if (handed_on == 0)
		return;

	batch->left += handed_on;
	for (int i = 0; i < batch->nops; i++)
	{
		StoreOp    *op = &batch->ops[i];

		if (!cluster_is_open(op))
			continue;
		if (op->sent.part == PART_LATER && c->set.patient && c->tried_again >= TRYAGAIN_PATIENCE)
			cluster_give_up(c, op);
		else if (op->sent.part == PART_LATER)
			c->set.look_at = Min(c->set.look_at, now + TRYAGAIN_PAUSE);
		else if (op->sent.part > PART_SENT_TO(0))
		{
			c->refused_at = now;
			c->set.look_at = Min(c->set.look_at, now);
		}
		else if (cluster_is_taken(c, PART_SENT_ROW(op->sent.part)))
		{
			op->sent.part = PART_LATER;
			c->set.look_at = Min(c->set.look_at, now + TRYAGAIN_PAUSE);
		}
		else
		{
			op->sent.part = PART_SENT_ROW(op->sent.part);
			n[op->sent.part]++;
			batch->left--;
		}
	}
	Assert(batch->left >= 0);
	for (int row = 0; row < NODE_MASTERS; row++)
		if (n[row] > 0)
			cluster_join(c, row, n[row]);
}

/* ----------
 * The batch
 * ----------
 */

/*
 * cluster_end --- end the batch, and close connections beyond LINKS_KEPT
 */
static void
cluster_end(ClusterBatch *c)
{
	int			n = 0;

	batch_forget(&c->batch);
	for (int i = 0; i < NODE_MASTERS; i++)
		n += c->set.node[i] != NULL && node_batch_is_connected(c->set.node[i]);
	for (; n > LINKS_KEPT; n--)
	{
		NodeBatch  *oldest = NULL;

		for (int i = 0; i < NODE_MASTERS; i++)
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
 * cluster_end_open --- end operations that belong to no link if it is time, or if they
 * cannot be sent now and that is not waited for
 */
static void
cluster_end_open(ClusterBatch *c)
{
	char		why[sizeof(c->batch.error.detail)];

	if (!c->set.over && !c->set.leave &&
		(lr_now() < c->map_until || cluster_open_slots() < SLOT_COUNT))
		return;
	cluster_explain(why, sizeof(why));
	for (int i = 0; i < c->batch.nops && c->batch.left > 0; i++)
	{
		StoreOp    *op = &c->batch.ops[i];

		if (cluster_is_open(op))
			cluster_fail_op(c, op, ERRCODE_STORE_FAILED, op->sent.part == PART_LATER ?
							"The slot of the key is being moved to another node." : why);
	}
	c->set.look_at = LR_NEVER;
}

/*
 * cluster_batch_look --- handle what links have handed on, what has to be routed again,
 * and what failed; end the batch if all is done
 */
void
cluster_batch_look(NodeSet *s)
{
	ClusterBatch *c = (ClusterBatch *) s;
	bool		busy = false;

	if (!c->batch.active)
		return;
	cluster_take_over(c);
	if (c->batch.left > 0 &&
		(lr_now() >= s->look_at || c->routed_by != topology_epoch()))
		cluster_route(c);
	if (c->batch.left > 0)
		cluster_end_open(c);
	for (int i = 0; i < NODE_MASTERS; i++)
		if (s->node[i] != NULL)
			cluster_note_end(c, i);
	for (int i = 0; i < NODE_MASTERS && !busy; i++)
		busy = node_set_is_busy(s, i);
	if (!busy && c->batch.left == 0)
		cluster_end(c);
}

void
cluster_batch_drop(NodeSet *s)
{
	ClusterBatch *c = (ClusterBatch *) s;

	batch_forget(&c->batch);
	for (int i = 0; i < NODE_MASTERS; i++)
	{
		c->at_work[i] = false;
		if (c->set.node[i] == NULL)
			continue;
		node_batch_drop(c->set.node[i]);
		c->set.node[i]->handed_on = 0;
	}
}

void
cluster_batch_start(NodeSet *s, StoreOp *ops, int nops, int64 deadline)
{
	ClusterBatch *c = (ClusterBatch *) s;

	cluster_batch_drop(s);
	batch_start(&c->batch, ops, nops, deadline);
	c->home_failed = false;
	c->map_wanted_at = 0;
	c->map_until = lr_now() + lr_connect_timeout * LR_US_PER_MS;
	c->tried_again = 0;
	if (nops == 0)
		return;
	for (int i = 0; i < nops; i++)
	{
		ops[i].sent.part = PART_ROUTE;
		if (ops[i].kind < STORE_CALLS)
			ops[i].sent.slot = slot_of(ops[i].name, ops[i].name_len);
	}
	s->over = s->leave = false;
	s->look_at = 0;
	cluster_batch_look(s);
}

void
cluster_batch_abandon(NodeSet *s)
{
	ClusterBatch *c = (ClusterBatch *) s;

	if (!c->batch.active)
		return;
	for (int i = 0; i < NODE_MASTERS; i++)
		if (c->set.node[i] != NULL)
			node_batch_abandon(c->set.node[i]);
	for (int i = 0; i < c->batch.nops; i++)
		if (c->batch.ops[i].outcome == STORE_PENDING)
			cluster_give_up(c, &c->batch.ops[i]);
	for (int i = 0; i < NODE_MASTERS; i++)
	{
		c->at_work[i] = false;
		if (c->set.node[i] != NULL)
			c->set.node[i]->handed_on = 0;
	}
	batch_set_error(&c->batch, ERRCODE_STORE_FAILED,
					"The request was given up before it was answered.");
	cluster_end(c);
}
