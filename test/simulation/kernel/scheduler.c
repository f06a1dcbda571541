/*-------------------------------------------------------------------------
 *
 * scheduler.c
 *	  Who runs next, and what time it is.
 *
 * Each process is a coroutine on a stack of its own.  At each step it may have
 * to give way: to another process, or to an event of the kernel (a message that
 * arrives, a fault).  It may also be stopped for a while, as by SIGSTOP or by a
 * machine that has other things to do.  When, and to whom, is decided in
 * strategy.c.  Time goes on by a microsecond with each step, and jumps when nobody
 * can run.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/scheduler.c
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "config.h"
#include "faults.h"
#include "fiber.h"
#include "kernel.h"
#include "meeting.h"
#include "server.h"
#include "site.h"
#include "states.h"
#include "strategy.h"

#define STACK_SIZE	(512 * 1024)
#define MAX_EVENTS	4096

/*
 * A schedule that takes longer than that does not end by itself.  Some of five minutes, in
 * which sessions wait for tokens that others have forgotten while leases of 100 ms are
 * renewed, take 5,000,000.  Several masters or servers are as much more to do, and so are
 * those of a cluster.
 */
#define MAX_STEPS	(10000000 * (sim_config.nservers + sim_config.masters + (sim_config.cluster ? 1 : 0)))
#define MAX_TIME	(3600 * SIM_S)

/*
 * Of one process, between two sleeps, signals or messages: there is never so much to
 * do that it takes more.  While it is stopped, more becomes due: that many steps for each
 * millisecond do not count.
 */
#define MAX_AWAKE	30000
#define DUE_PER_MS	100

#define START_TIME	(1000 * SIM_S)

typedef enum ProcessState
{
	ENDED,
	READY,
	WAITING
} ProcessState;

typedef struct Process
{
	char		name[16];
	int			pid;
	ProcessState state;
	bool		parked;
	bool		begun;
	int64_t		wake_at;
	int64_t		stopped_until;
	uint32_t	awake_for;		/* steps */
	const void *waits_on;
	uint32_t	signals;
	void		(*body) (int slot);
	ucontext_t	context;
	jmp_buf		jump;
	char	   *stack;
	void	   *kept;			/* of the stack, by a sanitizer */
} Process;

typedef struct Event
{
	int64_t		when;
	uint64_t	seq;
	int			server;			/* that was meant when it was set up */
	SimEvent	run;
	void	   *arg;
	int64_t		n;
} Event;

static Process processes[SIM_MAX_PROCS];
static int	current = -1;
static int	ran_last = -1;

/* The server of a process follows from its number. */
#define FIRST_PID	102

static int	next_pid;
static int64_t now = START_TIME;
static int64_t quiet_since;
static int64_t unstopped_since;
static uint64_t steps;
static bool event_is_next;	/* whatever else there is */

static Event events[MAX_EVENTS];
static int	nevents;
static uint64_t next_seq;

static jmp_buf main_jump;
static jmp_buf try_jump;

/* The stack of the kernel, and on whose one we are (-1: that). */
static const void *main_stack;
static size_t main_stack_size;
static int	on_stack_of = -1;

uint64_t	scheduler_steps;
uint64_t	scheduler_switches;
void		(*scheduler_check) (void);

void
scheduler_reset(void)
{
	for (int i = 0; i < SIM_MAX_PROCS; i++)
		processes[i].state = ENDED;
	current = ran_last = -1;
	next_pid = FIRST_PID;
	now = START_TIME;
	quiet_since = unstopped_since = 0;
	steps = 0;
	nevents = 0;
	next_seq = 0;
	event_is_next = false;
	schedule_digest = 0;
	strategy_reset();
}

int64_t
sim_now(void)
{
	return now;
}

void
sim_pass(int64_t us)
{
	now += us;
}

int
sim_slot(void)
{
	return current;
}

int
sim_ran_last(void)
{
	return ran_last;
}

int
server_of_pid(int pid)
{
	return (pid - FIRST_PID) % SIM_MAX_SERVERS;
}

int
sim_pid(void)
{
	return current < 0 ? 100 : processes[current].pid;
}

const char *
process_name(void)
{
	return current < 0 ? "-" : processes[current].name;
}

bool
process_has_on_stack(const void *p)
{
	const char *stack = processes[current].stack;

	return (const char *) p >= stack && (const char *) p < stack + STACK_SIZE - 16;
}

