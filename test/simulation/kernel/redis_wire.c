/*-------------------------------------------------------------------------
 *
 * redis_wire.c
 *	  What the nodes of the model of Redis are asked, and answer: RESP, scripts by
 *	  their digests, subscriptions.
 *
 * The bytes are those of the real client.  A script is known by its name ("kind
 * verb"), which says what its keys and arguments are, as in src/kinds.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/redis_wire.c
 *
 *-------------------------------------------------------------------------
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "kernel.h"
#include "network.h"
#include "redis_counts.h"
#include "redis_model.h"
#include "redis_script.h"
#include "sentinels.h"
#include "shards.h"

#define MAX_SCRIPTS		64
#define MAX_SUBSCRIBERS	256
#define MAX_WORDS		64
#define OUT_SIZE		65536

/* Of who have a read-write lock: it is the same for all. */
#define DIGEST			"digest"

typedef struct Script
{
	char		sha1[41];
	char	   *text;
	size_t		text_len;
	RedisVerb	verb;
	bool		shared;
	bool		excludes_nobody;
	bool		read_write;
	bool		fair;
	bool		token;
	void		(*own) (const char *name, const ScriptCall *call);	/* of a file of its own */
	char	   *name;
} Script;

/* Who is at the other end, and what has not been served yet. */
typedef struct Peer
{
	char	   *data;
	size_t		len;
	int			node;
	bool		wrote;			/* since its last WAIT that was confirmed */
	bool		waits;			/* what comes behind that is held up */
	bool		asking;			/* the next one is about a slot on its way here */
} Peer;

typedef struct Subscriber
{
	int			node;
	int			conn;
	bool		sharded;
	char		channel[REDIS_NAME];
} Subscriber;

extern int	process_pid(int slot);

static Script scripts[MAX_SCRIPTS];
static int	nscripts;
static uint64_t loaded[REDIS_NODES];
static Peer peers[NET_MAX_CONNS];
static int	npeers;
static Subscriber subscribers[MAX_SUBSCRIBERS];
static int	nsubscribers;

static char out[OUT_SIZE];
static size_t out_len;

static void serve(int node, int conn, const char *data, size_t len);
static void closed(int node, int conn);

void
redis_wire_reset(void)
{
	for (int i = 0; i < npeers; i++)
	{
		free(peers[i].data);
		memset(&peers[i], 0, sizeof(Peer));
	}
	npeers = nsubscribers = 0;
	memset(loaded, 0, sizeof(loaded));
	net_reset(serve, closed);
	for (int i = 0; i < REDIS_NODES; i++)
		net_listen(REDIS_PORT(i), i);
	sentinels_reset();
	shards_reset();
}

/* ----------
 * Scripts
 * ----------
 */

static void
set_text(Script *s, const char *sha1, const char *text)
{
	snprintf(s->sha1, sizeof(s->sha1), "%s", sha1);
	s->text_len = strlen(text);
	s->text = strdup(text);
}

void
redis_add_script(const char *name, const char *sha1, const char *text)
{
	static const char *const verbs[] = {
		"create", "set", "release", "renew", "mint", "force", "inspect", "together"
	};
	Script	   *s = &scripts[nscripts++];
	const char *verb = strchr(name, ' ') + 1;

	if (nscripts == MAX_SCRIPTS)
		sim_fail("simulator", "too many scripts");
	s->own = redis_is_counts_script(name) ? redis_run_counts :
		redis_is_condition_script(name) ? redis_run_condition : NULL;
	if (s->own != NULL)
	{
		s->name = strdup(name);
		set_text(s, sha1, text);
		return;
	}
	while (s->verb < sizeof(verbs) / sizeof(verbs[0]) && strcmp(verbs[s->verb], verb) != 0)
		s->verb++;
	if (s->verb == sizeof(verbs) / sizeof(verbs[0]))
	{
		/* Of a kind that no workload has */
		memset(s, 0, sizeof(Script));
		nscripts--;
		return;
	}
	set_text(s, sha1, text);
	s->fair = strncmp(name, "fair ", 5) == 0;
	s->token = strncmp(name, "token ", 6) == 0;
	s->shared = strncmp(name, "reentrant ", 10) != 0 && strncmp(name, "write ", 6) != 0 &&
		!s->fair && !s->token;
	s->excludes_nobody = strncmp(name, "free ", 5) == 0;
	s->read_write = strncmp(name, "read ", 5) == 0 || strncmp(name, "write ", 6) == 0;
}

