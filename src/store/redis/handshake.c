/*-------------------------------------------------------------------------
 *
 * handshake.c
 *	  The handshake of a connection: says who we are, and asks what the node is.
 *
 * A node that lockredis.url names as a single Redis is greeted in a way that proxies and
 * old versions understand.  Every other kind of target must be known to be what it
 * should be before anything else is sent: HELLO shows that, and needs no right.  An
 * independent master also has to say since when it runs (nodes.c), and a master of a
 * cluster which node it is, since another node may have its address by now.
 *
 * The password is read here, and is kept in memory until it has been answered.  Nothing
 * in here waits (except for the password file), raises or allocates.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/handshake.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "names.h"
#include "store/nodes.h"
#include "store/redis/conn.h"

/* Room for a connection's name: role, pid, instance and cluster_name. */
#define CLIENT_NAME_MAX		192

static const char *const voter_hint =
gettext_noop("Each URL in lockredis.url has to name a master of its own.");

/* ----------
 * The password
 * ----------
 */

/*
 * password_from_line --- the content of the file, without the end of the line
 *
 * Returns what is wrong with it, or NULL.
 */
static const char *
password_from_line(const char *buf, ssize_t len, char *secret)
{
	if (len > 0 && buf[len - 1] == '\n')
		len--;
	if (len > 0 && buf[len - 1] == '\r')
		len--;
	if (len == 0)
		return "The password file is empty.";
	if (len >= LR_SECRET_MAX)
		return "The password in the password file is too long.";
	if (memchr(buf, '\0', len) != NULL || memchr(buf, '\n', len) != NULL)
		return "The password file has more than one line.";
	memcpy(secret, buf, len);
	secret[len] = '\0';
	return NULL;
}

/*
 * password_take --- read the password from the file, after a check who else may read it
 *
 * Returns what is wrong, or NULL.
 */
static const char *
password_take(int fd, char *secret)
{
	struct stat st;
	char		buf[LR_SECRET_MAX + 2];
	const char *problem;
	ssize_t		len;

	if (fstat(fd, &st) < 0)
		return "Could not read the password file.";
	if (!S_ISREG(st.st_mode))
		return "The password file is not a regular file.";
	if (st.st_uid != geteuid())
		return "The password file does not belong to the user of the database server.";
	if (st.st_mode & (S_IRWXG | S_IRWXO))
		return "The password file has group or world access; it should have permissions u=rw (0600) or less.";
	len = read(fd, buf, sizeof(buf));
	problem = len < 0 ? "Could not read the password file." :
		password_from_line(buf, len, secret);
	explicit_bzero(buf, sizeof(buf));
	return problem;
}

/*
 * password_read --- read the password; false if that failed
 *
 * The file is read for each connection, so that a change takes effect.
 */
