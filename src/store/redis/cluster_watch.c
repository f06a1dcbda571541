/*-------------------------------------------------------------------------
 *
 * cluster_watch.c
 *	  Asks the nodes of a Redis Cluster which of them has which slot.
 *
 * A few nodes are asked each second, and at once when a process has found that the map
 * is wrong or has lost a connection.  The choice of nodes rotates, so that each is asked
 * in time.  Their replies change the map (cluster_map.c), unless they are from another
 * cluster: those are refused, however long ours is silent.
 *
 * Which cluster is ours is decided at the start, and by a reload after a reply was
 * refused: it is that of the nodes that the settings name, if all of them that answer
 * belong to one cluster.
 *
 * Nothing here waits, and it raises only when out of memory at the start.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/cluster_watch.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "settings.h"
#include "store/nodes.h"
#include "store/redis/cluster_map.h"
#include "store/redis/conn.h"

#define SCOUTS				3

#define ASK_INTERVAL		LR_US_PER_S

/* Shortest interval between two rounds. */
#define ASK_MIN				(50 * LR_US_PER_MS)

/* After that a scout goes on to another node. */
#define SCOUT_LIFE			(5 * LR_US_PER_S)
#define SCOUT_RETRY			(100 * LR_US_PER_MS)

/* How long to wait for a reply. */
#define ANSWER_MAX			(1500 * LR_US_PER_MS)

/*
 * While it is decided which cluster is ours: how long to wait, after the first reply,
 * for the other nodes that the settings name.
 */
#define DECIDE_MAX			(2 * LR_US_PER_S)

/* Limit for the whole decision, also if no node replies. */
#define DECIDE_NOBODY		(3 * LR_US_PER_S)

/* Shortest interval between two warnings, and between two lines about invalid replies. */
#define WARN_INTERVAL		(60 * LR_US_PER_S)

/* A connection that asks one node after the other. */
typedef struct Scout
{
	RedisPoller poller;
	int64		leaves_at;		/* when to go on to the next one */
	int64		asked_at;
} Scout;

/* Decides which cluster is ours. */
typedef struct Decision
{
	bool		open;
	int64		began;
	uint32		asked;			/* seeds (bits) that a scout was sent to */
	int64		answered_at;	/* time of the first reply; 0 = none */
	bool		ours;			/* one of them belongs to the cluster in use */
	char		first[LR_HOST_MAX + 16];	/* seed that has replied first */
	char		other[LR_HOST_MAX + 16];	/* one of another cluster; or empty */
	ClusterIds	ids;			/* nodes that the first reply names */
} Decision;

StaticAssertDecl(LR_MAX_SEEDS <= 32, "sets of them are bits of a word");

typedef struct ClusterWatch
{
	bool		on;
	Scout	   *scout[SCOUTS];
	uint32		next_candidate;
	int64		next_ask;
	int64		asked_at;
	uint32		wanted;			/* cluster_wanted() then */
	ClusterClaims answer;		/* the last reply */
	Decision	decision;
	bool		refused;		/* a node of another cluster was refused since
								 * the decision */
	int64		warned_at;		/* of another cluster; 0 = never */
	int64		logged_at;		/* of a reply that is not valid; 0 = never */
} ClusterWatch;

static ClusterWatch watch;

/* ----------
 * Beginning
 * ----------
 */

/*
 * scouts_call_back --- end the connections of all scouts, which may go out again at that time
 */
static void
scouts_call_back(int64 now)
{
	for (int i = 0; i < SCOUTS && watch.scout[i] != NULL; i++)
	{
		redis_conn_close(&watch.scout[i]->poller.conn);
		watch.scout[i]->poller.next_try = now;
	}
}

/*
 * decision_begin --- ask all nodes that the settings name which cluster is ours
 */
static void
decision_begin(int64 now)
{
	Decision   *d = &watch.decision;

	memset(d, 0, offsetof(Decision, ids));
	d->ids.n = 0;
	d->open = true;
	d->began = now;
	watch.next_ask = Min(watch.next_ask, now);
	scouts_call_back(now);
}

/*
 * watch_may_log --- limit the number of such lines in the log
 */
static bool
watch_may_log(int64 *logged_at, int64 now)
{
	if (*logged_at != 0 && now - *logged_at < WARN_INTERVAL)
		return false;
	*logged_at = now;
	return true;
}

/* ----------
 * Which cluster is ours
 * ----------
 */

/*
 * watch_refuse --- the reply is from another cluster than that in use
 */
static void
watch_refuse(const RedisTarget *t, int64 now)
{
	char		address[LR_HOST_MAX + 16];

	watch.refused = true;
	redis_target_show(t, address, sizeof(address));
	if (watch_may_log(&watch.warned_at, now))
		ereport(WARNING,
				(errcode(ERRCODE_WARNING),
				 errmsg("lockredis: the node at %s belongs to another Redis Cluster", address),
				 errdetail("It knows none of the nodes of the one that is in use, and is not asked for locks."),
				 errhint("If that one was set up anew, or its nodes have been replaced, reload the configuration: then the nodes in \"%s\" decide.",
						 "lockredis.url")));
}

