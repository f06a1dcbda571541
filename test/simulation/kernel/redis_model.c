/*-------------------------------------------------------------------------
 *
 * redis_model.c
 *	  A model of Redis: what the scripts in src/kinds do, on a map of keys.
 *
 * A command is carried out at once when it arrives, like a script.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/redis_model.c
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <string.h>

#include "config.h"
#include "history.h"
#include "network.h"
#include "redis_model.h"

#define MAX_KEYS		64
#define MAX_SUBSCRIBERS	64
#define MAX_ROBBED		512

typedef struct Key
{
	char		name[REDIS_NAME];
	bool		shared;			/* one of those who have the key together; each
								 * has an entry of its own, as a lock of its own */
	bool		excludes_nobody;	/* likewise, and keeps nobody from the key */
	bool		there;
	char		owner[REDIS_OWNER];
	int			count;
	int64_t		expires_at;		/* on its clock */
	int64_t		fence;
	bool		denied;
	bool		was_denied;
} Key;

typedef struct Subscriber
{
	int			conn;
	char		channel[REDIS_NAME];
} Subscriber;

static Key	keys[MAX_KEYS];
static int	nkeys;
static Subscriber subscribers[MAX_SUBSCRIBERS];
static int	nsubscribers;
static char robbed[MAX_ROBBED][REDIS_OWNER];
static int	nrobbed;
static int64_t clock_offset;
static int64_t loading_until;

static void serve(int conn, const void *data);
static void closed(int conn);

void
redis_reset(void)
{
	nkeys = nsubscribers = nrobbed = 0;
	clock_offset = 777 * SIM_S;
	loading_until = 0;
	net_reset(serve, closed);
}

int64_t
redis_clock(void)
{
	return sim_now() + clock_offset;
}

static int64_t
clock_ms(void)
{
	return redis_clock() / SIM_MS;
}

void
redis_note_robbed(const char *owner)
{
	if (nrobbed < MAX_ROBBED)
		snprintf(robbed[nrobbed++], REDIS_OWNER, "%s", owner);
}

static void
rob(const Key *k)
{
	if (!k->there)
		return;
	redis_note_robbed(k->owner);
	history_event(HISTORY_TAKEN_AWAY, k->name);
}

bool
redis_was_robbed(const char *owner)
{
	for (int i = 0; i < nrobbed; i++)
		if (strcmp(robbed[i], owner) == 0)
			return true;
	return nrobbed == MAX_ROBBED;
}

static Key *
expire(Key *k)
{
	if (k->there && clock_ms() > k->expires_at / SIM_MS)
	{
		sim_trace("redis: %s of %s expires", k->name, k->owner);
		k->there = false;
	}
	return k;
}

static Key *
new_key(const char *name, bool shared)
{
	Key		   *k = NULL;

	for (int i = 0; shared && i < nkeys; i++)
		if (keys[i].shared && !expire(&keys[i])->there)
			k = &keys[i];
	if (k == NULL)
	{
		if (nkeys == MAX_KEYS)
			sim_fail("simulator", "too many keys");
		k = &keys[nkeys++];
	}
	memset(k, 0, sizeof(Key));
	k->shared = shared;
	snprintf(k->name, sizeof(k->name), "%s", name);
	return k;
}

static Key *
find(const char *name)
{
	for (int i = 0; i < nkeys; i++)
		if (!keys[i].shared && strcmp(keys[i].name, name) == 0)
			return expire(&keys[i]);
	return new_key(name, false);
}

/*
 * One who has the key together with others: that one, or any who keeps others from
 * it (NULL).
 */
static Key *
find_shared(const char *name, const char *owner)
{
	for (int i = 0; i < nkeys; i++)
		if (keys[i].shared && expire(&keys[i])->there && strcmp(keys[i].name, name) == 0 &&
			(owner == NULL ? !keys[i].excludes_nobody : strcmp(keys[i].owner, owner) == 0))
			return &keys[i];
	return NULL;
}

/* What that owner has, or would have. */
static Key *
find_of(const char *name, bool shared, const char *owner)
{
	Key		   *k = shared ? find_shared(name, owner) : find(name);

	return k != NULL ? k : new_key(name, true);
}

static bool
has(const Key *k, const char *owner)
{
	return k->there && strcmp(k->owner, owner) == 0;
}

static void
set_expiry(Key *k, int64_t ms)
{
	k->expires_at = (clock_ms() + ms) * SIM_MS;
}

static void
lengthen(Key *k, int64_t ms)
{
	if ((clock_ms() + ms) * SIM_MS > k->expires_at)
		set_expiry(k, ms);
}

/* ----------
 * Channels
 * ----------
 */

static int
publish(const char *channel)
{
	int			n = 0;

	for (int i = 0; i < nsubscribers; i++)
		if (strcmp(subscribers[i].channel, channel) == 0)
		{
			RedisReply	r;

			memset(&r, 0, sizeof(r));
			r.is_message = true;
			strcpy(r.channel, channel);
			net_reply(subscribers[i].conn, &r, sizeof(r));
			n++;
		}
	return n;
}

