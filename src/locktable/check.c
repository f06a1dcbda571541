/*-------------------------------------------------------------------------
 *
 * check.c
 *	  The lock table: checks of its consistency, in builds with assertions only.
 *
 * What the other files keep true of keys, holds, queues, slots and counters is stated
 * here a second time, as far as a key shows it at one moment.  lt_unlock() and the like
 * check a partition before they release its lock.  Each session checks its own holds at
 * the end of its transactions and at its end.  Counters over all partitions can only be
 * compared while no process changes anything: the simulator does that, between two
 * steps.
 *
 * The checks only read, and know no store: whether a store has a lock that is held here
 * is not checked.  Nothing here raises, allocates or waits.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/locktable/check.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "storage/ipc.h"

#include "locktable/locktable_int.h"
#include "settings.h"

#ifdef USE_ASSERT_CHECKING

/* At most so many keys of a partition are checked after each change. */
#define KEYS_AT_ONCE		256

const char *const lt_state_names[] = {
	"free", "waiting", "held", "releasing", "handed", "lost", "orphan", "owed"
};

static char check_text[512];

/*
 * check_says --- what is wrong, in memory that the next call uses again
 */
static const char *check_says(const char *format,...) pg_attribute_printf(1, 2);

static const char *
check_says(const char *format,...)
{
	va_list		args;

	va_start(args, format);
	vsnprintf(check_text, sizeof(check_text), format, args);
	va_end(args);
	return check_text;
}

/* For "%.*s": as much of a name as fits. */
#define NAME(key)	(int) Min((key)->name_len, 100), (key)->name

/* Can it be the index of a key or of a hold? */
static bool
is_index(LrIndex i)
{
	return i >= 0 && i < lt_table->max_locks;
}

static bool
is_session(LrIndex session)
{
	return session >= 0 && session < lt_table->nsessions;
}

/* ----------
 * A hold of a key
 * ----------
 */

static const char *
check_scopes(LrIndex hold)
{
	const LrHold *h = &lt_holds[hold];

	for (int i = 0; i < SCOPE_COUNT; i++)
	{
		const ScopeHold *part = &h->scope[i];

		if (part->count < 0 || (i == SCOPE_XACT && part->count > 1))
			return check_says("hold %d has the count %d in scope %d", hold, part->count, i);
		if (part->count > 0 && part->lease_ms <= 0 && h->state != HOLD_OWED)
			return check_says("hold %d has no lease in scope %d", hold, i);
	}
	return NULL;
}

static bool
has_scopes(const LrHold *h)
{
	return h->scope[SCOPE_SESSION].count > 0 || h->scope[SCOPE_XACT].count > 0;
}

/*
 * check_hold_state --- does a hold have the session and the scopes that fit its state?
 */
static const char *
check_hold_state(LrIndex hold)
{
	const LrHold *h = &lt_holds[hold];
	const LrWait *w;
	const LrCount *count;

	switch (h->state)
	{
		case HOLD_HELD:
		case HOLD_RELEASING:
		case HOLD_LOST:
			if (!is_session(h->session) || !has_scopes(h))
				return check_says("hold %d is %s, and nobody has it", hold,
								  lt_state_names[h->state]);
			if (h->state == HOLD_LOST && h->as.lost.reason == LOST_NOT)
				return check_says("hold %d was lost for no reason", hold);
			return NULL;
		case HOLD_HANDED:
			if (!is_session(h->session) || has_scopes(h) ||
				lt_handed_lease_ms(h) <= 0)
				return check_says("hold %d was handed over on no terms", hold);
			w = lt_wait_of(h->session);
			if (w->state != WAIT_HANDED || w->handed != hold)
				return check_says("hold %d was handed to session %d, which does not wait for it",
								  hold, h->session);
			return NULL;
		case HOLD_ORPHAN:
			if (h->session != LR_NONE || has_scopes(h))
				return check_says("orphan %d belongs to somebody", hold);
			if (h->traces == 0 || h->lasts == 0)
				return check_says("orphan %d is nowhere, or for ever", hold);
			count = &h->as.count;
			if (h->given.owed && (count->sent < 0 || (count->sent > 0 && count->first_at == 0)))
				return check_says("orphan %d was asked for %d times, first at " INT64_FORMAT,
								  hold, count->sent, count->first_at);
			return NULL;
		case HOLD_OWED:
			if (!is_session(h->session) || !has_scopes(h) || !h->given.owed || h->given.amount <= 0 ||
				h->traces != 0)
				return check_says("nobody owes %d, or nothing", hold);
			return NULL;
		default:
			return check_says("hold %d is %s", hold, lt_state_names[h->state]);
	}
}

