/*-------------------------------------------------------------------------
 *
 * turn_check.c
 *	  Does nobody sleep while he could have what he waits for?
 *
 * One in front of a queue has a reason to sleep for a while only if the store has
 * told him that somebody elsewhere has the key.  If a session of this server had
 * it, or others stood before him, he is to be woken when that ends: he does not
 * look by himself before the lease would have ended, so a wake-up that is missing
 * makes him late, and nobody waits for ever.  That is why what is judged is not
 * how long he sleeps, but what he was told last.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/workload/turn_check.c
 *
 *-------------------------------------------------------------------------
 */
#include "workload.h"

#include "../../../src/locktable/locktable_int.h"
#include "../../../src/names.h"
#include "../../../src/settings.h"

#include "../kernel/faults.h"
#include "../kernel/network.h"
#include "../kernel/redis_conditions.h"
#include "../kernel/redis_counts.h"
#include "../kernel/redis_nodes.h"
#include "../models/kinds.h"

/*
 * Longer than a tick, a poll and a call's budget; or than the time to live of a key
 * that was deleted, of which nobody is told.
 */
#define SLEEP_MAX		(15 * SIM_S)

/* Where whatever frees a key is told. */
#define SLEEP_MAX_TOLD	(5 * SIM_S)

/* Of a kind that nobody keeps from the key: it has only to be asked for. */
#define SLEEP_MAX_FREE	(2 * SIM_S)

/*
 * A session that has not asked since there was a reason not to is to be woken, that is all.
 * Longer than what is slept too long, by the milliseconds in which it is counted.
 */
#define WAKE_MAX		(5 * SIM_MS)

/* A request that failed is repeated by then, where another node may be the master. */
#define RETRY_PAUSE		SIM_S

/* Whoever is told of no release looks once a second; one that sleeps is soon told so. */
#define UNTOLD_LOOK		(SIM_S + 100 * SIM_MS)
#define UNTOLD_MAX		(5 * SIM_S)

typedef struct Turn
{
	uint64		generation;
	bool		trying;
	bool		handed;
	bool		kept;			/* he sleeps in front, and somebody here has the lock */
	int64		looks_at;
	int64		asked_at;		/* when the last of his requests began */
	int64		kept_at;		/* when somebody here last kept him from asking, */
	int64		left_at;		/* or had left something in the store */
	int64		free_since;
	int64		due_since;		/* the same, and he was to be woken */
	int64		untold_since;	/* he sleeps, and nobody tells him */
	int64		handed_since;	/* likewise, and was handed a lock */
} Turn;

static Turn turns[SIM_MAX_PROCS];

/* May something of it be in the store, although nobody here has it any more? */
static bool
is_left(LrIndex hold)
{
	const LrHold *h = &lt_holds[hold];

	return h->state == HOLD_ORPHAN || (h->state == HOLD_LOST && h->traces != 0);
}

/*
 * Whose lease has ended counts until somebody has seen that: then he tells.  So does a
 * release that was sent, for as long as others wait for its answer.
 */
static bool
is_held(LrIndex hold)
{
	HoldState	state = lt_holds[hold].state;

	return state == HOLD_HELD || state == HOLD_HANDED || state == HOLD_RELEASING ||
		(state == HOLD_ORPHAN && lt_holds[hold].as.sent.until > server_clock());
}

/* Is there a lock that keeps him from the key, or what is left of one? */
static bool
is_any(const LrWait *w, bool left)
{
	for (LrIndex i = lt_keys[w->key].first_hold; i != LR_NONE; i = lt_holds[i].next)
		if (lr_kinds_conflict(w->terms.kind, lt_holds[i].kind) &&
			(left ? is_left(i) : is_held(i)))
			return true;
	return false;
}

