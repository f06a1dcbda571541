/*-------------------------------------------------------------------------
 *
 * unlock.h
 *	  The Redis locks of this backend: give back.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/session/unlock.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_UNLOCK_H
#define LR_UNLOCK_H

#include "lockredis.h"

#include "keyname.h"
#include "kinds/kind.h"

/* Give back one session-level hold.  False, with a WARNING: there was none. */
extern bool session_unlock(const LrName *name, KindId kind);

/*
 * The same of each of these keys.  False if one was not held, or was lost, with a
 * WARNING for each.
 */
extern bool session_multi_unlock(const LrName *const *names, int n);

/* The job runner's own hold, which session_unlock does not touch. */
extern bool session_unlock_job(const LrName *name, KindId kind);

/* Give back all of them; the number of keys. */
extern int64 session_unlock_all(void);

#endif							/* LR_UNLOCK_H */
