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

#include <stdint.h>

/* Of the file, once. */
extern void symbols_load(const char *path);

/* The function that has that offset; NULL: none. */
extern const char *symbol_at(uint32_t offset);

/* Variables whose name begins like that: called for each, in order. */
extern void symbols_each(const char *prefix, void (*call) (uint64_t offset, uint64_t size));

#endif							/* SIM_SYMBOLS_H */
