/*-------------------------------------------------------------------------
 *
 * instance.h
 *	  This instance of the server: its name in the stores, its owner numbers,
 *	  and whether its watchdog is running.
 *
 * This is a small piece of shared memory that is read and written by atomics
 * only.  It lies below the lock table and the stores, since both need the name of
 * the instance and both wake the watchdog.
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

/* Raises an error if the library was not preloaded, as it has no shared memory then. */
extern void lr_require_preload(void);

/* The UUID of this instance, 36 characters; each new shared memory gets another one. */
extern const char *lr_instance_uuid(void);

/* Write "<uuid>:<number>" to a buffer of LR_OWNER_MAX bytes; returns its length. */
extern int	lr_owner_text(uint64 owner, char *out);

/* The number in such a text, 0 if it is not of this instance. */
extern uint64 lr_owner_number(const char *text);

/* An owner number that was never used before, and never will be. */
extern uint64 lr_new_owner(void);

/*
 * Compute 16 bytes that stand for an owner number.  Without the secret of this instance
 * nobody can guess them, however many others are known.
 */
#define LR_SECRET_ID_LEN	16

extern void lr_secret_id(uint64 owner, uint8 *out);

/* The watchdog reports that it runs in this process, or that it ends. */
extern void lr_watchdog_enter(void);
extern void lr_watchdog_leave(void);
extern bool lr_watchdog_running(void);

/* Wake the watchdog, if there is one.  Must not be called while holding a lock. */
extern void lr_wake_watchdog(void);

#endif							/* LR_INSTANCE_H */
