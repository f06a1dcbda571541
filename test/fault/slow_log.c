/*-------------------------------------------------------------------------
 *
 * slow_log.c
 *	  A library to be preloaded with which each line of the server log takes a while.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/fault/slow_log.c
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>

#define LINE_TAKES		20000		/* microseconds */

typedef ssize_t (*Write) (int, const void *, size_t);

ssize_t
write(int fd, const void *buf, size_t n)
{
	static Write real = NULL;

	if (real == NULL)
		real = (Write) dlsym(RTLD_NEXT, "write");
	if (fd == STDERR_FILENO)
		usleep(LINE_TAKES);
	return real(fd, buf, n);
}