/* 0 = it does not run. */
int
process_pid(int slot)
{
	return processes[slot].state == ENDED ? 0 : processes[slot].pid;
}

bool
process_is_running(int slot)
{
	return processes[slot].state != ENDED;
}

void
sim_disturbed(int64_t until)
{
	if (until > quiet_since)
		quiet_since = until;
}

int64_t
sim_quiet_since(void)
{
	return quiet_since;
}

int64_t
sim_unstopped_since(void)
{
	return unstopped_since;
}

/* ----------
 * Events
 * ----------
 */

void
sim_at(int64_t when, SimEvent run, void *arg, int64_t n)
{
	Event	   *e;

	if (nevents == MAX_EVENTS)
		sim_fail("simulator", "too many events");
	e = &events[nevents++];
	e->when = when;
	e->seq = next_seq++;
	e->server = sim_server();
	e->run = run;
	e->arg = arg;
	e->n = n;
}

static Event *
first_event(void)
{
	Event	   *first = NULL;

	for (int i = 0; i < nevents; i++)
		if (first == NULL || events[i].when < first->when ||
			(events[i].when == first->when && events[i].seq < first->seq))
			first = &events[i];
	return first;
}

static void
run_event(Event *event)
{
	Event		e = *event;

	*event = events[--nevents];
	memory_of(e.server);
	e.run(e.arg, e.n);
}

/* ----------
 * Switching
 * ----------
 */

static void
back_to_main(void)
{
	Process    *p = &processes[current];

	scheduler_switches++;
	if (_setjmp(p->jump) == 0)
	{
		fiber_leaves(&p->kept, main_stack, main_stack_size);
		_longjmp(main_jump, 1);
	}
	fiber_is_back(p->kept, &main_stack, &main_stack_size);
}

static void
entry(int slot)
{
	fiber_is_back(NULL, &main_stack, &main_stack_size);
	processes[slot].body(slot);
	sim_exit(0);
}

/* Run a process until it gives way. */
static void
resume(int slot)
{
	Process    *p = &processes[slot];
	static void *kept;

	current = on_stack_of = slot;
	memory_of(server_of(slot));
	if (_setjmp(main_jump) == 0)
	{
		fiber_leaves(&kept, p->stack, STACK_SIZE);
		if (p->begun)
			_longjmp(p->jump, 1);
		p->begun = true;
		getcontext(&p->context);
		p->context.uc_stack.ss_sp = p->stack;
		p->context.uc_stack.ss_size = STACK_SIZE;
		p->context.uc_link = NULL;
		makecontext(&p->context, (void (*) (void)) entry, 1, slot);
		setcontext(&p->context);
	}
	fiber_is_back(kept, NULL, NULL);
	current = on_stack_of = -1;
}

/* The schedule is over: nothing that runs now goes on. */
void
scheduler_leave(void)
{
	if (on_stack_of >= 0)
		fiber_leaves(NULL, main_stack, main_stack_size);
	_longjmp(try_jump, 1);
}

bool
scheduler_try(void (*body) (void))
{
	if (_setjmp(try_jump) != 0)
	{
		if (on_stack_of >= 0)
			fiber_is_back(NULL, NULL, NULL);
		current = on_stack_of = -1;
		return false;
	}
	body();
	return true;
}

/* ----------
 * Signals
 * ----------
 */

void		(*process_signal[SIM_MAX_PROCS]) (int signo);

static Process *
process_of(int pid)
{
	for (int i = 0; i < SIM_MAX_PROCS; i++)
		if (processes[i].state != ENDED && processes[i].pid == pid)
			return &processes[i];
	return NULL;
}

static void
make_ready(Process *p)
{
	if (p->state == WAITING)
	{
		p->state = READY;
		strategy_is_ready((int) (p - processes));
	}
	p->waits_on = NULL;
}

int
sim_kill(int pid, int signo)
{
	Process    *p = process_of(pid);

	if (p == NULL)
		return -1;
	sim_trace("signal %d to %s", signo, p->name);
	p->signals |= UINT32_C(1) << signo;

	/* A lock is waited for without looking at signals. */
	if (p->waits_on == NULL)
		make_ready(p);
	return 0;
}

/* The handlers of the running process. */
static void
take_signals(void)
{
	Process    *p = &processes[current];

	while (p->signals != 0)
	{
		int			signo = __builtin_ctz(p->signals);

		p->signals &= p->signals - 1;
		p->awake_for = 0;
		process_signal[current] (signo);
	}
}

