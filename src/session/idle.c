/*-------------------------------------------------------------------------
 *
 * idle.c
 *	  Close idle connections of this backend.
 *
 * The handler of a timeout does so, after lockredis.idle_timeout: the session may run a
 * query for hours, or wait for its client, and is not interrupted.  The handler only
 * shuts down the socket.  The next request notices that, as if the peer had closed the
 * connection, and connects again.  The handler frees no memory, since the session may
 * be using it.
 *
 * The handler may interrupt any instruction of this process:
 *
 * - A request is under way.  Its batch is active from before it checks the connection
 *	 until after its last reply, and the handler leaves an active batch alone.  So the
 *	 connection is shut down before that check, which notices, or not at all.
 * - Replies to a batch that has ended are outstanding: left alone.
 * - A lock call is between two requests: left alone (idle_keep), as it needs the
 *	 connection soon.
 * - The socket is being opened or closed: the connection is not ready then, or its
 *	 number refers to no socket; no other socket is made meanwhile.
 *
 * To arm a timeout for each request would cost a system call for each.  So it is armed
 * once, and the handler arms it again for the time that is left.  An error disables all
 * timeouts of a session; the abort of the transaction or subtransaction arms ours
 * again.  In a failed transaction, a statement that is refused is an error without an
 * abort: then the ROLLBACK arms it.
 *
 * A reload of the setting takes effect before the next statement, like PostgreSQL's
 * idle_session_timeout: it does not wake an idle session.
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
static int	armed_for = 0;		/* lr_idle_timeout when the timeout was armed */
static volatile sig_atomic_t kept = false;

static void
idle_arm(int64 us)
{
	enable_timeout_after(idle_timeout_id, (int) Max(lr_ms_up(us), 1));
}

/*
 * idle_handler --- runs in a signal handler: only async-signal-safe code
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

/* During the call the timeout may have fired, and is not armed any more. */
void
idle_keep(bool keep)
{
	kept = keep;
	if (!keep)
		idle_mind();
}
