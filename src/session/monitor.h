/*-------------------------------------------------------------------------
 *
 * monitor.h
 *	  A lock is given back, a condition awaited, the lock taken again.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/session/monitor.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_MONITOR_H
#define LR_MONITOR_H

#include "lockredis.h"

#include "keyname.h"
#include "session/held.h"

/*
 * Wait for the condition with that id of a lock that this session has at session level
 * only, as the view says.  True: notified, or nobody knows; false: wait_us (or
 * WAIT_FOREVER) are over.  The session has the lock again, under another hold.  Raises for
 * everything else, and then the lock is lost to it.
 */
extern bool monitor_wait(const LrName *name, const HeldEntry *entry,
						 const HoldView *view, const uint8 *id, int64 wait_us);

/*
 * Clean up a wait that was left by an error or by the end of the session.  Does nothing if
 * there is none.  Never raises.
 */
extern void monitor_abandon(void);

#endif							/* LR_MONITOR_H */
