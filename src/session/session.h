/*-------------------------------------------------------------------------
 *
 * session.h
 *	  The Redis locks of this backend: take, ask, change, end.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/session/session.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_SESSION_H
#define LR_SESSION_H

#include "lockredis.h"

#include "keyname.h"
#include "locktable/hold.h"
#include "session/held.h"
#include "session/request.h"
#include "session/untold.h"
#include "store/store.h"

/*
 * Take the lock, again if this session has it.  False: busy.  *got, unless NULL
 * was passed, is good until the next call of this or any function below.
 */
extern bool session_lock(const LrName *name, const AcquireRequest *request,
						 HeldEntry **got);

/*
 * Take a lock of a kind that is ownerless: the session does not have it.  False: busy.
 * "untold", if not NULL, is had with it.
 */
extern bool session_take(const LrName *name, const AcquireRequest *request,
						 Untold *untold);

/* What a backend needs before its first lock or question; raises. */
extern void session_enter(void);

/* DISCARD ALL: give all back.  A cancel cannot stop it, and it raises nothing. */
extern void session_discard(void);

/*
 * Of this session, without asking the store.  False: no hold, not even lost.  Of a kind
 * of which each is one more: all of them, with their counts.
 */
extern bool session_look(const LrName *name, KindId kind, HoldView *view);

/* Raise that a lost hold of this session was to be used. */
extern void session_refuse_lost(const LrName *name, const HoldView *view);

/* Keep the hold, or each of them, at least that long from now.  False: one is lost. */
extern bool session_extend(const LrName *name, KindId kind, int64 lease_ms,
						   bool renewed);

/*
 * Have the store give the hold a new fencing token above "floor"; raises unless
 * it does.
 */
extern int64 session_mint(const LrName *name, const HeldEntry *entry,
						  const AcquireRequest *request, int64 floor);

/*
 * Raise if the session has the key as a kind beside which it cannot have that one:
 * it would wait for itself.
 */
extern void session_require_beside(const LrName *name, KindId wanted);

/* Ask the store who has the key; raises unless it says. */
extern void session_inspect(const LrName *name, KindId kind, StoreOp *op);

/* Take the lock away from whoever has it.  False: nobody had it. */
extern bool session_force(const LrName *name, KindId kind);

#endif							/* LR_SESSION_H */
