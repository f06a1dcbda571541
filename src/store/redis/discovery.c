/*-------------------------------------------------------------------------
 *
 * discovery.c
 *	  Decides which of the nodes that Sentinels name is the master.
 *
 * All Sentinels are asked in rounds: each second, ten times as often while no master is
 * known for sure, and at once when a Sentinel has news, when the connection to the
 * master has ended, or when it has said that it is not a master.  The highest number of
 * a failover (config epoch) wins, then the most votes, then the present master.  The
 * rules:
 *
 * - A number higher than the known one is believed as soon as it is heard.
 * - Otherwise a round is judged when all have answered or cannot, or after a moment: a
 *	 Sentinel that is cut off from the others still names a former master.
 * - A lower number is believed if all configured Sentinels have it, or a majority each
 *	 of which has reported a higher one before: the number of a Sentinel never goes down,
 *	 so these were set up anew.  But Sentinels that restart without their state may still
 *	 learn it from the others.  So wait, while the present master serves or was lost a
 *	 moment ago.
 * - When the numbers have begun anew like that, those of the other Sentinels count only
 *	 if they are higher than any before: a Sentinel that is cut off has one of the old
 *	 numbers.  If it turns out to have been set up anew as well, it counts from the next
 *	 failover on.
 * - A majority may confirm that the present master is still the master, whatever the
 *	 numbers.
 * - The node with the highest number has a while to say itself that it is a master.  If
 *	 it does not, or says that it is not one, then another one is believed that a majority
 *	 names and that says so; until the former one says so, or a majority names it, too.
 * - A master that had said so, and is gone, is passed over in the same way, if each
 *	 Sentinel of that majority has named it before and reports a later failover since: so
 *	 its number was not a valid one.
 * - While a failover is between the election of a Sentinel and the promotion of a
 *	 replica, no node is the master.
 *
 * After the connection to the master was lost, or the master was doubted, the watchdog
 * may connect to it again only if a round that began later names it, by an answer to a
 * question asked later, and only for a moment: an old master that was restarted calls
 * itself a master until the Sentinels have reconfigured it.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/discovery.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "utils/memutils.h"

#include "settings.h"
#include "store/nodes.h"
#include "store/redis/discovery.h"

#define ROUND_INTERVAL		LR_US_PER_S
#define ROUND_IN_DOUBT		(100 * LR_US_PER_MS)

/* Shortest interval between two rounds. */
#define ROUND_MIN			(20 * LR_US_PER_MS)

/* How long a round waits for Sentinels that have not answered yet. */
#define ROUND_GRACE			(300 * LR_US_PER_MS)

/* How long an answer counts. */
#define ANSWER_LIFE			(3 * LR_US_PER_S)

/* If we were stopped for so long, we have missed what happened. */
#define STALL				(2 * LR_US_PER_S)

/* How long a named node may take to say itself that it is a master. */
#define SAY_LIFE			(3 * LR_US_PER_S)

/* How long it counts that a node has said so. */
#define CLAIM_LIFE			(2 * LR_US_PER_S)

/* How long Sentinels without their state may take to learn it from others. */
#define ANEW_LIFE			(10 * LR_US_PER_S)

/* How often the node is asked, counted from its last answer. */
#define CLAIM_INTERVAL		(500 * LR_US_PER_MS)

/* Shortest interval between two log lines about changes. */
#define LOG_INTERVAL		LR_US_PER_S

/* Number of a candidate named only by numbers that do not count. */
#define NO_NUMBER			(-1)

typedef struct Candidate
{
	RedisHost	at;
	int64		config_epoch;	/* highest number that counts by which it was named */
	int64		reported;		/* the same, of all numbers */
	int64		asked_at;		/* time of the latest question whose answer names it */
	int			votes;
	int			votes_anew;		/* of Sentinels that were set up anew */
	int			votes_later;	/* of those that named the present master
								 * before, by a lower number */
} Candidate;

typedef struct Claim
{
	RedisHost	at;				/* empty host: no node is asked */
	RedisPoller poller;
	bool		made;			/* the poller was initialized in this process */
	int64		said_at;		/* when the last question was asked that was answered
								 * with yes; 0 = none */
} Claim;

