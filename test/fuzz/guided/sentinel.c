/*-------------------------------------------------------------------------
 *
 * sentinel.c
 *	  Target "sentinel": what a Sentinel says.
 *
 * Answers to its two questions by turns, and messages.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/fuzz/guided/sentinel.c
 *
 *-------------------------------------------------------------------------
 */
#include "fuzz.h"

#include "store/redis/sentinel.c"

void
fuzz_sentinel(const uint8 *data, size_t size)
{
	static RedisSentinel s;
	FuzzInput	in = {data, size};
	const RedisHost *at = &s.answer.master;

	fuzz_reset_shared();
	resp_out_free(&s.ask.out);
	memset(&s, 0, offsetof(RedisSentinel, ear));
	if (!resp_out_make(&s.ask.out))
		return;
	s.ask.target = &s.target;
	s.target.node = NODE_SENTINEL;
	strcpy(s.target.url.service, "mymaster");
	strcpy(s.target.url.user, "bob");
	s.ask.state = s.ear.state = CONN_READY;
	sentinel_put_question(&s);

	/* Each answer is read where it lies, and as a message. */
	while (fuzz_value(&in, s.ask.in.values))
	{
		memcpy(s.ear.in.values, s.ask.in.values, sizeof(s.ask.in.values));
		(void) ear_hears(&s);
		if (!sentinel_take_reply(&s))
		{
			fuzz_must(s.ask.state == CONN_CLOSED, "it goes on over a closed connection");
			fuzz_must_be_shown(s.ask.failure.error.detail,
							   sizeof(s.ask.failure.error.detail), "the detail");
			return;
		}
		if (s.nawaited > 0)
			continue;
		fuzz_must(!s.answer.known || s.answer.config_epoch >= 0, "the number");
		fuzz_must(memchr(at->host, '\0', sizeof(at->host)) != NULL, "the host");
		if (at->host[0] != '\0')
			fuzz_must(at->port >= 1 && at->port <= 65535, "the port");
		sentinel_put_question(&s);
		resp_out_wipe(&s.ask.out);
	}
}
