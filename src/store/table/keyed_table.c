/*-------------------------------------------------------------------------
 *
 * keyed_table.c
 *	  A table with a unique text key, read and written without waiting for
 *	  other transactions; see table_int.h.
 *
 * A key is looked up with a dirty snapshot, which shows rows that open transactions have
 * inserted, and rows are changed without waiting.  Another transaction can still insert the
 * key between our look and our insert.  Then the unique index reports a conflict, without
 * waiting, the insert raises an error, and the caller tries again.
 *
 * Triggers, row-level security and constraints other than those of the indexes do not apply:
 * the tables are those that the extension's own script creates.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/table/keyed_table.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/stratnum.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_am.h"
#include "catalog/pg_index.h"
#include "executor/executor.h"
#include "storage/bufmgr.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "store/table/table_int.h"

/* A page with less room for inserts than this is pruned (bytes). */
#define ROOM_TO_PRUNE		512

/*
 * is_key_index --- is the index unique, complete, and on exactly the first columns?
 */
static bool
is_key_index(Relation index, int nkeys)
{
	Form_pg_index form = index->rd_index;

	if (form->indnkeyatts != nkeys)
		return false;
	for (int i = 0; i < nkeys; i++)
		if (form->indkey.values[i] != i + 1)
			return false;
	return form->indisunique && form->indisvalid && form->indimmediate &&
		RelationGetIndexPredicate(index) == NIL;
}

/*
 * keyed_begin --- see table_int.h
 */
bool
keyed_begin(KeyedTable *table, Relation rel, int nkeys)
{
	memset(table, 0, sizeof(KeyedTable));
	table->rel = rel;
	table->nkeys = nkeys;
	table->estate = CreateExecutorState();
	table->indexes = makeNode(ResultRelInfo);
	InitResultRelInfo(table->indexes, rel, 0, NULL, 0);
	ExecOpenIndices(table->indexes, false);
	table->row = table_slot_create(rel, NULL);
	InitDirtySnapshot(table->dirty);

	for (int i = 0; i < table->indexes->ri_NumIndices && table->index == NULL; i++)
		if (is_key_index(table->indexes->ri_IndexRelationDescs[i], nkeys))
			table->index = table->indexes->ri_IndexRelationDescs[i];
	if (table->index == NULL)
		keyed_end(table);
	return table->index != NULL;
}

void
keyed_end(KeyedTable *table)
{
	ExecDropSingleTupleTableSlot(table->row);
	ExecCloseIndices(table->indexes);
	FreeExecutorState(table->estate);
}

/*
 * begin_scan --- start a scan for the first "nkeys" columns of the key
 */
static IndexScanDesc
begin_scan(KeyedTable *table, const Datum *keys, int nkeys)
{
	IndexScanDesc scan = LrIndexBeginScan(table->rel, table->index, &table->dirty, nkeys);
	ScanKeyData scan_keys[KEYED_MAX_KEYS];

	for (int i = 0; i < nkeys; i++)
		ScanKeyEntryInitialize(&scan_keys[i], 0, i + 1, BTEqualStrategyNumber,
							   InvalidOid, table->index->rd_indcollation[i], F_TEXTEQ, keys[i]);
	index_rescan(scan, scan_keys, nkeys, NULL, 0);
	return scan;
}

void
keyed_blocked(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
			 errmsg("it is changing the row of the key")));
}

bool
keyed_find(KeyedTable *table, const Datum *keys)
{
	IndexScanDesc scan = begin_scan(table, keys, table->nkeys);
	bool		found = index_getnext_slot(scan, ForwardScanDirection, table->row);

	index_endscan(scan);
	if (found && TransactionIdIsValid(table->dirty.xmin))
		keyed_blocked();
	return found;
}

void
keyed_begin_group(KeyedTable *table, const Datum *keys)
{
	table->group = begin_scan(table, keys, table->nkeys - 1);
}

bool
keyed_next_of_group(KeyedTable *table)
{
	while (index_getnext_slot(table->group, ForwardScanDirection, table->row))
		if (!TransactionIdIsValid(table->dirty.xmin))
			return true;
	index_endscan(table->group);
	return false;
}

