/*-------------------------------------------------------------------------
 *
 * loss_log.c
 *	  Losses of locks in the server log.
 *
 * A process that finds a loss may not be able to log it (see losses.c).  A session that
 * is signaled (lockredis.on_lost) only logs "canceling statement due to user request".
 * So only the watchdog, which is woken for it, logs losses: one line each, in one place
 * where the number of lines can be limited.
 *
 * When a store loses all of its data, thousands of locks are lost at once.  So there is a
 * limit of lines for an interval, and then a line with the number of the others.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/watchdog/loss_log.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "utils/memutils.h"

#include "locktable/losses.h"
#include "names.h"
#include "report.h"
#include "watchdog/watchdog_int.h"

/* The most lines */
#define LINES_MAX			50
/* within this interval */
#define LINES_INTERVAL		(10 * LR_US_PER_S)

static int64 interval_ends = 0;
static int	lines = 0;
static MemoryContext line_context = NULL;

static const char *
level_of(const LossRecord *r)
{
	if (!r->in_scope[SCOPE_XACT])
		return "session-level";
	return r->in_scope[SCOPE_SESSION] ? "session-level and transaction-level" :
		"transaction-level";
}

static void
write_record(const LossRecord *r)
{
	ereport(LOG,
			(errmsg("lockredis: process %d lost the %s lock \"%s\": %s",
					r->pid, level_of(r), lr_name_to_show(r->name, r->name_len),
					lost_reason_text(r->reason, r->taken_by)),
			 r->on_lost == ON_LOST_MARK ? 0 :
			 errdetail("It was taken with \"%s\" set to \"%s\".", "lockredis.on_lost",
					   r->on_lost == ON_LOST_CANCEL ? "cancel" : "terminate")));
}

static void
write_left_out(void)
{
	uint64		n = losses_take_left_out();

	if (n > 0)
		ereport(LOG,
				(errmsg("lockredis: %llu more losses of locks were not logged",
						(unsigned long long) n)));
}

/*
 * loss_log_write --- log the new losses, within the limit
 */
void
loss_log_write(void)
{
	LossRecord	r;
	MemoryContext before;
	bool		empty = !losses_any();

	if ((lines > 0 || empty) && lr_now() >= interval_ends)
	{
		write_left_out();
		lines = 0;
	}
	if (empty)
		return;

	if (line_context == NULL)
		line_context = AllocSetContextCreate(TopMemoryContext, "lockredis losses",
											 ALLOCSET_SMALL_SIZES);
	before = MemoryContextSwitchTo(line_context);
	while (losses_take(&r))
	{
		if (lines == 0)
			interval_ends = lr_now() + LINES_INTERVAL;
		if (lines++ < LINES_MAX)
			write_record(&r);
		else
			losses_leave_out();
		MemoryContextReset(line_context);
	}
	MemoryContextSwitchTo(before);
}

/*
 * loss_log_next --- when to write a line even if no other lock is lost
 */
int64
loss_log_next(void)
{
	return losses_any_left_out() ? interval_ends : LR_NEVER;
}

void
loss_log_finish(void)
{
	loss_log_write();
	write_left_out();
}
