/*-------------------------------------------------------------------------
 *
 * table_permits.h
 *	  Permits: how many there are, and who has one.
 *
 * For the table worker only.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/table/table_permits.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_TABLE_PERMITS_H
#define LR_TABLE_PERMITS_H

#include "lockredis.h"

#include "store/table/requests.h"
#include "store/table/tables.h"

/* Operations of permits. */
extern void permit_create(LockTables *tables, TableOp *op, TableTrouble *trouble);
extern void permit_renew(LockTables *tables, TableOp *op, TableTrouble *trouble);
extern void permit_release(LockTables *tables, TableOp *op, TableTrouble *trouble);
extern void permit_define(LockTables *tables, TableOp *op, TableTrouble *trouble);
extern void permit_value(LockTables *tables, TableOp *op, TableTrouble *trouble);

/*
 * Of a key that has no row: who has permits of it; take them away if they are still
 * those who were told.  The outcome is set only if somebody has one, or if that is not
 * known.
 */
extern void permits_inspect(LockTables *tables, TableOp *op, TableTrouble *trouble);
extern void permits_force(LockTables *tables, TableOp *op, TableTrouble *trouble);

#endif							/* LR_TABLE_PERMITS_H */
