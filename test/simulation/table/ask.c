/*-------------------------------------------------------------------------
 *
 * ask.c
 *	  Requests to the table worker, written as text, and its answers.
 *
 * The same file is part of the simulated server and of the real one that test
 * 353_simulated_table compares it with.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/table/ask.c
 *
 *-------------------------------------------------------------------------
 */
#include "ask.h"

#include "common/sha2.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "kinds/kind.h"
#include "names.h"
#include "stats.h"
#include "store/table/table_int.h"

/* How often a session looks at its request, should nothing wake it. */
#define LOOK_MS		1000

static const char *const verbs[] = {
	[STORE_CREATE] = "create",
	[STORE_SET] = "set",
	[STORE_RELEASE] = "release",
	[STORE_RENEW] = "renew",
	[STORE_MINT] = "mint",
	[STORE_FORCE] = "force",
	[STORE_INSPECT] = "inspect",
	[STORE_DEFINE] = "define",
	[STORE_VALUE] = "value",
	[STORE_NOTIFY] = "notify",
	[STORE_TALLY] = "tally",
	[STORE_PROBE] = "probe"
};

static const char *const changes[] = {
	[CHANGE_SET] = "set",
	[CHANGE_INIT] = "init",
	[CHANGE_ADD] = "add",
	[CHANGE_DRAIN] = "drain",
	[CHANGE_DELETE] = "delete"
};

static const char *const outcomes[] = {
	[STORE_PENDING] = "pending",
	[STORE_OK] = "ok",
	[STORE_BUSY] = "busy",
	[STORE_GONE] = "gone",
	[STORE_LATE] = "late",
	[STORE_WRONG_TYPE] = "wrong type",
	[STORE_MISSING] = "missing",
	[STORE_REFUSED] = "refused",
	[STORE_DENIED] = "denied",
	[STORE_BLOCKED] = "blocked",
	[STORE_UNCONFIRMED] = "unconfirmed",
	[STORE_DOWN] = "down",
	[STORE_UNKNOWN] = "unknown"
};

/* The owner, or the digest of the owners, that was inspected last. */
static char inspected[LR_OWNER_MAX];

/* ----------
 * From text
 * ----------
 */

static int
index_of(const char *word, const char *const *words, int n)
{
	for (int i = 0; i < n; i++)
		if (words[i] != NULL && strcmp(word, words[i]) == 0)
			return i;
	elog(ERROR, "what is \"%s\"?", word);
}

static KindId
kind_of(const char *word)
{
	int			kind = 0;

	while (kind < KIND_COUNT && strcmp(word, lr_kind(kind)->name) != 0)
		kind++;
	if (kind == KIND_COUNT)
		elog(ERROR, "what kind is \"%s\"?", word);
	return kind;
}

/* As if this were the SHA-256 of a token: its first bytes are the id. */
static void
set_token(StoreOp *op)
{
	static char digits[2 * 32 + 1];

	memset(digits, 'a', sizeof(digits) - 1);
	(void) hex_encode((const char *) op->id, STORE_ID_LEN, digits);
	op->text = digits;
	op->text_len = sizeof(digits) - 1;
}

static void
set_argument(StoreOp *op, char *word)
{
	char	   *value = strchr(word, '=');
	int64		n;

	if (value != NULL)
		*value++ = '\0';
	else
		value = word + strlen(word);
	n = strtoll(value, NULL, 10);
	if (strcmp(word, "owner") == 0)
		op->owner = n;
	else if (strcmp(word, "lease") == 0)
		op->lease_ms = n * ASK_UNIT_MS;
	else if (strcmp(word, "keep") == 0)
		op->keep_ms = n * ASK_UNIT_MS;
	else if (strcmp(word, "wait") == 0)
		op->args.wait_ms = n * ASK_UNIT_MS;
	else if (strcmp(word, "id") == 0)
	{
		memset(op->id, (int) n, sizeof(op->id));
		set_token(op);
	}
	else if (strcmp(word, "fenced") == 0)
		op->args.fenced = true;
	else if (strcmp(word, "floor") == 0)
		op->args.floor = n;
	else if (strcmp(word, "beside") == 0)
		op->args.beside = n;
	else if (strcmp(word, "gives") == 0)
		op->args.gives_back = n;
	else if (strcmp(word, "acted") == 0)
		op->args.acted = true;
	else if (strcmp(word, "amount") == 0)
		op->amount = n;
	else if (strcmp(word, "change") == 0)
		op->args.change = index_of(value, changes, lengthof(changes));
	else if (strcmp(word, "whoever") == 0)
	{
		op->text = inspected;
		op->text_len = strlen(inspected);
	}
	else
		elog(ERROR, "what is \"%s\"?", word);
}

