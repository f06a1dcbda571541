/*-------------------------------------------------------------------------
 *
 * check.c
 *	  The lock table: checks of its consistency, in builds with assertions only.
 *
 * What the other files keep true of keys, holds, queues, slots and counters is stated
 * here a second time, as far as a key shows it at one moment.  lt_unlock() and the like
 * check a partition before they release its lock.  check_counts.c compares several
 * partitions.
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

#include "locktable/check.h"

#ifdef USE_ASSERT_CHECKING


/* At most so many keys of a partition are checked after each change. */
#define KEYS_AT_ONCE		256

const char *const lt_state_names[] = {
	"free", "waiting", "held", "releasing", "handed", "lost", "orphan", "owed"
};

static char check_text[512];

const char *
lt_check_says(const char *format,...)
{
	va_list		args;

	va_start(args, format);
	vsnprintf(check_text, sizeof(check_text), format, args);
	va_end(args);
	return check_text;
}

/* For "%.*s": as much of a name as fits. */
#define NAME(key)	(int) Min((key)->name_len, 100), (key)->name

static bool
is_session(LrIndex session)
{
	return session >= 0 && session < lt_table->nsessions;
}

static LrIndex
check_first_of_bucket(uint32 hash)
{
	return lt_buckets[hash & (lt_table->nbuckets - 1)];
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
			return lt_check_says("hold %d has the count %d in scope %d", hold, part->count, i);
		if (part->count > 0 && part->lease_ms <= 0 && h->state != HOLD_OWED)
			return lt_check_says("hold %d has no lease in scope %d", hold, i);
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

	switch (h->state)
	{
		case HOLD_HELD:
		case HOLD_RELEASING:
		case HOLD_LOST:
			if (!is_session(h->session) || !has_scopes(h))
				return lt_check_says("hold %d is %s, and nobody has it", hold,
									 lt_state_names[h->state]);
			if ((h->state == HOLD_LOST) != (h->lost_reason != LOST_NOT))
				return lt_check_says("hold %d is %s, and was lost for reason %d", hold,
									 lt_state_names[h->state], h->lost_reason);
			return NULL;
		case HOLD_HANDED:
			if (!is_session(h->session) || has_scopes(h) || h->handed_lease_ms <= 0)
				return lt_check_says("hold %d was handed over on no terms", hold);
			w = lt_wait_of(h->session);
			if (w->state != WAIT_HANDED || w->handed != hold)
				return lt_check_says("hold %d was handed to session %d, which does not wait for it",
									 hold, h->session);
			return NULL;
		case HOLD_ORPHAN:
			if (h->session != LR_NONE || has_scopes(h))
				return lt_check_says("orphan %d belongs to somebody", hold);
			if (h->traces == 0 || h->ends_at == 0)
				return lt_check_says("orphan %d is nowhere, or for ever", hold);
			if (h->counts && (h->counts_sent < 0 || (h->counts_sent > 0 && h->counted_at == 0)))
				return lt_check_says("orphan %d was asked for %d times, first at " INT64_FORMAT,
									 hold, h->counts_sent, h->counted_at);
			return NULL;
		case HOLD_OWED:
			if (!is_session(h->session) || !has_scopes(h) || !h->counts || h->amount <= 0 ||
				h->traces != 0)
				return lt_check_says("nobody owes %d, or nothing", hold);
			return NULL;
		default:
			return lt_check_says("hold %d is %s", hold, lt_state_names[h->state]);
	}
}

/*
 * check_hold_watched --- will the watchdog look at the hold, and in time?
 */
