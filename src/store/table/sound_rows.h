/*-------------------------------------------------------------------------
 *
 * sound_rows.h
 *	  Rows are found, and looked at whether they are as the table worker writes them.
 *
 * The tables are ours, but they have an owner, who can write anything into them.  A row
 * that is not as ours are is treated as none: it is deleted where it is met, and by the
 * sweep.  So what reads a row that was found here need not doubt it.
 *
 * For the table worker only.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/table/sound_rows.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_SOUND_ROWS_H
#define LR_SOUND_ROWS_H

#include "lockredis.h"

#include "store/table/tables.h"

/* Appended to the owner of a key that stays locked after its release. */
#define KEPT_SUFFIX			"/kept"

/* The owner of the row that readers of a key share. */
#define SHARED_OWNER		"readers"

/* Before the SHA-256 of a token, or of the id of a permit. */
#define TOKEN_OWNER			"token:"
#define PERMIT_OWNER		"permit:"

/* As keyed_find() and keyed_find_exact() of each table. */
extern KeyedFound sound_row(LockTables *tables, Datum key);
extern KeyedFound sound_share(LockTables *tables, const Datum *keys);
extern KeyedFound sound_value(LockTables *tables, const Datum *keys);

/* As keyed_next_of_group() of redis_lock_shares. */
extern bool sound_next_share(LockTables *tables);

/* What rows of a table are like, and which columns say until when one counts; 0: none. */
typedef struct SoundForm
{
	bool		(*is_sound) (TupleTableSlot *row);
	int			lease_column;
	int			expires_column;
	int			instance_column;
} SoundForm;

extern const SoundForm sound_rows;
extern const SoundForm sound_shares;
extern const SoundForm sound_values;

/*
 * Delete the rows of the table that are not sound, and those that do not count any more.
 * One that would count for longer than its lease is made to end with that.
 */
extern void sound_sweep(KeyedTable *table, const SoundForm *form,
						bool (*has_ended) (TupleTableSlot *row));

#endif							/* LR_SOUND_ROWS_H */
