/*-------------------------------------------------------------------------
 *
 * renewals.c
 *	  The watchdog's own requests: renewals, and giving back what was left.
 *
 * One connection, one batch at a time: what is due is collected from the lock
 * table, sent pipelined, and the replies are applied if the holds still have
 * the owners they had.  While a batch is under way leases that end are still
 * seen on time.
 *
 * An orphan whose create may still be on its way is released again and again
 * until a release has run after the last moment at which the create may run,
 * both on the store's own clock: TIME goes out before the releases, so a
 * release in the same batch has run later than that.
 *
 * Here is also decided whether the store is up, and it is logged once each way.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/renewals.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "utils/memutils.h"

#include "locktable.h"
#include "node.h"
#include "settings.h"
#include "stats.h"
#include "watchdog.h"

/* So many holds in one batch: some 2 MB of requests, 10 ms of Redis. */
#define BATCH_MAX			5000

/* One that takes hardly longer than a round trip. */
#define SMALL_BATCH			100

/* An orphan is released again after this. */
#define ORPHAN_REPEAT		(100 * LR_US_PER_MS)

/* A store that is away is asked again after 0.1 to 1 s. */
#define RETRY_MIN			(100 * LR_US_PER_MS)
#define RETRY_MAX			LR_US_PER_S

/* A store that has nothing to do is asked whether it is there. */
#define PROBE_INTERVAL		(5 * LR_US_PER_S)

/* The batch: a TIME, perhaps a PROBE, and an operation for each item. */
#define MAX_HEADERS			2

static DueItem *items = NULL;
static StoreOp *ops = NULL;
static int	nheaders = 0;
static int	nitems = 0;
static bool under_way = false;

/* While a batch is under way, ends of leases are looked for so often. */
#define LOOK_INTERVAL		(50 * LR_US_PER_MS)

static int64 next_look = 0;

static StoreHandle *handle = NULL;
static NodeState node_state = NODE_CONNECTING;
static int64 retry_delay = RETRY_MIN;
static int64 next_try = 0;		/* not before, while the store is away */
static int64 next_probe = 0;
static uint32 connection_epoch = 0;
static char warned_policy[32] = "";

void
renewals_start(void)
{
	items = MemoryContextAllocHuge(TopMemoryContext, sizeof(DueItem) * BATCH_MAX);
	ops = MemoryContextAllocHuge(TopMemoryContext, sizeof(StoreOp) * (BATCH_MAX + MAX_HEADERS));
	handle = lr_store()->open("watchdog");
	node_set_state(NODE_CONNECTING);
}

/* ----------
 * Is the store there?
 * ----------
 */

/*
 * warn_of_eviction --- a store that may throw locks away
 */
static void
warn_of_eviction(const NodeStatus *status)
{
	if (strcmp(status->maxmemory_policy, warned_policy) == 0)
		return;
	strlcpy(warned_policy, status->maxmemory_policy, sizeof(warned_policy));
	if (warned_policy[0] == '\0' || strcmp(warned_policy, "noeviction") == 0)
		return;
	ereport(WARNING,
			(errcode(ERRCODE_WARNING),
			 errmsg("the lock store at %s can evict locks", status->address),
			 errdetail("Its maxmemory-policy is \"%s\".", warned_policy),
			 errhint("Set it to \"noeviction\".")));
}

static void
store_is_up(void)
{
	NodeStatus	status;
	bool		was_down = node_state != NODE_UP;

	node_state = NODE_UP;
	retry_delay = RETRY_MIN;
	next_try = 0;
	next_probe = lr_now() + PROBE_INTERVAL;
	node_set_silent(false);
	if (!was_down)
		return;

	node_set_state(NODE_UP);
	node_get_status(&status);
	ereport(LOG,
			(errmsg("lockredis: the lock store at %s is up", status.address)));
	warn_of_eviction(&status);
}

