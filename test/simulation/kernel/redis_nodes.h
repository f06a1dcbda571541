/*-------------------------------------------------------------------------
 *
 * redis_nodes.h
 *	  Nodes of Redis: what each of them has (redis/db.h), its clock, its process, its
 *	  replica, and what becomes of these.
 *
 * What goes over the wire is in redis_wire.c, what scripts must not do in
 * redis_scripts.c.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/redis_nodes.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_REDIS_NODES_H
#define SIM_REDIS_NODES_H

#include "../redis/db.h"
#include "sim.h"

/* Nodes of Redis; a schedule uses those that its settings name. */
#define REDIS_NODES		6
#define REDIS_PORT(n)	(6379 + (n))

#define REDIS_NAME		128
#define REDIS_OWNER		96

extern void redis_reset(void);

/* What a node has, and the time by its clock. */
extern Db  *redis_db(int node);
extern int64_t redis_clock_ms(int node);

/* Microseconds. */
extern int64_t redis_clock(int node);

/* Have all clocks, or this one, gone on as time does? */
extern bool redis_clocks_are_good(void);
extern bool redis_clock_was_set(int node);
extern bool redis_clock_went_back(int node);

/* Does anything that has ended go? */
extern void redis_expire(int node);

/* The process that answers: since when, which it is, and what it says of that (s). */
extern int64_t redis_booted_at(int node);
extern int	redis_run_number(int node);
extern int64_t redis_uptime(int node);

/* How a node is: what it refuses, in these words. */
typedef enum RedisMood
{
	REDIS_WELL,
	REDIS_LOADING,				/* all but what needs no data */
	REDIS_READONLY,				/* what writes */
	REDIS_OOM,					/* what needs memory */
	REDIS_MISCONF,				/* what writes */
	REDIS_BUSY_SCRIPT			/* all */
} RedisMood;

extern RedisMood redis_mood(int node);
extern const char *redis_mood_words(RedisMood mood);
extern bool redis_denies(int node, const char *name);

/* The words with which a command that writes is refused; NULL: it is not. */
extern const char *redis_refuses(int node, bool needs_memory);

/* Has its replica, if it is there, all of it now? */
extern bool redis_replicate(int node);

/* Until when the replica of a node has a lock of that owner. */
extern int64_t redis_replica_until(const char *key, const char *owner);

/*
 * What has become of the call that asked for a token lock: it is under way or has
 * failed; it has returned; it is not judged any more.  "instance": of who asked.
 */
typedef enum RedisTokenState
{
	REDIS_TOKEN_ASKED,
	REDIS_TOKEN_HAD,
	REDIS_TOKEN_LOOSE
} RedisTokenState;

extern void redis_note_token(const char *key, const char *token, const char *digest,
							 const char *instance, RedisTokenState state);
extern void note_token_expired(int node, const char *token);
extern int	redis_count_tokens(const char *instance, RedisTokenState state);

/* Has that owner given it back, lately? */
extern bool redis_was_released(const char *owner);

/* ---- faults ---- */

/* The replica hears nothing until then; it takes the place of its master. */
extern void redis_replica_away(int node, int64_t until);
extern void redis_fail_over(int node);

extern void redis_set_mood(int node, RedisMood mood, int64_t until);
extern void redis_lose_data(int node);

/* Another process answers there from then on. */
extern void redis_boot(int node, int64_t when);

/* What it has now is what it has again after redis_lose_later(). */
extern void redis_save(int node);
extern void redis_lose_later(int node);

/* The same, for all nodes at one moment: what each saves in between does not matter. */
extern void redis_back_up(int node);
extern void redis_restore(int node);

/* All of the first that another has from now on, as it was saved. */
extern void redis_copy_saved(int from, int to);
extern void redis_set_clock(int node, int64_t offset);

/* ---- of a cluster (shards.h) ---- */

/* Its replica has the same clock. */
extern void redis_share_clock(int node, int as);

/* Is there anything by that name at the node? */
extern bool redis_has_name(int node, const char *name);

/* What is in a slot goes to another node: one of it, if there is any, or all. */
extern void redis_migrate(int from, int to, int slot, bool one);

extern void redis_drop_slot(int node, int slot);

/*
 * A replica takes the place of its master, with all of it, or with what it has; and who
 * was the master has nothing of its own any more.
 */
extern void redis_hand_over(int from, int to);
extern void redis_take_over(int from, int to);
extern void redis_forget(int node, int master);

/* Whoever listens to channels of a slot is told that it is no more there. */
extern void redis_end_channels(int node, int slot);

/* This lock, its channel or its counter, by the name of the key in Redis. */
extern void redis_deny_name(int node, const char *name, bool deny);
extern void redis_delete(int node, const char *key);	/* by hand, and nobody is
														 * told */
