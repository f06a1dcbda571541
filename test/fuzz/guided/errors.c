/*-------------------------------------------------------------------------
 *
 * errors.c
 *	  Target "errors": error replies, and where a node of a cluster sends a request.
 *
 * Their words, fit to be shown and without the user's name in front; the node in MOVED and
 * ASK is one that is known.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/fuzz/guided/errors.c
 *
 *-------------------------------------------------------------------------
 */
#include "fuzz.h"

#include "settings.h"
#include "store/redis/flight.c"

static void
put_nodes(void)
{
	static const char *const hosts[] = {"10.0.0.1", "::1", "node-c"};
	static const char *const names[] = {"", "b.example", "c.example"};

	fuzz_reset_cluster();
	for (int i = 0; i < lengthof(hosts); i++)
	{
		RedisHost	at = {.port = 7000 + i};
		char		id[CLUSTER_ID_LEN + 1];

		memset(id, 'a' + i, CLUSTER_ID_LEN);
		id[CLUSTER_ID_LEN] = '\0';
		strcpy(at.host, hosts[i]);
		(void) cluster_put_node(id, &at, names[i], true);
	}
}

void
fuzz_errors(const uint8 *data, size_t size)
{
	static NodeBatch batch;
	FuzzInput	in = {data, size};
	uint8		how = fuzz_byte(&in);
	char		words[REDIS_WORDS_MAX];
	const redisReply *v;

	if (batch.target.kind != TARGET_SHARD)
	{
		fuzz_reset_shared();
		put_nodes();
	}
	batch.target.kind = TARGET_SHARD;
	batch.target.place = lr_place;
	strcpy(batch.target.url.at.host, "10.0.0.1");
	while ((v = fuzz_value(&in)) != NULL)
	{
		const char *text = v->str;
		StoreOutcome outcome;

		if (text == NULL)
			continue;
		outcome = redis_error_words(v, how & 1 ? "bob" : "", words,
									how & 2 ? 16 : sizeof(words));
		fuzz_must(outcome == STORE_DENIED || outcome == STORE_REFUSED, "the outcome");
		fuzz_must_be_shown(words, how & 2 ? 16 : sizeof(words), "the words");
		(void) redis_words_concern_all(words);
		if (redis_words_begin(words, "MOVED ") || redis_words_begin(words, "ASK "))
			fuzz_must(strrchr(words, ' ') == strchr(words, ' '), "an address is shown");
		if (redis_words_begin(text, "MOVED ") || redis_words_begin(text, "ASK "))
		{
			int			row = refusal_other_node(&batch, text);

			fuzz_must(row >= CLUSTER_NO_NODE && row < 3, "a node that is not there");
		}
	}
}