static void
read_op(char *text, StoreOp *op)
{
	char	   *rest;
	char	   *word = strtok_r(text, " ", &rest);

	memset(op, 0, sizeof(StoreOp));
	op->kind = index_of(word, verbs, lengthof(verbs));
	op->lock_kind = kind_of(strtok_r(NULL, " ", &rest));
	op->name = strtok_r(NULL, " ", &rest);
	op->name_len = strlen(op->name);
	if (op->kind == STORE_FORCE)
		op->text = "nobody", op->text_len = strlen("nobody");
	while ((word = strtok_r(NULL, " ", &rest)) != NULL)
		set_argument(op, word);
}

/* ----------
 * To text
 * ----------
 */

static void
tell_number(StringInfo out, const char *name, int64 value)
{
	if (value != 0)
		appendStringInfo(out, " %s=%lld", name, (long long) value);
}

/* A digest has the instance in it: two servers differ in it. */
static void
tell(StringInfo out, const StoreOp *op, StoreOutcome outcome)
{
	appendStringInfo(out, "%s", outcomes[outcome]);
	tell_number(out, "ttl", op->answer.ttl_ms);
	tell_number(out, "fence", op->answer.fence);
	tell_number(out, "count", op->answer.count);
	tell_number(out, "what", op->answer.value);
	tell_number(out, "changed", op->answer.changed);
	tell_number(out, "available", op->answer.available);
	tell_number(out, "total", op->answer.total);
	if (op->answer.digest[0] != '\0')
		appendStringInfo(out, " digest");
	if (op->answer.holder[0] != '\0')
		appendStringInfo(out, " holder=%s", op->answer.holder);
	appendStringInfo(out, ";");
}

/* ----------
 * A request
 * ----------
 */

static void
wait_for_worker(TableRequest *request)
{
	while (request_state(request) != REQUEST_DONE)
	{
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, LOOK_MS,
						 LR_WAIT_TABLE);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

char *
ask(char *text)
{
	TableRequest *request = request_open(false);
	StoreOp		ops[REQUEST_ROOM];
	StringInfoData out;
	char	   *rest;
	int			n = 0;

	for (char *one = strtok_r(text, ";", &rest); one != NULL; one = strtok_r(NULL, ";", &rest))
	{
		if (n == REQUEST_ROOM)
			elog(ERROR, "too many operations");
		read_op(one, &ops[n]);
		request_put_op(request, n, &ops[n]);
		n++;
	}
	request->nops = n;
	request_submit(request);
	wait_for_worker(request);

	initStringInfo(&out);
	for (int i = 0; i < n; i++)
	{
		tell(&out, &ops[i], request_get_answer(request, i, &ops[i]));
		if (ops[i].kind == STORE_INSPECT)
			strlcpy(inspected, store_owners(&ops[i].answer), sizeof(inspected));
	}
	if (request->trouble.sqlstate != 0)
		appendStringInfo(&out, " fault %d", request->trouble.sqlstate);
	request_free(request);
	return out.data;
}

/*
 * The worker sweeps between two rounds of requests: when it answers the second one it has.
 */
void
ask_to_sweep(void)
{
	for (int i = 0; i < 2; i++)
	{
		char		probe[] = "probe reentrant -";

		(void) ask(probe);
	}
}

/* As in table_counts.c. */
static void
tell_digest(StringInfo out, const uint8 *id)
{
	bytea	   *bytes = palloc(VARHDRSZ + LR_SECRET_ID_LEN);
	bytea	   *digest;
	char		digits[2 * PG_SHA256_DIGEST_LENGTH + 1] = "";

	SET_VARSIZE(bytes, VARHDRSZ + LR_SECRET_ID_LEN);
	memcpy(VARDATA(bytes), id, LR_SECRET_ID_LEN);
	digest = DatumGetByteaPP(DirectFunctionCall1(sha256_bytea, PointerGetDatum(bytes)));
	(void) hex_encode(VARDATA_ANY(digest), VARSIZE_ANY_EXHDR(digest), digits);
	appendStringInfo(out, " %s", digits);
}

char *
ask_who(uint64 first_owner)
{
	uint8		id[LR_SECRET_ID_LEN];
	StringInfoData out;

	initStringInfo(&out);
	appendStringInfo(&out, "%lld %s", (long long) GetCurrentTimestamp(), lr_instance_uuid());
	for (int i = 0; i < ASK_DIGESTS; i++)
	{
		lr_secret_id(first_owner + i, id);
		tell_digest(&out, id);
	}
	for (int i = 0; i < ASK_DIGESTS; i++)
	{
		memset(id, i, sizeof(id));
		tell_digest(&out, id);
	}
	return out.data;
}
