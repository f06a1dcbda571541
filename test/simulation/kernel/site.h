/*-------------------------------------------------------------------------
 *
 * site.h
 *	  Where in the product the running process is.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/site.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_SITE_H
#define SIM_SITE_H

#include <stdbool.h>
#include <stdint.h>

/* Frames of the product that make a site: whoever is at the step, and his callers. */
#define SITE_FRAMES		3

typedef struct Site
{
	uint32_t	offset[SITE_FRAMES];	/* in product.so; 0 = no more */
} Site;

/* Once, when the copies of the product are there. */
extern void sites_load(void);

/* Of the running process. */
extern void site_here(Site *site);

/* Has the running process a frame with code from there to there? */
extern bool site_is_within(uint32_t begin, uint32_t end);

/* Where it was when a signal came: the context that a handler is given. */
extern void site_of_signal(const void *context, Site *site);

/* Its functions, for people: "lt_lock_hold < lt_grant < wait_take_granted". */
extern const char *site_name(const Site *site);

/* The same for the same way through the same build. */
extern uint32_t site_hash(const Site *site);

#endif							/* SIM_SITE_H */
