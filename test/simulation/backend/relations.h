/*-------------------------------------------------------------------------
 *
 * relations.h
 *	  Relations, as the catalogs have them, and slots for rows of the tables of locks.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/backend/relations.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_RELATIONS_H
#define SIM_RELATIONS_H

#include "versions.h"

#include "executor/tuptable.h"
#include "utils/relcache.h"

extern void relations_init(void);

extern Oid	relation_oid(LockTable table);
extern Oid	relation_index_oid(LockTable table);
extern LockTable relation_table(Relation rel);

/*
 * A slot for its rows.  What it has been filled with is a copy, which is spoilt when it
 * is filled anew, as a page may be used for something else then.
 */
extern TupleTableSlot *relation_slot(Relation rel);
extern void slot_fill(TupleTableSlot *slot, const Version *v);
extern void slot_clear(TupleTableSlot *slot);
extern uint32 slot_serial(const TupleTableSlot *slot);

#endif							/* SIM_RELATIONS_H */
