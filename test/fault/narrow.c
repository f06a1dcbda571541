/*-------------------------------------------------------------------------
 *
 * narrow.c
 *	  A library to be preloaded that leaves a program's own connections little room.
 *
 * The kernel keeps some 4 kB of what is sent over each TCP socket that it makes.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/fault/narrow.c
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/socket.h>

typedef int (*Socket) (int, int, int);

int
socket(int domain, int type, int protocol)
{
	Socket		real = (Socket) dlsym(RTLD_NEXT, "socket");
	int			fd = real(domain, type, protocol);
	int			size = 2048;

	if (fd >= 0 && domain == AF_INET &&
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)) != 0)
		abort();
	return fd;
}
