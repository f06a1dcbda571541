/*-------------------------------------------------------------------------
 *
 * history_check.c
 *	  What the history of a schedule has to be, when it is over.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/workload/history_check.c
 *
 *-------------------------------------------------------------------------
 */
#include "workload.h"

#include "../../../src/kinds/kind.h"
#include "../../../src/names.h"
#include "../../../src/stats.h"
#include "../checkers/linearize.h"
#include "../kernel/redis_nodes.h"
#include "../kernel/names.h"
#include "../kernel/sentinels.h"
#include "../kernel/shards.h"
#include "../kernel/server.h"
#include "../models/kinds.h"

/*
 * count_locks --- that this server counted in its present life
 */
static int
count_locks(HistoryResult result, bool several)
{
	int			n = 0;

	for (int i = 0; i < history_count(); i++)
	{
		const HistoryRecord *r = history_at(i);

		n += r->what == HISTORY_LOCK && r->result == result && (!several || r->several) &&
			r->server == sim_server() && r->called >= server_began_at();
	}
	return n;
}

/*
 * check_statistics --- nothing is held any more: what was taken has been given back
 * or lost, but for token locks
 *
 * More is lost than was told to anybody: what was handed over, and gone before its
 * session ran.  And a call that took a lock may have failed after that, or have had it
 * only for as long as others were waited for; one for several keys first tries them all
 * at once, and may have each of them twice.
 */
static void
check_statistics(void)
{
	int64		sum[STAT_COUNT];
	int64		taken;
	int			told = count_locks(HISTORY_YES, false);
	int			untold = count_locks(HISTORY_FAILED, false) +
		count_locks(HISTORY_PENDING, false) + count_locks(HISTORY_NO, true);
	int			twice = count_locks(HISTORY_YES, true) + count_locks(HISTORY_FAILED, true) +
		count_locks(HISTORY_PENDING, true) + count_locks(HISTORY_NO, true);
	int			tokens;
	TimestampTz reset_at;

	stats_read(sum, &reset_at);
	tokens = redis_count_tokens(lr_instance_uuid(), REDIS_TOKEN_HAD) +
		redis_count_tokens(lr_instance_uuid(), REDIS_TOKEN_LOOSE);
	told += tokens;
	untold += redis_count_tokens(lr_instance_uuid(), REDIS_TOKEN_ASKED);
	taken = sum[STAT_ACQUIRES] + sum[STAT_REENTRIES];
	if (taken < told || taken > told + untold + twice)
		sim_fail("statistics", "%lld acquires and %lld re-entries; sessions were told of %d, not of %d, and may have had %d twice",
				 (long long) sum[STAT_ACQUIRES], (long long) sum[STAT_REENTRIES], told, untold,
				 twice);
	if (sum[STAT_RELEASES] > sum[STAT_ACQUIRES] ||
		sum[STAT_RELEASES] + sum[STAT_LOSSES] + tokens < sum[STAT_ACQUIRES])
		sim_fail("statistics", "%lld acquires, %lld releases and %lld losses",
				 (long long) sum[STAT_ACQUIRES], (long long) sum[STAT_RELEASES],
				 (long long) sum[STAT_LOSSES]);
	if (sum[STAT_HANDOFFS] > sum[STAT_ACQUIRES])
		sim_fail("statistics", "%lld acquires, of which %lld were handed over",
				 (long long) sum[STAT_ACQUIRES], (long long) sum[STAT_HANDOFFS]);
}

void
check_history(void)
{
	uint32		excludes[KIND_FREE + 1];
	char		why[400];

	for (int k = 0; k <= KIND_FREE; k++)
		excludes[k] = lr_kind(k) == NULL ? 0 : lr_kind(k)->excludes;
	/* For a moment there were two masters. */
	if (sentinels_failovers() > 0 || shards_failovers() > 0 || elsewhere_was_apart())
		return;
	if (!history_is_complete())
	{
		sim_reached("history not judged: too long");
		return;
	}
	/* Permits, and what is held again after a condition, are in no history. */
	if (!sim_config.counts && !sim_config.conditions)
		check_statistics();

	/* There is one history of all servers, unless one has used a table of its own. */
	if (sim_server() > 0 && !history_is_in_parts())
		return;
	switch (linearize(history_at(0), history_count(), excludes,
					  history_is_in_parts() ? sim_server() : ALL_SERVERS, why, sizeof(why)))
	{
		case NOT_LINEAR:
			for (int i = 0; i < history_count(); i++)
				sim_trace("%s", history_text(history_at(i)));
			sim_fail("history", "%s", why);
		case NOT_DECIDED:
			sim_reached("history not judged: too many orders");
			break;
		default:
			sim_reached("history judged");
	}
}