void
redis_flush_scripts(int node)
{
	sim_trace("redis %d: the scripts are flushed", node);
	loaded[node] = 0;
}

static const Script *
find_script(const Word *word, bool by_text)
{
	for (int i = 0; i < nscripts; i++)
	{
		const Script *s = &scripts[i];

		if (by_text ? word->len == s->text_len && memcmp(word->text, s->text, word->len) == 0 :
			word->len == 40 && memcmp(word->text, s->sha1, 40) == 0)
			return s;
	}
	return NULL;
}

/* ----------
 * Answers
 * ----------
 */

void
reply_put(const char *format,...)
{
	va_list		args;

	va_start(args, format);
	out_len += vsnprintf(out + out_len, OUT_SIZE - out_len, format, args);
	va_end(args);
	if (out_len >= OUT_SIZE)
		sim_fail("simulator", "too much is answered at once");
}

void
reply_text(const char *text)
{
	reply_put("$%zu\r\n%s\r\n", strlen(text), text);
}

void
reply_error(const char *words)
{
	reply_put("-%s\r\n", words);
}

static void
flush(int conn)
{
	if (out_len > 0)
		net_reply(conn, out, out_len);
	out_len = 0;
}

/* ----------
 * Channels
 * ----------
 */

static void
unsubscribe(int node, int conn, const char *channel)
{
	for (int i = nsubscribers - 1; i >= 0; i--)
		if (subscribers[i].node == node && subscribers[i].conn == conn &&
			(channel == NULL || strcmp(subscribers[i].channel, channel) == 0))
			subscribers[i] = subscribers[--nsubscribers];
}

static void
subscribe(int node, int conn, const char *channel, bool sharded)
{
	unsubscribe(node, conn, channel);
	if (nsubscribers == MAX_SUBSCRIBERS)
		sim_fail("simulator", "too many subscribers");
	subscribers[nsubscribers].node = node;
	subscribers[nsubscribers].conn = conn;
	subscribers[nsubscribers].sharded = sharded;
	snprintf(subscribers[nsubscribers++].channel, REDIS_NAME, "%s", channel);
}

static int
count_subscriptions(int conn)
{
	int			n = 0;

	for (int i = 0; i < nsubscribers; i++)
		n += subscribers[i].conn == conn;
	return n;
}

int
redis_count_listened(const char *channel)
{
	int			n = 0;

	for (int node = 0; node < REDIS_NODES; node++)
		for (int i = 0; i < nsubscribers; i++)
			if (subscribers[i].node == node && strcmp(subscribers[i].channel, channel) == 0 &&
				(!sim_config.cluster || shards_is_moving(channel) ||
				 node == shards_master_of(channel)))
			{
				n++;
				break;
			}
	return n;
}

int
redis_tell(int node, const char *channel)
{
	int			n = 0;

	for (int i = 0; i < nsubscribers; i++)
		if (subscribers[i].node == node && strcmp(subscribers[i].channel, channel) == 0)
		{
			char		message[256];
			int			len = snprintf(message, sizeof(message),
									   "*3\r\n%s\r\n$%zu\r\n%s\r\n$1\r\n0\r\n",
									   subscribers[i].sharded ? "$8\r\nsmessage" :
									   "$7\r\nmessage", strlen(channel), channel);

			net_reply(subscribers[i].conn, message, len);
			n++;
		}
	return n;
}

void
redis_end_subscribers(int node, const char *channel)
{
	int			i = 0;

	while (i < nsubscribers)
	{
		if (subscribers[i].node == node && strcmp(subscribers[i].channel, channel) == 0)
		{
			net_break(subscribers[i].conn);
			i = 0;
		}
		else
			i++;
	}
}

