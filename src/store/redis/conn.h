/*-------------------------------------------------------------------------
 *
 * conn.h
 *	  One connection to a Redis node, as a machine that never blocks.
 *
 *		CLOSED --open--> PAUSED <--> CONNECTING --> HANDSHAKE --> READY
 *
 * Any state goes back to CLOSED, with the reason in "error".  PAUSED waits for
 * addresses of a host name, or for room in a socket's backlog.  Who waits, and
 * how, is the caller's business: redis_conn_events() and redis_conn_until()
 * say for what.
 *
 * The socket is our own; hiredis is only the parser of replies.  A reply is
 * copied into buffers of the connection, of fixed size: nothing has to be
 * freed on any path, and no server can make us allocate more than
 * REDIS_MAX_UNPARSED bytes.  What is sent is put together in one buffer, which
 * is grown with realloc() so that running out of memory raises nothing.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/conn.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_REDIS_CONN_H
#define LR_REDIS_CONN_H

#include "lockredis.h"

#include <hiredis/hiredis.h>

#include "store/addresses.h"
#include "store/node.h"
#include "store/redis/url.h"
#include "store/store.h"

#define REDIS_MAX_ELEMENTS	256 /* of an array in a reply */
#define REDIS_TEXT_SIZE		32768	/* of all strings of a reply; more is cut */
#define REDIS_MAX_UNPARSED	(1024 * 1024)

typedef enum RedisConnState
{
	CONN_CLOSED,
	CONN_PAUSED,
	CONN_CONNECTING,
	CONN_HANDSHAKE,
	CONN_READY
} RedisConnState;

/* A reply is values[0]; the elements of an array are values[1], [2], ... */
typedef struct RedisValue
{
	int			type;			/* REDIS_REPLY_xxx */
	int			elements;		/* of an array */
	int64		integer;
	const char *str;			/* NUL-terminated too */
	int			len;
} RedisValue;

typedef enum RedisRead
{
	REDIS_READ_NOTHING,
	REDIS_READ_SOME,
	REDIS_READ_FULL,			/* and there is probably more */
	REDIS_READ_LOST				/* closed; see error */
} RedisRead;

/* Requests of the handshake, in the order in which they are answered. */
typedef enum RedisGreeting
{
	GREET_AUTH,
	GREET_SELECT,
	GREET_NAME,
	GREET_TIME,
	GREET_INFO
} RedisGreeting;

#define REDIS_MAX_GREETINGS 8

typedef struct RedisConn
{
	RedisConnState state;
	pgsocket	sock;
	WaitEventSet *wait_set;		/* the user's, watching sock; or NULL */
	int			wait_position;	/* of sock in it */
	uint32		wait_events;	/* that it waits for */
	uint32		socket_epoch;	/* changes with each socket */
	uint32		url_epoch;		/* lr_url_epoch when opened */
	bool		can_wait_briefly;	/* a plain recv() has a time limit */
	bool		wait_briefly;	/* the next redis_conn_receive() may use it */
	bool		probe;			/* tell node.c what the node says of itself */
	char		role[32];

	/* Connecting. */
	NodeAddresses addresses;
	int			next_address;
	bool		by_name;
	int64		opened_at;
	int64		connect_until;
	int64		address_until;
	int64		pause_until;
	RedisGreeting greetings[REDIS_MAX_GREETINGS];
	int			ngreetings;
	int			next_greeting;
	int64		greeted_at;
	char		secret[LR_SECRET_MAX];	/* until AUTH is answered */
	char		version[32];
	char		policy[32];
	bool		replica;

	/* The node's clock minus lr_now(), microseconds, at least that much. */
	bool		has_clock;
	int64		clock_offset;

	/* Output: out[out_pos .. out_len) waits to be sent. */
	char	   *out;
	size_t		out_size;
	size_t		out_pos;
	size_t		out_len;
	bool		out_failed;		/* no memory; what was put is not complete */
	uint64		bytes_put;
	uint64		bytes_sent;

	/* Input. */
	redisReader *reader;
	bool		understood;		/* has answered in Redis's protocol */
	bool		garbled;		/* closed because of what was received */
	unsigned char first_byte;
	RedisValue	values[1 + REDIS_MAX_ELEMENTS];
	int			nvalues;
	char		text[REDIS_TEXT_SIZE];
	int			text_used;

	/* Why it was closed. */
	StoreOutcome failure;		/* DOWN, REFUSED or DENIED */
	StoreError	error;
} RedisConn;

/* Raises when out of memory. */
extern void redis_conn_init(RedisConn *c, const char *role, bool probe);
extern void redis_conn_free(RedisConn *c);

/* Start connecting, to be ready before "until" and within connect_timeout. */
extern void redis_conn_open(RedisConn *c, int64 until);
extern void redis_conn_advance(RedisConn *c);

/* Closes the socket; frees the set that watched it before. */
extern void redis_conn_close(RedisConn *c);
extern void redis_conn_fail(RedisConn *c, StoreOutcome failure, int sqlstate,
							const char *format,...) pg_attribute_printf(4, 5);

/* What to wait for, and until when at most. */
extern uint32 redis_conn_events(const RedisConn *c);
extern int64 redis_conn_until(const RedisConn *c);

/* Is a kept connection still good?  Closes it when not. */
extern bool redis_conn_check(RedisConn *c);

/* Output. */
extern bool redis_conn_room(RedisConn *c, size_t size);
extern void redis_put_array(RedisConn *c, int n);
extern void redis_put_bulk(RedisConn *c, const char *data, size_t len);
extern void redis_put_text(RedisConn *c, const char *text);
extern void redis_put_int(RedisConn *c, int64 value);
extern void redis_conn_unput(RedisConn *c, uint64 bytes_put);
extern bool redis_conn_flush(RedisConn *c);

/* Input: first receive, then take all replies. */
extern RedisRead redis_conn_receive(RedisConn *c);
extern bool redis_conn_reply(RedisConn *c);

/* An error reply: what it means, and its words fit to be shown. */
extern StoreOutcome redis_error_words(const RedisValue *value, char *out,
									  size_t size);

/* What to do about a right that is missing; a hint. */
extern const char *const redis_rights_hint;

/* The reply of INFO: what the node says of itself, for node.h. */
extern void redis_conn_take_info(RedisConn *c, const char *info);

/* The reply of TIME, microseconds; false when it is none. */
extern bool redis_value_time(const RedisValue *value, int64 *us);

/* The node's clock was "us" at "read_at" (lr_now() time) or before. */
extern void redis_conn_set_clock(RedisConn *c, int64 us, int64 read_at);

#endif							/* LR_REDIS_CONN_H */
