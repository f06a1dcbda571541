/*-------------------------------------------------------------------------
 *
 * node.h
 *	  What all processes of this server know about the nodes of its stores.
 *
 * Kept in shared memory under one LWLock of its own, never held across I/O.
 * The watchdog writes state, version, round trip and the addresses that a host
 * name resolved to (see resolver.h); sessions read addresses, may ask for new
 * ones, and may mark the node as not answering.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/node.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_NODE_H
#define LR_NODE_H

#include <sys/socket.h>

#include "lockredis.h"
#include "datatype/timestamp.h"
#include "store/redis/url.h"
#include "store/store.h"

#define LR_MAX_ADDRESSES	4

typedef enum NodeState
{
	NODE_CONNECTING,
	NODE_UP,
	NODE_DOWN
} NodeState;

typedef struct NodeAddresses
{
	uint32		url_hash;		/* of the host and port they belong to */
	int			count;			/* 0 = not resolved (yet) */
	char		error[128];		/* the resolver's words, if it failed */
	struct sockaddr_storage addr[LR_MAX_ADDRESSES];
	socklen_t	addr_len[LR_MAX_ADDRESSES];
} NodeAddresses;

/* Why addresses are asked for; bits. */
#define WANT_REACHABLE		1	/* none are known, or nobody answers at these */
#define WANT_MASTER			2	/* who answers there takes no writes any more */

typedef struct NodeStatus
{
	NodeState	state;
	int			role_is_replica;
	int64		round_trip_us;	/* of the last answered probe; -1 = none yet */
	char		address[128];
	char		version[32];
	char		maxmemory_policy[32];
	char		last_error[256];
	TimestampTz last_error_at;	/* 0 = none */
} NodeStatus;

extern Size node_shmem_size(void);
extern void node_shmem_init(void);

/* Copy of the status. */
extern void node_get_status(StoreId id, NodeStatus *out);

/* Written by the watchdog. */
extern void node_set_state(StoreId id, NodeState state);
extern void node_set_facts(StoreId id, const char *address,
						   const char *version, const char *policy,
						   bool replica);
extern void node_set_round_trip(StoreId id, int64 us);

/* What can be expected: microseconds, 0 = not known.  Takes no lock. */
extern int64 node_usual_round_trip(StoreId id);
extern void node_set_error(StoreId id, const char *message);

/* lockredis.url has changed: what the node before it said is of no interest. */
extern void node_forget(StoreId id);

/*
 * Sessions: what the store told this one, perhaps only this one.  Not more often
 * than is worth while.
 */
extern void node_report_error(StoreId id, const char *message);

extern void node_publish_addresses(const NodeAddresses *addresses);

/*
 * Where the watchdog looks after the locks: lr_place as it has read
 * lockredis.url; 0 = not known.  Lock-free.
 */
extern void node_set_place(uint32 place);
extern uint32 node_get_place(void);

/* Sessions: addresses of this URL; false when the watchdog has none yet. */
extern bool node_get_addresses(const RedisUrl *url, NodeAddresses *out);

/*
 * Ask the watchdog to have the host name resolved (it is woken); what has been
 * asked for since the last answer.
 */
extern void node_want_addresses(uint32 why);
extern uint32 node_addresses_wanted(void);
extern void node_drop_wish(uint32 why);
extern uint32 node_url_hash(const RedisUrl *url);

/*
 * A request timed out: nobody but the watchdog talks to the node until it has
 * answered a probe.  Lock-free.
 */
extern void node_set_silent(StoreId id, bool silent);
extern bool node_is_silent(StoreId id);

#endif							/* LR_NODE_H */