static bool
password_read(RedisConn *c)
{
	const char *hint = c->target->kind == TARGET_SENTINEL ?
		gettext_noop("Check lockredis.sentinel_password_file.") :
		gettext_noop("Check lockredis.password_file.");
	const char *problem;
	int			fd = open(c->target->password_file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
	{
		redis_failure_set(&c->failure, STORE_DOWN, ERRCODE_STORE_UNREACHABLE, hint,
						  "Could not open the password file: %s.", strerror(errno));
		return false;
	}
	problem = password_take(fd, c->handshake.secret);
	(void) close(fd);
	if (problem != NULL)
		redis_failure_set(&c->failure, STORE_DOWN, ERRCODE_STORE_UNREACHABLE, hint,
						  "%s", problem);
	return problem == NULL;
}

void
redis_handshake_forget_secret(RedisHandshake *hs)
{
	explicit_bzero(hs->secret, sizeof(hs->secret));
}

/* ----------
 * Requests
 * ----------
 */

/*
 * handshake_put --- put a request of n words, and expect its reply
 */
static void
handshake_put(RedisConn *c, RedisGreeting greeting, int n,...)
{
	RedisHandshake *hs = &c->handshake;
	va_list		words;

	Assert(hs->ngreetings < REDIS_MAX_GREETINGS);
	hs->greetings[hs->ngreetings++] = greeting;
	va_start(words, n);
	resp_put_words(&c->out, n, words);
	va_end(words);
}

/*
 * handshake_name --- lockredis-<role>-<pid>:<instance>, and :<cluster_name> if that is
 * set
 *
 * This connects an owner of a lock with its server in CLIENT LIST.  Redis allows no
 * spaces, so in cluster_name everything but letters, digits and a few other characters
 * becomes an underscore.
 */
static void
handshake_name(const char *role, char *out, size_t size)
{
	size_t		len;

	len = snprintf(out, size, "lockredis-%s-%d:%s", role, MyProcPid, lr_instance_uuid());
	if (cluster_name == NULL || cluster_name[0] == '\0')
		return;
	out[len++] = ':';
	for (const char *c = cluster_name; *c != '\0' && len < size - 1; c++)
		out[len++] = isascii((unsigned char) *c) &&
			(isalnum((unsigned char) *c) || strchr("-._/", *c) != NULL) ? *c : '_';
	out[len] = '\0';
}

/*
 * handshake_put_identity --- user, password, database, and name of the connection
 *
 * HELLO has all but the database in one command; a single node may not know HELLO.
 */
static void
handshake_put_identity(RedisConn *c)
{
	const RedisUrl *url = &c->target->url;
	const char *secret = c->handshake.secret;
	bool		plain = c->target->kind == TARGET_NODE;
	bool		auth = secret[0] != '\0' || url->user[0] != '\0';
	char		name[CLIENT_NAME_MAX];
	char		db[16];

	handshake_name(c->role, name, sizeof(name));
	if (!plain && auth)
		handshake_put(c, GREET_HELLO, 7, "HELLO", "2", "AUTH",
					  url->user[0] != '\0' ? url->user : "default", secret, "SETNAME", name);
	else if (!plain)
		handshake_put(c, GREET_HELLO, 4, "HELLO", "2", "SETNAME", name);
	else if (url->user[0] != '\0')
		handshake_put(c, GREET_AUTH, 3, "AUTH", url->user, secret);
	else if (auth)
		handshake_put(c, GREET_AUTH, 2, "AUTH", secret);
	if (url->db != 0)
	{
		snprintf(db, sizeof(db), "%d", url->db);
		handshake_put(c, GREET_SELECT, 2, "SELECT", db);
	}
	if (plain)
		handshake_put(c, GREET_NAME, 3, "CLIENT", "SETNAME", name);
}

/*
 * handshake_put_questions --- the node's clock, and what the node is
 */
static void
handshake_put_questions(RedisConn *c)
{
	static const char *const sections[] = {"server", "memory", "replication"};
	TargetKind	kind = c->target->kind;
	int			n = c->probe ? lengthof(sections) :
		kind == TARGET_VOTER || kind == TARGET_SENTINEL ? 1 : 0;

	if (kind != TARGET_SENTINEL)
		handshake_put(c, GREET_TIME, 1, "TIME");
	if (kind == TARGET_SHARD)
		handshake_put(c, GREET_ID, 2, "CLUSTER", "MYID");
	for (int i = 0; i < n; i++)
		handshake_put(c, GREET_INFO, 2, "INFO", sections[i]);
}

/*
 * redis_handshake_start --- see conn.h
 *
 * Nothing is sent yet.
 */
bool
redis_handshake_start(RedisConn *c)
{
	const RedisTarget *t = c->target;

	memset(&c->handshake, 0, sizeof(RedisHandshake));
	if (t->password_file[0] == '\0')
		strlcpy(c->handshake.secret, t->url.password, sizeof(c->handshake.secret));
	else if (!password_read(c))
		return false;

	handshake_put_identity(c);
	if (t->kind != TARGET_SEED && t->kind != TARGET_CLAIMANT)
		handshake_put_questions(c);
	c->handshake.sent_at = lr_now();
	return true;
}

/* ----------
 * Replies
 * ----------
 */

/*
 * facts_field --- find a field of INFO; false if it is not there
 */
static bool
facts_field(const char *info, const char *field, char *out, size_t size)
{
	size_t		len = strlen(field);

	for (const char *line = info; line != NULL;)
	{
		if (strncmp(line, field, len) == 0 && line[len] == ':')
		{
			size_t		n = strcspn(line + len + 1, "\r\n");

			strlcpy(out, line + len + 1, Min(size, n + 1));
			redis_words_clean(out);
			return true;
		}
		line = strchr(line, '\n');
		if (line != NULL)
			line++;
	}
	return false;
}

/*
 * facts_read_boot --- read the run id, and the latest time at which the node can have
 * started
 *
 * The uptime is the difference of two clock readings in whole seconds, so the node may
 * have been started up to one second later than it shows.  An impossibly large value is
 * limited, lest the result be in the future.
 */
static void
facts_read_boot(RedisFacts *facts, const char *info)
{
	char		value[32];

	(void) facts_field(info, "run_id", facts->run_id, sizeof(facts->run_id));
	if (facts_field(info, "uptime_in_seconds", value, sizeof(value)) &&
		value[0] >= '0' && value[0] <= '9')
	{
		int64		seconds = strtoi64(value, NULL, 10);

		facts->booted_by = lr_now() -
			(Min(seconds, LR_NEVER / LR_US_PER_S) - 1) * LR_US_PER_S;
	}
}

/*
 * facts_read_replicas --- show the replicas of a master
 *
 * There is a line "slave0:ip=...,port=...,state=...,..." for each, numbered without a gap.
 * Replicas of a replica are not of interest.
 */
static void
facts_read_replicas(const char *info)
{
	char		line[512];
	char		field[16];
	char		host[LR_HOST_MAX];
	char		port[16];
	char		state[16];
	char		address[LR_HOST_MAX + 20];
	int			n = 0;

	if (!facts_field(info, "role", line, sizeof(line)))
		return;
	for (bool is_master = strcmp(line, "master") == 0; is_master && n < NODE_REPLICAS; n++)
	{
		snprintf(field, sizeof(field), "slave%d", n);
		if (!facts_field(info, field, line, sizeof(line)) ||
			sscanf(line, "ip=%255[^,],port=%15[^,],state=%15[^,]", host, port, state) != 3)
			break;
		snprintf(address, sizeof(address),
				 strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
		node_set_replica(n, address, strcmp(state, "online") == 0 ? NODE_UP : NODE_CONNECTING);
	}
	node_end_replicas(n);
}

/*
 * redis_facts_read --- see conn.h
 */
void
redis_facts_read(RedisFacts *facts, const RedisTarget *t, const char *info)
{
	NodeFacts  *shown = &facts->shown;
	char		value[32];

	facts_read_boot(facts, info);

	if (facts_field(info, "valkey_version", value, sizeof(value)))
		snprintf(shown->version, sizeof(shown->version), "Valkey %.20s", value);
	else if (facts_field(info, "redis_version", value, sizeof(value)))
		strlcpy(shown->version, value, sizeof(shown->version));
	(void) facts_field(info, "maxmemory_policy", shown->maxmemory_policy,
					   sizeof(shown->maxmemory_policy));
	if (facts_field(info, "role", value, sizeof(value)))
		shown->role = strcmp(value, "master") == 0 ? ROLE_MASTER : ROLE_REPLICA;
	if (t->node == NODE_REDIS)
		facts_read_replicas(info);
}

/*
 * redis_conn_has_shards --- see conn.h; all versions of Valkey have them
 */
bool
redis_conn_has_shards(const RedisConn *c)
{
	const char *version = c->facts.shown.version;

	return c->target->kind == TARGET_SHARD &&
		(strncmp(version, "Valkey", 6) == 0 || atoi(version) >= 7);
}

/*
 * redis_clock_offset --- see conn.h
 *
 * Since the clock was read at "read_at" or before, it is never assumed to be ahead of
 * its real value, and a request limited by it never runs too late.  It may be assumed to
 * be behind by the time that the reply took.
 */
int64
redis_clock_offset(int64 us, int64 read_at)
{
	return us - read_at;
}

/*
 * handshake_is_needed --- does the connection depend on this request?
 */
static bool
handshake_is_needed(RedisGreeting greeting, const RedisTarget *t)
{
	return greeting != GREET_NAME && (greeting != GREET_INFO || t->kind == TARGET_VOTER);
}

/*
 * handshake_error --- an error reply to one of the requests
 *
 * A request that is not needed may fail, unless the error says that we have to
 * authenticate.
 */
static StepResult
handshake_error(RedisConn *c, RedisGreeting greeting)
{
	const redisReply *v = c->in.reply;
	const RedisTarget *t = c->target;
	const char *secret = c->handshake.secret;
	char		words[REDIS_WORDS_MAX];
	StoreOutcome outcome = redis_error_words(v, t->url.user, words,
											 sizeof(words));
	bool		full = strstr(words, "max number of clients") != NULL;
	const char *hint;

	if (greeting == GREET_AUTH && !full && !redis_words_begin(words, "LOADING"))
		outcome = STORE_DENIED;
	if (!handshake_is_needed(greeting, t) && !full && !redis_words_begin(words, "NOAUTH") &&
		!redis_words_begin(words, "DENIED"))
		return STEP_UNDER_WAY;

	/* Some versions repeat an unknown command in the error. */
	if (secret[0] != '\0' && strstr(v->str, secret) != NULL)
		strlcpy(words, "(not shown: it repeats the password)", sizeof(words));

	if (outcome != STORE_DENIED)
		hint = t->kind == TARGET_NODE ? redis_words_hint(words) : NULL;
	else if (redis_words_begin(words, "NOPERM"))
		hint = redis_rights_hint;
	else
		hint = t->kind == TARGET_SENTINEL ?
			gettext_noop("Check lockredis.sentinel_user and lockredis.sentinel_password_file.") :
			gettext_noop("Check lockredis.url and lockredis.password_file.");
	return redis_failure_set(&c->failure, outcome,
							 outcome == STORE_DENIED ? ERRCODE_STORE_DENIED : ERRCODE_STORE_FAILED,
							 hint, "The node answered: %s", words);
}

/*
 * handshake_field --- the value of a field of the reply to HELLO, or ""
 */
static const char *
handshake_field(const redisReply *reply, const char *field)
{
	for (size_t i = 0; i + 1 < reply->elements; i += 2)
	{
		const redisReply *name = reply->element[i];
		const redisReply *value = reply->element[i + 1];

		if (name->type == REDIS_REPLY_STRING && strcmp(name->str, field) == 0 &&
			value->type == REDIS_REPLY_STRING)
			return value->str;
	}
	return "";
}

/*
 * handshake_take_voter --- can the node be an independent master?
 */
static StepResult
handshake_take_voter(RedisConn *c)
{
	const redisReply *reply = c->in.reply;
	bool		alone = strcmp(handshake_field(reply, "mode"), "standalone") == 0;

	if (alone && strcmp(handshake_field(reply, "role"), "master") == 0)
		return STEP_UNDER_WAY;
	return redis_failure_set(&c->failure, STORE_DOWN, ERRCODE_STORE_UNREACHABLE, voter_hint,
							 alone ? "The node is a replica." :
							 "What answers there is a Sentinel, or a node of a Redis Cluster.");
}

/*
 * handshake_must_be --- is the node of the kind that the settings say?  If not, report
 * what it is.
 *
 * The detail says what the URL would have to be, as everybody whom this concerns sees
 * the detail.
 */
static StepResult
handshake_must_be(RedisConn *c, const char *wanted, const char *name)
{
	const char *mode = handshake_field(c->in.reply, "mode");
	const char *is = "";

	if (strcmp(mode, wanted) == 0)
		return STEP_UNDER_WAY;
	if (strcmp(mode, "sentinel") == 0)
		is = ": it is a Sentinel (redis-sentinel://)";
	else if (strcmp(mode, "cluster") == 0)
		is = ": it is a node of a Redis Cluster (redis-cluster://)";
	else if (strcmp(mode, "standalone") == 0)
		is = ": it is a single Redis (redis://)";
	return redis_failure_set(&c->failure, STORE_DOWN, ERRCODE_STORE_UNREACHABLE,
							 gettext_noop("Check lockredis.url."),
							 "What answers there is no %s%s.", name, is);
}

/*
 * handshake_take_hello --- is the node what it should be?
 *
 * A node that says that it is a master may not be the master any more; nodes.c
 * decides that.  A node that says that it is none certainly is none.
 */
static StepResult
handshake_take_hello(RedisConn *c)
{
	const redisReply *reply = c->in.reply;
	bool		valkey = strcmp(handshake_field(reply, "server"), "valkey") == 0;
	char	   *version = c->handshake.facts.shown.version;

	snprintf(version, sizeof(c->handshake.facts.shown.version), "%s%.20s",
			 valkey ? "Valkey " : "", handshake_field(reply, "version"));
	redis_words_clean(version);
	switch (c->target->kind)
	{
		case TARGET_SENTINEL:
			return handshake_must_be(c, "sentinel", "Sentinel");
		case TARGET_VOTER:
			return handshake_take_voter(c);
		case TARGET_SHARD:
		case TARGET_SEED:
			return handshake_must_be(c, "cluster", "node of a Redis Cluster");
		case TARGET_NODE:
		case TARGET_MASTER:
		case TARGET_CLAIMANT:
			break;
	}
	if (strcmp(handshake_field(reply, "role"), "master") == 0)
		return STEP_UNDER_WAY;
	redis_target_is_no_master(c->target);
	return redis_failure_set(&c->failure, STORE_DOWN, ERRCODE_STORE_UNREACHABLE, NULL,
							 "The node that the Sentinels name says that it is no master.");
}

/*
 * handshake_take_id --- is it the node that the map has at this address?
 */
static StepResult
handshake_take_id(RedisConn *c)
{
	if (strcmp(c->in.reply->str, c->target->id) == 0)
		return STEP_UNDER_WAY;
	cluster_want_map();
	return redis_failure_set(&c->failure, STORE_DOWN, ERRCODE_STORE_UNREACHABLE, NULL,
							 "What answers there is another node than that of the cluster.");
}

static StepResult
handshake_take_time(RedisHandshake *hs, int64 us)
{
	int64		now = lr_now();

	hs->clock_offset = redis_clock_offset(us, now);
	hs->round_trip = now - hs->sent_at;
	return STEP_UNDER_WAY;
}

/*
 * handshake_take_info --- has the node said who it is, and since when it runs?
 *
 * The first reply to INFO is about the server, which contains both.  It may be an error,
 * or be missing, unless the node is an independent master.
 */
static StepResult
handshake_take_info(RedisConn *c)
{
	const RedisTarget *t = c->target;
	RedisFacts *facts = &c->handshake.facts;

	if (c->in.reply->type == REDIS_REPLY_STRING)
		redis_facts_read(facts, t, c->in.reply->str);
	if (t->kind != TARGET_VOTER || t->node == NODE_NONE)
		return STEP_UNDER_WAY;
	if (facts->run_id[0] == '\0' || facts->booted_by == 0)
		return redis_failure_set(&c->failure, STORE_DENIED, ERRCODE_STORE_DENIED, NULL,
								 "The node does not say since when it runs.");
	if (masters_note(t->node - NODE_MASTER, t->place, facts->run_id, facts->booted_by,
					 &facts->life, &facts->since))
		return STEP_UNDER_WAY;
	return redis_failure_set(&c->failure, STORE_DOWN, ERRCODE_STORE_UNREACHABLE, voter_hint,
							 "It is the same server as that of another URL.");
}

/*
 * handshake_good --- take a reply that is no error
 */
static StepResult
handshake_good(RedisConn *c, RedisGreeting greeting)
{
	const redisReply *v = c->in.reply;
	int64		us;

	switch (greeting)
	{
		case GREET_HELLO:
			if (v->type == REDIS_REPLY_ARRAY)
				return handshake_take_hello(c);
			break;
		case GREET_AUTH:
		case GREET_SELECT:
		case GREET_NAME:
			if (v->type == REDIS_REPLY_STATUS)
				return STEP_UNDER_WAY;
			break;
		case GREET_TIME:
			if (resp_value_time(v, &us))
				return handshake_take_time(&c->handshake, us);
			break;
		case GREET_INFO:
			return handshake_take_info(c);
		case GREET_ID:
			if (v->type == REDIS_REPLY_STRING)
				return handshake_take_id(c);
			break;
	}
	return redis_failure_set(&c->failure, STORE_DOWN, ERRCODE_STORE_FAILED, NULL,
							 "The node's answer makes no sense in Redis's protocol.");
}

/*
 * redis_handshake_take --- take the reply to the oldest request
 */
StepResult
redis_handshake_take(RedisConn *c)
{
	RedisHandshake *hs = &c->handshake;
	RedisGreeting greeting = hs->greetings[hs->next++];
	StepResult	result = c->in.reply->type == REDIS_REPLY_ERROR ?
		handshake_error(c, greeting) : handshake_good(c, greeting);

	if (result == STEP_FAILED)
		return STEP_FAILED;
	if (greeting == GREET_AUTH || greeting == GREET_HELLO)
		redis_handshake_forget_secret(hs);
	return hs->next == hs->ngreetings ? STEP_DONE : STEP_UNDER_WAY;
}
