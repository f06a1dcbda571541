/*-------------------------------------------------------------------------
 *
 * strangers.c
 *	  Somebody else who has a transaction at the tables of table mode: locks a table, an
 *	  index or a row, changes, deletes or inserts one, and commits or not after a while.
 *
 * A stranger is no process: all that is seen of one is what he leaves.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/backend/strangers.c
 *
 *-------------------------------------------------------------------------
 */
#include "heap.h"
#include "relations.h"
#include "strangers.h"

#include "catalog/pg_type.h"
#include "storage/lmgr.h"

#include "../kernel/faults.h"
#include "../kernel/history.h"
#include "../kernel/redis_nodes.h"

typedef struct Strangers
{
	TransactionId xid[STRANGERS_MAX];	/* of those who are there */
} Strangers;

static Strangers *strangers;

extern void sim_stranger_comes(void);

void
strangers_init(void)
{
	if (shared_root->strangers == NULL)
		shared_root->strangers = sim_arena_alloc(sizeof(Strangers));
	strangers = shared_root->strangers;
}

/* ----------
 * Coming and going
 * ----------
 */

/* What one takes away from us is noted, if he commits. */
static void
note_deleted(const Version *v)
{
	char		key[CELL_TEXT + 1];
	char		owner[CELL_TEXT + 1];

	if (v->table != TABLE_ROWS)
		return;
	snprintf(key, sizeof(key), "%.*s", v->cell[0].len, v->cell[0].text);
	snprintf(owner, sizeof(owner), "%.*s", v->cell[1].len, v->cell[1].text);
	sim_trace("a stranger has deleted the row of %s of %s", key, owner);
	redis_note_robbed(owner);
	for (Version *s = version_next(TABLE_SHARES, NULL); s != NULL;
		 s = version_next(TABLE_SHARES, s))
		if (cell_is_same(&s->cell[0], &v->cell[0]))
		{
			snprintf(owner, sizeof(owner), "%.*s", s->cell[2].len, s->cell[2].text);
			redis_note_robbed(owner);
		}
	history_event(HISTORY_TAKEN_AWAY, key);
}

static bool
has_changed(const Version *v, TransactionId xid)
{
	for (Version *to = version_next(v->table, NULL); to != NULL; to = version_next(v->table, to))
		if (to->xmin == xid)
			return true;
	return false;
}

/* An event, in a copy whose process may have ended. */
static void
leave(void *arg, int64_t n)
{
	TransactionId xid = (TransactionId) (n / 2);
	bool		commit = n % 2 != 0;
	int			i = 0;

	transam_init();
	versions_init();
	heavy_locks_init();
	strangers_init();
	while (i < STRANGERS_MAX && strangers->xid[i] != xid)
		i++;
	if (i == STRANGERS_MAX)
		return;
	for (int t = 0; commit && t < TABLE_COUNT; t++)
		for (Version *v = version_next(t, NULL); v != NULL; v = version_next(t, v))
			if (v->xmax == xid && !has_changed(v, xid))
				note_deleted(v);
	transam_end(xid, commit);
	heavy_locks_release_all(OWNER_STRANGER + i);
	strangers->xid[i] = InvalidTransactionId;
	sim_trace("stranger %d %s", i, commit ? "commits" : "rolls back");
}

/* The number of a new one; -1: there are enough. */
static int
come(bool may_commit)
{
	int64		stays = SIM_PICK(3 * SIM_MS, 50 * SIM_MS, 600 * SIM_MS, 4 * SIM_S);
	bool		commit = sim_draw(2) != 0 && may_commit;

	for (int i = 0; i < STRANGERS_MAX; i++)
		if (!TransactionIdIsValid(strangers->xid[i]))
		{
			strangers->xid[i] = transam_assign(InvalidTransactionId);
			sim_at(sim_now() + stays, leave, NULL, (int64) strangers->xid[i] * 2 + commit);
			sim_disturbed(sim_now() + stays);
			return i;
		}
	return -1;
}

/* ----------
 * What they do
 * ----------
 */

static void
lock_table(int i)
{
	LockTable	table = sim_draw(TABLE_COUNT);
	LOCKMODE	mode = SIM_PICK(AccessExclusiveLock, ShareLock, ShareRowExclusiveLock);
	LOCKTAG		tag;

	SET_LOCKTAG_RELATION(tag, MyDatabaseId,
						 sim_draw(3) != 0 ? relation_oid(table) : relation_index_oid(table));
	if (heavy_lock_try(&tag, mode, OWNER_STRANGER + i, TopSubTransactionId))
		sim_trace("stranger %d locks %s", i, table_forms[table].name);
}

/* At which nobody is; NULL: there is none. */
static Version *
draw_row(LockTable table)
{
	Version    *drawn = NULL;
	int			n = 0;

	for (Version *v = version_next(table, NULL); v != NULL; v = version_next(table, v))
		if (version_is_committed(v) && version_is_free(v) && sim_draw(++n) == 0)
			drawn = v;
	return drawn;
}

static void
lock_row(int i)
{
	Version    *v = draw_row(sim_draw(TABLE_COUNT));

	if (v == NULL)
		return;
	v->locker = strangers->xid[i];
	sim_trace("stranger %d locks a row of %s", i, table_forms[v->table].name);
}

/* To what it was. */
static void
change_row(int i)
{
	Version    *v = draw_row(sim_draw(TABLE_COUNT));

	if (v == NULL)
		return;
	v->xmax = strangers->xid[i];
	(void) version_add(v->table, v->cell, v->xmax);
	sim_trace("stranger %d changes a row of %s", i, table_forms[v->table].name);
}

static void
delete_row(int i)
{
	Version    *v = faults_are_told ? NULL : draw_row(TABLE_ROWS);

	if (v == NULL)
		return;
	v->xmax = strangers->xid[i];
	sim_trace("stranger %d deletes a row", i);
}

/*
 * insert_row --- nothing but a key: such a row is none of ours, whatever comes of it
 *
 * If there is one, or may be, he would wait or fail.
 */
static void
insert_row(int i, LockTable table, const Cell *key)
{
	Cell		cell[CELLS_MAX];

	for (Version *v = version_next(table, NULL); v != NULL; v = version_next(table, v))
		if (version_may_live(v) && version_has_key(v, key, table_forms[table].nkeys))
			return;
	memset(cell, 0, sizeof(cell));
	for (int c = 0; c < CELLS_MAX; c++)
		cell[c].isnull = true;
	memcpy(cell, key, sizeof(Cell) * table_forms[table].nkeys);
	(void) version_add(table, cell, strangers->xid[i]);
	sim_trace("stranger %d inserts a row into %s", i, table_forms[table].name);
}

static void
insert_any(int i)
{
	Cell		key;

	memset(&key, 0, sizeof(key));
	key.len = snprintf(key.text, sizeof(key.text), "k%d", (int) sim_draw(sim_config.nkeys));
	insert_row(i, TABLE_ROWS, &key);
}

/*
 * stranger_inserts --- the owner of the tables, or whoever may write them
 *
 * A counter that is none would be one that begins anew.
 */
void
stranger_inserts(LockTable table, const Cell *key)
{
	int			i = come(table != TABLE_COUNTERS);

	if (i >= 0)
		insert_row(i, table, key);
}

/* Called by the kernel, in its own time. */
void
sim_stranger_comes(void)
{
	static void (*const deeds[]) (int i) = {
		lock_table, lock_row, change_row, insert_any, delete_row
	};
	int			i = come(true);

	if (i >= 0)
		deeds[sim_draw(lengthof(deeds))] (i);
}