/* Is there a session here that has it, whatever the time is? */
static bool
is_kept_by_session(const LrWait *w)
{
	for (LrIndex i = lt_keys[w->key].first_hold; i != LR_NONE; i = lt_holds[i].next)
		if (lr_kinds_conflict(w->terms.kind, lt_holds[i].kind) &&
			(lt_holds[i].state == HOLD_HELD || lt_holds[i].state == HOLD_HANDED ||
			 lt_holds[i].state == HOLD_RELEASING))
			return true;
	return false;
}

int64
pause_until(LrIndex first)
{
	return first == LR_NONE ? 0 : lt_sessions[first].wait.of_list.pause_until;
}

static bool
is_kept(const LrWait *w)
{
	return is_any(w, false) || pause_until(lt_keys[w->key].queue.list.head) > server_clock();
}

/*
 * A fair lock is handed over: nobody of another server had waited for it when he came.
 */
static void
check_handed(int s)
{
	const LrWait *w = &lt_sessions[s].wait;
	const LrKey *key = &lt_keys[w->key];
	int64		since;

	if (!lr_kind(w->terms.kind)->placed)
		return;
	since = redis_others_stand_since(key->name, lr_instance_uuid());
	if (since != 0 && since < server_time(w->place.came_at))
		sim_fail("fair order", "%s is handed to session %d, which came %.3f ms after one elsewhere",
				 key->name, s, (server_time(w->place.came_at) - since) / 1000.0);
}

/* Where a lock that was accepted is wanted, or left, the watchdog looks at once. */
static void
check_accepted(LrIndex hold)
{
	const LrHold *h = &lt_holds[hold];

	for (int s = 0; s < STORE_COUNT; s++)
		if (s != h->claim.store && (lt_is_wanted_in(h, s) || lt_is_left_in(h, s)) &&
			lt_read_due(hold, s) > server_clock())
			sim_fail("lock table", "hold %d was accepted, and is not due in store %d", hold, s);
}

extern bool __real_lt_accept(LrIndex *hold);
extern bool __wrap_lt_accept(LrIndex *hold);

/*
 * A session that was handed it while it asked takes it only if its answer, or another one,
 * says that.
 */
bool
__wrap_lt_accept(LrIndex *hold)
{
	const LrWait *w = lt_wait_of(LrMyProcNumber);
	bool		early = w->early;
	uint64		place = w->asked.claim.owner;
	StoreId		store = current_store();
	int64		now = server_clock();
	bool		accepted = __real_lt_accept(hold);

	if (accepted && place != 0 && w->asked.disowned != place)
		sim_fail("left behind", "%s is accepted, and nobody gives the place back that was got meanwhile",
				 lt_key_of(*hold)->name);
	if (accepted && store == current_store())
		check_accepted(*hold);
	if (accepted && lt_deadline(*hold) <= now)
		sim_fail("held without a lock", "%s is accepted %.3f ms after the end of its lease",
				 lt_key_of(*hold)->name, (now - lt_deadline(*hold)) / 1000.0);
	if (accepted && early && lr_store_can(current_store(), STORE_HAS_ORDER))
		check_handed(LrMyProcNumber);
	return accepted;
}

/* When this process had the lock of a partition in that last. */
static int64 cleared_at;

extern void __real_lt_note_clear(LrIndex hold, const StoreOp *op);
extern void __wrap_lt_note_clear(LrIndex hold, const StoreOp *op);

/*
 * A session that waits elsewhere since the question counts as later than those that have come
 * here meanwhile, if the time of the answer is taken.
 */
void
__wrap_lt_note_clear(LrIndex hold, const StoreOp *op)
{
	const LrKey *key = lt_key_of(hold);
	int64		before = key->clear_at;
	int64		since;

	cleared_at = server_clock();
	__real_lt_note_clear(hold, op);
	since = redis_others_stand_since(key->name, lr_instance_uuid());
	if (sim_config.nservers > 1 && key->clear_at != before &&
		since > server_time(op->sent.at) && since < server_time(key->clear_at))
		sim_fail("fair order", "a session that comes here within %.3f ms after one elsewhere counts as earlier for %s",
				 (server_time(key->clear_at) - since) / 1000.0, key->name);
}

