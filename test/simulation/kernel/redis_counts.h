/*-------------------------------------------------------------------------
 *
 * redis_counts.h
 *	  What is known of permits, semaphores and latches that Redis has, and of the calls
 *	  that asked for them.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/redis_counts.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_REDIS_COUNTS_H
#define SIM_REDIS_COUNTS_H

#include "sim.h"

/* Names of them: p0.., s0.., l0.. */
#define COUNTS_NAMES	2

/* What the store may do with a request that it knows by its ticket. */
typedef enum TicketState
{
	TICKET_ASKED,				/* acquire: its call is under way or has failed: nothing is
								 * taken in the end */
	TICKET_HAD,					/* acquire: its call has returned: it is taken */
	TICKET_LATER,				/* count: when its transaction has committed, not before */
	TICKET_OWED,				/* count: once, sooner or later */
	TICKET_NOT,					/* count: not at all */
	TICKET_PERHAPS				/* count: once, or not at all: its server has crashed */
} TicketState;

extern void redis_note_ticket(const char *ticket, TicketState state, int64_t amount);

/* How often it was counted. */
extern int	redis_times_counted(const char *ticket);

/* The server is not there any more: what it still had to have counted may be so. */
extern void redis_counts_server_ended(void);

/* When was the latch open last?  Now, if it is. */
extern int64_t redis_latch_open_at(const char *key);

/* Could so many be acquired now; or, of a latch, is it open? */
extern bool redis_counts_has(const char *key, int64_t amount);

/* That permit is nobody's here from now on: it belongs to who has its id. */
extern void redis_note_permit(const char *key, const char *id);

/* Until when (sim_now() time) that permit is held; 0: it is not. */
extern int64_t redis_permit_until(const char *key, const char *id);

/* The most that there ever were of that key. */
extern int	redis_permits_most(const char *key);

/*
 * Of the permits that this life of the server has taken, the id of one that "knows" does
 * not know; NULL: there is none, or that cannot be said.
 */
extern const char *redis_find_permit(bool (*knows) (const char *key, const char *id));

/* Somebody takes all permits away. */
extern void redis_take_permits(int node, const char *key);

/* The schedule is over. */
extern void redis_check_counts(void);

#endif							/* SIM_REDIS_COUNTS_H */
