/*-------------------------------------------------------------------------
 *
 * clockshift.c
 *	  A library to be preloaded that shifts the wall clock of a program.
 *
 * The shift, in nanoseconds, stands in a file that is mapped: TORTURE_CLOCK.
 * Only CLOCK_REALTIME, gettimeofday and time are shifted; the monotonic clocks
 * go on as they are, as they do when an administrator sets the clock.
 *
 * The calls go to libc, which reads the clock without a system call, so they
 * can be intercepted here and nowhere else.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/torture/shim/clockshift.c
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S INT64_C(1000000000)

static volatile const int64_t *shift;
static int	(*real_clock_gettime) (clockid_t, struct timespec *);

static void __attribute__((constructor))
clockshift_init(void)
{
	const char *path = getenv("TORTURE_CLOCK");
	int			fd;

	real_clock_gettime = (int (*) (clockid_t, struct timespec *))
		dlsym(RTLD_NEXT, "clock_gettime");
	if (path == NULL)
		return;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	shift = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
	if (shift == MAP_FAILED)
		shift = NULL;
	close(fd);
}

int
clock_gettime(clockid_t clock, struct timespec *ts)
{
	int			rc;

	if (real_clock_gettime == NULL)
		clockshift_init();
	rc = real_clock_gettime(clock, ts);
	if (rc == 0 && shift != NULL &&
		(clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
	{
		int64_t		t = ts->tv_sec * NS_PER_S + ts->tv_nsec + *shift;

		ts->tv_sec = t / NS_PER_S;
		ts->tv_nsec = t % NS_PER_S;
	}
	return rc;
}

int
gettimeofday(struct timeval *restrict tv, void *restrict zone)
{
	struct timespec ts;

	(void) zone;
	if (clock_gettime(CLOCK_REALTIME, &ts) != 0)
		return -1;
	tv->tv_sec = ts.tv_sec;
	tv->tv_usec = ts.tv_nsec / 1000;
	return 0;
}

time_t
time(time_t *out)
{
	struct timespec ts;

	if (clock_gettime(CLOCK_REALTIME, &ts) != 0)
		return (time_t) -1;
	if (out != NULL)
		*out = ts.tv_sec;
	return ts.tv_sec;
}
