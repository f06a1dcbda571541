/*-------------------------------------------------------------------------
 *
 * rows.c
 *	  Rows of tables, in versions, as PostgreSQL's heap and executor treat them: what
 *	  a snapshot sees, who waits for whom, and what READ COMMITTED does then.
 *
 * A row is a text and a number.  One that is written is found by its text, which is
 * unique among those that are live.  A step of the scheduler is before each look,
 * and none between a look at a version and the mark that is set there, which in
 * PostgreSQL are under the lock of one buffer.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/backend/rows.c
 *
 *-------------------------------------------------------------------------
 */
#include "heap.h"

#include "storage/lmgr.h"

#define VERSIONS_MAX	1536
#define LOCKERS_MAX		8

typedef struct Version
{
	char		key[ROW_KEY];
	int64		value;
	TransactionId xmin;
	TransactionId xmax;			/* who updated or deleted it */
	TransactionId locker[LOCKERS_MAX];
} Version;

typedef struct Rows
{
	int			n;
	Version		version[VERSIONS_MAX];
} Rows;

static Rows *rows;

void
rows_init(void)
{
	rows = sim_durable("rows", sizeof(Rows));
}

static bool
is_aborted(TransactionId xid)
{
	return !transam_is_running(xid) && !transam_did_commit(xid);
}

static bool
is_running_elsewhere(TransactionId xid)
{
	return TransactionIdIsValid(xid) && transam_is_running(xid) && !xact_is_own(xid);
}

/* ----------
 * Which version
 * ----------
 */

/* As of a snapshot, and what this transaction did. */
static Version *
find_seen(const char *key, uint32 snapshot)
{
	for (int i = 0; i < rows->n; i++)
	{
		Version    *v = &rows->version[i];

		if (strcmp(v->key, key) == 0 &&
			(xact_is_own(v->xmin) || transam_is_seen(v->xmin, snapshot)) &&
			!(TransactionIdIsValid(v->xmax) &&
			  (xact_is_own(v->xmax) || transam_is_seen(v->xmax, snapshot))))
			return v;
	}
	return NULL;
}

/* Whatever is, or may come to be, a live one. */
static Version *
find_live(const char *key)
{
	for (int i = 0; i < rows->n; i++)
	{
		Version    *v = &rows->version[i];

		if (strcmp(v->key, key) == 0 && !is_aborted(v->xmin) &&
			(!TransactionIdIsValid(v->xmax) || is_aborted(v->xmax) ||
			 is_running_elsewhere(v->xmax)))
			return v;
	}
	return NULL;
}

static void
add_version(const char *key, int64 value, TransactionId xmin)
{
	int			i;

	for (i = 0; i < rows->n; i++)
		if (is_aborted(rows->version[i].xmin))
			break;
	if (i == VERSIONS_MAX)
		sim_fail("simulator", "too many versions of rows");
	rows->n = Max(rows->n, i + 1);
	memset(&rows->version[i], 0, sizeof(Version));
	strlcpy(rows->version[i].key, key, ROW_KEY);
	rows->version[i].value = value;
	rows->version[i].xmin = xmin;
}

/* ----------
 * Locking one
 * ----------
 */

/* Who has to end before it can be locked; none: InvalidTransactionId. */
static TransactionId
who_is_in_the_way(const Version *v)
{
	if (is_running_elsewhere(v->xmax))
		return v->xmax;
	for (int i = 0; i < LOCKERS_MAX; i++)
		if (is_running_elsewhere(v->locker[i]))
			return v->locker[i];
	return InvalidTransactionId;
}

static void
add_locker(Version *v, TransactionId xid)
{
	int			place = -1;

	for (int i = 0; i < LOCKERS_MAX; i++)
	{
		if (v->locker[i] == xid)
			return;
		if (!TransactionIdIsValid(v->locker[i]) || !transam_is_running(v->locker[i]))
			place = i;
	}

	if (place < 0)
		sim_fail("simulator", "too many subtransactions lock a row");
	v->locker[place] = xid;
}

