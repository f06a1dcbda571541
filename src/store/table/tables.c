/*-------------------------------------------------------------------------
 *
 * tables.c
 *	  The tables of table mode: finding them, checking them, opening them; see
 *	  table_int.h.
 *
 * The code runs as the owner of the tables, who could have put a function into
 * an index of theirs.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/table/tables.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "access/genam.h"
#include "access/table.h"
#include "catalog/indexing.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_type.h"
#include "commands/dbcommands.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "store/table/requests.h"
#include "store/table/table_int.h"

#define ROWS_TABLE			"redis_lock_rows"
#define COUNTERS_TABLE		"redis_lock_counters"

static const Oid row_types[ROW_COLUMNS] = {
	TEXTOID, TEXTOID, INT4OID, INT8OID, INTERVALOID, TIMESTAMPTZOID,
	TIMESTAMPTZOID, UUIDOID, TEXTOID
};

static const Oid counter_types[COUNTER_COLUMNS] = {TEXTOID, INT8OID};

static const Oid share_types[SHARE_COLUMNS] = {
	TEXTOID, TEXTOID, TEXTOID, INTERVALOID, TIMESTAMPTZOID, TIMESTAMPTZOID, UUIDOID
};

static const Oid value_types[VALUE_COLUMNS] = {
	TEXTOID, TEXTOID, INT8OID, TIMESTAMPTZOID
};

/* A table that is opened for who needs it, and that version 1.0 has not. */
typedef struct FurtherTable
{
	const char *name;
	const Oid  *types;
	int			ncolumns;
	int			nkeys;
	Oid			oid;			/* as below */
} FurtherTable;

static FurtherTable shares = {
	"redis_lock_shares", share_types, SHARE_COLUMNS, SHARE_KEYS
};

static FurtherTable values = {
	"redis_lock_values", value_types, VALUE_COLUMNS, VALUE_KEYS
};

/* What was found last; looked up anew when they are gone. */
static Oid	rows_oid = InvalidOid;
static Oid	counters_oid = InvalidOid;
static bool tables_known = false;

/* Between tables_open and tables_close. */
static LockTables opened;
static Oid	save_user;
static int	save_context;

/*
 * has_good_encoding --- are the keys in this database what they are in Redis?
 */
static bool
has_good_encoding(TableTrouble *trouble)
{
	if (GetDatabaseEncoding() == PG_UTF8 || GetDatabaseEncoding() == PG_SQL_ASCII)
		return true;
	table_trouble_set(trouble, TABLE_WRONG_FORM,
					  "Database \"%s\" has encoding %s; keys are UTF8.",
					  get_database_name(MyDatabaseId), GetDatabaseEncodingName());
	return false;
}

/*
 * extension_schema --- where our extension is in this database, or InvalidOid
 */
static Oid
extension_schema(void)
{
	Relation	rel = table_open(ExtensionRelationId, AccessShareLock);
	Oid			schema = InvalidOid;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_extension_extname, BTEqualStrategyNumber,
				F_NAMEEQ, CStringGetDatum("lockredis"));
	scan = systable_beginscan(rel, ExtensionNameIndexId, true, NULL, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
		schema = ((Form_pg_extension) GETSTRUCT(tuple))->extnamespace;
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return schema;
}

/*
 * find_tables --- look them up by name in the schema of the extension
 */
static bool
find_tables(TableTrouble *trouble)
{
	Oid			schema = extension_schema();

	if (!OidIsValid(schema))
	{
		table_trouble_set(trouble, TABLE_NO_EXTENSION,
						  "Extension \"lockredis\" does not exist in database \"%s\".",
						  get_database_name(MyDatabaseId));
		return false;
	}
	rows_oid = get_relname_relid(ROWS_TABLE, schema);
	counters_oid = get_relname_relid(COUNTERS_TABLE, schema);
	shares.oid = get_relname_relid(shares.name, schema);
	values.oid = get_relname_relid(values.name, schema);
	if (OidIsValid(rows_oid) && OidIsValid(counters_oid))
		return true;
	table_trouble_set(trouble, TABLE_WRONG_FORM,
					  "The extension in database \"%s\" has no table \"%s\".",
					  get_database_name(MyDatabaseId),
					  OidIsValid(rows_oid) ? COUNTERS_TABLE : ROWS_TABLE);
	return false;
}

/*
 * lock_indexes --- all of the table; false: somebody has locked one
 */
static bool
lock_indexes(Relation rel)
{
	List	   *indexes = RelationGetIndexList(rel);
	ListCell   *cell;
	bool		locked = true;

	foreach(cell, indexes)
		locked = locked && ConditionalLockRelationOid(lfirst_oid(cell), RowExclusiveLock);
	list_free(indexes);
	return locked;
}

/*
 * open_relation --- NULL: it is gone, or somebody has locked it
 *
 * Nothing is waited for: who asks tries again.
 */
