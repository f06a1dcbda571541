/*-------------------------------------------------------------------------
 *
 * row_check.c
 *	  Are the rows of the tables of table mode as they have to be, and as the lock table
 *	  is?
 *
 * What counts is what is committed: the worker tells nobody of anything else.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/workload/row_check.c
 *
 *-------------------------------------------------------------------------
 */
#include "workload.h"

#include "utils/fmgrprotos.h"
#include "utils/timestamp.h"

#include "../../../src/kinds/kind.h"
#include "../../../src/locktable/locktable_int.h"
#include "../../../src/names.h"
#include "../../../src/session/session.h"
#include "../../../src/settings.h"
#include "../../../src/store/nodes.h"
#include "../../../src/store/table/table_int.h"

#include "../backend/versions.h"
#include "../kernel/history.h"
#include "../kernel/redis_nodes.h"
#include "../kernel/sentinels.h"
#include "row_check.h"

/* Columns of redis_lock_rows, of redis_lock_counters, and of redis_lock_shares. */
enum
{
	COL_KEY = 1, COL_OWNER, COL_HOLD_COUNT, COL_FENCE, COL_LEASE,
	COL_ACQUIRED_AT, COL_EXPIRES_AT, COL_INSTANCE, COL_COMMENT
};

enum
{
	COL_COUNTER_KEY = 1, COL_TOKEN
};

enum
{
	COL_SHARE_KEY = 1, COL_SHARE_KIND, COL_SHARE_OWNER, COL_SHARE_LEASE,
	COL_SHARE_ACQUIRED_AT, COL_SHARE_EXPIRES_AT, COL_SHARE_INSTANCE
};

/* ----------
 * Columns
 * ----------
 */

static Cell
cell_of_text(const char *text)
{
	Cell		cell;

	memset(&cell, 0, sizeof(cell));
	cell.len = strlen(text);
	memcpy(cell.text, text, cell.len);
	return cell;
}

static bool
is_text(const Cell * cell, const char *text)
{
	Cell		other = cell_of_text(text);

	return !cell->isnull && cell_is_same(cell, &other);
}

static const char *
text_of(const Cell * cell)
{
	static char text[2][CELL_TEXT + 1];
	static int	which;

	which = !which;
	snprintf(text[which], sizeof(text[which]), "%.*s", cell->len, cell->text);
	return text[which];
}

/* What counts without an instance is no session's. */
static bool
is_of_instance(const Cell * cell)
{
	Datum		own = DirectFunctionCall1(uuid_in, CStringGetDatum(lr_instance_uuid()));
	bool		is_own = !cell->isnull &&
		memcmp(&cell->uuid, DatumGetUUIDP(own), sizeof(cell->uuid)) == 0;

	pfree(DatumGetPointer(own));
	return is_own;
}

/* In the time of sim_now(). */
static int64
time_of(const Cell * cell)
{
	return cell->number - (GetCurrentTimestamp() - sim_now());
}

/* ----------
 * Rows
 * ----------
 */

static const Version *
next_committed(LockTable table, const Version *after)
{
	const Version *v = version_next(table, unconstify(Version *, after));

	while (v != NULL && !version_is_committed(v))
		v = version_next(table, unconstify(Version *, v));
	return v;
}

static const Version *
row_of(const char *key)
{
	Cell		cell = cell_of_text(key);
	const Version *v = next_committed(TABLE_ROWS, NULL);

	while (v != NULL && !version_has_key(v, &cell, 1))
		v = next_committed(TABLE_ROWS, v);
	return v;
}

static bool
is_read_share(const Version *v, const char *key)
{
	return is_text(&v->cell[COL_SHARE_KEY - 1], key) &&
		is_text(&v->cell[COL_SHARE_KIND - 1], read_kind.name) &&
		is_of_instance(&v->cell[COL_SHARE_INSTANCE - 1]);
}

