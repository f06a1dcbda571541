/*-------------------------------------------------------------------------
 *
 * idle.h
 *	  Connections of this backend that nobody uses are closed.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/session/idle.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_IDLE_H
#define LR_IDLE_H

#include "lockredis.h"

#include "store/store.h"

/* Before the first request: the handle whose connection is minded.  May raise. */
extern void idle_open(const StoreRoutine *store, StoreHandle *handle);

/*
 * There may be a connection, or an error has ended all time-outs: see to it that
 * the connection is closed some day.
 */
extern void idle_mind(void);

/* A lock call runs, or has ended: keep its connection, or not. */
extern void idle_keep(bool keep);

#endif							/* LR_IDLE_H */
