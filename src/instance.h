/*-------------------------------------------------------------------------
 *
 * instance.h
 *	  This instance of the server: its name to the stores, its owner numbers,
 *	  and whether its watchdog is there.
 *
 * A little shared memory of its own, read and written by atomics only, below
 * the lock table and the stores: both have to know who "we" are and both wake
 * the watchdog.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/instance.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_INSTANCE_H
#define LR_INSTANCE_H

#include "lockredis.h"

extern Size instance_shmem_size(void);
extern void instance_shmem_init(void);

/* Raises where the library was not preloaded: it has no shared memory then. */
extern void lr_require_preload(void);

/* 36 characters, made anew with the shared memory. */
extern const char *lr_instance_uuid(void);

/* "<uuid>:<number>" into a buffer of LR_OWNER_MAX; returns the length. */
extern int	lr_owner_text(uint64 owner, char *out);

/* An owner number that was never used before, and never will be. */
extern uint64 lr_new_owner(void);

/*
 * 16 bytes that stand for an owner number, and that nobody can guess who does not know
 * the secret of this instance, whatever others he has seen.
 */
#define LR_SECRET_ID_LEN	16

extern void lr_secret_id(uint64 owner, uint8 *out);

/* The watchdog: it is this process, from now on; it is gone. */
extern void lr_watchdog_enter(void);
extern void lr_watchdog_leave(void);
extern bool lr_watchdog_running(void);

/* Have it look; does nothing if there is none.  Never under a lock. */
extern void lr_wake_watchdog(void);

#endif							/* LR_INSTANCE_H */
