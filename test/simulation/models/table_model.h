/*-------------------------------------------------------------------------
 *
 * table_model.h
 *	  A model of the table's rows, for its worker and the checks.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/models/table_model.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_TABLE_MODEL_H
#define SIM_TABLE_MODEL_H

#include "../backend/backend.h"

/* What is durable. */
extern void table_model_attach(void);

/* A server begins, with shared memory of its own. */
extern void table_model_new_server(void);

/* Until when that owner has the key by the rows; 0 = not at all. */
extern int64 table_owned_until(const char *key, int len, uint64 owner);

/* A row that one of this server's owners left, by the key's name; or NULL. */
extern const char *table_find_row(void);

#endif							/* SIM_TABLE_MODEL_H */