static const Version *
share_of(const char *key, const char *owner)
{
	const Version *v = next_committed(TABLE_SHARES, NULL);

	while (v != NULL && !(is_read_share(v, key) &&
						  is_text(&v->cell[COL_SHARE_OWNER - 1], owner)))
		v = next_committed(TABLE_SHARES, v);
	return v;
}

/*
 * A share counts with the row that readers have together, or that of the writer in its
 * session.
 */
int64
rows_owned_until(const char *key, uint64 owner)
{
	const Version *row = row_of(key);
	const Version *share;
	char		text[LR_OWNER_MAX];
	int64		until;

	if (row == NULL)
		return 0;
	lr_owner_text(owner, text);
	until = time_of(&row->cell[COL_EXPIRES_AT - 1]);
	if (is_text(&row->cell[COL_OWNER - 1], text))
		return until;
	share = share_of(key, text);
	if (share == NULL || !is_of_instance(&row->cell[COL_INSTANCE - 1]))
		return 0;
	return is_text(&row->cell[COL_OWNER - 1], SHARED_OWNER) ?
		Min(until, time_of(&share->cell[COL_SHARE_EXPIRES_AT - 1])) :
		time_of(&share->cell[COL_SHARE_EXPIRES_AT - 1]);
}

static bool
is_unknown(const Version *v, int owner, int expires_at, int instance, RowIsKnown knows)
{
	return is_of_instance(&v->cell[instance - 1]) && !v->cell[owner - 1].isnull &&
		!is_text(&v->cell[owner - 1], SHARED_OWNER) &&
		time_of(&v->cell[expires_at - 1]) > sim_now() &&
		!knows(text_of(&v->cell[0]), text_of(&v->cell[owner - 1]));
}

const char *
rows_find_unknown(RowIsKnown knows)
{
	for (const Version *v = next_committed(TABLE_ROWS, NULL); v != NULL;
		 v = next_committed(TABLE_ROWS, v))
		if (is_unknown(v, COL_OWNER, COL_EXPIRES_AT, COL_INSTANCE, knows))
			return text_of(&v->cell[COL_KEY - 1]);
	for (const Version *v = next_committed(TABLE_SHARES, NULL); v != NULL;
		 v = next_committed(TABLE_SHARES, v))
		if (is_unknown(v, COL_SHARE_OWNER, COL_SHARE_EXPIRES_AT, COL_SHARE_INSTANCE, knows))
			return text_of(&v->cell[COL_SHARE_KEY - 1]);
	return NULL;
}

/* ----------
 * All of them
 * ----------
 */

static int
count_readers(const char *key)
{
	int			n = 0;

	for (const Version *v = next_committed(TABLE_SHARES, NULL); v != NULL;
		 v = next_committed(TABLE_SHARES, v))
		n += is_read_share(v, key);
	return n;
}

/* The lease of a row that has one; 0 is none. */
static int64
lease_of(const Version *v)
{
	return v->cell[(v->table == TABLE_ROWS ? COL_LEASE : COL_SHARE_LEASE) - 1].interval.time;
}

static bool
is_ours(const Version *v)
{
	return (v->table == TABLE_ROWS && is_of_instance(&v->cell[COL_INSTANCE - 1])) ||
		(v->table == TABLE_SHARES && is_of_instance(&v->cell[COL_SHARE_INSTANCE - 1]));
}

/*
 * A key has one row, with a lease if it is ours; that of readers has as many as there are
 * shares beside it.
 */
static void
check_row(const Version *v)
{
	const char *key = text_of(&v->cell[COL_KEY - 1]);
	int			readers;

	if (is_ours(v) && lease_of(v) <= 0)
		sim_fail("rows", "%s has a row of ours with key %s and no lease",
				 table_forms[v->table].name, key);
	for (const Version *w = next_committed(v->table, v); w != NULL;
		 w = next_committed(v->table, w))
		if (version_has_key(w, v->cell, table_forms[v->table].nkeys))
			sim_fail("rows", "%s has two rows with key %s", table_forms[v->table].name, key);
	if (v->table != TABLE_ROWS || !is_of_instance(&v->cell[COL_INSTANCE - 1]) ||
		!is_text(&v->cell[COL_OWNER - 1], SHARED_OWNER))
		return;
	readers = count_readers(key);
	if (readers != v->cell[COL_HOLD_COUNT - 1].number)
		sim_fail("rows", "%d readers have %s by its row, and there are %d shares of it",
				 (int) v->cell[COL_HOLD_COUNT - 1].number, key, readers);
}

