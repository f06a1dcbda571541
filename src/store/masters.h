/*-------------------------------------------------------------------------
 *
 * masters.h
 *	  Independent masters: what all processes know of each of them.
 *
 * With several URLs in lockredis.url a lock is had when most of the masters have
 * granted it.  That is worth something only if none of them has forgotten a lock
 * that it granted before, and if no two of them are the same.  Nobody can see
 * whether a node keeps its data, so one that was started lately has no vote until
 * the longest lease that it may have forgotten is over.
 *
 * Since when it runs is asked when a connection is made, and holds as long as that
 * does.  So whether an answer counts is a matter of the connection over which it
 * came, and of how long leases are, which is here.
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
	int64		booted_by;		/* lr_now() at which it surely ran */
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

/* A lease was asked for, or is known of others: ms. */
extern void masters_saw_lease(int64 lease_ms);

/*
 * When does a node that surely ran at that moment have a vote about a lock with that
 * lease, as far as is known here of what others may have had?  Has it one in an answer to
 * what was sent then?
 */
extern int64 masters_votes_at(int64 booted_by, int64 lease_ms);

static inline bool
masters_may_vote(int64 booted_by, int64 sent_at, int64 lease_ms)
{
	return sent_at >= masters_votes_at(booted_by, lease_ms);
}

/*
 * The master in that row (0 is the first) has said who it is, and since when it runs.
 * False: it is the same as another one.
 */
extern bool masters_note(int row, uint32 place, const char *run_id, int64 booted_by);

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

/* The setting of the server.  Lowered, it counts when the former one is over. */
extern void masters_set_lease(int64 lease_ms);

#endif							/* LR_MASTERS_H */
