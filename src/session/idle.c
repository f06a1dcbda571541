/*-------------------------------------------------------------------------
 *
 * idle.c
 *	  Connections of this backend that nobody uses are closed.
 *
 * After lockredis.idle_timeout, by the handler of a time-out: the session may be in
 * the middle of a query for hours, or wait for its client, and is not to be bothered.
 * The handler only shuts the socket down, which the next request finds, like any
 * connection that its peer has ended, and connects anew.  The memory of it is the
 * session's, whatever it is doing.
 *
 * The handler may interrupt any instruction of this process:
 *
 * - A request under way: its batch is active from before it looks at the connection
 *	 to after its last reply, and one that is active is left alone.  So either the
 *	 connection is shut before that look, which finds it, or not at all.
 * - Replies that are owed to a batch that has ended: left alone.
 * - A lock call between two requests: left alone (idle_keep), it needs it soon.
 * - The socket being opened or closed: the connection is not ready then, or its
 *	 number is of no socket any more; nobody else makes one meanwhile.
 *
 * Arming a time-out for each request would be a system call for each.  So it is
 * armed once, and the handler arms it again for what is left.  An error ends all
 * time-outs of a session; the abort of the transaction or subtransaction arms it
 * again.  A statement that is refused in a transaction that has failed is an error
 * without an abort: then it is the ROLLBACK that does.
 *
 * A setting that is reloaded is read before the next statement, as PostgreSQL's
 * idle_session_timeout is: an idle session is not woken for it.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/session/idle.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "storage/ipc.h"
#include "utils/timeout.h"

#include "session/session.h"
#include "settings.h"
#include "stats.h"

static const StoreRoutine *idle_store = NULL;
static StoreHandle *idle_handle;
static TimeoutId idle_timeout_id;
static int	armed_for = 0;		/* lr_idle_timeout then */
static volatile sig_atomic_t kept = false;

static void
idle_arm(int64 us)
{
	enable_timeout_after(idle_timeout_id, (int) Max(lr_ms_up(us), 1));
}

/*
 * idle_handler --- in a signal handler: only what is safe there
 */
static void
idle_handler(void)
{
	int64		limit = lr_idle_timeout * LR_US_PER_MS;
	int64		now = lr_now();
	int64		used;

	if (limit == 0 || kept)
		return;
	used = idle_store->let_go(idle_handle, now - limit);
	if (used == STORE_LET_GO)
		lr_count(STAT_IDLE_CLOSES);
	else if (used != STORE_NOT_CONNECTED)
		idle_arm(used + limit - now);
}

void
idle_open(const StoreRoutine *store, StoreHandle *handle)
{
	if (store->let_go == NULL)
		return;
	idle_timeout_id = RegisterTimeout(USER_TIMEOUT, idle_handler);
	idle_handle = handle;
	idle_store = store;
}

void
idle_mind(void)
{
	if (idle_store == NULL || lr_idle_timeout == 0 || proc_exit_inprogress ||
		!idle_store->connected(idle_handle))
		return;
	if (armed_for == lr_idle_timeout && get_timeout_active(idle_timeout_id))
		return;
	armed_for = lr_idle_timeout;
	idle_arm(lr_idle_timeout * LR_US_PER_MS);
}

/*
 * idle_keep --- see session.h
 *
 * Meanwhile the time-out may have struck, and is not armed any more.
 */
void
idle_keep(bool keep)
{
	kept = keep;
	if (!keep)
		idle_mind();
}