void
redis_end_channels(int node, int slot)
{
	int			i = 0;

	while (i < nsubscribers)
	{
		char		text[256];
		Subscriber	s = subscribers[i];

		if (s.node != node || !s.sharded || shards_slot_of(s.channel) != slot)
		{
			i++;
			continue;
		}
		unsubscribe(node, s.conn, s.channel);
		sim_trace("redis %d: sunsubscribe %s", node, s.channel);
		net_reply(s.conn, text, snprintf(text, sizeof(text),
										 "*3\r\n$12\r\nsunsubscribe\r\n$%zu\r\n%s\r\n:%d\r\n",
										 strlen(s.channel), s.channel,
										 count_subscriptions(s.conn)));
	}
}

static void
closed(int node, int conn)
{
	unsubscribe(node, conn, NULL);
	free(peers[conn].data);
	memset(&peers[conn], 0, sizeof(Peer));
}

/* ----------
 * Commands
 * ----------
 */

void
word_copy(char *to, size_t size, const Word *word)
{
	if (word->len >= size)
		sim_fail("simulator", "a word is too long: %.*s", (int) word->len, word->text);
	memcpy(to, word->text, word->len);
	to[word->len] = '\0';
}

int64_t
word_number(const Word *word)
{
	return strtoll(word->text, NULL, 10);
}

bool
word_is(const Word *word, const char *text)
{
	return word->len == strlen(text) && memcmp(word->text, text, word->len) == 0;
}

/* The keys and arguments of lock i of a script; how many keys one has. */
static int
keys_of(const Script *s, int nkeys)
{
	RedisVerb	verb = s->verb;

	if (s->read_write && verb == REDIS_RELEASE)
		return 3;
	if (s->fair)
		return 5;
	if (s->read_write && verb == REDIS_RENEW)
		return s->shared ? 2 : 1;
	return verb == REDIS_CREATE ? nkeys :
		verb == REDIS_MINT ? 2 : 1;
}

