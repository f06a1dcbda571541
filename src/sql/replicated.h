/*-------------------------------------------------------------------------
 *
 * replicated.h
 *	  What logical replication brings into the tables of the extension.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/sql/replicated.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_REPLICATED_H
#define LR_REPLICATED_H

#include "lockredis.h"

/* What is written now is this server's own, whatever the session's role. */
extern bool replicated_is_own;

/* Is it our trigger function, whoever made it by ALTER EXTENSION UPDATE? */
extern bool replicated_is_trigger(Oid function);

#endif							/* LR_REPLICATED_H */
