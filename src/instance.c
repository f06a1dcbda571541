/*-------------------------------------------------------------------------
 *
 * instance.c
 *	  This instance of the server: its name in the stores, its owner numbers,
 *	  and whether its watchdog is running.
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
	uint64		secret[2];		/* see lr_secret_id */
	pg_atomic_uint64 next_owner;
	pg_atomic_uint32 watchdog_proc; /* its process number + 1; 0 = none */
} Instance;

static Instance *instance = NULL;

/*
 * instance_shmem_size --- the shared memory that this file uses, in bytes
 */
Size
instance_shmem_size(void)
{
	return MAXALIGN(sizeof(Instance));
}

static void
instance_random(void *out, Size size)
{
	if (!pg_strong_random(out, size))
		ereport(FATAL,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate random values")));
}

/*
 * Each new shared memory gets another one: owners of a server that crashed are foreign
 * to its successor, which therefore cannot mistake their locks for its own.
 */
static void
instance_make_uuid(char *out)
{
	unsigned char b[16];
	static const char hex[] = "0123456789abcdef";
	int			n = 0;

	instance_random(b, sizeof(b));
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
	instance_random(instance->secret, sizeof(instance->secret));
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
lr_owner_number(const char *text)
{
	uint64		owner = 0;
	char		same[LR_OWNER_MAX];

	if (strlen(text) > LR_UUID_LEN)
		owner = strtoull(text + LR_UUID_LEN + 1, NULL, 10);
	lr_owner_text(owner, same);
	return strcmp(text, same) == 0 ? owner : 0;
}

static inline uint64
rotate_left(uint64 x, int n)
{
	return (x << n) | (x >> (64 - n));
}

/*
 * sip_rounds --- N rounds of SipHash, over its four words of state
 */
static void
sip_rounds(uint64 *v, int n)
{
	while (n-- > 0)
	{
		v[0] += v[1];
		v[2] += v[3];
		v[1] = rotate_left(v[1], 13) ^ v[0];
		v[3] = rotate_left(v[3], 16) ^ v[2];
		v[0] = rotate_left(v[0], 32);
		v[2] += v[1];
		v[0] += v[3];
		v[1] = rotate_left(v[1], 17) ^ v[2];
		v[3] = rotate_left(v[3], 21) ^ v[0];
		v[2] = rotate_left(v[2], 32);
	}
}

/*
 * lr_secret_id --- SipHash-2-4 of the number, with 128 bits and the secret as key
 *
 * To anybody else the result is as good as a random id for each owner, but it need not
 * be stored: every process of this server can compute it from the number.
 */
void
lr_secret_id(uint64 owner, uint8 *out)
{
	static const uint64 start[] = {
		UINT64CONST(0x736f6d6570736575), UINT64CONST(0x646f72616e646f6d) ^ 0xee,
		UINT64CONST(0x6c7967656e657261), UINT64CONST(0x7465646279746573)
	};
	const uint64 words[] = {owner, UINT64CONST(8) << 56};
	uint64		half[2];
	uint64		v[4];

	for (int i = 0; i < 4; i++)
		v[i] = start[i] ^ instance->secret[i & 1];
	for (int i = 0; i < lengthof(words); i++)
	{
		v[3] ^= words[i];
		sip_rounds(v, 2);
		v[0] ^= words[i];
	}
	v[2] ^= 0xee;
	sip_rounds(v, 4);
	half[0] = v[0] ^ v[1] ^ v[2] ^ v[3];
	v[1] ^= 0xdd;
	sip_rounds(v, 4);
	half[1] = v[0] ^ v[1] ^ v[2] ^ v[3];
	memcpy(out, half, LR_SECRET_ID_LEN);
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
