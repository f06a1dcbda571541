/*-------------------------------------------------------------------------
 *
 * cluster_claims.c
 *	  Parses what a node of a Redis Cluster says about it; see cluster_batch.h.
 *
 * Nothing in here raises or allocates.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/cluster_claims.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "store/redis/cluster_batch.h"

/*
 * claim_flag --- is this word in a comma-separated list?
 */
static bool
claim_flag(const char *flags, int len, const char *word)
{
	int			n = strlen(word);

	for (const char *p = flags; p < flags + len;)
	{
		const char *comma = memchr(p, ',', flags + len - p);
		const char *end = comma != NULL ? comma : flags + len;

		if (end - p == n && memcmp(p, word, n) == 0)
			return true;
		p = end + 1;
	}
	return false;
}

/*
 * claim_take_address --- parse "host:port@bus,..."; false if that is not valid
 *
 * If the host is empty, it is the one that we asked.
 */
static bool
claim_take_address(RedisHost *at, const char *text, int len, const RedisUrl *asked)
{
	const char *at_sign = memchr(text, '@', len);
	const char *end = at_sign != NULL ? at_sign : text + len;
	const char *colon = end;
	int			host_len;

	while (colon > text && *colon != ':')
		colon--;
	host_len = colon - text;
	if (*colon != ':' || host_len >= LR_HOST_MAX)
		return false;
	memset(at, 0, sizeof(RedisHost));
	if (host_len == 0)
		strlcpy(at->host, asked->host, LR_HOST_MAX);
	else
		memcpy(at->host, text, host_len);
	if (strspn(at->host, LR_ASCII_ALNUM ".-_:") != strlen(at->host))
		return false;
	at->host_is_numeric = redis_host_is_numeric(at->host);
	at->port = atoi(colon + 1);
	return at->port > 0 && at->port <= 65535;
}

/*
 * claim_take_name --- parse the name in "address,name,...", sent since Redis 7.0
 *
 * What follows may have the form "key=value", and is no name then.
 */
static void
claim_take_name(char *name, const char *text, int len)
{
	const char *comma = memchr(text, ',', len);
	int			name_len;

	if (comma == NULL)
		return;
	name_len = strcspn(comma + 1, ", ");
	if (name_len < LR_HOST_MAX && memchr(comma + 1, '=', name_len) == NULL)
		memcpy(name, comma + 1, name_len);
}

/*
 * claim_take_line --- parse one line of CLUSTER NODES; false if it is not valid
 *
 * The fields: id address flags master ping pong number link slots...
 */
static bool
claim_take_line(Claim *c, const char *line, const char *end, const RedisUrl *asked,
				bool *counts)
{
	const char *word[8];
	int			len[8];
	const char *p = line;

	for (int i = 0; i < lengthof(word); i++)
	{
		const char *space = memchr(p, ' ', end - p);

		word[i] = p;
		len[i] = (space != NULL ? space : end) - p;
		if (len[i] == 0 || (space == NULL && i < lengthof(word) - 1))
			return false;
		p = space != NULL ? space + 1 : end;
	}
	if (len[0] != CLUSTER_ID_LEN)
		return false;
	memset(c, 0, sizeof(Claim));
	memcpy(c->id, word[0], CLUSTER_ID_LEN);
	c->is_itself = claim_flag(word[2], len[2], "myself");
	c->is_master = claim_flag(word[2], len[2], "master");
	c->is_replica = claim_flag(word[2], len[2], "slave");
	c->has_failed = claim_flag(word[2], len[2], "fail");
	claim_take_name(c->name, word[1], len[1]);
	c->number = strtoi64(word[6], NULL, 10);
	c->slots = p;
	c->row = CLUSTER_NO_NODE;
	*counts = !claim_flag(word[2], len[2], "handshake");
	if (claim_flag(word[2], len[2], "noaddr"))
		c->is_master = c->is_replica = false;
	else if (!claim_take_address(&c->at, word[1], len[1], asked))
		return false;
	return c->number >= 0;
}

bool
claim_next_range(const char **p, long *first, long *last)
{
	char	   *end;

	if (**p < '0' || **p > '9')
		return false;
	*first = strtol(*p, &end, 10);
	*last = *end == '-' ? strtol(end + 1, &end, 10) : *first;
	*p = end + strspn(end, " ");
	return true;
}

/*
 * claims_take_slots --- does a line claim valid slots that no line before it claims?
 *
 * This limits a reply to SLOT_COUNT slots, however long it is.
 */
static bool
claims_take_slots(ClusterClaims *a, const Claim *c)
{
	const char *p = c->slots;
	long		first;
	long		last;

	while (claim_next_range(&p, &first, &last))
	{
		if (first < 0 || last < first || last >= SLOT_COUNT)
			return false;
		for (long slot = first; slot <= last; slot++)
		{
			uint8	   *byte = &a->claimed[slot / BITS_PER_BYTE];
			uint8		bit = 1 << (slot % BITS_PER_BYTE);

			if (*byte & bit)
				return false;
			*byte |= bit;
		}
	}
	return true;
}

bool
cluster_claims_read(ClusterClaims *a, const RedisValue *v, const RedisUrl *asked)
{
	const char *line = v->str;

	a->n = 0;
	memset(a->claimed, 0, sizeof(a->claimed));
	if (v->type != REDIS_REPLY_STRING || v->len == 0 || v->str[v->len - 1] != '\n')
		return false;
	while (*line != '\0')
	{
		const char *end = line + strcspn(line, "\r\n");
		bool		counts;

		if (end > line)
		{
			Claim	   *c = &a->claim[a->n];

			if (a->n == CLUSTER_NODES_MAX ||
				!claim_take_line(c, line, end, asked, &counts) || !claims_take_slots(a, c))
				return false;
			if (counts)
				a->n++;
		}
		line = end + strspn(end, "\r\n");
	}
	return a->n > 0;
}

/*
 * cluster_claims_find --- the claim with this id, or NULL
 */
const Claim *
cluster_claims_find(const ClusterClaims *a, const char *id)
{
	for (int i = 0; i < a->n; i++)
		if (strcmp(a->claim[i].id, id) == 0)
			return &a->claim[i];
	return NULL;
}