static void
unsubscribe(int conn, const char *channel)
{
	for (int i = nsubscribers - 1; i >= 0; i--)
		if (subscribers[i].conn == conn &&
			(channel == NULL || strcmp(subscribers[i].channel, channel) == 0))
			subscribers[i] = subscribers[--nsubscribers];
}

static void
subscribe(int conn, const char *channel)
{
	unsubscribe(conn, channel);
	if (nsubscribers == MAX_SUBSCRIBERS)
		sim_fail("simulator", "too many subscribers");
	subscribers[nsubscribers].conn = conn;
	snprintf(subscribers[nsubscribers++].channel, REDIS_NAME, "%s", channel);
}

static void
closed(int conn)
{
	unsubscribe(conn, NULL);
}

/* ----------
 * Scripts
 * ----------
 */

static void
tell_holder(const Key *k, RedisAnswer *out)
{
	out->result = REDIS_GONE;
	if (k->there)
		strcpy(out->holder, k->owner);
}

static int64_t
ttl_ms(const Key *k)
{
	return k->expires_at / SIM_MS - clock_ms();
}

static void
run_create(Key *k, const RedisArg *a, RedisAnswer *out)
{
	const Key  *other = a->excludes_nobody ? NULL :
		a->shared ? find(a->key) : find_shared(a->key, NULL);

	out->store_ms = clock_ms();
	if (k->there || (other != NULL && other->there))
	{
		if (!k->there)
			k = (Key *) other;
		out->result = REDIS_BUSY;
		out->ttl_ms = ttl_ms(k);
		strcpy(out->holder, k->owner);
		return;
	}
	if (clock_ms() > a->not_after)
	{
		out->result = REDIS_LATE;
		return;
	}
	if (a->fenced)
		out->fence = ++k->fence;
	k->excludes_nobody = a->excludes_nobody;
	k->there = true;
	k->count = 1;
	strcpy(k->owner, a->owner);
	set_expiry(k, a->lease_ms);
}

static void
run_release(Key *k, const RedisArg *a, RedisAnswer *out)
{
	if (!has(k, a->owner))
	{
		out->result = REDIS_GONE;
		return;
	}
	if (a->keep_ms > 0)
	{
		strncat(k->owner, "/kept", REDIS_OWNER - strlen(k->owner) - 1);
		set_expiry(k, a->keep_ms);
	}
	else
		k->there = false;
	out->receivers = publish(k->name);
}

static void
run_one(RedisVerb verb, const RedisArg *a, RedisAnswer *out)
{
	Key		   *k = find_of(a->key, a->shared, a->owner);

	switch (verb)
	{
		case REDIS_CREATE:
			run_create(k, a, out);
			break;
		case REDIS_RELEASE:
			run_release(k, a, out);
			break;
		case REDIS_SET:
			if (!has(k, a->owner))
			{
				tell_holder(k, out);
				break;
			}
			k->count = a->count;
			if (a->lease_ms > 0)
				lengthen(k, a->lease_ms);
			break;
		case REDIS_RENEW:
			if (has(k, a->owner))
				lengthen(k, a->lease_ms);
			else
				tell_holder(k, out);
			break;
		case REDIS_MINT:
			if (!has(k, a->owner))
			{
				tell_holder(k, out);
				break;
			}
			k->fence = k->fence + 1 > a->floor ? k->fence + 1 : a->floor + 1;
			out->fence = k->fence;
			break;
		case REDIS_FORCE:
			if (!has(k, a->owner) && find_shared(a->key, a->owner) != NULL)
				k = find_shared(a->key, a->owner);
			if (!has(k, a->owner))
			{
				out->result = REDIS_GONE;
				break;
			}
			rob(k);
			k->there = false;
			out->receivers = publish(k->name);
			break;
		case REDIS_INSPECT:
			if (!k->there && find_shared(a->key, NULL) != NULL)
				k = find_shared(a->key, NULL);
			out->there = k->there;
			if (k->there)
			{
				out->ttl_ms = ttl_ms(k);
				out->count = k->count;
				strcpy(out->holder, k->owner);
			}
			break;
		default:
			break;
	}
}

static const char *
verb_name(RedisVerb verb)
{
	static const char *const names[] = {
		"create", "set", "release", "renew", "mint", "force", "inspect", "probe",
		"time", "subscribe", "unsubscribe", "ping"
	};

	return names[verb];
}

static const char *
result_name(RedisResult result)
{
	static const char *const names[] = {"done", "busy", "gone", "late"};

	return names[result];
}

static bool
is_refused(const RedisRequest *q, RedisReply *r)
{
	if (q->verb == REDIS_PING || q->verb == REDIS_TIME)
		return false;
	r->loading = sim_now() < loading_until;
	for (int i = 0; i < q->n; i++)
		r->denied = r->denied || find(q->arg[i].key)->denied;
	return r->loading || r->denied;
}