static const char *
check_hold_watched(LrIndex hold)
{
	const LrHold *h = &lt_holds[hold];
	uint64		watched = pg_atomic_read_u64(&lt_leases[hold].owner);

	if (h->owner == 0)
		return lt_check_says("hold %d is %s without an owner", hold, lt_state_names[h->state]);
	if (watched != 0 && watched != h->owner)
		return lt_check_says("the watchdog looks after another owner of hold %d", hold);
	if (watched == 0 && h->state != HOLD_OWED &&
		(h->state != HOLD_LOST || h->traces != 0))
		return lt_check_says("the watchdog does not look after hold %d, which is %s", hold,
							 lt_state_names[h->state]);
	if ((h->state == HOLD_HELD || h->state == HOLD_HANDED || h->state == HOLD_RELEASING) &&
		(h->traces & STORE_BIT(h->store)) == 0)
		return lt_check_says("hold %d is %s in store %d, and has no trace there", hold,
							 lt_state_names[h->state], h->store);
	if (h->state == HOLD_HELD &&
		lt_read_due(hold, h->store) > lr_later(lt_deadline(hold), lr_now()))
		return lt_check_says("hold %d is due after its lease has ended", hold);
	if (h->state == HOLD_ORPHAN || h->state == HOLD_LOST)
		for (int s = 0; s < STORE_COUNT; s++)
			if ((h->traces & STORE_BIT(s)) != 0 && lt_read_due(hold, s) >= LR_NEVER)
				return lt_check_says("hold %d is %s, and never due in store %d", hold,
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
		if (!lt_is_index(i) || ++n > lt_table->max_locks)
			return lt_check_says("the holds of %.*s have no end", NAME(key));
		if (lt_holds[i].key != k || lt_holds[i].hash != key->hash)
			return lt_check_says("hold %d of %.*s belongs to another key", i, NAME(key));
		if (lt_holds[i].prev != prev)
			return lt_check_says("the holds of %.*s have a broken link at %d", NAME(key), i);
		if (!lt_has_kinds(key, KIND_BIT(lt_holds[i].kind)))
			return lt_check_says("hold %d of %.*s is of a kind that is not noted", i, NAME(key));
		prev = i;
		CHECK(check_hold_state(i));
		CHECK(check_scopes(i));
		CHECK(check_hold_watched(i));
	}
	return NULL;
}

/*
 * check_queue --- the sessions that wait for a key in the queue of this server: links,
 * states, kinds
 */
static const char *
check_queue(LrIndex k)
{
	const LrKey *key = &lt_keys[k];
	LrIndex		prev = LR_NONE;
	uint32		kinds = 0;
	int			n = 0;

	for (LrIndex s = key->queue_head; s != LR_NONE; s = lt_wait_of(s)->next)
	{
		const LrWait *w;

		if (!is_session(s) || ++n > lt_table->nsessions)
			return lt_check_says("the queue of %.*s has no end", NAME(key));
		w = lt_wait_of(s);
		if (w->prev != prev)
			return lt_check_says("the queue of %.*s has a broken link at %d", NAME(key), s);
		if (w->state != WAIT_QUEUED || w->key != k || w->hash != key->hash)
			return lt_check_says("session %d is in the queue of %.*s and does not wait for it", s,
								 NAME(key));
		kinds |= KIND_BIT(w->terms.kind);
		prev = s;
	}
	if (key->queue_tail != prev)
		return lt_check_says("the queue of %.*s ends with session %d, not %d", NAME(key), prev,
							 key->queue_tail);
	if ((kinds & ~key->queue_kinds) != 0)
		return lt_check_says("sessions wait for %.*s as kinds %x, which has %x", NAME(key), kinds,
							 key->queue_kinds);
	return NULL;
}

/*
 * check_places --- the sessions that wait for a key in the order of the store
 */
static const char *
check_places(LrIndex k)
{
	const LrKey *key = &lt_keys[k];
	LrIndex		prev = LR_NONE;
	int			n = 0;
	int			lined = 0;
	int			placeless = 0;

	for (LrIndex s = key->place_head; s != LR_NONE; s = lt_wait_of(s)->next)
	{
		const LrWait *w;

		if (!is_session(s) || ++n > lt_table->nsessions)
			return lt_check_says("the places of %.*s have no end", NAME(key));
		w = lt_wait_of(s);
		if (w->prev != prev)
			return lt_check_says("the places of %.*s have a broken link at %d", NAME(key), s);
		if (w->state != WAIT_PLACED || w->key != k || w->hash != key->hash || w->in_front ||
			!lr_kind(w->terms.kind)->placed)
			return lt_check_says("session %d is among the places of %.*s and has none", s,
								 NAME(key));
		if (w->told != SUB_NONE && w->told_as == 0)
			return lt_check_says("session %d is told of no place of %.*s", s, NAME(key));
		if (w->told_as != 0 && lt_find_place(key, w->told_as) != s)
			return lt_check_says("session %d is not found by its place of %.*s", s, NAME(key));
		if (w->standing == STANDING_PLACELESS && (w->kept.owner != 0 || w->told_as != 0 || w->trying))
			return lt_check_says("session %d has no place of %.*s, and keeps or asks for one", s,
								 NAME(key));
		if (w->standing == STANDING_PLACELESS && w->line_at == 0 && !lt_has_ordered_hold(key))
			return lt_check_says("session %d has no place of %.*s, nor will it be passed on", s,
								 NAME(key));
		lined += w->line_at != 0;
		placeless += w->standing == STANDING_PLACELESS;
		prev = s;
	}
	if (key->place_tail != prev)
		return lt_check_says("the places of %.*s end with session %d, not %d", NAME(key), prev,
							 key->place_tail);
	if (key->nlined != lined)
		return lt_check_says("%d sessions are in line for %.*s, which knows of %d", lined,
							 NAME(key), key->nlined);
	if (key->nplaceless != placeless)
		return lt_check_says("%d sessions have no place of %.*s, which knows of %d", placeless,
							 NAME(key), key->nplaceless);
	return NULL;
}