/*
 * decision_take --- the reply of a node that the settings name
 *
 * It is of another cluster if it has no node in common with the first one.
 */
static void
decision_take(const Scout *s, int64 now)
{
	Decision   *d = &watch.decision;

	if (cluster_known()->n > 0 && cluster_map_is_ours(&watch.answer))
		d->ours = true;
	if (d->answered_at == 0)
	{
		d->answered_at = now;
		redis_target_show(&s->poller.target, d->first, sizeof(d->first));
		d->ids = watch.answer.ids;
	}
	else if (!cluster_claims_name(&watch.answer, &d->ids, true))
		redis_target_show(&s->poller.target, d->other, sizeof(d->other));
}

/*
 * decision_warn --- the seeds belong to different clusters
 */
static void
decision_warn(int64 now)
{
	Decision   *d = &watch.decision;

	watch.refused = true;
	topology_set_reason("The nodes in lockredis.url belong to different clusters.");
	node_set_error(NODE_REDIS, "", "The nodes in lockredis.url belong to different clusters.");
	if (watch_may_log(&watch.warned_at, now))
		ereport(WARNING,
				(errcode(ERRCODE_WARNING),
				 errmsg("lockredis: the nodes in \"%s\" belong to different clusters",
						"lockredis.url"),
				 errdetail("Those at %s and %s do not know the same nodes.", d->first, d->other),
				 errhint("List only nodes of one cluster.")));
}

/*
 * decision_close --- all seeds have replied, failed, or had their time
 *
 * Without a result, and with no cluster in use, the decision begins again a moment
 * later.  A cluster in use stays in use, unless no seed belongs to it and all belong to
 * one other cluster: then the map is built anew, as after a start.
 */
static void
decision_close(int64 now)
{
	Decision   *d = &watch.decision;
	bool		in_use = cluster_known()->n > 0;
	bool		split = d->other[0] != '\0';

	d->open = false;
	watch.next_ask = now;
	if (split)
		decision_warn(now);
	if (d->answered_at == 0 || split)
	{
		cluster_note_asked();
		if (!in_use)
			decision_begin(now + (split ? ASK_INTERVAL : SCOUT_RETRY));
		return;
	}
	if (in_use && !d->ours)
	{
		cluster_begin_anew();
		cluster_map_start();
	}
	if (!d->ours)
		cluster_know(&d->ids);
}

static bool
scouts_are_back(void)
{
	for (int i = 0; i < SCOUTS; i++)
		if (watch.scout[i]->poller.conn.state != CONN_CLOSED)
			return false;
	return true;
}

/*
 * decision_look --- close the decision if all have replied or failed, or the time is up
 */
static void
decision_look(int64 now)
{
	Decision   *d = &watch.decision;
	uint32		all = (uint32) ((UINT64CONST(1) << lr_redis_url->nhosts) - 1);

	if (d->open && ((d->asked == all && scouts_are_back()) ||
					now - d->began >= DECIDE_NOBODY ||
					(d->answered_at != 0 && now - d->answered_at >= DECIDE_MAX)))
		decision_close(now);
}

/* ----------
 * Scouts
 * ----------
 */

/*
 * scout_choose --- the next node to be asked, a master or a seed; false: none for now
 *
 * For a decision each seed is asked once.  A node that drops packets may take all of the
 * time that there is for it.  So the next one begins with the seed after the last one asked.
 */
static bool
scout_choose(Scout *s)
{
	Decision   *d = &watch.decision;

	for (int i = 0; i < NODE_MASTERS + LR_MAX_SEEDS; i++)
	{
		int			n = watch.next_candidate++ % (NODE_MASTERS + LR_MAX_SEEDS);
		int			seed = n - NODE_MASTERS;
		ClusterNode node;

		if (seed >= 0 && seed < lr_redis_url->nhosts &&
			!(d->open && (d->asked & (1U << seed)) != 0))
		{
			d->asked |= 1U << seed;
			node.at = lr_redis_url->hosts[seed];
		}
		else if (seed >= 0 || d->open || !cluster_get_node(lr_place, n, &node, NULL))
			continue;
		redis_target_set_asked(&s->poller.target, TARGET_SEED, &node.at);
		return true;
	}
	return false;
}

/*
 * scout_aim --- send it to the next node
 */
static bool
scout_aim(RedisPoller *p)
{
	Scout	   *s = p->owner;
	int64		now = lr_now();

	if (!scout_choose(s))
	{
		p->next_try = now + SCOUT_RETRY;
		return false;
	}
	s->leaves_at = now + SCOUT_LIFE;
	s->asked_at = 0;
	return true;
}

/*
 * scout_take_map --- a valid reply: use it, unless it is from another cluster
 */
static void
scout_take_map(Scout *s, int64 now)
{
	s->poller.answer_until = 0;
	watch.answer.asked_at = s->asked_at;
	if (watch.decision.open)
	{
		decision_take(s, now);
		redis_conn_close(&s->poller.conn);
	}
	else if (cluster_map_is_ours(&watch.answer))
		cluster_map_apply(&watch.answer);
	else
	{
		watch_refuse(&s->poller.target, now);
		s->leaves_at = now;
	}
}

