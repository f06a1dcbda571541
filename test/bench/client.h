/*-------------------------------------------------------------------------
 *
 * client.h
 *	  What every client of the benchmark does, whatever locks it uses.
 *
 * A client takes and gives back locks from one instant to another and says how
 * long that took.  What the locks protect is a board of counters in a file that
 * all clients map: a holder reads the counter of its lock, and before it gives
 * the lock back stores one more.  If two hold a lock at once, the counters end
 * up below the number of pairs.
 *
 * The programs of test/bench (this one in C, those of peers/ in the languages
 * of their libraries) read requests from standard input, one a line, and answer
 * with a line each:
 *
 *	  run PORT CLIENTS shared|separate BASE START UNTIL PREFIX MODE HOLD PAUSE [KIND]
 *	  ok PAIRS STEPS ERRORS LOCK PAIR WAKE
 *
 * CLIENTS clients with the numbers BASE, BASE + 1 and so on work from START to
 * UNTIL (nanoseconds of CLOCK_MONOTONIC) on the Redis at PORT (the peers for redsync
 * and Redisson: or on the independent masters at several, with commas between); they
 * share what clients of one service share, or stand for separate servers.  Their locks:
 *
 *	  own		each has its own, PREFIX:NUMBER
 *	  hot		all have the same, PREFIX
 *	  zipf		PREFIX:NUMBER, the numbers taken from the board's sequence
 *
 * KIND, which only the peer for Redisson knows, is another kind of lock than its usual.
 * They hold a lock for HOLD microseconds and pause for PAUSE after it.  PAIRS
 * ended in time, STEPS ended at all, ERRORS is what the library raised or
 * refused.  The rest are histograms (see below) of the time to get a lock, of
 * the time of a pair, and of the time from a release to when somebody else who
 * waited has the lock (needs HOLD).
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/bench/client.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef BENCH_CLIENT_H
#define BENCH_CLIENT_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define BOARD_KEYS		1024
#define SEQUENCE_SIZE	65536
#define SEQUENCE_START	16384

/* Volatile: the compiler must not be the reason why a counter is right. */
typedef struct Board
{
	volatile int64_t counter[BOARD_KEYS];
	volatile int64_t released_at;
	volatile int64_t releaser;	/* 1 + number of the client */
	char		unused[SEQUENCE_START - 8 * (BOARD_KEYS + 2)];
	int32_t		sequence[SEQUENCE_SIZE];
} Board;

/* 16 steps for each power of two */
#define HISTOGRAM_SIZE	1024

typedef struct Histogram
{
	uint32_t	count[HISTOGRAM_SIZE];
} Histogram;

typedef enum KeyMode
{
	KEY_OWN,
	KEY_HOT,
	KEY_ZIPF
} KeyMode;

typedef struct Client
{
	Board	   *board;
	int			number;
	KeyMode		mode;
	int64_t		start;
	int64_t		until;
	int64_t		hold_ns;
	int64_t		pause_ns;

	/* Where it is. */
	bool		started;
	int			key;
	int			place;			/* in the sequence */
	int64_t		begin;
	int64_t		value;

	int64_t		pairs;
	int64_t		steps;
	int64_t		errors;
	Histogram	lock;
	Histogram	pair;
	Histogram	wake;
} Client;

static inline int64_t
bench_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

static inline void
bench_sleep_until(int64_t at)
{
	struct timespec ts;

	ts.tv_sec = at / 1000000000;
	ts.tv_nsec = at % 1000000000;
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}

static inline Board *
bench_map_board(const char *path)
{
	int			fd = open(path, O_RDWR | O_CLOEXEC);
	void	   *board;

	if (fd < 0)
		return NULL;
	board = mmap(NULL, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED,
				 fd, 0);
	close(fd);
	return board == MAP_FAILED ? NULL : board;
}

static inline void
histogram_add(Histogram *histogram, int64_t ns)
{
	int			e;

	if (ns < 16)
		ns = 16;
	e = 63 - __builtin_clzll(ns);
	histogram->count[e * 16 + ((ns >> (e - 4)) & 15)]++;
}

static inline void
histogram_merge(Histogram *into, const Histogram *from)
{
	for (int i = 0; i < HISTOGRAM_SIZE; i++)
		into->count[i] += from->count[i];
}

/* " STEP:COUNT,STEP:COUNT", or " -" for an empty one; the buffer is long enough
 * if it has HISTOGRAM_TEXT bytes. */
#define HISTOGRAM_TEXT	(HISTOGRAM_SIZE * 16)

static inline char *
histogram_text(const Histogram *histogram, char *out)
{
	char	   *start = out;

	*out++ = ' ';
	for (int i = 0; i < HISTOGRAM_SIZE; i++)
	{
		if (histogram->count[i] > 0)
			out += sprintf(out, "%s%d:%u", out == start + 1 ? "" : ",", i,
						   histogram->count[i]);
	}
	if (out == start + 1)
		strcpy(out, "-");
	return start;
}

static inline bool
client_set_mode(Client *client, const char *mode)
{
	if (strcmp(mode, "own") == 0)
		client->mode = KEY_OWN;
	else if (strcmp(mode, "hot") == 0)
		client->mode = KEY_HOT;
	else if (strcmp(mode, "zipf") == 0)
		client->mode = KEY_ZIPF;
	else
		return false;
	return true;
}

/*
 * The pair before has ended; choose the next key.  False: time is over; not before the
 * first pair, however late it is.
 */
static inline bool
client_next(Client *client)
{
	bool		is_first = !client->started;
	int64_t		now;

	if (is_first)
	{
		client->started = true;
		client->place = client->number * 4001;
		client->key = client->mode == KEY_OWN ? client->number : 0;
		bench_sleep_until(client->start);
		now = bench_now();
	}
	else
	{
		now = bench_now();
		client->steps++;
		if (now <= client->until)
		{
			client->pairs++;
			histogram_add(&client->pair, now - client->begin);
		}
		if (client->pause_ns > 0)
		{
			bench_sleep_until(now + client->pause_ns);
			now = bench_now();
		}
	}
	if (client->mode == KEY_ZIPF)
		client->key =
			client->board->sequence[client->place++ % SEQUENCE_SIZE];
	client->begin = now;
	return is_first || now < client->until;
}

static inline void
client_locked(Client *client)
{
	Board	   *board = client->board;
	int64_t		now = bench_now();

	histogram_add(&client->lock, now - client->begin);
	if (client->mode == KEY_HOT && board->releaser != client->number + 1 &&
		client->begin < board->released_at)
		histogram_add(&client->wake, now - board->released_at);
	client->value = board->counter[client->key];
	if (client->hold_ns > 0)
		bench_sleep_until(now + client->hold_ns);
}

static inline void
client_unlocking(Client *client)
{
	Board	   *board = client->board;

	board->counter[client->key] = client->value + 1;
	if (client->hold_ns > 0)
	{
		board->releaser = client->number + 1;
		board->released_at = bench_now();
	}
}

#endif							/* BENCH_CLIENT_H */
