/*-------------------------------------------------------------------------
 *
 * addresses.c
 *	  The addresses that the host names of nodes resolved to.
 *
 * An array in shared memory, under the LWLock of the table of nodes, which is held
 * only for copying.  "wanted" is an atomic, since waiting processes set it again and
 * again.  There are more entries than nodes; if all are in use, the one that was not
 * used for longest is replaced.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/addresses.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "port/atomics.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"

#include "names.h"
#include "store/nodes.h"

typedef struct HostEntry
{
	char		host[LR_HOST_MAX];	/* empty: a free entry */
	int			port;
	pg_atomic_uint32 wanted;	/* WANT_xxx: why addresses are wanted */
	pg_atomic_uint64 used_at;	/* when a process looked at it last */
	NodeId		node;			/* node of the last request */
	int			failures;
	int64		concluded_at;
	NodeAddresses addresses;
} HostEntry;

static HostEntry *hosts = NULL;
static LWLock *hosts_lock = NULL;

/*
 * addresses_shmem_size --- the shared memory that this file uses, in bytes
 */
Size
addresses_shmem_size(void)
{
	return MAXALIGN(mul_size(ADDRESSES_MAX, sizeof(HostEntry)));
}

/* Called with AddinShmemInitLock held. */
void
addresses_shmem_init(void)
{
	bool		found;

	hosts = ShmemInitStruct("lockredis addresses", addresses_shmem_size(), &found);
	hosts_lock = node_lwlock();
	if (found)
		return;
	memset(hosts, 0, addresses_shmem_size());
	for (int i = 0; i < ADDRESSES_MAX; i++)
	{
		pg_atomic_init_u32(&hosts[i].wanted, 0);
		pg_atomic_init_u64(&hosts[i].used_at, 0);
	}
}

/* ----------
 * Entries; lock held
 * ----------
 */

static HostEntry *
find_host(const char *host, int port)
{
	for (int i = 0; i < ADDRESSES_MAX; i++)
		if (hosts[i].port == port && strcmp(hosts[i].host, host) == 0)
			return &hosts[i];
	return NULL;
}

static void
clear_host(HostEntry *h)
{
	h->host[0] = '\0';
	h->port = 0;
	h->failures = 0;
	h->concluded_at = 0;
	memset(&h->addresses, 0, sizeof(NodeAddresses));
	pg_atomic_write_u32(&h->wanted, 0);
	pg_atomic_write_u64(&h->used_at, 0);
}

/*
 * make_host --- use a free entry, or the one that was not used for longest
 */
static HostEntry *
make_host(const char *host, int port)
{
	HostEntry  *oldest = &hosts[0];

	for (int i = 1; i < ADDRESSES_MAX; i++)
		if (pg_atomic_read_u64(&hosts[i].used_at) <
			pg_atomic_read_u64(&oldest->used_at))
			oldest = &hosts[i];
	clear_host(oldest);
	strlcpy(oldest->host, host, LR_HOST_MAX);
	oldest->port = port;
	return oldest;
}

/* ----------
 * For processes that connect
 * ----------
 */

/*
 * addresses_get --- see nodes.h
 */
bool
addresses_get(const char *host, int port, NodeAddresses *out)
{
	HostEntry  *h;

	memset(out, 0, sizeof(NodeAddresses));
	LWLockAcquire(hosts_lock, LW_SHARED);
	h = find_host(host, port);
	if (h != NULL)
	{
		*out = h->addresses;
		pg_atomic_write_u64(&h->used_at, (uint64) lr_now());
	}
	LWLockRelease(hosts_lock);
	return out->count > 0;
}

/*
 * addresses_want --- see nodes.h
 */
void
addresses_want(NodeId node, const char *host, int port, uint32 why)
{
	HostEntry  *h;
	uint32		before = why;
	bool		found;

	LWLockAcquire(hosts_lock, LW_SHARED);
	h = find_host(host, port);
	found = h != NULL;
	if (found)
		before = pg_atomic_fetch_or_u32(&h->wanted, why);
	LWLockRelease(hosts_lock);

	if (!found || (before & why) != why)
	{
		LWLockAcquire(hosts_lock, LW_EXCLUSIVE);
		h = find_host(host, port);
		if (h == NULL)
			h = make_host(host, port);
		h->node = node;
		pg_atomic_fetch_or_u32(&h->wanted, why);
		pg_atomic_write_u64(&h->used_at, (uint64) lr_now());
		LWLockRelease(hosts_lock);
		lr_wake_watchdog();
	}
}

/* ----------
 * The watchdog
 * ----------
 */

/* Each round of the watchdog calls this, so it takes no lock if nothing is wanted. */
bool
addresses_wish(int number, AddressWish *out)
{
	HostEntry  *h = &hosts[number];

	if (pg_atomic_read_u32(&h->wanted) == 0)
		return false;
	LWLockAcquire(hosts_lock, LW_SHARED);
	strlcpy(out->host, h->host, LR_HOST_MAX);
	out->port = h->port;
	out->node = h->node;
	out->why = pg_atomic_read_u32(&h->wanted);
	out->known = h->addresses.count > 0;
	out->failures = h->failures;
	out->concluded_at = h->concluded_at;
	LWLockRelease(hosts_lock);
	return out->why != 0;
}

/*
 * addresses_publish --- see nodes.h
 *
 * After a failure the addresses that were found before stay in use: they are better
 * than none.  Requests that came meanwhile get the same answer.
 */
void
addresses_publish(const AddressWish *wish, const NodeAddresses *found)
{
	HostEntry  *h;

	LWLockAcquire(hosts_lock, LW_EXCLUSIVE);
	h = find_host(wish->host, wish->port);
	if (h != NULL)
	{
		if (found->count > 0 || h->addresses.count == 0)
			h->addresses = *found;
		h->failures = found->count > 0 ? 0 : h->failures + 1;
		h->concluded_at = lr_now();
		pg_atomic_write_u32(&h->wanted, 0);
	}
	LWLockRelease(hosts_lock);
}

void
addresses_drop_wish(const AddressWish *wish)
{
	HostEntry  *h;

	LWLockAcquire(hosts_lock, LW_SHARED);
	h = find_host(wish->host, wish->port);
	if (h != NULL)
		pg_atomic_fetch_and_u32(&h->wanted, ~wish->why);
	LWLockRelease(hosts_lock);
}

/*
 * Addresses of a name that is still in use stay valid: perhaps only the user, the
 * password or the database has changed.  Those of other names would be outdated when
 * these are used again.
 */
void
addresses_restart(const RedisUrl *urls, int n)
{
	LWLockAcquire(hosts_lock, LW_EXCLUSIVE);
	for (int i = 0; i < ADDRESSES_MAX; i++)
	{
		HostEntry  *h = &hosts[i];
		bool		named = false;

		for (int j = 0; j < n && !named; j++)
			named = h->port == urls[j].port && strcmp(h->host, urls[j].host) == 0;
		if (!named)
			clear_host(h);
		h->failures = 0;
		h->concluded_at = 0;
		pg_atomic_write_u32(&h->wanted, 0);
	}
	LWLockRelease(hosts_lock);
}
