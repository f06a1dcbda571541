/*-------------------------------------------------------------------------
 *
 * lwlock.c
 *	  Light-weight locks, and the rules that their holders keep.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/backend/lwlock.c
 *
 *-------------------------------------------------------------------------
 */
#include "backend.h"

#include "storage/s_lock.h"

#define MAX_HELD	4
#define EXCLUSIVE	UINT32_C(0x80000000)

typedef struct Held
{
	LWLock	   *lock;
	bool		exclusive;
} Held;

static Held held[MAX_HELD];
static int	nheld = 0;

LWLockPadded *MainLWLockArray;

int
backend_locks_held(void)
{
	return nheld;
}

void
backend_must_hold_no_lock(const char *doing)
{
	if (nheld > 0)
		sim_fail("lock rules", "%s under a light-weight lock", doing);
}

static bool
is_last(const LWLock *lock)
{
	return lock == &shared_root->tranche[shared_root->ntranche - 1].lock;
}

bool
LWLockAcquire(LWLock *lock, LWLockMode mode)
{
	bool		exclusive = mode == LW_EXCLUSIVE;

	/*
	 * None of the product's code takes a second one, but for that of
	 * the log of losses (sessions.c), which is its last, below a partition.
	 */
	if (nheld > 1 || (nheld == 1 && (is_last(held[0].lock) || !is_last(lock))))
		sim_fail("lock rules", "a second light-weight lock is taken");
	sim_yield("lock");
	backend_drain();
	while (lock->state.value >= (exclusive ? 1 : EXCLUSIVE))
		sim_block_on(lock, "a light-weight lock");
	lock->state.value += exclusive ? EXCLUSIVE : 1;
	held[nheld].lock = lock;
	held[nheld++].exclusive = exclusive;
	InterruptHoldoffCount++;
	return true;
}

static void
release(int i)
{
	LWLock	   *lock = held[i].lock;

	backend_drain();
	lock->state.value -= held[i].exclusive ? EXCLUSIVE : 1;
	held[i] = held[--nheld];
	sim_wake_on(lock);
}

void
LWLockRelease(LWLock *lock)
{
	for (int i = nheld - 1; i >= 0; i--)
		if (held[i].lock == lock)
		{
			release(i);
			InterruptHoldoffCount--;
			sim_yield("unlock");
			return;
		}
	sim_fail("lock rules", "a lock that is not held is released");
}

void
backend_release_locks(void)
{
	while (nheld > 0)
		release(nheld - 1);
}

LWLockPadded *
GetNamedLWLockTranche(const char *name)
{
	return shared_root->tranche;
}

void
RequestNamedLWLockTranche(const char *name, int n)
{
	shared_root->ntranche = n;
	shared_root->tranche = sim_arena_alloc(sizeof(LWLockPadded) * n);
}

int
s_lock(volatile slock_t *lock, const char *file, int line, const char *func)
{
	while (TAS_SPIN(lock))
		sim_yield("spinlock");
	return 0;
}
