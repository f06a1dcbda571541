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
#include "../checkers/linearize.h"
#include "../kernel/sentinels.h"
#include "../models/kinds.h"

void
check_history(void)
{
	uint32		excludes[KIND_FREE + 1];
	char		why[400];

	for (int k = 0; k <= KIND_FREE; k++)
		excludes[k] = lr_kind(k)->excludes;
	/* For a moment there were two masters. */
	if (sentinels_failovers() > 0)
		return;
	if (!history_is_complete())
	{
		sim_reached("history not judged: too long");
		return;
	}
	switch (linearize(history_at(0), history_count(), excludes, why, sizeof(why)))
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
