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
 * part_batch_link --- the batch at the node in this row, made if needed; NULL when out
 * of memory
 */
NodeBatch *
part_batch_link(NodeSet *s, int row)
{
	NodeBatch  *b = s->node[row];

	if (b == NULL)
	{
		b = calloc(1, sizeof(NodeBatch));
		if (b == NULL)
			return NULL;
		if (!node_batch_make(b, s->first + row, s->role, s->patient,
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
 * cluster_any_node --- a row for what concerns no key
 */
static int
cluster_any_node(const PartBatch *c)
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
cluster_is_taken(const PartBatch *c, int row)
{
	return row != CLUSTER_NO_NODE && node_set_is_busy(&c->set, row) &&
		redis_target_is_outdated(&c->set.node[row]->target);
}

/*
 * parts_choose --- the row to send an operation to; CLUSTER_NO_NODE: not known yet
 *
 * An operation redirected to a known row goes there.  One refused by the node of its slot
 * waits until the map changes, or for MAP_PATIENCE.  All operations wait until the map is
 * that of our settings.
 */
static int
parts_choose(const PartBatch *c, StoreOp *op)
{
	uint32		epoch;
	int			row;

	if (c->set.n == 1)
		return 0;
	if (!cluster_is_of(lr_place))
		return CLUSTER_NO_NODE;
	if (op->sent.part <= PART_SENT_TO(0))
		return PART_SENT_ROW(op->sent.part);
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
cluster_has_none(const PartBatch *c, const StoreOp *op)
{
	return cluster_is_of(lr_place) && cluster_was_asked() &&
		(op->kind >= STORE_CALLS ? cluster_any_node(c) :
		 cluster_owner(op->sent.slot, NULL)) == CLUSTER_NO_NODE;
}

/*
 * parts_explain --- the reason why nobody knows which node has the slot
 */
static void
parts_explain(char *out, size_t size)
{
	out[0] = '\0';
	if (cluster_open_slots() == SLOT_COUNT)
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
	if (!c->home_failed || row == c->set.home)
	{
		c->set.batch.error = *error;
		c->home_failed = row == c->set.home;
	}
	error->sqlstate = 0;
}

/*
 * parts_join --- hand n operations over to the link to this row
 */
static void
parts_join(PartBatch *c, int row, int n)
{
	StoreBatch *batch = &c->set.batch;
	NodeBatch  *b = part_batch_link(&c->set, row);

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
 * parts_rests --- is the operation not to be sent now, as the keys of its slot are partly
 * at another node?
 *
 * The same goes while the link to the row that it was redirected to is still busy with the
 * node that was there before.
 */
static bool
parts_rests(PartBatch *c, StoreOp *op, int64 now)
{
	if (op->sent.part <= PART_SENT_TO(0) && cluster_is_taken(c, PART_SENT_ROW(op->sent.part)))
		op->sent.part = PART_LATER;
	if (op->sent.part != PART_LATER)
		return false;
	if (c->set.patient && c->tried_again >= TRYAGAIN_PATIENCE)
		parts_give_up(c, op);
	else if (now < c->refused_at + TRYAGAIN_PAUSE)
		c->set.look_at = Min(c->set.look_at, c->refused_at + TRYAGAIN_PAUSE);
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
	if (now - c->map_wanted_at >= MAP_PATIENCE)
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

	c->routed_by = topology_epoch();
	c->set.look_at = LR_NEVER;
	for (int i = 0; i < batch->nops; i++)
	{
		StoreOp    *op = &batch->ops[i];
		int			row;

		if (!parts_is_open(op) || parts_rests(c, op, now))
			continue;
		again = again || op->sent.part == PART_LATER;
		row = parts_choose(c, op);
		if (row != CLUSTER_NO_NODE)
		{
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
			op->sent.part = PART_BY_MAP;
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
		(lr_now() < c->map_until || cluster_open_slots() < SLOT_COUNT))
		return;
	parts_explain(why, sizeof(why));
	for (int i = 0; i < c->set.batch.nops && c->set.batch.left > 0; i++)
	{
		StoreOp    *op = &c->set.batch.ops[i];

		if (parts_is_open(op))
			parts_fail_op(c, op, ERRCODE_STORE_FAILED, op->sent.part == PART_LATER ?
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
		}
	s->batch.left += handed_on;
	if (handed_on > 0)
		c->refused_at = lr_now();
	if (s->batch.left > 0 &&
		(handed_on > 0 || lr_now() >= s->look_at || c->routed_by != topology_epoch()))
		parts_route(c);
	if (s->batch.left > 0)
		parts_end_open(c);
	for (int i = 0; i < s->n; i++)
		if (s->node[i] != NULL)
		{
			parts_note_error(c, i);
			busy = busy || node_set_is_busy(s, i);
		}
	if (!busy && s->batch.left == 0)
		parts_end(c);
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
	c->home_failed = false;
	c->map_wanted_at = 0;
	c->map_until = lr_now() + lr_connect_timeout * LR_US_PER_MS;
	c->tried_again = 0;
	for (int i = 0; i < nops; i++)
	{
		ops[i].sent.part = PART_ROUTE;
		if (s->n > 1 && ops[i].kind < STORE_CALLS)
			ops[i].sent.slot = slot_of(ops[i].name, ops[i].name_len);
	}
	s->over = s->leave = false;
	s->look_at = 0;
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
