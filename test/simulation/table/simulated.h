/*-------------------------------------------------------------------------
 *
 * simulated.h
 *	  A simulated server that does what it is told, instead of what is drawn.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/table/simulated.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_SIMULATED_H
#define SIM_SIMULATED_H

#include "../backend/versions.h"

/* What its sessions do. */
extern void told_main(int slot);

/* Called where the worker's accesses may fail, and where somebody may come between. */
extern void told_before_access(void);
extern void told_before_insert(LockTable table);

#endif							/* SIM_SIMULATED_H */
