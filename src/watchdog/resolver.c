/*-------------------------------------------------------------------------
 *
 * resolver.c
 *	  Has host names resolved, without waiting for it.
 *
 * getaddrinfo() cannot be interrupted, and takes some 15 s when a name server is
 * away.  The watchdog has leases to renew meanwhile, and a session has to react to
 * signals.  So a separate process asks, one at a time: a fork of the watchdog that
 * writes the addresses to a pipe and ends.  The watchdog's loop waits for the pipe
 * as for its other sockets.
 *
 * It is no background worker, because a process that is attached to shared
 * memory must not end in the middle of a library's function: the postmaster
 * takes that for a crash of the server.  A worker would hold up a shutdown
 * until getaddrinfo() returns, and a fault in one of the system's modules for
 * names, or the kernel's lack of memory, would restart the server.  This
 * process first detaches from shared memory and closes all that the watchdog has
 * open.  Signals that end processes of the server end it, too, and nobody notices.
 * It needs no slot for a worker either.
 *
 * The postmaster does not know this process, but its signals reach it: they are sent
 * to the watchdog's process group.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/watchdog/resolver.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <syslog.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include "storage/fd.h"
#include "storage/pg_shmem.h"
#include "utils/ps_status.h"

#include "settings.h"
#include "store/nodes.h"
#include "watchdog/watchdog.h"

/* Least interval between attempts for a name; it doubles with each failure. */
#define INTERVAL_MIN		(1 * LR_US_PER_S)
#define INTERVAL_MAX		(5 * LR_US_PER_S)
#define INTERVAL_DOUBLED	3

/* Seconds without an answer after which we ask again. */
#define ANSWER_LIMIT		60

/* A killed process ends at once, but nothing notifies us. */
#define REAP_INTERVAL		(10 * LR_US_PER_MS)
#define REAPS_AT_END		100

/* The new process closes descriptors below this; see close_inherited(). */
#define MAX_DESCRIPTORS		65536

#define FIRST_INHERITED		3	/* after stderr */

typedef struct Resolver
{
	pid_t		pid;			/* of the process; 0 = there is none */
	pgsocket	pipe;			/* for its answer; PGINVALID_SOCKET = none */
	int64		give_up_at;
	uint32		question;		/* number of the request */
	AddressWish wish;			/* the request */
} Resolver;

static Resolver resolver = {
	.pipe = PGINVALID_SOCKET
};

/* ----------
 * The process that asks
 * ----------
 */

/* End without a signal as the reason: the postmaster may inherit this process. */
static void
end_quietly(int signo)
{
	_exit(1);
}

/*
 * take_signals --- let SIGTERM and SIGALRM end this process
 *
 * All have been blocked since before the fork, and the others remain so: they are for the
 * watchdog.  pqsignal() will not do: its handlers are for processes that PostgreSQL has
 * started.
 */
static void
take_signals(void)
{
	struct sigaction action;
	sigset_t	ending;

	memset(&action, 0, sizeof(action));
	action.sa_handler = end_quietly;
	(void) sigaction(SIGTERM, &action, NULL);
	(void) sigaction(SIGALRM, &action, NULL);
	sigemptyset(&ending);
	sigaddset(&ending, SIGTERM);
	sigaddset(&ending, SIGALRM);
	(void) sigprocmask(SIG_UNBLOCK, &ending, NULL);
}

/*
 * close_inherited --- close all but stderr and the pipe
 *
 * The watchdog's connections must end when the watchdog closes them.  The server limits
 * its open files to far less than MAX_DESCRIPTORS, so no descriptor is above that.
 */
static void
close_inherited(int pipe_end)
{
	long		limit = sysconf(_SC_OPEN_MAX);

	if (limit < 0 || limit > MAX_DESCRIPTORS)
		limit = MAX_DESCRIPTORS;
	closelog();
	for (int fd = FIRST_INHERITED; fd < limit; fd++)
		if (fd != pipe_end)
			(void) close(fd);
}

