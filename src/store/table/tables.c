/*-------------------------------------------------------------------------
 *
 * tables.c
 *	  The tables of table mode: finding, checking and opening them; see
 *	  table_int.h.
 *
 * The worker acts as the owner of the tables, who may have created an index on an expression
 * that calls a function.
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

#include "store/table/table_int.h"

const TableFields table_fields[IN_COUNT] = {
	[IN_ROWS] = {
		"redis_lock_rows", 1, 9, {
			FIELD_KEY, FIELD_OWNER, FIELD_HOLDS, FIELD_FENCE, FIELD_LEASE,
			FIELD_SINCE, FIELD_UNTIL, FIELD_INSTANCE, FIELD_COMMENT
		}
	},
	[IN_COUNTERS] = {
		"redis_lock_counters", 1, 2, {FIELD_KEY, FIELD_NUMBER}
	},
	[IN_SHARES] = {
		"redis_lock_shares", 3, 7, {
			FIELD_KEY, FIELD_KIND, FIELD_OWNER, FIELD_LEASE,
			FIELD_SINCE, FIELD_UNTIL, FIELD_INSTANCE
		}
	},
	[IN_VALUES] = {
		"redis_lock_values", 2, 4, {FIELD_KEY, FIELD_KIND, FIELD_NUMBER, FIELD_UNTIL}
	}
};

static const Oid field_types[] = {
	[FIELD_KEY] = TEXTOID,[FIELD_KIND] = TEXTOID,[FIELD_OWNER] = TEXTOID,
	[FIELD_HOLDS] = INT4OID,[FIELD_NUMBER] = INT8OID,[FIELD_LEASE] = INTERVALOID,
	[FIELD_FENCE] = INT8OID,[FIELD_UNTIL] = TIMESTAMPTZOID,[FIELD_INSTANCE] = UUIDOID,
	[FIELD_SINCE] = TIMESTAMPTZOID,[FIELD_COMMENT] = TEXTOID
};

static const char form_hint[] = "Set \"lockredis.database\" to a database with encoding UTF8 and the extension as its script makes it.";

/* Between tables_open and tables_close. */
static Oid	save_user;
static int	save_context;

/*
 * has_good_encoding --- are keys in this database encoded as they are in Redis?
 */
static bool
has_good_encoding(TableTrouble *trouble)
{
	if (GetDatabaseEncoding() == PG_UTF8 || GetDatabaseEncoding() == PG_SQL_ASCII)
		return true;
	table_trouble_set(trouble, ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, form_hint,
					  "Database \"%s\" has encoding %s; keys are UTF8.",
					  get_database_name(MyDatabaseId), GetDatabaseEncodingName());
	return false;
}

/*
 * find_schema --- find the schema of our extension in this database
 */
