/*-------------------------------------------------------------------------
 *
 * hooks.h
 *	  Included before every file of the product: where it can be interrupted.
 *
 * The product is compiled as it is.  What PostgreSQL's headers make inline
 * (atomics, barriers, CHECK_FOR_INTERRUPTS) becomes a call of the stand-in here,
 * so that each is a step of the scheduler; all else is found by the linker.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/backend/hooks.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_HOOKS_H
#define SIM_HOOKS_H

#include "postgres.h"

#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/spin.h"

#include "sizes.h"

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
extern void sim_check_for_interrupts(void);

#define pg_atomic_read_u32(p)			sim_read_u32(p)
#define pg_atomic_read_u64(p)			sim_read_u64(p)
#define pg_atomic_write_u32(p, v)		sim_write_u32((p), (v))
#define pg_atomic_write_u64(p, v)		sim_write_u64((p), (v))
#define pg_atomic_exchange_u32(p, v)	sim_exchange_u32((p), (v))
#define pg_atomic_exchange_u64(p, v)	sim_exchange_u64((p), (v))
#define pg_atomic_compare_exchange_u32(p, e, v) sim_compare_u32((p), (e), (v))
#define pg_atomic_compare_exchange_u64(p, e, v) sim_compare_u64((p), (e), (v))
#define pg_atomic_fetch_add_u32(p, v)	sim_add_u32((p), (v))
#define pg_atomic_fetch_add_u64(p, v)	sim_add_u64((p), (v))
#define pg_atomic_fetch_sub_u32(p, v)	sim_add_u32((p), -(v))
#define pg_atomic_fetch_sub_u64(p, v)	sim_add_u64((p), -(v))
#define pg_atomic_fetch_or_u32(p, v)	sim_or_u32((p), (v))
#define pg_atomic_fetch_and_u32(p, v)	sim_and_u32((p), (v))

#undef pg_memory_barrier
#undef pg_read_barrier
#undef pg_write_barrier
#define pg_memory_barrier()				sim_full_barrier()
#define pg_read_barrier()				sim_one_barrier()
#define pg_write_barrier()				sim_one_barrier()

/*
 * Both are barriers.  Nobody is stopped between them, as nobody who spins would sleep.
 */
extern void backend_drain(void);
extern bool backend_has_spinlock;

#undef SpinLockAcquire
#undef SpinLockRelease
#define SpinLockAcquire(lock)			\
	do { backend_drain(); S_LOCK(lock); backend_has_spinlock = true; } while (0)
#define SpinLockRelease(lock)			\
	do { backend_drain(); S_UNLOCK(lock); backend_has_spinlock = false; } while (0)

#undef CHECK_FOR_INTERRUPTS
#define CHECK_FOR_INTERRUPTS()			sim_check_for_interrupts()

#endif							/* SIM_HOOKS_H */