typedef struct Discovery
{
	int			nsentinels;
	RedisSentinel *sentinel[LR_MAX_SENTINELS];

	int64		round_at;		/* the round is over when all have answered a
								 * question asked later */
	bool		judged;			/* this round was judged */
	int64		lost_at;		/* when it was noted that the master was lost or
								 * doubted: neither a round that began before nor an
								 * answer to an earlier question can name it again */
	int64		next_round;
	bool		was_named;		/* the master was named at the last step, or by it; if it
								 * is not any more, the next step notes that */
	int64		stepped_at;		/* time of the last step */
	int64		stalled_at;		/* we were stopped until then */
	bool		blind;			/* since the start, or since we were stopped; ends
								 * with the step after the first one that judges */
	int64		unconfirmed_since;	/* since when the present master is not
									 * confirmed; 0 = it is */
	int64		anew_since;		/* since when a majority that was set up anew
								 * names another node; 0 = none does */
	RedisHost	anew_at;		/* that node */

	int64		logged_at;
	int			unlogged;
	int64		logged_anew_at;
} Discovery;

static Discovery discovery;
static Claim claim;

/* ----------
 * Asking one node whether it is a master
 *
 * One node is asked at a time, over a connection of its own: the handshake is the
 * question, and the connection is closed once it has been answered.
 * ----------
 */

/*
 * claim_ready --- the answer is yes: otherwise the handshake would have failed
 */
static void
claim_ready(RedisPoller *p)
{
	claim.said_at = p->conn.connect.opened_at;
	redis_conn_close(&p->conn);
}

static void
claim_lost(RedisPoller *p, bool was_ready)
{
	p->next_try = lr_now() + CLAIM_INTERVAL;
}

/*
 * claim_ask --- ask this node from now on, repeatedly; NULL: ask none
 */
static void
claim_ask(const RedisHost *at)
{
	RedisPoller *p = &claim.poller;

	if (at != NULL && redis_host_is_same(at, &claim.at))
		return;
	redis_conn_close(&p->conn);
	memset(&claim.at, 0, sizeof(RedisHost));
	claim.said_at = p->next_try = 0;
	p->wanted = at != NULL;
	if (at == NULL)
		return;
	claim.at = *at;
	redis_target_set_asked(&p->target, TARGET_CLAIMANT, at);
}

/*
 * claim_start --- begin with the present settings; no node is asked yet
 */
static void
claim_start(void)
{
	static const PollerRoutine routine = {
		.role = "claim",
		.ready = claim_ready,
		.lost = claim_lost
	};

	if (!claim.made)
		redis_poller_init(&claim.poller, &routine, NULL);
	claim.made = true;
	claim_ask(NULL);
}

/*
 * claim_was_made --- has the node said that it is a master, when asked at "since" or later?
 */
static bool
claim_was_made(const RedisHost *at, int64 since)
{
	return claim.said_at != 0 && claim.said_at >= since && redis_host_is_same(at, &claim.at);
}

/* ----------
 * Beginning
 * ----------
 */

/*
 * redis_discovery_start --- begin with the present settings, of whichever topology
 */
void
redis_discovery_start(void)
{
	for (int i = 0; i < discovery.nsentinels; i++)
	{
		sentinel_close(discovery.sentinel[i]);
		pfree(discovery.sentinel[i]);
	}
	memset(&discovery, 0, sizeof(Discovery));
	claim_start();
	for (int i = 0; redis_url_is_followed(lr_redis_url) && i < lr_redis_url->nhosts; i++)
	{
		discovery.sentinel[i] = MemoryContextAllocZero(TopMemoryContext,
													   sizeof(RedisSentinel));
		discovery.nsentinels++;
		sentinel_open(discovery.sentinel[i], i);
	}
	discovery.round_at = discovery.stepped_at = lr_now();
	discovery.lost_at = discovery.unconfirmed_since = discovery.round_at;
	discovery.blind = true;
}

/* ----------
 * Evaluating answers
 * ----------
 */

/*
 * fresh_answer --- the answer of that Sentinel, if it counts; else NULL
 *
 * An answer to a question asked before we were stopped does not count, whenever it has
 * come.
 */
static const SentinelAnswer *
fresh_answer(int i, int64 now)
{
	const SentinelAnswer *a = &discovery.sentinel[i]->answer;

	return a->asked_at != 0 && !a->of_another && a->asked_at >= discovery.stalled_at &&
		now - a->asked_at < ANSWER_LIFE ? a : NULL;
}

