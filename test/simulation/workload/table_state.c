/*-------------------------------------------------------------------------
 *
 * table_state.c
 *	  In which state the locks are: as a number, to count different ones, and as text,
 *	  for the trace of a schedule.
 *
 * Of time it has only what has passed; owners and keys are not told apart by their
 * names but by what they have.  So the same state is the same whenever and to whomever
 * it comes, and those of all schedules can be counted together.
 *
 * Run by the observer; for the trace between any two steps.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/workload/table_state.c
 *
 *-------------------------------------------------------------------------
 */
#include "workload.h"

#include "../../../src/locktable/locktable_int.h"
#include "../../../src/store/stores.h"

#include "../kernel/redis_nodes.h"
#include "../kernel/states.h"
#include "row_check.h"

#define TEXT_MAX	512

/* Of each key of the table what was traced last. */
static char traced[SIM_MAX_LOCKS][TEXT_MAX];

/* ----------
 * A hold, a wait, a key
 * ----------
 */

/* Which stores have it now, bit by bit: nodes of Redis, and above these the table. */
static uint32
where_it_is(const LrKey *key, const LrHold *h)
{
	char		owner[LR_OWNER_MAX];
	uint32		where = 0;

	if (h->claim.owner == 0)
		return 0;
	lr_owner_text(h->claim.owner, owner);
	for (int i = 0; i < sim_config.nredis; i++)
		if (redis_owned_there_until(i, key->name, owner) > sim_now())
			where |= 1 << i;
	if (sim_config.mode != 0 &&
		rows_owned_until(key->name, h->claim.owner) > sim_now())
		where |= 1 << REDIS_NODES;
	return where;
}

static bool
is_over(LrIndex hold)
{
	return lt_deadline(hold) <= server_clock();
}

static uint64
state_of_hold(const LrKey *key, LrIndex hold)
{
	const LrHold *h = &lt_holds[hold];
	uint64		hash = hash_with(h->state, h->kind);
	LostReason	lost = h->state == HOLD_LOST ? h->as.lost.reason : LOST_NOT;

	hash = hash_with(hash, lost << 16 | h->claim.store << 8 | h->traces);
	hash = hash_with(hash, where_it_is(key, h));
	hash = hash_with(hash, (h->session == LR_NONE) | is_over(hold) << 1 | h->renewal.committing << 2 |
					 (h->renewal.refusals > 0) << 3 | h->renewal.alone << 4 |
					 (h->keep_until > server_clock()) << 6 | h->given.fenced << 7);
	for (int i = 0; i < SCOPE_COUNT; i++)
		hash = hash_with(hash, Min(h->scope[i].count, 3) | h->scope[i].renewed << 2 |
						 h->scope[i].guard << 3 | h->scope[i].on_lost << 6 |
						 (h->scope[i].min_replicas > 0) << 9);
	return hash;
}

static uint64
state_of_wait(const LrWait *w)
{
	return hash_with(w->state << 8 | w->terms.kind << 4 | w->asked.trying << 3 | w->in_front << 2 |
					 (w->woken_at != 0) << 1 | w->asleep, w->terms.renewed);
}

static uint64
state_of_key(const LrKey *key)
{
	uint64		hash = Min(key->handoffs, 3);

	for (int i = 0; i < TOPIC_COUNT; i++)
		hash = hash_with(hash, key->subscription[i]);
	hash = hash_with(hash, (pause_until(key->queue.list.head) > server_clock()) |
					 (key->here_from != 0) << 2 | Min(key->nwaiting, 3) << 3 |
					 redis_keeps_from(key->name, true) << 7 |
					 redis_keeps_from(key->name, false) << 8);
	for (LrIndex i = key->first_hold; i != LR_NONE; i = lt_holds[i].next)
		hash = hash_with(hash, state_of_hold(key, i));
	for (LrIndex s = key->queue.list.head; s != LR_NONE; s = lt_sessions[s].wait.next)
		hash = hash_with(hash, state_of_wait(&lt_sessions[s].wait));
	return hash;
}

/* ----------
 * As text
 * ----------
 */

static size_t
put(char *text, size_t used, const char *format,...)
{
	va_list		args;
	int			n;

	va_start(args, format);
	n = vsnprintf(text + used, TEXT_MAX - used, format, args);
	va_end(args);
	return Min(used + n, TEXT_MAX - 1);
}

static const char *
separator(const char *text, size_t used)
{
	return text[used - 1] == ':' ? "" : ";";
}

static size_t
put_hold(const LrKey *key, LrIndex hold, char *text, size_t used)
{
	const LrHold *h = &lt_holds[hold];
	uint32		where = where_it_is(key, h);

	used = put(text, used, "%s %s", separator(text, used), lt_state_names[h->state]);
	if (h->session != LR_NONE)
		used = put(text, used, " by session %d (%d+%d)", h->session,
				   h->scope[SCOPE_SESSION].count, h->scope[SCOPE_XACT].count);
	if (is_over(hold) && h->claim.owner != 0)
		used = put(text, used, ", over");
	used = put(text, used, ", owner %llu", (unsigned long long) h->claim.owner);
	for (int i = 0; i < REDIS_NODES; i++)
		if (where & 1 << i)
			used = put(text, used, ", in redis %d", i);
	if (where & 1 << REDIS_NODES)
		used = put(text, used, ", in the table");
	return used;
}

static void
key_text(const LrKey *key, char *text)
{
	size_t		used = put(text, 0, "%s:", key->name);

	if (redis_keeps_from(key->name, false))
		used = put(text, used, " taken in redis");
	for (LrIndex i = key->first_hold; i != LR_NONE; i = lt_holds[i].next)
		used = put_hold(key, i, text, used);
	for (LrIndex s = key->queue.list.head; s != LR_NONE; s = lt_sessions[s].wait.next)
		used = put(text, used, "%s session %d waits%s%s", separator(text, used), s,
				   lt_sessions[s].wait.in_front ? " in front" : "",
				   lt_sessions[s].wait.asked.trying ? ", asks" : "");
}

static void
trace_key(LrIndex k)
{
	char		text[TEXT_MAX];

	if (k >= SIM_MAX_LOCKS)
		return;
	key_text(&lt_keys[k], text);
	if (strcmp(text, traced[k]) == 0)
		return;
	strcpy(traced[k], text);
	sim_trace("%s", text);
}

/* ----------
 * All
 * ----------
 */

/* To look each time would take a third of all time. */
#define LOOK_EACH		16

static uint32 looks;

/* Keys are the same in any order. */
void
note_state(bool (*is_locked) (uint32 hash))
{
	bool		counts = looks++ % LOOK_EACH == 0;
	uint64		sum = 0;

	if (!counts && !sim_tracing)
		return;
	for (int b = 0; b < lt_table->nbuckets; b++)
	{
		if (lt_buckets[b] == LR_NONE || is_locked(b))
			continue;
		for (LrIndex k = lt_buckets[b]; k != LR_NONE; k = lt_keys[k].next)
		{
			if (counts)
				sum += state_of_key(&lt_keys[k]);
			if (sim_tracing)
				trace_key(k);
		}
	}
	if (!counts)
		return;
	states_add(sum);
	digest_add(sum);
}