static void
read_lock(const Script *s, const Word *keys, int nkeys, const Word *argv, int nargs, int i,
		  RedisArg *a)
{
	memset(a, 0, sizeof(RedisArg));
	a->shared = s->shared;
	a->excludes_nobody = s->excludes_nobody;
	a->read_write = s->read_write;
	a->fair = s->fair;
	a->token = s->token;
	word_copy(a->key, sizeof(a->key), &keys[0]);
	switch (s->verb)
	{
		case REDIS_CREATE:
			if (s->fair)
			{
				word_copy(a->channel, sizeof(a->channel), &keys[1]);
				a->lease_ms = word_number(&argv[2]);
				word_copy(a->owner, sizeof(a->owner), &argv[3]);
				a->not_after = word_number(&argv[4]);
				a->wait_ms = word_number(&argv[5]);
				break;
			}
			a->fenced = !s->shared && nkeys == (s->read_write ? 3 : 2);
			a->lease_ms = word_number(&argv[0]);
			word_copy(a->owner, sizeof(a->owner), &argv[1]);
			a->not_after = word_number(&argv[2]);
			if (s->read_write)
			{
				a->since_ms = word_number(&argv[s->shared ? 3 : 4]);
				a->wait_ms = s->shared ? 0 : word_number(&argv[3]);
			}
			if (s->read_write && s->shared && argv[4].len > strlen(":write"))
			{
				Word		beside = argv[4];

				beside.len -= strlen(":write");
				word_copy(a->beside, sizeof(a->beside), &beside);
			}
			break;
		case REDIS_SET:
			word_copy(a->owner, sizeof(a->owner), &argv[0]);
			if (s->token)
			{
				a->lease_ms = word_number(&argv[1]);
				a->write = nargs > 2;
				break;
			}
			a->count = (int) word_number(&argv[1]);
			a->lease_ms = word_number(&argv[2]);
			a->write = nargs > 3;
			break;
		case REDIS_RELEASE:
			if (s->read_write)
			{
				word_copy(a->channel, sizeof(a->channel), &keys[1]);
				word_copy(a->owner, sizeof(a->owner), &argv[1 + 2 * i]);
				break;
			}
			if (s->token)
			{
				word_copy(a->owner, sizeof(a->owner), &argv[2 + 2 * i]);
				if (argv[0].len > 0)
					word_copy(a->channel, sizeof(a->channel), &argv[3 + 2 * i]);
				break;
			}
			if (s->fair)
			{
				word_copy(a->channel, sizeof(a->channel), &keys[1]);
				word_copy(a->owner, sizeof(a->owner), &argv[2 + 2 * i]);
				a->keep_ms = word_number(&argv[3 + 2 * i]);
				break;
			}
			word_copy(a->owner, sizeof(a->owner), &argv[2 * i]);
			if (nargs > 2 * nkeys)
				a->keep_ms = word_number(&argv[2 * nkeys + 2 * i + 1]);
			if (nargs == 2 * nkeys || argv[2 * nkeys].len > 0)
				word_copy(a->channel, sizeof(a->channel), &argv[2 * i + 1]);
			break;
		case REDIS_RENEW:
			word_copy(a->owner, sizeof(a->owner), &argv[2 * i]);
			a->lease_ms = word_number(&argv[2 * i + 1]);
			a->write = nargs > 2 * (nkeys / keys_of(s, nkeys));
			break;
		case REDIS_MINT:
			word_copy(a->owner, sizeof(a->owner), &argv[0]);
			a->floor = word_number(&argv[1]);
			break;
		case REDIS_FORCE:
			a->read_write = word_is(&argv[2], DIGEST);
			word_copy(a->channel, sizeof(a->channel), a->read_write ? &argv[3] : &argv[6]);
			word_copy(a->owner, sizeof(a->owner), &argv[2]);
			break;
		case REDIS_TOGETHER:
			a->lease_ms = word_number(&argv[0]);
			a->not_after = word_number(&argv[1]);
			word_copy(a->owner, sizeof(a->owner), &argv[2 + i]);
			break;
		case REDIS_INSPECT:
			break;
	}
}

/* A number, or who has it instead. */
static void
put_holder_or(const RedisAnswer *a, int64_t value)
{
	if (a->result == REDIS_DONE)
		reply_put(":%lld\r\n", (long long) value);
	else
		reply_text(a->holder);
}

static void
put_answer(const Script *s, const RedisAnswer *a)
{
	if (a->error != NULL)
	{
		reply_error(a->error);
		return;
	}
	switch (s->verb)
	{
		case REDIS_CREATE:
			if (a->result == REDIS_WRONG_TYPE)
			{
				reply_put("*%d\r\n:3\r\n:%lld\r\n$4\r\nhash\r\n", s->read_write || s->fair ? 4 : 3,
					(long long) a->ttl_ms);
				if (s->read_write || s->fair)
					reply_put(":%lld\r\n", (long long) a->store_ms);
			}
			else if (s->read_write || s->fair)
			{
				reply_put("*4\r\n:%d\r\n:%lld\r\n", a->result == REDIS_BUSY ? 1 :
					a->result == REDIS_LATE ? 2 : 0,
					(long long) (a->result == REDIS_BUSY ? a->ttl_ms : a->fence));
				reply_text(a->holder);
				reply_put(":%lld\r\n", (long long) a->store_ms);
			}
			else if (a->result == REDIS_BUSY)
			{
				reply_put("*3\r\n:%d\r\n:%lld\r\n", s->token ? 4 : 1, (long long) a->ttl_ms);
				reply_text(a->holder);
			}
			else if (a->result == REDIS_DONE && a->fence == 0)
				reply_put(":%lld\r\n", (long long) a->store_ms);
			else
				reply_put("*3\r\n:%d\r\n:%lld\r\n:%lld\r\n", a->result == REDIS_LATE ? 2 : 0,
					(long long) a->fence, (long long) a->store_ms);
			break;
		case REDIS_SET:
		case REDIS_RENEW:
			put_holder_or(a, s->read_write && s->shared && a->ttl_ms > 1 ? a->ttl_ms : 1);
			break;
		case REDIS_MINT:
			put_holder_or(a, a->fence);
			break;
		case REDIS_RELEASE:
		case REDIS_FORCE:
			reply_put(":%d\r\n", a->result == REDIS_DONE ? a->receivers : -1);
			break;
		case REDIS_TOGETHER:
			break;				/* run_together() */
		case REDIS_INSPECT:
			reply_put("*%d\r\n", a->there && a->read_write ? 5 : 4);
			reply_text(a->there ? "hash" : "none");
			reply_put(":%lld\r\n", a->there ? (long long) a->ttl_ms : -2LL);
			reply_text(a->holder);
			if (a->there)
				reply_put("$%d\r\n%d\r\n", a->count < 10 ? 1 : a->count < 100 ? 2 : 3, a->count);
			else
				reply_text("");
			if (a->there && a->read_write)
				reply_text(DIGEST);
			break;
	}
}

