/*-------------------------------------------------------------------------
 *
 * handshake.c
 *	  Target "handshake": what a node says of itself.
 *
 * The answers to HELLO, AUTH, SELECT, TIME and INFO, of each kind of target.  No password is
 * shown, what is kept can be shown, and nobody has been running since the future.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/fuzz/guided/handshake.c
 *
 *-------------------------------------------------------------------------
 */
#include "fuzz.h"

#include "settings.h"
#include "store/redis/handshake.c"

#define SECRET "Tr0ub4dor"

static RedisConn conn;

static void
check_facts(const RedisFacts *facts)
{
	fuzz_must_be_shown(facts->shown.version, sizeof(facts->shown.version), "the version");
	fuzz_must_be_shown(facts->shown.maxmemory_policy,
					   sizeof(facts->shown.maxmemory_policy), "the policy");
	fuzz_must_be_shown(facts->run_id, sizeof(facts->run_id), "the run id");
	fuzz_must(facts->booted_by <= lr_now() + LR_US_PER_S, "it runs since the future");
}

static void
check_nodes(void)
{
	for (int i = 0; i < NODE_MAX; i++)
	{
		NodeStatus	status;

		if (!node_get_status(i, &status))
			continue;
		fuzz_must_be_shown(status.address, sizeof(status.address), "the address of a node");
		fuzz_must_be_shown(status.facts.version, sizeof(status.facts.version),
						   "the version of a node");
	}
}

void
fuzz_handshake(const uint8 *data, size_t size)
{
	FuzzInput	in = {data, size};
	uint8		kind = fuzz_byte(&in);
	uint8		how = fuzz_byte(&in);
	RedisHandshake *hs = &conn.handshake;
	const RedisFailure *failure = &conn.failure;
	RedisTarget target;
	StepResult	result = STEP_UNDER_WAY;
	uint32		life;
	int64		since;

	fuzz_reset_shared();
	memset(&target, 0, sizeof(target));
	target.kind = kind % (TARGET_SENTINEL + 1);
	target.node = target.kind == TARGET_SENTINEL ? NODE_SENTINEL :
		target.kind == TARGET_SHARD || target.kind == TARGET_VOTER ? NODE_MASTER :
		how & 1 ? NODE_NONE : NODE_REDIS;
	target.place = lr_place;
	if (how & 2)
	{
		strcpy(target.url.user, "bob");
		strcpy(target.url.password, SECRET);
	}
	target.url.db = how & 4 ? 3 : 0;
	if (target.kind == TARGET_VOTER)
	{
		node_start(0, false, false, 0);
		node_start(lr_place, false, false, 3);
		if (how & 8)
			(void) masters_note(1, lr_place, "0123456789012345678901234567890123456789", 1,
								&life, &since);
	}
	if (conn.out.data == NULL)
		(void) resp_out_make(&conn.out);
	conn.target = &target;
	conn.probe = (how & 16) != 0;
	if (!redis_handshake_start(&conn))
		fuzz_must(false, "there are no requests");
	resp_out_wipe(&conn.out);

	while (result == STEP_UNDER_WAY && (conn.in.reply = fuzz_value(&in)) != NULL)
	{
		bool		secret = hs->secret[0] != '\0';

		result = redis_handshake_take(&conn);
		fuzz_must(hs->next <= hs->ngreetings, "more answers than requests");
		check_facts(&hs->facts);
		if (result != STEP_FAILED)
			continue;
		fuzz_must_be_shown(failure->error.detail, sizeof(failure->error.detail), "the detail");
		fuzz_must(failure->error.detail[0] != '\0', "no detail");
		if (secret)
			fuzz_must(strstr(failure->error.detail, SECRET) == NULL,
					  "the detail shows the password");
	}
	check_nodes();
}
