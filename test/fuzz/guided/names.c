/*-------------------------------------------------------------------------
 *
 * names.c
 *	  Target "names": the keys that are derived from a name.
 *
 * They fit into their buffers; of a name that is not split (slot.h) they are in the slot of the
 * name, by a calculation of its own; and those that nobody else knows are no others' (0xff
 * parts two names).
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/fuzz/guided/names.c
 *
 *-------------------------------------------------------------------------
 */
#include "fuzz.h"

#include "keyname.h"
#include "kinds/kind.h"
#include "store/slot.h"

#define DIGEST	"0123456789012345678901234567890123456789"
#define OWNER	"01234567-89ab-cdef-0123-456789abcdef:18446744073709551615"

/* As the specification of Redis Cluster says, bit by bit */
static int
plain_slot(const char *key, int len)
{
	uint32		crc = 0;
	int			from = 0;
	int			to = len;

	for (int i = 0; i < len; i++)
	{
		if (key[i] != '{')
			continue;
		for (int j = i + 1; j < len; j++)
		{
			if (key[j] != '}')
				continue;
			if (j > i + 1)
			{
				from = i + 1;
				to = j;
			}
			break;
		}
		break;
	}
	for (int i = from; i < to; i++)
	{
		crc ^= (uint32) (uint8) key[i] << 8;
		for (int bit = 0; bit < 8; bit++)
			crc = crc & 0x8000 ? (crc << 1 ^ 0x1021) & 0xffff : crc << 1 & 0xffff;
	}
	return crc % SLOT_COUNT;
}

typedef enum Derived
{
	OF_TOKEN, OF_WRITERS, OF_QUEUE, OF_PATIENCE, OF_PLACES, OF_PERMITS, OF_TICKETS,
	OF_TIMEOUT, OF_WAITING, OF_ALIVE, OF_TOLD, OF_LOCK_CHANNEL, OF_CONDITION_CHANNEL,
	OF_TURN_CHANNEL, OF_LATCH_CHANNEL, DERIVED_COUNT
} Derived;

static int
derive(Derived what, const char *name, int len, char *out)
{
	switch (what)
	{
		case OF_TOKEN:
			return lr_token_name(name, len, out);
		case OF_WRITERS:
			return lr_writers_name(name, len, out);
		case OF_QUEUE:
			return lr_queue_name(name, len, out);
		case OF_PATIENCE:
			return lr_patience_name(name, len, out);
		case OF_PLACES:
			return lr_places_name(name, len, out);
		case OF_PERMITS:
			return lr_permits_name(name, len, out);
		case OF_TICKETS:
			return lr_tickets_name(name, len, out);
		case OF_TIMEOUT:
			return lr_timeout_name(name, len, OWNER, out);
		case OF_WAITING:
			return lr_condition_waiting_name(name, len, DIGEST, out);
		case OF_ALIVE:
			return lr_condition_alive_name(name, len, DIGEST, out);
		case OF_TOLD:
			return lr_condition_told_name(name, len, DIGEST, out);
		case OF_LOCK_CHANNEL:
			return lr_channel_name(TOPIC_LOCK, name, len, out);
		case OF_CONDITION_CHANNEL:
			return lr_channel_name(TOPIC_CONDITION, name, len, out);
		case OF_TURN_CHANNEL:
			return lr_turn_channel_name(TOPIC_PLACE, name, len, OWNER, out);
		case OF_LATCH_CHANNEL:
			return lr_channel_name(TOPIC_LATCH, name, len, out);
		case DERIVED_COUNT:
			break;
	}
	return 0;
}

/* Not of Redisson, which has the same for "x" and "{x}" */
static bool
is_ours(Derived what)
{
	return what == OF_WRITERS || what == OF_PLACES || what == OF_TICKETS ||
		what == OF_WAITING || what == OF_ALIVE || what == OF_TOLD || what == OF_CONDITION_CHANNEL;
}

void
fuzz_names(const uint8 *data, size_t size)
{
	const char *name = (const char *) data;
	const char *part = size > 0 ? memchr(name, 0xff, size) : NULL;
	int			len = part != NULL ? part - name : size;
	const char *other = part != NULL ? part + 1 : name;
	int			other_len = part != NULL ? size - len - 1 : 0;
	bool		same;

	if (len == 0 || len > LR_NAME_MAX || other_len > LR_NAME_MAX)
		return;
	same = other_len == 0 || (len == other_len && memcmp(name, other, len) == 0);
	fuzz_must(slot_of(name, len) == plain_slot(name, len), "the slot of a name");
	for (int what = 0; what < DERIVED_COUNT; what++)
	{
		char	   *out = malloc(LR_DERIVED_MAX);
		int			n = derive(what, name, len, out);

		fuzz_must(n > len && n <= LR_DERIVED_MAX, "the length of a name");
		fuzz_must(slot_of(out, n) == plain_slot(out, n), "the slot of a derived name");
		if (!slot_is_split(name, len) && what != OF_LATCH_CHANNEL)
			fuzz_must(plain_slot(out, n) == plain_slot(name, len), "it is in another slot");
		if (!same && is_ours(what))
		{
			char	   *others = malloc(LR_DERIVED_MAX);
			int			m = derive(what, other, other_len, others);

			fuzz_must(n != m || memcmp(out, others, n) != 0, "two names have the same");
			free(others);
		}
		free(out);
	}
}
