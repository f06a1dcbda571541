/*-------------------------------------------------------------------------
 *
 * sanitizer_first.c
 *	  Has the address sanitizer started before any other library.
 *
 * Some libraries of the server call bindtextdomain() when they are loaded,
 * which calls malloc() under a lock of the C library.  If that is the
 * sanitizer's first call, it starts itself there, looks for a symbol that is
 * not there, and the text of that error needs the same lock: the server hangs.
 *
 * To be linked with -z initfirst and preloaded behind the sanitizer.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/fuzz/sanitizer_first.c
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>

static void *volatile first;

__attribute__((constructor))
static void
start_sanitizer(void)
{
	first = malloc(1);
	free(first);
}