extern void __real_lt_found_busy(LrIndex hold, const StoreOp *create, const char *owner);
extern void __wrap_lt_found_busy(LrIndex hold, const StoreOp *create, const char *owner);

/*
 * A session that is answered that it has no place is handed the lock, or in line, whatever has come
 * meanwhile; unless it is passed over just then.
 */
void
__wrap_lt_found_busy(LrIndex hold, const StoreOp *create, const char *owner)
{
	const LrWait *w = lt_wait_of(LrMyProcNumber);

	__real_lt_found_busy(hold, create, owner);
	if (create->answer.unplaced && w->state == WAIT_PLACED &&
		w->place.standing < STANDING_PLACELESS && server_clock() - cleared_at < SIM_S)
		sim_fail("sleeps for ever", "session %d was answered that it has no place for %s, and counts as if it had one",
				 LrMyProcNumber, lt_key_of(hold)->name);
}

/*
 * The first question of a session: if no session here has the lock, nobody before it was
 * answered and has no place; unless that one has not run for so long.
 */
static void
check_first_question(int s)
{
	const LrWait *w = &lt_sessions[s].wait;

	if (w->state != WAIT_PLACED || w->place.standing != STANDING_NEW ||
		lr_kind(w->terms.kind)->passing)
		return;
	for (LrIndex i = lt_keys[w->key].first_hold; i != LR_NONE; i = lt_holds[i].next)
		if ((lt_holds[i].state == HOLD_HELD || lt_holds[i].state == HOLD_HANDED) &&
			lr_kind(lt_holds[i].kind)->placed)
			return;
	for (LrIndex i = w->prev; i != LR_NONE; i = lt_sessions[i].wait.prev)
	{
		const LrWait *b = &lt_sessions[i].wait;

		if (b->place.standing >= STANDING_PLACELESS)
			sim_fail("fair order", "session %d asks for %s before session %d, which has no place and was before it",
					 s, lt_keys[w->key].name, i);
	}
}

/*
 * One in line asks after those before it were answered, or passed over.
 */
static void
check_line(int s)
{
	const LrWait *w = &lt_sessions[s].wait;

	if (w->state != WAIT_PLACED || w->place.standing != STANDING_LINED)
		return;
	for (LrIndex i = w->prev; i != LR_NONE; i = lt_sessions[i].wait.prev)
		if (lt_sessions[i].wait.place.standing == STANDING_LINED)
			sim_fail("fair order", "session %d asks for %s before session %d is answered, which is before it in line",
					 s, lt_keys[w->key].name, i);
}

/* Will a session here hand it to him, as it is?  Nobody tells that its lease gets short. */
static bool
is_to_be_handed(const LrWait *w)
{
	for (LrIndex i = lt_keys[w->key].first_hold; i != LR_NONE; i = lt_holds[i].next)
	{
		int64		kept = lt_holds[i].keep_until;

		if ((lt_holds[i].state == HOLD_HELD || lt_holds[i].state == HOLD_HANDED) &&
			lt_fits(i, kept <= server_clock() ? kept : 0, w))
			return true;
	}
	return false;
}

/*
 * The first of those who have no place in Redis: if no session here has a lock for him, he
 * is to ask for one.
 */
static bool
is_forgotten(const LrWait *w)
{
	if (w->state != WAIT_PLACED || w->place.standing != STANDING_PLACELESS || is_to_be_handed(w))
		return false;
	for (LrIndex i = w->prev; i != LR_NONE; i = lt_sessions[i].wait.prev)
		if (lt_sessions[i].wait.place.standing >= STANDING_PLACELESS)
			return false;
	return true;
}