static bool
is_majority(int votes)
{
	return votes > discovery.nsentinels / 2;
}

/*
 * was_set_up_anew --- has that Sentinel reported a higher number before?
 */
static bool
was_set_up_anew(int i, const SentinelAnswer *a)
{
	return a->config_epoch < topology_sentinel(i)->reported;
}

/*
 * tells_of_later --- has that Sentinel named the present master before, and reports a
 * failover since?
 */
static bool
tells_of_later(int i, const SentinelAnswer *a)
{
	return topology_sentinel(i)->named_by >= 0 && a->config_epoch > topology_sentinel(i)->named_by;
}

/*
 * note_numbers --- note the numbers that the Sentinels report, and who names "present"
 *
 * A Sentinel with a bar did not take part when the others' numbers began anew.  If its
 * number goes down now, it was set up anew itself since, so only a later failover than
 * the present one counts (the new bar).  What it names until it has learned of the
 * present master does not count, not even by the same number, which may be the first
 * number of all.  Its lower number is noted, so that it does not pass for set up anew
 * from then on, however long it names a former master.
 */
static void
note_numbers(const TopologyMaster *present, int64 now)
{
	for (int i = 0; i < discovery.nsentinels; i++)
	{
		const SentinelAnswer *a = fresh_answer(i, now);

		if (a == NULL || !a->known)
			continue;
		if (was_set_up_anew(i, a))
		{
			if (topology_sentinel(i)->bar == 0)
				continue;
			topology_sentinel(i)->bar = present->config_epoch + 1;
		}
		topology_sentinel(i)->reported = a->config_epoch;
		if (redis_host_is_same(&a->master, &present->at))
			topology_sentinel(i)->named_by = a->config_epoch;
	}
}

/*
 * number_that_counts --- the number of the answer, or NO_NUMBER
 *
 * A Sentinel that did not begin anew with the others must report a later failover than
 * was known then.
 */
static int64
number_that_counts(int i, const SentinelAnswer *a)
{
	return a->config_epoch < topology_sentinel(i)->bar ? NO_NUMBER : a->config_epoch;
}

/*
 * note_who_learned --- remove the bar of Sentinels that name the present master by its
 * number
 *
 * They have learned it from those that began anew.  What they reported before belongs to
 * the old numbers, although it was higher.
 */
static void
note_who_learned(const RedisHost *at, int64 number, int64 now)
{
	for (int i = 0; i < discovery.nsentinels; i++)
	{
		const SentinelAnswer *a = fresh_answer(i, now);

		if (a != NULL && a->known && a->config_epoch == number && redis_host_is_same(&a->master, at))
		{
			topology_sentinel(i)->bar = 0;
			topology_sentinel(i)->reported = number;
		}
	}
}

/*
 * begins_anew --- does its number count, although it is lower than the known one?
 */
static bool
begins_anew(const Candidate *c)
{
	return c->votes == discovery.nsentinels || is_majority(c->votes_anew);
}

static void
log_anew(int64 from, int64 to, int64 now)
{
	if (discovery.logged_anew_at != 0 && now - discovery.logged_anew_at < LOG_INTERVAL)
		return;
	discovery.logged_anew_at = now;
	ereport(LOG,
			(errmsg("lockredis: the Sentinels of \"%s\" number their failovers anew",
					lr_redis_url->service),
			 errdetail("The number of the last failover was %lld and is %lld now.",
					   (long long) from, (long long) to)));
}

/*
 * begin_numbers_anew --- begin with the lower numbers of the Sentinels that name this
 * node; returns its number now
 *
 * If a majority was set up anew, only those count.  "known" is the number known before.
 * Nothing that can fail comes before everything was noted: if a later watchdog found the
 * numbers of Sentinels lowered, but not the known number, it would never lower that.
 *
 * If a node is passed over, Sentinels that name it get a bar as well, although none was
 * set up anew.
 */
