/*-------------------------------------------------------------------------
 *
 * versions.c
 *	  The tables of table mode: rows of several columns, in versions; see versions.h.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/backend/versions.c
 *
 *-------------------------------------------------------------------------
 */
#include "heap.h"
#include "versions.h"

#include "catalog/pg_type.h"

#define VERSIONS_MAX	256

const TableForm table_forms[TABLE_COUNT] = {
	[TABLE_ROWS] = {"redis_lock_rows", 1, 9,
		{TEXTOID, TEXTOID, INT4OID, INT8OID, INTERVALOID, TIMESTAMPTZOID, TIMESTAMPTZOID,
		UUIDOID, TEXTOID}},
	[TABLE_COUNTERS] = {"redis_lock_counters", 1, 2, {TEXTOID, INT8OID}},
	[TABLE_SHARES] = {"redis_lock_shares", 3, 7,
		{TEXTOID, TEXTOID, TEXTOID, INTERVALOID, TIMESTAMPTZOID, TIMESTAMPTZOID, UUIDOID}},
	[TABLE_VALUES] = {"redis_lock_values", 2, 4, {TEXTOID, TEXTOID, INT8OID, TIMESTAMPTZOID}}
};

typedef struct Versions
{
	uint32		last_serial;
	int			n;
	Version		version[VERSIONS_MAX];
} Versions;

static Versions *versions;

void
versions_init(void)
{
	versions = sim_durable("tables of locks", sizeof(Versions));
}

Version *
version_next(LockTable table, Version *after)
{
	for (int i = after == NULL ? 0 : after - versions->version + 1; i < versions->n; i++)
		if (versions->version[i].serial != 0 && versions->version[i].table == table)
			return &versions->version[i];
	return NULL;
}

Version *
version_by_serial(uint32 serial)
{
	for (int i = 0; i < versions->n; i++)
		if (versions->version[i].serial == serial)
			return &versions->version[i];
	return NULL;
}

uint32
version_last_serial(void)
{
	return versions->last_serial;
}

/* Texts; no column of a key is anything else. */
bool
cell_is_same(const Cell *a, const Cell *b)
{
	return a->len == b->len && memcmp(a->text, b->text, a->len) == 0;
}

bool
version_has_key(const Version *v, const Cell *key, int nkeys)
{
	for (int i = 0; i < nkeys; i++)
		if (!cell_is_same(&v->cell[i], &key[i]))
			return false;
	return true;
}

/* ----------
 * Who sees it
 * ----------
 */

static bool
is_running_elsewhere(TransactionId xid)
{
	return TransactionIdIsValid(xid) && transam_is_running(xid) && !xact_is_own(xid);
}

static bool
has_committed(TransactionId xid)
{
	return TransactionIdIsValid(xid) && transam_did_commit(xid);
}

VersionSeen
version_dirty(const Version *v)
{
	if (xact_is_own(v->xmax) || has_committed(v->xmax))
		return VERSION_UNSEEN;
	if (is_running_elsewhere(v->xmin))
		return VERSION_COMING;
	return xact_is_own(v->xmin) || has_committed(v->xmin) ? VERSION_SEEN : VERSION_UNSEEN;
}

static bool
is_done(TransactionId xid, uint32 snapshot)
{
	return TransactionIdIsValid(xid) && (xact_is_own(xid) || transam_is_seen(xid, snapshot));
}

bool
version_is_in(const Version *v, uint32 snapshot)
{
	return is_done(v->xmin, snapshot) && !is_done(v->xmax, snapshot);
}

bool
version_is_committed(const Version *v)
{
	return has_committed(v->xmin) && !has_committed(v->xmax);
}

bool
version_may_live(const Version *v)
{
	return (transam_is_running(v->xmin) || has_committed(v->xmin)) && !has_committed(v->xmax);
}

bool
version_is_free(const Version *v)
{
	return version_dirty(v) == VERSION_SEEN && !is_running_elsewhere(v->xmax) &&
		!is_running_elsewhere(v->locker);
}

/* ----------
 * New ones
 * ----------
 */

Version *
version_add(LockTable table, const Cell *cell, TransactionId xmin)
{
	Version    *v = versions->version;

	while (v < versions->version + versions->n && v->serial != 0 &&
		   version_may_live(v))
		v++;
	if (v == versions->version + VERSIONS_MAX)
		sim_fail("simulator", "too many versions of rows of locks");
	versions->n = Max(versions->n, (int) (v - versions->version) + 1);
	memset(v, 0, sizeof(Version));
	v->serial = ++versions->last_serial;
	v->table = table;
	v->xmin = xmin;
	memcpy(v->cell, cell, sizeof(Cell) * table_forms[table].ncolumns);
	return v;
}
