/*-------------------------------------------------------------------------
 *
 * fences.c
 *	  Statements with fencing tokens, and what these promise.
 *
 * Of each key there is an account, which is read and written only by transactions
 * that have recorded a token for the key: as many increments as were committed
 * have to be seen in it, whoever believed to have the lock (G16).  A token that is
 * returned is above those that were recorded and committed, but for the hold's own,
 * and stands in the table, where it is this transaction's until its end (G17).
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/workload/fences.c
 *
 *-------------------------------------------------------------------------
 */
#include "statements.h"

#include "storage/shmem.h"

#include "../backend/heap.h"
#include "../../../src/settings.h"
#include "../kernel/history.h"
#include "../kernel/names.h"
#include "../kernel/sentinels.h"
#include "../kernel/shards.h"
#include "../models/kinds.h"

extern Datum lockredis_fenced_lock(PG_FUNCTION_ARGS);
extern Datum lockredis_try_fenced_lock(PG_FUNCTION_ARGS);
extern Datum lockredis_fenced_xact_lock(PG_FUNCTION_ARGS);
extern Datum lockredis_try_fenced_xact_lock(PG_FUNCTION_ARGS);
extern Datum lockredis_fence(PG_FUNCTION_ARGS);
extern Datum lockredis_fence_check(PG_FUNCTION_ARGS);
extern Datum lockredis_fence_forget(PG_FUNCTION_ARGS);

#define WRONG(...) sim_fail("fence", __VA_ARGS__)

/* ----------
 * What has been committed, of all sessions
 * ----------
 */

typedef struct Committed
{
	int64		token;			/* the highest that was recorded */
	uint64		owner;			/* by that hold; 0 = passed to redis_fence_check */
	int64		account;
	int64		granted[SIM_MAX_SERVERS];	/* the highest that each server got, */
	int			losses;			/* since it lost its data so often, */
	int64		counter;		/* by that counter */
} Committed;

static Committed *committed = NULL;

static Committed *
committed_of(const char *key)
{
	if (committed == NULL)
		committed = sim_durable("fences", sizeof(Committed) * SIM_MAX_KEYS);
	return &committed[atoi(key + 1)];
}

/* ----------
 * What this transaction has done, by subtransaction
 * ----------
 */

typedef enum DeedKind
{
	DEED_RECORDED,
	DEED_FORGOT,
	DEED_INCREMENTED
} DeedKind;

typedef struct Deed
{
	DeedKind	kind;
	SubTransactionId sub;
	char		key[24];
	int64		token;
	uint64		owner;
} Deed;

/* By key: what a hold of this session has recorded and committed last. */
typedef struct Own
{
	uint64		owner;
	int64		token;
} Own;

static Own own[SIM_MAX_KEYS];

#define DEEDS_MAX	128

static Deed deeds[DEEDS_MAX];
static int	ndeeds = 0;

static void
add_deed(DeedKind kind, const char *key, int64 token, uint64 owner)
{
	Deed	   *d = &deeds[ndeeds++];

	d->kind = kind;
	d->sub = GetCurrentSubTransactionId();
	strlcpy(d->key, key, sizeof(d->key));
	d->token = token;
	d->owner = owner;
}

static bool
has_room(void)
{
	return ndeeds < DEEDS_MAX;
}

void
fences_sub_ends(SubTransactionId sub, SubTransactionId parent, bool commit)
{
	int			n = 0;

	for (int i = 0; i < ndeeds; i++)
	{
		if (deeds[i].sub == sub && !commit)
			continue;
		deeds[n] = deeds[i];
		if (deeds[n].sub == sub)
			deeds[n].sub = parent;
		n++;
	}
	ndeeds = n;
}

static bool
has_done(DeedKind kind, const char *key)
{
	for (int i = 0; i < ndeeds; i++)
		if (deeds[i].kind == kind && strcmp(deeds[i].key, key) == 0)
			return true;
	return false;
}

static const char *
account_of(const char *key)
{
	static char name[ROW_KEY];

	snprintf(name, sizeof(name), "account:%s", key);
	return name;
}

