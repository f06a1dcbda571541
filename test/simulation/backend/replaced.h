/*-------------------------------------------------------------------------
 *
 * replaced.h
 *	  How PostgreSQL declares the functions that are replaced here, by version.
 *	  src/compat.h is about the functions that the product calls.
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

/* 16 dropped the type of an assertion. */
#if PG_VERSION_NUM >= 160000
#define SIM_ASSERTION_TYPE
#else
#define SIM_ASSERTION_TYPE		const char *type,
#endif

/* 17 marks the values of a row as const, and 19 an array that it reads. */
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

/* 17 made WaitEventSets belong to a resource owner, and replaced the backend id. */
#if PG_VERSION_NUM >= 170000
typedef struct ResourceOwnerData *SimWaitEventOwner;
#define SIM_LOCK_OWNER			vxid.procNumber
#else
typedef MemoryContext SimWaitEventOwner;
#define SIM_LOCK_OWNER			backend
#endif

/* 19 tells a signal handler where the signal came from. */
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
