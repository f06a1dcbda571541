/*-------------------------------------------------------------------------
 *
 * strangers.h
 *	  Somebody else who has a transaction at the tables of table mode.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/backend/strangers.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_STRANGERS_H
#define SIM_STRANGERS_H

#include "versions.h"

extern void strangers_init(void);

/* One inserts a row of that key just now. */
extern void stranger_inserts(LockTable table, const Cell *key);

#endif							/* SIM_STRANGERS_H */
