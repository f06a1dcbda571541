/*-------------------------------------------------------------------------
 *
 * resp.c
 *	  Target "resp": bytes of a connection.
 *
 * They are the same replies in whatever pieces they come: all at once, or cut anywhere.  What
 * ends with bytes that are no reply may end a reply earlier in one of them.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/fuzz/guided/resp.c
 *
 *-------------------------------------------------------------------------
 */
#include "fuzz.h"

#define REPLIES_MAX 4096

typedef struct Heard
{
	int			n;
	bool		garbled;
	uint64		digest[REPLIES_MAX];
} Heard;

static RespIn in;
static Heard whole;
static Heard pieces;

static uint64
mix(uint64 digest, const void *data, size_t len)
{
	for (size_t i = 0; i < len; i++)
		digest = (digest ^ ((const uint8 *) data)[i]) * UINT64CONST(1099511628211);
	return digest;
}

static uint64
digest_reply(uint64 digest, const redisReply *v)
{
	fuzz_must(v->elements <= RESP_MAX_ELEMENTS, "so many elements");
	digest = mix(digest, &v->type, sizeof(v->type));
	digest = mix(digest, &v->integer, sizeof(v->integer));
	digest = mix(digest, &v->elements, sizeof(v->elements));
	if (v->type == REDIS_REPLY_STRING || v->type == REDIS_REPLY_STATUS ||
		v->type == REDIS_REPLY_ERROR)
	{
		fuzz_must(v->str != NULL && v->str[v->len] == '\0', "a text is not terminated");
		digest = mix(digest, v->str, v->len);
	}
	for (size_t i = 0; i < v->elements; i++)
		digest = digest_reply(digest, v->element[i]);
	return digest;
}

/* As conn.c does: all replies are taken behind each piece */
static void
feed(Heard *h, const uint8 *data, size_t len)
{
	char	   *copy = malloc(len);

	memcpy(copy, data, len);
	if (!resp_in_feed(&in, copy, len))
		h->garbled = true;
	free(copy);
	while (!h->garbled)
	{
		RespResult	result = resp_in_parse(&in);
		int64		us;

		if (result == RESP_NONE)
			break;
		h->garbled = result != RESP_REPLY;
		if (h->garbled || h->n == REPLIES_MAX)
			break;
		(void) resp_value_time(in.reply, &us);
		h->digest[h->n++] = digest_reply(UINT64CONST(14695981039346656037), in.reply);
	}
}

static void
begin(Heard *h)
{
	h->n = 0;
	h->garbled = !resp_in_open(&in);
}

void
fuzz_resp(const uint8 *data, size_t size)
{
	FuzzInput	input = {data, size};
	uint32		pace = fuzz_byte(&input) >> 1;

	begin(&whole);
	if (input.size > 0)
		feed(&whole, input.data, input.size);
	resp_in_close(&in);

	begin(&pieces);
	while (input.size > 0 && !pieces.garbled)
	{
		size_t		n = 1 + pace % 7 * (pace / 7);

		n = Min(n, input.size);
		feed(&pieces, input.data, n);
		input.data += n;
		input.size -= n;
		pace = (pace * 5 + 3) % 128;
	}
	resp_in_close(&in);

	for (int i = 0; i < Min(whole.n, pieces.n); i++)
		fuzz_must(whole.digest[i] == pieces.digest[i], "a reply is another one in pieces");
	fuzz_must(whole.n == pieces.n || whole.garbled || pieces.garbled,
			  "there are fewer replies in pieces, or more");
}
