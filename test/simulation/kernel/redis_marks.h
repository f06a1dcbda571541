/*-------------------------------------------------------------------------
 *
 * redis_marks.h
 *	  What the nodes of Redis do not know, and checks have to: of whom something was taken
 *	  away, who gave back, and what has come back that nobody asks for any more.
 *
 * Owners are those of locks and of waits for them, the ids of permits (in hexadecimal),
 * and tokens.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/redis_marks.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_REDIS_MARKS_H
#define SIM_REDIS_MARKS_H

#include "redis_nodes.h"

typedef struct Mark
{
	int			node;
	char		owner[REDIS_OWNER];
	bool		is_old;			/* came back after it was given back, or was left at
								 * another place; unless it was renewed since */
	bool		promised;		/* counts only with a replica */
	bool		told;			/* that it is its turn, since it asked */
	int			pid;			/* who waits for a condition, or has taken a permit */
	int64_t		stands_since;	/* a place in a queue; 0 = not known */
	int64_t		sent_at;		/* when the create of a token was */
	struct Mark *next;
} Mark;

extern void marks_reset(void);

/* NULL: nothing was ever marked. */
extern Mark *mark_find(int node, const char *owner);
extern Mark *mark_made(int node, const char *owner);
extern bool mark_is_old(int node, const char *owner);

/* Another node has what one has: of that owner, or all of it and nothing else. */
extern void mark_copy(int from, int to, const char *owner);
extern void marks_copy(int from, int to);

extern void note_robbed(int node, const char *owner, bool by_restart);
extern void note_released(const char *owner);

/* A majority of masters has it no more when the first of what is left is given back. */
extern bool note_lost(const char *owner, bool is_lost);

/* Of this server: its instance, and a number. */
extern bool is_owner(Word word);

#endif							/* SIM_REDIS_MARKS_H */
