/*-------------------------------------------------------------------------
 *
 * model.c
 *	  A lock as an object: what each call does to it.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/checkers/model.c
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <string.h>

#include "model.h"

bool
model_has(const HistoryRecord *r)
{
	switch (r->what)
	{
		case HISTORY_LOCK:
		case HISTORY_IS_HELD:
		case HISTORY_HOLD_COUNT:
			return r->result == HISTORY_YES ||
				(r->what != HISTORY_LOCK && r->result == HISTORY_NO);
		case HISTORY_EXTEND:
			return r->result == HISTORY_YES || r->result == HISTORY_FAILED;
		case HISTORY_UNLOCK:
			return r->result != HISTORY_PENDING;
		case HISTORY_FORCE:
			return r->result != HISTORY_NO;
		case HISTORY_LOST:
		case HISTORY_TAKEN_AWAY:
		case HISTORY_ALL_TAKEN_AWAY:
			return true;
		default:
			return false;
	}
}

int
model_outcomes(const Call *call)
{
	return call->perhaps_again || (call->record->what == HISTORY_UNLOCK &&
								   call->record->result == HISTORY_FAILED) ? 2 : 1;
}

/* ----------
 * Holders
 * ----------
 */

static Holder *
find(LockState *state, const HistoryRecord *r)
{
	for (int i = 0; i < state->n; i++)
		if (state->holder[i].who == r->who && state->holder[i].kind == r->kind)
			return &state->holder[i];
	return NULL;
}

static Holder *
add(LockState *state, const HistoryRecord *r)
{
	int			i = state->n;

	if (i == MODEL_HOLDERS)
		return NULL;
	while (i > 0 && (state->holder[i - 1].who > r->who ||
					 (state->holder[i - 1].who == r->who &&
					  state->holder[i - 1].kind > r->kind)))
	{
		state->holder[i] = state->holder[i - 1];
		i--;
	}
	memset(&state->holder[i], 0, sizeof(Holder));
	state->holder[i].who = r->who;
	state->holder[i].kind = r->kind;
	state->holder[i].server = r->server;
	state->n++;
	return &state->holder[i];
}

static void
drop(LockState *state, Holder *holder)
{
	int			i = (int) (holder - state->holder);

	memmove(holder, holder + 1, sizeof(Holder) * (state->n - i - 1));
	state->n--;
	memset(&state->holder[state->n], 0, sizeof(Holder));
}

/* Nobody has it, nor hands on what he does not know to be lost. */
static bool
nobody_has(const LockState *state)
{
	for (int i = 0; i < state->n; i++)
		if (!state->holder[i].lost || state->holder[i].unseen)
			return false;
	return true;
}

/* By then a watchdog has asked for each lock. */
#define ASKED_FOR_WITHIN	(10 * SIM_S)

/*
 * Nobody asks any more for what was lost by a session that has ended; if there is
 * no room, nor for what may have been, as that of one that vanished.
 *
 * If it did not know of the loss, it may have handed the lock on when it ended.
 */
static void
forget_dead(LockState *state, int64_t now)
{
	bool		full = state->n == MODEL_HOLDERS;

	for (int i = state->n - 1; i >= 0; i--)
		if (state->holder[i].last_call < now &&
			(state->holder[i].lost || (full && state->holder[i].may_end <= now)))
		{
			if (state->holder[i].unseen && state->freed < now + ASKED_FOR_WITHIN)
				state->freed = now + ASKED_FOR_WITHIN;
			drop(state, &state->holder[i]);
		}
}

/*
 * It takes effect before that call returns: may it have been lost by then?
 *
 * What somebody took away, and another server has, nobody may have said to its session yet.
 */
static bool
lose(Holder *holder, const HistoryRecord *by)
{
	if (holder->may_end > by->returned)
		return false;
	holder->lost = true;
	holder->unseen = holder->returned > by->returned ||
		(holder->robbed && holder->server != by->server);
	return true;
}

/* ----------
 * Calls
 * ----------
 */

/*
 * highest --- of the tokens that are to be below that of a call
 */
static int64_t
highest(const LockState *state, const HistoryRecord *r)
{
	int64_t		token = state->token[r->server];

	for (int i = 0; i < SIM_MAX_SERVERS && !state->robbed; i++)
		if (state->token[i] > token)
			token = state->token[i];
	return token;
}

