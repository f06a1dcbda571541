/*-------------------------------------------------------------------------
 *
 * table_selftest.c
 *	  Does the lock table's check of itself see what is wrong?  Each case makes a
 *	  small table by the product's functions, which is good, and spoils one thing.
 *
 * Run by checkers/selftest.c, in the copy of the product that observes, which acts
 * as one session after the other.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/workload/table_selftest.c
 *
 *-------------------------------------------------------------------------
 */
#include "workload.h"

#include "../../../src/locktable/locktable_int.h"
#include "../../../src/settings.h"

extern const char *sim_table_case(int number, bool spoil, const char **name,
								  const char **expected);

/* Of key a: 2 has it, 3 and 4 wait.  b: 2 has lost it.  c: 5 left it behind. */
static LrIndex held,
			lost,
			orphan;

/* Of key d: 5 has handed it to 6.  e: 7 has it in both scopes. */
static LrIndex handed,
			both;

static LrIndex waiting;			/* of 3 */

/* ----------
 * The table
 * ----------
 */

static void
act_as(int slot)
{
	MyProc = &shared_root->proc_global.allProcs[slot];
#if PG_VERSION_NUM >= 170000
	MyProcNumber = slot;
#endif
	MyProcPid = 100 + slot;
	MyLatch = &MyProc->procLatch;
}

static LockTerms
terms(LockScope scope)
{
	LockTerms	t;

	memset(&t, 0, sizeof(t));
	t.kind = KIND_REENTRANT;
	t.scope = scope;
	t.lease_ms = 30000;
	t.renewed = true;
	return t;
}

static LrIndex
enqueue(int slot, const char *key)
{
	LockTerms	t = terms(SCOPE_SESSION);
	LrName		name;
	LrIndex		hold;
	KindId		other;

	memset(&name, 0, sizeof(name));
	name.len = snprintf(name.data, sizeof(name.data), "%s", key);
	name.hash = lr_name_hash(name.data, name.len);
	act_as(slot);
	if (lt_enqueue(&name, &t, false, &hold, &other) != ENQUEUED)
		sim_fail("self-test", "%s cannot be awaited", key);
	return hold;
}

static LrIndex
take(int slot, const char *key, bool renewed)
{
	static uint64 owner = 0;
	StoreOp		create = {.store = STORE_REDIS,.owner = ++owner,.sent.at = lr_now()};
	LockTerms	t = terms(SCOPE_SESSION);
	LrIndex		hold = enqueue(slot, key);

	t.renewed = renewed;
	if (lt_grant(hold, &create, 0, &t) != GRANTED)
		sim_fail("self-test", "%s cannot be granted", key);
	return hold;
}

/* Two holds and two keys which were in use. */
static void
leave_free(void)
{
	LrIndex		first = enqueue(5, "f");
	LrIndex		second = enqueue(7, "g");

	lt_give_up(second, NULL, 0);
	act_as(5);
	lt_give_up(first, NULL, 0);
}

static void
make_table(void)
{
	StoreOp		op = {.store = STORE_REDIS,.outcome = STORE_GONE};
	ScopeHold	part;
	HoldView	view;
	LrIndex		other;
	int64		look_again;
	StoreId		store;

	act_as(WATCHDOG);
	lt_watchdog_enter();
	for (int slot = 2; slot < 8; slot++)
	{
		act_as(slot);
		lt_session_enter();
	}
	held = take(2, "a", true);
	waiting = enqueue(3, "a");
	(void) enqueue(4, "a");
	lost = take(2, "b", false);
	op.owner = lt_owner(lost);
	lt_lose(lost, &op);
	orphan = enqueue(5, "c");
	op.owner = 1000;
	lt_give_up(orphan, &op, 0);
	handed = take(5, "d", true);
	other = enqueue(6, "d");
	(void) lt_turn(&other, LR_NEVER, &look_again, &store);
	act_as(5);
	if (lt_begin_release(handed, false, &view) != RELEASE_HANDED_OVER)
		sim_fail("self-test", "d is not handed over");
	both = take(7, "e", true);
	part = lt_holds[both].scope[SCOPE_SESSION];
	(void) lt_set_scope(both, SCOPE_XACT, &part, 0, 0);
	leave_free();
}

