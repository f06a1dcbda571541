/*-------------------------------------------------------------------------
 *
 * topology.h
 *	  Which node is the master, where others (Sentinels) say so.
 *
 * Shared memory of all processes.  The watchdog asks and writes; whoever makes a
 * connection, or has had an answer, reads.  With a lockredis.url that names the
 * node itself nothing here ever changes.
 *
 * Each master that is believed in has an epoch of its own: one more than the one
 * before.  What was asked of a node counts only while its epoch is the present
 * one (store/README.topology.md has the proof).
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/topology.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_TOPOLOGY_H
#define LR_TOPOLOGY_H

#include "lockredis.h"

#include "store/redis/url.h"

/* The watchdog's word is believed for so long. */
#define TOPOLOGY_TRUST		(5 * LR_US_PER_S)

typedef struct TopologyMaster
{
	uint32		epoch;			/* 0: none has been named yet */
	RedisHost	at;
	int64		config_epoch;	/* the Sentinels' number of the failover */
} TopologyMaster;

/* May a connection be made to the master that has this epoch? */
typedef enum TopologyAnswer
{
	TOPOLOGY_YES,
	TOPOLOGY_NOT_YET,			/* nobody has been asked since the start */
	TOPOLOGY_NO					/* see topology_get_reason */
} TopologyAnswer;

extern Size topology_shmem_size(void);
extern void topology_shmem_init(void);

/* ---- for all processes; the first three are lock-free ---- */

/* Of the present master; the same for ever where none is looked for. */
extern uint32 topology_epoch(void);

/* Changes when those whose request failed should ask again. */
extern uint32 topology_news(void);

/*
 * May the master with this epoch be asked anything now, over a connection that
 * there is?
 */
extern bool topology_is_watched(uint32 epoch, int64 now);

/*
 * May a connection to it be made?  "scout": by the watchdog, which has to be the
 * first.
 */
extern TopologyAnswer topology_may_connect(uint32 epoch, bool scout, int64 now);

/*
 * The present master, if it was found by settings with that lr_place; else its
 * epoch is right but nothing is known of where it is.
 */
extern void topology_get_master(uint32 place, TopologyMaster *out);

/* Why there is no master; a sentence without any address. */
extern void topology_get_reason(char *out, size_t size);

/*
 * It has said that it is no master, or takes no writes: nobody connects to it
 * before it has been named again.
 */
extern void topology_doubt(uint32 epoch);

/* ---- for the watchdog ---- */

/*
 * Other settings, or a start: with another place nothing is known.  0: the settings
 * name the node themselves.
 */
extern void topology_start(uint32 place);

/* Whoever waits asks again. */
extern void topology_tell(void);

/* Slots of a cluster have other masters now (cluster.h): all is of the next epoch. */
extern void topology_advance(void);

/* Somebody else is the master now; returns its epoch. */
extern uint32 topology_change(const RedisHost *at, int64 config_epoch);

/*
 * The same one, by a later failover than was known; or its Sentinels were set up
 * anew.
 */
extern void topology_set_config_epoch(int64 config_epoch);

/* The highest number of a failover that this Sentinel has told since it was set up. */
extern int64 topology_told(int sentinel);
extern void topology_set_told(int sentinel, int64 config_epoch);

/*
 * What it has to tell at least, since others began anew and it did not: more than was
 * known then, or when it was found to have been set up anew, too; 0: anything.
 */
extern int64 topology_bar(int sentinel);
extern void topology_set_bar(int sentinel, int64 config_epoch);

/*
 * The number by which it has named the present master last; -1: it has not.
 */
extern int64 topology_named_by(int sentinel);
extern void topology_set_named_by(int sentinel, int64 config_epoch);

/*
 * Who was named by a later failover than the present one, and passed over since it did
 * not say itself that it is a master; NULL: nobody.  The epoch of what is returned means
 * nothing.
 */
extern void topology_pass_over(const RedisHost *at, int64 config_epoch);
extern const TopologyMaster *topology_passed_over(void);

/*
 * It was named, by who was asked then: the watchdog may connect, for a moment; it is
 * still named.  It has connected, and is a master: all may.  That connection has
 * ended, or could not be made.
 */
extern void topology_named(uint32 epoch, int64 at);
extern void topology_named_again(uint32 epoch, int64 at);
extern bool topology_was_named_lately(int64 now);
extern void topology_confirm(uint32 epoch);
extern void topology_lost(uint32 epoch);

/* Has it ever said itself that it is one, since it was named?  That it is none? */
extern bool topology_has_said(uint32 epoch);
extern bool topology_is_denied(uint32 epoch);

extern bool topology_is_named(void);
extern bool topology_is_confirmed(void);

/* The watchdog has looked, and there is no doubt; or there is one. */
extern void topology_watch(int64 now);
extern void topology_suspend(void);

/* What those are told who find no master; all have been asked at least once. */
extern void topology_set_reason(const char *reason);

#endif							/* LR_TOPOLOGY_H */
