/*-------------------------------------------------------------------------
 *
 * workload.h
 *	  What the simulated sessions do, and what they know to be true.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/workload/workload.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_WORKLOAD_H
#define SIM_WORKLOAD_H

#include "../backend/backend.h"

#include "../../../src/locktable/hold.h"
#include "../../../src/session/session.h"

/* Slots of processes. */
#define SLOT_WATCHDOG		0
#define SLOT_TABLE_WORKER	1
#define SLOT_FIRST_SESSION	2

extern void session_main(int slot);
extern void table_worker_main(void) pg_attribute_noreturn();

/* ---- ledger.c: of this session ---- */

/* A statement begins; it has ended, with or without an error. */
extern void ledger_statement(void);
extern void ledger_statement_ends(void);

/* This session has taken a lock. */
extern void ledger_taken(const HeldEntry *entry, LockScope scope);

/* The subtransaction, or all of it, is over. */
extern void ledger_sub_ends(SubTransactionId sub, SubTransactionId parent, bool commit);
extern void ledger_transaction_ends(void);

/* A wait for the store has ended. */
extern void ledger_waited(void);

/* Before and after the guard of a commit. */
extern void ledger_guard_begins(void);
extern void ledger_guard_passed(void);

extern void ledger_told(int elevel, int sqlstate, const char *message);

#endif							/* SIM_WORKLOAD_H */