void
check_rows(void)
{
	for (int table = 0; table < TABLE_COUNT; table++)
		for (const Version *v = next_committed(table, NULL); v != NULL;
			 v = next_committed(table, v))
			check_row(v);
}

/* ----------
 * Tokens in reserve
 * ----------
 */

static int64
counter_of(const char *key)
{
	Cell		cell = cell_of_text(key);
	const Version *v = next_committed(TABLE_COUNTERS, NULL);

	while (v != NULL && !version_has_key(v, &cell, 1))
		v = next_committed(TABLE_COUNTERS, v);
	return v == NULL ? 0 : v->cell[COL_TOKEN - 1].number;
}

/* What an earlier master has issued does not become the reserve of a later one. */
void
check_issuer(LrIndex hold, const StoreOp *op)
{
	const LrHold *h = &lt_holds[hold];
	const LrReserve *reserve = &h->as.held.reserve;

	if (h->state == HOLD_HELD && reserve->left > 0 && op->sent.topology != 0 &&
		reserve->topology > op->sent.topology)
		sim_fail("fence", "%s: what epoch %u has issued is in reserve for epoch %u",
				 lt_key_of(hold)->name, op->sent.topology, reserve->topology);
}

extern void __real_lt_set_fence(LrIndex hold, const StoreOp *mint);
extern void __wrap_lt_set_fence(LrIndex hold, const StoreOp *mint);

/* What is left from before is below the new one. */
void
__wrap_lt_set_fence(LrIndex hold, const StoreOp *mint)
{
	const LrReserve *reserve = &lt_holds[hold].as.held.reserve;

	__real_lt_set_fence(hold, mint);
	if (lt_holds[hold].state == HOLD_HELD &&
		mint->answer.fence + reserve->left > store_last_token(mint->answer.fence, mint->amount))
		sim_fail("fence", "%s was given token %lld, and %d more are in reserve",
				 lt_key_of(hold)->name, (long long) mint->answer.fence, reserve->left);
	check_issuer(hold, mint);
}

extern bool __real_lt_take_reserved(LrIndex hold, StoreId *store, int64 *more);
extern bool __wrap_lt_take_reserved(LrIndex hold, StoreId *store, int64 *more);

/*
 * The counter of the table in which the lock is has passed the token, or that of the master
 * that is believed in.
 */
bool
__wrap_lt_take_reserved(LrIndex hold, StoreId *store, int64 *more)
{
	bool		is_here = lt_holds[hold].claim.store == STORE_TABLE;
	int			master = sentinels_node_of(topology_epoch());
	bool		taken = __real_lt_take_reserved(hold, store, more);
	const char *key = lt_keys[lt_holds[hold].key].name;

	if (taken && sim_config.sentinels &&
		sentinels_node_of(lt_holds[hold].as.held.reserve.topology) != master)
		sim_fail("fence", "%s: token %lld is used from the reserve of another master than redis %d",
				 key, (long long) lt_holds[hold].given.fence, master);
	if (taken && is_here && counter_of(key) < lt_holds[hold].given.fence)
		sim_fail("fence", "%s: token %lld is used from the reserve, and the counter has %lld",
				 key, (long long) lt_holds[hold].given.fence, (long long) counter_of(key));
	return taken;
}

/* ----------
 * What the worker does
 * ----------
 */

/* Whoever has a key that is taken away by force. */
static void
note_robbed(const char *key)
{
	const Version *row = row_of(key);

	if (row == NULL)
		return;
	redis_note_robbed(text_of(&row->cell[COL_OWNER - 1]));
	for (const Version *v = next_committed(TABLE_SHARES, NULL); v != NULL;
		 v = next_committed(TABLE_SHARES, v))
		if (is_read_share(v, key))
			redis_note_robbed(text_of(&v->cell[COL_SHARE_OWNER - 1]));
}