/*
 * prune_page --- remove dead rows from a page, as any scan may
 *
 * From PostgreSQL 19 on that can leave a page of the visibility map pinned.
 */
static void
prune_page(Relation rel, Buffer buffer)
{
#if PG_VERSION_NUM >= 190000
	Buffer		map = InvalidBuffer;

	heap_page_prune_opt(rel, buffer, &map, false);
	if (BufferIsValid(map))
		ReleaseBuffer(map);
#else
	heap_page_prune_opt(rel, buffer);
#endif
}

/*
 * prune_target --- prune the page that inserts go to, if it is nearly full
 *
 * Rows are inserted and deleted all the time, and no scan returns to a page
 * whose rows are all dead, so it would stay full until the next vacuum.
 * PostgreSQL prunes only a page that is filled beyond its fill factor, where inserts
 * stop.  So set the hint that an update sets when it finds no room on the page.
 */
static void
prune_target(Relation rel)
{
	BlockNumber target = RelationGetTargetBlock(rel);
	Size		reserve = RelationGetTargetPageFreeSpace(rel, HEAP_DEFAULT_FILLFACTOR);
	Buffer		buffer;
	Page		page;

	if (target == InvalidBlockNumber || rel->rd_rel->relam != HEAP_TABLE_AM_OID)
		return;
	buffer = ReadBuffer(rel, target);
	page = BufferGetPage(buffer);
	if (PageGetHeapFreeSpace(page) < reserve + ROOM_TO_PRUNE)
	{
		LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
		PageSetFull(page);
		LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
		prune_page(rel, buffer);
	}
	ReleaseBuffer(buffer);
}

/*
 * insert_index_entries --- insert the index entries of the row just written
 *
 * As with INSERT ... ON CONFLICT, a unique index reports a possible conflict instead of
 * waiting for the other transaction.
 */
static void
insert_index_entries(KeyedTable *table, bool summarizing)
{
	bool		conflict = false;

	LrInsertIndexTuples(table->indexes, table->row, table->estate, &conflict, summarizing);
	ResetPerTupleExprContext(table->estate);
	if (conflict)
		keyed_blocked();
}

/*
 * keyed_insert --- insert a row and its index entries
 *
 * The page is pruned first, once our own pin on it has been released: pruning needs a page
 * without any other pin.
 */
void
keyed_insert(KeyedTable *table, Datum *values, bool *nulls)
{
	HeapTuple	new = heap_form_tuple(RelationGetDescr(table->rel), values, nulls);

	ExecForceStoreHeapTuple(new, table->row, true);
	prune_target(table->rel);
	table_tuple_insert(table->rel, table->row, GetCurrentCommandId(true), 0, NULL);
	insert_index_entries(table, false);
	CommandCounterIncrement();
}

/*
 * keyed_update --- change these columns of the row that was found
 *
 * Index entries are inserted only where PostgreSQL says that they are needed: a renewal
 * should be a HOT update.
 */
bool
keyed_update(KeyedTable *table, Datum *values, bool *nulls, bool *changed)
{
	ItemPointerData at = table->row->tts_tid;
	HeapTuple	new = heap_modify_tuple(ExecFetchSlotHeapTuple(table->row, false, NULL),
										RelationGetDescr(table->rel), values, nulls, changed);
	TM_FailureData failure;
	LockTupleMode mode;
	LrUpdateIndexes update_indexes;

	ExecForceStoreHeapTuple(new, table->row, true);
	if (LrUpdateRow(table->rel, &at, table->row, GetCurrentCommandId(true), GetActiveSnapshot(),
					&failure, &mode, &update_indexes) != TM_Ok)
		return false;
	if (LrIndexesNeedUpdate(update_indexes))
		insert_index_entries(table, LrOnlySummarizing(update_indexes));
	CommandCounterIncrement();
	return true;
}

/*
 * keyed_delete --- delete the row that was found
 *
 * False, without waiting: another transaction is changing it, or has changed it since it was
 * found.
 */
bool
keyed_delete(KeyedTable *table)
{
	TM_FailureData failure;

	if (LrDeleteRow(table->rel, &table->row->tts_tid, GetCurrentCommandId(true), GetActiveSnapshot(),
					&failure) != TM_Ok)
		return false;
	CommandCounterIncrement();
	return true;
}
