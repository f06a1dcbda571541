/*-------------------------------------------------------------------------
 *
 * settings.h
 *	  The lockredis.* settings and what is derived from them.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/settings.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_SETTINGS_H
#define LR_SETTINGS_H

#include "lockredis.h"
#include "store/redis/url.h"

/* lockredis.mode */
typedef enum StoreMode
{
	MODE_REDIS,
	MODE_TABLE,
	MODE_FALLBACK
} StoreMode;

/* lockredis.release_wait */
typedef enum ReleaseWait
{
	RELEASE_WAIT_ANSWERED,
	RELEASE_WAIT_SENT
} ReleaseWait;

extern int	lr_mode;			/* StoreMode */
extern int	lr_max_locks;
extern int	lr_fallback_after;	/* ms */
extern char *lr_database;
extern bool lr_table_synchronous_commit;
extern char *lr_url;
extern char *lr_password_file;
extern char *lr_sentinel_user;
extern char *lr_sentinel_password_file;
extern char *lr_tls_ca_file;
extern char *lr_tls_cert_file;
extern char *lr_tls_key_file;
extern char *lr_tls_server_name;
extern int	lr_max_handoffs;
extern int	lr_connect_timeout; /* ms */
extern int	lr_command_timeout; /* ms */
extern int	lr_idle_timeout;	/* ms; 0 = never */
extern char *lr_key_prefix;
extern int	lr_lease;			/* ms */
extern int	lr_max_lease;		/* ms; with several masters */
extern int	lr_wait_lease;		/* ms */
extern bool lr_session_locks;
extern int	lr_commit_guard;	/* CommitGuard */
extern int	lr_on_lost;			/* OnLost */
extern int	lr_release_wait;	/* ReleaseWait */
extern int	lr_min_replicas;
extern int	lr_replica_timeout; /* ms */

/* The largest value of lockredis.min_replicas. */
#define LR_REPLICAS_MAX		16

/* The parsed form of lockredis.url; a reload replaces it as a whole. */
extern const RedisUrl *lr_redis_url;

/*
 * The number of independent masters in lockredis.url, whose URLs are an array; 0 if it
 * is a single URL.
 */
extern int	lr_nmasters;

/* Do independent masters keep the locks? */
extern bool lr_has_masters(void);

/* Digests of the settings that existing connections depend on. */
typedef struct LrWay
{
	uint64		settings;		/* all but the following */
	uint64		tls_files;		/* if these differ, connections are made again only if
								 * the new files are usable */
} LrWay;

extern LrWay lr_way(void);

/*
 * Identifies what lockredis.url names, as a digest of all but the passwords: with another
 * user, or another order of hosts, it is another place.
 */
extern uint32 lr_place;

/* Set while an ALTER SYSTEM is executed: only then does a backend warn of a password. */
extern bool lr_in_alter_system;

/* Time limit of a whole call, connect_timeout + command_timeout, in microseconds. */
extern int64 lr_call_budget(void);

/*
 * The longest since the server started: before a reload, others may have begun calls with it
 * that are still under way.
 */
extern int64 lr_longest_call(void);

/* Does the server's mode use this store? */
extern bool lr_has_store(StoreId id);

/* The store of new locks as long as it answers. */
extern StoreId lr_first_store(void);

/* Does another store take its place when it does not answer? */
extern bool lr_has_fallback(void);

/* Do the Sentinels or nodes of a cluster tell which node is the master? */
extern bool lr_follows_master(void);

/*
 * Defines all settings, when the library is loaded.  Raises an error if the configuration
 * has an invalid value for one: the server does not start, as with PostgreSQL's own settings.
 */
extern void lr_define_settings(void);

/*
 * Raises an error if lockredis.lease exceeds lockredis.max_lease of independent
 * masters.  Called at server start and whenever a lock is to get lockredis.lease: a reload
 * refuses too long a lease, but when it changes one URL to several masters, the watchdog
 * only warns of the lease.
 */
extern void lr_require_fit_lease(void);

#endif							/* LR_SETTINGS_H */
