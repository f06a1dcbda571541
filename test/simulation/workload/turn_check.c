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
#include "../../../src/settings.h"

#include "../kernel/faults.h"
#include "../kernel/network.h"
#include "../kernel/redis_model.h"
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
 * Who has not asked since there was a reason not to: he is to be woken, that is all.
 * Longer than what is slept too long, by the milliseconds in which it is counted.
 */
#define WAKE_MAX		(5 * SIM_MS)

typedef struct Turn
{
	uint64		generation;
	bool		trying;
	int64		looks_at;
	int64		asked_at;		/* when the last of his requests began */
	int64		kept_at;		/* when somebody here last kept him from asking, */
	int64		left_at;		/* or had left something in the store */
	int64		free_since;
} Turn;

static Turn turns[SIM_MAX_PROCS];

/* May something of it be in the store, although nobody here has it any more? */
static bool
is_left(LrIndex hold)
{
	const LrHold *h = &lt_holds[hold];

	return h->state == HOLD_ORPHAN || (h->state == HOLD_LOST && h->traces != 0);
}

/* Whose lease has ended counts until somebody has seen that: then he tells. */
static bool
is_had(LrIndex hold)
{
	HoldState	state = lt_holds[hold].state;

	return state == HOLD_HELD || state == HOLD_HANDED || state == HOLD_RELEASING;
}

/* Is there a lock that keeps him from the key, or what is left of one? */
static bool
is_any(const LrWait *w, bool left)
{
	for (LrIndex i = lt_keys[w->key].first_hold; i != LR_NONE; i = lt_holds[i].next)
		if (lr_kinds_conflict(w->terms.kind, lt_holds[i].kind) &&
			(left ? is_left(i) : is_had(i)))
			return true;
	return false;
}

static bool
is_kept(const LrWait *w)
{
	return is_any(w, false) || lt_keys[w->key].paused_until > sim_now();
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
	if (w->trying && (!t->trying || t->looks_at != w->looks_at))
		t->asked_at = sim_now();
	t->trying = w->trying;
	t->looks_at = w->looks_at;
	if (w->state != WAIT_QUEUED || !w->in_front || is_kept(w))
		t->kept_at = sim_now();
	if (is_any(w, true))
		t->left_at = sim_now();
}

/* Nobody has it, here or elsewhere. */
static bool
is_free(const LrWait *w)
{
	const LrKey *key = &lt_keys[w->key];

	return !is_kept(w) && !redis_denies(redis_present(), key->name) &&
		(w->terms.kind == KIND_FREE ||
		 !redis_keeps_from(key->name, w->terms.kind == KIND_SHARED ||
						   w->terms.kind == KIND_READ));
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

static int64
sleep_max(const LrWait *w, const Turn *t)
{
	if (!was_told(w, t))
		return WAKE_MAX;
	if (w->terms.kind == KIND_FREE)
		return SLEEP_MAX_FREE;

	/* Nobody is told by a channel that may not be listened to. */
	return faults_are_told && !redis_is_denied(lt_keys[w->key].name) ?
		SLEEP_MAX_TOLD : SLEEP_MAX;
}

/* All processes are in waits of their own. */
void
check_sleepers(void)
{
	bool		good = lr_mode == MODE_REDIS && net_is_well();

	for (int s = 0; s < lt_table->nsessions; s++)
	{
		const LrWait *w = &lt_sessions[s].wait;
		Turn	   *t = &turns[s];

		if (!good || w->state != WAIT_QUEUED || !w->in_front || w->trying || !is_free(w))
			t->free_since = 0;
		else if (t->free_since == 0)
			t->free_since = sim_now();
		else if (sim_now() - Max(t->free_since, sim_quiet_since()) > sleep_max(w, t))
			sim_fail("sleeps for ever", "session %d waits for %s, which is free for %.3f s%s",
					 s, lt_keys[w->key].name, (sim_now() - t->free_since) / (double) SIM_S,
					 was_told(w, t) ? "" : ", and has not been woken");
	}
}