/*
 * check_hold_watched --- will the watchdog look at the hold, and in time?
 */
static const char *
check_hold_watched(LrIndex hold)
{
	const LrHold *h = &lt_holds[hold];

	if (h->claim.owner == 0)
		return check_says("hold %d is %s without an owner", hold, lt_state_names[h->state]);
	if ((lt_is_had(h) || h->state == HOLD_RELEASING) &&
		(h->traces & STORE_BIT(h->claim.store)) == 0)
		return check_says("hold %d is %s in store %d, and has no trace there", hold,
						  lt_state_names[h->state], h->claim.store);
	if (h->state == HOLD_HELD &&
		lt_read_due(hold, h->claim.store) > lr_later(lt_deadline(hold), lr_now()))
		return check_says("hold %d is due after its lease has ended", hold);
	if (lt_is_left(h))
		for (int s = 0; s < STORE_COUNT; s++)
			if ((h->traces & STORE_BIT(s)) != 0 && lt_read_due(hold, s) >= LR_NEVER)
				return check_says("hold %d is %s, and never due in store %d", hold,
								  lt_state_names[h->state], s);
	return NULL;
}

/* ----------
 * A key
 * ----------
 */

/*
 * check_holds --- the list of the holds of a key, and each of them
 */
static const char *
check_holds(LrIndex k)
{
	const LrKey *key = &lt_keys[k];
	LrIndex		prev = LR_NONE;
	int			n = 0;

	for (LrIndex i = key->first_hold; i != LR_NONE; i = lt_holds[i].next)
	{
		if (!is_index(i) || ++n > lt_table->max_locks)
			return check_says("the holds of %.*s have no end", NAME(key));
		if (lt_holds[i].key != k)
			return check_says("hold %d of %.*s belongs to another key", i, NAME(key));
		if (lt_holds[i].prev != prev)
			return check_says("the holds of %.*s have a broken link at %d", NAME(key), i);
		if (!kindset_has(key->hold_kinds, lt_holds[i].kind))
			return check_says("hold %d of %.*s is of a kind that is not noted", i, NAME(key));
		prev = i;
		CHECK(check_hold_state(i));
		CHECK(check_scopes(i));
		CHECK(check_hold_watched(i));
	}
	return NULL;
}

/*
 * check_list --- the sessions that wait for a key in the queue of this server, or in the
 * order of the store: links and states
 */
static const char *
check_list(LrIndex k, const LrList *list, WaitState state, int *n)
{
	const LrKey *key = &lt_keys[k];
	LrIndex		prev = LR_NONE;

	for (LrIndex s = list->head; s != LR_NONE; s = lt_wait_of(s)->next)
	{
		const LrWait *w;

		if (!is_session(s) || ++*n > lt_table->nsessions)
			return check_says("a list of %.*s has no end", NAME(key));
		w = lt_wait_of(s);
		if (w->prev != prev)
			return check_says("a list of %.*s has a broken link at %d", NAME(key), s);
		if (w->state != state || w->key != k)
			return check_says("session %d is in a list of %.*s and does not wait for it so", s,
							  NAME(key));
		prev = s;
	}
	if (list->tail != prev)
		return check_says("a list of %.*s ends with session %d, not %d", NAME(key), prev,
						  list->tail);
	return NULL;
}

/*
 * check_place --- a session that waits in the order of the store
 */
static const char *
check_place(const LrKey *key, LrIndex s)
{
	const LrWait *w = lt_wait_of(s);

	if (!lr_kind(w->terms.kind)->placed)
		return check_says("session %d is among the places of %.*s and has none", s,
						  NAME(key));
	if (w->place.standing == STANDING_PLACELESS &&
		(w->asked.claim.owner != 0 || w->asked.trying))
		return check_says("session %d has no place of %.*s, and keeps or asks for one", s,
						  NAME(key));
	if (w->place.standing == STANDING_PLACELESS && !lt_has_ordered_hold(key))
		return check_says("session %d has no place of %.*s, nor will it be passed on", s,
						  NAME(key));
	return NULL;
}

/*
 * check_places --- those sessions, and how many of them are in line and have no place
 */