static bool
find_schema(LockTables *tables)
{
	Relation	rel = table_open(ExtensionRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_extension_extname, BTEqualStrategyNumber,
				F_NAMEEQ, CStringGetDatum("lockredis"));
	scan = systable_beginscan(rel, ExtensionNameIndexId, true, NULL, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
		tables->schema = ((Form_pg_extension) GETSTRUCT(tuple))->extnamespace;
	else
		table_trouble_set(&tables->trouble, ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
						  "Run CREATE EXTENSION lockredis in the database that \"lockredis.database\" names.",
						  "Extension \"lockredis\" does not exist in database \"%s\".",
						  get_database_name(MyDatabaseId));
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return HeapTupleIsValid(tuple);
}

/*
 * lock_indexes --- lock all indexes of the table; false: another session has locked one
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
 * open_relation --- open and lock a table; NULL: there is none, or another session has locked it
 *
 * This does not wait: the session tries its operation again.
 */
static Relation
open_relation(LockTables *tables, TableId in)
{
	Oid			relid = get_relname_relid(table_fields[in].name, tables->schema);
	bool		locked = OidIsValid(relid) && ConditionalLockRelationOid(relid, RowExclusiveLock);
	Relation	rel = locked ? try_table_open(relid, NoLock) : NULL;

	if (rel != NULL && lock_indexes(rel))
		return rel;
	if (rel != NULL)
		table_close(rel, NoLock);
	if (rel != NULL || (OidIsValid(relid) && !locked))
		table_trouble_set(&tables->trouble, ERRCODE_LOCK_NOT_AVAILABLE, BLOCKED_HINT,
						  "Another session has locked the table of locks.");
	else
		table_trouble_set(&tables->trouble, ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
						  in < IN_SHARES ? form_hint :
						  "Run ALTER EXTENSION lockredis UPDATE in the database that \"lockredis.database\" names.",
						  "The extension in database \"%s\" has no table \"%s\".",
						  get_database_name(MyDatabaseId), table_fields[in].name);
	return NULL;
}

/*
 * has_form --- does the table have the columns that the script created?
 *
 * It may have further ones behind these.
 */
static bool
has_form(Relation rel, const TableFields *fields)
{
	TupleDesc	desc = RelationGetDescr(rel);

	if (rel->rd_rel->relkind != RELKIND_RELATION ||
		desc->natts < fields->ncolumns || desc->natts > KEYED_MAX_COLUMNS)
		return false;
	for (int i = 0; i < fields->ncolumns; i++)
		if (TupleDescAttr(desc, i)->atttypid != field_types[fields->column[i]])
			return false;
	return true;
}

/*
 * open_table --- open one of the tables, if its owner and columns are right
 *
 * The worker acts as the owner of redis_lock_rows, who must own the other tables too.
 * Otherwise the code in an index of one owner would run as the other.
 */
static bool
open_table(LockTables *tables, TableId in)
{
	const TableFields *fields = &table_fields[in];
	Relation	rel = open_relation(tables, in);
	const char *fault;

	if (rel == NULL)
		return false;
	if (in != IN_ROWS &&
		rel->rd_rel->relowner != tables->table[IN_ROWS].rel->rd_rel->relowner)
		fault = "has another owner than table \"redis_lock_rows\"";
	else if (!has_form(rel, fields) || !keyed_begin(&tables->table[in], rel, fields->nkeys))
		fault = "is not as the script of the extension makes it";
	else
		return true;
	table_close(rel, NoLock);
	table_trouble_set(&tables->trouble, ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, form_hint,
					  "Table \"%s\" %s.", fields->name, fault);
	return false;
}

bool
tables_have(LockTables *tables, TableId in)
{
	if (!tables->is_open[in])
		tables->is_open[in] = open_table(tables, in);
	return tables->is_open[in];
}

void
tables_fail(LockTables *tables)
{
	ereport(ERROR,
			(errcode(tables->trouble.sqlstate),
			 errmsg_internal("%s", tables->trouble.detail)));
}

/*
 * tables_open --- see table_int.h
 *
 * They are looked up by name in each transaction, so nothing has to be forgotten when they are
 * renamed, moved, or created again.  In the last case a new epoch tells the watchdog, whose locks
 * are lost.
 */
void
tables_open(LockTables *tables)
{
	static Oid	rows = InvalidOid;	/* when they were last opened */
	Relation	rel;

	memset(tables->is_open, 0, sizeof(tables->is_open));
	tables->must_flush = false;
	if (!has_good_encoding(&tables->trouble) || !find_schema(tables) ||
		!tables_have(tables, IN_ROWS))
		tables_fail(tables);
	rel = tables->table[IN_ROWS].rel;
	if (rows != RelationGetRelid(rel))
		requests_new_epoch();
	rows = RelationGetRelid(rel);
	GetUserIdAndSecContext(&save_user, &save_context);
	SetUserIdAndSecContext(rel->rd_rel->relowner,
						   save_context | SECURITY_RESTRICTED_OPERATION);
}

void
tables_close(LockTables *tables)
{
	SetUserIdAndSecContext(save_user, save_context);
	for (int i = 0; i < IN_COUNT; i++)
	{
		if (!tables->is_open[i])
			continue;
		keyed_end(&tables->table[i]);
		table_close(tables->table[i].rel, NoLock);
	}
}
