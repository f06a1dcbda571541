/*-------------------------------------------------------------------------
 *
 * process.c
 *	  Memory of the simulated processes.
 *
 * The product is one shared object that is loaded once for each process, from
 * copies of its file, so each process has statics of its own.  A process that
 * begins gets them as they were when the object was loaded, as a process that
 * was forked by an empty postmaster would.  Shared memory is one arena for each server.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/process.c
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernel.h"
#include "symbols.h"

#define MAX_SEGMENTS	4

typedef struct Copy
{
	void	   *handle;
	ElfW(Addr)	base;
	int			nsegments;
	struct
	{
		char	   *start;
		size_t		length;
		char	   *pristine;
	}			segment[MAX_SEGMENTS];
} Copy;

static Copy copies[COPIES];

/* Redzones between variables are copied too. */
__attribute__((no_sanitize("address")))
static void
copy_bytes(char *to, const char *from, size_t n)
{
	uint64_t   *t = (uint64_t *) to;
	const uint64_t *f = (const uint64_t *) from;

	for (size_t i = 0; i < n / 8; i++)
		if (t[i] != f[i])
			t[i] = f[i];
}

static int
find_segments(struct dl_phdr_info *info, size_t size, void *arg)
{
	Copy	   *copy = arg;

	if (info->dlpi_addr != copy->base)
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++)
	{
		const		ElfW(Phdr) * p = &info->dlpi_phdr[i];
		uintptr_t	start = (info->dlpi_addr + p->p_vaddr) & ~(uintptr_t) 7;
		uintptr_t	end = (info->dlpi_addr + p->p_vaddr + p->p_memsz + 7) & ~(uintptr_t) 7;

		if (p->p_type != PT_LOAD || (p->p_flags & PF_W) == 0)
			continue;
		copy->segment[copy->nsegments].start = (char *) start;
		copy->segment[copy->nsegments++].length = end - start;
	}
	return 1;
}

/* dlopen() knows files by their inode. */
static void
copy_file(const char *from, const char *to)
{
	int			in = open(from, O_RDONLY);
	int			out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0755);
	struct stat st;

	if (in < 0 || out < 0 || fstat(in, &st) != 0 ||
		sendfile(out, in, NULL, st.st_size) != st.st_size)
	{
		perror(to);
		exit(2);
	}
	close(in);
	close(out);
}

/* Counters of gcov are kept, or nothing would be counted: offsets in product.so. */
#define MAX_COUNTERS	8192

static struct
{
	uint64_t	start;
	uint64_t	end;
}			counters[MAX_COUNTERS];
static int	ncounters;

static void
keep_counter(uint64_t offset, uint64_t size)
{
	if (ncounters == MAX_COUNTERS)
	{
		fprintf(stderr, "too many counters\n");
		exit(2);
	}
	counters[ncounters].start = offset;
	counters[ncounters++].end = offset + size;
}

void
copies_load(const char *path)
{
	char		directory[] = "/tmp/lockredis-sim.XXXXXX";

	if (mkdtemp(directory) == NULL)
	{
		perror(directory);
		exit(2);
	}
	for (int i = 0; i < COPIES; i++)
	{
		Copy	   *copy = &copies[i];
		struct link_map *map;
		char		name[128];

		snprintf(name, sizeof(name), "%s/%d.so", directory, i);
		copy_file(path, name);
		copy->handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
		if (copy->handle == NULL || dlinfo(copy->handle, RTLD_DI_LINKMAP, &map) != 0)
		{
			fprintf(stderr, "%s\n", dlerror());
			exit(2);
		}
		unlink(name);
		copy->base = map->l_addr;
		dl_iterate_phdr(find_segments, copy);
		for (int s = 0; s < copy->nsegments; s++)
		{
			copy->segment[s].pristine = malloc(copy->segment[s].length);
			copy_bytes(copy->segment[s].pristine, copy->segment[s].start,
					   copy->segment[s].length);
		}
	}
	rmdir(directory);
	symbols_load(path);
	symbols_each("__gcov0", keep_counter);
}

