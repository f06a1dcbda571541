/*-------------------------------------------------------------------------
 *
 * tokens.c
 *	  Statements about token locks, in mode token.
 *
 * On keys of their own.  Of each token it is noted what became of the call that asked for
 * it (kernel/redis_locks.c), so what may be there and what may be taken away is known.
 * No token is used for two calls.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/workload/tokens.c
 *
 *-------------------------------------------------------------------------
 */
#include "statements.h"

#include "utils/builtins.h"

#include "../../../src/names.h"
#include "../../../src/session/session.h"
#include "../../../src/settings.h"
#include "../kernel/redis_nodes.h"

#define TOKEN_KEYS	2
#define TOKEN_SIZE	40

/* What this session has. */
static char had[TOKEN_KEYS][TOKEN_SIZE];
static int	serial;

static int
draw_token_key(LrName *name)
{
	char		key[8];
	int			k = sim_draw(TOKEN_KEYS);

	snprintf(key, sizeof(key), "t%d", k);
	set_name(name, key);
	sim_trace("  %s", key);
	return k;
}

static void
note_token(const LrName *name, const char *token, const LockToken *made,
		   RedisTokenState state)
{
	char		digest[2 * STORE_ID_LEN + 1];

	(void) hex_encode((const char *) made->id, STORE_ID_LEN, digest);
	digest[2 * STORE_ID_LEN] = '\0';
	redis_note_token(name->data, token, digest, lr_instance_uuid(), state);
}

static void
token_lock(void)
{
	LrName		name;
	LockToken	made;
	AcquireRequest request;
	char		token[TOKEN_SIZE];
	int			k = draw_token_key(&name);
	bool		taken;

	if (lr_mode != MODE_REDIS)
		return;					/* the server was started so */
	snprintf(token, sizeof(token), "T%d-%d", MyProcPid, serial++);
	token_make(token, strlen(token), &made);
	memset(&request, 0, sizeof(AcquireRequest));
	request.terms.kind = KIND_TOKEN;
	request.terms.lease_ms = within_max_lease(SIM_PICK(2000, 600000, 600000, 50));
	request.wait_us = SIM_PICK(0, 2 * SIM_S, 100 * SIM_MS, 30 * SIM_S);
	sim_trace("  token %s, wait %lld us", token, (long long) request.wait_us);
	note_token(&name, token, &made, REDIS_TOKEN_ASKED);
	taken = session_token_lock(&name, &request, &made);
	sim_trace("-> %s", taken ? "taken" : "busy");
	sim_reached(taken ? "token taken" : "token busy");
	if (!taken)
		return;
	note_token(&name, token, &made, REDIS_TOKEN_HAD);
	strcpy(had[k], token);
}

static void
token_unlock(void)
{
	LrName		name;
	LockToken	made;
	int			k = draw_token_key(&name);
	char		token[TOKEN_SIZE];

	if (had[k][0] == '\0' || lr_mode != MODE_REDIS)
		return;
	strcpy(token, had[k]);
	had[k][0] = '\0';
	token_make(token, strlen(token), &made);
	note_token(&name, token, &made, REDIS_TOKEN_LOOSE);
	sim_trace("-> %s", session_release_id(&name, KIND_TOKEN, made.id) ? "true" : "false");
	sim_reached("token unlocked");
}

static void
token_extend(void)
{
	LrName		name;
	LockToken	made;
	int			k = draw_token_key(&name);

	if (had[k][0] == '\0' || lr_mode != MODE_REDIS)
		return;
	token_make(had[k], strlen(had[k]), &made);
	if (sim_draw(2))
		sim_trace("-> %s", session_extend_id(&name, KIND_TOKEN, made.id, 0) ? "held" : "not held");
	else
		sim_trace("-> %s", session_extend_id(&name, KIND_TOKEN, made.id, SIM_PICK(2000, 600000)) ?
				  "extended" : "gone");
}

const Statement token_statements[] = {
	{"redis_token_lock", 24, ANYWHERE, token_lock},
	{"redis_token_unlock", 24, ANYWHERE, token_unlock},
	{"redis_token_extend", 6, ANYWHERE, token_extend},
	{NULL}
};