static bool
take(LockState *state, const Call *call, const uint32_t *excludes)
{
	const HistoryRecord *r = call->record;
	Holder	   *h = find(state, r);
	bool		has = h != NULL && !h->lost;
	int64_t    *had = &state->token[r->server];

	if (call->again && !has && (h == NULL || !h->unseen))
		return false;
	if (nobody_has(state) && state->freed < call->wanted_since)
		state->robbed = false;	/* it was not handed over, but created */
	for (int i = 0; i < state->n; i++)
	{
		Holder	   *other = &state->holder[i];

		if (other->who != r->who && !other->lost &&
			((excludes[r->kind] & (1U << other->kind)) != 0 ||
			 (excludes[other->kind] & (1U << r->kind)) != 0) && !lose(other, r))
			return false;
	}
	if (r->token != 0 && *had != TOKENS_ANEW &&
		(has ? r->token < highest(state, r) : r->token <= highest(state, r)))
		return false;

	/* That which it has already says nothing of what the store will give. */
	if (*had != TOKENS_ANEW && r->token > *had &&
		(h == NULL || h->lost || r->token != h->token))
		*had = r->token;
	if (h != NULL && h->lost)
	{
		drop(state, h);
		h = NULL;
	}
	if (h == NULL)
	{
		forget_dead(state, r->called);
		if ((h = add(state, r)) == NULL)
			return false;
		h->may_end = state->robbed && call->may_end > r->called ? r->called : call->may_end;
		h->robbed = state->robbed;
		h->last_call = call->last_call;
		h->returned = r->returned;
	}
	if (r->token != 0)
		h->token = r->token;
	if (r->scope == 0)
		h->session++;
	else
		h->xact = 1;
	return true;
}

/*
 * Whose session knows of no loss, although another server has the lock, may be told that
 * it has it once more, for which nobody is asked.
 */
static bool
step_lock(LockState *state, const Call *call, int outcome, const uint32_t *excludes)
{
	const Holder *h = find(state, call->record);
	bool		knows = h == NULL || !h->lost || !h->unseen || !h->robbed;

	if (outcome == 1)
		return !knows;
	return (call->again && !knows) || take(state, call, excludes);
}

static bool
step_unlock(LockState *state, const Call *call, int outcome)
{
	const HistoryRecord *r = call->record;
	Holder	   *h = find(state, r);

	/* One that is lost remains until it is taken again. */
	if (h == NULL)
		return r->result != HISTORY_YES;
	if (h->lost)
		return r->result != HISTORY_YES || r->together || h->unseen;
	if (r->result == HISTORY_NO)
		return (r->scope == 0 && h->session == 0) || lose(h, r);
	if (r->result == HISTORY_FAILED && outcome == 1)
		return true;
	if (r->scope == 0)
		h->session -= r->count;
	else
		h->xact = 0;
	if (h->session < 0 && r->result != HISTORY_FAILED)
		return false;
	if (h->session < 0)
		h->session = 0;
	if (h->session == 0 && h->xact == 0)
	{
		drop(state, h);
		if (state->freed < r->returned)
			state->freed = r->returned;
	}
	return true;
}

static bool
step_question(LockState *state, const HistoryRecord *r)
{
	Holder	   *h = find(state, r);

	if (h == NULL || h->lost)
		return r->result == HISTORY_NO || (h != NULL && h->unseen);
	if (r->result == HISTORY_NO)
		return lose(h, r);
	return r->what != HISTORY_HOLD_COUNT || r->count == h->session + h->xact;
}

/* From then on whoever has it may have lost it, and whom it is handed to. */
static void
rob(LockState *state, int64_t when)
{
	state->robbed = true;
	for (int i = 0; i < state->n; i++)
	{
		state->holder[i].robbed = true;
		if (state->holder[i].may_end > when)
			state->holder[i].may_end = when;
	}
}

bool
model_step(LockState *state, const Call *call, int outcome, const uint32_t *excludes)
{
	const HistoryRecord *r = call->record;
	Holder	   *h;

	switch (r->what)
	{
		case HISTORY_LOCK:
			return step_lock(state, call, outcome, excludes);
		case HISTORY_UNLOCK:
			return step_unlock(state, call, outcome);
		case HISTORY_IS_HELD:
		case HISTORY_HOLD_COUNT:
			return step_question(state, r);
		case HISTORY_EXTEND:
			h = find(state, r);
			if (r->result == HISTORY_YES && (h == NULL || (h->lost && !h->unseen)))
				return false;
			if (h != NULL && h->may_end > model_lease_end(r, r->lease_us))
				h->may_end = model_lease_end(r, r->lease_us);
			return true;
		case HISTORY_LOST:
			h = find(state, r);
			return h == NULL || h->lost || lose(h, r);
		case HISTORY_ALL_TAKEN_AWAY:
			for (int i = 0; i < SIM_MAX_SERVERS; i++)
				state->token[i] = TOKENS_ANEW;
			/* FALLTHROUGH */
		case HISTORY_TAKEN_AWAY:
		case HISTORY_FORCE:
			rob(state, r->called);
			return true;
		default:
			return true;
	}
}

void
model_describe(const LockState *state, char *text, size_t size)
{
	size_t		len = 0;

	text[0] = '\0';
	for (int i = 0; i < state->n && len < size; i++)
	{
		const Holder *h = &state->holder[i];

		len += snprintf(text + len, size - len, "%s%d has it %d+%d times%s", i > 0 ? ", " : "",
						h->who, h->session, h->xact, h->lost ? " (lost)" : "");
	}
	if (state->n == 0)
		snprintf(text, size, "nobody has it");
}
