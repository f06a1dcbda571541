/*-------------------------------------------------------------------------
 *
 * keyed_table.c
 *	  Stands for src/store/table/keyed_table.c: a table with a unique key, without pages
 *	  and indexes, over backend/versions.c.
 *
 * Before each access others may run, and now and then it fails: memory is short, somebody
 * cancels it, the process is terminated; or somebody inserts just before us.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/models/keyed_table.c
 *
 *-------------------------------------------------------------------------
 */
#include "../../../src/lockredis.h"

#include "catalog/pg_type.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "store/table/table_int.h"

#include "../backend/heap.h"
#include "../backend/relations.h"
#include "../backend/strangers.h"
#include "../backend/versions.h"
#include "../table/simulated.h"

/* Of a table that is open: where a search by all columns of the key but the last is. */
static struct
{
	Cell		key[KEYED_MAX_KEYS];
	Version    *at;
}			group[TABLE_COUNT];

/* ----------
 * Accidents
 * ----------
 */

static const struct
{
	int			sqlstate;
	const char *message;
}			accidents[] = {
	{ERRCODE_OUT_OF_MEMORY, "out of memory"},
	{ERRCODE_QUERY_CANCELED, "canceling statement due to statement timeout"},
	{ERRCODE_LOCK_NOT_AVAILABLE, "canceling statement due to lock timeout"},
	{ERRCODE_DISK_FULL, "could not extend file"},
	{ERRCODE_ADMIN_SHUTDOWN, "terminating background worker"}
};

static void
fail(void)
{
	uint32		which = sim_draw(lengthof(accidents));
	bool		is_end = accidents[which].sqlstate == ERRCODE_ADMIN_SHUTDOWN;

	if (is_end)
		sim_disturbed(sim_now() + 2 * SIM_S);
	ereport(is_end ? FATAL : ERROR,
			(errcode(accidents[which].sqlstate), errmsg("%s", accidents[which].message)));
}

static void
before_access(void)
{
	sim_yield("row");
	told_before_access();
	if (!sim_config.calm && sim_chance(sim_config.table_errors))
		fail();
}

/* ----------
 * Values
 * ----------
 */

static Cell
cell_of(Oid type, Datum value, bool isnull)
{
	Cell		cell;

	memset(&cell, 0, sizeof(cell));
	cell.isnull = isnull;
	if (isnull)
		return cell;
	switch (type)
	{
		case TEXTOID:
			if (VARSIZE_ANY_EXHDR(DatumGetPointer(value)) > CELL_TEXT)
				sim_fail("simulator", "a text is too long");
			cell.len = VARSIZE_ANY_EXHDR(DatumGetPointer(value));
			memcpy(cell.text, VARDATA_ANY(DatumGetPointer(value)), cell.len);
			break;
		case INTERVALOID:
			cell.interval = *DatumGetIntervalP(value);
			break;
		case UUIDOID:
			cell.uuid = *DatumGetUUIDP(value);
			break;
		case INT4OID:
			cell.number = DatumGetInt32(value);
			break;
		default:
			cell.number = DatumGetInt64(value);
	}
	return cell;
}

static const TableForm *
form_of(const KeyedTable *table)
{
	return &table_forms[relation_table(table->rel)];
}

/* ----------
 * table_int.h
 * ----------
 */

bool
keyed_begin(KeyedTable *table, Relation rel, int nkeys)
{
	memset(table, 0, sizeof(KeyedTable));
	table->rel = rel;
	table->nkeys = nkeys;
	table->row = relation_slot(rel);
	return nkeys == form_of(table)->nkeys;
}

void
keyed_end(KeyedTable *table)
{
	slot_clear(table->row);
}

/*
 * find --- the first of these from there on that a dirty snapshot sees
 *
 * Of several, such as one that somebody changes and what it is to be, an index has any first:
 * the older one, as a rule.
 */
