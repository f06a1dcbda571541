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
 * cluster_batch_init --- a client for all nodes of a cluster; does not connect yet
 */
void
cluster_batch_init(ClusterBatch *c, const char *role, bool patient, bool judge)
{
	memset(c, 0, sizeof(ClusterBatch));
	strlcpy(c->role, role, sizeof(c->role));
	c->patient = patient;
	c->judge = judge;
	c->home = CLUSTER_NO_NODE;
}

/*
 * cluster_link --- the link to the node in this row, made if needed; NULL when out of
 * memory
 */
static NodeBatch *
cluster_link(ClusterBatch *c, int row)
{
	NodeBatch  *b = c->link[row];

	if (b == NULL)
	{
		b = calloc(1, sizeof(NodeBatch));
		if (b == NULL)
			return NULL;
		if (!node_batch_make(b, NODE_MASTER + row, c->role, c->patient,
							 c->judge && row == c->home))
		{
			free(b);
			return NULL;
		}
		c->link[row] = b;
	}
	return b;
}

int
cluster_batch_busy(ClusterBatch *c, NodeBatch **out)
{
	int			n = 0;

	for (int i = 0; i < NODE_MASTERS; i++)
		if (c->link[i] != NULL && c->link[i]->batch.active)
			out[n++] = c->link[i];
	return n;
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
	op->outcome = op->sent_at != 0 ? STORE_UNKNOWN : STORE_DOWN;
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
	return op->outcome == STORE_PENDING && op->part < 0;
}

/*
 * cluster_any_node --- a row for what concerns no key
 */
static int
cluster_any_node(const ClusterBatch *c)
{
	int			row = c->home;

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
	return row != CLUSTER_NO_NODE && c->link[row] != NULL && c->link[row]->batch.active &&
		redis_target_is_outdated(&c->link[row]->target);
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
	row = cluster_owner(op->slot, &epoch);
	if (cluster_is_taken(c, row) ||
		(op->part == PART_BY_MAP && epoch == op->topology &&
		 lr_now() - c->refused_at < MAP_PATIENCE))
		return CLUSTER_NO_NODE;
	op->topology = epoch;
	op->asking = false;
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
		 cluster_owner(op->slot, NULL)) == CLUSTER_NO_NODE;
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
	NodeBatch  *b = c->link[row];

	if (!c->at_work[row] || b->batch.active)
		return;
	c->at_work[row] = false;
	if (b->batch.error.sqlstate == 0 || (c->home_failed && row != c->home))
		return;
	c->batch.error = b->batch.error;
	c->home_failed = row == c->home;
}

/*
 * cluster_join --- hand n operations over to the link to this row
 */
