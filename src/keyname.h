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

/* An owner, which any client may have written: control characters are escaped, too. */
extern char *lr_owner_to_show(const char *owner);
extern char *lr_owner_to_show_plainly(const char *owner);

/*
 * The names that are derived from that of a lock, as patterns: "=" is the name itself,
 * "*" what Redisson makes of it, which is "{name}", or the name if it has a brace of its
 * own.  "+" is the same of keys that nobody else knows, where "x" and "{x}" must not
 * have the same one: ":name" instead of the name.  "@" is an owner, "#" 40 digits.
 */
#define NAME_LOCK				"="
#define NAME_COUNTER			"redisson_lock_token:*" /* of fencing tokens */
#define NAME_READERS			"*" /* what time-outs of readers begin with */
#define NAME_TIMEOUT			"*:@:rwlock_timeout:1"	/* of a reader's first lock */
#define NAME_WRITERS			"lockredis_writers:+"	/* who wait */
#define NAME_QUEUE				"redisson_lock_queue:*" /* who wait for a fair lock, */
#define NAME_PATIENCE			"redisson_lock_timeout:*"	/* until when they count, */
#define NAME_PLACES				"lockredis_places:+"	/* and those with lockredis */
#define NAME_PERMITS			"*:timeout" /* that are had */
#define NAME_WAITING			"lockredis_condition_waiting:+:#"	/* who waits for a
																	 * condition, */
#define NAME_ALIVE				"lockredis_condition_alive:+:#" /* until when they count, */
#define NAME_TOLD				"lockredis_condition_told:+:#"	/* and who was notified */
#define NAME_TICKETS			"lockredis_tickets:+"	/* requests that have been counted */
#define NAME_LOCK_CHANNEL		"redisson_lock__channel:*"
#define NAME_READ_WRITE_CHANNEL "redisson_rwlock:*"
#define NAME_PERMITS_CHANNEL	"redisson_sc:*"
#define NAME_CONDITION_CHANNEL	"lockredis_condition__channel:+"
#define NAME_LATCH_CHANNEL		"redisson_countdownlatch__channel__{=}"

/* One of these; "with" is for "@" and "#".  Returns the length. */
extern int	lr_derived_name(const char *pattern, const char *name, int len,
							const char *with, char *out);

/* That of a channel; the owner is for topics of which each owner has one. */
extern int	lr_channel_name(LrTopic topic, const char *name, int len,
							const char *owner, char *out);

/* Has each owner a channel of its own there? */
static inline bool
lr_topic_of_owners(LrTopic topic)
{
	return topic == TOPIC_PLACE || topic == TOPIC_CONDITION;
}

#endif							/* LR_KEYNAME_H */
