/*-------------------------------------------------------------------------
 *
 * replies.h
 *	  What the replies to a batch say about the locks in it.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/watchdog/replies.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_REPLIES_H
#define LR_REPLIES_H

#include "lockredis.h"

#include "watchdog/due_batch.h"

/* Tell the lock table; what was not done is due again at "retry_at". */
extern void replies_apply(const DueBatch *b, int64 retry_at);

#endif							/* LR_REPLIES_H */
