/*-------------------------------------------------------------------------
 *
 * sql.h
 *	  SQL as the workload uses it: functions, statements, transactions.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/backend/sql.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_SQL_H
#define SIM_SQL_H

#include "postgres.h"

#include "fmgr.h"
#include "nodes/nodes.h"

#define SQL_ARGS_MAX		6
#define SQL_COLUMNS_MAX		32

/* Of all functions; their schema is that of the fence table. */
#define SQL_FUNCTION_OID	16500
#define SQL_SCHEMA_OID		2200

/* Roles: of the fence table, and of the session. */
#define SQL_OWNER			10
#define SQL_USER			16400

/* ---- fmgr.c ---- */

extern const NullableDatum sql_null;
extern NullableDatum sql_text(const char *s);
extern NullableDatum sql_int64(int64 n);
extern NullableDatum sql_interval(int64 us);

/* SELECT function(...); isnull may be NULL if it never is. */
extern Datum sql_call(PGFunction function, int nargs, const NullableDatum *args,
					  bool *isnull);

/* CALL; "atomic": it may not end the transaction. */
extern Datum sql_call_procedure(PGFunction function, int nargs,
								const NullableDatum *args, bool atomic);
extern Datum sql_first_column(Datum row);

/* SELECT ... FROM function(): each row is put. */
typedef void (*SqlPutRow) (void *arg, const Datum *values, const bool *isnull);
extern void sql_call_set(PGFunction function, SqlPutRow put, void *arg);

/* ---- spi_commands.c ---- */

/* One statement of a command. */
extern void (*spi_statement) (const char *statement, bool may_commit);

/* ---- utility.c ---- */

/* A utility statement, which does "body"; through the hooks. */
extern void utility_run(NodeTag tag, void (*body) (void));

#define SQL_CALL(function, isnull, ...) \
	sql_call(function, \
			 sizeof((const NullableDatum[]){__VA_ARGS__}) / sizeof(NullableDatum), \
			 (const NullableDatum[]){__VA_ARGS__}, isnull)

#endif							/* SIM_SQL_H */