/* Does the session at the other end want its locks at a replica? */
static bool
asks_for_replica(int conn)
{
	for (int slot = 2; slot < 2 + sim_config.nsessions; slot++)
		if (process_pid(slot) == net_owner(conn))
			return (sim_config.asking >> slot & 1) != 0;
	return false;
}

/* A lock was made: is it to be had by a replica? */
static void
note_written(int node, int conn, const RedisArg *arg, const RedisAnswer *answer)
{
	peers[conn].wrote |= answer->wrote;
	if (answer->wrote && asks_for_replica(conn))
		redis_promise(node, arg->key, arg->owner);
}

/* All keys are looked at before anything is done to one. */
static void
run_together(int node, int conn, const Script *s, const Word *keys, int n, const Word *argv)
{
	RedisArg	arg;
	RedisAnswer answer;

	for (int i = 0; i < n; i++)
	{
		read_lock(s, keys + i, n, argv, n + 2, i, &arg);
		redis_run(node, REDIS_INSPECT, &arg, &answer);
		if (!answer.there)
			continue;
		reply_put("*4\r\n:1\r\n:%lld\r\n", (long long) answer.ttl_ms);
		reply_text(answer.holder);
		reply_put(":%d\r\n", i + 1);
		return;
	}
	for (int i = 0; i < n; i++)
	{
		read_lock(s, keys + i, n, argv, n + 2, i, &arg);
		redis_run(node, REDIS_CREATE, &arg, &answer);
		note_written(node, conn, &arg, &answer);
		if (answer.error != NULL || answer.result == REDIS_LATE)
			break;
	}
	if (answer.error != NULL)
		reply_error(answer.error);
	else if (answer.result == REDIS_LATE)
		reply_put("*3\r\n:2\r\n:0\r\n:%lld\r\n", (long long) answer.store_ms);
	else
		reply_put(":%lld\r\n", (long long) answer.store_ms);
}

static void
run_script(int node, int conn, const Script *s, const Word *keys, int nkeys,
		   const Word *argv, int nargs)
{
	bool		is_group = s->verb == REDIS_RENEW || s->verb == REDIS_RELEASE;
	int			each = keys_of(s, nkeys);
	int			n = nkeys / each;

	if (s->verb == REDIS_TOGETHER)
	{
		run_together(node, conn, s, keys, n, argv);
		return;
	}
	if (is_group)
		reply_put("*%d\r\n", n);
	for (int i = 0; i < n; i++)
	{
		RedisArg	arg;
		RedisAnswer answer;

		read_lock(s, keys + i * each, nkeys, argv, nargs, i, &arg);
		redis_run(node, s->verb, &arg, &answer);
		if (s->verb == REDIS_CREATE)
			note_written(node, conn, &arg, &answer);
		peers[conn].wrote |= answer.wrote;
		put_answer(s, &answer);
	}
}

/*
 * is_sent_on --- does a node of a cluster not serve a command about these names?
 */
