/*-------------------------------------------------------------------------
 *
 * atomics.c
 *	  Atomics, each a step of the scheduler; and when others see a write.
 *
 * On real machines a write may be seen by others after the writer's next reads,
 * unless there is a barrier between them.  So plain atomic writes go through a
 * buffer of their process, which is emptied, in its order, by barriers, by
 * read-modify-write operations, by locks, by whatever enters the kernel, and by
 * chance.  That a barrier is missing is found this way.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/backend/atomics.c
 *
 *-------------------------------------------------------------------------
 */
#include "backend.h"

#include "port/atomics.h"

#define BUFFER_MAX	16

typedef struct Pending
{
	volatile void *at;
	uint64		value;
	bool		wide;
} Pending;

static Pending buffer[BUFFER_MAX];
static int	nbuffered = 0;

bool		backend_has_spinlock = false;

void
backend_drain(void)
{
	for (int i = 0; i < nbuffered; i++)
	{
		if (buffer[i].wide)
			*(volatile uint64 *) buffer[i].at = buffer[i].value;
		else
			*(volatile uint32 *) buffer[i].at = (uint32) buffer[i].value;
	}
	nbuffered = 0;
}

static void
step(const char *what)
{
	if (backend_has_spinlock)
		return;
	sim_yield(what);
	if (nbuffered > 0 && !sim_chance(700))
		backend_drain();
}

static void
write_later(volatile void *at, uint64 value, bool wide)
{
	if (nbuffered == BUFFER_MAX)
		backend_drain();
	buffer[nbuffered].at = at;
	buffer[nbuffered].value = value;
	buffer[nbuffered++].wide = wide;
	if (sim_slot() < 0 || !sim_config.weak_memory)
		backend_drain();
}

static bool
own_write(volatile void *at, uint64 *value)
{
	for (int i = nbuffered - 1; i >= 0; i--)
		if (buffer[i].at == at)
		{
			*value = buffer[i].value;
			return true;
		}
	return false;
}

extern uint32 sim_read_u32(volatile pg_atomic_uint32 *p);
extern uint64 sim_read_u64(volatile pg_atomic_uint64 *p);
extern void sim_write_u32(volatile pg_atomic_uint32 *p, uint32 v);
extern void sim_write_u64(volatile pg_atomic_uint64 *p, uint64 v);
extern uint32 sim_exchange_u32(volatile pg_atomic_uint32 *p, uint32 v);
extern uint64 sim_exchange_u64(volatile pg_atomic_uint64 *p, uint64 v);
extern bool sim_compare_u32(volatile pg_atomic_uint32 *p, uint32 *expected, uint32 v);
extern bool sim_compare_u64(volatile pg_atomic_uint64 *p, uint64 *expected, uint64 v);
extern uint32 sim_add_u32(volatile pg_atomic_uint32 *p, int32 v);
extern uint64 sim_add_u64(volatile pg_atomic_uint64 *p, int64 v);
extern uint32 sim_or_u32(volatile pg_atomic_uint32 *p, uint32 v);
extern uint32 sim_and_u32(volatile pg_atomic_uint32 *p, uint32 v);
extern void sim_full_barrier(void);
extern void sim_one_barrier(void);

uint32
sim_read_u32(volatile pg_atomic_uint32 *p)
{
	uint64		own;

	step("read");
	return own_write(&p->value, &own) ? (uint32) own : p->value;
}

uint64
sim_read_u64(volatile pg_atomic_uint64 *p)
{
	uint64		own;

	step("read");
	return own_write(&p->value, &own) ? own : p->value;
}

void
sim_write_u32(volatile pg_atomic_uint32 *p, uint32 v)
{
	step("write");
	write_later(&p->value, v, false);
}

void
sim_write_u64(volatile pg_atomic_uint64 *p, uint64 v)
{
	step("write");
	write_later(&p->value, v, true);
}

static void
full_step(const char *what)
{
	sim_yield(what);
	backend_drain();
}

uint32
sim_exchange_u32(volatile pg_atomic_uint32 *p, uint32 v)
{
	uint32		before;

	full_step("exchange");
	before = p->value;
	p->value = v;
	return before;
}

uint64
sim_exchange_u64(volatile pg_atomic_uint64 *p, uint64 v)
{
	uint64		before;

	full_step("exchange");
	before = p->value;
	p->value = v;
	return before;
}

bool
sim_compare_u32(volatile pg_atomic_uint32 *p, uint32 *expected, uint32 v)
{
	full_step("compare and exchange");
	if (p->value != *expected)
	{
		*expected = p->value;
		return false;
	}
	p->value = v;
	return true;
}

bool
sim_compare_u64(volatile pg_atomic_uint64 *p, uint64 *expected, uint64 v)
{
	full_step("compare and exchange");
	if (p->value != *expected)
	{
		*expected = p->value;
		return false;
	}
	p->value = v;
	return true;
}

uint32
sim_add_u32(volatile pg_atomic_uint32 *p, int32 v)
{
	full_step("add");
	p->value += v;
	return p->value - v;
}

uint64
sim_add_u64(volatile pg_atomic_uint64 *p, int64 v)
{
	full_step("add");
	p->value += v;
	return p->value - v;
}

uint32
sim_or_u32(volatile pg_atomic_uint32 *p, uint32 v)
{
	uint32		before;

	full_step("or");
	before = p->value;
	p->value |= v;
	return before;
}

uint32
sim_and_u32(volatile pg_atomic_uint32 *p, uint32 v)
{
	uint32		before;

	full_step("and");
	before = p->value;
	p->value &= v;
	return before;
}

void
sim_full_barrier(void)
{
	backend_drain();
	sim_yield("barrier");
}

/* Writes stay in order here, so a one-sided barrier has nothing to do. */
void
sim_one_barrier(void)
{
	sim_yield("barrier");
}