static void
refuse_update(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("could not serialize access due to concurrent update")));
}

/*
 * lock_version --- false: it was updated or deleted meanwhile, look again
 *
 * Those who wait stand in the queue of a lock of the row.
 */
static bool
lock_version(Version *v)
{
	TransactionId other = who_is_in_the_way(v);
	TransactionId xmin = v->xmin;

	if (TransactionIdIsValid(other))
	{
		LOCKTAG		tag;

		SET_LOCKTAG_TUPLE(tag, MyDatabaseId, ROWS_TABLE, 0, 1 + (v - rows->version));
		heavy_lock_acquire(&tag, ExclusiveLock);
		while (v->xmin == xmin && TransactionIdIsValid(other = who_is_in_the_way(v)))
			heavy_lock_wait_for(other);
		heavy_lock_release(&tag);
	}
	if (v->xmin == xmin &&
		(!TransactionIdIsValid(v->xmax) || is_aborted(v->xmax)))
	{
		add_locker(v, xact_assign_xid());
		return true;
	}
	if (IsolationUsesXactSnapshot())
		refuse_update();
	return false;
}

/* ----------
 * Statements
 * ----------
 */

static void
update(Version *v, int64 value)
{
	TransactionId xid = xact_assign_xid();
	char		key[ROW_KEY];

	strlcpy(key, v->key, ROW_KEY);
	v->xmax = xid;
	add_version(key, value, xid);
}

bool
row_raise(const char *key, int64 value, bool always)
{
	uint32		snapshot = xact_snapshot();

	for (;;)
	{
		Version    *v;

		sim_yield("row");
		v = find_live(key);
		if (v == NULL)
		{
			add_version(key, value, xact_assign_xid());
			return true;
		}
		if (is_running_elsewhere(v->xmin))
		{
			heavy_lock_wait_for(v->xmin);
			continue;
		}
		if (!lock_version(v))
			continue;
		if (IsolationUsesXactSnapshot() && !xact_is_own(v->xmin) &&
			!transam_is_seen(v->xmin, snapshot))
			refuse_update();
		if (!always && v->value >= value)
			return false;
		update(v, value);
		return true;
	}
}

bool
row_read(const char *key, int64 *value)
{
	const Version *v;

	sim_yield("row");
	v = find_seen(key, xact_snapshot());
	if (v != NULL)
		*value = v->value;
	return v != NULL;
}

bool
row_remove(const char *key)
{
	uint32		snapshot = xact_snapshot();
	Version    *v;

	sim_yield("row");
	v = find_seen(key, snapshot);
	while (v != NULL && !lock_version(v))
	{
		/* READ COMMITTED goes on with what was made of it. */
		sim_yield("row");
		v = find_seen(key, transam_snapshot());
	}
	if (v == NULL)
		return false;
	v->xmax = xact_assign_xid();
	return true;
}

/* ----------
 * For checks
 * ----------
 */

bool
row_committed(const char *key, int64 *value)
{
	const Version *v = NULL;

	for (int i = 0; v == NULL && i < rows->n; i++)
		if (strcmp(rows->version[i].key, key) == 0 &&
			transam_did_commit(rows->version[i].xmin) &&
			!(TransactionIdIsValid(rows->version[i].xmax) &&
			  transam_did_commit(rows->version[i].xmax)))
			v = &rows->version[i];
	if (v != NULL)
		*value = v->value;
	return v != NULL;
}

bool
row_is_ours(const char *key, int64 value)
{
	const Version *v = find_live(key);

	if (v == NULL || v->value != value || is_running_elsewhere(v->xmin) ||
		is_running_elsewhere(v->xmax))
		return false;
	if (xact_is_own(v->xmin))
		return true;
	for (int i = 0; i < LOCKERS_MAX; i++)
		if (TransactionIdIsValid(v->locker[i]) && xact_is_own(v->locker[i]))
			return true;
	return false;
}