static void
check_account(const char *key)
{
	int64		seen = 0;

	(void) row_committed(account_of(key), &seen);
	if (seen != committed_of(key)->account)
		WRONG("the account of %s is %lld, and %lld increments were committed", key,
			  (long long) seen, (long long) committed_of(key)->account);
}

/*
 * is_own --- it may be equal to what is recorded
 *
 * Also if the key was forgotten since, and the same token passed to
 * redis_fence_check.
 */
static bool
is_own(const char *key, int64 token, uint64 owner)
{
	const Own  *o = &own[atoi(key + 1)];

	return committed_of(key)->owner == owner || (o->owner == owner && o->token == token);
}

static void
commit_token(const Deed *d, Committed *c)
{
	if (d->token < c->token ||
		(d->token == c->token && d->owner != 0 && !is_own(d->key, d->token, d->owner)))
		WRONG("token %lld of %s is committed after token %lld", (long long) d->token, d->key,
			  (long long) c->token);
	if (d->token > c->token || d->owner != 0)
		c->owner = d->owner;
	if (d->owner != 0)
		own[atoi(d->key + 1)] = (Own) {
		d->owner, d->token
	};
	c->token = d->token;
}

static void
commit_deeds(const Deed *done, int n)
{
	for (int i = 0; i < n; i++)
	{
		const Deed *d = &done[i];
		Committed  *c = committed_of(d->key);

		if (d->kind == DEED_RECORDED)
			commit_token(d, c);
		else if (d->kind == DEED_FORGOT)
			c->token = c->owner = 0;
		else
			c->account++;
	}
	for (int i = 0; i < n; i++)
		if (done[i].kind == DEED_INCREMENTED)
			check_account(done[i].key);
}

/* At the moment at which others see it. */
void
fences_transaction_commits(void)
{
	commit_deeds(deeds, ndeeds);
}

void
fences_transaction_ends(void)
{
	ndeeds = 0;
}

/* ----------
 * Prepared transactions
 * ----------
 */

typedef struct PreparedDeeds
{
	int			n;
	Deed		deed[DEEDS_MAX];
} PreparedDeeds;

static PreparedDeeds *
prepared_deeds(int number)
{
	bool		found;
	PreparedDeeds *all = ShmemInitStruct("deeds of prepared transactions",
										 sizeof(PreparedDeeds) * PREPARED_PLACES, &found);

	Assert(number < PREPARED_PLACES);
	return &all[number];
}

void
fences_transaction_prepares(int number)
{
	PreparedDeeds *p = prepared_deeds(number);

	p->n = ndeeds;
	memcpy(p->deed, deeds, sizeof(Deed) * ndeeds);
}

void
fences_prepared_ends(int number, bool commit)
{
	if (commit)
		commit_deeds(prepared_deeds(number)->deed, prepared_deeds(number)->n);
}

/* ----------
 * Tokens
 * ----------
 */

static uint64
owner_of(const char *key)
{
	LrName		name;
	HeldEntry  *entry;

	set_name(&name, key);
	entry = held_find(&name, KIND_REENTRANT);
	return entry == NULL ? 0 : lt_owner(entry->hold);
}

/* Each Redis has counters of its own, and so has the table. */
static int64
counter_of_store(void)
{
	return lr_mode == MODE_TABLE ? -1 : (int64) lr_place;
}

/*
 * fences_are_comparable --- is it the counter that the schedule began with?
 *
 * The history knows no other, so it is told of no other's tokens.
 */
bool
fences_are_comparable(void)
{
	int64	   *first = sim_durable("first counter", sizeof(int64));

	if (*first == 0)
		*first = counter_of_store();
	return *first == counter_of_store() && lr_mode != MODE_FALLBACK && !elsewhere_moved();
}

/*
 * granted_before --- tokens that whoever asks now must not get
 *
 * But the tokens of other servers, once somebody has taken a lock away: this one may have
 * some in reserve, and not know yet.
 */
