/*-------------------------------------------------------------------------
 *
 * shrink.h
 *	  A failing schedule made smaller.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/shrink.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_SHRINK_H
#define SIM_SHRINK_H

/* The schedule that has just failed: make it small, print its trace. */
extern void shrink_and_show(void);

#endif							/* SIM_SHRINK_H */
