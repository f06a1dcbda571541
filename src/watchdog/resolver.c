/*-------------------------------------------------------------------------
 *
 * resolver.c
 *	  Has host names resolved, without waiting for it.
 *
 * getaddrinfo() takes as long as it likes, some 15 s when a name server is
 * away, and nothing ends it before.  The watchdog has leases to renew
 * meanwhile, and a session has to obey signals.  So a process of its own asks,
 * one at a time: a fork of the watchdog that writes the addresses into a pipe
 * and ends.  The pipe is one more thing for which the watchdog's loop sleeps.
 *
 * It is no background worker, because a process that is attached to shared
 * memory must not end in the middle of a library's function: the postmaster
 * takes that for a crash of the server.  A worker would hold up a shutdown
 * until getaddrinfo() returns, and a fault in one of the system's modules for
 * names, or the kernel's lack of memory, would restart the server.  This
 * process first gives up shared memory and all that the watchdog has open; any
 * signal that ends one of the server ends it, and nobody else notices.  It
 * needs no slot for a worker either.
 *
 * The postmaster does not know it, but has its signals reach it: they are sent
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
#include <netdb.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <syslog.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include "storage/fd.h"
#include "storage/pg_shmem.h"
#include "utils/ps_status.h"

#include "store/node.h"
#include "watchdog/resolver.h"
#include "settings.h"

/* A name is resolved at most this often; rarer each time that fails. */
#define INTERVAL_MIN		(1 * LR_US_PER_S)
#define INTERVAL_MAX		(5 * LR_US_PER_S)

/* No answer for so long, in seconds: ask anew. */
#define ANSWER_LIMIT		60

/* One that was killed is gone in no time, but nothing tells us. */
#define REAP_INTERVAL		(10 * LR_US_PER_MS)
#define REAPS_AT_END		100

/* Its descriptors are below that; see close_inherited(). */
#define MAX_DESCRIPTORS		65536

#define FIRST_INHERITED		3	/* after stderr */

typedef struct Resolver
{
	pid_t		pid;			/* of the process that asks; 0 = there is none */
	pgsocket	pipe;			/* its answer; PGINVALID_SOCKET = not awaited */
	uint32		pipe_epoch;		/* changes with each pipe */
	int64		give_up_at;
	uint32		url_hash;		/* of what was asked for */
	int64		interval;
	int64		not_before;		/* the next one */
} Resolver;

static Resolver resolver = {
	.pipe = PGINVALID_SOCKET,
	.interval = INTERVAL_MIN
};

/* ----------
 * The process that asks
 * ----------
 */

/* Without a signal as the reason: the postmaster may inherit this process. */
static void
end_quietly(int signo)
{
	_exit(1);
}

/*
 * take_signals --- every signal that ends a process of the server ends it
 *
 * They are blocked since before the fork.  Not with pqsignal(): its handlers
 * are for processes that PostgreSQL has started.
 */
static void
take_signals(void)
{
	static const int ending[] = {SIGTERM, SIGINT, SIGQUIT, SIGALRM};
	static const int ignored[] = {SIGHUP, SIGUSR1, SIGUSR2};
	struct sigaction action;
	sigset_t	none;

	memset(&action, 0, sizeof(action));
	sigemptyset(&action.sa_mask);
	action.sa_handler = end_quietly;
	for (int i = 0; i < lengthof(ending); i++)
		(void) sigaction(ending[i], &action, NULL);
	action.sa_handler = SIG_IGN;
	for (int i = 0; i < lengthof(ignored); i++)
		(void) sigaction(ignored[i], &action, NULL);

	sigemptyset(&none);
	(void) sigprocmask(SIG_SETMASK, &none, NULL);
}

/*
 * close_inherited --- all but stderr and the pipe, which becomes the first
 *
 * The watchdog's connections must end when the watchdog closes them.  The
 * number of a descriptor is below the most that were ever open, and the server
 * limits that to far less than this.
 */