static int64
begin_numbers_anew(const Candidate *c, int64 known, int64 now)
{
	int64		number = 0;

	for (int i = 0; i < discovery.nsentinels; i++)
	{
		const SentinelAnswer *a = fresh_answer(i, now);

		if (a != NULL && a->known && redis_host_is_same(&a->master, &c->at) &&
			(was_set_up_anew(i, a) || !is_majority(c->votes_anew)))
		{
			topology_sentinel(i)->bar = 0;
			number = Max(number, a->config_epoch);
		}
		else
			topology_sentinel(i)->bar = Max(topology_sentinel(i)->bar, known + 1);
		if (a != NULL && a->known)
			topology_sentinel(i)->reported = a->config_epoch;
	}
	topology_set_config_epoch(number);
	if (begins_anew(c))
	{
		topology_pass_over(NULL, 0);
		log_anew(known, number, now);
	}
	return number;
}

/*
 * collect_candidates --- the nodes that Sentinels name; returns how many
 */
static int
collect_candidates(Candidate *out, int64 now)
{
	int			n = 0;

	for (int i = 0; i < discovery.nsentinels; i++)
	{
		const SentinelAnswer *a = fresh_answer(i, now);
		int			c = 0;

		if (a == NULL || !a->known)
			continue;
		while (c < n && !redis_host_is_same(&out[c].at, &a->master))
			c++;
		if (c == n)
		{
			memset(&out[n], 0, sizeof(Candidate));
			out[n].at = a->master;
			out[n++].config_epoch = NO_NUMBER;
		}
		out[c].votes++;
		out[c].votes_anew += was_set_up_anew(i, a);
		out[c].votes_later += tells_of_later(i, a);
		out[c].reported = Max(out[c].reported, a->config_epoch);
		out[c].asked_at = Max(out[c].asked_at, a->asked_at);
		out[c].config_epoch = Max(out[c].config_epoch, number_that_counts(i, a));
	}
	return n;
}

/*
 * is_better --- is "a" to be preferred to "b"?
 */
static bool
is_better(const Candidate *a, const Candidate *b, const RedisHost *present)
{
	if (a->config_epoch != b->config_epoch)
		return a->config_epoch > b->config_epoch;
	if (a->votes != b->votes)
		return a->votes > b->votes;
	return redis_host_is_same(&a->at, present);
}

/*
 * is_believable --- can this be the master, given the present one and the one passed
 * over?
 *
 * A node was passed over because most named another one.  If most name it now, that does
 * not hold any more.
 */
static bool
is_believable(const Candidate *c, const TopologyMaster *present, int64 now)
{
	const TopologyMaster *passed = topology_passed_over();

	if (c->votes == discovery.nsentinels)
		return true;
	if (redis_host_is_same(&c->at, &passed->at) &&
		c->config_epoch == passed->config_epoch && !is_majority(c->votes))
		return false;
	if (c->config_epoch >= present->config_epoch)
		return true;
	if (redis_host_is_same(&c->at, &present->at))
		return is_majority(c->votes);
	return discovery.anew_since != 0 && redis_host_is_same(&c->at, &discovery.anew_at) &&
		discovery.unconfirmed_since != 0 &&
		now - Max(discovery.anew_since, discovery.unconfirmed_since) > ANEW_LIFE;
}

/*
 * note_anew --- note since when a majority that was set up anew names another node
 */
static void
note_anew(const Candidate *candidates, int n, const TopologyMaster *present, int64 now)
{
	const Candidate *c = NULL;

	for (int i = 0; i < n; i++)
		if (is_majority(candidates[i].votes_anew) &&
			!redis_host_is_same(&candidates[i].at, &present->at))
			c = &candidates[i];
	if (c == NULL)
		discovery.anew_since = 0;
	else if (discovery.anew_since == 0 || !redis_host_is_same(&c->at, &discovery.anew_at))
	{
		discovery.anew_at = c->at;
		discovery.anew_since = now;
	}
}

/*
 * choose --- the node to be believed; NULL: none
 */
static const Candidate *
choose(const Candidate *candidates, int n, const TopologyMaster *present, int64 now)
{
	const Candidate *best = NULL;

	for (int i = 0; i < n; i++)
		if (is_believable(&candidates[i], present, now) &&
			(best == NULL || is_better(&candidates[i], best, &present->at)))
			best = &candidates[i];
	return best;
}

/*
 * choose_against --- the node that most name instead of a present master that was not
 * confirmed for a while; NULL: none
 *
 * If the present master has said that it is one, and not the opposite since, only votes
 * of Sentinels count that report a later failover: others may have been cut off since.
 */
