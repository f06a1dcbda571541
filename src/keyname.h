/*-------------------------------------------------------------------------
 *
 * keyname.h
 *	  From the key that a caller passes to the names used in a store.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/keyname.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_KEYNAME_H
#define LR_KEYNAME_H

#include "lockredis.h"

/* A full name: prefix and key in UTF-8, with its hash. */
typedef struct LrName
{
	int			len;
	uint32		hash;
	char		data[LR_NAME_MAX + 1];	/* NUL-terminated for debuggers only */
} LrName;

/* The hash of a full name, of which LrName.hash is one. */
extern uint32 lr_name_hash(const char *name, int len);

/* Longest derived name: "redisson_lock__channel:{" name "}". */
#define LR_DERIVED_MAX		(LR_NAME_MAX + 32)

/*
 * The full name of a key.  Raises for a key that is empty, too long (22023), or
 * no text in the database's encoding (22021).
 */
extern void lr_name_from_text(const text *key, LrName *out);

/* For showing: in the database's encoding, palloc'd, \x escapes where needed. */
extern char *lr_name_to_show(const char *data, int len);

/*
 * The names that Redisson derives from that of a lock, of the channel where its
 * release is told and the counter of its tokens.  Return the length.
 */
extern int	lr_channel_name(const char *name, int len, char *out);
extern int	lr_token_name(const char *name, int len, char *out);

#endif							/* LR_KEYNAME_H */
