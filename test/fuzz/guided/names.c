/*-------------------------------------------------------------------------
 *
 * names.c
 *	  Target "names": the keys that are derived from a name.
 *
 * They fit into their buffers; of a name that is not split (nodes.c) they are in the slot of the
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

#include "kinds/kind.h"
#include "names.h"
#include "store/nodes.h"

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

static const char *const patterns[] = {
	NAME_COUNTER, NAME_TIMEOUT, NAME_WRITERS, NAME_QUEUE, NAME_PATIENCE, NAME_PLACES,
	NAME_PERMITS, NAME_WAITING, NAME_ALIVE, NAME_TOLD, NAME_TICKETS, NAME_LOCK_CHANNEL,
	NAME_LOCK_CHANNEL ":@", NAME_READ_WRITE_CHANNEL, NAME_PERMITS_CHANNEL,
	NAME_CONDITION_CHANNEL, NAME_LATCH_CHANNEL
};

static int
derive(const char *pattern, const char *name, int len, char *out)
{
	return lr_derived_name(pattern, name, len, strchr(pattern, '#') != NULL ? DIGEST : OWNER,
						   out);
}

/* Not of Redisson, which has the same for "x" and "{x}" */
static bool
is_ours(const char *pattern)
{
	return strchr(pattern, '+') != NULL;
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
	for (int i = 0; i < lengthof(patterns); i++)
	{
		const char *pattern = patterns[i];
		char	   *out = malloc(LR_DERIVED_MAX);
		int			n = derive(pattern, name, len, out);

		fuzz_must(n > len && n <= LR_DERIVED_MAX, "the length of a name");
		fuzz_must(slot_of(out, n) == plain_slot(out, n), "the slot of a derived name");
		if (!slot_is_split(name, len) && strchr(pattern, '=') == NULL)
			fuzz_must(plain_slot(out, n) == plain_slot(name, len), "it is in another slot");
		if (!same && is_ours(pattern))
		{
			char	   *others = malloc(LR_DERIVED_MAX);
			int			m = derive(pattern, other, other_len, others);

			fuzz_must(n != m || memcmp(out, others, n) != 0, "two names have the same");
			free(others);
		}
		free(out);
	}
}
