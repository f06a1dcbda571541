/*-------------------------------------------------------------------------
 *
 * table_worker.c
 *	  Stands for table_worker.c and table_rows.c: takes requests, carries them out
 *	  on a model of the rows, answers.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/models/table_worker.c
 *
 *-------------------------------------------------------------------------
 */
#include "../workload/workload.h"

#include "storage/ipc.h"

#include "../../../src/table_requests.h"
#include "../../../src/table_worker.h"

void
table_worker_register(void)
{
}

void
table_worker_main(void)
{
	proc_exit(1);
}