/*
 * A session that was answered and does not ask has a place, unless the watchdog has that by now; or
 * nobody tells it when it can have the lock, and it soon looks.
 */
static bool
is_out_of_line(const LrWait *w)
{
	return w->state == WAIT_PLACED && w->place.standing == STANDING_ANSWERED &&
		!w->asked.trying && w->asked.claim.owner == 0 && w->asked.disowned == 0 &&
		w->woken_at == 0 && w->looks_at > server_clock() + UNTOLD_LOOK;
}

/* In line is the session that is to ask, from the moment in which it has to. */
static void
check_lined_up(int s)
{
	const LrWait *w = &lt_sessions[s].wait;

	if (is_forgotten(w) || is_out_of_line(w))
		sim_fail("sleeps for ever", "session %d waits for %s without a place, and is not to ask for one",
				 s, lt_keys[w->key].name);
}

/*
 * A session that sleeps in front is woken in the moment in which no session here has the lock
 * any more, unless it looks at that moment.
 */
static void
check_woken(int s)
{
	const LrWait *w = &lt_sessions[s].wait;
	bool		sleeps = w->state == WAIT_QUEUED && w->in_front && !w->asked.trying && w->woken_at == 0;
	bool		kept = sleeps && is_kept_by_session(w);

	if (sleeps && !kept && turns[s].kept && turns[s].looks_at == w->looks_at)
		sim_fail("sleeps for ever", "session %d waits for %s, which no session here has any more, and is not woken",
				 s, lt_keys[w->key].name);
	turns[s].kept = kept;
}

/* Between any two steps: nobody has the lock of its partition. */
void
note_turn(int s)
{
	const LrWait *w = &lt_sessions[s].wait;
	Turn	   *t = &turns[s];

	if (t->generation != w->generation)
		memset(t, 0, sizeof(Turn));
	t->generation = w->generation;
	check_lined_up(s);
	check_woken(s);
	if (w->state == WAIT_HANDED && !w->early && !t->handed)
		check_handed(s);
	t->handed = w->state == WAIT_HANDED;
	if (w->asked.trying && (!t->trying || t->looks_at != w->looks_at))
	{
		t->asked_at = sim_now();
		check_first_question(s);
		check_line(s);
	}
	t->trying = w->asked.trying;
	t->looks_at = w->looks_at;
	if (w->state != WAIT_QUEUED || !w->in_front || is_kept(w))
		t->kept_at = sim_now();
	if (is_any(w, true))
		t->left_at = sim_now();
}

/* Whoever does not act on a wake-up for so long is passed over. */
#define IGNORED_AFTER	SIM_S

/* The owner of an announcement in the store, of one who does not run; 0: there is none. */
static uint64
stands_in_the_way(const LrWait *w)
{
	return w->state == WAIT_QUEUED && w->in_front && !w->asked.trying && w->woken_at != 0 &&
		server_clock() - w->woken_at >= IGNORED_AFTER ? w->asked.claim.owner : 0;
}

/* He is in line, and asks. */
static bool
asks_in_line(const LrWait *w)
{
	return w->state == WAIT_PLACED && w->place.standing == STANDING_LINED &&
		w->asked.trying && w->asked.claim.owner != 0 && server_clock() < w->looks_at;
}

/* It is his turn in line, and he has not run since. */
static bool
holds_up_line(const LrWait *w)
{
	return w->state == WAIT_PLACED && w->place.standing == STANDING_LINED && w->in_front &&
		!w->asked.trying && w->asked.claim.owner == 0 && w->woken_at != 0 &&
		server_clock() - w->woken_at >= IGNORED_AFTER;
}

extern void __real_lt_pass_over_sleepers(void);
extern void __wrap_lt_pass_over_sleepers(void);