/*
 * scout_tell --- log what is wrong with the reply
 */
static void
scout_tell(const RedisConn *c)
{
	const StoreError *error = &c->failure.error;

	if (watch_may_log(&watch.logged_at, lr_now()))
		ereport(LOG,
				(errmsg("lockredis: the map of the cluster cannot be used"),
				 errdetail_internal("%s: %s", error->address, error->detail)));
}

/*
 * scout_take --- take a reply, valid or not
 */
static void
scout_take(RedisPoller *p)
{
	const redisReply *v = p->conn.in.reply;

	if (p->answer_until != 0 && cluster_claims_read(&watch.answer, v, &p->target.url))
	{
		scout_take_map(p->owner, lr_now());
		return;
	}
	if (v->type == REDIS_REPLY_ERROR)
		redis_conn_refused(&p->conn);
	else
		redis_poller_no_sense(p);
	scout_tell(&p->conn);
}

/*
 * scout_talk --- ask again when it is time, or go on to the next node
 */
static void
scout_talk(RedisPoller *p)
{
	Scout	   *s = p->owner;
	int64		now = lr_now();

	if (p->answer_until != 0)
		return;
	if (now >= s->leaves_at || redis_target_is_outdated(&p->target))
		redis_conn_close(&p->conn);
	else if (s->asked_at < watch.asked_at)
	{
		resp_put_request(&p->conn.out, 2, "CLUSTER", "NODES");
		s->asked_at = now;
		p->answer_until = now + Min(ANSWER_MAX, lr_command_timeout * LR_US_PER_MS);
	}
}

/*
 * scout_lost --- it goes on to the next node; perhaps because this one has failed
 */
static void
scout_lost(RedisPoller *p, bool was_ready)
{
	const StoreError *error = &p->conn.failure.error;
	bool		failed = error->detail[0] != '\0';

	p->next_try = lr_now() + (failed && !watch.decision.open ? SCOUT_RETRY : 0);
	if (!failed)
		return;
	if (was_ready && p->conn.garbled)
		scout_tell(&p->conn);
	if (!cluster_has_map())
		node_set_error(NODE_REDIS, error->address, error->detail);
	topology_set_reason(error->detail);
}

/* ----------
 * All of it
 * ----------
 */

/*
 * scout_make --- a new one, which is sent out when it is stepped
 */
static Scout *
scout_make(void)
{
	static const PollerRoutine routine = {
		.role = "scout",
		.connect_max = ANSWER_MAX,
		.aim = scout_aim,
		.take = scout_take,
		.talk = scout_talk,
		.lost = scout_lost
	};
	Scout	   *s = MemoryContextAllocZero(TopMemoryContext, sizeof(Scout));

	redis_poller_init(&s->poller, &routine, s);
	s->poller.wanted = true;
	return s;
}

/*
 * redis_cluster_watch_start --- begin with the present settings, of whichever topology
 *
 * If a node was refused, the nodes in lockredis.url decide again, as after a reload that
 * changes no setting.
 */
void
redis_cluster_watch_start(void)
{
	int64		now = lr_now();
	bool		refused = watch.refused;

	scouts_call_back(now);
	watch.on = redis_url_is_cluster(lr_redis_url);
	if (!watch.on)
		return;

	cluster_map_start();
	watch.next_candidate = 0;
	watch.next_ask = watch.asked_at = 0;
	watch.wanted = cluster_wanted();
	watch.decision.open = watch.refused = false;
	watch.warned_at = watch.logged_at = 0;
	for (int i = 0; i < SCOUTS; i++)
		if (watch.scout[i] == NULL)
			watch.scout[i] = scout_make();
	if (refused || cluster_known()->n == 0)
		decision_begin(now);
}

/*
 * redis_cluster_watch_reload --- the settings were read again and have not changed
 *
 * If a node was refused, a reload asks for a new decision: whoever reloads has seen the
 * warning, and says that lockredis.url is right.
 */
void
redis_cluster_watch_reload(void)
{
	if (!watch.on || !watch.refused)
		return;
	watch.refused = false;
	watch.warned_at = 0;
	decision_begin(lr_now());
}

void
redis_cluster_watch_step(void)
{
	int64		now = lr_now();
	uint32		wanted = cluster_wanted();

	if (!watch.on)
		return;
	if (wanted != watch.wanted)
	{
		watch.wanted = wanted;
		watch.next_ask = Min(watch.next_ask, watch.asked_at + ASK_MIN);
	}
	if (now >= watch.next_ask)
	{
		watch.asked_at = now;
		watch.next_ask = now + ASK_INTERVAL;
	}
	cluster_map_step(now);
	for (int i = 0; i < SCOUTS; i++)
		redis_poller_step(&watch.scout[i]->poller);
	decision_look(now);
}

void
redis_cluster_watch_interests(StoreInterests *in)
{
	if (!watch.on)
		return;
	store_wait_until(in, watch.next_ask);
	for (int i = 0; i < SCOUTS; i++)
		redis_poller_interests(&watch.scout[i]->poller, in);
}
