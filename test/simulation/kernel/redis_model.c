/*-------------------------------------------------------------------------
 *
 * redis_model.c
 *	  A model of Redis: nodes, each with a map of keys, and what the scripts in
 *	  src/kinds do with it.
 *
 * A script is carried out at once when its command arrives.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/redis_model.c
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "history.h"
#include "network.h"
#include "redis_counts.h"
#include "redis_model.h"
#include "redis_script.h"
#include "sentinels.h"
#include "shards.h"

#define MAX_KEYS		64
#define MAX_DENIED		16
#define MAX_ROBBED		512
#define MAX_RELEASED	64

#define CLOCK_STEPS_MAX	(63 * SIM_S)

/* Nodes have run for so long when a schedule begins. */
#define UP_BEFORE		(100000 * SIM_S)

typedef struct Key
{
	char		name[REDIS_NAME];
	bool		shared;			/* one of those who have the key together; each
								 * has an entry of its own, as a lock of its own */
	bool		excludes_nobody;	/* likewise, and keeps nobody from the key */
	bool		read_write;		/* of a read-write lock */
	bool		token;			/* of a token lock, whose token the owner is */
	int64_t		sent_at;		/* and when its create was */
	bool		there;
	bool		promised;		/* counts only with a replica */
	bool		is_old;			/* came back after it was given back, or was left at
								 * another place; unless it was renewed since */
	char		owner[REDIS_OWNER];
	int			count;
	int64_t		expires_at;		/* on its clock */
	int64_t		fence;
} Key;

/* A writer that waits, or who waits for a fair lock. */
typedef struct Writer
{
	char		name[REDIS_NAME];
	char		owner[REDIS_OWNER];
	bool		is_old;			/* was left at another place */
	int64_t		since_ms;		/* fair: a number in the order in which they came */
	int64_t		until_ms;
	bool		told;			/* fair: that it is its turn, since it asked */
} Writer;

#define MAX_WRITERS	64

typedef struct Data
{
	Key			key[MAX_KEYS];
	int			nkeys;
	Writer		writer[MAX_WRITERS];
	int			nwriters;
} Data;

typedef struct Node
{
	Data		data;
	Data		saved;
	Data		replica;		/* what it had when it confirmed last */
	int64_t		away_until;		/* the replica */
	int64_t		clock_offset;
	int64_t		clock_steps;	/* the sum of those */
	bool		clock_was_set;
	bool		clock_went_back;
	int64_t		booted_at;		/* the process that answers there now, */
	int64_t		boot_second;	/* by its clock */
	int			run;			/* how many there were before it */
	RedisMood	mood;
	int64_t		mood_until;
	int			lost_messages;
	int64_t		double_after;	/* the next message comes again; 0 = not */
	int			ndenied;
	char		denied[MAX_DENIED][REDIS_NAME];
} Node;

static Node nodes[REDIS_NODES];
static int	present;
static bool was_another;		/* once */
static int64_t present_since;
static bool others_wait;

/* What was denied, and when it was allowed again. */
typedef struct Allowed
{
	char		name[REDIS_NAME];
	int64_t		at;
} Allowed;

#define MAX_ALLOWED	64

static Allowed allowed[MAX_ALLOWED];
static int	nallowed;

/* Locks of which something was denied once, whatever data a node has since. */
static char once_denied[MAX_ALLOWED][REDIS_NAME];
static int	nonce_denied;

/* Each token that was asked for. */
typedef struct Token
{
	char		key[REDIS_NAME];
	char		token[REDIS_OWNER];
	char		digest[REDIS_OWNER];
	char		instance[REDIS_OWNER];
	RedisTokenState state;
	uint32_t	expired;		/* masters where its time has run out while it was had:
								 * bits */
} Token;

#define MAX_TOKENS	1024

static Token tokens[MAX_TOKENS];
static int	ntokens;

/* Who gave a lock back: a renewal that was on its way does not want it again. */
static char released[MAX_RELEASED][REDIS_OWNER];
static int	nreleased;

/* Of whom a majority had the lock no more when he gave back the first of what was left. */
static char lost[MAX_RELEASED][REDIS_OWNER];
static int	nlost;

/* Of whom something is gone that he did not give back; at which node, and why. */
static struct
{
	char		owner[REDIS_OWNER];
	int			node;
	bool		by_restart;
}			robbed[MAX_ROBBED];
static int	nrobbed;

void
redis_reset(void)
{
	nallowed = nonce_denied = nreleased = nlost = ntokens = 0;
	memset(lost, 0, sizeof(lost));
	for (int i = 0; i < REDIS_NODES; i++)
	{
		Node	   *n = &nodes[i];

		n->data.nkeys = n->saved.nkeys = n->replica.nkeys = 0;
		n->data.nwriters = n->saved.nwriters = n->replica.nwriters = 0;
		n->away_until = 0;
		n->clock_offset = (777 + 50 * i) * SIM_S;
		n->clock_steps = 0;
		n->clock_was_set = n->clock_went_back = false;
		n->run = 0;
		n->booted_at = sim_now() - UP_BEFORE;
		n->boot_second = redis_clock(i) / SIM_S - UP_BEFORE / SIM_S;
		n->mood = REDIS_WELL;
		n->lost_messages = n->ndenied = 0;
		n->double_after = 0;
	}
	present = nrobbed = 0;
	was_another = false;
	present_since = 0;
	redis_counts_event(0, DATA_RESET);
	redis_conditions_event(0, DATA_RESET);
	redis_wire_reset();
}

int
redis_present(void)
{
	return present;
}

int
redis_place_of(const char *name)
{
	return sim_config.cluster ? shards_place_of(name) : present;
}

void
redis_set_present(int node)
{
	if (node == present)
		return;
	was_another = true;
	for (int i = 0; i < REDIS_NODES; i++)
	{
		for (int j = 0; j < nodes[i].data.nkeys; j++)
			nodes[i].data.key[j].is_old = true;
		for (int j = 0; j < nodes[i].data.nwriters; j++)
			nodes[i].data.writer[j].is_old = true;
	}
	present = node;
	present_since = sim_now();
}

static void
note_released(const char *owner)
{
	snprintf(released[nreleased++ % MAX_RELEASED], REDIS_OWNER, "%s", owner);
}

bool
redis_was_released(const char *owner)
{
	for (int i = 0; i < MAX_RELEASED && i < nreleased; i++)
		if (strcmp(released[i], owner) == 0)
			return true;
	return false;
}

/*
 * is_wanted_again --- by a request that was not sent before lockredis.url was changed
 */
static void
is_wanted_again(Key *k)
{
	if (net_sent_at() >= present_since && !redis_was_released(k->owner))
		k->is_old = false;
}

/*
 * is_released_elsewhere --- by the node that is still believed to be the master
 *
 * When another one is heard of, nobody knows of the lock any more.
 */
static void
is_released_elsewhere(int node, const char *name, const char *owner)
{
	int			place = redis_place_of(name);
	int			believed = sim_config.sentinels ? sentinels_believed() :
		sim_config.cluster ? shards_believed(name) : place;

	if (node == place || node != believed)
		return;
	for (int i = 0; i < nodes[place].data.nkeys; i++)
		if (strcmp(nodes[place].data.key[i].owner, owner) == 0)
			nodes[place].data.key[i].is_old = true;
}

