/*-------------------------------------------------------------------------
 *
 * answers.h
 *	  What the answers to a batch say about the locks in it.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/watchdog/answers.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_ANSWERS_H
#define LR_ANSWERS_H

#include "lockredis.h"

#include "watchdog/due_batch.h"

/* Tell the lock table; what was not done is due again at "retry_at". */
extern void answers_apply(const DueBatch *b, int64 retry_at);

#endif							/* LR_ANSWERS_H */
