/*-------------------------------------------------------------------------
 *
 * kernel.h
 *	  Between the files of the kernel.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/kernel.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_KERNEL_H
#define SIM_KERNEL_H

#include "sim.h"

/* ---- choice.c ---- */

/* Of each process and the kernel: what it draws, and what the strategy draws for it. */
#define CHOICE_STREAMS	(2 * (SIM_MAX_PROCS + 1))

/* What belongs together begins with this one: a statement, a fault. */
#define CHOICE_BEGINS	UINT32_C(0x80000000)

typedef struct ChoiceStream
{
	uint32_t   *choice;
	uint32_t	n;
	uint32_t	size;
} ChoiceStream;

typedef struct ChoiceLog
{
	ChoiceStream stream[CHOICE_STREAMS];
} ChoiceLog;

/* From now on the strategy draws, or no more. */
extern void choices_of_strategy(bool yes);

/* Draw from the seed; or what the log says, and 0 behind the end of a stream. */
extern void choices_from_seed(uint64_t seed);
extern void choices_from_log(const ChoiceLog *log);

/* What was drawn. */
extern const ChoiceLog *choices_made(void);
extern void choice_log_copy(ChoiceLog *to, const ChoiceLog *from);

/* ---- trace.c ---- */

extern void trace_begin(bool tracing);
extern const char *trace_text(void);

/* Lines that the schedule has, traced or not. */
extern uint32_t trace_lines;

/* Each change of processes is traced too: only where there are few. */
extern bool trace_switches;

typedef struct Failure
{
	bool		failed;
	char		check[64];
	char		message[512];
} Failure;

extern Failure failure;
extern void reached_report(void);

/* ---- process.c ---- */

/* Copies of the product, one for each process and one that observes each server. */
extern void copies_load(const char *path);
extern void *copy_symbol(int copy, const char *name);
extern uintptr_t copy_base(int copy);
extern void copy_restore(int copy);

/* From now on the memory of that server is meant, by all that names none. */
extern void memory_of(int server);
extern void arena_reset(void);
extern void durable_reset(void);
extern void heap_free_all(int slot);

/* Those that observe, after those of the processes. */
#define OBSERVER(server)	(SIM_MAX_PROCS + (server))
#define COPIES				(SIM_MAX_PROCS + SIM_MAX_SERVERS)

/* ---- scheduler.c ---- */

extern void scheduler_reset(void);

/* A process begins in this slot at that time. */
extern void process_start(int slot, const char *name, void (*body) (int slot), int64_t when);
extern bool process_is_running(int slot);
extern int	process_pid(int slot);	/* 0 = it does not run */

/* It is stopped no more. */
extern void process_goes_on(int slot);

/* It is not there any more, in the middle of whatever it was doing. */
extern void process_vanish(int slot);

/* Does that lie on the stack of the running process? */
extern bool process_has_on_stack(const void *p);

/* Called between any two steps, and before time jumps. */
extern void (*scheduler_check) (void);

/* Run until "done" says so; false: nobody can go on. */
extern bool scheduler_run(bool (*done) (void));

/* The running process got something to do. */
extern void scheduler_has_read(void);

extern uint64_t scheduler_steps;
extern uint64_t scheduler_switches;

/* Call it; false: something failed in it. */
extern bool scheduler_try(void (*body) (void));
extern void scheduler_leave(void) __attribute__((noreturn));

/* Of each process: what its handlers are called through, and what else its
 * machine does. */
extern void (*process_signal[SIM_MAX_PROCS]) (int signo);
extern void (*process_ended) (int slot, int code);
extern void (*process_stalls) (int slot);

#endif							/* SIM_KERNEL_H */
