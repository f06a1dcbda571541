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

/* The setting cannot be larger. */
#define LR_REPLICAS_MAX		16

/* lockredis.url in parsed form; replaced as a whole by a reload. */
extern const RedisUrl *lr_redis_url;

/* So many independent masters does it name, whose URLs are an array; 0: it is one URL. */
extern int	lr_nmasters;

/* Are they what keeps the locks? */
extern bool lr_has_masters(void);

/* Changes whenever what a connection is made by was set, in this process. */
extern uint32 lr_url_epoch;

/* The same of the files of TLS: a reason only if they can be used. */
extern uint32 lr_tls_epoch;

/* A number for the servers and databases that it names. */
extern uint32 lr_place;

/* Set while an ALTER SYSTEM is executed: only then its user is warned. */
extern bool lr_in_alter_system;

/* One whole call's budget: connect_timeout + command_timeout, microseconds. */
extern int64 lr_call_budget(void);

/* Is this store used in the server's mode? */
extern bool lr_has_store(StoreId id);

/* The one that new locks go to as long as it answers. */
extern StoreId lr_first_store(void);

/* Is there another one that takes its place when it does not? */
extern bool lr_has_fallback(void);

/* Do others (Sentinels) say which node it is? */
extern bool lr_follows_master(void);

extern void lr_define_settings(void);

/* At the start: raises if lockredis.url was refused for what other settings say. */
extern void lr_require_fit_url(void);

/* Likewise of leases, and whenever a lock is to have lockredis.lease. */
extern void lr_require_fit_lease(void);

#endif							/* LR_SETTINGS_H */
