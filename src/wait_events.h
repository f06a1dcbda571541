/*-------------------------------------------------------------------------
 *
 * wait_events.h
 *	  What lockredis waits for, as pg_stat_activity shows it.
 *
 * From PostgreSQL 17 on each event has a name of its own; before, all are shown as
 * Extension.  Names are allocated on first use, in a process with shared memory.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/wait_events.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_WAIT_EVENTS_H
#define LR_WAIT_EVENTS_H

#include "lockredis.h"

typedef enum LrWaitEvent
{
	WAIT_EVENT_LR_ACQUIRE,		/* for a holder to release */
	WAIT_EVENT_LR_CONNECT,		/* for a connection to be made */
	WAIT_EVENT_LR_REPLY,		/* for a reply of the store */
	WAIT_EVENT_LR_TABLE,		/* the table worker, for requests */
	WAIT_EVENT_LR_WATCHDOG,		/* the watchdog, for work or messages */
	WAIT_EVENT_LR_COUNT
} LrWaitEvent;

extern uint32 lr_wait_event(LrWaitEvent event);

#define LR_WAIT_ACQUIRE		lr_wait_event(WAIT_EVENT_LR_ACQUIRE)
#define LR_WAIT_CONNECT		lr_wait_event(WAIT_EVENT_LR_CONNECT)
#define LR_WAIT_REPLY		lr_wait_event(WAIT_EVENT_LR_REPLY)
#define LR_WAIT_TABLE		lr_wait_event(WAIT_EVENT_LR_TABLE)
#define LR_WAIT_WATCHDOG	lr_wait_event(WAIT_EVENT_LR_WATCHDOG)

#endif							/* LR_WAIT_EVENTS_H */
