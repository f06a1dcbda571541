/*-------------------------------------------------------------------------
 *
 * statements.h
 *	  The statements that a session can make, by topic.
 *
 * A topic is a file with a table of statements, and a line in statements.c.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/workload/statements.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_STATEMENTS_H
#define SIM_STATEMENTS_H

#include "workload.h"

/* Where a statement may stand; bits. */
#define AT_TOP			0x01	/* of a session, outside of a transaction block */
#define IN_BLOCK		0x02	/* between BEGIN and its end */
#define INSIDE			0x04	/* of a function, an exception block, a command */
#define INSIDE_LOOSE	0x08	/* of a procedure or DO that may end transactions */
#define ANYWHERE		(AT_TOP | IN_BLOCK | INSIDE | INSIDE_LOOSE)

/* It makes and ends transactions itself. */
#define CONTROL			0x10

typedef struct Statement
{
	const char *name;
	int			weight;			/* how often it is drawn */
	int			where;
	void		(*run) (void);
} Statement;

/* Each ends with one without a name. */
extern const Statement lock_statements[];
extern const Statement question_statements[];
extern const Statement fence_statements[];
extern const Statement transaction_statements[];
extern const Statement procedure_statements[];
extern const Statement setting_statements[];
extern const Statement token_statements[];
extern const Statement count_statements[];
extern const Statement permit_statements[];
extern const Statement condition_statements[];

/* One that may stand there and that this schedule has. */
extern const Statement *statement_draw(int where);

extern const Statement *statement_named(const char *name);

/* Some of them in a function or the like. */
extern void statements_inside(int where);

/* ---- phrases.c ---- */

/* What a session does next: drawn, or what belongs to what it did before. */
extern const Statement *statement_next(int where);
extern bool phrase_is_under_way(void);

/* ---- what statements draw ---- */

/* From now on, of a phrase, this one is drawn more often. */
extern void draw_phrase_key(void);

extern const char *draw_key(void);
extern void set_name(LrName *name, const char *key);
extern KindId draw_kind_of(const char *key);

/* An optional lease; null: renewed. */
extern NullableDatum draw_lease(void);
extern int64 within_max_lease(int64 lease_ms);

/* ---- transactions.c ---- */

typedef enum BlockState
{
	BLOCK_NONE,
	BLOCK_OPEN,
	BLOCK_FAILED,				/* only ROLLBACK */
	BLOCK_SUB_FAILED			/* ROLLBACK TO too */
} BlockState;

extern BlockState block;

/* CommitTransactionCommand() and AbortCurrentTransaction() */
extern void block_commit(void);
extern void block_abort_statement(void);

/* In a block that has failed: all but its end is refused. */
extern void block_leave_failed(void);

#endif							/* SIM_STATEMENTS_H */
