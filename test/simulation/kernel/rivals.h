/*-------------------------------------------------------------------------
 *
 * rivals.h
 *	  In fallback mode: do two servers have the same key although Redis is there?
 *
 * While one of them cannot reach Redis, each has a table of its own, which excludes nobody
 * else's sessions.  When Redis has been back for a while all locks are there again, and who
 * had one beside another server has lost it.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/rivals.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_RIVALS_H
#define SIM_RIVALS_H

#include "sim.h"

extern void rivals_reset(void);

/* This server's locks are told anew; does it use Redis for new ones? */
extern void rivals_begin(bool uses_redis);

/*
 * A session of this server has the key until then: as which kind, and a bit for each that
 * nobody else can have beside it.  Fails if another server has it, too.
 */
extern void rivals_note(const char *key, int kind, uint32_t excludes, int64_t until);

#endif							/* SIM_RIVALS_H */
