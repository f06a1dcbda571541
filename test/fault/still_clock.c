/*-------------------------------------------------------------------------
 *
 * still_clock.c
 *	  A library to be preloaded: the wall clock of a program stands still.
 *
 * The time, in microseconds, stands in a file that is mapped: STILL_CLOCK.  The
 * monotonic clocks go on.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/fault/still_clock.c
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int64_t
now_us(void)
{
	static volatile const int64_t *now;

	if (now == NULL)
	{
		int			fd = open(getenv("STILL_CLOCK"), O_RDONLY | O_CLOEXEC);

		now = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
		if (now == MAP_FAILED)
			abort();
		close(fd);
	}
	return *now;
}

int
clock_gettime(clockid_t clock, struct timespec *ts)
{
	static int	(*real) (clockid_t, struct timespec *);

	if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)
	{
		ts->tv_sec = now_us() / 1000000;
		ts->tv_nsec = now_us() % 1000000 * 1000;
		return 0;
	}
	if (real == NULL)
		real = (int (*) (clockid_t, struct timespec *)) dlsym(RTLD_NEXT, "clock_gettime");
	return real(clock, ts);
}

int
gettimeofday(struct timeval *restrict tv, void *restrict zone)
{
	(void) zone;
	tv->tv_sec = now_us() / 1000000;
	tv->tv_usec = now_us() % 1000000;
	return 0;
}

time_t
time(time_t *out)
{
	time_t		now = now_us() / 1000000;

	if (out != NULL)
		*out = now;
	return now;
}