static const char *
check_places(const LrKey *key)
{
	int			lined = 0;
	int			placeless = 0;
	bool		in_front = false;

	for (LrIndex s = key->places.list.head; s != LR_NONE; s = lt_wait_of(s)->next)
	{
		CHECK(check_place(key, s));
		if (!lr_kind(lt_wait_of(s)->terms.kind)->passing && !key->ordered)
			return check_says("session %d has place of %.*s in wrong order", s, NAME(key));
		lined += lt_wait_of(s)->place.standing == STANDING_LINED;
		in_front |= lt_wait_of(s)->place.standing == STANDING_LINED && lt_wait_of(s)->in_front;
		placeless += lt_wait_of(s)->place.standing == STANDING_PLACELESS;
	}
	if (lined > 0 && !in_front)
		return check_says("nobody in line for %.*s may ask", NAME(key));
	if (key->places.nlined != lined || key->places.nplaceless != placeless)
		return check_says("%d sessions are in line for %.*s, and %d have no place: it knows of %d and %d",
						  lined, NAME(key), placeless, key->places.nlined,
						  key->places.nplaceless);
	return NULL;
}

/*
 * check_queue --- does the front have the sessions that queue.c says?
 */
static const char *
check_queue(const LrKey *key)
{
	KindSet		excluded = 0;
	bool		in_front = true;

	for (LrIndex s = key->queue.list.head; s != LR_NONE; s = lt_wait_of(s)->next)
	{
		KindId		kind = lt_wait_of(s)->terms.kind;

		if (!kindset_has(key->queue.kinds, kind))
			return check_says("session %d waits for %.*s as kind %d, which is not noted", s,
							  NAME(key), kind);
		if (lr_kind(kind)->placed && key->ordered)
			return check_says("session %d queues for %.*s in wrong order", s, NAME(key));
		in_front = in_front && !kindset_has(excluded, kind);
		if (lt_wait_of(s)->in_front != in_front)
			return check_says("session %d is %sin front of %.*s, and does not know", s,
							  in_front ? "" : "not ", NAME(key));
		excluded |= lr_kind(kind)->excludes;
		if (key->queue.scarce && lr_kind(kind)->one_asks)
			kindset_add(&excluded, kind);
	}
	return NULL;
}

/*
 * check_waits --- are all that wait for the key in its lists, and counted?
 */
static const char *
check_waits(LrIndex k, int listed)
{
	const LrKey *key = &lt_keys[k];
	int			waiting = 0;
	int			in_lists = 0;

	if (listed == 0 && key->nwaiting == 0)
		return NULL;
	for (LrIndex s = 0; s < lt_table->nsessions; s++)
		if (lt_wait_of(s)->state != WAIT_NONE && lt_wait_of(s)->key == k)
		{
			waiting++;
			in_lists += lt_is_waiting(lt_wait_of(s));
		}
	if (waiting != key->nwaiting || in_lists != listed)
		return check_says("%d sessions wait for %.*s, %d of them in its lists: it knows of %d and %d",
						  waiting, NAME(key), in_lists, key->nwaiting, listed);
	return NULL;
}

/*
 * check_entry --- is the key in the index, once, and does somebody hold or await it?
 */
static const char *
check_entry(LrIndex k)
{
	const LrKey *key = &lt_keys[k];

	if (lt_find_key(key->name, key->name_len, key->hash) != k)
		return check_says("%.*s is not found by its name", NAME(key));
	if (key->first_hold == LR_NONE && key->nwaiting == 0)
		return check_says("nobody has or awaits %.*s, and it has an entry", NAME(key));
	return NULL;
}

const char *
lt_check_key(LrIndex k)
{
	const LrKey *key = &lt_keys[k];
	int			listed = 0;

	CHECK(check_entry(k));
	CHECK(check_holds(k));
	CHECK(check_list(k, &key->queue.list, WAIT_QUEUED, &listed));
	CHECK(check_list(k, &key->places.list, WAIT_PLACED, &listed));
	CHECK(check_queue(key));
	CHECK(check_places(key));
	return check_waits(k, listed);
}

/*
 * lt_check_wait --- the wait of a session, and the hold that it waits with
 *
 * It keeps that hold until it knows that it was handed another one, or that it failed.
 */