/* As a run of it has left it whose transaction has failed. */
static void
spoil_results(StoreOp *op)
{
	op->answer.value = STORE_VALUE_LOCK;
	op->answer.ttl_ms = 77777;
	op->answer.fence = 1;
	op->answer.count = 7;
	strlcpy(op->answer.holder, "somebody", sizeof(op->answer.holder));
	strlcpy(op->answer.digest, "something", sizeof(op->answer.digest));
}

/*
 * check_lifetime --- the row counts for as long as its session, or one that reads beside others,
 * believes to have the lock
 */
static void
check_lifetime(LockTables *tables, const StoreOp *op, const char *key)
{
	/* Looked at first: a worker that is stopped meanwhile must not make it shorter. */
	int64		left_ms = entry_left_ms(&tables->entry[IN_ROWS]);
	int64		until = server_clock() + left_ms * SIM_MS;

	for (int i = 0; i < lt_table->max_locks; i++)
		if (lt_holds[i].claim.owner == op->owner && lt_holds[i].claim.store == STORE_TABLE &&
			(lt_holds[i].state == HOLD_HELD || lt_holds[i].state == HOLD_HANDED) &&
			lt_deadline(i) > until)
			sim_fail("held without a lock",
					 "%s is held for another %.3f ms; its row counts for %.3f ms", key,
					 (lt_deadline(i) - server_clock()) / 1000.0,
					 (until - server_clock()) / 1000.0);
}

extern int64 __real_request_ttl_ms(const LockTerms *terms);
extern int64 __wrap_request_ttl_ms(const LockTerms *terms);

/* By what time the deadline is counted, the store has the lock at least. */
int64
__wrap_request_ttl_ms(const LockTerms *terms)
{
	int64		ttl_ms = __real_request_ttl_ms(terms);

	if (ttl_ms < terms->lease_ms)
		sim_fail("held without a lock", "a lease of %d ms is asked for as one of %d ms",
				 (int) terms->lease_ms, (int) ttl_ms);
	return ttl_ms;
}

extern int64 __real_lt_pending_create(const LrHold *h, StoreId store);
extern int64 __wrap_lt_pending_create(const LrHold *h, StoreId store);

/* In a cluster a create that was not answered may still run, wherever its slot is by now. */
int64
__wrap_lt_pending_create(const LrHold *h, StoreId store)
{
	int64		until = __real_lt_pending_create(h, store);

	if (until == 0 && h->not_after != 0 && sim_config.cluster)
		sim_fail("left behind", "a create of %s may still run, and nobody waits for it",
				 lt_keys[h->key].name);
	return until;
}

extern void __real_rows_execute(LockTables *tables, StoreOp *op);
extern void __wrap_rows_execute(LockTables *tables, StoreOp *op);

void
__wrap_rows_execute(LockTables *tables, StoreOp *op)
{
	char		key[LR_NAME_MAX + 1];

	if (lr_has_fallback())
		history_parts();
	spoil_results(op);
	__real_rows_execute(tables, op);
	if (sim_config.told)
		return;
	snprintf(key, sizeof(key), "%.*s", op->name_len, op->name);
	if (op->outcome == STORE_BUSY && op->answer.holder[0] == '\0')
		sim_fail("wrong answer", "%s is said to be busy, and nobody has it", key);
	if ((op->kind == STORE_SET || op->kind == STORE_RENEW) && op->outcome == STORE_OK &&
		op->keep_ms == 0)
		check_lifetime(tables, op, key);
	sim_trace("table: operation %d on %s (%d) of %llu: outcome %d", op->kind, key,
			  op->lock_kind, (unsigned long long) op->owner, op->outcome);
	if (op->kind == STORE_FORCE && op->outcome == STORE_OK)
		note_robbed(key);
}
