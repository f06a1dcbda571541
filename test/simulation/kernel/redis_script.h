/*-------------------------------------------------------------------------
 *
 * redis_script.h
 *	  What the scripts of the model of Redis that are no locks of one owner are made
 *	  of: their words, and their answers.
 *
 * A script of redis_counts.c or redis_conditions.c is given its keys and arguments as
 * they came, and puts its answer itself.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/redis_script.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_REDIS_SCRIPT_H
#define SIM_REDIS_SCRIPT_H

#include <stddef.h>

#include "redis_model.h"

typedef struct Word
{
	const char *text;
	size_t		len;
} Word;

typedef struct ScriptCall
{
	int			node;
	int			pid;			/* who calls */
	const Word *keys;
	int			nkeys;
	const Word *argv;
	int			nargs;
} ScriptCall;

/* One of these files' own; false: of that name there is none. */
extern bool redis_is_counts_script(const char *name);
extern void redis_run_counts(const char *name, const ScriptCall *call);
extern bool redis_is_condition_script(const char *name);
extern void redis_run_condition(const char *name, const ScriptCall *call);

/* ---- words ---- */

extern void word_copy(char *to, size_t size, const Word *word);
extern int64_t word_number(const Word *word);
extern bool word_is(const Word *word, const char *text);

/* ---- answers (redis_wire.c) ---- */

extern void reply_put(const char *format,...) __attribute__((format(printf, 1, 2)));
extern void reply_text(const char *text);
extern void reply_error(const char *words);

/* ---- redis_model.c ---- */

/* The words with which a command that writes is refused; NULL: it is not. */
extern const char *redis_refuses(int node, bool needs_memory);

/*
 * A message, which may get lost: who waits for it looks again by himself until then.  To
 * how many?
 */
extern int	redis_publish_until(int node, const char *channel, int64_t until);

/* ---- what happens to the data of a node ---- */

typedef enum DataEvent
{
	DATA_RESET,					/* of all nodes: a schedule begins */
	DATA_LOST,
	DATA_SAVED,
	DATA_RESTORED,				/* as it was when it was saved */
	DATA_REPLICATED,
	DATA_FAILED_OVER,			/* as it was when it was replicated */
	DATA_CLOCK_SET
} DataEvent;

extern void redis_counts_event(int node, DataEvent event);
extern void redis_conditions_event(int node, DataEvent event);

#endif							/* SIM_REDIS_SCRIPT_H */
