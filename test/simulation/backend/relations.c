/*-------------------------------------------------------------------------
 *
 * relations.c
 *	  Relations: what the catalogs say of the fence table and the tables of locks, how they
 *	  are opened, locked, and read from the first row to the last.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/backend/relations.c
 *
 *-------------------------------------------------------------------------
 */
#include "heap.h"
#include "relations.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/pg_class.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_type.h"
#include "commands/dbcommands.h"
#include "mb/pg_wchar.h"
#include "sql.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#define FIRST_TABLE		17100
#define FIRST_INDEX		17200

bool		bsysscan = false;
TransactionId CheckXidAlive = InvalidTransactionId;

static RelationData tables[TABLE_COUNT];

/* Of the fence table and of the catalogs nothing is asked but their number. */
static RelationData others[4];
static int	nothers = 0;

/* ----------
 * The catalogs
 * ----------
 */

Oid
relation_oid(LockTable table)
{
	return FIRST_TABLE + table;
}

Oid
relation_index_oid(LockTable table)
{
	return FIRST_INDEX + table;
}

LockTable
relation_table(Relation rel)
{
	return rel - tables;
}

Oid
get_func_namespace(Oid funcid)
{
	return SQL_SCHEMA_OID;
}

char *
get_namespace_name(Oid nspid)
{
	return pstrdup("public");
}

char *
get_database_name(Oid dbid)
{
	return pstrdup("postgres");
}

const char *
GetDatabaseEncodingName(void)
{
	return "UTF8";
}

Oid
get_relname_relid(const char *relname, Oid relnamespace)
{
	for (int i = 0; i < TABLE_COUNT; i++)
		if (strcmp(relname, table_forms[i].name) == 0)
			return relation_oid(i);
	return ROWS_TABLE;
}

char *
quote_qualified_identifier(const char *qualifier, const char *ident)
{
	return psprintf("%s.%s", qualifier, ident);
}

static HeapTuple
make_tuple(Size size)
{
	HeapTuple	tuple = palloc0(sizeof(HeapTupleData));

	tuple->t_data = palloc0(MAXALIGN(SizeofHeapTupleHeader) + size);
	tuple->t_data->t_hoff = MAXALIGN(SizeofHeapTupleHeader);
	return tuple;
}

/* Only the owner of a table is asked for. */
Oid
GetSysCacheOid(SIM_CACHE_ID cacheId, AttrNumber oidcol, Datum key1, Datum key2, Datum key3,
			   Datum key4)
{
	return SQL_OWNER;
}

/* The row of our extension. */
SysScanDesc
systable_beginscan(Relation heapRelation, Oid indexId, bool indexOK, Snapshot snapshot,
				   int nkeys, ScanKey key)
{
	SysScanDesc scan = palloc0(sizeof(*scan));

	scan->heap_rel = heapRelation;
	return scan;
}

HeapTuple
systable_getnext(SysScanDesc scan)
{
	HeapTuple	tuple = make_tuple(sizeof(FormData_pg_extension));

	sim_yield("catalog");
	((Form_pg_extension) GETSTRUCT(tuple))->extnamespace = SQL_SCHEMA_OID;
	return tuple;
}

void
systable_endscan(SysScanDesc scan)
{
}

void
ScanKeyInit(ScanKey entry, AttrNumber attributeNumber, StrategyNumber strategy,
			RegProcedure procedure, Datum argument)
{
}

/* ----------
 * Relations
 * ----------
 */

static const TableAmRoutine access_method;

static TupleDesc
describe(const TableForm *form)
{
	TupleDesc	desc = palloc0(sizeof(TupleDescData) +
							   form->ncolumns * 2 * sizeof(FormData_pg_attribute));

	desc->natts = form->ncolumns;
	for (int i = 0; i < form->ncolumns; i++)
		TupleDescAttr(desc, i)->atttypid = form->type[i];
	return desc;
}

/* In TopMemoryContext. */
void
relations_init(void)
{
	for (int i = 0; i < TABLE_COUNT; i++)
	{
		Relation	rel = &tables[i];

		rel->rd_id = relation_oid(i);
		rel->rd_rel = palloc0(sizeof(FormData_pg_class));
		rel->rd_rel->relowner = SQL_OWNER;
		rel->rd_rel->relnamespace = SQL_SCHEMA_OID;
		rel->rd_rel->relkind = RELKIND_RELATION;
		namestrcpy(&rel->rd_rel->relname, table_forms[i].name);
		rel->rd_att = describe(&table_forms[i]);
		rel->rd_tableam = &access_method;
	}
}

static Relation
find_relation(Oid oid)
{
	for (int i = 0; i < TABLE_COUNT; i++)
		if (tables[i].rd_id == oid)
			return &tables[i];
	for (int i = 0; i < nothers; i++)
		if (others[i].rd_id == oid)
			return &others[i];
	Assert(nothers < (int) lengthof(others));
	others[nothers].rd_id = oid;
	return &others[nothers++];
}

