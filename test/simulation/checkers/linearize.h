/*-------------------------------------------------------------------------
 *
 * linearize.h
 *	  Is there an order of the calls of a history in which each lock behaves as
 *	  one does?
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/checkers/linearize.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_LINEARIZE_H
#define SIM_LINEARIZE_H

#include "../kernel/history.h"

typedef enum Linearity
{
	LINEAR,
	NOT_LINEAR,
	NOT_DECIDED					/* too many orders to try, or records are missing */
} Linearity;

/* Instead of the number of a server: they exclude each other. */
#define ALL_SERVERS	(-1)

/*
 * "excludes" has for each kind a bit for each that nobody else can have beside it; the
 * sessions of which server are judged; "why", of such a size, what is wrong.
 */
extern Linearity linearize(const HistoryRecord *records, int n, const uint32_t *excludes,
						   int server, char *why, size_t size);

#endif							/* SIM_LINEARIZE_H */
