/*-------------------------------------------------------------------------
 *
 * redis_marks.c
 *	  What the nodes of Redis do not know, and checks have to.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/redis_marks.c
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "redis_marks.h"

#define MAX_MARKS		8192
#define BUCKETS			256
#define MAX_ROBBED		512
#define MAX_RELEASED	64
#define UUID_LEN		36

static Mark marks[MAX_MARKS];
static int	nmarks;
static Mark *bucket[BUCKETS];

/* Who gave a lock back: a renewal that was on its way does not want it again. */
static char released[MAX_RELEASED][REDIS_OWNER];
static int	nreleased;

/* Of whom a majority had the lock no more when he gave back the first of what was left. */
static char lost[MAX_RELEASED][REDIS_OWNER];
static int	nlost;

/* Of whom something is gone that he did not give back; at which node, and why. */
static struct
{
	char		owner[REDIS_OWNER];
	int			node;
	bool		by_restart;
}			robbed[MAX_ROBBED];
static int	nrobbed;

void
marks_reset(void)
{
	nmarks = nreleased = nlost = nrobbed = 0;
	memset(bucket, 0, sizeof(bucket));
	memset(lost, 0, sizeof(lost));
}

static unsigned
bucket_of(int node, const char *owner)
{
	unsigned	hash = node;

	while (*owner != '\0')
		hash = 31 * hash + (unsigned char) *owner++;
	return hash % BUCKETS;
}

Mark *
mark_find(int node, const char *owner)
{
	Mark	   *m = bucket[bucket_of(node, owner)];

	while (m != NULL && (m->node != node || strcmp(m->owner, owner) != 0))
		m = m->next;
	return m;
}

Mark *
mark_made(int node, const char *owner)
{
	Mark	   *m = mark_find(node, owner);
	unsigned	b = bucket_of(node, owner);

	if (m != NULL)
		return m;
	if (nmarks == MAX_MARKS)
		sim_fail("simulator", "too many marks");
	m = &marks[nmarks++];
	memset(m, 0, sizeof(Mark));
	m->node = node;
	snprintf(m->owner, sizeof(m->owner), "%s", owner);
	m->next = bucket[b];
	bucket[b] = m;
	return m;
}

bool
mark_is_old(int node, const char *owner)
{
	const Mark *m = mark_find(node, owner);

	return m != NULL && m->is_old;
}

void
mark_copy(int from, int to, const char *owner)
{
	const Mark *there = mark_find(from, owner);
	const Mark	none = {.node = from};
	Mark	   *m;

	if (there == NULL && mark_find(to, owner) == NULL)
		return;
	m = mark_made(to, owner);
	if (there == NULL)
		there = &none;
	m->is_old = there->is_old;
	m->promised = there->promised;
	m->told = there->told;
	m->pid = there->pid;
	m->sent_at = there->sent_at;
}

void
marks_copy(int from, int to)
{
	int			n = nmarks;

	for (int i = 0; i < n; i++)
		if (marks[i].node == from || marks[i].node == to)
			mark_copy(from, to, marks[i].owner);
}

bool
is_owner(Word word)
{
	return word.len > UUID_LEN + 1 && word.len < REDIS_OWNER && word.text[8] == '-' &&
		word.text[13] == '-' && word.text[UUID_LEN] == ':';
}

/* ----------
 * Who gave back
 * ----------
 */

void
note_released(const char *owner)
{
	snprintf(released[nreleased++ % MAX_RELEASED], REDIS_OWNER, "%s", owner);
}

bool
redis_was_released(const char *owner)
{
	for (int i = 0; i < MAX_RELEASED && i < nreleased; i++)
		if (strcmp(released[i], owner) == 0)
			return true;
	return false;
}

bool
note_lost(const char *owner, bool is_lost)
{
	for (int i = 0; i < MAX_RELEASED; i++)
		if (strcmp(lost[i], owner) == 0)
			return true;
	if (is_lost && !redis_was_released(owner))
	{
		snprintf(lost[nlost++ % MAX_RELEASED], REDIS_OWNER, "%s", owner);
		return true;
	}
	return false;
}

/* ----------
 * From whom it was taken
 * ----------
 */

void
note_robbed(int node, const char *owner, bool by_restart)
{
	if (nrobbed == MAX_ROBBED)
		return;
	snprintf(robbed[nrobbed].owner, REDIS_OWNER, "%s", owner);
	robbed[nrobbed].node = node;
	robbed[nrobbed++].by_restart = by_restart;
}

void
redis_note_robbed(const char *owner)
{
	note_robbed(redis_present(), owner, false);
}

bool
redis_was_robbed(const char *owner)
{
	for (int i = 0; i < nrobbed; i++)
		if (strcmp(robbed[i].owner, owner) == 0)
			return true;
	return nrobbed == MAX_ROBBED;
}

bool
redis_was_robbed_at(int node, const char *owner)
{
	for (int i = 0; i < nrobbed; i++)
		if (robbed[i].node == node && strcmp(robbed[i].owner, owner) == 0)
			return true;
	return nrobbed == MAX_ROBBED;
}

bool
redis_was_robbed_by_hand(const char *owner)
{
	for (int i = 0; i < nrobbed; i++)
		if (!robbed[i].by_restart && strcmp(robbed[i].owner, owner) == 0)
			return true;
	return nrobbed == MAX_ROBBED;
}