static bool
is_sent_on(int node, int conn, const Word *what, const Word *name, int n, bool asking,
		   bool channel)
{
	char		about[64];
	char		names[MAX_WORDS][REDIS_NAME];
	const char *words;

	if (!sim_config.cluster || n == 0)
		return false;
	for (int i = 0; i < n; i++)
		word_copy(names[i], REDIS_NAME, &name[i]);
	words = shards_refuse(node, names, n, asking, channel);
	if (words == NULL)
		return false;
	sim_trace("redis %d: %s: %s", node, names[0], words);
	reply_error(words);
	snprintf(about, sizeof(about), "%.*s", (int) (what->len < 40 ? what->len : 40), what->text);
	shards_note_sent_on(net_owner(conn), about, names[0]);
	return true;
}

static void
eval(int node, int conn, const Word *word, int n, bool asking)
{
	bool		by_text = word_is(&word[0], "EVAL");
	const Script *s = find_script(&word[1], by_text);
	int			nkeys = n > 2 ? (int) word_number(&word[2]) : 0;
	RedisMood	mood = redis_mood(node);
	char		name[REDIS_NAME];

	if (s == NULL)
		sim_fail("simulator", "an unknown script is called");
	if (mood == REDIS_LOADING || mood == REDIS_BUSY_SCRIPT)
	{
		reply_error(redis_mood_words(mood));
		return;
	}
	for (int i = 0; i < nkeys; i++)
	{
		word_copy(name, sizeof(name), &word[3 + i]);
		if (redis_denies(node, name))
		{
			sim_trace("redis %d: %s: NOPERM", node, name);
			reply_error("NOPERM No permissions to access a key");
			return;
		}
	}
	if (is_sent_on(node, conn, &word[1], word + 3, nkeys, asking, false))
		return;
	if (by_text)
		loaded[node] |= UINT64_C(1) << (s - scripts);
	else if ((loaded[node] & UINT64_C(1) << (s - scripts)) == 0)
	{
		sim_trace("redis %d: NOSCRIPT", node);
		reply_error("NOSCRIPT No matching script. Please use EVAL.");
		return;
	}
	if (s->own != NULL)
	{
		ScriptCall	call = {node, net_owner(conn), word + 3, nkeys, word + 3 + nkeys, n - 3 - nkeys};

		s->own(s->name, &call);
	}
	else
		run_script(node, conn, s, word + 3, nkeys, word + 3 + nkeys, n - 3 - nkeys);
}

static void
serve_subscription(int node, int conn, const Word *word)
{
	char		name[REDIS_NAME];
	bool		sharded = word_is(&word[0], "SSUBSCRIBE") || word_is(&word[0], "SUNSUBSCRIBE");
	bool		wanted = word_is(&word[0], "SUBSCRIBE") || word_is(&word[0], "SSUBSCRIBE");
	const char *verb = wanted ? "subscribe" : "unsubscribe";

	word_copy(name, sizeof(name), &word[1]);
	if (wanted && redis_denies(node, name))
	{
		sim_trace("redis %d: %s: NOPERM", node, name);
		reply_error("NOPERM No permissions to access a channel");
		return;
	}
	if (sharded && is_sent_on(node, conn, &word[0], &word[1], 1, false, true))
		return;
	if (wanted)
		subscribe(node, conn, name, sharded);
	else
		unsubscribe(node, conn, name);
	sim_trace("redis %d: %s %s", node, verb, name);
	reply_put("*3\r\n$%zu\r\n%s%s\r\n", strlen(verb) + sharded, sharded ? "s" : "", verb);
	reply_text(name);
	reply_put(":%d\r\n", count_subscriptions(conn));
}

/* It says that it is none: a replica, or who takes no writes. */
static bool
is_replica(int node)
{
	return sim_config.cluster ? !shards_is_master(node) : redis_mood(node) == REDIS_READONLY;
}