extern void redis_publish(int node, const char *channel);

/*
 * A message, which may get lost: who waits for it looks again by himself until then.  To
 * how many?
 */
extern int	redis_publish_until(int node, const char *channel, const char *message,
								bool sharded, int64_t until);

/* The next message is lost, or comes again later. */
extern void redis_lose_message(int node);
extern void redis_double_message(int node, int64_t later);

/* None of the messages to come is lost or doubled. */
extern void redis_calm(void);

/* Do clients elsewhere wait for keys?  Then they are told, by turns, and counted. */
extern void redis_others_wait(bool wait);

/* A client elsewhere takes, over what is there or not, and gives back. */
extern bool redis_foreign_take(int node, const char *key, const char *owner,
							   int64_t lease_ms, bool by_force);
extern void redis_foreign_release(int node, const char *key, const char *owner,
								  const char *channel);

/* ---- for checks: of all nodes, unless they say which ---- */

/* A session of this server has seen for how long that client holds the key; none knows any more. */
extern void redis_note_seen(const char *key, const char *owner);
extern void redis_forget_seen(void);

/*
 * A process of this server has had an answer; its watchdog has asked at that time.  Until when can
 * the server not know that nobody elsewhere is served?  That is when it first asked after the last
 * answer, or now.
 */
extern void redis_note_heard(void);
extern void redis_note_asked(int64_t at);
extern int64_t redis_heard_until(void);

/*
 * Does a client elsewhere hold the key at the present node, and did the answer of that time
 * show it?  Not if the key is believed to have been held here after that.
 */
extern bool redis_is_held_elsewhere(const char *key, int64_t answered_at, int64_t here_from);

/*
 * Has a server other than that instance the key at the present node, with a lease that runs now
 * and has ended by then?
 */
extern bool redis_is_leased_to_others(const char *key, const char *instance, int64_t until);

/* That which lockredis.url names; locks are taken there. */
extern int	redis_present(void);
extern void redis_set_present(int node);

/* Of what nodes have until now nobody needs to know, unless somebody asks for it again. */
extern void redis_know_anew(void);

/* Since when; has it ever been another one? */
extern int64_t redis_present_since(void);
extern bool redis_was_elsewhere(void);
extern void redis_note_elsewhere(void);

/* Likewise of that name, where each has a place of its own. */
extern int	redis_place_of(const char *name);

/* Until when (sim_now() time) that owner has the key; 0 = not at all. */
extern int64_t redis_owned_until(const char *key, const char *owner);
extern int64_t redis_owned_there_until(int node, const char *key, const char *owner);

/* Is there anybody at the present node beside whom it could not be held? */
extern bool redis_keeps_from(const char *key, bool shared);

/* Has nobody the key at the present node, and was that place told that it is its turn? */
extern bool redis_is_next(const char *key, const char *owner);

/* Since when the first of those of other servers has waited for a fair lock; 0 = nobody. */
extern int64_t redis_others_stand_since(const char *key, const char *instance);

/* Was something of that owner taken away that it did not give back? */
extern bool redis_was_robbed(const char *owner);
extern bool redis_was_robbed_at(int node, const char *owner);

/* Otherwise than by a node that was started again? */
extern bool redis_was_robbed_by_hand(const char *owner);
extern void redis_note_robbed(const char *owner);
extern bool redis_is_denied(const char *key);
extern bool redis_was_denied(const char *key);

/* When it was denied last; INT64_MAX: it is. */
extern int64_t redis_denied_until(const char *key);

/*
 * Has Redis that lock for longer than its last request can have been on its way?  Not if what
 * happened to its data or its clock explains that.
 */
extern bool redis_has_for_long(const char *key, const char *owner);

/* A key whose owner begins with this text and that is not merely kept. */
extern const char *redis_find_owner(const char *prefix);

/* The same, of what "knows" does not know; NULL too where old requests may run again. */
extern const char *redis_find_unknown(const char *prefix,
									  bool (*knows) (const char *key, const char *owner));

/* ---- redis_wire.c ---- */

/* A script that the nodes can load. */
extern void redis_add_script(const char *name, const char *sha1, const char *text);
extern void redis_wire_reset(void);
extern void redis_flush_scripts(int node);

/* At how many nodes does somebody listen to the channel? */
extern int	redis_count_listened(const char *channel);

/* From how many of several masters can that process know that it listens to the channel? */
extern int	redis_count_asked(int pid, const char *channel);

/* Tell who listens to the channel at that node; how many they are. */
extern int	redis_tell(int node, const char *channel, const char *message, bool sharded);

/* Whoever may not listen any more is disconnected. */
extern void redis_end_subscribers(int node, const char *channel);

#endif							/* SIM_REDIS_NODES_H */