static int64
granted_before(const Committed *c, int losses)
{
	int			own = sim_server();
	bool		all = history_times(HISTORY_TAKEN_AWAY) + history_times(HISTORY_FORCE) + losses == 0;
	int64		token = 0;

	for (int i = 0; i < SIM_MAX_SERVERS && c->losses == losses; i++)
		if (all || i == own)
			token = Max(token, c->granted[i]);
	return token;
}

/*
 * check_grant --- a lock that was taken anew has a token above those of before
 *
 * But if the store has lost its counter.
 */
static void
check_grant(const char *key, int64 before, int losses, int64 token)
{
	Committed  *c = committed_of(key);
	int64	   *granted = &c->granted[sim_server()];

	/* After a failover the counter may be as it was a while ago, or another one. */
	if (losses != history_times(HISTORY_ALL_TAKEN_AWAY) || sentinels_failovers() > 0 ||
		shards_failovers() > 0 || elsewhere_moved())
		return;
	if (c->counter != counter_of_store())
	{
		before = 0;
		memset(c->granted, 0, sizeof(c->granted));
	}
	c->counter = counter_of_store();
	if (token <= before)
		WRONG("%s was given token %lld, and %lld had been given before", key,
			  (long long) token, (long long) before);
	if (c->losses != losses)
		memset(c->granted, 0, sizeof(c->granted));
	c->losses = losses;
	*granted = Max(*granted, token);
}

/*
 * check_not_stale --- it is above what others have recorded, or the hold's own
 *
 * Whoever has forgotten the key lets late ones in.
 */
static void
check_not_stale(const char *function, const char *key, int64 token, bool may_be_equal)
{
	const Committed *c = committed_of(key);

	if (token > c->token || has_done(DEED_FORGOT, key) ||
		(token == c->token && (may_be_equal || is_own(key, token, owner_of(key)))))
		return;
	WRONG("%s lets token %lld of %s pass, and %lld was recorded", function,
		  (long long) token, key, (long long) c->token);
}

/*
 * check_recorded --- the token stands in the table, as this transaction's
 */
static void
check_recorded(const char *function, const char *key, int64 token)
{
	if (!row_is_ours(key, token))
		WRONG("%s has returned for token %lld of %s, which is not what this transaction has in the table",
			  function, (long long) token, key);
}

static bool
call_fenced(LockScope scope, bool may_be_busy, const char *key, int64 *token)
{
	bool		isnull = false;

	if (may_be_busy)
		*token = DatumGetInt64(SQL_CALL(scope == SCOPE_XACT ? lockredis_try_fenced_xact_lock :
										lockredis_try_fenced_lock, &isnull, sql_text(key),
										sql_interval(SIM_PICK(0, 100 * SIM_MS, 2 * SIM_S)),
										draw_lease()));
	else
		*token = DatumGetInt64(SQL_CALL(scope == SCOPE_XACT ? lockredis_fenced_xact_lock :
										lockredis_fenced_lock, NULL, sql_text(key),
										draw_lease()));
	return !isnull;
}

static void
take_fenced(LockScope scope, bool may_be_busy)
{
	const char *key = draw_key();
	Committed  *c = committed_of(key);
	bool		is_new = !book_is_held(book_find(key, KIND_REENTRANT));
	int			losses = history_times(HISTORY_ALL_TAKEN_AWAY);
	int64		granted = granted_before(c, losses);
	int64		token;
	int			n = -1;

	/* It would wait for itself. */
	if (!has_room() || book_is_held(book_find(key, KIND_SHARED)))
		return;
	if (scope == SCOPE_XACT)
		n = history_call(HISTORY_RECORD, MyProcPid, key, KIND_REENTRANT, scope);
	if (!call_fenced(scope, may_be_busy, key, &token))
	{
		history_return(n, HISTORY_FAILED);
		sim_trace("-> busy");
		return;
	}
	sim_trace("-> token %lld of %s", (long long) token, key);
	history_at(n)->token = token;
	history_return(n, HISTORY_YES);
	if (is_new && (scope == SCOPE_SESSION || sim_config.mode != MODE_FALLBACK))
		check_grant(key, granted, losses, token);
	if (scope == SCOPE_SESSION)
		return;
	check_recorded("redis_fenced_xact_lock", key, token);
	check_not_stale("redis_fenced_xact_lock", key, token, false);
	add_deed(DEED_RECORDED, key, token, owner_of(key));
}

