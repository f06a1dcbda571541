/*-------------------------------------------------------------------------
 *
 * main.c
 *	  Which target it is; what they share; and the cases of a corpus again.
 *
 *		LOCKREDIS_FUZZ_TARGET=name guided [OPTION ...] [DIRECTORY ...]
 *		guided TARGET [CORPUS]
 *
 * The first is libFuzzer's program (built with -DLIBFUZZER), which looks for new cases by
 * what they reach; the second, built by any compiler, runs those of a corpus, a line each.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/fuzz/guided/main.c
 *
 *-------------------------------------------------------------------------
 */
#include "fuzz.h"

static const struct
{
	const char *name;
	void		(*run) (const uint8 *data, size_t size);
}			targets[] =
{
	{"url", fuzz_url},
	{"resp", fuzz_resp},
	{"ops", fuzz_ops},
	{"handshake", fuzz_handshake},
	{"sentinel", fuzz_sentinel},
	{"cluster", fuzz_cluster},
	{"errors", fuzz_errors},
	{"names", fuzz_names}
};

static int	target = -1;

static void
choose(const char *name)
{
	for (int i = 0; i < lengthof(targets); i++)
		if (name != NULL && strcmp(targets[i].name, name) == 0)
			target = i;
	if (target >= 0)
		return;
	fprintf(stderr, "guided: there is no such target; there are");
	for (int i = 0; i < lengthof(targets); i++)
		fprintf(stderr, " %s", targets[i].name);
	fprintf(stderr, "\n");
	exit(2);
}

/* ----------
 * For the targets
 * ----------
 */

void
fuzz_must(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "%s: %s\n", targets[target].name, what);
	abort();
}

void
fuzz_must_be_shown(const char *text, size_t size, const char *what)
{
	fuzz_must(memchr(text, '\0', size) != NULL, what);
	for (const char *p = text; *p != '\0'; p++)
		fuzz_must(*p >= 0x20 && *p <= 0x7e, what);
}

uint8
fuzz_byte(FuzzInput *in)
{
	if (in->size == 0)
		return 0;
	in->size--;
	return *in->data++;
}

#define VALUE_END	0xff
#define ELEMENT_END 0xfe

static redisReply *present;

void
fuzz_free_value(void)
{
	freeReplyObject(present);
	present = NULL;
}

static void
value_set_text(redisReply *v, int type, const uint8 *data, size_t len)
{
	v->type = type;
	v->str = malloc(len + 1);
	memcpy(v->str, data, len);
	v->str[len] = '\0';
	v->len = len;
}

/* One that is no array, or an empty one */
static redisReply *
value_make(const uint8 *data, size_t len)
{
	redisReply *v = calloc(1, sizeof(redisReply));
	char		digits[32] = "";

	v->type = REDIS_REPLY_NIL;
	if (len == 0)
		return v;
	switch (data[0])
	{
		case ':':
			v->type = REDIS_REPLY_INTEGER;
			memcpy(digits, data + 1, Min(len - 1, sizeof(digits) - 1));
			v->integer = strtoi64(digits, NULL, 10);
			break;
		case '+':
			value_set_text(v, REDIS_REPLY_STATUS, data + 1, len - 1);
			break;
		case '-':
			value_set_text(v, REDIS_REPLY_ERROR, data + 1, len - 1);
			break;
		case '_':
			break;
		case '*':
			v->type = REDIS_REPLY_ARRAY;
			break;
		default:
			value_set_text(v, REDIS_REPLY_STRING, data + 1, len - 1);
	}
	return v;
}

redisReply *
fuzz_value(FuzzInput *in)
{
	const uint8 *p = in->data;
	const uint8 *end;

	fuzz_free_value();
	if (in->size == 0)
		return NULL;
	end = memchr(p, VALUE_END, in->size);
	if (end == NULL)
		end = p + in->size;
	in->size -= Min(in->size, (size_t) (end - p) + 1);
	in->data = in->size > 0 ? end + 1 : end;

	present = value_make(p, end - p);
	if (present->type != REDIS_REPLY_ARRAY)
		return present;
	present->element = calloc(RESP_MAX_ELEMENTS, sizeof(redisReply *));
	for (p++; p < end && present->elements < RESP_MAX_ELEMENTS;)
	{
		const uint8 *stop = memchr(p, ELEMENT_END, end - p);

		if (stop == NULL)
			stop = end;
		present->element[present->elements++] = value_make(p, stop - p);
		p = Min(stop + 1, end);
	}
	return present;
}

/* ----------
 * Programs
 * ----------
 */

#ifdef LIBFUZZER

extern int	LLVMFuzzerInitialize(int *argc, char ***argv);
extern int	LLVMFuzzerTestOneInput(const uint8 *data, size_t size);

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	choose(getenv("LOCKREDIS_FUZZ_TARGET"));
	return 0;
}

int
LLVMFuzzerTestOneInput(const uint8 *data, size_t size)
{
	targets[target].run(data, size);
	fuzz_free_value();
	return 0;
}

#else

/* A case from its line of a corpus; bytes that cannot be shown, and '\', are "\xHH" there */
static size_t
read_case(const char *line, uint8 *out)
{
	size_t		n = 0;

	for (const char *p = line; *p != '\0' && *p != '\n'; p++)
	{
		unsigned int byte = (uint8) *p;

		if (*p == '\\')
		{
			if (sscanf(p, "\\x%2x", &byte) != 1)
			{
				fprintf(stderr, "guided: no case: %s", line);
				exit(2);
			}
			p += 3;
		}
		out[n++] = (uint8) byte;
	}
	return n;
}

int
main(int argc, char **argv)
{
	static char line[65536];
	static uint8 bytes[sizeof(line)];
	FILE	   *file;
	int			n = 0;

	choose(argv[1]);
	file = fopen(argc > 2 ? argv[2] : "/dev/stdin", "r");
	if (file == NULL)
	{
		perror(argv[2]);
		return 2;
	}
	while (fgets(line, sizeof(line), file) != NULL)
	{
		size_t		size = read_case(line, bytes);
		uint8	   *data = malloc(size);

		/* Of just that size, so that a read behind it is seen. */
		memcpy(data, bytes, size);
		targets[target].run(data, size);
		fuzz_free_value();
		free(data);
		n++;
	}
	fclose(file);
	printf("%s: %d cases\n", argv[1], n);
	return 0;
}

#endif