static const char *
look(void)
{
	for (int b = 0; b < lt_table->nbuckets; b++)
		for (LrIndex k = lt_buckets[b]; k != LR_NONE; k = lt_keys[k].next)
			CHECK(lt_check_key(k));
	for (LrIndex s = 0; s < lt_table->nsessions; s++)
		CHECK(lt_check_wait(s));
	CHECK(lt_check_counts());
	return lt_check_due_times();
}

/* ----------
 * What is spoilt
 * ----------
 */

static LrKey *
key_of(LrIndex hold)
{
	return lt_key_of(hold);
}

static void
queue_link(void)
{
	lt_wait_of(4)->prev = LR_NONE;
}

static void
queue_tail(void)
{
	key_of(held)->queue.list.tail = 3;
}

static void
queue_end(void)
{
	lt_wait_of(4)->next = 99;
}

static void
queue_kinds(void)
{
	key_of(held)->queue.kinds = 0;
}

static void
queue_of_another(void)
{
	lt_wait_of(4)->key = lt_holds[lost].key;
}

static void
front_unknown(void)
{
	lt_wait_of(3)->in_front = false;
}

static void
front_too_long(void)
{
	lt_wait_of(4)->in_front = true;
}

static void
hold_of_another(void)
{
	lt_holds[held].key = lt_holds[lost].key;
}

static void
hold_of_nobody(void)
{
	lt_holds[held].scope[SCOPE_SESSION].count = 0;
}

static void
hold_without_end(void)
{
	lt_holds[held].next = lt_table->max_locks;
}

static void
hold_link(void)
{
	lt_holds[held].prev = both;
}

static void
hold_kinds(void)
{
	key_of(held)->hold_kinds = 0;
}

static void
xact_count(void)
{
	lt_holds[both].scope[SCOPE_XACT].count = 2;
}

static void
no_lease(void)
{
	lt_holds[held].scope[SCOPE_SESSION].lease_ms = 0;
}

static void
lost_without_reason(void)
{
	lt_holds[lost].as.lost.reason = LOST_NOT;
}

static void
orphan_of_somebody(void)
{
	lt_holds[orphan].session = 3;
}

static void
orphan_nowhere(void)
{
	lt_holds[orphan].traces = 0;
}

static void
orphan_for_ever(void)
{
	lt_holds[orphan].lasts = 0;
}

static void
orphan_never_due(void)
{
	pg_atomic_write_u64(&lt_due[STORE_REDIS][orphan], 0);
}

static void
lost_never_due(void)
{
	lt_holds[lost].traces = STORE_BIT(STORE_REDIS);
	pg_atomic_write_u64(&lt_due[STORE_REDIS][lost], 0);
}

static void
no_owner(void)
{
	lt_holds[held].claim.owner = 0;
}

static void
no_trace(void)
{
	lt_holds[held].traces = 0;
}

static void
due_late(void)
{
	pg_atomic_write_u64(&lt_due[STORE_REDIS][held],
						(uint64) (lt_deadline(held) + 1));
}

static void
handed_to_nobody(void)
{
	lt_holds[handed].session = 2;
}

static void
handed_without_lease(void)
{
	lt_wait_of(lt_holds[handed].session)->terms.lease_ms = 0;
}

static void
waiting_number(void)
{
	key_of(held)->nwaiting = 1;
}

static void
wrong_bucket(void)
{
	LrKey	   *key = key_of(orphan);

	key->hash += LT_PARTITIONS / 2;
}

static void
unused_key(void)
{
	key_of(orphan)->first_hold = LR_NONE;
}

static void
waiting_with_another(void)
{
	lt_wait_of(3)->hold = both;
}

static void
asleep_awake(void)
{
	lt_wait_of(2)->asleep = true;
}

static void
rows(void)
{
	pg_atomic_fetch_add_u32(&lt_table->nrows, 1);
}

static void
lost_number(void)
{
	pg_atomic_fetch_sub_u32(&lt_sessions[2].nlost, 1);
}

static void
waiters_number(void)
{
	pg_atomic_fetch_add_u32(&lt_table->nwaiters, 1);
}

static void
hold_is_missing(void)
{
	lt_table->hold_pool.first_free = lt_holds[lt_table->hold_pool.first_free].next;
}

