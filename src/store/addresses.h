/*-------------------------------------------------------------------------
 *
 * addresses.h
 *	  The addresses that the host names of nodes resolved to.
 *
 * A table in shared memory, by host name and port.  Who makes a connection looks
 * here and asks for what is missing; the watchdog has it resolved (resolver.c)
 * and answers.  Nobody waits for anything in here.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/addresses.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_ADDRESSES_H
#define LR_ADDRESSES_H

#include <sys/socket.h>

#include "lockredis.h"

#include "store/node.h"
#include "store/redis/url.h"

/* Of a host name. */
#define LR_MAX_ADDRESSES	4

/* So many host names, those that were in use before a reload among them. */
#define ADDRESSES_MAX		(2 * NODE_MAX)

typedef struct NodeAddresses
{
	int			count;			/* 0 = not resolved (yet) */
	char		error[128];		/* the resolver's words, if it failed */
	struct sockaddr_storage addr[LR_MAX_ADDRESSES];
	socklen_t	addr_len[LR_MAX_ADDRESSES];
} NodeAddresses;

/* Why addresses are asked for; bits. */
#define WANT_REACHABLE		1	/* none are known, or nobody answers at these */
#define WANT_MASTER			2	/* who answers there takes no writes any more */

/* What is asked for, as the watchdog sees it. */
typedef struct AddressWish
{
	char		host[LR_HOST_MAX];
	int			port;
	NodeId		node;			/* of the last one who asked */
	uint32		why;
	bool		known;			/* there are addresses, if perhaps old ones */
	int			failures;		/* in a row, since it was resolved last */
	int64		concluded_at;	/* end of the last attempt; 0 = none */
} AddressWish;

extern Size addresses_shmem_size(void);
extern void addresses_shmem_init(void);

/* ---- for those who connect ---- */

/* False: none are known yet, and out->error says why if that was tried. */
extern bool addresses_get(const char *host, int port, NodeAddresses *out);

/*
 * Ask the watchdog to have the host name resolved, perhaps again; it is woken.
 * Those who wait repeat this.  When it is done, or whether, decides the watchdog.
 */
extern void addresses_want(NodeId node, const char *host, int port, uint32 why);

/* ---- for the watchdog ---- */

/* What is wanted of the host with this number (0 to ADDRESSES_MAX - 1), if it is. */
extern bool addresses_wish(int number, AddressWish *out);

/* The end of an attempt, good or bad; all who have asked get that answer. */
extern void addresses_publish(const AddressWish *wish, const NodeAddresses *found);

/* What is known is good enough. */
extern void addresses_drop_wish(const AddressWish *wish);

/*
 * The settings have changed and name these hosts now: nothing is wanted, and
 * nothing known but of them.
 */
extern void addresses_restart(const RedisUrl *urls, int n);

#endif							/* LR_ADDRESSES_H */
