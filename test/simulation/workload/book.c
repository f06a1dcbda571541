/*-------------------------------------------------------------------------
 *
 * book.c
 *	  What this session holds by what it was told, which the product has to agree
 *	  with after each statement.
 *
 * It is the client's view: counts go up when a function says that the lock was
 * taken, down when one says that it was given back, and with the ends of
 * transactions and savepoints.  A loss changes no count: what is lost is held
 * until it is unlocked.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/workload/book.c
 *
 *-------------------------------------------------------------------------
 */
#include "workload.h"

#include "../../../src/locktable/locktable_int.h"
#include "../kernel/history.h"
#include "permits.h"

#define MAX_ITEMS	(4 * SIM_MAX_KEYS)

static BookItem items[MAX_ITEMS];
static int	nitems = 0;

#define WRONG(...) sim_fail("holds", __VA_ARGS__)

BookItem *
book_find(const char *key, KindId kind)
{
	for (int i = 0; i < nitems; i++)
		if (items[i].kind == kind && strcmp(items[i].key, key) == 0)
			return &items[i];
	if (nitems == MAX_ITEMS)
		sim_fail("simulator", "too many keys in the book");
	memset(&items[nitems], 0, sizeof(BookItem));
	strlcpy(items[nitems].key, key, sizeof(items[0].key));
	items[nitems].kind = kind;
	return &items[nitems++];
}

void
book_walk(BookCallback callback, void *arg)
{
	for (int i = 0; i < nitems; i++)
		callback(&items[i], arg);
}

void
book_taken(const LrName *name, KindId kind, LockScope scope, bool job)
{
	BookItem   *item = book_find(name->data, kind);

	if (scope == SCOPE_SESSION)
	{
		item->session++;
		if (job)
			item->job++;
	}
	else if (item->xact == InvalidSubTransactionId)
		item->xact = GetCurrentSubTransactionId();
}

/* ----------
 * What the lock table says
 * ----------
 */

/*
 * is_settled --- nobody is in the middle of a change, such as to give a slot that
 * was ours to somebody else
 */
static bool
is_settled(void)
{
	for (int i = 0; i < LT_PARTITIONS; i++)
		if (shared_root->tranche[LT_FIRST_LWLOCK + i].lock.state.value >= UINT32_C(0x80000000))
			return false;
	return true;
}

static LrIndex
hold_of(const BookItem *item)
{
	for (LrIndex i = 0; i < lt_table->max_locks; i++)
	{
		const LrHold *h = &lt_holds[i];

		if (h->session == LrMyProcNumber && lr_kind(h->kind)->held_as == item->kind &&
			(h->state == HOLD_HELD || h->state == HOLD_LOST) &&
			lt_keys[h->key].name_len == strlen(item->key) &&
			memcmp(lt_keys[h->key].name, item->key, lt_keys[h->key].name_len) == 0)
			return i;
	}
	return LR_NONE;
}

bool
book_is_held(const BookItem *item)
{
	return item->session > 0 || item->xact != InvalidSubTransactionId;
}

bool
book_is_lost(const BookItem *item, bool unknown)
{
	LrIndex		hold = hold_of(item);

	if (!is_settled())
		return unknown;
	return hold != LR_NONE && (lt_holds[hold].state == HOLD_LOST ||
							   lt_deadline(hold) <= server_clock());
}

bool
book_has_session_part(const BookItem *item)
{
	LrIndex		hold;

	if (!is_settled())
		return true;
	hold = hold_of(item);
	return hold != LR_NONE && lt_holds[hold].scope[SCOPE_SESSION].count >= item->session;
}

static int
session_count(const BookItem *item)
{
	LrIndex		hold = hold_of(item);

	return hold == LR_NONE ? 0 : lt_holds[hold].scope[SCOPE_SESSION].count;
}

/* ----------
 * What is given back
 * ----------
 */

void
book_gone(BookItem *item, int left)
{
	item->session = left;
}

void
book_perhaps_gone(BookItem *item, int least)
{
	int			n = session_count(item);

	if (n >= least && n <= item->session)
		item->session = n;
}

void
book_sub_ends(SubTransactionId sub, SubTransactionId parent, bool commit)
{
	for (int i = 0; i < nitems; i++)
		if (items[i].xact == sub)
			items[i].xact = commit ? parent : InvalidSubTransactionId;
}

void
book_transaction_ends(bool commit)
{
	for (int i = 0; i < nitems; i++)
	{
		items[i].xact = InvalidSubTransactionId;
		if (commit)
			continue;
		items[i].session -= items[i].failed_jobs;
		items[i].job -= items[i].failed_jobs;
		items[i].failed_jobs = 0;
	}
}

/* ----------
 * The check
 * ----------
 */

static void
note_loss(BookItem *item, LrIndex hold)
{
	int			n;

	if (lt_holds[hold].state != HOLD_LOST || item->lost_owner == lt_holds[hold].claim.owner)
		return;
	item->lost_owner = lt_holds[hold].claim.owner;
	n = history_call(HISTORY_LOST, MyProcPid, item->key, item->kind, 0);
	history_return(n, HISTORY_YES);
}

static void
check_item(BookItem *item)
{
	LrIndex		hold = hold_of(item);
	int			xact = item->xact != InvalidSubTransactionId ? 1 : 0;

	if (hold == LR_NONE)
	{
		if (item->session + xact > 0)
			WRONG("%s is held %d times by the session and %d times by the transaction, and the lock table does not know",
				  item->key, item->session, xact);
		return;
	}
	if (lt_holds[hold].scope[SCOPE_SESSION].count != item->session ||
		lt_holds[hold].scope[SCOPE_XACT].count != xact)
		WRONG("%s is held %d times by the session and %d times by the transaction; the lock table says %d and %d",
			  item->key, item->session, xact, lt_holds[hold].scope[SCOPE_SESSION].count,
			  lt_holds[hold].scope[SCOPE_XACT].count);
	note_loss(item, hold);
}

void
book_check(void)
{
	int			n = 0;

	if (!is_settled())
		return;
	for (int i = 0; i < nitems; i++)
	{
		check_item(&items[i]);
		n += book_is_held(&items[i]);
	}
	for (LrIndex i = 0; i < lt_table->max_locks; i++)
		if (lt_holds[i].session == LrMyProcNumber && lt_holds[i].kind != KIND_PERMIT &&
			(lt_holds[i].state == HOLD_HELD || lt_holds[i].state == HOLD_LOST))
			n--;
	permits_check();
	if (n != 0)
		WRONG("the lock table has %d holds of this session that it was not told of", -n);
}
