/*-------------------------------------------------------------------------
 *
 * rivals.c
 *	  Do two servers have the same key although Redis is there?
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/rivals.c
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <string.h>

#include "config.h"
#include "history.h"
#include "network.h"
#include "rivals.h"

#define LOCKS_MAX	64

/* A server that uses Redis again has moved each lock after so much quiet. */
#define MOVED_WITHIN	SIM_S

typedef struct Lock
{
	char		key[HISTORY_KEY];
	int			kind;
	uint32_t	excludes;
	int64_t		until;
} Lock;

static struct
{
	int64_t		back_since;		/* 0: it uses its table, or is down */
	int			n;
	Lock		lock[LOCKS_MAX];
}			had[SIM_MAX_SERVERS];

void
rivals_reset(void)
{
	memset(had, 0, sizeof(had));
}

void
rivals_begin(bool uses_redis)
{
	had[sim_server()].n = 0;
	if (!uses_redis)
		had[sim_server()].back_since = 0;
	else if (had[sim_server()].back_since == 0)
		had[sim_server()].back_since = sim_now();
}

static bool
has_moved(int server)
{
	return had[server].back_since != 0 &&
		sim_now() - had[server].back_since > MOVED_WITHIN &&
		sim_now() - sim_quiet_since() > MOVED_WITHIN && net_is_well();
}

static bool
exclude(const Lock *one, const Lock *other)
{
	return strcmp(one->key, other->key) == 0 &&
		((one->excludes >> other->kind & 1) != 0 || (other->excludes >> one->kind & 1) != 0);
}

static void
compare(const Lock *own, int server)
{
	for (int i = 0; i < had[server].n; i++)
	{
		const Lock *other = &had[server].lock[i];

		if (other->until <= sim_now() || !exclude(own, other))
			continue;
		sim_reached("two servers have a key");
		if (has_moved(sim_server()) && has_moved(server))
			sim_fail("two holders", "%s: servers %d (%.3f ms) and %d (%.3f ms), and both use Redis",
					 own->key, sim_server(), (own->until - sim_now()) / 1000.0, server,
					 (other->until - sim_now()) / 1000.0);
	}
}

void
rivals_note(const char *key, int kind, uint32_t excludes, int64_t until)
{
	Lock	   *own = &had[sim_server()].lock[had[sim_server()].n++];

	if (had[sim_server()].n > LOCKS_MAX)
		sim_fail("simulator", "too many locks");
	snprintf(own->key, sizeof(own->key), "%s", key);
	own->kind = kind;
	own->excludes = excludes;
	own->until = until;
	for (int s = 0; s < sim_config.nservers; s++)
		if (s != sim_server())
			compare(own, s);
}
