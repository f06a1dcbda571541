/*-------------------------------------------------------------------------
 *
 * main.c
 *	  Where a simulated process begins.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/workload/main.c
 *
 *-------------------------------------------------------------------------
 */
#include "workload.h"

#include "../../../src/watchdog/watchdog.h"

#include "../kernel/server.h"
#include "../table/simulated.h"

extern void sim_backend_main(int slot);

void
sim_backend_main(int slot)
{
	backend_init();
	if (server_is_watchdog(slot))
		lockredis_watchdog_main(0);
	if (server_is_table_worker(slot))
		lockredis_table_worker_main(0);
	if (sim_config.told)
		told_main(slot);
	session_main(slot);
}
