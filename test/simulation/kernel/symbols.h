/*-------------------------------------------------------------------------
 *
 * symbols.h
 *	  What is where in product.so.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/symbols.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_SYMBOLS_H
#define SIM_SYMBOLS_H

#include <stdbool.h>
#include <stdint.h>

/* Of the file, once. */
extern void symbols_load(const char *path);

/* The function that has that offset; NULL: none. */
extern const char *symbol_at(uint32_t offset);

/* Where it is, of a function that is not static; false: there is none. */
extern bool symbol_range(const char *function, uint32_t *begin, uint32_t *end);

/* Variables whose name begins like that: called for each, in order. */
extern void symbols_each(const char *prefix, void (*call) (uint64_t offset, uint64_t size));

#endif							/* SIM_SYMBOLS_H */