Relation
table_open(Oid relationId, LOCKMODE lockmode)
{
	LOCKTAG		tag;

	SET_LOCKTAG_RELATION(tag, MyDatabaseId, relationId);
	heavy_lock_acquire(&tag, lockmode);
	return find_relation(relationId);
}

Relation
try_table_open(Oid relationId, LOCKMODE lockmode)
{
	return find_relation(relationId);
}

void
table_close(Relation relation, LOCKMODE lockmode)
{
}

bool
ConditionalLockRelationOid(Oid relid, LOCKMODE lockmode)
{
	LOCKTAG		tag;

	sim_yield("heavyweight lock");
	SET_LOCKTAG_RELATION(tag, MyDatabaseId, relid);
	return heavy_lock_try(&tag, lockmode, sim_slot(), TopSubTransactionId);
}

List *
RelationGetIndexList(Relation relation)
{
	return list_make1_oid(relation_index_oid(relation_table(relation)));
}

/* ----------
 * Slots
 * ----------
 */

#define PLACE			MAXALIGN(VARHDRSZ + CELL_TEXT)

typedef struct Slot
{
	TupleTableSlot slot;
	const TableForm *form;
	Datum		value[CELLS_MAX];
	bool		isnull[CELLS_MAX];
	char	   *places;			/* what the values point to */
} Slot;

TupleTableSlot *
relation_slot(Relation rel)
{
	Slot	   *s = palloc0(sizeof(Slot));

	s->form = &table_forms[relation_table(rel)];
	s->slot.tts_tupleDescriptor = RelationGetDescr(rel);
	s->slot.tts_values = s->value;
	s->slot.tts_isnull = s->isnull;
	return &s->slot;
}

void
slot_clear(TupleTableSlot *slot)
{
	Slot	   *s = (Slot *) slot;

	if (s->places != NULL)
	{
		memset(s->places, 0x7f, PLACE * CELLS_MAX);
		pfree(s->places);
	}
	s->places = NULL;
	memset(s->value, 0x7f, sizeof(s->value));
	ItemPointerSetInvalid(&slot->tts_tid);
}

static Datum
value_at(Oid type, const Cell *cell, char *place)
{
	switch (type)
	{
		case TEXTOID:
			SET_VARSIZE(place, VARHDRSZ + cell->len);
			memcpy(VARDATA(place), cell->text, cell->len);
			return PointerGetDatum(place);
		case INTERVALOID:
			memcpy(place, &cell->interval, sizeof(cell->interval));
			return PointerGetDatum(place);
		case UUIDOID:
			memcpy(place, &cell->uuid, sizeof(cell->uuid));
			return PointerGetDatum(place);
		case INT4OID:
			return Int32GetDatum((int32) cell->number);
		default:
			return Int64GetDatum(cell->number);
	}
}

void
slot_fill(TupleTableSlot *slot, const Version *v)
{
	Slot	   *s = (Slot *) slot;

	slot_clear(slot);
	s->places = palloc0(PLACE * CELLS_MAX);
	for (int i = 0; i < s->form->ncolumns; i++)
	{
		s->isnull[i] = v->cell[i].isnull;
		s->value[i] = s->isnull[i] ? (Datum) 0 :
			value_at(s->form->type[i], &v->cell[i], s->places + i * PLACE);
	}
	slot->tts_nvalid = s->form->ncolumns;
	ItemPointerSet(&slot->tts_tid, v->serial, 1);
}

uint32
slot_serial(const TupleTableSlot *slot)
{
	return ItemPointerGetBlockNumber(&slot->tts_tid);
}

/* ----------
 * Reading all of one
 * ----------
 */

typedef struct Scan
{
	TableScanDescData base;
	uint32		snapshot;
	uint32		last_serial;	/* what the command itself writes it does not see */
	Version    *at;
} Scan;

static TableScanDesc
scan_begin(Relation rel, Snapshot snapshot, int nkeys, struct ScanKeyData *key,
		   ParallelTableScanDesc pscan, uint32 flags)
{
	Scan	   *scan = palloc0(sizeof(Scan));

	scan->base.rs_rd = rel;
	scan->snapshot = xact_snapshot();
	scan->last_serial = version_last_serial();
	return &scan->base;
}

static bool
scan_getnextslot(TableScanDesc base, ScanDirection direction, TupleTableSlot *slot)
{
	Scan	   *scan = (Scan *) base;
	LockTable	table = relation_table(base->rs_rd);

	sim_yield("row");
	while ((scan->at = version_next(table, scan->at)) != NULL)
		if (scan->at->serial <= scan->last_serial && version_is_in(scan->at, scan->snapshot))
		{
			slot_fill(slot, scan->at);
			return true;
		}
	return false;
}

static void
scan_end(TableScanDesc scan)
{
}

static const TableAmRoutine access_method = {
	.scan_begin = scan_begin,
	.scan_getnextslot = scan_getnextslot,
	.scan_end = scan_end
};
