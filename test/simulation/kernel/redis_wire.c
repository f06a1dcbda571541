/*-------------------------------------------------------------------------
 *
 * redis_wire.c
 *	  What the nodes of Redis are asked, and answer: RESP, scripts by their digests,
 *	  subscriptions.
 *
 * The bytes are those of the real client.  Scripts are run by ../redis, with what the node
 * has and by its clock.
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

#include "../redis/script.h"
#include "clusters.h"
#include "config.h"
#include "kernel.h"
#include "network.h"
#include "redis_nodes.h"
#include "redis_scripts.h"
#include "sentinels.h"
#include "server.h"
#include "shards.h"

#define MAX_SCRIPTS		64
#define MAX_SUBSCRIBERS	256
#define MAX_ASKED		256
#define MAX_WORDS		64

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

/* Of several masters: who of a server has last asked at a port for the channel. */
typedef struct Asked
{
	int			pid;
	int			port;
	char		channel[REDIS_NAME];
} Asked;

extern int	process_pid(int slot);

static Script scripts[MAX_SCRIPTS];
static int	nscripts;
static uint64_t loaded[REDIS_NODES];
static Peer peers[NET_MAX_CONNS];
static int	npeers;
static Subscriber subscribers[MAX_SUBSCRIBERS];
static int	nsubscribers;
static Asked asked[MAX_ASKED];
static int	nasked;

static Reply out;

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
	npeers = nsubscribers = nasked = 0;
	memset(loaded, 0, sizeof(loaded));
	out.len = 0;
	script_reset();
	net_reset(serve, closed);
	for (int i = 0; i < REDIS_NODES; i++)
		net_listen(REDIS_PORT(i), i);
	sentinels_reset();
	shards_reset();
	clusters_reset();
}

/* ----------
 * Scripts
 * ----------
 */

void
redis_add_script(const char *name, const char *sha1, const char *text)
{
	Script	   *s = &scripts[nscripts++];

	if (nscripts == MAX_SCRIPTS)
		sim_fail("simulator", "too many scripts");
	snprintf(s->sha1, sizeof(s->sha1), "%s", sha1);
	s->name = strdup(name);
	s->text = word_of(strdup(text));
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

		if (by_text ? word_equals(*word, s->text) : word_is(*word, s->sha1))
			return s;
	}
	return NULL;
}

/* ----------
 * Answers
 * ----------
 */

