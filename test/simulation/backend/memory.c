/*-------------------------------------------------------------------------
 *
 * memory.c
 *	  Memory contexts.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/backend/memory.c
 *
 *-------------------------------------------------------------------------
 */
#include "backend.h"

#include "utils/memutils.h"
#include "utils/portal.h"

typedef struct Context Context;

typedef struct Chunk
{
	struct Chunk *prev;
	struct Chunk *next;
	Context    *context;
	Size		size;
} Chunk;

struct Context
{
	Context    *parent;
	Context    *first_child;
	Context    *next;			/* of the same parent */
	Chunk		chunks;
};

MemoryContext TopMemoryContext = NULL;
MemoryContext CurrentMemoryContext = NULL;

/* Statements have no portals. */
MemoryContext PortalContext = NULL;
Portal		ActivePortal = NULL;

static Context *
as_context(MemoryContext context)
{
	return (Context *) context;
}

MemoryContext
AllocSetContextCreateInternal(MemoryContext parent, const char *name,
							  Size minContextSize, Size initBlockSize,
							  Size maxBlockSize)
{
	Context    *c = sim_heap_alloc(sizeof(Context));

	memset(c, 0, sizeof(Context));
	c->chunks.prev = c->chunks.next = &c->chunks;
	c->parent = as_context(parent);
	if (parent != NULL)
	{
		c->next = c->parent->first_child;
		c->parent->first_child = c;
	}
	return (MemoryContext) c;
}

static void
free_chunk(Chunk *chunk)
{
	chunk->prev->next = chunk->next;
	chunk->next->prev = chunk->prev;
	sim_heap_free(chunk);
}

void
MemoryContextReset(MemoryContext context)
{
	Context    *c = as_context(context);

	while (c->first_child != NULL)
		MemoryContextDelete((MemoryContext) c->first_child);
	while (c->chunks.next != &c->chunks)
		free_chunk(c->chunks.next);
}

void
MemoryContextDelete(MemoryContext context)
{
	Context    *c = as_context(context);

	MemoryContextReset(context);
	if (c->parent != NULL)
	{
		Context   **link = &c->parent->first_child;

		while (*link != c)
			link = &(*link)->next;
		*link = c->next;
	}
	sim_heap_free(c);
}

Size
MemoryContextMemAllocated(MemoryContext context, bool recurse)
{
	const Context *c = as_context(context);
	Size		size = 0;

	for (const Chunk *chunk = c->chunks.next; chunk != &c->chunks; chunk = chunk->next)
		size += chunk->size;
	return size;
}

/* So much of a new chunk is made unusable; the watchdog has some of a megabyte. */
#define SPOILED_MAX		((Size) 8192)

static void *
alloc_filled(MemoryContext context, Size size, int with)
{
	Context    *c = as_context(context);
	Chunk	   *chunk;

	backend_must_hold_no_lock("an allocation");
	if (backend_must_not_raise != NULL)
		sim_fail("must not allocate", "memory is allocated %s", backend_must_not_raise);
	chunk = sim_heap_alloc(sizeof(Chunk) + size);
	chunk->context = c;
	chunk->size = size;
	chunk->next = c->chunks.next;
	chunk->prev = &c->chunks;
	c->chunks.next->prev = chunk;
	c->chunks.next = chunk;
	(void) memset(chunk + 1, with, with == 0 ? size : Min(size, SPOILED_MAX));
	return chunk + 1;
}

static void *
alloc(MemoryContext context, Size size)
{
	return alloc_filled(context, size, 0x7f);
}

static void *
alloc_zeroed(MemoryContext context, Size size)
{
	return alloc_filled(context, size, 0);
}

void *
MemoryContextAlloc(MemoryContext context, Size size)
{
	return alloc(context, size);
}

void *
MemoryContextAllocZero(MemoryContext context, Size size)
{
	return alloc_zeroed(context, size);
}

void *
MemoryContextAllocHuge(MemoryContext context, Size size)
{
	return alloc(context, size);
}

void *
MemoryContextAllocExtended(MemoryContext context, Size size, int flags)
{
	return flags & MCXT_ALLOC_ZERO ? alloc_zeroed(context, size) : alloc(context, size);
}

void *
palloc(Size size)
{
	return alloc(CurrentMemoryContext, size);
}

void *
palloc0(Size size)
{
	return alloc_zeroed(CurrentMemoryContext, size);
}

void *
palloc_extended(Size size, int flags)
{
	return MemoryContextAllocExtended(CurrentMemoryContext, size, flags);
}

void
pfree(void *pointer)
{
	free_chunk((Chunk *) pointer - 1);
}

void *
repalloc(void *pointer, Size size)
{
	Chunk	   *chunk = (Chunk *) pointer - 1;
	void	   *p = alloc((MemoryContext) chunk->context, size);

	memcpy(p, pointer, Min(size, chunk->size));
	free_chunk(chunk);
	return p;
}

void *
repalloc_huge(void *pointer, Size size)
{
	return repalloc(pointer, size);
}

void
MemoryContextRegisterResetCallback(MemoryContext context, MemoryContextCallback *cb)
{
	sim_fail("simulator", "a memory context has no callbacks");
}

/* ----------
 * malloc() in the product and in hiredis
 * ----------
 */

extern void *__wrap_malloc(size_t size);
extern void *__wrap_calloc(size_t n, size_t size);
extern void *__wrap_realloc(void *p, size_t size);
extern void __wrap_free(void *p);
extern char *__wrap_strdup(const char *s);

void *
__wrap_malloc(size_t size)
{
	return sim_heap_alloc(size);
}

void *
__wrap_calloc(size_t n, size_t size)
{
	return memset(sim_heap_alloc(n * size), 0, n * size);
}

void *
__wrap_realloc(void *p, size_t size)
{
	void	   *larger = sim_heap_alloc(size);

	if (p != NULL)
	{
		memcpy(larger, p, Min(size, sim_heap_size(p)));
		sim_heap_free(p);
	}
	return larger;
}

void
__wrap_free(void *p)
{
	if (p != NULL)
		sim_heap_free(p);
}

char *
__wrap_strdup(const char *s)
{
	size_t		size = strlen(s) + 1;

	return memcpy(sim_heap_alloc(size), s, size);
}