static void
cluster_join(ClusterBatch *c, int row, int n)
{
	StoreBatch *batch = &c->batch;
	NodeBatch  *b = cluster_link(c, row);

	if (b != NULL)
	{
		cluster_note_end(c, row);
		c->at_work[row] = true;
		node_batch_join(b, batch->ops, batch->nops, row, n, batch->deadline);
		return;
	}
	for (int i = 0; i < batch->nops; i++)
		if (batch->ops[i].outcome == STORE_PENDING && batch->ops[i].part == row)
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
	c->route_at = LR_NEVER;
	for (int i = 0; i < batch->nops; i++)
	{
		StoreOp    *op = &batch->ops[i];
		int			row;

		if (!cluster_is_open(op))
			continue;
		again = again || op->part == PART_LATER;
		row = cluster_choose(c, op);
		if (row == CLUSTER_NO_NODE && cluster_has_none(c, op))
		{
			cluster_explain(why, sizeof(why));
			cluster_fail_op(c, op, ERRCODE_STORE_FAILED, why);
			continue;
		}
		if (row == CLUSTER_NO_NODE)
		{
			op->part = PART_BY_MAP;
			missing++;
			continue;
		}
		op->part = row;
		n[row]++;
		batch->left--;
	}
	c->tried_again += again;
	if (missing > 0)
	{
		int64		now = lr_now();

		c->route_at = now + MAP_POLL;
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
		if (c->link[i] != NULL)
		{
			handed_on += c->link[i]->handed_on;
			c->link[i]->handed_on = 0;
		}
	if (handed_on == 0)
		return;

	batch->left += handed_on;
	for (int i = 0; i < batch->nops; i++)
	{
		StoreOp    *op = &batch->ops[i];

		if (!cluster_is_open(op))
			continue;
		if (op->part == PART_LATER && c->patient && c->tried_again >= TRYAGAIN_PATIENCE)
			cluster_give_up(c, op);
		else if (op->part == PART_LATER)
			c->route_at = Min(c->route_at, now + TRYAGAIN_PAUSE);
		else if (op->part > PART_SENT_TO(0))
		{
			c->refused_at = now;
			c->route_at = Min(c->route_at, now);
		}
		else if (cluster_is_taken(c, PART_SENT_ROW(op->part)))
		{
			op->part = PART_LATER;
			c->route_at = Min(c->route_at, now + TRYAGAIN_PAUSE);
		}
		else
		{
			op->part = PART_SENT_ROW(op->part);
			n[op->part]++;
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
		n += c->link[i] != NULL && node_batch_is_connected(c->link[i]);
	for (; n > LINKS_KEPT; n--)
	{
		NodeBatch  *oldest = NULL;

		for (int i = 0; i < NODE_MASTERS; i++)
		{
			NodeBatch  *b = c->link[i];

			if (b != NULL && node_batch_is_connected(b) &&
				(oldest == NULL || b->progress_at < oldest->progress_at))
				oldest = b;
		}
		node_batch_send_idle(oldest);
		redis_conn_close(&oldest->conn);
	}
}

/*
 * cluster_look --- handle what links have handed on, and what failed; end the batch if
 * all is done
 */
static void
cluster_look(ClusterBatch *c)
{
	bool		busy = false;

	if (!c->batch.active)
		return;
	cluster_take_over(c);
	for (int i = 0; i < NODE_MASTERS; i++)
		if (c->link[i] != NULL)
			cluster_note_end(c, i);
	for (int i = 0; i < NODE_MASTERS && !busy; i++)
		busy = c->link[i] != NULL && c->link[i]->batch.active;
	if (!busy && c->batch.left == 0)
		cluster_end(c);
}

void
cluster_batch_drop(ClusterBatch *c)
{
	batch_forget(&c->batch);
	for (int i = 0; i < NODE_MASTERS; i++)
	{
		c->at_work[i] = false;
		if (c->link[i] == NULL)
			continue;
		node_batch_drop(c->link[i]);
		c->link[i]->handed_on = 0;
	}
}

void
cluster_batch_start(ClusterBatch *c, StoreOp *ops, int nops, int64 deadline)
{
	cluster_batch_drop(c);
	batch_start(&c->batch, ops, nops, deadline);
	c->home_failed = false;
	c->map_wanted_at = 0;
	c->map_until = lr_now() + lr_connect_timeout * LR_US_PER_MS;
	c->tried_again = 0;
	if (nops == 0)
		return;
	for (int i = 0; i < nops; i++)
	{
		ops[i].part = PART_ROUTE;
		if (ops[i].kind < STORE_CALLS)
			ops[i].slot = slot_of(ops[i].name, ops[i].name_len);
		ops[i].topology = 0;
	}
	cluster_route(c);
	cluster_look(c);
}

void
cluster_batch_process(ClusterBatch *c, bool readable, bool briefly)
{
	if (c->batch.left > 0 &&
		(lr_now() >= c->route_at || c->routed_by != topology_epoch()))
		cluster_route(c);
	for (int i = 0; i < NODE_MASTERS; i++)
		if (c->link[i] != NULL && c->link[i]->batch.active)
			node_batch_process(c->link[i], readable, briefly);
	cluster_look(c);
}

void
cluster_batch_check_time(ClusterBatch *c, bool leave)
{
	int64		now = lr_now();
	bool		over = now >= c->batch.deadline ||
		(now >= c->map_until && cluster_open_slots() == SLOT_COUNT);
	char		why[sizeof(c->batch.error.detail)];

	if (c->batch.left > 0 && (over || leave))
		cluster_explain(why, sizeof(why));
	for (int i = 0; i < NODE_MASTERS; i++)
		if (c->link[i] != NULL && c->link[i]->batch.active)
			node_batch_check_time(c->link[i]);
	for (int i = 0; i < c->batch.nops && c->batch.left > 0 && (over || leave); i++)
	{
		StoreOp    *op = &c->batch.ops[i];

		if (!cluster_is_open(op))
			continue;
		cluster_fail_op(c, op, ERRCODE_STORE_FAILED, op->part == PART_LATER ?
						"The slot of the key is being moved to another node." : why);
	}
	cluster_look(c);
}

int64
cluster_batch_until(const ClusterBatch *c)
{
	int64		until = c->batch.deadline;

	if (c->batch.left > 0)
		until = Min(until, c->route_at);	/* soon, so that map_until is
											 * checked in time, too */
	for (int i = 0; i < NODE_MASTERS; i++)
		if (c->link[i] != NULL && c->link[i]->batch.active)
			until = Min(until, node_batch_until(c->link[i]));
	return until;
}

void
cluster_batch_abandon(ClusterBatch *c)
{
	if (!c->batch.active)
		return;
	for (int i = 0; i < NODE_MASTERS; i++)
		if (c->link[i] != NULL)
			node_batch_abandon(c->link[i]);
	for (int i = 0; i < c->batch.nops; i++)
		if (c->batch.ops[i].outcome == STORE_PENDING)
			cluster_give_up(c, &c->batch.ops[i]);
	for (int i = 0; i < NODE_MASTERS; i++)
	{
		c->at_work[i] = false;
		if (c->link[i] != NULL)
			c->link[i]->handed_on = 0;
	}
	batch_set_error(&c->batch, ERRCODE_STORE_FAILED,
					"The request was given up before it was answered.");
	cluster_end(c);
}

/* ----------
 * Between batches
 * ----------
 */

void
cluster_batch_check_connections(ClusterBatch *c)
{
	for (int i = 0; i < NODE_MASTERS; i++)
		if (c->link[i] != NULL && c->link[i]->conn.state == CONN_READY)
			(void) node_batch_check_connection(c->link[i], false);
}

/*
 * cluster_batch_is_connected --- to "home" if that is set, else to any node
 */
bool
cluster_batch_is_connected(const ClusterBatch *c)
{
	if (c->home != CLUSTER_NO_NODE)
		return c->link[c->home] != NULL && node_batch_is_connected(c->link[c->home]);
	for (int i = 0; i < NODE_MASTERS; i++)
		if (c->link[i] != NULL && node_batch_is_connected(c->link[i]))
			return true;
	return false;
}

/*
 * cluster_batch_connections --- number made so far to "home", if that is set, else to
 * any node
 */
uint32
cluster_batch_connections(const ClusterBatch *c)
{
	uint32		n = 0;

	for (int i = 0; i < NODE_MASTERS; i++)
		if (c->link[i] != NULL && (c->home == CLUSTER_NO_NODE || c->home == i))
			n += c->link[i]->connections;
	return n;
}

/*
 * cluster_batch_let_go --- like node_batch_let_go(), for all links; in a signal handler
 *
 * If some connections are kept, returns when they were last used.
 */
int64
cluster_batch_let_go(ClusterBatch *c, int64 unused_since)
{
	int64		used = STORE_NOT_CONNECTED;
	bool		gone = false;

	if (c->batch.active)
		return lr_now();
	for (int i = 0; i < NODE_MASTERS; i++)
	{
		int64		its_use = c->link[i] == NULL ? STORE_NOT_CONNECTED :
			node_batch_let_go(c->link[i], unused_since);

		gone = gone || its_use == STORE_LET_GO;
		used = Max(used, its_use);
	}
	return used == STORE_NOT_CONNECTED && gone ? STORE_LET_GO : used;
}

void
cluster_batch_close(ClusterBatch *c)
{
	for (int i = 0; i < NODE_MASTERS; i++)
		if (c->link[i] != NULL)
			node_batch_send_idle(c->link[i]);
	cluster_batch_abandon(c);
	for (int i = 0; i < NODE_MASTERS; i++)
		if (c->link[i] != NULL)
		{
			redis_conn_close(&c->link[i]->conn);
			redis_target_set(&c->link[i]->target, NODE_MASTER + i);
		}
}

/*
 * cluster_batch_forget --- see cluster_batch.h
 *
 * Not at a node that is only importing the slot: it serves nothing without ASKING, and
 * the store forgets the ticket by itself in the end.
 */
void
cluster_batch_forget(ClusterBatch *c, const StoreOp *op)
{
	if (op->part >= 0 && op->part < NODE_MASTERS && c->link[op->part] != NULL && !op->asking)
		node_batch_forget(c->link[op->part], op);
}
