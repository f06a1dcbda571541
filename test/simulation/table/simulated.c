/*-------------------------------------------------------------------------
 *
 * simulated.c
 *	  A session of the simulated server that does what it is told; see check.c.
 *
 * Each line of the standard input is a command.  Two strangers have transactions of their own
 * at the tables, each of which does one thing.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/table/simulated.c
 *
 *-------------------------------------------------------------------------
 */
#include "ask.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "utils/fmgrprotos.h"
#include "utils/timestamp.h"

#include "../backend/heap.h"
#include "../backend/relations.h"
#include "../kernel/server.h"
#include "simulated.h"

/* That of the system: PostgreSQL's is not there. */
#undef printf

#define LINE_MAX_LEN	4000

static TransactionId stranger[STRANGERS_MAX];

/* ----------
 * Columns as text
 * ----------
 */

static void
put_cell(Oid type, const Cell *cell)
{
	if (cell->isnull)
		printf("|-");
	else if (type == TEXTOID)
		printf("|%.*s", cell->len, cell->text);
	else if (type == INTERVALOID)
		printf("|%lld", (long long) cell->interval.time);
	else if (type == UUIDOID)
	{
		printf("|");
		for (int i = 0; i < UUID_LEN; i++)
			printf(i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", cell->uuid.data[i]);
	}
	else
		printf("|%lld", (long long) cell->number);
}

static Cell
cell_of(Oid type, const char *text)
{
	Cell		cell;

	memset(&cell, 0, sizeof(cell));
	cell.isnull = strcmp(text, "-") == 0;
	if (cell.isnull)
		return cell;
	if (type == TEXTOID)
		memcpy(cell.text, text, cell.len = strlen(text));
	else if (type == INTERVALOID)
		cell.interval.time = strtoll(text, NULL, 10);
	else if (type == UUIDOID)
		cell.uuid = *DatumGetUUIDP(DirectFunctionCall1(uuid_in, CStringGetDatum(text)));
	else
		cell.number = strtoll(text, NULL, 10);
	return cell;
}

static LockTable
table_of(const char *name)
{
	int			table = 0;

	while (table < TABLE_COUNT && strcmp(name, table_forms[table].name) != 0)
		table++;
	if (table == TABLE_COUNT)
		sim_fail("simulator", "what table is \"%s\"?", name);
	return table;
}

static void
put_rows(void)
{
	for (int table = 0; table < TABLE_COUNT; table++)
		for (Version *v = version_next(table, NULL); v != NULL; v = version_next(table, v))
			if (version_is_committed(v))
			{
				printf("%s", table_forms[table].name);
				for (int i = 0; i < table_forms[table].ncolumns; i++)
					put_cell(table_forms[table].type[i], &v->cell[i]);
				printf("\n");
			}
}

/* ----------
 * Strangers
 * ----------
 */

static void
read_cells(LockTable table, char *text, Cell *cell)
{
	char	   *rest;

	for (int i = 0; i < table_forms[table].ncolumns; i++)
		cell[i] = cell_of(table_forms[table].type[i], strtok_r(i == 0 ? text : NULL, "|", &rest));
}

/* INSERT ... ON CONFLICT DO NOTHING */
static void
insert_row(TransactionId xid, LockTable table, const Cell *cell)
{
	for (Version *v = version_next(table, NULL); v != NULL; v = version_next(table, v))
		if (version_may_live(v) && version_has_key(v, cell, table_forms[table].nkeys))
			return;
	(void) version_add(table, cell, xid);
}

/* What he does to all rows of a key that nobody else is at. */
static void
change_rows(TransactionId xid, const char *how, LockTable table, const char *key)
{
	Cell		cell = cell_of(TEXTOID, key);
	uint32		last = version_last_serial();

	for (Version *v = version_next(table, NULL); v != NULL; v = version_next(table, v))
	{
		if (v->serial > last || !version_has_key(v, &cell, 1) || !version_is_free(v))
			continue;
		if (strcmp(how, "lock") == 0)
			v->locker = xid;
		else
			v->xmax = xid;
		if (strcmp(how, "touch") == 0)
			(void) version_add(table, v->cell, xid);
	}
}

static void
lock_table(int i, const char *mode, LockTable table)
{
	LOCKTAG		tag;

	SET_LOCKTAG_RELATION(tag, MyDatabaseId, relation_oid(table));
	if (!heavy_lock_try(&tag, strcmp(mode, "share") == 0 ? ShareLock : AccessExclusiveLock,
						OWNER_STRANGER + i, TopSubTransactionId))
		sim_fail("simulator", "a table cannot be locked");
}

static void
stranger_ends(int i, bool commit)
{
	transam_end(stranger[i], commit);
	heavy_locks_release_all(OWNER_STRANGER + i);
	stranger[i] = InvalidTransactionId;
}

/* NUMBER commit | rollback | lock, touch, delete TABLE KEY | share, exclusive TABLE | insert TABLE ROW */
static void
stranger_does(char *words)
{
	char	   *rest;
	int			i = atoi(strtok_r(words, " ", &rest));
	const char *what = strtok_r(NULL, " ", &rest);
	Cell		cell[CELLS_MAX];
	LockTable	table;

	if (strcmp(what, "commit") == 0 || strcmp(what, "rollback") == 0)
	{
		stranger_ends(i, strcmp(what, "commit") == 0);
		return;
	}
	stranger[i] = transam_assign(InvalidTransactionId);
	table = table_of(strtok_r(NULL, " ", &rest));
	if (strcmp(what, "insert") == 0)
	{
		read_cells(table, rest, cell);
		insert_row(stranger[i], table, cell);
	}
	else if (strcmp(what, "share") == 0 || strcmp(what, "exclusive") == 0)
		lock_table(i, what, table);
	else
		change_rows(stranger[i], what, table, rest);
}

/* ----------
 * What comes between, while the worker is at it
 * ----------
 */

/* In shared memory, as the worker does it. */
typedef struct Between
{
	TransactionId xid;
	Cell		cell[CELLS_MAX];
} Between;

void
told_before_access(void)
{
	if (sim_config.told_fails[0] == 0 || --sim_config.told_fails[0] > 0)
		return;
	sim_config.told_fails[0] = sim_config.told_fails[1];
	sim_config.told_fails[1] = 0;
	ereport(ERROR,
			(errcode(sim_config.told_blocked ? ERRCODE_LOCK_NOT_AVAILABLE : ERRCODE_OUT_OF_MEMORY),
			 errmsg("as told")));
}

void
told_before_insert(LockTable table)
{
	const Between *between = sim_config.told_between;

	if (between == NULL || table != TABLE_ROWS)
		return;
	sim_config.told_between = NULL;
	insert_row(between->xid, table, between->cell);
}

/* STRANGER ROW: the next ask finds it between its look and its insert. */
static void
prepare_between(char *words)
{
	Between    *between = sim_arena_alloc(sizeof(Between));
	char	   *rest;
	int			i = atoi(strtok_r(words, " ", &rest));

	between->xid = stranger[i] = transam_assign(InvalidTransactionId);
	read_cells(TABLE_ROWS, rest, between->cell);
	sim_config.told_between = between;
}

/* An access that fails, another one, whether they are blocked, and the operations */
static void
ask_worker(char *words)
{
	char	   *rest;
	const char *answer;
	bool		between = sim_config.told_between != NULL;

	sim_config.told_fails[0] = atoi(strtok_r(words, " ", &rest));
	sim_config.told_fails[1] = atoi(strtok_r(NULL, " ", &rest));
	sim_config.told_blocked = atoi(strtok_r(NULL, " ", &rest)) != 0;
	answer = ask(rest);
	sim_config.told_fails[0] = sim_config.told_fails[1] = 0;
	printf("%s%s\n", answer,
		   !between ? "" : sim_config.told_between == NULL ? " between" : " not between");
	sim_config.told_between = NULL;
}

/* ----------
 * Commands
 * ----------
 */

/* False: it is to begin anew. */
static bool
obey(char *line)
{
	char	   *rest;
	const char *what = strtok_r(line, " ", &rest);

	if (strcmp(what, "anew") == 0)
		return false;
	if (strcmp(what, "who") == 0)
		printf("%s\n", ask_who(strtoull(rest, NULL, 10)));
	else if (strcmp(what, "ask") == 0)
		ask_worker(rest);
	else if (strcmp(what, "later") == 0)
	{
		sim_pass(strtoll(rest, NULL, 10) * ASK_UNIT_MS * SIM_MS);
		ask_to_sweep();
	}
	else if (strcmp(what, "rows") == 0)
		put_rows();
	else if (strcmp(what, "stranger") == 0)
		stranger_does(rest);
	else if (strcmp(what, "between") == 0)
		prepare_between(rest);
	else
		sim_fail("simulator", "what is \"%s\"?", what);
	return true;
}

void
told_main(int slot)
{
	char		line[LINE_MAX_LEN];

	if (slot != FIRST_SESSION)
		proc_exit(0);
	do
	{
		if (fgets(line, sizeof(line), stdin) == NULL)
			break;
		line[strcspn(line, "\n")] = '\0';
	} while (obey(line) && printf(".\n") > 0 && fflush(stdout) == 0);
	sim_config.told = false;
	proc_exit(0);
}
