/*-------------------------------------------------------------------------
 *
 * meeting.h
 *	  A process that is stopped in one function until another has been through another.
 *
 * What has to happen between two steps of a process is often one thing: a node
 * becomes the master between an answer and what is made of it.  To stop a process there
 * for a drawn time meets that seldom.  So some schedules have a meeting: whoever comes
 * to the one function may be stopped in it, and goes on when somebody else has left
 * the other one, or when the time is over.  Which functions are worth that the
 * workload says (workload/meetings.c).
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/meeting.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_MEETING_H
#define SIM_MEETING_H

#include <stdbool.h>
#include <stdint.h>

#include "strategy.h"

/* Schedules in which it makes sense; bits. */
#define MEET_PLAIN		0x1
#define MEET_FALLBACK	0x2
#define MEET_SENTINELS	0x4
#define MEET_CLUSTER	0x10
#define MEET_ANY		0x17

/* Only where a mutant names it: each line that is drawn makes the others rarer. */
#define MEET_NAMED		0x0

/* Also where the process has a light-weight lock, which the other one does not need. */
#define MEET_LOCKED		0x8

typedef struct Meeting
{
	const char *at;				/* function of src/, not static */
	const char *in;				/* that was called by this one; NULL: by any */
	const char *until;			/* likewise; NULL: only the time counts */
	void		(*fault) (void);	/* comes when the process is stopped; NULL: the one
									 * that the schedule aims, or none */
	int			where;
} Meeting;

/* Of the workload; ends with one that has no name. */
extern void meetings_load(const Meeting *table);

/* The only one, in all schedules: AT IN UNTIL, with - for none; NULL: half have any. */
extern const char *meeting_only;

/* Draw that of a schedule, or none. */
extern void meeting_draw(void);
extern void meeting_reset(void);

/* At each step: does the running process stop, and does one that is stopped go on? */
extern bool meeting_stops(Stop *stop);
extern void meeting_look(void);

#endif							/* SIM_MEETING_H */