/* What he has announced keeps others from the key: he loses it, if there is a row for that. */
void
__wrap_lt_pass_over_sleepers(void)
{
	uint64		owner[SIM_MAX_PROCS];
	int64		woken_at[SIM_MAX_PROCS];
	bool		asks[SIM_MAX_PROCS];

	for (int s = 0; s < lt_table->nsessions; s++)
	{
		asks[s] = asks_in_line(&lt_sessions[s].wait);
		owner[s] = stands_in_the_way(&lt_sessions[s].wait);
		woken_at[s] = lt_sessions[s].wait.woken_at;
	}
	__real_lt_pass_over_sleepers();
	for (int s = 0; s < lt_table->nsessions; s++)
	{
		const LrWait *w = &lt_sessions[s].wait;

		if (asks[s] && !asks_in_line(w))
			sim_fail("fair order", "session %d asks for %s in line, and is passed over", s,
					 lt_keys[w->key].name);
		if (holds_up_line(w))
			sim_fail("sleeps for ever", "session %d does not ask for %s, and is waited for", s,
					 lt_keys[w->key].name);
		if (owner[s] != 0 && w->state == WAIT_QUEUED && !w->asked.trying &&
			w->asked.claim.owner == owner[s] &&
			lt_table->nrows.value + SIM_MAX_PROCS < (uint32) lt_table->max_locks)
			sim_fail("sleeps for ever", "session %d has announced itself for %s and has not run for %.3f ms, and is waited for",
					 s, lt_keys[w->key].name, (server_clock() - woken_at[s]) / 1000.0);
	}
}

static bool
is_counted(KindId kind)
{
	return kind == KIND_PERMIT || kind == KIND_SEMAPHORE || kind == KIND_LATCH;
}

/* Nobody has it, here or elsewhere. */
static bool
is_free(const LrWait *w)
{
	const LrKey *key = &lt_keys[w->key];

	if (is_counted(w->terms.kind))
		return !is_kept(w) && redis_counts_has(key->name, w->terms.amount);

	/* A writer that another server's session announced keeps readers out; nobody sees him. */
	if (w->terms.kind == KIND_READ && sim_config.nservers > 1)
		return false;
	return !is_kept(w) && !redis_denies(redis_place_of(key->name), key->name) &&
		(w->terms.kind == KIND_FREE ||
		 !redis_keeps_from(key->name, w->terms.kind == KIND_SHARED ||
						   w->terms.kind == KIND_READ));
}

/* It is the turn of his place. */
static bool
is_next(const LrWait *w)
{
	const LrKey *key = &lt_keys[w->key];
	char		owner[LR_OWNER_MAX];

	(void) lr_owner_text(w->asked.claim.owner, owner);
	if (lr_kind(w->terms.kind)->passing)
		return redis_told_until(owner) > sim_now() && !redis_denies(redis_place_of(key->name), key->name);
	return w->asked.claim.owner != 0 && !redis_denies(redis_place_of(key->name), key->name) &&
		redis_is_next(key->name, owner);
}

/*
 * was_told --- that somebody elsewhere has it, after all that he has to be woken for
 *
 * What is left of a lock does not keep anybody from asking, and when it goes, those
 * who asked before have to do it again.
 */
static bool
was_told(const LrWait *w, const Turn *t)
{
	return t->asked_at > t->kept_at && (t->asked_at > t->left_at || is_any(w, true));
}

/* For so long it may be free while he sleeps; how long it has been. */
static int64
sleep_max(const LrWait *w, const Turn *t, int64 *since)
{
	*since = t->due_since != 0 ? t->due_since : t->free_since;
	if (t->due_since != 0)
		return sim_config.sentinels || sim_config.cluster ? WAKE_MAX + RETRY_PAUSE : WAKE_MAX;
	if (w->terms.kind == KIND_FREE)
		return SLEEP_MAX_FREE;

	/* Nobody is told by a channel that may not be listened to. */
	return faults_are_told && !redis_is_denied(lt_keys[w->key].name) ?
		SLEEP_MAX_TOLD : SLEEP_MAX;
}