const char *
lt_check_wait(LrIndex s)
{
	const LrWait *w = lt_wait_of(s);
	const LrHold *h;
	const LrKey *key;

	if (w->state == WAIT_NONE)
		return w->asleep || w->in_front || w->asked.claim.owner != 0 ?
			check_says("session %d waits for nothing, and is counted", s) : NULL;
	key = &lt_keys[w->key];
	h = &lt_holds[w->hold];
	if (h->state != HOLD_WAITING || h->session != s || h->key != w->key ||
		h->claim.owner != 0)
		return check_says("session %d waits for %.*s with hold %d, which is %s", s, NAME(key),
						  w->hold, lt_state_names[h->state]);
	if (w->early && (w->state != WAIT_HANDED || !lr_kind(h->kind)->placed))
		return check_says("session %d was handed no lock of %.*s, and early", s, NAME(key));
	if (w->asked.claim.owner != 0 &&
		((w->state == WAIT_HANDED && !w->early) || !lr_kind(h->kind)->announced))
		return check_says("session %d keeps owner " UINT64_FORMAT " of %.*s in the store",
						  s, w->asked.claim.owner, NAME(key));
	if (w->in_front && !lt_is_waiting(w))
		return check_says("session %d is in front of %.*s and in no queue", s, NAME(key));
	return NULL;
}

/* ----------
 * Called by the code of the lock table
 * ----------
 */

static void
check_insist(const char *says, const char *when)
{
	static char text[sizeof(check_text) + 64];

	if (says == NULL)
		return;
	snprintf(text, sizeof(text), "lock table, %s: %s", when, says);
#if PG_VERSION_NUM >= 160000
	ExceptionalCondition(text, __FILE__, __LINE__);
#else
	ExceptionalCondition(text, "FailedAssertion", __FILE__, __LINE__);
#endif
}

void
lt_check_change(LWLock *lock)
{
	int			partition = 0;
	int			nkeys = 0;

	while (lt_lwlock(partition) != lock)
		partition++;
	for (int b = partition; b < lt_table->nbuckets; b += LT_PARTITIONS)
		for (LrIndex k = lt_buckets[b]; k != LR_NONE && nkeys < KEYS_AT_ONCE;
			 k = lt_keys[k].next, nkeys++)
			check_insist(lt_check_key(k), "after a change");
	for (LrIndex s = 0; s < lt_table->nsessions; s++)
		if (lt_wait_of(s)->state != WAIT_NONE &&
			lt_keys[lt_wait_of(s)->key].hash % LT_PARTITIONS == partition)
			check_insist(lt_check_wait(s), "after a change");
}

/* ----------
 * Counters over all partitions
 * ----------
 */

/*
 * check_pools --- is each slot that was ever used either in use, or once in the free
 * list?  Likewise for keys
 */
static const char *
check_pools(int nholds)
{
	int			free = 0;
	int			nkeys = 0;
	int			used = lt_used_slots();
	int			used_keys = (int) pg_atomic_read_u32(&lt_table->key_pool.nused);

	for (LrIndex i = lt_table->hold_pool.first_free; i != LR_NONE; i = lt_holds[i].next)
		if (!is_index(i) || lt_holds[i].state != HOLD_FREE || ++free > used)
			return check_says("hold %d is among the free ones", i);
	if (free + nholds != used || used > lt_table->max_locks)
		return check_says("of %d holds %d are free and %d are not", used, free, nholds);
	for (LrIndex i = lt_table->key_pool.first_free; i != LR_NONE; i = lt_keys[i].next)
		if (++nkeys > used_keys)
			return check_says("the free keys have no end");
	for (int b = 0; b < lt_table->nbuckets; b++)
		for (LrIndex i = lt_buckets[b]; i != LR_NONE; i = lt_keys[i].next)
			if (++nkeys > used_keys)
				return check_says("the keys have no end");
	if (nkeys != used_keys || used_keys > lt_table->max_locks)
		return check_says("of %d keys %d are there", used_keys, nkeys);
	return NULL;
}

/*
 * check_session_numbers --- the lost holds of each session, and the sessions asleep
 */
static const char *
check_session_numbers(void)
{
	int			asleep = 0;

	for (LrIndex s = 0; s < lt_table->nsessions; s++)
	{
		uint32		lost = 0;
		uint32		counted = pg_atomic_read_u32(&lt_sessions[s].nlost);

		if (lt_sessions[s].pid == 0)
			continue;
		for (LrIndex i = 0, n = lt_used_slots(); i < n; i++)
			if (lt_holds[i].state == HOLD_LOST && lt_holds[i].session == s)
				lost++;
		if (lost != counted)
			return check_says("session %d has lost %u locks, its counter says %u", s, lost,
							  counted);
		if (lt_wait_of(s)->state != WAIT_NONE && lt_wait_of(s)->asleep)
			asleep++;
	}
	if (asleep != (int) pg_atomic_read_u32(&lt_table->nwaiters))
		return check_says("%d sessions wait, the counter says %d", asleep,
						  (int) pg_atomic_read_u32(&lt_table->nwaiters));
	return NULL;
}

