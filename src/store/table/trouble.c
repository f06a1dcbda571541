/*-------------------------------------------------------------------------
 *
 * trouble.c
 *	  Why the table worker could not do what was asked; see requests.h.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/table/trouble.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "store/table/requests.h"

/* What a fault is to the user. */
typedef struct FaultMeaning
{
	int			sqlstate;
	const char *hint;
} FaultMeaning;

static const FaultMeaning faults[] = {
	[TABLE_FAULT_NONE] = {0, NULL},
	[TABLE_NO_DATABASE] = {
		ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
		gettext_noop("Create the database, and the extension in it, or set \"lockredis.database\" to another one.")
	},
	[TABLE_NO_EXTENSION] = {
		ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
		gettext_noop("Run CREATE EXTENSION lockredis in the database that \"lockredis.database\" names.")
	},
	[TABLE_WRONG_FORM] = {
		ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
		gettext_noop("Set \"lockredis.database\" to a database with encoding UTF8 and the extension as its script makes it.")
	},
	[TABLE_OLD_EXTENSION] = {
		ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
		gettext_noop("Run ALTER EXTENSION lockredis UPDATE in the database that \"lockredis.database\" names.")
	},
	[TABLE_BLOCKED] = {
		ERRCODE_LOCK_NOT_AVAILABLE,
		gettext_noop("Look for transactions that were left open in the database that \"lockredis.database\" names.")
	},
	[TABLE_ERROR] = {ERRCODE_INTERNAL_ERROR, NULL}
};

void
table_trouble_set(TableTrouble *trouble, TableFault fault, const char *format,...)
{
	va_list		args;

	trouble->fault = fault;
	trouble->sqlstate = faults[fault].sqlstate;
	va_start(args, format);
	vsnprintf(trouble->detail, sizeof(trouble->detail), format, args);
	va_end(args);
}

const char *
table_trouble_hint(TableFault fault)
{
	return faults[fault].hint;
}
