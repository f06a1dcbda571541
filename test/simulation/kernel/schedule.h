/*-------------------------------------------------------------------------
 *
 * schedule.h
 *	  One schedule: set up, run, judged.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/schedule.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_SCHEDULE_H
#define SIM_SCHEDULE_H

#include <stdbool.h>

/* The shared object with the product, once. */
extern void schedule_load(const char *product);

/* -1: drawn; else as lockredis.mode: redis, table, fallback. */
extern int	schedule_mode;

/* In all schedules, not one in ten, the watchdog's batches take few locks. */
extern bool schedule_small_batches;

/* By the choices that were set up; false: "failure" says why. */
extern bool schedule_run(bool tracing);

/* Only shared memory is made, with the plainest settings, and this is called. */
extern bool schedule_observe(void (*body_of_observer) (void));

#endif							/* SIM_SCHEDULE_H */
