/*-------------------------------------------------------------------------
 *
 * backend.c
 *	  What the targets need of PostgreSQL, and of files that are not linked.
 *
 * One process, so a lock is nothing, and shared memory is its own.  What is not here is not
 * called: it is left undefined when linking, and would crash.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/fuzz/guided/backend.c
 *
 *-------------------------------------------------------------------------
 */
#include "fuzz.h"

#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "names.h"
#include "settings.h"
#include "store/nodes.h"
#include "store/redis/conn.h"

int			MyProcPid = 1;
char	   *cluster_name = "a cluster";
MemoryContext TopMemoryContext = NULL;

int			lr_command_timeout = 5000;
int			lr_lease = 30000;
char	   *lr_key_prefix = "";
char	   *lr_password_file = NULL;
uint32		lr_place = 1;

static RedisUrl url;
const RedisUrl *lr_redis_url = &url;

bool
pg_strong_random(void *buf, size_t len)
{
	memset(buf, 0, len);
	return true;
}

/* Its structures are made once, and emptied for each case. */
static struct
{
	const char *name;
	void	   *memory;
	Size		size;
}			structures[8];

void *
ShmemInitStruct(const char *name, Size size, bool *found)
{
	for (int i = 0; i < lengthof(structures); i++)
	{
		if (structures[i].memory == NULL)
		{
			structures[i].name = name;
			structures[i].memory = malloc(size);
			structures[i].size = size;
		}
		if (strcmp(structures[i].name, name) == 0)
		{
			*found = false;
			return structures[i].memory;
		}
	}
	abort();
}

LWLockPadded *
GetNamedLWLockTranche(const char *name)
{
	static LWLockPadded locks[1];

	return locks;
}

bool
LWLockAcquire(LWLock *lock, LWLockMode mode)
{
	return true;
}

void
LWLockRelease(LWLock *lock)
{
}

TimestampTz
GetCurrentTimestamp(void)
{
	return 1;
}

bool
lr_has_store(StoreId id)
{
	return true;
}

void
fuzz_reset_shared(void)
{
	instance_shmem_init();
	node_shmem_init();
	node_start(0, false, false, 0);
	node_start(lr_place, false, false, 0);
}

void
fuzz_reset_cluster(void)
{
	node_start(0, false, false, 0);
	node_start(lr_place, true, true, 0);
}

/* ----------
 * Reports go nowhere; none of what is linked raises an error.
 * ----------
 */

bool
errstart(int elevel, const char *domain)
{
	if (elevel >= ERROR)
		abort();
	return false;
}

bool
errstart_cold(int elevel, const char *domain)
{
	return errstart(elevel, domain);
}

/* ----------
 * A connection that is never made
 * ----------
 */

void
redis_conn_close(RedisConn *c)
{
	c->state = CONN_CLOSED;
}

void
redis_conn_fail(RedisConn *c, int sqlstate, const char *format,...)
{
	redis_failure_set(&c->failure, STORE_DOWN, sqlstate, NULL, "%s", format);
	c->state = CONN_CLOSED;
}

void
redis_conn_refused(RedisConn *c)
{
	char		words[REDIS_WORDS_MAX];

	(void) redis_error_words(c->in.reply, c->target->url.user, words, sizeof(words));
	redis_failure_set(&c->failure, STORE_DOWN, ERRCODE_STORE_FAILED, NULL,
					  "The node answered: %s", words);
	c->state = CONN_CLOSED;
}

void
redis_target_is_no_master(const RedisTarget *t)
{
}

void
redis_target_want_addresses(const RedisTarget *t, bool anyway)
{
}

int
pg_ulltoa_n(uint64 value, char *a)
{
	return sprintf(a, UINT64_FORMAT, value);
}

int
pg_lltoa(int64 value, char *a)
{
	return sprintf(a, INT64_FORMAT, value);
}