int64_t
redis_clock(int node)
{
	return sim_now() + nodes[node].clock_offset;
}

static int64_t
clock_ms(int node)
{
	return redis_clock(node) / SIM_MS;
}

RedisMood
redis_mood(int node)
{
	return sim_now() < nodes[node].mood_until ? nodes[node].mood : REDIS_WELL;
}

const char *
redis_mood_words(RedisMood mood)
{
	static const char *const words[] = {
		NULL,
		"LOADING Redis is loading the dataset in memory",
		"READONLY You can't write against a read only replica.",
		"OOM command not allowed when used memory > 'maxmemory'.",
		"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
		"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
	};

	return words[mood];
}

static void
note_robbed(int node, const char *owner, bool by_restart)
{
	if (nrobbed == MAX_ROBBED)
		return;
	snprintf(robbed[nrobbed].owner, REDIS_OWNER, "%s", owner);
	robbed[nrobbed].node = node;
	robbed[nrobbed++].by_restart = by_restart;
}

void
redis_note_robbed(const char *owner)
{
	note_robbed(present, owner, false);
}

static void
rob_by(int node, const Key *k, bool by_restart)
{
	if (!k->there)
		return;
	note_robbed(node, k->owner, by_restart);
	history_event(HISTORY_TAKEN_AWAY, k->name);
}

static void
rob(int node, const Key *k)
{
	rob_by(node, k, false);
}

bool
redis_was_robbed(const char *owner)
{
	for (int i = 0; i < nrobbed; i++)
		if (strcmp(robbed[i].owner, owner) == 0)
			return true;
	return nrobbed == MAX_ROBBED;
}

bool
redis_was_robbed_at(int node, const char *owner)
{
	for (int i = 0; i < nrobbed; i++)
		if (robbed[i].node == node && strcmp(robbed[i].owner, owner) == 0)
			return true;
	return nrobbed == MAX_ROBBED;
}

bool
redis_was_robbed_by_hand(const char *owner)
{
	for (int i = 0; i < nrobbed; i++)
		if (!robbed[i].by_restart && strcmp(robbed[i].owner, owner) == 0)
			return true;
	return nrobbed == MAX_ROBBED;
}

static void
note_token_expired(int node, const char *token)
{
	for (int i = 0; i < ntokens; i++)
		if (strcmp(tokens[i].token, token) == 0 && tokens[i].state == REDIS_TOKEN_HAD)
			tokens[i].expired |= 1U << node;
}

static Key *
expire(int node, Key *k)
{
	if (k->there && clock_ms(node) > k->expires_at / SIM_MS)
	{
		sim_trace("redis %d: %s of %s expires", node, k->name, k->owner);
		if (k->token)
			note_token_expired(node, k->owner);
		k->there = k->is_old = false;
	}
	return k;
}

static Key *
new_key(int node, const char *name, bool shared)
{
	Data	   *d = &nodes[node].data;
	Key		   *k = NULL;

	for (int i = 0; shared && i < d->nkeys; i++)
		if (d->key[i].shared && !expire(node, &d->key[i])->there)
			k = &d->key[i];
	if (k == NULL)
	{
		if (d->nkeys == MAX_KEYS)
			sim_fail("simulator", "too many keys");
		k = &d->key[d->nkeys++];
	}
	memset(k, 0, sizeof(Key));
	k->shared = shared;
	snprintf(k->name, sizeof(k->name), "%s", name);
	return k;
}

static Key *
find_known(int node, const char *name)
{
	Data	   *d = &nodes[node].data;

	for (int i = 0; i < d->nkeys; i++)
		if (!d->key[i].shared && strcmp(d->key[i].name, name) == 0)
			return expire(node, &d->key[i]);
	return NULL;
}

static Key *
find(int node, const char *name)
{
	Key		   *k = find_known(node, name);

	return k != NULL ? k : new_key(node, name, false);
}

/*
 * One who has the key together with others: that one, or any who keeps others from
 * it (NULL).
 */
static Key *
find_shared(int node, const char *name, const char *owner)
{
	Data	   *d = &nodes[node].data;

	for (int i = 0; i < d->nkeys; i++)
	{
		Key		   *k = &d->key[i];

		if (k->shared && expire(node, k)->there && strcmp(k->name, name) == 0 &&
			(owner == NULL ? !k->excludes_nobody : strcmp(k->owner, owner) == 0))
			return k;
	}
	return NULL;
}

/* What that owner has, or would have. */
static Key *
find_of(int node, const char *name, bool shared, const char *owner)
{
	Key		   *k = shared ? find_shared(node, name, owner) : find(node, name);

	return k != NULL ? k : new_key(node, name, true);
}

static bool
has(const Key *k, const char *owner)
{
	return k->there && strcmp(k->owner, owner) == 0;
}

static void
set_expiry(int node, Key *k, int64_t ms)
{
	k->expires_at = (clock_ms(node) + ms) * SIM_MS;
}

static bool
lengthen(int node, Key *k, int64_t ms)
{
	if ((clock_ms(node) + ms) * SIM_MS <= k->expires_at)
		return false;
	set_expiry(node, k, ms);
	return true;
}

/* When the present lock ends by itself, as others see it. */
static int64_t
end_of(int node, const Key *k)
{
	return k->expires_at - nodes[node].clock_offset;
}

/* ----------
 * Channels
 * ----------
 */

static void
tell_again(void *arg, int64_t node)
{
	(void) redis_tell((int) node, arg);
	free(arg);
}

/*
 * redis_publish_until --- that the key is free; who is not told believes until then that it
 * is not
 */
