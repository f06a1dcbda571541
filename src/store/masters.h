/*-------------------------------------------------------------------------
 *
 * masters.h
 *	  Independent masters: what all processes know of each of them.
 *
 * With several URLs in lockredis.url a lock is had when most of the masters have
 * granted it.  That is worth something only if none of them has forgotten a lock
 * that it granted before, and if no two of them are the same.
 *
 * Nobody can see whether a node keeps its data, so one that was started lately has no
 * vote until the longest lease that there can be (lockredis.max_lease) is over.  What a
 * node says of itself is believed when this server sees it first.  Later another one in
 * its place may be a spare that has run for long: that counts as started when it was seen.
 *
 * Each row has one server at a time, and each server one row.  When that changes the row
 * begins another life.  A connection is good for the life of its row in which it was made,
 * and so is what came over it: what counts is looked at when votes are counted, not when
 * a connection is made.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/masters.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_MASTERS_H
#define LR_MASTERS_H

#include "lockredis.h"

#include "store/node.h"
#include "store/redis/url.h"

/* A name that a process of Redis gives itself when it starts. */
#define RUN_ID_LEN			40

typedef struct MasterStatus
{
	char		run_id[RUN_ID_LEN + 1]; /* empty: it has not been heard */
	int64		since;			/* lr_now() at which it surely ran, and was there */
} MasterStatus;

/* So many have to agree. */
static inline int
masters_quorum(int n)
{
	return n / 2 + 1;
}

extern Size masters_shmem_size(void);
extern void masters_shmem_init(void);

/* ---- for all processes; lock-free but for what is said of one ---- */

/* So many do the settings name that the watchdog has read; 0: it is one URL. */
extern int	masters_count(void);

/* The lr_place of these settings; 0 without such a list. */
extern uint32 masters_place(void);

/*
 * When does one that has been there since then have a vote?  Has it one in an answer to
 * what was sent then?
 */
extern int64 masters_votes_at(int64 since);

static inline bool
masters_may_vote(int64 since, int64 sent_at)
{
	return sent_at >= masters_votes_at(since);
}

/*
 * The master in that row (0 is the first) has said who it is, and at which lr_now() it
 * surely ran.  False: it is the same as another one.  Out: the life of the row, and since
 * when it is there; 0, and so of no life that there is, if the settings are others by now.
 */
extern bool masters_note(int row, uint32 place, const char *run_id, int64 booted_by,
						 uint32 *life, int64 *since);

/* The present one, never 0. */
extern uint32 masters_life(int row);

extern void masters_get(int row, MasterStatus *out);

/*
 * Is one of these (bits) there, of those that this lr_place names?  Is asked after a
 * lock has been noted that they do not have (lt_note_without).
 */
extern bool masters_are_there(uint32 place, uint32 rows);

/* ---- for the watchdog ---- */

/* A start, or other settings: so many, 0 if they are no list. */
extern void masters_start(int n, uint32 place);

/* It answers, or it does not; changes when one does that did not before. */
extern void masters_set_there(int row, bool there);
extern uint32 masters_returns(void);

/* Its connection has ended: who was there may be found in another row. */
extern void masters_forget(int row);

#endif							/* LR_MASTERS_H */
