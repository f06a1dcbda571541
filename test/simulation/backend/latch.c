/*-------------------------------------------------------------------------
 *
 * latch.c
 *	  Latches and wait event sets.
 *
 * A socket is the number of a connection of the simulated network; sockets.c.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/backend/latch.c
 *
 *-------------------------------------------------------------------------
 */
#include "backend.h"

#include "../kernel/network.h"

#define MAX_WAIT_EVENTS		80

struct WaitEventSet
{
	int			n;
	WaitEvent	event[MAX_WAIT_EVENTS];
};

void
SetLatch(Latch *latch)
{
	backend_must_hold_no_lock("SetLatch");
	sim_yield("set latch");
	backend_drain();
	latch->is_set = true;
	if (latch->owner_pid != 0)
		sim_wake(latch->owner_pid);
}

void
ResetLatch(Latch *latch)
{
	latch->is_set = false;
	net_looks();
	backend_drain();
	sim_yield("reset latch");
}

static int64
end_of(long timeout_ms)
{
	return timeout_ms < 0 ? SIM_NEVER : sim_now() + timeout_ms * SIM_MS;
}

int
WaitLatch(Latch *latch, int events, long timeout, uint32 wait_event_info)
{
	int64		until = events & WL_TIMEOUT ? end_of(timeout) : SIM_NEVER;

	backend_must_hold_no_lock("WaitLatch");
	sim_yield("wait");
	backend_drain();
	for (;;)
	{
		if (latch->is_set)
			return WL_LATCH_SET;
		if (sim_now() >= until)
			return WL_TIMEOUT;
		sim_block(until, true, "latch");
	}
}

WaitEventSet *
CreateWaitEventSet(SimWaitEventOwner owner, int nevents)
{
	WaitEventSet *set = MemoryContextAllocZero(TopMemoryContext, sizeof(WaitEventSet));

	Assert(nevents <= MAX_WAIT_EVENTS);
	return set;
}

void
FreeWaitEventSet(WaitEventSet *set)
{
	pfree(set);
}

int
AddWaitEventToSet(WaitEventSet *set, uint32 events, pgsocket fd, Latch *latch,
				  void *user_data)
{
	WaitEvent  *e = &set->event[set->n];

	e->pos = set->n;
	e->events = events;
	e->fd = fd;
	e->user_data = user_data;
	return set->n++;
}

static int
occurred(WaitEventSet *set, WaitEvent *out, int max)
{
	int			n = 0;

	for (int i = 0; i < set->n && n < max; i++)
	{
		const WaitEvent *e = &set->event[i];
		uint32		events = 0;

		if ((e->events & WL_LATCH_SET) && MyLatch->is_set)
			events = WL_LATCH_SET;
		if (e->fd != PGINVALID_SOCKET && net_is_readable(e->fd))
			events |= e->events & WL_SOCKET_READABLE;
		if (e->fd != PGINVALID_SOCKET && net_is_writeable(e->fd))
			events |= e->events & WL_SOCKET_WRITEABLE;
		if (events == 0)
			continue;
		out[n] = *e;
		out[n++].events = events;
	}
	return n;
}

int
WaitEventSetWait(WaitEventSet *set, long timeout, WaitEvent *events,
				 int nevents, uint32 wait_event_info)
{
	int64		until = end_of(timeout);

	backend_must_hold_no_lock("WaitEventSetWait");
	sim_yield("wait");
	net_looks();
	backend_drain();
	for (;;)
	{
		int			n = occurred(set, events, nevents);

		if (n > 0 || sim_now() >= until)
		{
			if (backend_waited != NULL)
				backend_waited();
			return n;
		}
		sim_block(until, true, "events");
	}
}

void
pg_usleep(long us)
{
	int64		until = sim_now() + us;

	backend_drain();
	while (sim_now() < until)
		sim_block(until, true, "sleep");
}