static const Candidate *
choose_against(const Candidate *candidates, int n, const TopologyMaster *present, int64 now)
{
	bool		unproved = !topology_is_proved(present->epoch);

	if (present->at.host[0] == '\0' || discovery.unconfirmed_since == 0 ||
		now - discovery.unconfirmed_since <= SAY_LIFE)
		return NULL;
	for (int i = 0; i < n; i++)
	{
		const Candidate *c = &candidates[i];

		if (is_majority(unproved ? c->votes : c->votes_later) &&
			!redis_host_is_same(&c->at, &present->at))
			return c;
	}
	return NULL;
}

/*
 * choose_passed_over --- the node that was passed over, if it is still named by a later
 * failover than the present master; else NULL
 */
static const Candidate *
choose_passed_over(const Candidate *candidates, int n, const TopologyMaster *present)
{
	for (int i = 0; i < n; i++)
		if (redis_host_is_same(&candidates[i].at, &topology_passed_over()->at) &&
			candidates[i].reported > present->config_epoch)
			return &candidates[i];
	return NULL;
}

/*
 * last_asked --- time of the latest question whose answer was in doubt, or was not; 0:
 * none
 */
static int64
last_asked(bool in_doubt)
{
	int64		at = 0;

	for (int i = 0; i < discovery.nsentinels; i++)
	{
		const SentinelAnswer *a = &discovery.sentinel[i]->answer;

		if (a->known && a->in_doubt == in_doubt)
			at = Max(at, a->asked_at);
	}
	return at;
}

/*
 * anybody_in_doubt --- is another node about to become the master?
 *
 * A Sentinel that has said so, and does not answer any more, may have made it the
 * master.  So the doubt lasts until a later answer says that there is none.
 */
static bool
anybody_in_doubt(int64 now)
{
	int64		at = last_asked(true);

	return at != 0 && (now - at < ANSWER_LIFE || last_asked(false) < at);
}

static bool
round_is_complete(int64 now)
{
	if (now >= discovery.round_at + ROUND_GRACE)
		return true;
	for (int i = 0; i < discovery.nsentinels; i++)
		if (!sentinel_has_answered(discovery.sentinel[i], discovery.round_at))
			return false;
	return true;
}

/*
 * round_is_outdated --- did this round begin before the master was lost or doubted?
 */
static bool
round_is_outdated(void)
{
	return discovery.round_at < discovery.lost_at;
}

/* ----------
 * Consequences
 * ----------
 */

/*
 * log_change --- log a change in one line, but not too often
 */
static void
log_change(const RedisHost *from, const RedisHost *to, int64 now)
{
	char		was[LR_HOST_MAX + 16];
	char		is[LR_HOST_MAX + 16];

	if (discovery.logged_at != 0 && now - discovery.logged_at < LOG_INTERVAL)
	{
		discovery.unlogged++;
		return;
	}
	redis_host_show(from, was, sizeof(was));
	redis_host_show(to, is, sizeof(is));
	ereport(LOG,
			(from->host[0] == '\0' ?
			 errmsg("lockredis: the master of \"%s\" is at %s",
					lr_redis_url->service, is) :
			 errmsg("lockredis: the master of \"%s\" is now at %s (was at %s)",
					lr_redis_url->service, is, was),
			 discovery.unlogged == 0 ? 0 :
			 errdetail_plural("It changed %d time before that.",
							  "It changed %d times before that.",
							  discovery.unlogged, discovery.unlogged)));
	discovery.logged_at = now;
	discovery.unlogged = 0;
}

/*
 * believe --- make this node the master
 */
static void
believe(const Candidate *c, const TopologyMaster *present, int64 now)
{
	uint32		epoch;
	int64		number = c->config_epoch;

	if (number < present->config_epoch)
		number = begin_numbers_anew(c, present->config_epoch, now);
	note_who_learned(&c->at, number, now);
	if (redis_host_is_same(&c->at, &topology_passed_over()->at))
		topology_pass_over(NULL, 0);
	epoch = topology_change(&c->at, number);
	discovery.unconfirmed_since = now;
	if (!anybody_in_doubt(now))
		topology_watch(now);
	topology_named(epoch, c->asked_at);
	discovery.was_named = true;
	log_change(&present->at, &c->at, now);
}

/*
 * explain --- set the reason why no master is known, for errors of sessions
 */