static void
store_is_down(void)
{
	const StoreError *error = lr_store()->error(handle);

	next_try = lr_now() + retry_delay;
	retry_delay = Min(retry_delay * 2, RETRY_MAX);
	node_set_error(error->detail);
	if (node_state == NODE_DOWN)
		return;
	if (node_state == NODE_CONNECTING)
		node_set_facts(error->address, NULL, NULL, false);

	node_state = NODE_DOWN;
	node_set_state(NODE_DOWN);
	ereport(LOG,
			(errmsg("lockredis: the lock store is down"),
			 errdetail_internal("%s%s%s", error->address,
								error->address[0] ? ": " : "", error->detail)));
}

/* The node has said something, be it a refusal. */
static bool
was_answered(StoreOutcome outcome)
{
	return outcome != STORE_PENDING && outcome != STORE_DOWN &&
		outcome != STORE_UNKNOWN;
}

/*
 * judge_store --- what the replies of a batch say about the store
 *
 * One that is loading answers TIME and refuses the rest: it is down.  That it
 * denies us the right to one key says nothing about others.
 */
static void
judge_store(void)
{
	bool		was_up = node_state == NODE_UP;
	bool		answered = true;
	bool		usable = ops[0].outcome == STORE_OK;
	uint32		epoch;
	int64		until;
	StoreInterest interest[STORE_MAX_INTERESTS];

	for (int i = 0; i < nheaders + nitems; i++)
	{
		answered = answered && was_answered(ops[i].outcome);
		usable = usable && ops[i].outcome != STORE_REFUSED &&
			(i >= nheaders || ops[i].outcome == STORE_OK);
	}
	if (answered)
		node_set_silent(false);
	if (nitems <= SMALL_BATCH && ops[0].outcome == STORE_OK)
		node_set_round_trip(lr_now() - ops[0].sent_at);
	if (!answered || !usable)
	{
		store_is_down();
		return;
	}
	store_is_up();

	/* Over a new connection it may be another one, or one without our data. */
	(void) lr_store()->interests(handle, interest, &until, &epoch);
	if (!was_up || epoch != connection_epoch)
		lt_renew_all_now();
	connection_epoch = epoch;
}

/* ----------
 * A batch
 * ----------
 */

/*
 * retry_time --- when to try again what the store did not do
 */
static int64
retry_time(void)
{
	return Max(next_try, lr_now() + RETRY_MIN);
}

static void
apply_renewal(const DueItem *item, const StoreOp *op)
{
	switch (op->outcome)
	{
		case STORE_OK:
			lt_renewed(item->hold, item->owner,
					   op->sent_at + item->lease_ms * LR_US_PER_MS);
			lr_count(STAT_RENEWALS);
			break;
		case STORE_GONE:
			lt_lose(item->hold, item->owner,
					op->holder[0] != '\0' ? LOST_TAKEN : LOST_DELETED,
					op->holder);
			break;
		case STORE_WRONG_TYPE:
			lt_lose(item->hold, item->owner, LOST_TAKEN, op->type_name);
			break;
		default:
			lt_retry_at(item->hold, item->owner, retry_time());
	}
}

static void
apply_give_back(const DueItem *item, const StoreOp *op, const StoreOp *time)
{
	bool		ran = op->outcome == STORE_OK || op->outcome == STORE_GONE ||
		op->outcome == STORE_WRONG_TYPE;

	if (!ran)
		lt_retry_at(item->hold, item->owner, retry_time());
	else if (item->not_after == 0 ||
			 (time->outcome == STORE_OK && time->store_ms > item->not_after))
		lt_given_back(item->hold, item->owner);
	else
	{
		if (time->outcome == STORE_OK)
			lt_limit_orphan(item->hold, item->owner,
							time->store_ms + lr_call_budget() / LR_US_PER_MS);
		lt_retry_at(item->hold, item->owner, lr_now() + ORPHAN_REPEAT);
	}
}

