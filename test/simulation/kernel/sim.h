/*-------------------------------------------------------------------------
 *
 * sim.h
 *	  What the simulated world offers: processes, time, choices, the network.
 *
 * The kernel knows nothing of PostgreSQL or lockredis.  It runs processes as
 * coroutines, one at a time, and decides at each sim_yield() who goes on.  Every
 * decision is a choice drawn from the seed and logged, so that a schedule can
 * be repeated, and be made smaller by changing its choices to 0: each choice
 * is made so that 0 is the plainest (go on, no fault, do nothing).
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/sim.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_H
#define SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_MS			INT64_C(1000)
#define SIM_S			INT64_C(1000000)
#define SIM_NEVER		(INT64_MAX / 4)

#define SIM_MAX_PROCS	12
#define SIM_MAX_SERVERS	3
#define SIM_ARENA_SIZE	(1536 * 1024)

/* ---- choices (choice.c) ---- */

/* 0 .. n - 1, each as likely. */
extern uint32_t sim_draw(uint32_t n);

/* What is drawn from now on belongs together, and can be left out as one. */
extern void sim_draw_begins(void);

/* True so many times in a thousand. */
extern bool sim_chance(uint32_t permille);
extern bool sim_chance_of(uint32_t times, uint32_t of);

/* In how many steps does what has that chance at each come next?  0: never. */
extern uint32_t sim_gap_of(uint32_t times, uint32_t of);

/* One of n numbers; the first is the plainest. */
extern int64_t sim_pick(const int64_t *of, uint32_t n);
#define SIM_PICK(...) \
	sim_pick((const int64_t[]){__VA_ARGS__}, \
			 sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

/* ---- what is told (trace.c) ---- */

extern bool sim_tracing;
extern void sim_trace(const char *format,...) __attribute__((format(printf, 1, 2)));

/* A checker says no: the schedule ends here. */
extern void sim_fail(const char *check, const char *format,...)
			__attribute__((format(printf, 2, 3), noreturn));

/* Something was reached; counted over all schedules. */
extern void sim_reached(const char *what);

/* ---- time and processes (scheduler.c) ---- */

/* Microseconds; goes on by a little with each step, and else by sleeping. */
extern int64_t sim_now(void);

/* So much time passes at once. */
extern void sim_pass(int64_t us);

/* Others may run now.  Nothing but a trace uses "what". */
extern void sim_yield(const char *what);

/*
 * Sleep until sim_wake() or that time; may return early.  "parked": the
 * process is in a wait of its own, in the middle of nothing.
 */
extern void sim_block(int64_t until, bool parked, const char *what);
extern void sim_wake(int pid);

/* Sleep until sim_wake_on() is called for the same object. */
extern void sim_block_on(const void *object, const char *what);
extern void sim_wake_on(const void *object);

/* Of the running process; -1 in the kernel's own time. */
extern int	sim_slot(void);
extern int	sim_pid(void);

/* The server to which that process belongs; else that which is observed. */
extern int	sim_server(void);

/* kill(2): 0, or -1 if there is no such process. */
extern int	sim_kill(int pid, int signo);

/* The running process ends here. */
extern void sim_exit(int code) __attribute__((noreturn));

/* Call something at that time, in the kernel's own time. */
typedef void (*SimEvent) (void *arg, int64_t n);
extern void sim_at(int64_t when, SimEvent event, void *arg, int64_t n);

/* Are all processes of this server parked?  Then nobody is in the middle of anything. */
extern bool sim_all_parked(void);
extern bool sim_is_parked(int slot);

/* When did somebody last stop for long, or a fault last end? */
extern void sim_disturbed(int64_t until);
extern int64_t sim_quiet_since(void);

/* Likewise of stops only. */
extern int64_t sim_unstopped_since(void);

/*
 * Between two steps: the slot of the process that ran last; -1 = none: an event, or time
 * has jumped.
 */
extern int	sim_ran_last(void);

/* ---- memory (process.c) ---- */

/* Shared by all processes of a server, at the same address; zeroed for each schedule. */
extern void *sim_arena_alloc(size_t size);

/*
 * What outlives a crash of this server, as a disk does: by its name, zeroed when it
 * is asked for the first time in a schedule.
 */
extern void *sim_durable(const char *name, size_t size);

/* The first thing in the arena of this server, of whoever sets it up. */
extern void *sim_root;

/* Of the running process; freed with it at the latest. */
extern void *sim_heap_alloc(size_t size);
extern void sim_heap_free(void *p);
extern size_t sim_heap_size(const void *p);

#endif							/* SIM_H */