static void
explain(const TopologyMaster *present, int64 now)
{
	bool		heard = false;
	bool		known = false;

	for (int i = 0; i < discovery.nsentinels; i++)
	{
		const SentinelAnswer *a = fresh_answer(i, now);

		heard = heard || a != NULL;
		known = known || (a != NULL && a->known);
	}
	if (anybody_in_doubt(now))
		topology_set_reason("The Sentinels are about to make another node the master.");
	else if (heard && !known)
		topology_set_reason("The Sentinels do not know the service in lockredis.url.");
	else if (present->at.host[0] == '\0')
		topology_set_reason(heard ? "The Sentinels name no master." :
							"No Sentinel in lockredis.url answers.");
	else if (!heard)
		topology_set_reason("The connection to the master was lost, and no Sentinel answers.");
	else
		topology_set_reason("The node that the Sentinels name as the master cannot be reached.");
}

/*
 * believe_claim --- make a node the master that has to say itself that it is one; true
 * if that was done
 *
 * It is asked between rounds, and its answer is judged together with what the Sentinels
 * say then.
 */
static bool
believe_claim(const Candidate *candidates, int n, const TopologyMaster *present, int64 now)
{
	const Candidate *against = choose_against(candidates, n, present, now);
	const Candidate *c = against != NULL ? against :
		choose_passed_over(candidates, n, present);
	Candidate	claimant;

	claim_ask(c == NULL ? NULL : &c->at);
	if (c == NULL ||
		!claim_was_made(&c->at, Max(discovery.stalled_at, now - CLAIM_LIFE)))
		return false;

	claimant = *c;
	if (against == NULL)
		claimant.config_epoch = claimant.reported;
	else if (!topology_is_proved(present->epoch))
		topology_pass_over(&present->at, present->config_epoch);
	believe(&claimant, present, now);
	return true;
}

/*
 * judge --- evaluate the answers
 *
 * A later failover than the known one is believed at once; the very first master only
 * when all have answered, or have had their time.
 */
static void
judge(bool complete, int64 now)
{
	Candidate	candidates[LR_MAX_SENTINELS];
	int			n;
	TopologyMaster present;
	const Candidate *best;

	topology_get_master(lr_place, &present);
	note_numbers(&present, now);
	note_who_learned(&present.at, present.config_epoch, now);
	n = collect_candidates(candidates, now);
	note_anew(candidates, n, &present, now);
	if (complete && believe_claim(candidates, n, &present, now))
		return;
	best = choose(candidates, n, &present, now);
	if (best == NULL)
		return;
	if (!redis_host_is_same(&best->at, &present.at))
	{
		if (complete || (present.at.host[0] != '\0' &&
						 best->config_epoch > present.config_epoch))
			believe(best, &present, now);
		return;
	}
	if (best->config_epoch > present.config_epoch)
		topology_set_config_epoch(best->config_epoch);
	else if (complete && best->config_epoch < present.config_epoch && begins_anew(best))
		(void) begin_numbers_anew(best, present.config_epoch, now);
	if (complete && best->asked_at >= discovery.lost_at && !round_is_outdated() &&
		!anybody_in_doubt(now))
	{
		if (!discovery.was_named)
			topology_named(present.epoch, best->asked_at);
		else
			topology_named_again(present.epoch, best->asked_at);
		discovery.was_named = true;
	}
}

/* ----------
 * Which Sentinel each name leads to
 *
 * A name can be pointed elsewhere, and the list in the settings stays the same.  A Sentinel counts
 * once, by the name by which there is a connection already.
 * ----------
 */

/*
 * tell_apart --- a connection to this Sentinel was made: is it the one of another name?
 *
 * If so, that name may lead elsewhere by now, so connect by it again, too.
 */
static void
tell_apart(RedisSentinel *s)
{
	if (s->run_id[0] == '\0')
		return;
	for (int i = 0; i < discovery.nsentinels; i++)
	{
		RedisSentinel *other = discovery.sentinel[i];

		if (other == s || strcmp(other->run_id, s->run_id) != 0)
			continue;
		if (other->ask.conn.state == CONN_READY)
		{
			sentinel_refuse(s);
			sentinel_reconnect(other);
			return;
		}
		sentinel_refuse(other);
	}
}

/*
 * meet_sentinels --- look at the connections that were made in this step
 *
 * No answer has come over them yet, since a question is answered in a later step.
 */
