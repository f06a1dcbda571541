/*-------------------------------------------------------------------------
 *
 * statements.c
 *	  Which statements there are, and which comes next.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/workload/statements.c
 *
 *-------------------------------------------------------------------------
 */
#include "statements.h"

#include "../models/kinds.h"

/* One topic a line.  SimConfig.often follows the order of the topics. */
static const Statement *const topics[] = {
	setting_statements,
	lock_statements,
	question_statements,
	transaction_statements,
	fence_statements,
	procedure_statements,
	token_statements,
	count_statements,
	permit_statements,
	condition_statements,
};

/*
 * weight_of --- in this schedule
 *
 * The plainest of a topic, which is its first, is in each.
 */
static int
weight_of(int number, const Statement *s, const Statement *topic)
{
	int			often = sim_config.often[number % SIM_STATEMENTS];

	if ((topic == token_statements && !sim_config.tokens) ||
		((topic == count_statements || topic == permit_statements) && !sim_config.counts) ||
		(topic == condition_statements && !sim_config.conditions))
		return 0;

	return s->weight * (s == topic ? Max(often, 1) : often);
}

/*
 * pick --- the one at that place, if all that may stand there are laid in a row
 * as long as their weights; *total is how long it is
 */
static const Statement *
pick(int where, int place, int *total)
{
	int			number = 0;

	*total = 0;
	for (int t = 0; t < lengthof(topics); t++)
		for (const Statement *s = topics[t]; s->name != NULL; s++, number++)
		{
			if ((s->where & where) == 0)
				continue;
			*total += weight_of(number, s, topics[t]);
			if (place < *total)
				return s;
		}
	return NULL;
}

const Statement *
statement_draw(int where)
{
	int			total;

	(void) pick(where, INT_MAX, &total);
	return pick(where, sim_draw(total), &total);
}

const Statement *
statement_named(const char *name)
{
	for (int t = 0; t < lengthof(topics); t++)
		for (const Statement *s = topics[t]; s->name != NULL; s++)
			if (strcmp(s->name, name) == 0)
				return s;
	sim_fail("simulator", "there is no statement %s", name);
	return NULL;
}

void
statements_inside(int where)
{
	for (int n = 1 + sim_draw(3); n > 0; n--)
	{
		const Statement *s = statement_draw(where);

		sim_trace("  %s", s->name);
		sim_reached(s->name);
		s->run();
	}
}

/* ----------
 * What they draw
 * ----------
 */

static int	phrase_key;

void
draw_phrase_key(void)
{
	phrase_key = sim_draw(sim_config.nkeys);
}

const char *
draw_key(void)
{
	static char key[24];
	bool		same = phrase_is_under_way() && sim_draw(2) != 0;

	snprintf(key, sizeof(key), "k%d", same ? phrase_key : (int) sim_draw(sim_config.nkeys));
	return key;
}

void
set_name(LrName *name, const char *key)
{
	memset(name, 0, sizeof(LrName));
	strlcpy(name->data, key, sizeof(name->data));
	name->len = strlen(key);
	name->hash = lr_name_hash(name->data, name->len);
}

/*
 * draw_kind_of --- that which the key is held as, if it is
 */
KindId
draw_kind_of(const char *key)
{
	static const KindId all[] = {KIND_REENTRANT, KIND_SHARED, KIND_FREE};

	if (sim_config.read_write)
		return book_is_held(book_find(key, KIND_WRITE)) && sim_draw(2) ? KIND_WRITE :
			book_is_held(book_find(key, KIND_READ)) ? KIND_READ :
			(KindId) SIM_PICK(KIND_READ, KIND_WRITE);
	if (!sim_config.shared)
		return KIND_REENTRANT;
	for (int i = 0; i < lengthof(all); i++)
	{
		BookItem   *item = book_find(key, all[i]);

		if (item->session > 0 || item->xact != InvalidSubTransactionId)
			return all[i];
	}
	return (KindId) SIM_PICK(KIND_SHARED, KIND_REENTRANT, KIND_SHARED, KIND_FREE);
}

int64
within_max_lease(int64 lease_ms)
{
	return sim_config.masters > 0 ? Min(lease_ms, sim_config.max_lease_ms) : lease_ms;
}

NullableDatum
draw_lease(void)
{
	if (!sim_chance(sim_config.leases))
		return sql_null;
	return sql_interval(within_max_lease(sim_config.short_leases ? SIM_PICK(40, 100) :
										 SIM_PICK(700, 40, 2000, 6000)) * SIM_MS);
}