/* ----------
 * Steps
 * ----------
 */

/* Where it is in src/, for the trace. */
static const char *
where(void)
{
	Site		site;

	if (!sim_tracing)
		return "";
	site_here(&site);
	return site_name(&site);
}

/* The last steps of one that goes round and round say where. */
#define LAST_STEPS	150

static void
count_step(const char *what)
{
	Process    *p = &processes[current];

	scheduler_steps++;
	if (++steps > MAX_STEPS)
		sim_fail("endless", "no end after %d steps", MAX_STEPS);
	if (++p->awake_for > MAX_AWAKE)
		sim_fail("does not sleep", "%s has made %d steps without a sleep", p->name, MAX_AWAKE);
	if (sim_tracing && p->awake_for > MAX_AWAKE - LAST_STEPS)
		sim_trace("is at %s in %s", what, where());
	now++;
}

void		(*process_stalls) (int slot);

/* The running process is stopped, as by SIGSTOP or by a busy machine. */
static void
stop_here(const Stop *stop, const char *what)
{
	Process    *p = &processes[current];

	if (stop->fault)
	{
		sim_trace("a fault comes (at %s in %s)", what, where());
		if (stop->which != NULL)
			faults_strike(stop->which);
		else
			faults_strike_now();
		event_is_next = true;
	}
	if (stop->length > 0)
	{
		int64_t		due = stop->length * DUE_PER_MS / SIM_MS;

		p->awake_for -= due < p->awake_for ? due : p->awake_for;
		p->stopped_until = now + stop->length;
		sim_trace("is stopped for %.3f ms (at %s in %s)", stop->length / 1000.0, what,
				  where());
		if (stop->length >= 10 * SIM_MS)
		{
			sim_disturbed(p->stopped_until);
			if (p->stopped_until > unstopped_since)
				unstopped_since = p->stopped_until;
		}

		/* Others see what it wrote, unless it is only a moment. */
		if (process_stalls != NULL && !stop->keeps_writes)
			process_stalls(current);
	}
	back_to_main();
}

void
process_goes_on(int slot)
{
	Process    *p = &processes[slot];

	if (p->state == ENDED || p->stopped_until <= now)
		return;
	sim_trace("%s goes on", p->name);
	p->stopped_until = now;
}

void
sim_yield(const char *what)
{
	Process    *p;
	Stop		stop;

	if (current < 0)
		return;
	p = &processes[current];
	count_step(what);
	if (strategy_stops(&stop))
		stop_here(&stop, what);
	else if (strategy_gives_way(current, steps))
	{
		if (trace_switches)
			sim_trace("gives way (at %s in %s)", what, where());
		back_to_main();
	}
	if (p->signals != 0)
		take_signals();
}

void
sim_block(int64_t until, bool parked, const char *what)
{
	Process    *p = &processes[current];

	if (current < 0)
	{
		fprintf(stderr, "the kernel cannot sleep (%s)\n", what);
		abort();
	}
	count_step(what);
	meeting_look();
	if (p->signals == 0)
	{
		if (until >= SIM_NEVER)
			sim_trace("sleeps (%s)", what);
		else
			sim_trace("sleeps (%s, %.3f ms)", what, (until - now) / 1000.0);
		p->state = WAITING;
		p->wake_at = until;
		p->awake_for = 0;
		p->parked = parked;
		back_to_main();
		p->parked = false;
	}
	if (p->signals != 0)
		take_signals();
}

void
sim_wake(int pid)
{
	Process    *p = process_of(pid);

	if (p != NULL && p->waits_on == NULL)
	{
		if (current >= 0 && p->state == WAITING)
			sim_trace("wakes %s", p->name);
		make_ready(p);
	}
}

void
sim_block_on(const void *object, const char *what)
{
	Process    *p = &processes[current];

	count_step(what);
	sim_trace("waits for %s in %s", what, where());
	p->state = WAITING;
	p->wake_at = SIM_NEVER;
	p->waits_on = object;
	back_to_main();
}

void
sim_wake_on(const void *object)
{
	for (int i = 0; i < SIM_MAX_PROCS; i++)
		if (processes[i].state == WAITING && processes[i].waits_on == object)
			make_ready(&processes[i]);
}

