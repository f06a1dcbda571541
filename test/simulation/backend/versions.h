/*-------------------------------------------------------------------------
 *
 * versions.h
 *	  The tables of table mode: rows of several columns, in versions.
 *
 * They are durable.  Nothing here waits: who is in the way is told.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/backend/versions.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_VERSIONS_H
#define SIM_VERSIONS_H

#include "backend.h"

#include "datatype/timestamp.h"
#include "utils/uuid.h"

typedef enum LockTable
{
	TABLE_ROWS, TABLE_COUNTERS, TABLE_SHARES, TABLE_VALUES,
	TABLE_COUNT
} LockTable;

#define CELL_TEXT		80
#define CELLS_MAX		9

/* As the script of the extension makes it. */
typedef struct TableForm
{
	const char *name;
	int			nkeys;			/* columns of its key, the first ones */
	int			ncolumns;
	Oid			type[CELLS_MAX];
} TableForm;

extern const TableForm table_forms[TABLE_COUNT];

typedef struct Cell
{
	bool		isnull;
	uint8		len;			/* of the text */
	union
	{
		char		text[CELL_TEXT];
		int64		number;		/* a time, too */
		Interval	interval;
		pg_uuid_t	uuid;
	};
} Cell;

typedef struct Version
{
	uint32		serial;			/* of all that there ever were; 0 = there is none here */
	LockTable	table;
	TransactionId xmin;
	TransactionId xmax;			/* who updated or deleted it */
	TransactionId locker;		/* FOR UPDATE */
	Cell		cell[CELLS_MAX];
} Version;

extern void versions_init(void);

/* All of a table one after the other, beginning with NULL, dead ones too. */
extern Version *version_next(LockTable table, Version *after);
extern Version *version_by_serial(uint32 serial);
extern uint32 version_last_serial(void);

extern bool cell_is_same(const Cell *a, const Cell *b);
extern bool version_has_key(const Version *v, const Cell *key, int nkeys);

/* What a dirty snapshot of this process sees. */
typedef enum VersionSeen
{
	VERSION_UNSEEN,
	VERSION_SEEN,
	VERSION_COMING				/* another transaction inserts it */
} VersionSeen;

extern VersionSeen version_dirty(const Version *v);

/* And one that was taken then. */
extern bool version_is_in(const Version *v, uint32 snapshot);

/* What all others see of it. */
extern bool version_is_committed(const Version *v);

/* Is it there for anybody, or will it be, whoever commits or not? */
extern bool version_may_live(const Version *v);

/* Could this process lock, change or delete it at once? */
extern bool version_is_free(const Version *v);

extern Version *version_add(LockTable table, const Cell *cell, TransactionId xmin);

#endif							/* SIM_VERSIONS_H */