static void
flush(int conn)
{
	if (out.len > 0)
		net_reply(conn, out.data, out.len);
	out.len = 0;
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

/* A connection that has ended may not have been missed yet, so what was asked there stays. */
static void
note_asked(int conn, const char *channel, bool wanted)
{
	int			pid = net_owner(conn);
	int			i = 0;

	while (i < nasked && (server_of_pid(asked[i].pid) != server_of_pid(pid) ||
						  asked[i].port != net_port(conn) || strcmp(asked[i].channel, channel) != 0))
		i++;
	if (i == MAX_ASKED)
		sim_fail("simulator", "too many channels");
	if (!wanted)
	{
		if (i < nasked)
			asked[i] = asked[--nasked];
		return;
	}
	nasked += i == nasked ? 1 : 0;
	asked[i].pid = pid;
	asked[i].port = net_port(conn);
	snprintf(asked[i].channel, REDIS_NAME, "%s", channel);
}

int
redis_count_asked(int pid, const char *channel)
{
	int			n = 0;

	for (int i = 0; i < nasked; i++)
		n += asked[i].pid == pid && strcmp(asked[i].channel, channel) == 0;
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
redis_tell(int node, const char *channel, const char *message, bool sharded)
{
	int			n = 0;

	for (int i = 0; i < nsubscribers; i++)
		if (subscribers[i].node == node && subscribers[i].sharded == sharded &&
			strcmp(subscribers[i].channel, channel) == 0)
		{
			char		text[512];
			int			len = snprintf(text, sizeof(text),
									   "*3\r\n%s\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n",
									   sharded ? "$8\r\nsmessage" : "$7\r\nmessage",
									   strlen(channel), channel, strlen(message), message);

			net_reply(subscribers[i].conn, text, len);
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

static void
word_copy(char *to, size_t size, Word word)
{
	if (word.len >= size)
		sim_fail("simulator", "a word is too long: %.*s", (int) word.len, word.text);
	memcpy(to, word.text, word.len);
	to[word.len] = '\0';
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
		word_copy(names[i], REDIS_NAME, name[i]);
	words = shards_refuse(node, names, n, asking, channel);
	if (words == NULL)
		return false;
	sim_trace("redis %d: %s: %s", node, names[0], words);
	reply_error(&out, words);
	snprintf(about, sizeof(about), "%.*s", (int) (what->len < 40 ? what->len : 40), what->text);
	shards_note_sent_on(net_owner(conn), about, names[0]);
	return true;
}

static void
eval(int node, int conn, const Word *word, int n, bool asking)
{
	bool		by_text = word_is(word[0], "EVAL");
	const Script *s = find_script(&word[1], by_text);
	int			nkeys = n > 2 ? (int) word_number(word[2]) : 0;
	RedisMood	mood = redis_mood(node);
	char		name[REDIS_NAME];

	if (s == NULL)
		sim_fail("simulator", "an unknown script is called");
	if (mood == REDIS_LOADING || mood == REDIS_BUSY_SCRIPT)
	{
		reply_error(&out, redis_mood_words(mood));
		return;
	}
	for (int i = 0; i < nkeys; i++)
	{
		word_copy(name, sizeof(name), word[3 + i]);
		if (redis_denies(node, name))
		{
			sim_trace("redis %d: %s: NOPERM", node, name);
			reply_error(&out, "NOPERM No permissions to access a key");
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
		reply_error(&out, "NOSCRIPT No matching script. Please use EVAL.");
		return;
	}
	if (redis_run_script(s, &(ScriptCall) {
						 .node = node,.pid = net_owner(conn),.asks_for_replica = asks_for_replica(conn),
						 .keys = word + 3,.nkeys = nkeys,
						 .argv = word + 3 + nkeys,.nargs = n - 3 - nkeys
						 }, &out))
		peers[conn].wrote = true;
}

static void
serve_subscription(int node, int conn, const Word *word)
{
	char		name[REDIS_NAME];
	bool		sharded = word_is(word[0], "SSUBSCRIBE") || word_is(word[0], "SUNSUBSCRIBE");
	bool		wanted = word_is(word[0], "SUBSCRIBE") || word_is(word[0], "SSUBSCRIBE");
	const char *verb = wanted ? "subscribe" : "unsubscribe";

	word_copy(name, sizeof(name), word[1]);
	if (wanted && redis_denies(node, name))
	{
		sim_trace("redis %d: %s: NOPERM", node, name);
		reply_error(&out, "NOPERM No permissions to access a channel");
		return;
	}
	if (sharded && is_sent_on(node, conn, &word[0], &word[1], 1, false, true))
		return;
	if (wanted)
		subscribe(node, conn, name, sharded);
	else
		unsubscribe(node, conn, name);
	if (sim_config.masters > 0)
		note_asked(conn, name, wanted);
	sim_trace("redis %d: %s %s", node, verb, name);
	reply_put(&out, "*3\r\n$%zu\r\n%s%s\r\n", strlen(verb) + sharded, sharded ? "s" : "", verb);
	reply_text(&out, name);
	reply_put(&out, ":%d\r\n", count_subscriptions(conn));
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
	reply_text(&out, text);
}

static void
serve_time(int node)
{
	char		text[24];

	reply_array(&out, 2);
	snprintf(text, sizeof(text), "%lld", (long long) (redis_clock(node) / SIM_S));
	reply_text(&out, text);
	snprintf(text, sizeof(text), "%lld", (long long) (redis_clock(node) % SIM_S));
	reply_text(&out, text);
}

static void
serve_hello(int node)
{
	reply_put(&out, "*14\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n7.2.0\r\n"
		"$5\r\nproto\r\n:2\r\n$2\r\nid\r\n:1\r\n$4\r\nmode\r\n");
	reply_text(&out, sim_config.cluster ? "cluster" : "standalone");
	reply_text(&out, "role");
	reply_text(&out, is_replica(node) ? "replica" : "master");
	reply_put(&out, "$7\r\nmodules\r\n*1\r\n*2\r\n$4\r\nname\r\n$4\r\njson\r\n");
}

/* To a Sentinel: of its commands the first two words say enough. */
static void
serve_sentinel(int sentinel, int conn, const Word *word, int n)
{
	char		verb[REDIS_NAME];
	char		what[REDIS_NAME] = "";

	word_copy(verb, sizeof(verb), word[0]);
	if (n > 1)
		word_copy(what, sizeof(what), word[1]);
	sentinels_serve(sentinel, conn, verb, what);
}

static void
serve_ping(int node, int conn)
{
	RedisMood	mood = redis_mood(node);

	if (mood == REDIS_LOADING || mood == REDIS_BUSY_SCRIPT)
		reply_error(&out, redis_mood_words(mood));
	else if (count_subscriptions(conn) > 0)
		reply_put(&out, "*2\r\n$4\r\npong\r\n$0\r\n\r\n");
	else
		reply_put(&out, "+PONG\r\n");
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
		reply_error(&out, at_last ? "UNBLOCKED force unblock from blocking operation" :
				  "ERR WAIT cannot be used with replica instances.");
	else if (has_it || at_last)
		reply_put(&out, ":%d\r\n", has_it);
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
	int64_t		ms = word_number(word[2]);

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

	if (word_is(*what, "MYID"))
	{
		reply_text(&out, shards_id_of(node));
		return;
	}
	shards_put_nodes(node, text, sizeof(text));
	reply_text(&out, text);
}

/* Of a ticket, that nobody asks for any more. */
static void
serve_zrem(int node, int conn, const Word *word, int n)
{
	RedisMood	mood = redis_mood(node);
	Redis		redis = {.db = redis_db(node),.now_us = redis_clock(node),.reply = &out};
	const char *words = redis_refuses(node, false);

	if (mood == REDIS_LOADING || mood == REDIS_BUSY_SCRIPT)
		words = redis_mood_words(mood);
	if (words != NULL)
		reply_error(&out, words);
	else if (!is_sent_on(node, conn, &word[0], &word[1], 1, false, false))
		redis_command(&redis, word, n);
}

/* Any node may be asked who it is. */
static void
note_request(int node, int conn, Word verb)
{
	char		text[REDIS_NAME];

	if (word_is(verb, "HELLO") || word_is(verb, "INFO") || word_is(verb, "PING") ||
		word_is(verb, "CLUSTER"))
		return;
	word_copy(text, sizeof(text), verb);
	clusters_note_request(node, net_owner(conn), text);
}

static void
serve_command(int node, int conn, const Word *word, int n)
{
	bool		asking = peers[conn].asking;

	peers[conn].asking = word_is(word[0], "ASKING");
	note_request(node, conn, word[0]);
	if (node >= REDIS_NODES)
		serve_sentinel(node - REDIS_NODES, conn, word, n);
	else if (word_is(word[0], "HELLO"))
		serve_hello(node);
	else if (word_is(word[0], "EVALSHA") || word_is(word[0], "EVAL"))
		eval(node, conn, word, n, asking);
	else if (word_is(word[0], "SUBSCRIBE") || word_is(word[0], "UNSUBSCRIBE") ||
			 word_is(word[0], "SSUBSCRIBE") || word_is(word[0], "SUNSUBSCRIBE"))
		serve_subscription(node, conn, word);
	else if (word_is(word[0], "TIME"))
		serve_time(node);
	else if (word_is(word[0], "INFO"))
		serve_info(node);
	else if (word_is(word[0], "PING"))
		serve_ping(node, conn);
	else if (word_is(word[0], "ZREM"))
		serve_zrem(node, conn, word, n);
	else if (word_is(word[0], "WAIT"))
		serve_wait(node, conn, word);
	else if (word_is(word[0], "CLUSTER"))
		serve_cluster(node, &word[1]);
	else if (word_is(word[0], "ASKING") || word_is(word[0], "AUTH") || word_is(word[0], "SELECT") || word_is(word[0], "CLIENT"))
		reply_put(&out, "+OK\r\n");
	else
		reply_put(&out, "-ERR unknown command '%.*s'\r\n", (int) word[0].len, word[0].text);
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