/* Since when has that been so? */
static void
note_since(bool is_so, int64 *since)
{
	if (!is_so)
		*since = 0;
	else if (*since == 0)
		*since = sim_now();
}

/*
 * A connection has ended: time to see it.  Where nobody says so, until it is asked
 * (each 5 s) and does not answer.
 */
#define HEAR_MAX		SIM_S
#define HEAR_MAX_ASKED	(10 * SIM_S)

/* A row of the lock table belongs to one key, and later to another. */
typedef struct KeyTurn
{
	uint32		hash;
	bool		used;
	int64		unheard_since[TOPIC_COUNT];
	int64		unsubscribed_since[TOPIC_COUNT];
}			KeyTurn;

static KeyTurn key_turns[SIM_MAX_LOCKS];

/* Of a key that is said to be listened to somebody hears. */
static void
check_listening(LrIndex k, LrTopic topic, bool good)
{
	const LrKey *key = &lt_keys[k];
	char		channel[LR_DERIVED_MAX + 1];
	int64	   *since = &key_turns[k].unheard_since[topic];

	channel[lr_derived_name(lr_channels[topic], key->name, key->name_len, "", channel)] = '\0';
	note_since(good && key->subscription[topic] == SUB_CONFIRMED &&
			   redis_count_listened(channel) <= sim_config.masters / 2, since);
	if (*since != 0 && sim_now() - Max(*since, sim_quiet_since()) >
		(net_had_half_open() ? HEAR_MAX_ASKED : HEAR_MAX))
		sim_fail("sleeps for ever", "nobody listens to releases of %s for %.3f s, which is not known",
				 key->name, (sim_now() - *since) / (double) SIM_S);
}

/* A session that waits behind one here has not asked: what was wanted before may still be. */
static bool
has_live_hold(const LrKey *key)
{
	for (LrIndex i = key->first_hold; i != LR_NONE; i = lt_holds[i].next)
		if (lt_holds[i].state != HOLD_LOST)
			return true;
	return false;
}

/* Whoever is in front and has been told that the key is busy gets told of its releases. */
#define LISTEN_MAX	(10 * SIM_S)

/*
 * The pauses after refusals grow to that.  A right is withdrawn for 20 s at most, but rights to
 * several channels one after the other make them longer.
 */
#define REFUSED_MAX	(32 * SIM_S)

static void
check_subscribing(LrIndex k, LrTopic topic, bool good)
{
	const LrKey *key = &lt_keys[k];
	int64	   *since = &key_turns[k].unsubscribed_since[topic];

	note_since(good && key->subscription[topic] == SUB_WANTED && key->queue.list.head != LR_NONE &&
			   !has_live_hold(key) && !redis_is_denied(key->name), since);
	if (*since != 0 && sim_now() - Max(Max(*since, redis_denied_until(key->name) + REFUSED_MAX),
									   sim_quiet_since()) > LISTEN_MAX)
		sim_fail("sleeps untold", "releases of %s are not listened to for %.3f s", key->name,
				 (sim_now() - *since) / (double) SIM_S);
}

extern void __real_lt_subscription_confirmed(const TopicKey *topic);
extern void __wrap_lt_subscription_confirmed(const TopicKey *topic);

/* Whoever sleeps by it is to be woken by most masters. */
void
__wrap_lt_subscription_confirmed(const TopicKey *topic)
{
	char		channel[LR_DERIVED_MAX + 1];
	int			n;

	channel[lr_derived_name(lr_channels[topic->topic], topic->name, topic->len, "", channel)] = '\0';
	n = redis_count_asked(MyProcPid, channel);
	if (sim_config.masters > 0 && n <= sim_config.masters / 2)
		sim_fail("sleeps for ever", "releases of %.*s are listened to at %d of %d masters, which is not known",
				 topic->len, topic->name, n, sim_config.masters);
	__real_lt_subscription_confirmed(topic);
}

