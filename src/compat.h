/*-------------------------------------------------------------------------
 *
 * compat.h
 *	  What differs between PostgreSQL 15 to 19, in one place.
 *
 * Every other file is written against the newest spelling and includes this
 * one through lockredis.h.  It may contain preprocessor guards, type aliases
 * and one-line shims only.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/compat.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_COMPAT_H
#define LR_COMPAT_H

#include "access/xact.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/wait_event.h"
#if PG_VERSION_NUM >= 170000
#include "storage/procnumber.h"
#endif

#if PG_VERSION_NUM < 150000
#error "lockredis needs PostgreSQL 15 or newer"
#endif

/*
 * Since 16, a library exports only the symbols that it marks; before, the mark had no
 * meaning.  We hide all others with any version (see the Makefile), so our definitions of
 * functions for SQL have the mark: PG_FUNCTION_INFO_V1 gives it to them since 16 only.
 */
#if PG_VERSION_NUM < 160000
#undef PGDLLEXPORT
#define PGDLLEXPORT				__attribute__((visibility("default")))
#endif

/* 17 replaced PGPROC.pgprocno and the backend id by one process number. */
#if PG_VERSION_NUM >= 170000
#define LrMyProcNumber			MyProcNumber
#define LrProcNumberOf(proc)	GetNumberFromPGProc(proc)
#else
#define LrMyProcNumber			(MyProc->pgprocno)
#define LrProcNumberOf(proc)	((proc)->pgprocno)
#endif

/* 17 made WaitEventSets belong to a resource owner instead of a context. */
#if PG_VERSION_NUM >= 170000
#define LrCreateWaitEventSet(n)	CreateWaitEventSet(NULL, (n))
#else
#define LrCreateWaitEventSet(n)	CreateWaitEventSet(TopMemoryContext, (n))
#endif

/* 16 treats summarizing indexes separately when a row is updated; 19 takes flags. */
#if PG_VERSION_NUM >= 160000
#define LrUpdateIndexes			TU_UpdateIndexes
#define LrIndexesNeedUpdate(u)	((u) != TU_None)
#define LrOnlySummarizing(u)	((u) == TU_Summarizing)
#else
#define LrUpdateIndexes			bool
#define LrIndexesNeedUpdate(u)	(u)
#define LrOnlySummarizing(u)	false
#endif
#if PG_VERSION_NUM >= 190000
#define LrInsertIndexTuples(rri, slot, estate, conflict, summarizing) \
	((void) ExecInsertIndexTuples((rri), (estate), EIIT_NO_DUPE_ERROR | \
								  ((summarizing) ? EIIT_ONLY_SUMMARIZING : 0), \
								  (slot), NIL, (conflict)))
#elif PG_VERSION_NUM >= 160000
#define LrInsertIndexTuples(rri, slot, estate, conflict, summarizing) \
	((void) ExecInsertIndexTuples((rri), (slot), (estate), false, true, (conflict), NIL, (summarizing)))
#else
#define LrInsertIndexTuples(rri, slot, estate, conflict, summarizing) \
	((void) ExecInsertIndexTuples((rri), (slot), (estate), false, true, (conflict), NIL))
#endif

/* 19 has an additional argument with options for scans and changes of rows. */
#if PG_VERSION_NUM >= 190000
#define LrBeginScan(rel, snapshot) \
	table_beginscan((rel), (snapshot), 0, NULL, SO_NONE)
#define LrUpdateRow(rel, tid, slot, cid, snapshot, failure, mode, indexes) \
	table_tuple_update((rel), (tid), (slot), (cid), 0, (snapshot), InvalidSnapshot, \
					   false, (failure), (mode), (indexes))
#define LrDeleteRow(rel, tid, cid, snapshot, failure) \
	table_tuple_delete((rel), (tid), (cid), 0, (snapshot), InvalidSnapshot, false, \
					   (failure))
#else
#define LrBeginScan(rel, snapshot) \
	table_beginscan((rel), (snapshot), 0, NULL)
#define LrUpdateRow(rel, tid, slot, cid, snapshot, failure, mode, indexes) \
	table_tuple_update((rel), (tid), (slot), (cid), (snapshot), InvalidSnapshot, \
					   false, (failure), (mode), (indexes))
#define LrDeleteRow(rel, tid, cid, snapshot, failure) \
	table_tuple_delete((rel), (tid), (cid), (snapshot), InvalidSnapshot, false, \
					   (failure), false)
#endif

/* 15.2 introduced a flag for pipelines; before, a pipeline cannot be recognized. */
#ifndef XACT_FLAGS_PIPELINING
#define XACT_FLAGS_PIPELINING	0
#endif

/* 18 instruments index scans; 19 takes flags. */
#if PG_VERSION_NUM >= 190000
#define LrIndexBeginScan(rel, index, snapshot, nkeys) \
	index_beginscan((rel), (index), (snapshot), NULL, (nkeys), 0, 0)
#elif PG_VERSION_NUM >= 180000
#define LrIndexBeginScan(rel, index, snapshot, nkeys) \
	index_beginscan((rel), (index), (snapshot), NULL, (nkeys), 0)
#else
#define LrIndexBeginScan(rel, index, snapshot, nkeys) \
	index_beginscan((rel), (index), (snapshot), (nkeys), 0)
#endif

/* 17 added transaction_timeout to the other timeouts. */
#if PG_VERSION_NUM >= 170000
#define LrUnlimitTransactions() \
	SetConfigOption("transaction_timeout", "0", PGC_SUSET, PGC_S_OVERRIDE)
#else
#define LrUnlimitTransactions()	((void) 0)
#endif

/* Since 18, "does not return" is a prefix, which must stand before "extern" in 19. */
#if PG_VERSION_NUM >= 180000
#define LR_NORETURN_PREFIX		pg_noreturn
#define LR_NORETURN_SUFFIX
#else
#define LR_NORETURN_PREFIX
#define LR_NORETURN_SUFFIX		pg_attribute_noreturn()
#endif

/* 19 passes a signal handler the origin of the signal. */
#if PG_VERSION_NUM >= 190000
#define LR_PASS_SIGNAL_ARGS		postgres_signal_arg, pg_siginfo
#else
#define LR_PASS_SIGNAL_ARGS		postgres_signal_arg
#endif

#endif							/* LR_COMPAT_H */