/*
 * leave_server --- become a process that has nothing to do with the server
 */
static void
leave_server(pid_t watchdog, int pipe_end)
{
	take_signals();

	/* If the watchdog is killed, nobody ends this process or needs its answer. */
	(void) alarm(2 * ANSWER_LIMIT);
#ifdef PR_SET_PDEATHSIG
	(void) prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != watchdog)
		_exit(1);
#endif
	init_ps_display("lockredis resolver");
	PGSharedMemoryDetach();
	close_inherited(pipe_end);
}

/*
 * answer_question --- the main function of the new process; does not return
 *
 * The answer fits into a pipe at once.
 */
static void
answer_question(pid_t watchdog, int pipe_end)
{
	NodeAddresses found;

	StaticAssertStmt(sizeof(found) <= 4096, "answer does not fit into a pipe");

	leave_server(watchdog, pipe_end);
	addresses_look_up(resolver.wish.host, resolver.wish.port, 0, &found);
	_exit(write(pipe_end, &found, sizeof(found)) == sizeof(found) ? 0 : 1);
}

/* ----------
 * The watchdog: starting it
 * ----------
 */

static void
close_pipe(void)
{
	if (resolver.pipe == PGINVALID_SOCKET)
		return;
	(void) close(resolver.pipe);
	ReleaseExternalFD();
	resolver.pipe = PGINVALID_SOCKET;
}

/*
 * report_failure --- show a failure in the view, and log the first of several in a row
 *
 * The view shows it until the next attempt to connect, if addresses are known.
 */
static void
report_failure(const char *why)
{
	char		message[256];

	snprintf(message, sizeof(message),
			 "Could not resolve the host name in lockredis.url: %s.", why);
	node_set_error(resolver.wish.node, "", message);
	if (resolver.wish.failures == 0)
		ereport(LOG,
				(errmsg("lockredis: could not resolve the host name in \"%s\": %s",
						"lockredis.url", why)));
}

/*
 * conclude_asking --- the end of an attempt, successful or not
 */
static void
conclude_asking(const NodeAddresses *found)
{
	if (found->count == 0)
		report_failure(found->error);
	addresses_publish(&resolver.wish, found);
}

/*
 * conclude_failure --- there is no answer; with the errno, if the process could not be started
 */
static void
conclude_failure(const char *why, int error)
{
	NodeAddresses none;

	memset(&none, 0, sizeof(none));
	snprintf(none.error, sizeof(none.error), "%s%s%s", why, error != 0 ? ": " : "",
			 error != 0 ? strerror(error) : "");
	conclude_asking(&none);
}

/*
 * start_asking --- fork the process that asks
 *
 * All signals are blocked, so that no handler of the watchdog runs in the new process,
 * where it would set flags of a copy and touch the latch.
 */
static void
start_asking(const AddressWish *wish)
{
	static const char *const not_started = "could not start a process for that";
	sigset_t	all;
	sigset_t	before;
	pid_t		watchdog = getpid();
	int			ends[2];
	int			error;

	resolver.question++;
	resolver.wish = *wish;
	if (!AcquireExternalFD())
	{
		conclude_failure(not_started, EMFILE);
		return;
	}
	if (pipe2(ends, O_CLOEXEC) < 0)
	{
		error = errno;
		ReleaseExternalFD();
		conclude_failure(not_started, error);
		return;
	}
	resolver.pipe = ends[0];
	(void) pg_set_noblock(resolver.pipe);

	sigfillset(&all);
	(void) sigprocmask(SIG_SETMASK, &all, &before);
	resolver.pid = fork();
	error = errno;
	if (resolver.pid == 0)
		answer_question(watchdog, ends[1]);
	(void) sigprocmask(SIG_SETMASK, &before, NULL);
	(void) close(ends[1]);

	if (resolver.pid < 0)
	{
		resolver.pid = 0;
		close_pipe();
		conclude_failure(not_started, error);
		return;
	}
	resolver.give_up_at = lr_now() + ANSWER_LIMIT * LR_US_PER_S;
}