static void
fenced_lock(void)
{
	take_fenced(SCOPE_SESSION, false);
}

static void
try_fenced_lock(void)
{
	take_fenced(SCOPE_SESSION, true);
}

static void
fenced_xact_lock(void)
{
	take_fenced(SCOPE_XACT, false);
}

static void
try_fenced_xact_lock(void)
{
	take_fenced(SCOPE_XACT, true);
}

/* One near to what is recorded, as of a service that has been given it elsewhere. */
static void
fence_check(void)
{
	const char *key = draw_key();
	int64		token = committed_of(key)->token + SIM_PICK(0, 1, -1, 2);
	int			n;

	if (token < 1 || !has_room())
		return;
	n = history_call(HISTORY_RECORD, MyProcPid, key, KIND_REENTRANT, 0);
	history_at(n)->token = token;
	(void) SQL_CALL(lockredis_fence_check, NULL, sql_text(key), sql_int64(token));
	history_return(n, HISTORY_YES);
	check_recorded("redis_fence_check", key, token);
	check_not_stale("redis_fence_check", key, token, true);
	add_deed(DEED_RECORDED, key, token, 0);
}

static void
fence_forget(void)
{
	const char *key = draw_key();
	int			n;

	if (!has_room())
		return;
	n = history_call(HISTORY_FORGET, MyProcPid, key, KIND_REENTRANT, 0);
	if (!DatumGetBool(SQL_CALL(lockredis_fence_forget, NULL, sql_text(key))))
	{
		history_return(n, HISTORY_NO);
		return;
	}
	history_return(n, HISTORY_YES);
	add_deed(DEED_FORGOT, key, 0, 0);
}

/*
 * redis_fence: the token of the lock, without asking the store
 */
static void
fence(void)
{
	const char *key = draw_key();
	int			n = history_call(HISTORY_FENCE, MyProcPid, key, KIND_REENTRANT, 0);
	bool		isnull;
	int64		token = DatumGetInt64(SQL_CALL(lockredis_fence, &isnull, sql_text(key)));

	history_at(n)->token = isnull ? 0 : token;
	history_return(n, isnull ? HISTORY_NO : HISTORY_YES);
	if (!isnull && !book_is_held(book_find(key, KIND_REENTRANT)))
		WRONG("redis_fence says %lld for %s, which is not held", (long long) token, key);
}

/*
 * increment --- read, think, write: what a lock is there for
 */
static void
increment(void)
{
	const char *key = draw_key();
	int64		value = 0;

	if (!has_done(DEED_RECORDED, key) || !has_room())
		return;
	(void) row_read(account_of(key), &value);
	if (sim_chance(200))
		pg_usleep((long) SIM_PICK(100, 5 * SIM_MS, 500 * SIM_MS));
	(void) row_raise(account_of(key), value + 1, true);
	add_deed(DEED_INCREMENTED, key, 0, 0);
}

const Statement fence_statements[] = {
	{"redis_fenced_xact_lock", 8, ANYWHERE, fenced_xact_lock},
	{"redis_fenced_lock", 5, ANYWHERE, fenced_lock},
	{"redis_try_fenced_xact_lock", 3, ANYWHERE, try_fenced_xact_lock},
	{"redis_try_fenced_lock", 2, ANYWHERE, try_fenced_lock},
	{"redis_fence", 2, ANYWHERE, fence},
	{"redis_fence_check", 2, ANYWHERE, fence_check},
	{"redis_fence_forget", 1, ANYWHERE, fence_forget},
	{"UPDATE account", 8, IN_BLOCK | INSIDE | INSIDE_LOOSE, increment},
	{NULL}
};
