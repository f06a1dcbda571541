/*-------------------------------------------------------------------------
 *
 * node_errors.c
 *	  What the error replies of a node mean, and why a connection has ended.
 *
 * Text only: nothing in here allocates, raises or touches a connection.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/node_errors.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "store/redis/conn.h"

const char *const redis_rights_hint =
gettext_noop("The user of Redis lacks a right: the command ACL LOG shows there which one, and docs/acl.md lists those that are needed.");

/*
 * Replies that deny access to this user.  The last ones are about a command in a script.
 */
static const char *const denial_codes[] = {
	"NOAUTH", "WRONGPASS", "NOPERM", "DENIED", "ERR invalid password",
	"ERR ACL failure", "ERR The user executing the script can't",
	"The user executing the script can't"
};

/* Replies that do not depend on the key; any other may be about a key. */
static const char *const general_codes[] = {
	"LOADING", "READONLY", "MASTERDOWN", "MISCONF", "NOREPLICAS",
	"CLUSTERDOWN", "BUSY", "UNKILLABLE", "NOSCRIPT", "NOAUTH", "WRONGPASS",
	"DENIED", "ERR invalid password", "ERR max number of clients"
};

/* Replies that only a node of a cluster gives. */
static const char *const cluster_codes[] = {
	"MOVED ", "ASK ", "TRYAGAIN", "CLUSTERDOWN", "CROSSSLOT",
	"ERR SELECT is not allowed in cluster mode"
};

StepResult
redis_failure_set(RedisFailure *f, StoreOutcome outcome, int sqlstate,
				  const char *hint, const char *format,...)
{
	va_list		args;

	f->outcome = outcome;
	f->error.sqlstate = sqlstate;
	f->error.hint = hint;
	va_start(args, format);
	vsnprintf(f->error.detail, sizeof(f->error.detail), format, args);
	va_end(args);
	return STEP_FAILED;
}

/*
 * error_inner_words --- find the text of an error inside a script
 *
 * Each version of Redis wraps it differently: it puts the position in the script before
 * it, once or twice, or the position and the digest behind it.  Returns the beginning of
 * the text, and its length in *len.
 */
static const char *
error_inner_words(const char *words, int *len)
{
	static const char place[] = "@user_script:";

	for (const char *p = words; (p = strstr(p, place)) != NULL;)
	{
		p += sizeof(place) - 1;
		p += strspn(p, " ");
		p += strspn(p, "0123456789");
		if (strncmp(p, ": ", 2) == 0 && p[2] != '\0')
			words = p + 2;
	}
	if (*words == '-')
		words++;

	*len = strcspn(words, "\r\n");
	if (strstr(words, ", on @user_script") != NULL)
	{
		for (const char *p = words; (p = strstr(p, " script: ")) != NULL; p++)
			*len = p - words;
	}
	return words;
}

/*
 * error_hide_user --- remove the user's name from an error, as in "User bob has no
 * permissions"
 */
static void
error_hide_user(char *words, const char *user)
{
	char	   *p = strstr(words, "User ");
	size_t		len = strlen(user);

	if (p == NULL || len == 0)
		return;
	p += strlen("User ");
	if (strncmp(p, user, len) == 0 && p[len] == ' ')
		memmove(p, p + len + 1, strlen(p + len + 1) + 1);
}

static bool
error_is_one_of(const char *words, const char *const *codes, int ncodes)
{
	for (int i = 0; i < ncodes; i++)
	{
		if (redis_words_begin(words, codes[i]))
			return true;
	}
	return false;
}

/*
 * redis_error_words --- see conn.h
 */
StoreOutcome
redis_error_words(const redisReply *value, const char *user, char *out,
				  size_t size)
{
	int			len;
	const char *words = error_inner_words(value->str, &len);
	char	   *p;

	strlcpy(out, words, Min(size, (size_t) len + 1));
	redis_words_clean(out);
	error_hide_user(out, user);

	/* Others may see this text, so it must not contain our keys. */
	p = strstr(out, ", with args beginning with");
	if (p != NULL)
		*p = '\0';

	/* These name another node; the address is not for everybody. */
	if (redis_words_begin(out, "MOVED ") || redis_words_begin(out, "ASK "))
	{
		char	   *slot = strchr(out, ' ') + 1;

		slot[strcspn(slot, " ")] = '\0';
	}

	return error_is_one_of(out, denial_codes, lengthof(denial_codes)) ?
		STORE_DENIED : STORE_REFUSED;
}

void
redis_words_clean(char *words)
{
	for (char *p = words; *p; p++)
	{
		if (*p < 0x20 || *p > 0x7e)
			*p = '?';
	}
}

bool
redis_words_begin(const char *words, const char *code)
{
	return strncmp(words, code, strlen(code)) == 0;
}

const char *
redis_words_hint(const char *words)
{
	if (error_is_one_of(words, cluster_codes, lengthof(cluster_codes)))
		return gettext_noop("It is a node of a Redis Cluster: write redis-cluster:// in lockredis.url.");
	return strncasecmp(words, "ERR unknown command", strlen("ERR unknown command")) == 0 ?
		gettext_noop("If it is a Sentinel, write redis-sentinel:// and the name of the service in lockredis.url.") : NULL;
}

bool
redis_words_concern_all(const char *words)
{
	return error_is_one_of(words, general_codes, lengthof(general_codes));
}
