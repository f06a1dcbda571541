/*-------------------------------------------------------------------------
 *
 * timeouts.c
 *	  Time-outs of a process: their handlers interrupt it at any step.
 *
 * Beside these is statement_timeout, which is in errors.c.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/backend/timeouts.c
 *
 *-------------------------------------------------------------------------
 */
#include "backend.h"

#include "utils/timeout.h"

#define MAX_OWN		4

typedef struct OwnTimeout
{
	timeout_handler_proc handler;
	bool		active;
	int64		ends_at;
} OwnTimeout;

static OwnTimeout own[MAX_OWN];
static int	nown = 0;

static OwnTimeout *
own_timeout(TimeoutId id)
{
	Assert(id >= USER_TIMEOUT && id < USER_TIMEOUT + nown);
	return &own[id - USER_TIMEOUT];
}

TimeoutId
RegisterTimeout(TimeoutId id, timeout_handler_proc handler)
{
	if (id != USER_TIMEOUT || nown == MAX_OWN)
		sim_fail("simulator", "too many time-outs");
	own[nown].handler = handler;
	own[nown].active = false;
	return USER_TIMEOUT + nown++;
}

void
enable_timeout_after(TimeoutId id, int delay_ms)
{
	OwnTimeout *t = own_timeout(id);

	Assert(delay_ms > 0);
	t->active = true;
	t->ends_at = sim_now() + delay_ms * SIM_MS;
	backend_ring_at(t->ends_at);
}

bool
get_timeout_active(TimeoutId id)
{
	return own_timeout(id)->active;
}

/*
 * backend_timeouts_ring --- those whose time is over; in the signal handler
 */
void
backend_timeouts_ring(void)
{
	for (int i = 0; i < nown; i++)
	{
		if (!own[i].active || sim_now() < own[i].ends_at)
			continue;
		own[i].active = false;
		own[i].handler();
	}
}

/* As PostgreSQL does when an error has come up to the top. */
void
disable_all_timeouts(bool keep_indicators)
{
	for (int i = 0; i < nown; i++)
		own[i].active = false;
}
