/*-------------------------------------------------------------------------
 *
 * replaced.h
 *	  What functions of PostgreSQL's look like that are replaced here, by
 *	  version.  src/compat.h is about those that the product calls.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/backend/replaced.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_REPLACED_H
#define SIM_REPLACED_H

/* 16 dropped the type of an assertion, and renamed what copies a backend's status. */
#if PG_VERSION_NUM >= 160000
#define SIM_ASSERTION_TYPE
#define SIM_LOCAL_BEENTRY		pgstat_get_local_beentry_by_index
#else
#define SIM_ASSERTION_TYPE		const char *type,
#define SIM_LOCAL_BEENTRY		pgstat_fetch_stat_local_beentry
#endif

/* 17 does not change what a row is made of, and 19 not an array that it looks at. */
#if PG_VERSION_NUM >= 170000
#define SIM_CONST_SINCE_17		const
#else
#define SIM_CONST_SINCE_17
#endif
#if PG_VERSION_NUM >= 190000
#define SIM_CONST_SINCE_19		const
#else
#define SIM_CONST_SINCE_19
#endif

/* 17 made WaitEventSets belong to a resource owner, and numbers processes anew. */
#if PG_VERSION_NUM >= 170000
typedef struct ResourceOwnerData *SimWaitEventOwner;
#define SIM_LOCK_OWNER			vxid.procNumber
#else
typedef MemoryContext SimWaitEventOwner;
#define SIM_LOCK_OWNER			backend
#endif

/* 18 does not tell what handler a signal had; 19 tells a handler where it came from. */
#if PG_VERSION_NUM >= 180000
#define SIM_OLD_HANDLER			void
#define SIM_RETURN_OLD(handler)
#else
#define SIM_OLD_HANDLER			pqsigfunc
#define SIM_RETURN_OLD(handler)	return (handler)
#endif
#if PG_VERSION_NUM >= 190000
#define SIM_SIGNAL_ARGS(signo)	(signo), NULL
#else
#define SIM_SIGNAL_ARGS(signo)	(signo)
#endif

/* 19 gave the system caches a type. */
#if PG_VERSION_NUM >= 190000
#define SIM_CACHE_ID			SysCacheIdentifier
#else
#define SIM_CACHE_ID			int
#endif

#endif							/* SIM_REPLACED_H */
