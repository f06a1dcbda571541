/*-------------------------------------------------------------------------
 *
 * keyed_table.h
 *	  A table with a unique key of text columns, read and written without waiting
 *	  for anybody's transaction.
 *
 * The table worker serves all sessions, so it must not stand in a queue
 * because somebody inserted the row of one key and went to lunch.  SQL has no
 * statement that inserts, or else says at once that another transaction is
 * about to; the table access functions have all that is needed.
 *
 * Used inside a transaction, with an active snapshot.  Rows are seen as they
 * are at this moment, not as of a snapshot.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/table/keyed_table.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_KEYED_TABLE_H
#define LR_KEYED_TABLE_H

#include "lockredis.h"

#include "access/genam.h"
#include "access/relscan.h"
#include "executor/tuptable.h"
#include "nodes/execnodes.h"
#include "utils/snapshot.h"

#define KEYED_MAX_COLUMNS	16

/* Columns of a key: the first ones of the table. */
#define KEYED_MAX_KEYS		3

typedef struct KeyedTable
{
	Relation	rel;
	ResultRelInfo *indexes;
	EState	   *estate;
	int			nkeys;
	IndexScanDesc scan;			/* of the key's index, with: */
	IndexScanDesc group_scan;	/* by the first of several columns */
	SnapshotData dirty;
	Oid			collation[KEYED_MAX_KEYS];
	TupleTableSlot *row;		/* what was found */
	TupleTableSlot *changed;	/* what is to be written */
} KeyedTable;

typedef enum KeyedFound
{
	KEYED_NOTHING,
	KEYED_ROW,
	KEYED_BLOCKED				/* somebody's open transaction inserts it */
} KeyedFound;

/*
 * The relation is open and locked; its first columns are the key.  False: it has
 * no unique index on just these.
 */
extern bool keyed_begin(KeyedTable *table, Relation rel, int nkeys);
extern void keyed_end(KeyedTable *table);

extern KeyedFound keyed_find(KeyedTable *table, Datum key);

/* The same by all columns of a key that has several. */
extern KeyedFound keyed_find_exact(KeyedTable *table, const Datum *keys);

/*
 * One after the other all rows with that first column; those that somebody is just
 * inserting are passed over.  What is found may be deleted.
 */
extern void keyed_begin_group(KeyedTable *table, Datum key);
extern bool keyed_next_of_group(KeyedTable *table);

/* A column of the row that was found; from 1. */
extern Datum keyed_column(KeyedTable *table, int column, bool *isnull);

/* Has a row that text in that column, which is not null? */
static inline bool
keyed_is_text(TupleTableSlot *row, int column, const char *expected)
{
	bool		isnull;
	text	   *found = DatumGetTextPP(slot_getattr(row, column, &isnull));
	Size		len = strlen(expected);

	return VARSIZE_ANY_EXHDR(found) == len && memcmp(VARDATA_ANY(found), expected, len) == 0;
}

/* Raises if somebody inserts the same key in this very moment. */
extern void keyed_insert(KeyedTable *table, const Datum *values,
						 const bool *nulls);

/*
 * Change or delete the row that was found.  False: somebody's transaction is
 * at it, or has just changed it.
 */
extern bool keyed_update(KeyedTable *table, int ncolumns, const int *columns,
						 const Datum *values, const bool *nulls);
extern bool keyed_delete(KeyedTable *table);

#endif							/* LR_KEYED_TABLE_H */
