/*-------------------------------------------------------------------------
 *
 * meetings.c
 *	  Between which functions of the product something may come: kernel/meeting.h.
 *
 * One line for each pair of which a rule of src/ says that it must not matter how they
 * come: what was asked and what is made of it on the one hand, what changes it
 * meanwhile on the other.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/workload/meetings.c
 *
 *-------------------------------------------------------------------------
 */
#include "workload.h"

#include "../kernel/faults.h"
#include "../kernel/meeting.h"

extern const Meeting sim_meetings[];

const Meeting sim_meetings[] = {
	/* An answer, and another one who has the key by then */
	{"lt_grant", NULL, "lt_grant", fault_key_deleted, MEET_ANY},
	{"lt_grant", NULL, "lt_lose_forced", NULL, MEET_ANY},
	{"lt_accept", NULL, "lt_lose_forced", NULL, MEET_ANY},
	{"lt_turn", NULL, "lt_pass_over_sleepers", NULL, MEET_ANY},
	{"lt_note_clear", NULL, NULL, NULL, MEET_ANY},
	{"lt_begin_release", NULL, "lt_answered", NULL, MEET_ANY},
	{"lt_answered", NULL, "lt_begin_release", NULL, MEET_ANY},
	{"lt_lose", NULL, "lt_begin_release", fault_key_deleted, MEET_ANY},
	{"request_ttl_ms", NULL, NULL, NULL, MEET_ANY},
	{"wait_for_lock", NULL, "lt_pass_over_sleepers", NULL, MEET_ANY},

	/* A loss, and a commit */
	{"guard_check_holds", NULL, "lt_lose", fault_key_deleted, MEET_ANY},
	{"guard_check_holds", NULL, "lt_lose_forced", NULL, MEET_ANY},
	{"lt_set_committing", NULL, "lt_lose_forced", NULL, MEET_ANY},
	{"session_unlock_all", NULL, "lt_lose_forced", NULL, MEET_ANY},

	/* Who sleeps, and who has something for him */
	{"lt_watchdog_sleeps_until", NULL, "lt_set_due", NULL, MEET_ANY},
	{"lt_collect_due", NULL, "lt_set_due", NULL, MEET_ANY | MEET_LOCKED},
	{"lt_set_due", NULL, "lt_collect_due", NULL, MEET_ANY | MEET_LOCKED},

	/* A lock, and the store that it goes to */
	{"lt_grant", NULL, "lt_renew_now", fault_silence, MEET_FALLBACK | MEET_LOCKED},
	{"lt_set_due_of_held", NULL, "lt_renew_now", fault_silence, MEET_FALLBACK | MEET_LOCKED},
	{"lt_renew_now", NULL, "lt_grant", fault_silence, MEET_FALLBACK},
	{"lt_accept", NULL, "lt_renew_now", fault_silence, MEET_FALLBACK | MEET_LOCKED},
	{"lt_set_scope", NULL, "lt_moved", fault_silence, MEET_FALLBACK},
	{"lt_raise_deadline", NULL, "lt_moved", fault_silence, MEET_FALLBACK},
	{"lt_raise_deadline", "guard_check_holds", "lt_moved", fault_silence, MEET_FALLBACK},
	{"lt_set_scope", NULL, "lt_moved", NULL, MEET_FALLBACK},
	{"lt_lose", NULL, "lt_moved", fault_redis_restarts, MEET_FALLBACK},
	{"lt_lose", NULL, "lt_moved", fault_silence, MEET_FALLBACK},
	{"lt_lose_forced", NULL, "lt_moved", fault_silence, MEET_FALLBACK},
	{"lt_answered", NULL, "lt_set_scope", NULL, MEET_FALLBACK},
	{"lt_answered", NULL, "lt_raise_deadline", NULL, MEET_FALLBACK},
	{"ask_settle", NULL, "lt_moved", fault_silence, MEET_FALLBACK},
	{"ask_run_many", "guard_check_holds", "lt_moved", NULL, MEET_FALLBACK},
	{"ask_run_many", "ask_held", "lt_moved", fault_silence, MEET_FALLBACK},
	{"lt_end_release", NULL, "lt_moved", fault_silence, MEET_FALLBACK},
	{"request_state", NULL, "silence_answered", fault_foreign_client, MEET_FALLBACK},
	{"silence_hold_off", NULL, NULL, fault_blink, MEET_FALLBACK},

	/* An answer, and the master that gave it */
	{"lt_grant", NULL, "topology_change", fault_failover, MEET_SENTINELS},
	{"lt_note_answer", NULL, "topology_change", fault_failover, MEET_SENTINELS | MEET_LOCKED},
	{"lt_set_scope", NULL, "topology_change", fault_failover, MEET_SENTINELS},
	{"lt_raise_deadline", NULL, "topology_change", fault_failover, MEET_SENTINELS},
	{"lt_raise_deadline", "guard_check_holds", "topology_change", fault_failover, MEET_SENTINELS},
	{"lt_end_release", NULL, "topology_change", fault_failover, MEET_SENTINELS},
	{"lt_lose", NULL, "topology_change", fault_failover, MEET_SENTINELS},
	{"ask_settle", NULL, "topology_change", fault_failover, MEET_SENTINELS},
	{"guard_check_holds", NULL, "topology_change", fault_failover, MEET_SENTINELS},
	{"ask_run_many", "guard_check_holds", "topology_change", fault_failover, MEET_SENTINELS},
	{"lt_look", "guard_check_holds", "topology_change", fault_failover, MEET_SENTINELS},
	{"lt_lose_forced", NULL, "topology_change", fault_failover, MEET_SENTINELS},
	{"ask_run_many", "ask_run_held", "topology_change", fault_failover, MEET_SENTINELS},
	{"redis_step", NULL, "topology_change", fault_failover, MEET_SENTINELS},
	{"ask_run_held", NULL, "topology_change", fault_failover, MEET_SENTINELS},
	{"failover_step", NULL, "topology_doubt", NULL, MEET_SENTINELS},
	{"sentinel_step", NULL, "topology_doubt", fault_redis_mood, MEET_SENTINELS},
	{"lt_renew_now", NULL, "lt_grant", fault_failover, MEET_SENTINELS},

	/* What only a mutant is tried with */
	{"lt_grant", NULL, "lt_disown", NULL, MEET_NAMED},
	{"current_change", NULL, "lt_grant", NULL, MEET_NAMED},
	{"lt_found_busy", NULL, NULL, fault_key_deleted, MEET_NAMED},
	{"part_batch_start", "renewals_step", "lt_leave_until", NULL, MEET_NAMED},
	{"lt_set_scope", NULL, "lt_lose", fault_terminate, MEET_NAMED},
	{"request_ttl_ms", NULL, "lt_collect_due", NULL, MEET_NAMED},
	{"lt_turn", NULL, NULL, NULL, MEET_NAMED},
	{NULL}
};
