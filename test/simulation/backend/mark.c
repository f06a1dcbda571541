/*-------------------------------------------------------------------------
 *
 * mark.c
 *	  Where in product.so the code of the product begins, and where it ends.
 *
 * Compiled twice, and linked before and behind the files of src/.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/backend/mark.c
 *
 *-------------------------------------------------------------------------
 */
extern void sim_mark(void);

void
sim_mark(void)
{
}
