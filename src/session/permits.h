/*-------------------------------------------------------------------------
 *
 * permits.h
 *	  Numbers that somebody sets, and permits that no session has.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/session/permits.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_SESSION_PERMITS_H
#define LR_SESSION_PERMITS_H

#include "lockredis.h"

#include "instance.h"
#include "keyname.h"
#include "session/request.h"
#include "store/store.h"

/*
 * Ask for the number of a name (STORE_VALUE), or change it (STORE_DEFINE): "kind" of *op, and
 * what belongs to it, says how; the answer is in *op then.  Raises unless the store says;
 * false: there is none.
 */
extern bool session_number(const LrName *name, KindId kind, StoreOp *op);

/*
 * Take as many as the request says of a semaphore, or wait for a latch.  False: it was not
 * so in time.
 */
extern bool session_wait_for_number(const LrName *name, AcquireRequest *request);

/*
 * Take a permit that is then nobody's but of who knows its id.  False: none was free in
 * time.
 */
extern bool session_acquire(const LrName *name, const AcquireRequest *request, uint8 *id);

/* Give it back, or keep it at least that long from now.  False: it is gone. */
extern bool session_release_id(const LrName *name, KindId kind, const uint8 *id);
extern bool session_extend_id(const LrName *name, KindId kind, const uint8 *id,
							  int64 lease_ms);

#endif							/* LR_SESSION_PERMITS_H */
