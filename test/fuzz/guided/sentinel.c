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
	RedisConn  *c = &s.ask.conn;
	FuzzInput	in = {data, size};
	const RedisHost *at = &s.answer.master;

	fuzz_reset_shared();
	resp_out_free(&c->out);
	memset(&s, 0, sizeof(RedisSentinel));
	if (!resp_out_make(&c->out))
		return;
	s.ask.owner = s.ear.owner = &s;
	c->target = &s.ask.target;
	s.ask.target.node = NODE_SENTINEL;
	strcpy(s.ask.target.url.service, "mymaster");
	strcpy(s.ask.target.url.user, "bob");
	s.ear.target = s.ask.target;
	c->state = s.ear.conn.state = CONN_READY;
	sentinel_put_question(&s);

	/* Each answer is read where it lies, and as a message. */
	while ((c->in.reply = fuzz_value(&in)) != NULL)
	{
		s.ear.conn.in.reply = c->in.reply;
		ear_take(&s.ear);
		sentinel_take(&s.ask);
		if (c->state == CONN_CLOSED)
		{
			fuzz_must_be_shown(c->failure.error.detail, sizeof(c->failure.error.detail), "the detail");
			return;
		}
		if (s.nawaited > 0)
			continue;
		fuzz_must(!s.answer.known || s.answer.config_epoch >= 0, "the number");
		fuzz_must(memchr(at->host, '\0', sizeof(at->host)) != NULL, "the host");
		if (at->host[0] != '\0')
			fuzz_must(at->port >= 1 && at->port <= 65535, "the port");
		sentinel_put_question(&s);
		resp_out_wipe(&c->out);
	}
}
