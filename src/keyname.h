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

/* Longest derived name: "{" name "}:" owner ":rwlock_timeout:1". */
#define LR_DERIVED_MAX		(LR_NAME_MAX + LR_OWNER_MAX + 32)

/* What is told over the channel of a name. */
typedef enum LrTopic
{
	TOPIC_LOCK,					/* releases of locks */
	TOPIC_READ_WRITE,			/* of read-write locks */
	TOPIC_PLACE,				/* that it is an owner's turn: each has its own */
	TOPIC_PERMITS,				/* of permits and semaphores */
	TOPIC_CONDITION,			/* that an owner was notified: likewise */
	TOPIC_LATCH,				/* that a latch is open */
	TOPIC_COUNT
} LrTopic;

/*
 * The full name of a key.  Raises for a key that is empty, too long (22023), no text in
 * the database's encoding (22021), or a name that is derived from another key (42501).
 */
extern void lr_name_from_text(const text *key, LrName *out);

/* A text in UTF-8, not terminated; raises for bytes that have no meaning. */
extern const char *lr_to_utf8(const char *s, int len, int *out_len);

/* For showing: in the database's encoding, palloc'd, \x escapes where needed. */
extern char *lr_name_to_show(const char *data, int len);

/* The same in the context callback of an error: reads no catalog. */
extern char *lr_name_to_show_plainly(const char *data, int len);

/*
 * The names that Redisson derives from that of a lock, of the channel where its
 * release is told, that where an owner is told that it is its turn, and the counter of
 * its tokens.  Return the length.
 */
extern int	lr_channel_name(LrTopic topic, const char *name, int len, char *out);
extern int	lr_turn_channel_name(LrTopic topic, const char *name, int len,
								 const char *owner, char *out);
extern int	lr_token_name(const char *name, int len, char *out);

/*
 * Of a read-write lock: what the names of its readers' time-outs begin with, that of
 * the time-out of an owner's first read lock, and a key of ours with the writers that
 * wait for it.
 */
extern int	lr_timeouts_prefix(const char *name, int len, char *out);
extern int	lr_timeout_name(const char *name, int len, const char *owner, char *out);
extern int	lr_writers_name(const char *name, int len, char *out);

/* Has each owner a channel of its own there? */
static inline bool
lr_topic_of_owners(LrTopic topic)
{
	return topic == TOPIC_PLACE || topic == TOPIC_CONDITION;
}

/*
 * Of a condition, keys of ours: who waits for it, until when each of them counts, and who
 * was notified.  "digest": its name in 40 digits.
 */
extern int	lr_condition_waiting_name(const char *name, int len, const char *digest,
									  char *out);
extern int	lr_condition_alive_name(const char *name, int len, const char *digest,
									char *out);
extern int	lr_condition_told_name(const char *name, int len, const char *digest,
								   char *out);

/*
 * Of a fair lock: its queue, for how long each in it counts, and a key of ours, for how
 * long each of ours does.
 */
extern int	lr_queue_name(const char *name, int len, char *out);
extern int	lr_patience_name(const char *name, int len, char *out);
extern int	lr_places_name(const char *name, int len, char *out);

/* Of permits: the ids of those that are had. */
extern int	lr_permits_name(const char *name, int len, char *out);

/* Of what is counted: a key of ours with the requests that have been. */
extern int	lr_tickets_name(const char *name, int len, char *out);

#endif							/* LR_KEYNAME_H */