void
scheduler_has_read(void)
{
	if (current >= 0)
		processes[current].awake_for = 0;
}

bool
sim_is_parked(int slot)
{
	return processes[slot].state == ENDED || processes[slot].parked;
}

bool
sim_all_parked(void)
{
	for (int i = 0; i < SIM_MAX_PROCS; i++)
		if (server_of(i) == sim_server() && !sim_is_parked(i))
			return false;
	return true;
}

/* ----------
 * Begin and end
 * ----------
 */

static void
begin(void *arg, int64_t slot)
{
	Process    *p = &processes[slot];

	copy_restore(slot);
	heap_free_all(slot);
	if (p->stack == NULL)
		p->stack = malloc(STACK_SIZE);
	fiber_forget(p->stack, STACK_SIZE);
	p->pid = next_pid + server_of(slot);
	next_pid += SIM_MAX_SERVERS;
	p->state = READY;
	p->begun = false;
	p->parked = false;
	p->stopped_until = 0;
	p->awake_for = 0;
	p->waits_on = NULL;
	p->signals = 0;
	sim_trace("%s starts, pid %d", p->name, p->pid);
}

void
process_start(int slot, const char *name, void (*body) (int slot), int64_t when)
{
	snprintf(processes[slot].name, sizeof(processes[slot].name), "%s", name);
	processes[slot].body = body;
	if (when > now)
		sim_at(when, begin, NULL, slot);
	else
		begin(NULL, slot);
}

/* What it wrote is seen; nothing that waits for it is told. */
void
process_vanish(int slot)
{
	if (process_stalls != NULL)
		process_stalls(slot);
	sim_trace("%s vanishes", processes[slot].name);
	processes[slot].state = ENDED;
}

void		(*process_ended) (int slot, int code);

void
sim_exit(int code)
{
	int			slot = current;

	sim_trace("ends with %d", code);
	processes[slot].state = ENDED;
	current = -1;
	if (process_ended != NULL)
		process_ended(slot, code);
	current = slot;
	fiber_leaves(NULL, main_stack, main_stack_size);
	_longjmp(main_jump, 1);
}

/* ----------
 * The loop
 * ----------
 */

static bool
can_run(Process *p)
{
	if (p->state == WAITING && p->wake_at <= now)
		make_ready(p);
	return p->state == READY && p->stopped_until <= now;
}

/* When will there be something to do? */
static int64_t
next_time(void)
{
	int64_t		next = SIM_NEVER;
	Event	   *e = first_event();

	if (e != NULL)
		next = e->when;
	for (int i = 0; i < SIM_MAX_PROCS; i++)
	{
		Process    *p = &processes[i];
		int64_t		t;

		if (p->state == ENDED)
			continue;
		t = p->state == WAITING ? p->wake_at : p->stopped_until;
		if (t < p->stopped_until)
			t = p->stopped_until;
		if (t < next)
			next = t;
	}
	return next;
}

/*
 * Somebody, or -1: the first event.  False: nobody now.  The last one goes on if
 * the draw is 0.
 */
static bool
choose(int last, int *who)
{
	int			candidate[SIM_MAX_PROCS + 1];
	int			n = 0;
	Event	   *e = first_event();

	for (int i = 0; i < SIM_MAX_PROCS; i++)
	{
		int			slot = (i + (last < 0 ? 0 : last)) % SIM_MAX_PROCS;

		if (can_run(&processes[slot]))
			candidate[n++] = slot;
	}
	if (e != NULL && e->when <= now)
	{
		candidate[n++] = -1;
		if (event_is_next)
		{
			event_is_next = false;
			*who = -1;
			return true;
		}
	}
	if (n == 0)
		return false;
	*who = strategy_choose(candidate, n);
	return true;
}

bool
scheduler_run(bool (*done) (void))
{
	int			last = -1;

	while (!done())
	{
		int			who;

		scheduler_check();
		if (!choose(last, &who))
		{
			int64_t		next = next_time();

			if (next >= SIM_NEVER)
				return false;
			now = next > now ? next : now + 1;
			ran_last = -1;
			if (now > START_TIME + MAX_TIME)
				sim_fail("endless", "no end after an hour");
			continue;
		}
		digest_add((uint64_t) now << 8 | (uint8_t) who);
		if (who < 0)
			run_event(first_event());
		else
			resume(who);
		last = ran_last = who;
	}
	return true;
}