/* ----------
 * The watchdog: its answer
 * ----------
 */

/*
 * read_answer --- read the answer if it has come, or find that it will not come
 */
static void
read_answer(void)
{
	NodeAddresses found;
	ssize_t		n = read(resolver.pipe, &found, sizeof(found));

	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) &&
		lr_now() < resolver.give_up_at)
		return;
	if (n == sizeof(found))
		conclude_asking(&found);
	else
		conclude_failure("there was no answer", 0);
	close_pipe();

	/* The process is about to end, or must end now: it may be stopped. */
	(void) kill(resolver.pid, SIGKILL);
}

static void
reap_asker(void)
{
	if (waitpid(resolver.pid, NULL, WNOHANG) != 0)
		resolver.pid = 0;
}

/*
 * when_to_ask --- when to ask for this name again
 */
static int64
when_to_ask(const AddressWish *wish)
{
	int64		interval = INTERVAL_MIN;

	if (wish->concluded_at == 0)
		return 0;
	if (wish->failures > 0)
		interval <<= Min(wish->failures - 1, INTERVAL_DOUBLED);
	return wish->concluded_at + Min(interval, INTERVAL_MAX);
}

/*
 * next_wish --- the name to resolve next, and when; LR_NEVER if none is wanted
 */
static int64
next_wish(AddressWish *first)
{
	AddressWish wish;
	int64		first_at = LR_NEVER;

	for (int i = 0; i < ADDRESSES_MAX; i++)
		if (addresses_wish(i, &wish) && when_to_ask(&wish) < first_at)
		{
			first_at = when_to_ask(&wish);
			*first = wish;
		}
	return first_at;
}

void
resolver_step(void)
{
	AddressWish wish;

	if (resolver.pipe != PGINVALID_SOCKET)
		read_answer();
	if (resolver.pid != 0 && resolver.pipe == PGINVALID_SOCKET)
		reap_asker();
	if (resolver.pid == 0 && next_wish(&wish) <= lr_now())
		start_asking(&wish);
}

/*
 * resolver_interests --- the pipe, or until when there is nothing to do
 */
void
resolver_interests(StoreInterests *in)
{
	AddressWish wish;

	/* Sockets are numbered upwards, so a pipe is numbered downwards. */
	if (resolver.pipe != PGINVALID_SOCKET)
	{
		store_wait_until(in, resolver.give_up_at);
		store_wait_for(in, resolver.pipe, WL_SOCKET_READABLE,
					   PG_UINT32_MAX - resolver.question);
	}
	else
		store_wait_until(in, resolver.pid != 0 ? lr_now() + REAP_INTERVAL :
						 next_wish(&wish));
}

/* It does so at once, abandoning a request under way. */
void
resolver_restart(NodeId node, bool moved)
{
	const RedisUrl *urls = lr_redis_url;
	int			n = Max(lr_nmasters, 1);

	close_pipe();
	if (resolver.pid != 0)
		(void) kill(resolver.pid, SIGKILL);
	addresses_restart(urls, n, moved);
	for (int i = 0; i < n; i++)
		if (redis_url_has_name(&urls[i]))
			addresses_want(lr_nmasters > 0 ? NODE_MASTER + i : node, urls[i].at.host,
						   urls[i].at.port, true);
}

/*
 * resolver_stop --- kill the process, and wait until it is gone
 *
 * Otherwise process 1 inherits it.  In a container that may be the postmaster, which
 * takes the end of a process by a signal for a crash.
 */
void
resolver_stop(void)
{
	close_pipe();
	if (resolver.pid == 0)
		return;
	(void) kill(resolver.pid, SIGKILL);
	for (int i = 0; i < REAPS_AT_END && resolver.pid != 0; i++)
	{
		reap_asker();
		if (resolver.pid != 0)
			pg_usleep(REAP_INTERVAL);
	}
}
