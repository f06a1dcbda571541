/*-------------------------------------------------------------------------
 *
 * slot.c
 *	  In which slot of a Redis Cluster a key is.
 *
 * The slot is the CRC16 (XMODEM) of the key, modulo the number of slots.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/slot.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "names.h"
#include "store/nodes.h"

/*
 * We compute four bits at a time: a table of 16 entries stays in the cache, one of 256
 * may not.
 */
static const uint16 crc_table[16] = {
	0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5, 0x60c6, 0x70e7,
	0x8108, 0x9129, 0xa14a, 0xb16b, 0xc18c, 0xd1ad, 0xe1ce, 0xf1ef
};

static uint16
slot_crc(const char *data, int len)
{
	uint16		crc = 0;

	for (int i = 0; i < len; i++)
	{
		unsigned char c = data[i];

		crc = (uint16) (crc << 4) ^ crc_table[(crc >> 12) ^ (c >> 4)];
		crc = (uint16) (crc << 4) ^ crc_table[(crc >> 12) ^ (c & 0x0f)];
	}
	return crc;
}

int
slot_of(const char *key, int len)
{
	const char *open = memchr(key, '{', len);

	if (open != NULL)
	{
		const char *tag = open + 1;
		const char *close = memchr(tag, '}', key + len - tag);

		if (close != NULL && close > tag)
			return slot_crc(tag, close - tag) % SLOT_COUNT;
	}
	return slot_crc(key, len) % SLOT_COUNT;
}

/*
 * A derived name contains the whole name, in braces if it has no opening one, after
 * words without braces.  So all derived names are in the same slot.
 */
bool
slot_is_split(const char *name, int len)
{
	char		derived[LR_DERIVED_MAX];
	int			slot = slot_of(name, len);

	return slot != slot_of(derived, lr_channel_name(TOPIC_LOCK, name, len, NULL, derived)) ||
		slot != slot_of(derived, lr_derived_name(NAME_COUNTER, name, len, NULL, derived));
}
