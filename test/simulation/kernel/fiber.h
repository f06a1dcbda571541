/*-------------------------------------------------------------------------
 *
 * fiber.h
 *	  The address sanitizer is told of each change of stacks.
 *
 * Without it these do nothing.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/fiber.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_FIBER_H
#define SIM_FIBER_H

#include <stddef.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>

/* About to go to that stack; what is kept of this one, or NULL: it is left for good. */
#define fiber_leaves(kept, stack, size) \
	__sanitizer_start_switch_fiber((kept), (stack), (size))

/* Here now; what was kept of this one, and where it came from. */
#define fiber_is_back(kept, stack, size) \
	__sanitizer_finish_switch_fiber((kept), (stack), (size))

/* What stands there was left by somebody who did not return. */
#define fiber_forget(stack, size)	__asan_unpoison_memory_region((stack), (size))
#else
#define fiber_leaves(kept, stack, size)		((void) (kept), (void) (stack), (void) (size))
#define fiber_is_back(kept, stack, size)	((void) (kept), (void) (stack), (void) (size))
#define fiber_forget(stack, size)			((void) (stack), (void) (size))
#endif

#endif							/* SIM_FIBER_H */