static void
serve_info(int node)
{
	char		text[256];

	snprintf(text, sizeof(text),
			 "redis_version:7.2.0\r\nrun_id:%040d\r\nuptime_in_seconds:%lld\r\n"
			 "maxmemory_policy:noeviction\r\nrole:%s\r\n",
			 1000 * redis_run_number(node) + node, (long long) redis_uptime(node),
			 is_replica(node) ? "slave" : "master");
	reply_text(text);
}

static void
serve_time(int node)
{
	char		text[24];

	reply_put("*2\r\n");
	snprintf(text, sizeof(text), "%lld", (long long) (redis_clock(node) / SIM_S));
	reply_text(text);
	snprintf(text, sizeof(text), "%lld", (long long) (redis_clock(node) % SIM_S));
	reply_text(text);
}

static void
serve_hello(int node)
{
	reply_put("*14\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n7.2.0\r\n"
		"$5\r\nproto\r\n:2\r\n$2\r\nid\r\n:1\r\n$4\r\nmode\r\n");
	reply_text(sim_config.cluster ? "cluster" : "standalone");
	reply_text("role");
	reply_text(is_replica(node) ? "replica" : "master");
	reply_put("$7\r\nmodules\r\n*1\r\n*2\r\n$4\r\nname\r\n$4\r\njson\r\n");
}

/* To a Sentinel: of its commands the first two words say enough. */
static void
serve_sentinel(int sentinel, int conn, const Word *word, int n)
{
	char		verb[REDIS_NAME];
	char		what[REDIS_NAME] = "";

	word_copy(verb, sizeof(verb), &word[0]);
	if (n > 1)
		word_copy(what, sizeof(what), &word[1]);
	sentinels_serve(sentinel, conn, verb, what);
}

static void
serve_ping(int node, int conn)
{
	RedisMood	mood = redis_mood(node);

	if (mood == REDIS_LOADING || mood == REDIS_BUSY_SCRIPT)
		reply_error(redis_mood_words(mood));
	else if (count_subscriptions(conn) > 0)
		reply_put("*2\r\n$4\r\npong\r\n$0\r\n\r\n");
	else
		reply_put("+PONG\r\n");
}

/*
 * put_replicas --- how many have what this connection wrote last
 *
 * One that has written nothing is told how many there are, whatever they lack.
 */
static bool
put_replicas(int node, Peer *peer, bool at_last)
{
	bool		has_it = !peer->wrote || redis_replicate(node);

	if (is_replica(node))
		reply_error(at_last ? "UNBLOCKED force unblock from blocking operation" :
				  "ERR WAIT cannot be used with replica instances.");
	else if (has_it || at_last)
		reply_put(":%d\r\n", has_it);
	else
		return false;
	peer->wrote = peer->wrote && !has_it;
	return true;
}

static void
wait_ends(void *arg, int64_t conn)
{
	Peer	   *peer = &peers[conn];

	(void) arg;
	if (!peer->waits)
		return;
	peer->waits = false;
	(void) put_replicas(peer->node, peer, true);
	serve(peer->node, (int) conn, "", 0);
}

static void
serve_wait(int node, int conn, const Word *word)
{
	Peer	   *peer = &peers[conn];
	int64_t		ms = word_number(&word[2]);

	if (ms <= 0)
		sim_fail("simulator", "a WAIT for ever");
	peer->node = node;
	peer->waits = !put_replicas(node, peer, false);
	if (peer->waits)
		sim_at(sim_now() + ms * SIM_MS, wait_ends, NULL, conn);
}

static void
serve_cluster(int node, const Word *what)
{
	char		text[4096];

	if (word_is(what, "MYID"))
	{
		reply_text(shards_id_of(node));
		return;
	}
	shards_put_nodes(node, text, sizeof(text));
	reply_text(text);
}

/* Of a ticket, that nobody asks for any more. */
static void
serve_zrem(int node, int conn, const Word *word)
{
	RedisMood	mood = redis_mood(node);
	char		key[REDIS_NAME];
	char		member[REDIS_OWNER];

	if (mood == REDIS_LOADING || mood == REDIS_BUSY_SCRIPT)
	{
		reply_error(redis_mood_words(mood));
		return;
	}
	if (is_sent_on(node, conn, &word[0], &word[1], 1, false, false))
		return;
	word_copy(key, sizeof(key), &word[1]);
	word_copy(member, sizeof(member), &word[2]);
	redis_counts_forget_ticket(node, key, member);
	reply_put(":1\r\n");
}

