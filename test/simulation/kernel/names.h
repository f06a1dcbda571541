/*-------------------------------------------------------------------------
 *
 * names.h
 *	  Which node each name of lockredis.url leads to.
 *
 * A name is a port of the URL; at first it leads to the node of the same number.  A
 * connection that is open stays with the node that it has.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/names.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_NAMES_H
#define SIM_NAMES_H

#include "sim.h"

/* How names move in a schedule; SimConfig.names. */
#define NAMES_STAY		0
#define NAMES_CAREFUL	1		/* the former node is stopped, the new one started */
#define NAMES_CARELESS	2		/* not so; one server, whose shared memory stays */
#define NAMES_ELSEWHERE	3		/* of one Redis; elsewhere.c */
#define NAMES_SENTINELS	4		/* of Sentinels; sentinel_names.c */

extern void names_reset(void);

/* The node that has the place of that name, wherever the name leads for a while. */
extern int	names_place(int name);

/* Since when it has that place; 0 = from the start. */
extern int64_t names_since(int name);

/*
 * At how many names does that owner have the key until then?  Those count too where a node
 * had it that was replaced lately, or has come lately, or where somebody took it away: so
 * many are "lost".  A node counts once, whatever names lead to it.
 */
extern int	names_count_owned(const char *key, const char *owner, int64_t until, int *lost);

/*
 * How many of those that have given that owner the key had their place for as long as a
 * lease can be?  The names of "first" count from their beginning: bits.
 */
extern int	names_count_voters(const char *key, const char *owner, uint32_t first);

/*
 * A process asks which server a row of the product's table is.  It has found one ("good"), or
 * was refused, since that is the server of another row.  Row -1: the settings have changed.
 */
extern void names_looks(void);
extern void names_found(int row, const char *run_id, bool good);

/* ---- faults ---- */

/*
 * Two names change places; one leads to the node of another; a spare, or a node of
 * before with what it had, takes a place.  Or what elsewhere.c has.
 */
extern void fault_name_moves(void);

/* All names lead to the nodes that have their places. */
extern void names_end(void);

/* ---- elsewhere.c: one Redis ---- */

extern void elsewhere_reset(void);
extern void elsewhere_moves(void);
extern void elsewhere_end(void);

/* Has a name ever led elsewhere; have different processes asked different nodes by it? */
extern bool elsewhere_moved(void);
extern bool elsewhere_was_apart(void);

/* When all connections to the wrong node ended last, or will end. */
extern int64_t elsewhere_settled_at(void);

#endif							/* SIM_NAMES_H */
