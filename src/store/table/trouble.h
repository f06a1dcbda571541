/*-------------------------------------------------------------------------
 *
 * trouble.h
 *	  Why the table worker could not do what was asked.
 *
 * Plain data: it is written by the worker and read by who asked, through shared
 * memory.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/table/trouble.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_TABLE_TROUBLE_H
#define LR_TABLE_TROUBLE_H

#include "lockredis.h"

typedef enum TableFault
{
	TABLE_FAULT_NONE,
	TABLE_NO_DATABASE,
	TABLE_NO_EXTENSION,
	TABLE_WRONG_FORM,			/* the tables or the encoding */
	TABLE_OLD_EXTENSION,		/* a table is not there yet */
	TABLE_BLOCKED,				/* by somebody's open transaction */
	TABLE_ERROR					/* an error of PostgreSQL's own */
} TableFault;

typedef struct TableTrouble
{
	TableFault	fault;			/* TABLE_FAULT_NONE: none */
	int			sqlstate;
	char		detail[256];
} TableTrouble;

/*
 * The SQLSTATE follows from the fault; that of TABLE_ERROR is an internal error
 * unless the caller knows better.
 */
extern void table_trouble_set(TableTrouble *trouble, TableFault fault,
							  const char *format,...) pg_attribute_printf(3, 4);

/* What to do about it: static text, or NULL. */
extern const char *table_trouble_hint(TableFault fault);

#endif							/* LR_TABLE_TROUBLE_H */