int
redis_publish_until(int node, const char *channel, int64_t until)
{
	Node	   *n = &nodes[node];

	/* A release that tells nobody */
	if (channel[0] == '\0')
		return 0;
	if (n->lost_messages > 0)
	{
		n->lost_messages--;
		sim_trace("redis %d: a message of %s is lost", node, channel);
		sim_disturbed(until);
		return 0;
	}
	if (n->double_after > 0)
	{
		sim_at(sim_now() + n->double_after, tell_again, strdup(channel), node);
		n->double_after = 0;
	}
	return redis_tell(node, channel) + (others_wait && sim_chance(500) ? 1 : 0);
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
ttl_ms(int node, const Key *k)
{
	return k->expires_at / SIM_MS - clock_ms(node);
}

/*
 * redis_refuses --- the words of a command in a script that is not carried out
 */
const char *
redis_refuses(int node, bool needs_memory)
{
	RedisMood	mood = redis_mood(node);

	return mood == REDIS_READONLY || mood == REDIS_MISCONF ||
		(mood == REDIS_OOM && needs_memory) ? redis_mood_words(mood) : NULL;
}

static bool
refuses(int node, bool needs_memory, RedisAnswer *out)
{
	const char *words = redis_refuses(node, needs_memory);

	if (words != NULL)
		out->error = words;
	return out->error != NULL;
}

static void
run_create(int node, Key *k, const RedisArg *a, RedisAnswer *out)
{
	const Key  *other = a->excludes_nobody ? NULL :
		a->shared ? find(node, a->key) : find_shared(node, a->key, NULL);

	out->store_ms = clock_ms(node);
	if (k->there || (other != NULL && other->there))
	{
		if (!k->there)
			k = (Key *) other;
		out->result = k->read_write ? REDIS_WRONG_TYPE : REDIS_BUSY;
		out->ttl_ms = ttl_ms(node, k);
		strcpy(out->holder, k->owner);
		return;
	}
	if (clock_ms(node) > a->not_after)
	{
		out->result = REDIS_LATE;
		return;
	}
	if (refuses(node, true, out))
		return;
	if (a->fenced)
		out->fence = ++k->fence;
	k->excludes_nobody = a->excludes_nobody;
	k->read_write = k->token = false;
	k->there = out->wrote = true;
	k->is_old = k->promised = false;
	k->count = 1;
	strcpy(k->owner, a->owner);
	set_expiry(node, k, a->lease_ms);
}

/* ----------
 * Token locks
 * ----------
 */

void
redis_note_token(const char *key, const char *token, const char *digest,
				 const char *instance, RedisTokenState state)
{
	Token	   *t = &tokens[0];

	while (t < &tokens[ntokens] && strcmp(t->token, token) != 0)
		t++;
	if (t == &tokens[MAX_TOKENS])
		sim_fail("simulator", "too many tokens");
	if (t == &tokens[ntokens])
		ntokens++;
	snprintf(t->key, sizeof(t->key), "%s", key);
	snprintf(t->token, sizeof(t->token), "%s", token);
	snprintf(t->digest, sizeof(t->digest), "%s", digest);
	snprintf(t->instance, sizeof(t->instance), "%s", instance);
	t->state = state;
	t->expired = 0;
}

int
redis_count_tokens(const char *instance, RedisTokenState state)
{
	int			n = 0;

	for (int i = 0; i < ntokens; i++)
		n += tokens[i].state == state && strcmp(tokens[i].instance, instance) == 0;
	return n;
}

/* The one that has the key, by its digest; any, if that is NULL. */
static const Token *
token_of(const Key *k, const char *digest)
{
	for (int i = 0; k->there && k->token && i < ntokens; i++)
		if (strcmp(tokens[i].token, k->owner) == 0 &&
			(digest == NULL || strcmp(tokens[i].digest, digest) == 0))
			return &tokens[i];
	return NULL;
}

/*
 * is_left_of_token --- a call that has failed leaves nothing behind
 */
static bool
is_left_of_token(const Key *k, const char *prefix)
{
	const Token *t = token_of(k, NULL);

	return t != NULL && t->state == REDIS_TOKEN_ASKED &&
		strncmp(t->instance, prefix, strlen(prefix)) == 0;
}

/*
 * takes_token_away --- from who has it
 *
 * One of several masters that was slow does now what it was asked by an attempt before, the
 * create and, behind it, the release.  That is no vote if most others have it, or have had
 * it until they forgot it or its time was over.  But a release that was sent before the
 * create which it takes back is never right.
 */
static bool
takes_token_away(int node, const Key *k, const Token *t)
{
	int			others = 0;

	if (t->state != REDIS_TOKEN_HAD)
		return false;
	for (int i = 0; i < sim_config.masters; i++)
		others += i != node &&
			(redis_owned_there_until(i, t->key, t->token) > 0 ||
			 redis_was_robbed_at(i, t->token) || (t->expired & (1U << i)) != 0);
	return others <= sim_config.masters / 2 || net_sent_at() < k->sent_at;
}

static void
run_token(int node, RedisVerb verb, Key *k, const RedisArg *a, RedisAnswer *out)
{
	const Token *t;

	if (verb == REDIS_CREATE)
	{
		run_create(node, k, a, out);
		if (out->wrote)
		{
			k->token = true;
			k->sent_at = net_sent_at();
		}
		out->holder[0] = '\0';
		return;
	}
	t = token_of(k, a->owner);
	if (t == NULL)
		out->result = REDIS_GONE;
	else if (verb == REDIS_SET)
	{
		if (a->lease_ms > 0 && !refuses(node, false, out))
			out->wrote = lengthen(node, k, a->lease_ms) || a->write;
	}
	else if (!refuses(node, false, out))
	{
		if (takes_token_away(node, k, t))
			sim_fail("token lock", "%s is taken away from who has it by the token %s", k->name,
					 t->token);
		note_released(k->owner);
		out->wrote = true;
		k->there = false;
		out->receivers = redis_publish_until(node, a->channel, end_of(node, k));
	}
}

/* ----------
 * Read-write locks: of a key an entry for its writer, and one for each reader
 * ----------
 */

/* Who stands before whom: by arrival, then by owner. */
static bool
is_before(const Writer *w, int64_t since_ms, const char *owner)
{
	return w->since_ms < since_ms ||
		(w->since_ms == since_ms && strcmp(w->owner, owner) < 0);
}

static Writer *
first_writer(int node, const char *name, int64_t since_ms, const char *owner)
{
	Data	   *d = &nodes[node].data;
	Writer	   *first = NULL;

	for (int i = d->nwriters - 1; i >= 0; i--)
		if (d->writer[i].until_ms <= clock_ms(node))
			d->writer[i] = d->writer[--d->nwriters];
	for (int i = 0; i < d->nwriters; i++)
	{
		Writer	   *w = &d->writer[i];

		if (strcmp(w->name, name) == 0 && is_before(w, since_ms, owner) &&
			(first == NULL || is_before(w, first->since_ms, first->owner)))
			first = w;
	}
	return first;
}

static bool
forget_writer(int node, const char *name, const char *owner)
{
	Data	   *d = &nodes[node].data;
	bool		found = false;

	for (int i = d->nwriters - 1; i >= 0; i--)
		if (strcmp(d->writer[i].name, name) == 0 && strcmp(d->writer[i].owner, owner) == 0)
		{
			d->writer[i] = d->writer[--d->nwriters];
			found = true;
		}
	return found;
}

static void
announce_writer(int node, const RedisArg *a)
{
	Data	   *d = &nodes[node].data;
	Writer	   *w;

	(void) forget_writer(node, a->key, a->owner);
	if (d->nwriters == MAX_WRITERS)
		sim_fail("simulator", "too many writers");
	w = &d->writer[d->nwriters++];
	memset(w, 0, sizeof(Writer));
	snprintf(w->name, sizeof(w->name), "%s", a->key);
	snprintf(w->owner, sizeof(w->owner), "%s", a->owner);
	w->since_ms = a->since_ms != 0 ? a->since_ms : clock_ms(node);
	w->until_ms = clock_ms(node) + a->wait_ms;
}

/* For how long anybody has the key: as long as its hash is there. */
static int64_t
hash_ttl_ms(int node, const char *name)
{
	const Data *d = &nodes[node].data;
	int64_t		ttl = 0;

	for (int i = 0; i < d->nkeys; i++)
		if (d->key[i].there && strcmp(d->key[i].name, name) == 0 &&
			ttl_ms(node, &d->key[i]) > ttl)
			ttl = ttl_ms(node, &d->key[i]);
	return ttl;
}

static void
run_create_read_write(int node, Key *k, const RedisArg *a, RedisAnswer *out)
{
	const Key  *writer = find(node, a->key);
	bool		has_beside = a->shared && a->beside[0] != '\0' && has(writer, a->beside);
	const Key  *other = writer->there && !has_beside ? writer :
		a->shared ? NULL : find_shared(node, a->key, NULL);
	const Writer *first = has_beside ? NULL :
		first_writer(node, a->key, a->since_ms != 0 ? a->since_ms :
					 a->shared ? INT64_MAX : clock_ms(node), a->shared ? "" : a->owner);

	out->store_ms = clock_ms(node);
	if (clock_ms(node) > a->not_after)
	{
		out->result = REDIS_LATE;
		return;
	}
	if (other != NULL && !other->read_write)
	{
		out->result = REDIS_WRONG_TYPE;
		return;
	}
	if (other != NULL || first != NULL)
	{
		out->result = REDIS_BUSY;
		out->ttl_ms = other != NULL ? hash_ttl_ms(node, a->key) :
			first->until_ms - clock_ms(node);
		strcpy(out->holder, other != NULL ? other->owner : first->owner);
		if (a->wait_ms > 0 && !refuses(node, true, out))
		{
			announce_writer(node, a);
			out->wrote = true;
		}
		return;
	}
	if (refuses(node, true, out))
		return;
	if (a->fenced)
		out->fence = ++k->fence;
	(void) forget_writer(node, a->key, a->owner);
	k->read_write = true;
	k->there = out->wrote = true;
	k->is_old = k->promised = false;
	k->count = 1;
	strcpy(k->owner, a->owner);
	set_expiry(node, k, a->lease_ms);
}

/* Who waits is told when nobody has the key, or readers only. */
static void
run_release_read_write(int node, Key *k, const RedisArg *a, RedisAnswer *out)
{
	bool		there = has(k, a->owner);
	bool		announced;
	int64_t		ends = there ? end_of(node, k) : sim_now();

	if (refuses(node, false, out))
		return;
	announced = !a->shared && forget_writer(node, a->key, a->owner);
	out->wrote = there || announced;
	if (there)
		k->there = false;
	else
		out->result = REDIS_GONE;
	if (announced || (there && (!a->shared || (!find(node, a->key)->there &&
											   find_shared(node, a->key, NULL) == NULL))))
		out->receivers = redis_publish_until(node, a->channel, ends);
}

/* All of a key, if they are those that were told. */
static void
run_force_read_write(int node, const RedisArg *a, RedisAnswer *out)
{
	Data	   *d = &nodes[node].data;
	int64_t		ends = sim_now() + hash_ttl_ms(node, a->key) * SIM_MS;

	if (refuses(node, false, out))
		return;
	out->result = REDIS_GONE;
	for (int i = 0; i < d->nkeys; i++)
		if (expire(node, &d->key[i])->there && strcmp(d->key[i].name, a->key) == 0)
		{
			rob(node, &d->key[i]);
			d->key[i].there = false;
			out->wrote = true;
			out->result = REDIS_DONE;
		}
	if (out->wrote)
		out->receivers = redis_publish_until(node, a->channel, ends);
}

/* ----------
 * Fair locks: who waits has a place
 * ----------
 */

/* The next one, or who stands there though he does not count any more. */
static Writer *
first_place(int node, const char *name, bool counts)
{
	Data	   *d = &nodes[node].data;
	Writer	   *first = NULL;

	for (int i = 0; i < d->nwriters; i++)
	{
		Writer	   *w = &d->writer[i];

		if (strcmp(w->name, name) == 0 && (!counts || w->until_ms > clock_ms(node)) &&
			(first == NULL || w->since_ms < first->since_ms))
			first = w;
	}
	return first;
}

static int
tell_place(int node, const RedisArg *a, Writer *w, int64_t until)
{
	char		channel[2 * REDIS_NAME];
	int			told;

	if (w == NULL)
		return 0;
	snprintf(channel, sizeof(channel), "%s:%s", a->channel, w->owner);
	told = redis_publish_until(node, channel, until);
	w->told = told > 0;
	return told;
}

/* Who does not count any more leaves; was there anybody? */
static bool
sweep_places(int node, const char *name)
{
	int			n = nodes[node].data.nwriters;

	(void) first_writer(node, name, INT64_MAX, "");
	return nodes[node].data.nwriters < n;
}

static void
keep_place(int node, const RedisArg *a)
{
	static int64_t arrivals;
	Data	   *d = &nodes[node].data;

	for (int i = 0; i < d->nwriters; i++)
		if (strcmp(d->writer[i].name, a->key) == 0 &&
			strcmp(d->writer[i].owner, a->owner) == 0)
		{
			d->writer[i].until_ms = clock_ms(node) + a->wait_ms;
			d->writer[i].told = false;
			return;
		}
	announce_writer(node, a);
	d->writer[d->nwriters - 1].since_ms = ++arrivals;
}

static void
run_create_fair(int node, Key *k, const RedisArg *a, RedisAnswer *out)
{
	const Key  *other = k->there ? k : find_shared(node, a->key, NULL);
	Writer	   *first;

	out->store_ms = clock_ms(node);
	if (clock_ms(node) > a->not_after)
	{
		out->result = REDIS_LATE;
		return;
	}
	if (refuses(node, true, out))
		return;
	(void) sweep_places(node, a->key);
	first = first_place(node, a->key, true);
	if (other == NULL && (first == NULL || strcmp(first->owner, a->owner) == 0))
	{
		(void) forget_writer(node, a->key, a->owner);
		k->excludes_nobody = k->read_write = false;
		k->there = out->wrote = true;
		k->is_old = k->promised = false;
		k->count = 1;
		strcpy(k->owner, a->owner);
		set_expiry(node, k, a->lease_ms);
		return;
	}
	out->result = other != NULL && other->read_write ? REDIS_WRONG_TYPE : REDIS_BUSY;
	out->ttl_ms = other != NULL ? ttl_ms(node, other) : first->until_ms - clock_ms(node);
	strcpy(out->holder, other != NULL ? other->owner : first->owner);
	if (other == NULL)
		(void) tell_place(node, a, first, first->until_ms * SIM_MS - nodes[node].clock_offset);
	if (a->wait_ms > 0 && out->result == REDIS_BUSY)
	{
		keep_place(node, a);
		out->wrote = true;
	}
}

/* What is done with the place of who releases, and who is told; before the rest. */
static void
release_place(int node, const Key *k, const RedisArg *a, RedisAnswer *out)
{
	Writer	   *first = first_place(node, a->key, false);
	bool		was_first = first != NULL && strcmp(first->owner, a->owner) == 0;
	bool		left = a->fair && forget_writer(node, a->key, a->owner);
	bool		swept = a->fair && sweep_places(node, a->key);

	first = first_place(node, a->key, a->fair);
	out->wrote |= left;
	if (first != NULL && (has(k, a->owner) || ((was_first || swept) && !k->there)))
		out->receivers += tell_place(node, a, first,
									 first->until_ms * SIM_MS - nodes[node].clock_offset);
}

static void
run_release(int node, Key *k, const RedisArg *a, RedisAnswer *out)
{
	int64_t		ends;

	if (a->fair ? !refuses(node, false, out) : has(k, a->owner))
		release_place(node, k, a, out);
	if (out->error != NULL)
		return;
	if (!has(k, a->owner))
	{
		out->result = REDIS_GONE;
		return;
	}
	if (refuses(node, a->keep_ms > 0, out))
		return;
	out->wrote = true;
	ends = end_of(node, k);
	if (a->keep_ms > 0)
	{
		strncat(k->owner, "/kept", REDIS_OWNER - strlen(k->owner) - 1);
		set_expiry(node, k, a->keep_ms);
	}
	else
		k->there = false;
	out->receivers += redis_publish_until(node, a->channel, ends);
}

static void
run_mint(int node, Key *k, const RedisArg *a, RedisAnswer *out)
{
	if (!has(k, a->owner))
		tell_holder(k, out);
	else if (!refuses(node, true, out))
	{
		out->wrote = true;
		k->fence = k->fence + 1 > a->floor ? k->fence + 1 : a->floor + 1;
		out->fence = k->fence;
	}
}

static void
run_force(int node, Key *k, const RedisArg *a, RedisAnswer *out)
{
	if (!has(k, a->owner) && find_shared(node, a->key, a->owner) != NULL)
		k = find_shared(node, a->key, a->owner);
	if (!has(k, a->owner))
		out->result = REDIS_GONE;
	else if (!refuses(node, false, out))
	{
		rob(node, k);
		out->wrote = true;
		k->there = false;
		out->receivers = redis_publish_until(node, a->channel, end_of(node, k)) +
			tell_place(node, a, first_place(node, a->key, false), end_of(node, k));
	}
}

static void
run_inspect(int node, const Key *k, const RedisArg *a, RedisAnswer *out)
{
	if (!k->there && find_shared(node, a->key, NULL) != NULL)
		k = find_shared(node, a->key, NULL);
	out->there = k->there;
	out->read_write = k->read_write;
	if (k->there)
	{
		out->ttl_ms = ttl_ms(node, k);
		out->count = k->count;
		strcpy(out->holder, k->owner);
	}
}

static const char *
result_name(const RedisAnswer *out)
{
	static const char *const names[] = {"done", "busy", "gone", "late", "wrong type"};

	return out->error != NULL ? out->error : names[out->result];
}

static const char *
verb_name(RedisVerb verb)
{
	static const char *const names[] = {
		"create", "set", "release", "renew", "mint", "force", "inspect", "together"
	};

	return names[verb];
}

/*
 * note_lost --- a majority has it no more: what is given back of it before that is seen
 * changes nothing
 */
static void
note_lost(int node, const Key *k, const char *owner)
{
	int			n = 0;
	bool		noted = false;

	if (sim_config.masters == 0 || !has(k, owner))
		return;
	for (int i = 0; i < sim_config.masters; i++)
		n += redis_owned_there_until(i, k->name, owner) > 0;
	for (int i = 0; i < MAX_RELEASED; i++)
		noted = noted || strcmp(lost[i], owner) == 0;
	if (!noted && n <= sim_config.masters / 2 && !redis_was_released(owner))
	{
		snprintf(lost[nlost++ % MAX_RELEASED], REDIS_OWNER, "%s", owner);
		noted = true;
	}
	if (noted)
		note_robbed(node, owner, true);
}

/* Nobody waits longer for an answer; the clocks of two nodes differ by more. */
#define LONGEST_CALL	(25 * SIM_S / SIM_MS)

/*
 * check_clock --- the time until which it may run is by the clock of the node that is
 * asked, whichever had been asked before
 */
static void
check_clock(int node, const RedisArg *a)
{
	int64_t		left = a->not_after - clock_ms(node);

	if (left > LONGEST_CALL && !nodes[node].clock_went_back)
		sim_fail("clock guard", "redis %d: a create of %s may run for another %lld ms", node,
				 a->key, (long long) left);
}

void
redis_run(int node, RedisVerb verb, const RedisArg *a, RedisAnswer *out)
{
	Key		   *k = find_of(node, a->key, a->shared, a->owner);

	memset(out, 0, sizeof(RedisAnswer));
	if (sim_config.cluster && verb == REDIS_CREATE)
		check_clock(node, a);
	if (a->token)
	{
		run_token(node, verb, k, a, out);
		sim_trace("redis %d: token %s %s: %s", node, verb_name(verb), a->key, result_name(out));
		return;
	}
	switch (verb)
	{
		case REDIS_CREATE:
			if (a->read_write)
				run_create_read_write(node, k, a, out);
			else if (a->fair)
				run_create_fair(node, k, a, out);
			else
				run_create(node, k, a, out);
			break;
		case REDIS_RELEASE:
			note_lost(node, k, a->owner);
			if (a->read_write)
				run_release_read_write(node, k, a, out);
			else
				run_release(node, k, a, out);
			if (out->error == NULL)
				note_released(a->owner);
			is_released_elsewhere(node, a->key, a->owner);
			break;
		case REDIS_SET:
			if (!has(k, a->owner))
				tell_holder(k, out);
			else if (k->count == a->count || !refuses(node, true, out))
			{
				out->wrote = k->count != a->count;
				k->count = a->count;
				is_wanted_again(k);
				if (a->lease_ms > 0 && !refuses(node, false, out))
					out->wrote |= lengthen(node, k, a->lease_ms) || a->write;
			}
			break;
		case REDIS_RENEW:
			if (!has(k, a->owner))
				tell_holder(k, out);
			else if (!refuses(node, false, out))
			{
				is_wanted_again(k);
				out->ttl_ms = hash_ttl_ms(node, a->key);
				out->wrote = lengthen(node, k, a->lease_ms) || a->write;
			}
			break;
		case REDIS_MINT:
			run_mint(node, k, a, out);
			break;
		case REDIS_FORCE:
			if (a->read_write)
				run_force_read_write(node, a, out);
			else
				run_force(node, k, a, out);
			break;
		case REDIS_INSPECT:
			run_inspect(node, k, a, out);
			break;
		case REDIS_TOGETHER:
			break;				/* creates, see redis_wire.c */
	}
	sim_trace("redis %d: %s %s of %s: %s%s%s", node, verb_name(verb), a->key, a->owner,
			  result_name(out), out->holder[0] ? ", has " : "", out->holder);
}

/* ----------
 * Faults
 * ----------
 */

/* What else a node has */
static void
tell_others(int node, DataEvent event)
{
	redis_counts_event(node, event);
	redis_conditions_event(node, event);
}

void
redis_set_mood(int node, RedisMood mood, int64_t until)
{
	nodes[node].mood = mood;
	nodes[node].mood_until = until;
	sim_disturbed(until);
}

void
redis_lose_data(int node)
{
	Data	   *d = &nodes[node].data;

	history_event(HISTORY_ALL_TAKEN_AWAY, NULL);
	sim_trace("redis %d: all data are lost", node);
	for (int i = 0; i < d->nkeys; i++)
	{
		rob_by(node, &d->key[i], true);
		d->key[i].there = false;
		if (sim_config.masters > 0)
			d->key[i].fence = 0;
	}
	tell_others(node, DATA_LOST);
}

void
redis_save(int node)
{
	sim_trace("redis %d: saves", node);
	nodes[node].saved = nodes[node].data;
	tell_others(node, DATA_SAVED);
}

/*
 * is_same --- was this in the saved state, for the same owner and as long?
 */
static bool
is_same(const Key *k, const Data *saved)
{
	for (int i = 0; i < saved->nkeys; i++)
		if (saved->key[i].there && strcmp(saved->key[i].name, k->name) == 0 &&
			strcmp(saved->key[i].owner, k->owner) == 0)
			return saved->key[i].expires_at >= k->expires_at;
	return false;
}

static bool
is_there(const Key *k, const Data *saved)
{
	for (int i = 0; i < saved->nkeys; i++)
		if (saved->key[i].there && strcmp(saved->key[i].name, k->name) == 0 &&
			strcmp(saved->key[i].owner, k->owner) == 0)
			return true;
	return false;
}

/*
 * take_saved --- a node has what was saved; others' clients do not know
 */
static void
take_saved(int node, const Data *saved, bool keeps_promises)
{
	Data	   *d = &nodes[node].data;

	history_event(HISTORY_ALL_TAKEN_AWAY, NULL);
	for (int i = 0; i < d->nkeys; i++)
		if (!is_same(&d->key[i], saved) && !(keeps_promises && d->key[i].promised))
			rob_by(node, &d->key[i], true);
	*d = *saved;
	d->nwriters = 0;			/* who waits says so again */
	for (int i = 0; i < d->nkeys; i++)
		d->key[i].is_old = d->key[i].there;
}

void
redis_lose_later(int node)
{
	sim_trace("redis %d: has what it had when it saved", node);
	take_saved(node, &nodes[node].saved, false);
	tell_others(node, DATA_RESTORED);
}

/* ----------
 * A replica
 * ----------
 */

bool
redis_replicate(int node)
{
	Node	   *n = &nodes[node];

	if (sim_config.min_replicas == 0 || sim_now() < n->away_until)
		return false;
	n->replica = n->data;
	tell_others(node, DATA_REPLICATED);
	return true;
}

void
redis_promise(int node, const char *key, const char *owner)
{
	Key		   *k = find(node, key);

	if (!has(k, owner))
		k = find_shared(node, key, owner);
	if (k != NULL)
		k->promised = true;
}

int64_t
redis_replica_until(const char *key, const char *owner)
{
	int64_t		until = 0;

	for (int i = 0; i < REDIS_NODES; i++)
		for (int j = 0; j < nodes[i].replica.nkeys; j++)
		{
			const Key  *k = &nodes[i].replica.key[j];

			if (strcmp(k->name, key) == 0 && has(k, owner) && end_of(i, k) > until)
				until = end_of(i, k);
		}
	return until;
}

void
redis_replica_away(int node, int64_t until)
{
	sim_trace("redis %d: its replica is away for %.3f ms", node,
			  (until - sim_now()) / (double) SIM_MS);
	nodes[node].away_until = until;
	sim_disturbed(until);
}

void
redis_fail_over(int node)
{
	sim_trace("redis %d: has what its replica has", node);
	take_saved(node, &nodes[node].replica, true);
	tell_others(node, DATA_FAILED_OVER);
}

void
redis_copy_saved(int from, int to)
{
	sim_trace("redis %d: has what %d had when it saved", to, from);
	/* What ends sooner there is wanted for longer by whoever asks first. */
	for (int i = 0; i < nodes[from].data.nkeys; i++)
		if (!is_there(&nodes[from].data.key[i], &nodes[from].saved))
			rob(from, &nodes[from].data.key[i]);
	take_saved(to, &nodes[from].saved, false);
	nodes[to].clock_offset = nodes[from].clock_offset;
}

/* ----------
 * A cluster
 * ----------
 */

#define COUNTER_OF	"redisson_lock_token:{"

/* The lock that a name is about, in whose slot it is. */
static const char *
base_of(const char *name)
{
	static char base[REDIS_NAME];
	const char *open = strchr(name, '{');

	snprintf(base, sizeof(base), "%s", open != NULL ? open + 1 : name);
	base[strcspn(base, "}")] = '\0';
	return base;
}

static bool
is_counter(const char *name)
{
	return strncmp(name, COUNTER_OF, strlen(COUNTER_OF)) == 0;
}

/* Nothing is ever kept by the name of a channel, but it may be among the keys of a script. */
static bool
is_channel(const char *name)
{
	return strstr(name, "__channel_") != NULL || strstr(name, "__channel:") != NULL ||
		strncmp(name, "redisson_rwlock:", 16) == 0 || strncmp(name, "redisson_sc:", 12) == 0;
}

/* The lease of one reader is, by a name of its own. */
static bool
is_lease_of(const char *name, const Key *k)
{
	char		own[2 * REDIS_NAME];

	snprintf(own, sizeof(own), "{%s}:%s:rwlock_timeout:", k->name, k->owner);
	return k->read_write && k->shared && strncmp(name, own, strlen(own)) == 0;
}

static bool
is_kept_by(int node, const char *name, Key *k)
{
	if (is_counter(name))
		return k->fence > 0;
	return expire(node, k)->there && (strcmp(k->name, name) == 0 || is_lease_of(name, k));
}

/* Whatever else there is of a lock is about those who wait. */
bool
redis_has_name(int node, const char *name)
{
	Data	   *d = &nodes[node].data;
	const char *base = base_of(name);

	if (is_channel(name))
		return false;
	for (int i = 0; i < d->nkeys; i++)
		if (strcmp(d->key[i].name, base) == 0 && is_kept_by(node, name, &d->key[i]))
			return true;
	for (int i = 0; i < d->nwriters; i++)
		if (strcmp(d->writer[i].name, base) == 0 && !is_counter(name) &&
			strcmp(name, base) != 0 && strstr(name, ":rwlock_timeout:") == NULL)
			return true;
	return redis_counts_has_name(node, name);
}

/* In whole milliseconds that are left, as MIGRATE has it. */
static void
migrate_lock(int from, int to, Key *k)
{
	Key		   *there = k->shared ? new_key(to, k->name, true) : find(to, k->name);
	int64_t		fence = there->fence;

	sim_trace("redis %d: %s of %s goes to %d", from, k->name, k->owner, to);
	*there = *k;
	there->fence = fence;
	there->promised = false;
	set_expiry(to, there, ttl_ms(from, k));
	k->there = false;
}

/*
 * The hash of a read-write lock has all who have it.  It takes the place of what a replica
 * that took over had kept of it, of when the slot was here before.
 */
static void
migrate_hash(int from, int to, const char *name)
{
	Data	   *d = &nodes[from].data;

	for (int i = 0; i < nodes[to].data.nkeys; i++)
		if (strcmp(nodes[to].data.key[i].name, name) == 0)
			nodes[to].data.key[i].there = false;
	for (int i = 0; i < d->nkeys; i++)
		if (expire(from, &d->key[i])->there && strcmp(d->key[i].name, name) == 0)
			migrate_lock(from, to, &d->key[i]);
}

static void
migrate_counter(int from, int to, Key *k)
{
	sim_trace("redis %d: the counter of %s goes to %d", from, k->name, to);
	find(to, k->name)->fence = k->fence;
	k->fence = 0;
}

static void
migrate_writers(int from, int to, const char *name)
{
	Data	   *d = &nodes[from].data;
	Data	   *there = &nodes[to].data;
	int			kept = 0;

	for (int i = 0; i < d->nwriters; i++)
	{
		Writer		w = d->writer[i];

		if (strcmp(w.name, name) != 0 || there->nwriters == MAX_WRITERS)
		{
			d->writer[kept++] = w;
			continue;
		}
		w.until_ms += clock_ms(to) - clock_ms(from);
		if (sim_config.read_write)
			w.since_ms += clock_ms(to) - clock_ms(from);
		there->writer[there->nwriters++] = w;
	}
	d->nwriters = kept;
}

void
redis_migrate(int from, int to, int slot, bool one)
{
	Data	   *d = &nodes[from].data;
	bool		gone = redis_counts_migrate(from, to, shards_slot_of, slot) && one;

	for (int i = 0; i < d->nkeys && !gone; i++)
	{
		Key		   *k = expire(from, &d->key[i]);

		if (shards_slot_of(k->name) != slot)
			continue;
		if (k->there && !(one && sim_chance(300)))
		{
			migrate_hash(from, to, k->name);
			gone = one;
		}
		if (k->fence > 0 && !gone)
		{
			migrate_counter(from, to, k);
			gone = one;
		}
	}
	for (int i = d->nwriters - 1; i >= 0 && !gone; i--)
		if (i < d->nwriters && shards_slot_of(d->writer[i].name) == slot)
		{
			char		name[REDIS_NAME];

			strcpy(name, d->writer[i].name);
			migrate_writers(from, to, name);
			gone = one;
		}
}

void
redis_share_clock(int node, int as)
{
	nodes[node].clock_offset = nodes[as].clock_offset;
}

/* It was set at both, whatever had become of it there. */
static void
take_clock(int from, int to)
{
	nodes[to].clock_offset = nodes[from].clock_offset;
	nodes[to].clock_steps = nodes[from].clock_steps;
	nodes[to].clock_was_set |= nodes[from].clock_was_set;
	nodes[to].clock_went_back |= nodes[from].clock_went_back;
}

void
redis_hand_over(int from, int to)
{
	nodes[to].data = nodes[from].data;
	take_clock(from, to);
	nodes[from].data.nkeys = nodes[from].data.nwriters = 0;
	redis_counts_hand_over(from, to);
}

void
redis_take_over(int from, int to)
{
	bool		by_replica = sim_config.min_replicas != 0;
	const Data *had = by_replica ? &nodes[from].replica : &nodes[from].saved;

	for (int i = 0; i < nodes[from].data.nkeys; i++)
	{
		const Key  *k = &nodes[from].data.key[i];

		/* What ends sooner there is wanted for longer by whoever asks first. */
		if (!is_there(k, had) && !(by_replica && k->promised))
			rob(from, k);
	}
	nodes[to].data.nkeys = 0;
	take_saved(to, had, false);
	take_clock(from, to);
	redis_counts_take_over(from, to);
}

void
redis_forget(int node, int master)
{
	Data	   *d = &nodes[node].data;

	for (int i = 0; i < d->nkeys; i++)
		if (!is_same(&d->key[i], &nodes[master].data))
			rob(node, &d->key[i]);
	d->nkeys = d->nwriters = 0;
	redis_counts_forget(node, master);
}

/* Leases end at another time then: whoever had one may lose it. */
void
redis_set_clock(int node, int64_t offset)
{
	Data	   *d = &nodes[node].data;
	int64_t		sum = nodes[node].clock_steps + offset;

	/* Else a schedule might end long after all of its leases. */
	if (sum > CLOCK_STEPS_MAX || sum < -CLOCK_STEPS_MAX)
		return;
	nodes[node].clock_steps = sum;
	sim_trace("redis %d: the clock is set by %.3f s", node, offset / (double) SIM_S);
	for (int i = 0; i < d->nkeys; i++)
		rob(node, &d->key[i]);
	tell_others(node, DATA_CLOCK_SET);
	nodes[node].clock_offset += offset;
	nodes[node].clock_was_set = true;
	nodes[node].clock_went_back |= offset < 0;
}

bool
redis_clocks_are_good(void)
{
	for (int i = 0; i < REDIS_NODES; i++)
		if (nodes[i].clock_was_set)
			return false;
	return true;
}

/* ----------
 * Its process
 * ----------
 */

void
redis_boot(int node, int64_t when)
{
	nodes[node].run++;
	nodes[node].booted_at = when;
	nodes[node].boot_second = (when + nodes[node].clock_offset) / SIM_S;
}

int64_t
redis_booted_at(int node)
{
	return nodes[node].booted_at;
}

int
redis_run_number(int node)
{
	return nodes[node].run;
}

int64_t
redis_uptime(int node)
{
	return redis_clock(node) / SIM_S - nodes[node].boot_second;
}

/* ----------
 * Rights
 * ----------
 */

bool
redis_denies(int node, const char *name)
{
	for (int i = 0; i < nodes[node].ndenied; i++)
		if (strcmp(nodes[node].denied[i], name) == 0)
			return true;
	return false;
}

static bool
was_denied(const char *key)
{
	for (int i = 0; i < nonce_denied; i++)
		if (strcmp(once_denied[i], key) == 0)
			return true;
	return false;
}

/* Of the lock, in the name of its channel or counter too. */
static void
note_denied(const char *name)
{
	const char *base = strchr(name, '{');
	char		key[REDIS_NAME];

	snprintf(key, sizeof(key), "%s", base != NULL ? base + 1 : name);
	key[strcspn(key, "}")] = '\0';
	if (!was_denied(key) && nonce_denied < MAX_ALLOWED)
		snprintf(once_denied[nonce_denied++], REDIS_NAME, "%s", key);
}

static void
note_allowed(const char *name)
{
	int			i;

	for (i = 0; i < nallowed; i++)
		if (strcmp(allowed[i].name, name) == 0)
			break;
	if (i == MAX_ALLOWED)
		return;
	if (i == nallowed)
		snprintf(allowed[nallowed++].name, REDIS_NAME, "%s", name);
	allowed[i].at = sim_now();
}

void
redis_deny_name(int node, const char *name, bool deny)
{
	Node	   *n = &nodes[node];

	sim_trace("redis %d: %s is %s", node, name, deny ? "denied" : "allowed");
	if (deny && n->ndenied < MAX_DENIED)
	{
		snprintf(n->denied[n->ndenied++], REDIS_NAME, "%s", name);
		note_denied(name);
		if (strchr(name, '{') != NULL)
			redis_end_subscribers(node, name);
	}
	if (!deny)
		note_allowed(name);
	for (int i = n->ndenied - 1; !deny && i >= 0; i--)
		if (strcmp(n->denied[i], name) == 0)
			memmove(n->denied[i], n->denied[--n->ndenied], REDIS_NAME);
}

bool
redis_is_denied(const char *key)
{
	for (int i = 0; i < REDIS_NODES; i++)
		for (int j = 0; j < nodes[i].ndenied; j++)
			if (strstr(nodes[i].denied[j], key) != NULL)
				return true;
	return false;
}

int64_t
redis_denied_until(const char *key)
{
	int64_t		until = 0;

	if (redis_is_denied(key))
		return INT64_MAX;
	for (int i = 0; i < nallowed; i++)
		if (strstr(allowed[i].name, key) != NULL && allowed[i].at > until)
			until = allowed[i].at;
	return until;
}

/* ----------
 * What others do
 * ----------
 */

void
redis_delete(int node, const char *key)
{
	for (Key *k = find(node, key); k != NULL; k = find_shared(node, key, NULL))
	{
		if (k->there)
		{
			sim_trace("redis %d: somebody deletes %s of %s", node, key, k->owner);
			sim_disturbed(end_of(node, k));
		}
		rob(node, k);
		k->there = false;
	}
}

void
redis_publish(int node, const char *channel)
{
	(void) redis_publish_until(node, channel, sim_now());
}

void
redis_others_wait(bool wait)
{
	others_wait = wait;
}

void
redis_lose_message(int node)
{
	nodes[node].lost_messages++;
}

void
redis_double_message(int node, int64_t later)
{
	nodes[node].double_after = later;
}

void
redis_calm(void)
{
	for (int i = 0; i < REDIS_NODES; i++)
	{
		nodes[i].lost_messages = 0;
		nodes[i].double_after = 0;
	}
}

bool
redis_foreign_take(int node, const char *key, const char *owner, int64_t lease_ms,
				   bool by_force)
{
	Key		   *k = find(node, key);

	if (by_force)
		redis_delete(node, key);
	if (k->there || find_shared(node, key, NULL) != NULL)
		return false;
	sim_trace("redis %d: %s is taken by %s for %lld ms", node, key, owner,
			  (long long) lease_ms);
	k->there = true;
	k->read_write = sim_config.read_write;
	k->is_old = false;
	k->count = 1;
	snprintf(k->owner, sizeof(k->owner), "%s", owner);
	set_expiry(node, k, lease_ms);
	return true;
}

void
redis_foreign_release(int node, const char *key, const char *owner, const char *channel)
{
	Key		   *k = find(node, key);

	if (!has(k, owner))
		return;
	sim_trace("redis %d: %s is given back by %s", node, key, owner);
	k->there = false;
	(void) redis_publish_until(node, channel, end_of(node, k));
}

/* ----------
 * Checks
 * ----------
 */

int64_t
redis_owned_there_until(int node, const char *key, const char *owner)
{
	const Key  *k = find_known(node, key);

	if (k == NULL || !has(k, owner))
		k = find_shared(node, key, owner);
	return k == NULL ? 0 : k->expires_at - nodes[node].clock_offset;
}

int64_t
redis_owned_until(const char *key, const char *owner)
{
	int64_t		until = 0;

	for (int i = 0; i < REDIS_NODES; i++)
		if (redis_owned_there_until(i, key, owner) > until)
			until = redis_owned_there_until(i, key, owner);
	return until;
}

bool
redis_is_next(const char *key, const char *owner)
{
	int			node = redis_place_of(key);
	const Key  *k = find_known(node, key);
	const Writer *first = first_place(node, key, true);

	return (k == NULL || !k->there) && find_shared(node, key, NULL) == NULL &&
		first != NULL && first->told && strcmp(first->owner, owner) == 0;
}

static bool
keeps_from(int node, const char *key, bool shared)
{
	const Key  *k = find_known(node, key);

	return (k != NULL && k->there) ||
		(!shared && find_shared(node, key, NULL) != NULL);
}

bool
redis_keeps_from(const char *key, bool shared)
{
	for (int i = 0; i < sim_config.masters; i++)
		if (keeps_from(i, key, shared))
			return true;
	return keeps_from(redis_place_of(key), key, shared);
}

int
redis_count_owned(const char *key, const char *owner, int64_t until, int *robbed)
{
	int			n = 0;

	*robbed = 0;
	for (int i = 0; i < sim_config.masters; i++)
	{
		if (redis_owned_there_until(i, key, owner) >= until)
			n++;
		else if (redis_was_robbed_at(i, owner))
			(*robbed)++;
	}
	return n + *robbed;
}

/* By silence, beside what the watchdog waits for. */
#define SLOWEST_MESSAGE		(8 * SIM_S)

/*
 * is_given_up --- what is refused is left when it should have run out; so is what
 * comes back after its release, and what is at a place of before
 *
 * It has not yet if the clock was set back, or if the last renewal was a while on
 * its way.
 */
static bool
is_given_up(int node, const Key *k)
{
	int64_t		on_its_way = (sim_config.connect_timeout_ms +
							  sim_config.command_timeout_ms) * SIM_MS + SLOWEST_MESSAGE;

	return k->is_old || (node != redis_place_of(k->name) && sim_config.masters == 0) ||
		(sim_config.masters > 0 && nodes[node].clock_was_set) ||
		(was_denied(k->name) &&
		 (redis_was_robbed(k->owner) ||
		  k->expires_at - redis_clock(node) <= on_its_way));
}

/*
 * is_at_few --- masters that were not told may keep it until its lease ends, which can be
 * long after a schedule
 */
static bool
is_at_few(const Key *k)
{
	int			n = 0;

	for (int i = 0; i < sim_config.masters; i++)
		n += redis_owned_there_until(i, k->name, k->owner) > 0;
	return sim_config.masters > 0 && n <= sim_config.masters / 2;
}

/* There in the name of one of those whose names begin so, and to be given back. */
static bool
is_left(int node, Key *k, const char *prefix)
{
	if (expire(node, k)->token)
		return is_left_of_token(k, prefix) && !is_given_up(node, k) && !is_at_few(k);
	return k->there && strncmp(k->owner, prefix, strlen(prefix)) == 0 &&
		strstr(k->owner, "/kept") == NULL && !is_given_up(node, k);
}

/* One who waits no more has taken back that he does. */
static const char *
find_writer(int node, const char *prefix)
{
	const Data *d = &nodes[node].data;

	for (int i = 0; i < d->nwriters; i++)
		if ((node == redis_place_of(d->writer[i].name) || sim_config.masters > 0) &&
			!d->writer[i].is_old && d->writer[i].until_ms > clock_ms(node) &&
			strncmp(d->writer[i].owner, prefix, strlen(prefix)) == 0 &&
			!was_denied(d->writer[i].name))
			return d->writer[i].name;
	return NULL;
}

const char *
redis_find_owner(const char *prefix)
{
	for (int i = 0; i < REDIS_NODES; i++)
		if (find_writer(i, prefix) != NULL)
			return find_writer(i, prefix);
	for (int i = 0; i < REDIS_NODES; i++)
		for (int j = 0; j < nodes[i].data.nkeys; j++)
			if (is_left(i, &nodes[i].data.key[j], prefix))
				return nodes[i].data.key[j].name;
	return NULL;
}

/*
 * With a clock that was set back a create may run that could not any more; and one at
 * a place that lockredis.url has left and come back to, whose clock nobody asks.
 */
static const char *
find_unknown_at(int node, const char *prefix, bool (*knows) (const char *key, const char *owner))
{
	Node	   *n = &nodes[node];

	for (int j = 0; j < n->data.nkeys && !n->clock_went_back; j++)
	{
		Key		   *k = &n->data.key[j];

		if (!k->token && is_left(node, k, prefix) && !was_denied(k->name) &&
			!knows(k->name, k->owner))
			return k->name;
	}
	return NULL;
}

const char *
redis_find_unknown(const char *prefix, bool (*knows) (const char *key, const char *owner))
{
	const char *key = NULL;

	for (int i = 0; i < REDIS_NODES && key == NULL && !was_another; i++)
		if (sim_config.cluster || i == present)
			key = find_unknown_at(i, prefix, knows);
	return key;
}
