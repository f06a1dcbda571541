/*-------------------------------------------------------------------------
 *
 * script.h
 *	  Lua scripts of a Redis: redis.call() and what else they find there.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/redis/script.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_SCRIPT_H
#define SIM_SCRIPT_H

#include "command.h"

/* Of each script that was ever run, by its text. */
extern void script_digest(Word text, char *sha1);

/*
 * Run it: its answer is put.  What it asks with redis.call() is done to r->db.
 */
extern void script_run(Redis *r, const char *sha1, Word text,
					   const Word *keys, int nkeys, const Word *args, int nargs);

/* A script that never came to its end (the schedule failed in it) is given up. */
extern void script_reset(void);

#endif							/* SIM_SCRIPT_H */
