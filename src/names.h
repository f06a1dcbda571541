/*-------------------------------------------------------------------------
 *
 * names.h
 *	  Names in the stores: of keys, and of this instance of the server and its owners.
 *
 * The instance is a small piece of shared memory, which also says whether the watchdog is
 * running.  What changes in it after the start is read and written by atomics only.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/names.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_NAMES_H
#define LR_NAMES_H

#include "lockredis.h"

/* ----------
 * Keys
 * ----------
 */

/* A full name: prefix and key in UTF-8, with its hash. */
typedef struct LrName
{
	int			len;
	uint32		hash;
	char		data[LR_NAME_MAX + 1];	/* NUL-terminated if made from a text */
} LrName;

/* Hash a full name; LrName.hash is such a hash. */
extern uint32 lr_name_hash(const char *name, int len);

/* Longest derived name: "{" name "}:" owner ":rwlock_timeout:1". */
#define LR_DERIVED_MAX		(LR_NAME_MAX + LR_OWNER_MAX + 32)

/* What the messages of a channel are about. */
typedef enum LrTopic
{
	TOPIC_LOCK,					/* releases of locks */
	TOPIC_READ_WRITE,			/* releases of read-write locks */
	TOPIC_PLACE,				/* the turn of one owner: each has its own channel */
	TOPIC_PERMITS,				/* releases of permits, also of semaphores */
	TOPIC_CONDITION,			/* the notification of one owner: likewise */
	TOPIC_LATCH,				/* the opening of a latch */
	TOPIC_COUNT
} LrTopic;

/*
 * Make the full name of a key.  Raises an error for a key that is empty or too long
 * (22023), that is not text in the database's encoding (22021), or that is a name
 * derived from another key (42501).
 */
extern void lr_name_from_text(const text *key, LrName *out);

/* Convert a text to UTF-8, not terminated; raises an error for invalid bytes. */
extern const char *lr_to_utf8(const char *s, int len, int *out_len);

/*
 * A name for display: palloc'd, in the database's encoding, with \x escapes where
 * needed.
 */
extern char *lr_name_to_show(const char *data, int len);

/* The same for the context callback of an error: this one reads no catalog. */
extern char *lr_name_to_show_plainly(const char *data, int len);

/*
 * An owner for display.  Any client may have written it, so control characters are
 * escaped, too.
 */
extern char *lr_owner_to_show(const char *owner);
extern char *lr_owner_to_show_plainly(const char *owner);

/*
 * Patterns of the names that are derived from that of a lock.  "=" stands for the name
 * itself; "*" for what Redisson makes of it, "{name}", or just the name if it contains
 * a brace.  "+" is the same for keys of ours, which must differ for "x" and "{x}":
 * instead of the bare name it gives ":name".  "@" stands for an owner, "#" for 40
 * digits.  Some scripts make such names themselves; see kinds/README.md.
 */
#define NAME_LOCK				"="
#define NAME_COUNTER			"redisson_lock_token:*" /* of fencing tokens */
#define NAME_READERS			"*" /* prefix of readers' timeouts */
#define NAME_TIMEOUT			"*:@:rwlock_timeout:1"	/* timeout of a reader's first
														 * lock */
#define NAME_WRITERS			"lockredis_writers:+"	/* waiting writers */
#define NAME_QUEUE				"redisson_lock_queue:*" /* sessions that wait for a fair
														 * lock, */
#define NAME_PATIENCE			"redisson_lock_timeout:*"	/* until when each counts, */
#define NAME_PLACES				"lockredis_places:+"	/* those of lockredis */
#define NAME_PERMITS			"*:timeout" /* permits that are held */
#define NAME_WAITING			"lockredis_condition_waiting:+:#"	/* waiting for a
																	 * condition, */
#define NAME_ALIVE				"lockredis_condition_alive:+:#" /* until when each counts, */
#define NAME_TOLD				"lockredis_condition_told:+:#"	/* and those notified */
#define NAME_TICKETS			"lockredis_tickets:+"	/* requests that have been counted */
#define NAME_LOCK_CHANNEL		"redisson_lock__channel:*"
#define NAME_READ_WRITE_CHANNEL "redisson_rwlock:*"
#define NAME_PERMITS_CHANNEL	"redisson_sc:*"
#define NAME_CONDITION_CHANNEL	"lockredis_condition__channel:+"
#define NAME_LATCH_CHANNEL		"redisson_countdownlatch__channel__{=}"

/* Expand one of these patterns; "with" replaces "@" and "#".  Returns the length. */
extern int	lr_derived_name(const char *pattern, const char *name, int len,
							const char *with, char *out);

/* The patterns of the channels. */
extern const char *const lr_channels[TOPIC_COUNT];

/* Does each owner have a channel of its own for this topic? */
static inline bool
lr_topic_of_owners(LrTopic topic)
{
	return topic == TOPIC_PLACE || topic == TOPIC_CONDITION;
}

/* A channel to listen to; zero-padded, without gaps, so that it is compared as a blob. */
typedef struct TopicKey
{
	uint64		owner;			/* the owner, if each has a channel; else 0 */
	LrTopic		topic;
	int			len;
	char		name[MAXALIGN(LR_NAME_MAX)];
} TopicKey;

/* Fills in a topic; it is compared as bytes, so that nothing may be left unset. */
static inline void
lr_topic_key(TopicKey *key, LrTopic topic, uint64 owner, const char *name, int len)
{
	memset(key, 0, sizeof(TopicKey));
	key->topic = topic;
	key->owner = owner;
	key->len = len;
	memcpy(key->name, name, len);
}

/* ----------
 * This instance of the server
 * ----------
 */

extern Size instance_shmem_size(void);
extern void instance_shmem_init(void);

/* Raises an error if the library was not preloaded, as it has no shared memory then. */
extern void lr_require_preload(void);

/* The UUID of this instance, 36 characters; each new shared memory gets another one. */
extern const char *lr_instance_uuid(void);

/* Write "<uuid>:<number>" to a buffer of LR_OWNER_MAX bytes; returns its length. */
extern int	lr_owner_text(uint64 owner, char *out);

/* The number in such a text, 0 if it is not of this instance. */
extern uint64 lr_owner_number(const char *text);

/* An owner number that was never used before, and never will be. */
extern uint64 lr_new_owner(void);

/*
 * Compute 16 bytes that stand for an owner number.  Without the secret of this instance
 * nobody can guess them, however many others are known.
 */
#define LR_SECRET_ID_LEN	16

extern void lr_secret_id(uint64 owner, uint8 *out);

/* The watchdog reports that it runs in this process, or that it ends. */
extern void lr_watchdog_enter(void);
extern void lr_watchdog_leave(void);
extern bool lr_watchdog_running(void);

/* Wake the watchdog, if there is one.  Must not be called while holding a lock. */
extern void lr_wake_watchdog(void);

#endif							/* LR_NAMES_H */
