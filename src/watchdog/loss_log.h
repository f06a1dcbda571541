/*-------------------------------------------------------------------------
 *
 * loss_log.h
 *	  Losses of locks in the server log; for the watchdog.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/watchdog/loss_log.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_LOSS_LOG_H
#define LR_LOSS_LOG_H

#include "lockredis.h"

/* Write what has come, and when to look again. */
extern void loss_log_write(void);
extern int64 loss_log_next(void);

/* It ends: what was left out must not wait. */
extern void loss_log_finish(void);

#endif							/* LR_LOSS_LOG_H */