static Version *
find(KeyedTable *table, const Cell *key, int nkeys, Version *after)
{
	Version    *first = NULL;
	LockTable	of = relation_table(table->rel);

	for (Version *v = version_next(of, after); v != NULL; v = version_next(of, v))
	{
		if (!version_has_key(v, key, nkeys) || version_dirty(v) == VERSION_UNSEEN)
			continue;
		if (first == NULL ||
			(nkeys == table->nkeys && (sim_draw(2) != 0) == (v->serial > first->serial)))
			first = v;
		if (nkeys < table->nkeys)
			break;
	}
	return first;
}

/* False: somebody is about to insert it. */
static bool
take(KeyedTable *table, const Version *v)
{
	if (version_dirty(v) == VERSION_COMING)
		return false;
	slot_fill(table->row, v);
	return true;
}

void
keyed_blocked(void)
{
	ereport(ERROR, (errcode(ERRCODE_LOCK_NOT_AVAILABLE),
					errmsg("it is changing the row of the key")));
}

bool
keyed_find(KeyedTable *table, const Datum *keys)
{
	Cell		cell[KEYED_MAX_KEYS];
	const Version *v;

	before_access();
	for (int i = 0; i < table->nkeys; i++)
		cell[i] = cell_of(TEXTOID, keys[i], false);
	v = find(table, cell, table->nkeys, NULL);
	if (v != NULL && !take(table, v))
		keyed_blocked();
	return v != NULL;
}

void
keyed_begin_group(KeyedTable *table, const Datum *keys)
{
	LockTable	of = relation_table(table->rel);

	for (int i = 0; i < table->nkeys - 1; i++)
		group[of].key[i] = cell_of(TEXTOID, keys[i], false);
	group[of].at = NULL;
}

bool
keyed_next_of_group(KeyedTable *table)
{
	LockTable	of = relation_table(table->rel);
	Version    *v;

	before_access();
	while ((v = find(table, group[of].key, table->nkeys - 1, group[of].at)) != NULL)
	{
		group[of].at = v;
		if (take(table, v))
			return true;
	}
	return false;
}

/* Is there another one of the key, or may there be one? */
static bool
has_another(const Version *v)
{
	for (Version *other = version_next(v->table, NULL); other != NULL;
		 other = version_next(v->table, other))
		if (other != v && version_has_key(other, v->cell, table_forms[v->table].nkeys) &&
			version_dirty(other) != VERSION_UNSEEN)
			return true;
	return false;
}

void
keyed_insert(KeyedTable *table, Datum *values, bool *nulls)
{
	const TableForm *form = form_of(table);
	Cell		cell[CELLS_MAX];
	Version    *v;

	for (int i = 0; i < form->ncolumns; i++)
		cell[i] = cell_of(form->type[i], values[i], nulls[i]);
	slot_clear(table->row);
	before_access();
	if (!sim_config.calm && sim_chance(sim_config.strangers))
		stranger_inserts(relation_table(table->rel), cell);
	told_before_insert(relation_table(table->rel));
	v = version_add(relation_table(table->rel), cell, xact_assign_xid());
	if (has_another(v))
		keyed_blocked();
}

bool
keyed_update(KeyedTable *table, Datum *values, bool *nulls, bool *changed)
{
	const TableForm *form = form_of(table);
	Cell		cell[CELLS_MAX];
	Version    *v;

	before_access();
	v = version_by_serial(slot_serial(table->row));
	if (v == NULL || !version_is_free(v))
		return false;
	memcpy(cell, v->cell, sizeof(cell));
	for (int i = 0; i < form->ncolumns; i++)
		if (changed[i])
			cell[i] = cell_of(form->type[i], values[i], nulls[i]);
	v->xmax = xact_assign_xid();
	(void) version_add(v->table, cell, v->xmax);
	return true;
}

bool
keyed_delete(KeyedTable *table)
{
	Version    *v;

	before_access();
	v = version_by_serial(slot_serial(table->row));
	if (v == NULL || !version_is_free(v))
		return false;
	v->xmax = xact_assign_xid();
	return true;
}
