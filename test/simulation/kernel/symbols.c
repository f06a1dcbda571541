/*-------------------------------------------------------------------------
 *
 * symbols.c
 *	  What is where in product.so.
 *
 * Its table of symbols is read, as the dynamic linker does not know static functions.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/symbols.c
 *
 *-------------------------------------------------------------------------
 */
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "symbols.h"

typedef struct Symbol
{
	uint64_t	offset;
	uint64_t	size;
	const char *name;
	int			type;
} Symbol;

static Symbol *symbols;
static int	nsymbols;

static int
compare(const void *a, const void *b)
{
	const Symbol *one = a;
	const Symbol *other = b;

	return one->offset < other->offset ? -1 : one->offset > other->offset;
}

static void
read_section(const char *file, const ElfW(Shdr) * table, const ElfW(Shdr) * names)
{
	const		ElfW(Sym) * sym = (const ElfW(Sym) *) (file + table->sh_offset);
	int			n = (int) (table->sh_size / sizeof(ElfW(Sym)));

	symbols = malloc(sizeof(Symbol) * n);
	for (int i = 0; i < n; i++)
	{
		int			type = ELF64_ST_TYPE(sym[i].st_info);

		if ((type != STT_FUNC && type != STT_OBJECT) || sym[i].st_size == 0)
			continue;
		symbols[nsymbols].offset = sym[i].st_value;
		symbols[nsymbols].size = sym[i].st_size;
		symbols[nsymbols].name = file + names->sh_offset + sym[i].st_name;
		symbols[nsymbols++].type = type;
	}
	qsort(symbols, nsymbols, sizeof(Symbol), compare);
}

void
symbols_load(const char *path)
{
	int			fd = open(path, O_RDONLY);
	struct stat st;
	const char *file;
	const		ElfW(Ehdr) * header;
	const		ElfW(Shdr) * sections;

	if (fd < 0 || fstat(fd, &st) != 0 ||
		(file = mmap(NULL, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0)) == MAP_FAILED)
	{
		perror(path);
		exit(2);
	}
	close(fd);
	header = (const ElfW(Ehdr) *) file;
	sections = (const ElfW(Shdr) *) (file + header->e_shoff);
	for (int i = 0; i < header->e_shnum; i++)
		if (sections[i].sh_type == SHT_SYMTAB)
			read_section(file, &sections[i], &sections[sections[i].sh_link]);
}

const char *
symbol_at(uint32_t offset)
{
	for (int i = 0; i < nsymbols; i++)
		if (symbols[i].type == STT_FUNC && offset > symbols[i].offset &&
			offset <= symbols[i].offset + symbols[i].size)
			return symbols[i].name;
	return NULL;
}

bool
symbol_range(const char *function, uint32_t *begin, uint32_t *end)
{
	for (int i = 0; i < nsymbols; i++)
		if (symbols[i].type == STT_FUNC && strcmp(symbols[i].name, function) == 0)
		{
			*begin = (uint32_t) symbols[i].offset;
			*end = (uint32_t) (symbols[i].offset + symbols[i].size);
			return true;
		}
	return false;
}

void
symbols_each(const char *prefix, void (*call) (uint64_t offset, uint64_t size))
{
	for (int i = 0; i < nsymbols; i++)
		if (symbols[i].type == STT_OBJECT &&
			strncmp(symbols[i].name, prefix, strlen(prefix)) == 0)
			call(symbols[i].offset, symbols[i].size);
}
