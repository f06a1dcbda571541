/*-------------------------------------------------------------------------
 *
 * ask.h
 *	  Requests to the table worker, written as text, and its answers.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/table/ask.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_ASK_H
#define SIM_ASK_H

#include "lockredis.h"

/*
 * Submit up to four operations as one request, and wait for the answers.  Operations are
 * separated by ";", their words by blanks: verb, kind of lock, key, then arguments such as
 * "owner=3".  Leases are in units.  The text is changed.
 */
#define ASK_UNIT_MS		INT64CONST(60000)

extern char *ask(char *text);

/* Let the worker sweep, once its clock has been put forward. */
extern void ask_to_sweep(void);

/*
 * What differs between two servers: the time, the instance, and the digests in rows of permits
 * by id: of the secret ids of ten owners, from this one on, and of the ids 0 to 9.
 */
#define ASK_DIGESTS		10

extern char *ask_who(uint64 first_owner);

#endif							/* SIM_ASK_H */
