/*-------------------------------------------------------------------------
 *
 * table_worker.h
 *	  The background worker that keeps the table of table mode.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/table/table_worker.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_TABLE_WORKER_H
#define LR_TABLE_WORKER_H

#include "lockredis.h"

extern void table_worker_register(void);
LR_NORETURN_PREFIX extern PGDLLEXPORT void lockredis_table_worker_main(Datum arg) LR_NORETURN_SUFFIX;

#endif							/* LR_TABLE_WORKER_H */