static void
serve_command(int node, int conn, const Word *word, int n)
{
	bool		asking = peers[conn].asking;

	peers[conn].asking = word_is(&word[0], "ASKING");
	if (node >= REDIS_NODES)
		serve_sentinel(node - REDIS_NODES, conn, word, n);
	else if (word_is(&word[0], "HELLO"))
		serve_hello(node);
	else if (word_is(&word[0], "EVALSHA") || word_is(&word[0], "EVAL"))
		eval(node, conn, word, n, asking);
	else if (word_is(&word[0], "SUBSCRIBE") || word_is(&word[0], "UNSUBSCRIBE") ||
			 word_is(&word[0], "SSUBSCRIBE") || word_is(&word[0], "SUNSUBSCRIBE"))
		serve_subscription(node, conn, word);
	else if (word_is(&word[0], "TIME"))
		serve_time(node);
	else if (word_is(&word[0], "INFO"))
		serve_info(node);
	else if (word_is(&word[0], "PING"))
		serve_ping(node, conn);
	else if (word_is(&word[0], "ZREM"))
		serve_zrem(node, conn, word);
	else if (word_is(&word[0], "WAIT"))
		serve_wait(node, conn, word);
	else if (word_is(&word[0], "CLUSTER"))
		serve_cluster(node, &word[1]);
	else if (word_is(&word[0], "ASKING") || word_is(&word[0], "AUTH") || word_is(&word[0], "SELECT") || word_is(&word[0], "CLIENT"))
		reply_put("+OK\r\n");
	else
		reply_put("-ERR unknown command '%.*s'\r\n", (int) word[0].len, word[0].text);
}

/* ----------
 * Bytes
 * ----------
 */

/* A number behind a type byte; NULL: its line is not complete. */
static const char *
read_header(const char *p, const char *end, char type, long *value)
{
	const char *eol = memchr(p, '\n', end - p);

	if (eol == NULL)
		return NULL;
	if (*p != type)
		sim_fail("protocol", "the request is not in Redis's protocol");
	*value = strtol(p + 1, NULL, 10);
	return eol + 1;
}

/* The next command; how many bytes it has, 0 = it is not complete. */
static size_t
read_command(const char *data, size_t len, Word *word, long *n)
{
	const char *end = data + len;
	const char *p = read_header(data, end, '*', n);

	if (p != NULL && *n > MAX_WORDS)
		sim_fail("simulator", "a command of %ld words", *n);
	for (long i = 0; p != NULL && i < *n; i++)
	{
		long		size;

		p = p < end ? read_header(p, end, '$', &size) : NULL;
		if (p == NULL || end - p < size + 2)
			return 0;
		word[i].text = p;
		word[i].len = size;
		p += size + 2;
	}
	return p != NULL ? p - data : 0;
}

static void
serve(int node, int conn, const char *data, size_t len)
{
	Peer	   *peer = &peers[conn];
	Word		word[MAX_WORDS];
	size_t		done = 0;
	long		n;

	if (conn >= npeers)
		npeers = conn + 1;
	if (peer->len > 0)
	{
		peer->data = realloc(peer->data, peer->len + len + 1);
		memcpy(peer->data + peer->len, data, len);
		data = peer->data;
		len += peer->len;
	}
	while (done < len && !peer->waits)
	{
		size_t		size = read_command(data + done, len - done, word, &n);

		if (size == 0)
			break;
		serve_command(node, conn, word, (int) n);
		done += size;
	}
	if (peer->len == 0 && done < len)
		peer->data = realloc(peer->data, len - done);
	if (done < len)
		memmove(peer->data, data + done, len - done);
	peer->len = len - done;
	flush(conn);
}
