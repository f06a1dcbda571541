/*-------------------------------------------------------------------------
 *
 * job.h
 *	  redis_with_lock: a command that several servers want to run once.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/sql/job.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_JOB_H
#define LR_JOB_H

#include "lockredis.h"

#include "fmgr.h"

#include "keyname.h"
#include "session/request.h"

/* Raises 2D000 where the transaction cannot be ended. */
extern void job_require_control(FunctionCallInfo fcinfo);

/* Run the command under the lock; false: the lock was busy. */
extern bool job_run(const LrName *name, const AcquireRequest *request,
					const char *command);

#endif							/* LR_JOB_H */
