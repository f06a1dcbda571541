/*-------------------------------------------------------------------------
 *
 * site.c
 *	  Where in the product the running process is.
 *
 * A step is taken in the stand-in for PostgreSQL, some calls below the product.  The
 * frames of the stack are walked (all is built with frame pointers) up to those
 * whose code is of the product; the functions that everybody takes locks through
 * say little by themselves, so their callers count too.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/site.c
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <ucontext.h>

#include "kernel.h"
#include "site.h"
#include "symbols.h"

/* Frames of the stand-in at most. */
#define WALK_MAX	24

static uint32_t product_begin;
static uint32_t product_end;
static uintptr_t bases[SIM_MAX_PROCS];

void
sites_load(void)
{
	for (int i = 0; i < SIM_MAX_PROCS; i++)
		bases[i] = copy_base(i);
	product_begin = (uint32_t) ((uintptr_t) copy_symbol(0, "sim_product_begin") - bases[0]);
	product_end = (uint32_t) ((uintptr_t) copy_symbol(0, "sim_product_end") - bases[0]);
}

__attribute__((no_sanitize("address")))
static void
walk(uintptr_t *frame, Site *site, int n)
{
	uintptr_t	base = bases[sim_slot()];

	for (int i = 0; i < WALK_MAX && n < SITE_FRAMES && process_has_on_stack(frame); i++)
	{
		uintptr_t	offset = frame[1] - base;
		uintptr_t  *caller = (uintptr_t *) frame[0];

		if (offset > product_begin && offset < product_end)
			site->offset[n++] = (uint32_t) offset;
		if (caller <= frame)
			break;
		frame = caller;
	}
}

void
site_here(Site *site)
{
	memset(site, 0, sizeof(Site));
	walk(__builtin_frame_address(0), site, 0);
}

/* All frames of the stand-in and of the product. */
#define WALK_FAR	64

__attribute__((no_sanitize("address")))
bool
site_is_within(uint32_t begin, uint32_t end)
{
	uintptr_t	base = bases[sim_slot()];
	uintptr_t  *frame = __builtin_frame_address(0);

	for (int i = 0; i < WALK_FAR && process_has_on_stack(frame); i++)
	{
		uintptr_t	offset = frame[1] - base;
		uintptr_t  *caller = (uintptr_t *) frame[0];

		if (offset > begin && offset <= end)
			return true;
		if (caller <= frame)
			break;
		frame = caller;
	}
	return false;
}

void
site_of_signal(const void *context, Site *site)
{
	const mcontext_t *m = &((const ucontext_t *) context)->uc_mcontext;
	uintptr_t	pc = 0;
	uintptr_t	frame = 0;
	int			n = 0;

#if defined(__x86_64__)
	pc = (uintptr_t) m->gregs[REG_RIP];
	frame = (uintptr_t) m->gregs[REG_RBP];
#elif defined(__aarch64__)
	pc = (uintptr_t) m->pc;
	frame = (uintptr_t) m->regs[29];
#else
	(void) m;
#endif
	memset(site, 0, sizeof(Site));
	pc -= bases[sim_slot()];
	if (pc > product_begin && pc < product_end)
		site->offset[n++] = (uint32_t) pc;
	walk((uintptr_t *) frame, site, n);
}

const char *
site_name(const Site *site)
{
	static char text[256];
	size_t		used = 0;

	text[0] = '\0';
	for (int i = 0; i < SITE_FRAMES && site->offset[i] != 0; i++)
	{
		const char *name = symbol_at(site->offset[i]);

		used += snprintf(text + used, sizeof(text) - used, "%s%s", i == 0 ? "" : " < ",
						 name ? name : "?");
		if (used >= sizeof(text))
			break;
	}
	return text;
}

uint32_t
site_hash(const Site *site)
{
	uint32_t	h = 2166136261u;

	for (int i = 0; i < SITE_FRAMES; i++)
		h = (h ^ site->offset[i]) * 16777619u;
	return h ^ (h >> 15);
}
