/*-------------------------------------------------------------------------
 *
 * later.c
 *	  A library to be preloaded that puts forward the clock that leases go by.
 *
 * The seconds stand in a file that is mapped: LOCKREDIS_TEST_LATER.  Only CLOCK_BOOTTIME is
 * put forward, which PostgreSQL itself does not read.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/fault/later.c
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

typedef int (*GetTime) (clockid_t, struct timespec *);

static GetTime real = NULL;
static volatile const int64_t *later = NULL;

static void __attribute__((constructor))
begin(void)
{
	const char *path = getenv("LOCKREDIS_TEST_LATER");
	void	   *map;
	int			fd;

	real = (GetTime) dlsym(RTLD_NEXT, "clock_gettime");
	if (path == NULL)
		return;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	map = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		abort();
	later = map;
	close(fd);
}

int
clock_gettime(clockid_t clock, struct timespec *ts)
{
	int			rc;

	if (real == NULL)
		begin();
	rc = real(clock, ts);
	if (rc == 0 && clock == CLOCK_BOOTTIME && later != NULL)
		ts->tv_sec += *later;
	return rc;
}