static void
meet_sentinels(void)
{
	for (int i = 0; i < discovery.nsentinels; i++)
	{
		RedisSentinel *s = discovery.sentinel[i];

		if (!s->met)
			continue;
		s->met = false;
		tell_apart(s);
		topology_sentinel_met(i, s->run_id);
	}
}

/* ----------
 * Stepping
 * ----------
 */

static void
begin_round(int64 now)
{
	discovery.round_at = now;
	discovery.judged = false;
	discovery.next_round = now +
		(topology_is_confirmed() && !anybody_in_doubt(now) ? ROUND_INTERVAL :
		 ROUND_IN_DOUBT);
}

/*
 * ask_soon --- a Sentinel has news, or the master is not known for sure any more: ask at once
 *
 * A round that has begun still gets its time; otherwise it might never be judged.
 */
static void
ask_soon(void)
{
	discovery.next_round = Min(discovery.next_round, discovery.round_at + ROUND_MIN);
}

/*
 * note_confirmation --- note since when the present master is not known for sure
 *
 * If it was named too long ago, nobody may connect to it any more.
 */
static void
note_confirmation(int64 now)
{
	bool		named;

	if (!topology_is_confirmed() && !topology_was_named_lately(now))
		topology_lost(topology_epoch());
	named = topology_is_named();
	if (topology_is_confirmed())
		discovery.unconfirmed_since = 0;
	else if (discovery.unconfirmed_since == 0)
		discovery.unconfirmed_since = now;

	/* The connection has ended, or the master is in doubt: ask at once. */
	if (discovery.was_named && !named)
	{
		discovery.lost_at = now;
		ask_soon();
	}
	discovery.was_named = named;
}

/*
 * note_stall --- were we stopped?
 *
 * If so, earlier answers do not count, nor does a naming by which the watchdog has not
 * connected yet: the node may have been reconfigured, or restarted, meanwhile.
 */
static void
note_stall(int64 now)
{
	if (now - discovery.stepped_at <= STALL)
		return;
	discovery.blind = true;
	discovery.stalled_at = discovery.lost_at = discovery.next_round = now;
	discovery.anew_since = 0;
	if (discovery.unconfirmed_since != 0)
		discovery.unconfirmed_since = now;
	if (!topology_is_confirmed())
		topology_lost(topology_epoch());
}

/*
 * redis_discovery_step --- do all that can be done without waiting
 */
void
redis_discovery_step(void)
{
	int64		now = lr_now();
	bool		news = false;
	bool		in_doubt;
	TopologyMaster present;

	if (discovery.nsentinels == 0)
		return;

	/* The watchdog's own connection has been checked since then, too. */
	if (discovery.judged)
		discovery.blind = false;
	note_stall(now);
	note_confirmation(now);
	discovery.stepped_at = now;
	if (now >= discovery.next_round && (discovery.judged || round_is_outdated()))
		begin_round(now);
	for (int i = 0; i < discovery.nsentinels; i++)
		news = sentinel_step(discovery.sentinel[i], discovery.round_at) || news;
	meet_sentinels();
	redis_poller_step(&claim.poller);
	now = lr_now();

	/* We were stopped just now: the next step notes that, and asks again. */
	if (now - discovery.stepped_at > STALL)
		return;
	if (news)
		ask_soon();

	if (!discovery.judged)
	{
		discovery.judged = round_is_complete(now);
		judge(discovery.judged, now);
	}
	in_doubt = anybody_in_doubt(now);
	if (in_doubt)
		topology_suspend();
	else if (!discovery.blind)
		topology_watch(now);
	topology_get_master(lr_place, &present);
	if (discovery.judged && !topology_is_confirmed() &&
		(in_doubt || present.at.host[0] == '\0' || !topology_is_named()))
		explain(&present, now);
}

/*
 * redis_discovery_interests --- like StoreRoutine.interests, for all Sentinels
 */
void
redis_discovery_interests(StoreInterests *in)
{
	if (discovery.nsentinels == 0)
		return;
	redis_poller_interests(&claim.poller, in);
	store_wait_until(in, (discovery.judged && discovery.blind) ||
					 (discovery.was_named && !topology_is_named()) ? 0 :
					 discovery.judged || round_is_outdated() ? discovery.next_round :
					 discovery.round_at + ROUND_GRACE);
	for (int i = 0; i < discovery.nsentinels; i++)
		sentinel_interests(discovery.sentinel[i], in);
}