static void
close_inherited(int pipe_end)
{
	long		limit = sysconf(_SC_OPEN_MAX);

	if (limit < 0 || limit > MAX_DESCRIPTORS)
		limit = MAX_DESCRIPTORS;
	closelog();
	if (pipe_end != FIRST_INHERITED)
		(void) dup2(pipe_end, FIRST_INHERITED);
	for (int fd = FIRST_INHERITED + 1; fd < limit; fd++)
		(void) close(fd);
}

/*
 * leave_server --- be a process that has nothing to do with the server
 */
static void
leave_server(pid_t watchdog, int pipe_end)
{
	take_signals();

	/* Should the watchdog be killed, nobody ends us or needs the answer. */
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

static void
look_up(const RedisUrl *url, NodeAddresses *found)
{
	struct addrinfo hints;
	struct addrinfo *list = NULL;
	char		port[16];
	int			rc;

	memset(&hints, 0, sizeof(hints));
	hints.ai_family = AF_UNSPEC;
	hints.ai_socktype = SOCK_STREAM;
	hints.ai_flags = AI_NUMERICSERV;
	snprintf(port, sizeof(port), "%d", url->port);

	rc = getaddrinfo(url->host, port, &hints, &list);
	if (rc != 0)
	{
		strlcpy(found->error,
				rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc),
				sizeof(found->error));
		return;
	}
	for (struct addrinfo *ai = list; ai != NULL; ai = ai->ai_next)
	{
		if (found->count == LR_MAX_ADDRESSES)
			break;
		if (ai->ai_addrlen > sizeof(found->addr[0]))
			continue;
		memcpy(&found->addr[found->count], ai->ai_addr, ai->ai_addrlen);
		found->addr_len[found->count] = ai->ai_addrlen;
		found->count++;
	}
}

/*
 * ask --- what the process does
 *
 * What it writes is less than a pipe takes at once.
 */
static void
ask(const RedisUrl *url, pid_t watchdog, int pipe_end)
{
	NodeAddresses found;

	StaticAssertStmt(sizeof(found) <= 4096, "answer does not fit into a pipe");

	leave_server(watchdog, pipe_end);
	memset(&found, 0, sizeof(found));
	found.url_hash = node_url_hash(url);
	look_up(url, &found);
	if (write(FIRST_INHERITED, &found, sizeof(found)) != sizeof(found))
		_exit(1);
	_exit(0);
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
	resolver.pipe_epoch++;
}

/*
 * report_failure --- in the view, and of several in a row one in the log
 *
 * The view has it until the next attempt to connect, if addresses are known.
 */
static void
report_failure(const char *why)
{
	char		message[256];

	snprintf(message, sizeof(message),
			 "Could not resolve the host name in lockredis.url: %s.", why);
	node_set_error(STORE_REDIS, message);
	if (resolver.interval == INTERVAL_MIN)
		ereport(LOG,
				(errmsg("lockredis: could not resolve the host name in \"%s\": %s",
						"lockredis.url", why)));
}

/*
 * conclude --- the end of an attempt, good or bad
 */
static void
conclude(const NodeAddresses *found)
{
	if (found->count == 0)
		report_failure(found->error);
	resolver.not_before = lr_now() + resolver.interval;
	resolver.interval = found->count > 0 ? INTERVAL_MIN :
		Min(2 * resolver.interval, INTERVAL_MAX);
	node_publish_addresses(found);
}

static void
conclude_failed(const char *why)
{
	NodeAddresses none;

	memset(&none, 0, sizeof(none));
	none.url_hash = resolver.url_hash;
	strlcpy(none.error, why, sizeof(none.error));
	conclude(&none);
}

static void
conclude_not_started(int error)
{
	char		why[128];

	snprintf(why, sizeof(why), "could not start a process for that: %s",
			 strerror(error));
	conclude_failed(why);
}

/*
 * start --- fork
 *
 * With all signals blocked, so that no handler of the watchdog runs in the
 * new process, where it would set the flags of a copy and touch the latch.
 */