/* Sleeps as long as one may that is told of a release, and nobody tells him. */
static bool
is_untold(const LrWait *w)
{
	const LrKey *key = &lt_keys[w->key];

	return w->state == WAIT_QUEUED && w->in_front && !w->asked.trying && w->woken_at == 0 &&
		key->subscription[lr_kind(w->terms.kind)->topic] != SUB_CONFIRMED &&
		!is_kept(w) && w->looks_at > server_clock() + UNTOLD_LOOK;
}

static void
check_untold(int s, bool good)
{
	const LrWait *w = &lt_sessions[s].wait;
	Turn	   *t = &turns[s];

	note_since(good && is_untold(w), &t->untold_since);
	if (t->untold_since != 0 &&
		sim_now() - Max(t->untold_since, sim_quiet_since()) > UNTOLD_MAX)
		sim_fail("sleeps untold", "session %d looks for %s in %.3f s, and is told nothing",
				 s, lt_keys[w->key].name, (w->looks_at - server_clock()) / (double) SIM_S);
}

/* He was handed a lock, does not ask, and sleeps: he is to be woken at once. */
static void
check_handed_sleeper(int s, bool good)
{
	const LrWait *w = &lt_sessions[s].wait;
	Turn	   *t = &turns[s];

	note_since(good && w->state == WAIT_HANDED && !w->asked.trying, &t->handed_since);
	if (t->handed_since != 0 && sim_now() - Max(t->handed_since, sim_quiet_since()) > WAKE_MAX)
		sim_fail("sleeps for ever", "session %d was handed %s, and has not been woken",
				 s, lt_keys[w->key].name);
}

static void
check_key_listened(LrIndex k, bool good)
{
	KeyTurn    *t = &key_turns[k];

	if (t->hash != lt_keys[k].hash)
		memset(t, 0, sizeof(KeyTurn));
	t->hash = lt_keys[k].hash;
	t->used = true;
	for (int topic = 0; topic < TOPIC_COUNT; topic++)
	{
		check_listening(k, topic, good);
		check_subscribing(k, topic, good);
	}
}

static void
check_all_listened(bool good)
{
	for (int k = 0; k < SIM_MAX_LOCKS; k++)
		key_turns[k].used = false;
	for (int b = 0; b < lt_table->nbuckets; b++)
		for (LrIndex k = lt_buckets[b]; k != LR_NONE; k = lt_keys[k].next)
			check_key_listened(k, good);
	for (int k = 0; k < SIM_MAX_LOCKS; k++)
		if (!key_turns[k].used)
			memset(&key_turns[k], 0, sizeof(KeyTurn));
}

/* All processes are in waits of their own. */
void
check_sleepers(void)
{
	bool		good = lr_mode == MODE_REDIS && net_is_well();

	check_all_listened(good && lr_watchdog_running());
	for (int s = 0; s < lt_table->nsessions; s++)
	{
		const LrWait *w = &lt_sessions[s].wait;
		Turn	   *t = &turns[s];
		bool		queued = w->state == WAIT_QUEUED && w->in_front;
		bool		sleeps = good && !w->asked.trying &&
			((queued && is_free(w)) || (w->state == WAIT_PLACED && is_next(w)));
		int64		since;
		int64		longest;

		note_since(sleeps, &t->free_since);
		note_since(sleeps && queued && !was_told(w, t), &t->due_since);
		longest = sleep_max(w, t, &since);
		if (sleeps && sim_now() - Max(since, sim_quiet_since()) > longest)
			sim_fail("sleeps for ever", "session %d waits for %s, which is free for %.3f s%s",
					 s, lt_keys[w->key].name, (sim_now() - t->free_since) / (double) SIM_S,
					 t->due_since != 0 ? ", and has not been woken" : "");
		check_untold(s, good && !sim_config.slow);
		check_handed_sleeper(s, good);
	}
}
