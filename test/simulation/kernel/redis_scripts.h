/*-------------------------------------------------------------------------
 *
 * redis_scripts.h
 *	  A script that a node runs, with what there was before it: what scripts must not do
 *	  is checked when it has run.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/redis_scripts.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_REDIS_SCRIPTS_H
#define SIM_REDIS_SCRIPTS_H

#include "redis_nodes.h"
#include "redis_view.h"

/* One of those that have something, or wait, as text. */
typedef struct Had
{
	ViewKind	kind;
	char		key[REDIS_NAME];
	char		in[REDIS_NAME];
	char		owner[REDIS_OWNER];
	int64_t		ends_ms;
} Had;

#define MAX_HAD		2048

typedef struct HadList
{
	int			n;
	Had			had[MAX_HAD];
} HadList;

extern const Had *had_find(const HadList *list, const Had *one);

/* The owner of a view as text: bytes that are no text in hexadecimal. */
extern void had_owner(const View *v, char *owner);

/* All that the node has, at this time. */
extern void had_list(int node, HadList *list);

typedef struct ScriptCall
{
	const char *name;			/* "kind verb" */
	const char *verb;
	int			node;
	int			pid;			/* who calls */
	bool		asks_for_replica;
	const Word *keys;
	int			nkeys;
	const Word *argv;
	int			nargs;
	const HadList *before;
	const HadList *after;
	const char *answer;
} ScriptCall;

extern bool script_is(const ScriptCall *call, const char *kind);
extern bool script_does(const ScriptCall *call, const char *verb);

/* Is it among the arguments? */
extern bool script_names(const ScriptCall *call, const char *owner);
extern int64_t word_number(Word word);

/*
 * Run a script that the node has; its answer goes behind what is there.  Has it changed
 * anything?
 */
typedef struct Script
{
	char		sha1[41];
	char	   *name;
	Word		text;
} Script;

struct Reply;
extern bool redis_run_script(const Script *script, ScriptCall *call, struct Reply *reply);

/* ---- redis_locks.c ---- */

extern void locks_reset(void);
extern void locks_before(const ScriptCall *call);
extern void locks_after(const ScriptCall *call);

/* ---- redis_counts.c ---- */

extern void counts_reset(void);

/* All numbers that a script asks for are there, unless they were lost on purpose. */
extern void counts_before(const ScriptCall *call);
extern void counts_after(const ScriptCall *call);

/* The node is about to lose what it has; it has something else; something has moved. */
extern void counts_lose(int node);
extern void counts_restored(int node);
extern void counts_moved(void);

/* ---- redis_conditions.c ---- */

extern void conditions_reset(void);
extern void conditions_after(const ScriptCall *call);

#endif							/* SIM_REDIS_SCRIPTS_H */