static void
apply_batch(void)
{
	judge_store();
	for (int i = 0; i < nitems; i++)
	{
		if (items[i].action == DUE_RENEW)
			apply_renewal(&items[i], &ops[nheaders + i]);
		else
			apply_give_back(&items[i], &ops[nheaders + i], &ops[0]);
	}
	nitems = 0;
	under_way = false;
	next_look = 0;
}

static void
fill_op(StoreOp *op, const DueItem *item)
{
	memset(op, 0, sizeof(StoreOp));
	op->kind = item->action == DUE_RENEW ? STORE_RENEW : STORE_RELEASE;
	op->name = item->name;
	op->name_len = item->name_len;
	op->owner = item->owner;
	op->lease_ms = item->lease_ms;
	op->keep_ms = item->keep_ms;
}

static void
add_header(StoreOpKind kind)
{
	StoreOp    *op = &ops[nheaders++];

	memset(op, 0, sizeof(StoreOp));
	op->kind = kind;
}

/*
 * start_batch --- send what was collected
 *
 * Whether the store would do our operations is asked only where it is not
 * known: it may be loading when a new connection is made.
 */
static void
start_batch(void)
{
	nheaders = 0;
	add_header(STORE_TIME);
	if (node_state != NODE_UP || !lr_store()->connected(handle))
		add_header(STORE_PROBE);
	for (int i = 0; i < nitems; i++)
		fill_op(&ops[nheaders + i], &items[i]);
	under_way = true;
	next_look = lr_now() + LOOK_INTERVAL;
	lr_store()->start(handle, ops, nheaders + nitems, lr_now() + lr_call_budget());
}

/*
 * wants_probe --- nothing is due, but the store is to be asked
 */
static bool
wants_probe(int64 now)
{
	return node_state != NODE_UP || node_is_silent() || now >= next_probe;
}

/*
 * look_after_connection --- an idle connection that dies is noticed at once
 */
static void
look_after_connection(void)
{
	if (!lr_store()->connected(handle))
		return;
	(void) lr_store()->step(handle, STORE_NOWAIT);
	if (!lr_store()->connected(handle))
		next_probe = 0;
}

void
renewals_step(void)
{
	int64		now = lr_now();
	bool		more;

	if (!under_way)
		look_after_connection();
	else if (lr_store()->step(handle, STORE_NOWAIT))
		apply_batch();

	if (under_way || now < next_try)
	{
		/* Nothing can be sent now, but leases end all the same. */
		if (now >= next_look)
			(void) lt_collect_due(now, false, Max(next_try, now + LOOK_INTERVAL),
								  NULL, 0, &more);
		if (under_way)
			next_look = now + LOOK_INTERVAL;
		return;
	}
	nitems = lt_collect_due(now, true, now + RETRY_MAX, items, BATCH_MAX, &more);
	if (nitems == 0 && !wants_probe(now))
		return;
	start_batch();
	if (lr_store()->step(handle, STORE_NOWAIT))
		apply_batch();
}

/*
 * renewals_reconnect --- the store's place has changed
 */
void
renewals_reconnect(void)
{
	if (under_way)
	{
		lr_store()->abandon(handle);
		apply_batch();
	}
	lr_store()->disconnect(handle);
	node_state = NODE_CONNECTING;
	node_set_state(NODE_CONNECTING);
	node_set_facts("", "", "", false);
	node_set_round_trip(-1);
	retry_delay = RETRY_MIN;
	next_try = 0;
}

int
renewals_interests(StoreInterest *out, int64 *until, uint32 *epoch)
{
	int			n = lr_store()->interests(handle, out, until, epoch);

	if (under_way)
		*until = Min(*until, next_look);
	else
	{
		bool		steady = node_state == NODE_UP && !node_is_silent();

		*until = Min(*until, steady ? next_probe : next_try);
		*until = Min(*until, lt_next_due());
	}
	return n;
}

bool
renewals_under_way(void)
{
	return under_way;
}