static void
serve(int conn, const void *data)
{
	const RedisRequest *q = data;
	RedisReply	r;

	memset(&r, 0, sizeof(r));
	r.verb = q->verb;
	r.n = q->n;
	if (is_refused(q, &r))
		sim_trace("redis: %s is refused", verb_name(q->verb));
	else if (q->verb == REDIS_SUBSCRIBE || q->verb == REDIS_UNSUBSCRIBE)
	{
		strcpy(r.channel, q->arg[0].key);
		if (q->verb == REDIS_SUBSCRIBE)
			subscribe(conn, r.channel);
		else
			unsubscribe(conn, r.channel);
		sim_trace("redis: %s %s", verb_name(q->verb), r.channel);
	}
	else
	{
		r.answer[0].store_ms = clock_ms();
		for (int i = 0; i < q->n; i++)
		{
			run_one(q->verb, &q->arg[i], &r.answer[i]);
			sim_trace("redis: %s %s of %s: %s%s%s", verb_name(q->verb),
					  q->arg[i].key, q->arg[i].owner,
					  result_name(r.answer[i].result),
					  r.answer[i].holder[0] ? ", has " : "", r.answer[i].holder);
		}
	}
	net_reply(conn, &r, sizeof(r));
}

/* ----------
 * Faults
 * ----------
 */

void
redis_lose_data(void)
{
	history_return(history_call(HISTORY_ALL_TAKEN_AWAY, 0, NULL, 0, 0), HISTORY_YES);
	sim_trace("redis: all data are lost");
	for (int i = 0; i < nkeys; i++)
	{
		rob(&keys[i]);
		keys[i].there = false;
	}
}

/* Leases end at another time then: whoever had one may lose it. */
void
redis_set_clock(int64_t offset)
{
	sim_trace("redis: the clock is set by %.3f s", offset / (double) SIM_S);
	for (int i = 0; i < nkeys; i++)
		rob(&keys[i]);
	clock_offset += offset;
}

void
redis_deny_key(const char *key, bool deny)
{
	sim_trace("redis: %s is %s", key, deny ? "denied" : "allowed");
	find(key)->denied = deny;
	find(key)->was_denied = true;
}

bool
redis_is_denied(const char *key)
{
	return find(key)->denied;
}

void
redis_loading_until(int64_t until)
{
	loading_until = until;
	sim_disturbed(until);
}

void
redis_delete(const char *key)
{
	for (Key *k = find(key); k != NULL; k = find_shared(key, NULL))
	{
		if (k->there)
			sim_trace("redis: somebody deletes %s of %s", key, k->owner);
		rob(k);
		k->there = false;
	}
}

void
redis_publish(const char *key)
{
	(void) publish(key);
}

bool
redis_foreign_take(const char *key, const char *owner, int64_t lease_ms)
{
	Key		   *k = find(key);

	if (k->there || find_shared(key, NULL) != NULL)
		return false;
	sim_trace("redis: %s is taken by %s for %lld ms", key, owner, (long long) lease_ms);
	k->there = true;
	k->count = 1;
	snprintf(k->owner, sizeof(k->owner), "%s", owner);
	set_expiry(k, lease_ms);
	return true;
}

void
redis_foreign_release(const char *key, const char *owner, bool tell)
{
	Key		   *k = find(key);

	if (!has(k, owner))
		return;
	sim_trace("redis: %s is given back by %s", key, owner);
	k->there = false;
	if (tell)
		(void) publish(key);
}

/* ----------
 * Checks
 * ----------
 */

int64_t
redis_owned_until(const char *key, const char *owner)
{
	const Key  *k = find(key);

	if (!has(k, owner))
		k = find_shared(key, owner);
	return k != NULL ? k->expires_at - clock_offset : 0;
}

bool
redis_keeps_from(const char *key, bool shared)
{
	return find(key)->there || (!shared && find_shared(key, NULL) != NULL);
}

/*
 * is_given_up --- what is refused is left when it should have run out
 *
 * It has not yet if the clock was set back, or if the last renewal was a while on
 * its way.
 */
static bool
is_given_up(const Key *k)
{
	int64_t		on_its_way = (sim_config.connect_timeout_ms +
							  sim_config.command_timeout_ms) * SIM_MS;

	/* The one of a key that is not shared knows what the key was. */
	return find(k->name)->was_denied &&
		(redis_was_robbed(k->owner) || k->expires_at - redis_clock() <= on_its_way);
}

const char *
redis_find_owner(const char *prefix)
{
	for (int i = 0; i < nkeys; i++)
	{
		const Key  *k = expire(&keys[i]);

		if (k->there && strncmp(k->owner, prefix, strlen(prefix)) == 0 &&
			strstr(k->owner, "/kept") == NULL &&
			!is_given_up(k))
			return k->name;
	}
	return NULL;
}
