/*-------------------------------------------------------------------------
 *
 * instance.c
 *	  This instance of the server: its name to the stores, its owner numbers,
 *	  and whether its watchdog is there.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/instance.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "port/atomics.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "utils/builtins.h"

#include "instance.h"

typedef struct Instance
{
	char		uuid[LR_UUID_LEN + 1];
	pg_atomic_uint64 next_owner;
	pg_atomic_uint32 watchdog_proc; /* its process number + 1; 0 = none */
} Instance;

static Instance *instance = NULL;

Size
instance_shmem_size(void)
{
	return MAXALIGN(sizeof(Instance));
}

/*
 * instance_make_uuid --- a random UUID (version 4) as text
 *
 * Taken anew with the shared memory: owners of a server that crashed are
 * foreign to the next one, so nothing of theirs can be mistaken for ours.
 */
static void
instance_make_uuid(char *out)
{
	unsigned char b[16];
	static const char hex[] = "0123456789abcdef";
	int			n = 0;

	if (!pg_strong_random(b, sizeof(b)))
		ereport(FATAL,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate random values")));
	b[6] = (b[6] & 0x0f) | 0x40;
	b[8] = (b[8] & 0x3f) | 0x80;
	for (int i = 0; i < 16; i++)
	{
		if (i == 4 || i == 6 || i == 8 || i == 10)
			out[n++] = '-';
		out[n++] = hex[b[i] >> 4];
		out[n++] = hex[b[i] & 0x0f];
	}
	out[n] = '\0';
}

/* Called with AddinShmemInitLock held. */
void
instance_shmem_init(void)
{
	bool		found;

	instance = ShmemInitStruct("lockredis instance", instance_shmem_size(), &found);
	if (found)
		return;
	instance_make_uuid(instance->uuid);
	pg_atomic_init_u64(&instance->next_owner, 1);
	pg_atomic_init_u32(&instance->watchdog_proc, 0);
}

void
lr_require_preload(void)
{
	if (instance == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("lockredis must be loaded via \"%s\"",
						"shared_preload_libraries"),
				 errhint("Add \"lockredis\" to \"%s\" and restart the server.",
						 "shared_preload_libraries")));
}

/* ----------
 * Names
 * ----------
 */

const char *
lr_instance_uuid(void)
{
	return instance->uuid;
}

int
lr_owner_text(uint64 owner, char *out)
{
	int			len = LR_UUID_LEN;

	memcpy(out, instance->uuid, len);
	out[len++] = ':';
	len += pg_ulltoa_n(owner, out + len);
	out[len] = '\0';
	return len;
}

uint64
lr_new_owner(void)
{
	return pg_atomic_fetch_add_u64(&instance->next_owner, 1);
}

/* ----------
 * The watchdog's presence
 * ----------
 */

void
lr_watchdog_enter(void)
{
	pg_atomic_write_u32(&instance->watchdog_proc, (uint32) LrMyProcNumber + 1);
}

void
lr_watchdog_leave(void)
{
	pg_atomic_write_u32(&instance->watchdog_proc, 0);
}

bool
lr_watchdog_running(void)
{
	return pg_atomic_read_u32(&instance->watchdog_proc) != 0;
}

void
lr_wake_watchdog(void)
{
	uint32		proc = pg_atomic_read_u32(&instance->watchdog_proc);

	if (proc != 0)
		SetLatch(&GetPGProcByNumber(proc - 1)->procLatch);
}