/*
 * check_front --- does the front have the sessions that queue.c says?
 */
static const char *
check_front(LrIndex k)
{
	const LrKey *key = &lt_keys[k];
	uint32		n[LT_MAX_KINDS] = {0};
	uint32		excluded = 0;
	LrIndex		s = key->queue_head;
	LrIndex		tail = LR_NONE;

	for (; s != LR_NONE && (excluded & KIND_BIT(lt_wait_of(s)->terms.kind)) == 0;
		 s = lt_wait_of(s)->next)
	{
		KindId		kind = lt_wait_of(s)->terms.kind;

		if (!lt_wait_of(s)->in_front)
			return lt_check_says("session %d is in front of %.*s and does not know", s, NAME(key));
		n[kind]++;
		excluded |= lr_kind(kind)->excludes;
		if (key->scarce && lr_kind(kind)->one_asks)
			excluded |= KIND_BIT(kind);
		tail = s;
	}
	if (key->front_tail != tail || memcmp(key->nfront, n, sizeof(n)) != 0)
		return lt_check_says("the front of %.*s ends with session %d, not %d", NAME(key), tail,
							 key->front_tail);
	for (; s != LR_NONE; s = lt_wait_of(s)->next)
		if (lt_wait_of(s)->in_front)
			return lt_check_says("session %d believes to be in front of %.*s", s, NAME(key));
	return NULL;
}

/*
 * check_waits --- are all that wait for the key in its lists, or counted?
 *
 * That the sessions in the lists wait for the key has been checked before.
 */
static const char *
check_waits(LrIndex k)
{
	const LrKey *key = &lt_keys[k];
	int			n[WAIT_FAILED + 1] = {0};
	int			queued = 0;
	int			placed = 0;

	if (key->queue_head == LR_NONE && key->place_head == LR_NONE && key->nhanded == 0 &&
		key->nfailed == 0)
		return NULL;
	for (LrIndex s = key->queue_head; s != LR_NONE; s = lt_wait_of(s)->next)
		queued++;
	for (LrIndex s = key->place_head; s != LR_NONE; s = lt_wait_of(s)->next)
		placed++;
	for (LrIndex s = 0; s < lt_table->nsessions; s++)
		if (lt_wait_of(s)->state != WAIT_NONE && lt_wait_of(s)->hash == key->hash &&
			lt_wait_of(s)->key == k)
			n[lt_wait_of(s)->state]++;
	if (n[WAIT_PLACED] != placed)
		return lt_check_says("%d sessions have a place of %.*s: it knows of %d",
							 n[WAIT_PLACED], NAME(key), placed);
	if (n[WAIT_QUEUED] != queued || n[WAIT_HANDED] != key->nhanded ||
		n[WAIT_FAILED] != key->nfailed)
		return lt_check_says("%d, %d and %d sessions wait for %.*s, have been handed it, have failed: it knows of %d, %d and %d",
							 n[WAIT_QUEUED], n[WAIT_HANDED], n[WAIT_FAILED], NAME(key), queued,
							 key->nhanded, key->nfailed);
	return NULL;
}

/*
 * check_entry --- is the key in the index, once, and does somebody hold or await it?
 */
static const char *
check_entry(LrIndex k)
{
	const LrKey *key = &lt_keys[k];
	int			n = 0;

	for (LrIndex i = check_first_of_bucket(key->hash); i != LR_NONE; i = lt_keys[i].next)
	{
		if (++n > lt_table->max_locks)
			return lt_check_says("the keys of a bucket have no end");
		if (i != k && lt_keys[i].hash == key->hash && lt_keys[i].name_len == key->name_len &&
			memcmp(lt_keys[i].name, key->name, key->name_len) == 0)
			return lt_check_says("%.*s has two entries", NAME(key));
	}
	if (lt_find_key(key->name, key->name_len, key->hash) != k)
		return lt_check_says("%.*s is not found by its name", NAME(key));
	if (key->first_hold == LR_NONE && key->queue_head == LR_NONE &&
		key->place_head == LR_NONE && key->nfailed == 0 && key->nhanded == 0)
		return lt_check_says("nobody has or awaits %.*s, and it has an entry", NAME(key));
	return NULL;
}

