/*-------------------------------------------------------------------------
 *
 * due_batch.c
 *	  What is due in a store, as one batch of operations.
 *
 * An orphan whose create may still be on its way is released repeatedly, until a
 * release has run after the last moment at which the create may run, both by the
 * store's own clock: TIME is sent before the releases, so a release in the same
 * batch runs later than the time that it returns.
 *
 * A lock that is held in the other store and has to move to this one is created
 * here with the same owner, and then set.  If the set succeeds, the lock is here: by
 * this create, by an earlier one whose reply was not read, or since it was here
 * before.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/watchdog/due_batch.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "port/pg_bitutils.h"
#include "utils/memutils.h"

#include "store/stores.h"
#include "watchdog/watchdog_int.h"

/* TIME and PROBE; CREATE and SET of a move; FACTS */
#define MAX_HEADERS			2
#define MAX_ITEM_OPS		2
#define MAX_OPS				(MAX_HEADERS + MAX_ITEM_OPS * DUE_BATCH_MAX + 1)

/*
 * workplace_make --- make the handle and the arrays of one batch, which live as long as
 * the process
 */
void
workplace_make(StoreId store, const char *role, Workplace *w)
{
	w->handle = lr_store(store)->open(role);
	w->items = MemoryContextAllocHuge(TopMemoryContext,
									  sizeof(DueItem) * DUE_BATCH_MAX);
	w->ops = MemoryContextAllocHuge(TopMemoryContext, sizeof(StoreOp) * MAX_OPS);
}

/*
 * due_batch_make --- make an empty batch for a store
 */
void
due_batch_make(DueBatch *b, StoreId store, const char *role)
{
	memset(b, 0, sizeof(DueBatch));
	b->id = store;
	b->store = lr_store(store);
	workplace_make(store, role, &b->at);
	b->first_op = MemoryContextAlloc(TopMemoryContext,
									 sizeof(int) * DUE_BATCH_MAX);
}

/*
 * due_batch_op --- make an operation on the lock of an item
 *
 * A lock that moves keeps how long its key has to stay locked.  It is created as the
 * kind that it is once held, not as the kind by which it was acquired, which may use a
 * queue.
 */
void
due_batch_op(StoreOp *op, StoreId store, StoreOpKind kind, const DueItem *item)
{
	memset(op, 0, sizeof(StoreOp));
	op->kind = kind;
	op->lock_kind = kind == STORE_CREATE ? lr_kind(item->kind)->held_as : item->kind;
	op->store = store;
	op->name = item->name;
	op->name_len = item->name_len;
	op->owner = item->owner;
	memcpy(op->id, item->id, STORE_ID_LEN);
	op->amount = item->amount;
	op->lease_ms = item->lease_ms;
	op->keep_ms = kind == STORE_RENEW ? 0 : item->keep_ms;
	op->alone = item->alone;
	if (kind == STORE_RELEASE)
		op->wanted = item->nodes;
	if (kind == STORE_RENEW || kind == STORE_SET)
		op->min_replicas = item->min_replicas;
	if (due_op_adds(op))
		op->lease_ms = Max(item->lease_ms, item->keep_ms);
}

static void
add_item_op(DueBatch *b, StoreOpKind kind, const DueItem *item)
{
	due_batch_op(&b->at.ops[b->nops++], b->id, kind, item);
}

/*
 * add_item --- add the operations of one item
 */
static void
add_item(DueBatch *b, int i)
{
	const DueItem *item = &b->at.items[i];

	b->first_op[i] = b->nops;
	switch (item->action)
	{
		case DUE_RENEW:
			add_item_op(b, STORE_RENEW, item);
			break;
		case DUE_MOVE:
			add_item_op(b, STORE_CREATE, item);
			add_item_op(b, STORE_SET, item);
			break;
		case DUE_GIVE_BACK:
			add_item_op(b, STORE_RELEASE, item);
			break;
		case DUE_COUNT:
			add_item_op(b, STORE_TALLY, item);
			break;
		case DUE_DROP:
		case DUE_NOTHING:
			break;
	}
}

/* Add an operation that concerns no lock. */
static void
add_header_op(DueBatch *b, StoreOpKind kind)
{
	StoreOp    *op = &b->at.ops[b->nops++];

	memset(op, 0, sizeof(StoreOp));
	op->kind = kind;
	op->store = b->id;
}

/*
 * due_batch_needs_proof --- see watchdog_int.h
 *
 * If one lock may be refused, we have to distinguish that from a store that refuses
 * all.
 */
bool
due_batch_needs_proof(const DueBatch *b)
{
	for (int i = 0; i < b->nitems; i++)
		if (b->at.items[i].alone || b->at.items[i].action == DUE_MOVE)
			return true;
	return false;
}

/*
 * item_class --- items of the same class have the same operations
 */
static int
item_class(const DueItem *item)
{
	return item->action * KIND_COUNT + item->kind;
}

/*
 * add_items --- add the operations of all items, class by class
 *
 * Only adjacent operations can share a command.  The items come in no order, since
 * holds of all kinds get whichever slots are free.
 */
static void
add_items(DueBatch *b)
{
	uint64		classes = 0;

	StaticAssertStmt((DUE_DROP + 1) * KIND_COUNT <= 64, "no room for all classes");
	for (int i = 0; i < b->nitems; i++)
		classes |= UINT64CONST(1) << item_class(&b->at.items[i]);
	while (classes != 0)
	{
		int			class = pg_rightmost_one_pos64(classes);

		for (int i = 0; i < b->nitems; i++)
			if (item_class(&b->at.items[i]) == class)
				add_item(b, i);
		classes &= classes - 1;
	}
}

void
due_batch_fill(DueBatch *b, bool probe, bool facts)
{
	b->nops = 0;
	add_header_op(b, STORE_TIME);
	if (probe)
		add_header_op(b, STORE_PROBE);
	b->nheaders = b->nops;
	add_items(b);
	if (facts)
		add_header_op(b, STORE_FACTS);
}