static void
start(const RedisUrl *url)
{
	sigset_t	all;
	sigset_t	before;
	pid_t		watchdog = getpid();
	int			ends[2];
	int			error;

	resolver.url_hash = node_url_hash(url);
	if (!AcquireExternalFD())
	{
		conclude_not_started(EMFILE);
		return;
	}
	if (pipe2(ends, O_CLOEXEC) < 0)
	{
		error = errno;
		ReleaseExternalFD();
		conclude_not_started(error);
		return;
	}
	resolver.pipe = ends[0];
	resolver.pipe_epoch++;
	(void) pg_set_noblock(resolver.pipe);

	sigfillset(&all);
	(void) sigprocmask(SIG_SETMASK, &all, &before);
	resolver.pid = fork();
	error = errno;
	if (resolver.pid == 0)
		ask(url, watchdog, ends[1]);
	(void) sigprocmask(SIG_SETMASK, &before, NULL);
	(void) close(ends[1]);

	if (resolver.pid < 0)
	{
		resolver.pid = 0;
		close_pipe();
		conclude_not_started(error);
		return;
	}
	resolver.give_up_at = lr_now() + ANSWER_LIMIT * LR_US_PER_S;
}

/* ----------
 * The watchdog: its answer
 * ----------
 */

static bool
makes_sense(const NodeAddresses *found)
{
	return found->url_hash == resolver.url_hash &&
		found->count >= 0 && found->count <= LR_MAX_ADDRESSES &&
		memchr(found->error, '\0', sizeof(found->error)) != NULL;
}

/*
 * read_answer --- if it is there, or will not come
 */
static void
read_answer(void)
{
	NodeAddresses found;
	ssize_t		n = read(resolver.pipe, &found, sizeof(found));

	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
	{
		if (lr_now() < resolver.give_up_at)
			return;
		conclude_failed("there was no answer");
	}
	else if (n == sizeof(found) && makes_sense(&found))
		conclude(&found);
	else
		conclude_failed("the process for that ended without an answer");
	close_pipe();

	/* It has ended, or is not to go on. */
	(void) kill(resolver.pid, SIGKILL);
}

static void
reap(void)
{
	if (waitpid(resolver.pid, NULL, WNOHANG) != 0)
		resolver.pid = 0;
}

/*
 * is_needed --- would other addresses help?
 *
 * Not while the node serves us at those that are known: whoever cannot reach it
 * has another problem.  But a node that has become a replica serves us as long
 * as there is nothing to write.
 */
static bool
is_needed(uint32 why, bool connected)
{
	NodeAddresses known;

	if (!redis_url_has_name(lr_redis_url))
		return false;
	return !connected || (why & WANT_MASTER) != 0 ||
		!node_get_addresses(lr_redis_url, &known);
}

void
resolver_step(bool connected)
{
	uint32		why;

	if (resolver.pipe != PGINVALID_SOCKET)
		read_answer();
	if (resolver.pid != 0 && resolver.pipe == PGINVALID_SOCKET)
		reap();
	why = node_addresses_wanted();
	if (resolver.pid != 0 || why == 0)
		return;

	if (!is_needed(why, connected))
		node_drop_wish(why);
	else if (lr_now() >= resolver.not_before)
		start(lr_redis_url);
}

int
resolver_interests(StoreInterest *out, int64 *until, uint32 *epoch)
{
	*epoch = resolver.pipe_epoch;
	*until = LR_NEVER;
	if (resolver.pipe != PGINVALID_SOCKET)
	{
		*until = resolver.give_up_at;
		out->sock = resolver.pipe;
		out->events = WL_SOCKET_READABLE;
		return 1;
	}
	if (resolver.pid != 0)
		*until = lr_now() + REAP_INTERVAL;
	else if (node_addresses_wanted() != 0)
		*until = resolver.not_before;
	return 0;
}

void
resolver_restart(void)
{
	close_pipe();
	if (resolver.pid != 0)
		(void) kill(resolver.pid, SIGKILL);
	resolver.interval = INTERVAL_MIN;
	resolver.not_before = 0;
	node_want_addresses(WANT_REACHABLE);
}

/*
 * resolver_stop --- kill it, and see it dead
 *
 * Otherwise the process with the id 1 inherits it, in a container perhaps the
 * postmaster, which takes the end of a process by a signal for a crash.
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
		reap();
		if (resolver.pid != 0)
			pg_usleep(REAP_INTERVAL);
	}
}