void *
copy_symbol(int copy, const char *name)
{
	void	   *symbol = dlsym(copies[copy].handle, name);

	if (symbol == NULL)
	{
		fprintf(stderr, "%s\n", dlerror());
		exit(2);
	}
	return symbol;
}

uintptr_t
copy_base(int copy)
{
	return copies[copy].base;
}

void
copy_restore(int copy)
{
	const Copy *c = &copies[copy];

	for (int s = 0; s < c->nsegments; s++)
	{
		uint64_t	begin = (uintptr_t) c->segment[s].start - c->base;
		uint64_t	end = begin + c->segment[s].length;
		uint64_t	done = begin;

		for (int i = 0; i < ncounters; i++)
			if (counters[i].start >= begin && counters[i].end <= end)
			{
				copy_bytes(c->segment[s].start + (done - begin),
						   c->segment[s].pristine + (done - begin),
						   counters[i].start - done);
				done = counters[i].end;
			}
		copy_bytes(c->segment[s].start + (done - begin),
				   c->segment[s].pristine + (done - begin), end - done);
	}
}

/* ----------
 * Arenas
 * ----------
 */

static char arena[SIM_MAX_SERVERS][SIM_ARENA_SIZE] __attribute__((aligned(128)));
static size_t arena_used[SIM_MAX_SERVERS];
static void *roots[SIM_MAX_SERVERS];
static int	here;				/* the server that is meant */
void	   *sim_root;

void
memory_of(int server)
{
	roots[here] = sim_root;
	here = server;
	sim_root = roots[here];
}

int
sim_server(void)
{
	return here;
}

void
arena_reset(void)
{
	memset(arena[here], 0, arena_used[here]);
	arena_used[here] = 0;
}

void *
sim_arena_alloc(size_t size)
{
	void	   *p = arena[here] + arena_used[here];

	arena_used[here] += (size + 127) & ~(size_t) 127;
	if (arena_used[here] > SIM_ARENA_SIZE)
	{
		fprintf(stderr, "the arena is too small\n");
		exit(2);
	}
	return p;
}

/* ----------
 * What is durable
 * ----------
 */

#define MAX_DURABLES	24

static struct
{
	int			server;
	char		name[32];
	void	   *data;
	size_t		size;
}			durables[MAX_DURABLES];
static int	ndurables;

void
durable_reset(void)
{
	for (int i = 0; i < ndurables; i++)
		memset(durables[i].data, 0, durables[i].size);
}

void *
sim_durable(const char *name, size_t size)
{
	for (int i = 0; i < ndurables; i++)
		if (durables[i].server == here && strcmp(durables[i].name, name) == 0)
			return durables[i].data;
	if (ndurables == MAX_DURABLES)
		sim_fail("simulator", "too much is durable");
	snprintf(durables[ndurables].name, sizeof(durables[0].name), "%s", name);
	durables[ndurables].server = here;
	durables[ndurables].size = size;
	return durables[ndurables++].data = calloc(1, size);
}

/* ----------
 * Heaps
 * ----------
 */

typedef struct Block
{
	struct Block *prev;
	struct Block *next;
	size_t		size;
	size_t		unused;			/* aligns what follows */
} Block;

static Block heaps[COPIES];

static Block *
heap_of(int slot)
{
	Block	   *heap = &heaps[slot < 0 ? OBSERVER(here) : slot];

	if (heap->next == NULL)
		heap->next = heap->prev = heap;
	return heap;
}

void *
sim_heap_alloc(size_t size)
{
	Block	   *heap = heap_of(sim_slot());
	Block	   *block = malloc(sizeof(Block) + size);

	block->size = size;
	block->next = heap->next;
	block->prev = heap;
	heap->next->prev = block;
	heap->next = block;
	return block + 1;
}

void
sim_heap_free(void *p)
{
	Block	   *block = (Block *) p - 1;

	block->prev->next = block->next;
	block->next->prev = block->prev;
	free(block);
}

size_t
sim_heap_size(const void *p)
{
	return ((const Block *) p - 1)->size;
}

void
heap_free_all(int slot)
{
	Block	   *heap = heap_of(slot);

	while (heap->next != heap)
		sim_heap_free(heap->next + 1);
}
