/*-------------------------------------------------------------------------
 *
 * older.c
 *	  A library to be preloaded by which a Redis has run for long, and has the run id that it had.
 *
 * time() is earlier by LOCKREDIS_TEST_AGE seconds.  What is read from /dev/urandom, of which a
 * run id is made, is LOCKREDIS_TEST_ID, unless that is empty.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/fault/older.c
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

typedef FILE *(*Open) (const char *, const char *);

static FILE *
open_it(const char *name, const char *path, const char *mode)
{
	char	   *id = getenv("LOCKREDIS_TEST_ID");

	if (id && *id && strcmp(path, "/dev/urandom") == 0)
		return fmemopen(id, strlen(id), "r");
	return ((Open) dlsym(RTLD_NEXT, name)) (path, mode);
}

FILE *
fopen(const char *path, const char *mode)
{
	return open_it("fopen", path, mode);
}

FILE *
fopen64(const char *path, const char *mode)
{
	return open_it("fopen64", path, mode);
}

time_t
time(time_t *out)
{
	struct timeval now;
	const char *age = getenv("LOCKREDIS_TEST_AGE");

	gettimeofday(&now, NULL);
	now.tv_sec -= age ? atol(age) : 0;
	if (out)
		*out = now.tv_sec;
	return now.tv_sec;
}