static void
used_hold_is_free(void)
{
	lt_holds[lt_table->hold_pool.first_free].next = held;
}

static void
key_is_missing(void)
{
	lt_table->key_pool.first_free = lt_keys[lt_table->key_pool.first_free].next;
}

static void
waiting_is_due(void)
{
	pg_atomic_write_u64(&lt_due[STORE_REDIS][waiting], 1);
}

/* This server has no table, and so no due times there. */
static void
not_moved(void)
{
	static pg_atomic_uint64 due[8];

	lt_due[STORE_TABLE] = due;
	lt_holds[held].claim.store = STORE_TABLE;
	lt_holds[held].traces |= STORE_BIT(STORE_TABLE);
	pg_atomic_write_u64(&lt_due[STORE_TABLE][held], 1);
	pg_atomic_write_u64(&lt_due[STORE_REDIS][held], 0);
}

static void
ends_with_holds(void)
{
	act_as(2);
	lt_check_session_end();
}

static void
transaction_ends_with_holds(void)
{
	act_as(7);
	lt_check_transaction_end();
}

static const struct
{
	const char *name;
	void		(*spoil) (void);
	const char *expected;		/* in what is said */
}			cases[] = {
	{"a link of a queue", queue_link, "has a broken link"},
	{"the tail of a queue", queue_tail, "ends with session 4, not 3"},
	{"a queue without end", queue_end, "has no end"},
	{"the kinds of a queue", queue_kinds, "as kind"},
	{"one in the queue of another key", queue_of_another, "does not wait for it"},
	{"in front without knowing", front_unknown, "does not know"},
	{"a front that is too long", front_too_long, "is not in front"},
	{"a hold of another key", hold_of_another, "belongs to another key"},
	{"held by nobody", hold_of_nobody, "nobody has it"},
	{"holds without end", hold_without_end, "have no end"},
	{"a link of holds", hold_link, "have a broken link"},
	{"the kinds of holds", hold_kinds, "of a kind that is not noted"},
	{"twice in a transaction", xact_count, "count 2"},
	{"no lease", no_lease, "no lease"},
	{"lost without a reason", lost_without_reason, "was lost for no reason"},
	{"an orphan of somebody", orphan_of_somebody, "belongs to somebody"},
	{"an orphan that is nowhere", orphan_nowhere, "is nowhere"},
	{"an orphan for ever", orphan_for_ever, "for ever"},
	{"an orphan that nobody gives back", orphan_never_due, "never due"},
	{"a loss that nobody gives back", lost_never_due, "never due"},
	{"no owner", no_owner, "without an owner"},
	{"no trace where it is held", no_trace, "no trace"},
	{"due after its end", due_late, "due after its lease"},
	{"handed to one who does not wait", handed_to_nobody, "does not wait for it"},
	{"handed over without a lease", handed_without_lease, "on no terms"},
	{"the number of those who wait", waiting_number, "of them in its lists"},
	{"an entry in a wrong bucket", wrong_bucket, "is not found by its name"},
	{"an entry of nobody", unused_key, "it has an entry"},
	{"waiting with another's hold", waiting_with_another, "with hold"},
	{"counted as asleep", asleep_awake, "is counted"},
	{"rows", rows, "rows, the counter says"},
	{"lost locks", lost_number, "has lost 1 locks, its counter says 0"},
	{"waiters", waiters_number, "sessions wait, the counter says"},
	{"a hold that is missing", hold_is_missing, "are free and"},
	{"a hold that is used and free", used_hold_is_free, "is among the free ones"},
	{"a key that is missing", key_is_missing, "keys"},
	{"waiting, and due", waiting_is_due, "is waiting, and due"},
	{"a hold that is not moved", not_moved, "not due to be moved"},
	{"the end of a session with holds", ends_with_holds, "still has hold"},
	{"the end of a transaction with holds", transaction_ends_with_holds,
	"is the transaction's"},
};

/*
 * sim_table_case --- one of the cases, or the good table; NULL: nothing is said
 */
const char *
sim_table_case(int number, bool spoil, const char **name, const char **expected)
{
	if (number >= (int) lengthof(cases))
	{
		*name = NULL;
		return NULL;
	}
	*name = cases[number].name;
	*expected = cases[number].expected;
	make_table();
	if (spoil)
		cases[number].spoil();
	return look();
}
