/*-------------------------------------------------------------------------
 *
 * command.h
 *	  Commands of a Redis: those that lockredis' scripts use, and no others.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/redis/command.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_COMMAND_H
#define SIM_COMMAND_H

#include "reply.h"

/* A Redis while it is asked something. */
typedef struct Redis
{
	Db		   *db;
	int64_t		now_us;			/* by its clock; the same for all of a script */
	Reply	   *reply;
	int			changes;		/* what a replica would have to have */
	bool		is_script;
	bool		wrote;			/* a script, whatever came of it */

	/* How many listen to it. */
	int			(*publish) (struct Redis *r, Word channel, Word message, bool sharded);

	/* The words with which a command that writes is refused; NULL: it is not. */
	const char *(*refuses) (struct Redis *r, bool needs_memory);
	void	   *arg;			/* of these two */
} Redis;

extern void redis_command(Redis *r, const Word *word, int n);

/* ---- for the files of the commands ---- */

#define CMD_WRITE	1
#define CMD_MEMORY	2			/* refused where there is none left */

typedef struct Command
{
	const char *name;
	int			words;			/* with the name; -n: n or more */
	int			flags;
	void		(*run) (Redis *r, const Word *word, int n);
} Command;

/* Each ends with one that has no name. */
extern const Command key_commands[];
extern const Command string_commands[];
extern const Command hash_commands[];
extern const Command list_commands[];
extern const Command zset_commands[];

/*
 * The key of that name.  NULL: there is none.  False: it is of another type, which has
 * been answered.
 */
extern bool command_key(Redis *r, Word name, DbType type, DbKey **key);

/* The same, and it is made if there is none. */
extern bool command_made(Redis *r, Word name, DbType type, DbKey **key);

/* Nothing is left in it: it is gone. */
extern void command_emptied(Redis *r, DbKey *key);

/* As Redis reads them, or false and an answer. */
extern bool word_integer(Word word, long long *value);
extern bool command_integer(Redis *r, Word word, long long *value);
extern bool word_option(Word word, const char *name);

extern int64_t redis_ms(const Redis *r);

/* From first to last, as indexes that may be negative; how many are left. */
extern int	command_range(int n, long long *first, long long *last);

#endif							/* SIM_COMMAND_H */
