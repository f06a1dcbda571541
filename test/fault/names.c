/*-------------------------------------------------------------------------
 *
 * names.c
 *	  A library to be preloaded that resolves host names as a test says.
 *
 * In the directory LOCKREDIS_TEST_NAMES.  Names that end in ".shim.test" only:
 *
 *	  calls			gets a line "pid name" for each call of getaddrinfo
 *	  hang-NAME		while it exists the call does not return
 *	  NAME			address and port to return; without it there is no such host
 *
 * The port that the caller gives is ignored, so that servers on one address
 * can stand for servers on several.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/fault/names.c
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SUFFIX ".shim.test"

typedef int (*Resolve) (const char *, const char *, const struct addrinfo *,
						struct addrinfo **);

static int
is_ours(const char *name)
{
	size_t		len = name == NULL ? 0 : strlen(name);

	return len > strlen(SUFFIX) &&
		strcmp(name + len - strlen(SUFFIX), SUFFIX) == 0;
}

static void
note_call(const char *dir, const char *name)
{
	char		path[1024];
	char		line[300];
	int			len = snprintf(line, sizeof(line), "%d %s\n", (int) getpid(), name);
	int			fd;

	snprintf(path, sizeof(path), "%s/calls", dir);
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
	if (fd < 0 || write(fd, line, len) != len)
		abort();
	close(fd);
}

static int
find(const char *dir, const char *name, char *address, char *port)
{
	char		path[1024];
	FILE	   *file;
	int			n;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	file = fopen(path, "r");
	if (file == NULL)
		return 0;
	n = fscanf(file, "%63s %15s", address, port);
	fclose(file);
	return n == 2;
}

int
getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
			struct addrinfo **result)
{
	const char *dir = getenv("LOCKREDIS_TEST_NAMES");
	Resolve		real = (Resolve) dlsym(RTLD_NEXT, "getaddrinfo");
	char		hang[1024];
	char		address[64];
	char		port[16];

	if (dir == NULL || !is_ours(name))
		return real(name, service, hints, result);

	note_call(dir, name);
	snprintf(hang, sizeof(hang), "%s/hang-%s", dir, name);
	while (access(hang, F_OK) == 0)
		usleep(10000);
	if (!find(dir, name, address, port))
		return EAI_NONAME;
	return real(address, port, hints, result);
}