const char *
lt_check_counts(void)
{
	int			rows = 0;
	int			nholds = 0;

	for (LrIndex i = 0, n = lt_used_slots(); i < n; i++)
		if (lt_holds[i].state != HOLD_FREE)
		{
			nholds++;
			rows += lt_hold_rows(&lt_holds[i]);
		}
	for (LrIndex s = 0; s < lt_table->nsessions; s++)
		rows += lt_sessions[s].stocked_rows;
	if (rows != (int) pg_atomic_read_u32(&lt_table->nrows))
		return check_says("there are %d rows, the counter says %d", rows,
						  (int) pg_atomic_read_u32(&lt_table->nrows));
	CHECK(check_pools(nholds));
	return check_session_numbers();
}

/*
 * lt_check_due_times --- will the watchdog find all that is due?
 *
 * A lock that has to move to the other store must be due there.
 */
const char *
lt_check_due_times(void)
{
	StoreId		current = current_store();

	for (LrIndex i = 0, n = lt_used_slots(); i < n; i++)
	{
		for (int s = 0; s < STORE_COUNT; s++)
			if (lr_has_store(s) && lt_holds[i].claim.owner == 0 && lt_read_due(i, s) < LR_NEVER)
				return check_says("hold %d is %s, and due in store %d", i,
								  lt_state_names[lt_holds[i].state], s);
		if (lt_holds[i].state == HOLD_HELD && lt_is_wanted_in(&lt_holds[i], current) &&
			lt_read_due(i, current) >= LR_NEVER)
			return check_says("hold %d is not due to be moved to store %d", i, current);
	}
	return NULL;
}

/* ----------
 * Holds of this session
 * ----------
 */

/*
 * check_own_hold --- may this session have the hold after a transaction, or after its
 * own end ("ended")?  Partition lock held
 */
static const char *
check_own_hold(LrIndex hold, bool ended)
{
	const LrHold *h = &lt_holds[hold];

	if (ended || (h->state != HOLD_HELD && h->state != HOLD_LOST))
		return check_says("session %d still has hold %d, which is %s", LrMyProcNumber, hold,
						  lt_state_names[h->state]);
	if (h->scope[SCOPE_XACT].count > 0 || h->renewal.committing)
		return check_says("hold %d is the transaction's, which has ended", hold);
	return NULL;
}

static bool
is_own(const LrHold *h)
{
	return h->session == LrMyProcNumber && h->state != HOLD_FREE;
}

/*
 * check_own --- check all holds of this session, which other processes can only lose
 *
 * While another process writes a slot, it may look like ours, so we look again under
 * the partition lock.
 */
static const char *
check_own(bool ended)
{
	uint32		before = pg_atomic_read_u32(&lt_sessions[LrMyProcNumber].nlost);
	uint32		lost = 0;

	if (lt_wait_of(LrMyProcNumber)->state != WAIT_NONE)
		return check_says("session %d still waits", LrMyProcNumber);
	for (LrIndex i = 0, n = lt_used_slots(); i < n; i++)
	{
		const LrHold *h = &lt_holds[i];
		const char *says;
		LWLock	   *lock;

		if (!is_own(h))
			continue;
		lock = lt_lwlock(lt_key_of(i)->hash % LT_PARTITIONS);
		LWLockAcquire(lock, LW_SHARED);
		says = is_own(h) ? check_own_hold(i, ended) : NULL;
		if (is_own(h) && h->state == HOLD_LOST)
			lost++;
		LWLockRelease(lock);
		CHECK(says);
	}

	/* A process that loses a hold first marks it and then counts it. */
	if (before > lost || (ended && before != 0))
		return check_says("session %d has lost %u locks, its counter said %u", LrMyProcNumber,
						  lost, before);
	return NULL;
}

/*
 * lt_check_transaction_end --- see locktable.h
 *
 * Not after FATAL, which can interrupt an acquire: the end of the session releases what
 * the acquire has left.
 */
void
lt_check_transaction_end(void)
{
	if (!proc_exit_inprogress)
		check_insist(check_own(false), "at the end of a transaction");
}

void
lt_check_session_end(void)
{
	check_insist(check_own(true), "at the end of a session");
}

#endif							/* USE_ASSERT_CHECKING */
