/*-------------------------------------------------------------------------
 *
 * wait_events.c
 *	  What lockredis waits for, as pg_stat_activity shows it.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/wait_events.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "wait_events.h"

/*
 * lr_wait_event --- the wait_event_info to wait with
 *
 * The first call for each event allocates its name in shared memory, which can raise an
 * error.  Code that must not raise relies on an earlier call.
 */
uint32
lr_wait_event(LrWaitEvent event)
{
#if PG_VERSION_NUM >= 170000
	static const char *const names[WAIT_EVENT_LR_COUNT] = {
		[WAIT_EVENT_LR_ACQUIRE] = "LockRedisAcquire",
		[WAIT_EVENT_LR_CONNECT] = "LockRedisConnect",
		[WAIT_EVENT_LR_REPLY] = "LockRedisReply",
		[WAIT_EVENT_LR_TABLE] = "LockRedisTableMain",
		[WAIT_EVENT_LR_WATCHDOG] = "LockRedisWatchdogMain"
	};
	static uint32 ids[WAIT_EVENT_LR_COUNT];

	if (ids[event] == 0)
		ids[event] = WaitEventExtensionNew(names[event]);
	return ids[event];
#else
	return PG_WAIT_EXTENSION;
#endif
}
