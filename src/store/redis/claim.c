/*-------------------------------------------------------------------------
 *
 * claim.c
 *	  Asks one node whether it is a master, before discovery.c believes that it is.
 *
 * One node is asked at a time, over a connection of its own: the handshake is the
 * question, and the connection is closed once it has been answered.
 *
 * Nothing here waits, and only redis_claim_start() can raise.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/claim.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "store/redis/conn.h"
#include "store/redis/discovery.h"

/* How often the node is asked, counted from its last answer. */
#define CLAIM_INTERVAL		(500 * LR_US_PER_MS)

typedef struct Claim
{
	RedisHost	at;				/* empty host: no node is asked */
	RedisTarget target;
	RedisConn	conn;
	bool		made;			/* the connection was initialized in this process */
	int64		asked_at;
	int64		said_at;		/* asked_at of the last question answered with
								 * yes; 0 = none */
	int64		next_try;
} Claim;

static Claim claim;

void
redis_claim_start(void)
{
	if (!claim.made)
		redis_conn_init(&claim.conn, "claim", false);
	claim.made = true;
	redis_claim_ask(NULL);
}

/*
 * redis_claim_ask --- see discovery.h
 */
void
redis_claim_ask(const RedisHost *at)
{
	if (at != NULL && redis_host_is_same(at, &claim.at))
		return;
	redis_conn_close(&claim.conn);
	memset(&claim.at, 0, sizeof(RedisHost));
	if (at != NULL)
		claim.at = *at;
	claim.said_at = claim.next_try = 0;
}

bool
redis_claim_was_made(const RedisHost *at, int64 since)
{
	return claim.said_at != 0 && claim.said_at >= since && redis_host_is_same(at, &claim.at);
}

/*
 * redis_claim_step --- see discovery.h
 *
 * The handshake fails if the node says that it is not a master, so the connection
 * becomes READY only if the answer is yes.
 */
void
redis_claim_step(void)
{
	if (claim.at.host[0] == '\0')
		return;
	if (claim.conn.state == CONN_CLOSED)
	{
		if (lr_now() < claim.next_try)
			return;
		redis_target_set_asked(&claim.target, TARGET_CLAIMANT, &claim.at);
		claim.asked_at = lr_now();
		redis_conn_open(&claim.conn, &claim.target, LR_NEVER);
	}
	redis_conn_advance(&claim.conn);
	if (claim.conn.state == CONN_READY)
	{
		claim.said_at = claim.asked_at;
		redis_conn_close(&claim.conn);
	}
	if (claim.conn.state == CONN_CLOSED)
		claim.next_try = lr_now() + CLAIM_INTERVAL;
}

void
redis_claim_interests(StoreInterests *in)
{
	if (claim.at.host[0] == '\0')
		return;
	if (claim.conn.state == CONN_CLOSED)
		store_wait_until(in, claim.next_try);
	redis_conn_interests(&claim.conn, in);
}
