/*-------------------------------------------------------------------------
 *
 * faults.h
 *	  What goes wrong in a schedule, and clients elsewhere.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/faults.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_FAULTS_H
#define SIM_FAULTS_H

#include "sim.h"

/* Draw which faults there will be, and begin. */
extern void faults_begin(void);

/* One of those that there are comes as the next thing. */
extern void faults_strike_now(void);

/* All is well from now on; clients elsewhere have gone. */
extern void faults_end(void);

#endif							/* SIM_FAULTS_H */
