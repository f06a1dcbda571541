/*-------------------------------------------------------------------------
 *
 * process.c
 *	  Begin and end of a process, and shared memory.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/backend/process.c
 *
 *-------------------------------------------------------------------------
 */
#include "backend.h"

#include <signal.h>

#include "commands/extension.h"
#include "postmaster/bgworker.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "utils/memutils.h"

#include "../kernel/network.h"
#include "../kernel/server.h"
#include "heap.h"
#include "relations.h"
#include "strangers.h"

#define CALLBACKS_MAX 8

typedef struct Callback
{
	pg_on_exit_callback function;
	Datum		arg;
} Callback;

int			MaxBackends = SIM_MAX_PROCS;
int			MyProcPid = 0;
Oid			MyDatabaseId = 5;
PGPROC	   *MyProc = NULL;
#if PG_VERSION_NUM >= 170000
ProcNumber	MyProcNumber = INVALID_PROC_NUMBER;
#endif
struct Latch *MyLatch = NULL;
PROC_HDR   *ProcGlobal = NULL;
bool		IsUnderPostmaster = false;
bool		IsBinaryUpgrade = false;
int			ParallelWorkerNumber = -1;
int			LockTimeout = 0;
char	   *cluster_name = "";
int			DeadlockTimeout = 1000;
bool		log_lock_waits = false;
bool		backend_exiting = false;
bool		proc_exit_inprogress = false;
bool		creating_extension = false;
bool		process_shared_preload_libraries_in_progress = false;
bool		InitializingParallelWorker = false;
shmem_request_hook_type shmem_request_hook = NULL;
shmem_startup_hook_type shmem_startup_hook = NULL;

static Callback before_exit[CALLBACKS_MAX];
static int	nbefore = 0;
static Callback at_exit[CALLBACKS_MAX];
static int	nat = 0;

extern void _PG_init(void);

/* ----------
 * Shared memory
 * ----------
 */

Size
add_size(Size a, Size b)
{
	return a + b;
}

Size
mul_size(Size a, Size b)
{
	return a * b;
}

void
RequestAddinShmemSpace(Size size)
{
}

void *
ShmemInitStruct(const char *name, Size size, bool *found)
{
	SimShared  *root = shared_root;

	for (int i = 0; i < root->nstructs; i++)
		if (strcmp(root->structs[i].name, name) == 0)
		{
			*found = true;
			return root->structs[i].start;
		}
	*found = false;
	Assert(root->nstructs < (int) lengthof(root->structs));
	strlcpy(root->structs[root->nstructs].name, name, sizeof(root->structs[0].name));
	return root->structs[root->nstructs++].start = sim_arena_alloc(size);
}

static void
load_library(void)
{
	process_shared_preload_libraries_in_progress = true;
	_PG_init();
	process_shared_preload_libraries_in_progress = false;
}

static void
make_contexts(void)
{
	TopMemoryContext = AllocSetContextCreateInternal(NULL, "top", 0, 0, 0);
	CurrentMemoryContext = TopMemoryContext;
}

/*
 * sim_postmaster_init --- called by the kernel, in the copy that observes
 *
 * Shared memory is made; the observer stays attached to it.
 */
extern void sim_postmaster_init(void);

void
sim_postmaster_init(void)
{
	SimShared  *root = sim_root = sim_arena_alloc(sizeof(SimShared));

	root->main_locks = sim_arena_alloc(sizeof(LWLockPadded) * NUM_FIXED_LWLOCKS);
	root->proc_global.allProcs = sim_arena_alloc(sizeof(PGPROC) * SIM_MAX_PROCS);
	root->proc_global.allProcCount = SIM_MAX_PROCS;
	for (int i = 0; i < SIM_MAX_PROCS; i++)
	{
#if PG_VERSION_NUM < 170000
		root->proc_global.allProcs[i].pgprocno = i;
#endif
	}
	MainLWLockArray = root->main_locks;
	ProcGlobal = &root->proc_global;
	make_contexts();
	transam_init();
	transam_recover();
	heavy_locks_init();
	rows_init();
	prepared_init();
	versions_init();
	relations_init();
	strangers_init();
	load_library();
	shmem_request_hook();
	shmem_startup_hook();
}

void
backend_init(void)
{
	int			slot = sim_slot();

	MyProcPid = sim_pid();
	IsUnderPostmaster = true;
	ProcGlobal = &shared_root->proc_global;
	MainLWLockArray = shared_root->main_locks;
	MyProc = &ProcGlobal->allProcs[slot];
#if PG_VERSION_NUM >= 170000
	MyProcNumber = slot;
#endif
	MyProc->pid = MyProcPid;
	MyProc->procLatch.is_set = true;
	MyProc->procLatch.is_shared = true;
	MyProc->procLatch.owner_pid = MyProcPid;
	MyLatch = &MyProc->procLatch;
	DeadlockTimeout = sim_config.deadlock_timeout_ms;
	MyProc->waitLock = NULL;
	make_contexts();
	transam_init();
	heavy_locks_init();
	rows_init();
	prepared_init();
	versions_init();
	relations_init();
	strangers_init();
	load_library();
	shmem_startup_hook();
}

/* ----------
 * The end
 * ----------
 */

void
before_shmem_exit(pg_on_exit_callback function, Datum arg)
{
	Assert(nbefore < CALLBACKS_MAX);
	before_exit[nbefore].function = function;
	before_exit[nbefore++].arg = arg;
}

void
on_shmem_exit(pg_on_exit_callback function, Datum arg)
{
	Assert(nat < CALLBACKS_MAX);
	at_exit[nat].function = function;
	at_exit[nat++].arg = arg;
}

void
proc_exit(int code)
{
	backend_exiting = proc_exit_inprogress = true;
	InterruptPending = false;
	ProcDiePending = false;
	QueryCancelPending = false;
	InterruptHoldoffCount = 1;
	CritSectionCount = 0;
	error_context_stack = NULL;
	sim_trace("begins to end");

	while (--nbefore >= 0)
		before_exit[nbefore].function(code, before_exit[nbefore].arg);
	while (--nat >= 0)
	{
		backend_must_not_raise = "at the end of a process";
		at_exit[nat].function(code, at_exit[nat].arg);
	}

	/* ProcKill */
	backend_release_locks();
	backend_drain();
	MyProc->procLatch.owner_pid = 0;
	MyProc->pid = 0;
	net_owner_ended(MyProcPid);
	sim_exit(code);
}

/* kill(2) in the product */
extern int	__wrap_kill(pid_t pid, int signo);

int
__wrap_kill(pid_t pid, int signo)
{
	sim_yield("kill");
	backend_drain();
	return sim_kill(pid, signo);
}

/* clock_gettime(2) in the product */
extern int	__wrap_clock_gettime(clockid_t id, struct timespec *ts);

int
__wrap_clock_gettime(clockid_t id, struct timespec *ts)
{
	int64		now;

	sim_yield("clock");
	now = server_clock();
	ts->tv_sec = now / SIM_S;
	ts->tv_nsec = now % SIM_S * 1000;
	return 0;
}

/* ----------
 * Background workers
 * ----------
 */

void
RegisterBackgroundWorker(BackgroundWorker *worker)
{
}

void
BackgroundWorkerUnblockSignals(void)
{
}