static Relation
open_relation(Oid relid, TableTrouble *trouble)
{
	bool		locked = ConditionalLockRelationOid(relid, RowExclusiveLock);
	Relation	rel = locked ? try_table_open(relid, NoLock) : NULL;

	if (rel != NULL && lock_indexes(rel))
		return rel;
	if (rel != NULL)
		table_close(rel, NoLock);
	if (rel != NULL || !locked)
	{
		table_trouble_set(trouble, TABLE_BLOCKED,
						  "Another session has locked the table of locks.");
		return NULL;
	}

	/* Dropped, and perhaps made again: look for it anew. */
	tables_known = false;
	table_trouble_set(trouble, TABLE_WRONG_FORM,
					  "The tables of the extension have been dropped.");
	return NULL;
}

/*
 * has_form --- are its first columns those that the script made?
 */
static bool
has_form(Relation rel, const Oid *types, int ncolumns)
{
	TupleDesc	desc = RelationGetDescr(rel);

	if (rel->rd_rel->relkind != RELKIND_RELATION ||
		desc->natts < ncolumns || desc->natts > KEYED_MAX_COLUMNS)
		return false;
	for (int i = 0; i < ncolumns; i++)
		if (TupleDescAttr(desc, i)->atttypid != types[i])
			return false;
	return true;
}

/*
 * open_checked --- open one of the tables if it is as it should be
 *
 * All is done as the owner of the rows, who must own the others too: else code of one of
 * them would run as the other.
 */
static bool
open_checked(KeyedTable *table, Oid relid, const char *name, const Oid *types,
			 int ncolumns, int nkeys, TableTrouble *trouble)
{
	Relation	rel = open_relation(relid, trouble);

	if (rel == NULL)
		return false;

	/* The next worker looks for it by its name. */
	if (strcmp(RelationGetRelationName(rel), name) != 0)
	{
		table_close(rel, NoLock);
		tables_known = false;
		table_trouble_set(trouble, TABLE_WRONG_FORM,
						  "Table \"%s\" of the extension has another name now.",
						  name);
		return false;
	}
	if (!has_form(rel, types, ncolumns) || !keyed_begin(table, rel, nkeys))
	{
		table_close(rel, NoLock);
		table_trouble_set(trouble, TABLE_WRONG_FORM,
						  "Table \"%s\" is not as the script of the extension makes it.",
						  name);
		return false;
	}
	if (rel->rd_rel->relowner == opened.rows.rel->rd_rel->relowner)
		return true;
	keyed_end(table);
	table_close(rel, NoLock);
	table_trouble_set(trouble, TABLE_WRONG_FORM,
					  "Table \"%s\" has another owner than table \"%s\".", name, ROWS_TABLE);
	return false;
}

/*
 * tables_open --- see table_int.h
 *
 * Whatever waits for the tables to be usable, as the watchdog does, sees the new
 * epoch.
 */
LockTables *
tables_open(TableTrouble *trouble)
{
	memset(trouble, 0, sizeof(TableTrouble));
	if (!has_good_encoding(trouble) ||
		(!tables_known && !find_tables(trouble)) ||
		!open_checked(&opened.rows, rows_oid, ROWS_TABLE, row_types,
					  ROW_COLUMNS, 1, trouble) ||
		!open_checked(&opened.counters, counters_oid, COUNTERS_TABLE,
					  counter_types, COUNTER_COLUMNS, 1, trouble))
		return NULL;

	if (!tables_known)
		requests_new_epoch();
	tables_known = true;
	opened.must_flush = false;
	opened.has_shares = false;
	opened.has_values = false;
	GetUserIdAndSecContext(&save_user, &save_context);
	SetUserIdAndSecContext(opened.rows.rel->rd_rel->relowner,
						   save_context | SECURITY_RESTRICTED_OPERATION);
	return &opened;
}

static void
close_table(KeyedTable *table)
{
	keyed_end(table);
	table_close(table->rel, NoLock);
}

/*
 * open_further --- one of the tables that few operations need
 */
static bool
open_further(LockTables *tables, FurtherTable *further, KeyedTable *table,
			 TableTrouble *trouble)
{
	if (!OidIsValid(further->oid))
		further->oid = get_relname_relid(further->name,
										 RelationGetNamespace(tables->rows.rel));
	if (!OidIsValid(further->oid))
	{
		table_trouble_set(trouble, TABLE_OLD_EXTENSION,
						  "The extension in database \"%s\" has no table \"%s\".",
						  get_database_name(MyDatabaseId), further->name);
		return false;
	}
	return open_checked(table, further->oid, further->name, further->types,
						further->ncolumns, further->nkeys, trouble);
}

bool
tables_open_shares(LockTables *tables, TableTrouble *trouble)
{
	if (!tables->has_shares)
		tables->has_shares = open_further(tables, &shares, &tables->shares, trouble);
	return tables->has_shares;
}

bool
tables_open_values(LockTables *tables, TableTrouble *trouble)
{
	if (!tables->has_values)
		tables->has_values = open_further(tables, &values, &tables->values, trouble);
	return tables->has_values;
}

void
tables_close(LockTables *tables)
{
	if (tables->has_values)
		close_table(&tables->values);
	if (tables->has_shares)
		close_table(&tables->shares);
	SetUserIdAndSecContext(save_user, save_context);
	close_table(&tables->counters);
	close_table(&tables->rows);
}