const char *
lt_check_key(LrIndex k)
{
	CHECK(check_entry(k));
	CHECK(check_holds(k));
	CHECK(check_queue(k));
	CHECK(check_places(k));
	CHECK(check_front(k));
	return check_waits(k);
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
		return w->asleep || w->in_front || w->kept.owner != 0 ?
			lt_check_says("session %d waits for nothing, and is counted", s) : NULL;
	key = &lt_keys[w->key];
	h = &lt_holds[w->hold];
	if (h->state != HOLD_WAITING || h->session != s || h->key != w->key ||
		h->hash != w->hash || h->owner != 0)
		return lt_check_says("session %d waits for %.*s with hold %d, which is %s", s, NAME(key),
							 w->hold, lt_state_names[h->state]);
	if (pg_atomic_read_u64(&lt_leases[w->hold].owner) != 0)
		return lt_check_says("the watchdog looks after hold %d, with which session %d waits",
							 w->hold, s);
	if ((w->state == WAIT_QUEUED && key->queue_head == LR_NONE) ||
		(w->state == WAIT_PLACED && key->place_head == LR_NONE) ||
		(w->state == WAIT_HANDED && key->nhanded == 0) ||
		(w->state == WAIT_FAILED && key->nfailed == 0))
		return lt_check_says("session %d waits for %.*s, which does not know", s, NAME(key));
	if (w->early && (w->state != WAIT_HANDED || !lr_kind(h->kind)->placed))
		return lt_check_says("session %d was handed no lock of %.*s, and early", s, NAME(key));
	if (w->kept.owner != 0 &&
		((w->state == WAIT_HANDED && !w->early) || !lr_kind(h->kind)->announced))
		return lt_check_says("session %d keeps owner " UINT64_FORMAT " of %.*s in the store",
							 s, w->kept.owner, NAME(key));
	if (w->in_front && w->state != WAIT_QUEUED)
		return lt_check_says("session %d is in front of %.*s and in no queue", s, NAME(key));
	return NULL;
}

/* ----------
 * Called by the code of the lock table
 * ----------
 */

void
lt_check_insist(const char *says, const char *when)
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

static int
check_partition_of(const LWLock *lock)
{
	for (int p = 0; p < LT_PARTITIONS; p++)
		if (lt_partition(p) == lock)
			return p;
	return -1;
}

void
lt_check_change(LWLock *lock)
{
	int			partition = check_partition_of(lock);
	int			nkeys = 0;

	for (int b = partition; b < lt_table->nbuckets; b += LT_PARTITIONS)
		for (LrIndex k = lt_buckets[b]; k != LR_NONE && nkeys < KEYS_AT_ONCE;
			 k = lt_keys[k].next, nkeys++)
			lt_check_insist(lt_check_key(k), "after a change");
	for (LrIndex s = 0; s < lt_table->nsessions; s++)
		if (lt_wait_of(s)->state != WAIT_NONE &&
			lt_wait_of(s)->hash % LT_PARTITIONS == partition)
			lt_check_insist(lt_check_wait(s), "after a change");
}

/*
 * check_woken --- does a session that is to be woken find something to do?
 *
 * This process is not woken, and may have acted already.
 */
static const char *
check_woken(LrIndex s, int partition)
{
	const LrWait *w;

	if (!is_session(s))
		return lt_check_says("%d is to be woken, which is no session", s);
	w = lt_wait_of(s);
	if (s == LrMyProcNumber)
		return NULL;
	if (w->state == WAIT_NONE || w->hash % LT_PARTITIONS != partition ||
		(lt_is_waiting(w) && w->woken_at == 0))
		return lt_check_says("session %d is to be woken for nothing", s);
	return NULL;
}

void
lt_check_wakes(LWLock *lock, const LrIndex *sessions, int n)
{
	int			partition = check_partition_of(lock);

	for (int i = 0; i < n; i++)
		lt_check_insist(check_woken(sessions[i], partition), "after a change");
}

#endif							/* USE_ASSERT_CHECKING */
