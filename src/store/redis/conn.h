/*-------------------------------------------------------------------------
 *
 * conn.h
 *	  One connection to one node of Redis: where it goes, its socket, its first words.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/conn.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_CONN_H
#define LR_CONN_H

#include "lockredis.h"

#include <limits.h>
#include <openssl/ssl.h>

#include "datatype/timestamp.h"

#include "store/nodes.h"
#include "store/redis/resp.h"
#include "store/redis/url.h"
#include "store/store.h"

/* ----------
 * target.c: What a connection is opened to: one Redis node, and as whom.
 *
 * Below the store nothing reads lockredis.url or the password's setting: who
 * opens a connection makes a target and passes it down.  It is of the present
 * settings: the node that they name, the master that the Sentinels have named, or
 * one of these.
 *
 * A target is a copy.  The settings are replaced as a whole by a reload, and a
 * connection that is being made must not change its mind halfway.
 * ----------
 */

/* Not in the table of nodes. */
#define NODE_NONE			(-1)

typedef enum TargetKind
{
	TARGET_NODE,				/* what the URL names */
	TARGET_MASTER,				/* what the Sentinels name */
	TARGET_CLAIMANT,			/* another one, that is asked whether it is a master */
	TARGET_SHARD,				/* a master of the cluster */
	TARGET_VOTER,				/* one of the independent masters */
	TARGET_SEED,				/* a node of it that is asked for its map */
	TARGET_SENTINEL
} TargetKind;

/* May a connection be made to it? */
typedef enum TargetAnswer
{
	TARGET_OPEN,
	TARGET_NOT_YET,				/* look again soon */
	TARGET_CLOSED				/* the sentence says why */
} TargetAnswer;

typedef struct RedisTarget
{
	TargetKind	kind;
	bool		scout;			/* master: the watchdog's own, see topology.c */
	uint32		topology;		/* master: its epoch there; shard: generation of
								 * its row (cluster.c) */
	NodeId		node;			/* its row in the table of nodes; NODE_NONE: it
								 * is not one of this server's any more, see
								 * redis_target_leave */
	uint32		version;		/* lr_url_epoch of the settings it was made of, */
	uint32		tls_version;	/* their lr_tls_epoch, */
	uint32		place;			/* and their lr_place */
	char		id[CLUSTER_ID_LEN + 1]; /* shard: which node of the cluster */
	RedisUrl	url;			/* where, which database, as whom */
	bool		tls;			/* not for a unix socket */

	/* With TLS: what its certificate has to name, when that is not url.host. */
	char		tls_name[LR_HOST_MAX];

	/*
	 * Where the password is, if not in the URL; empty: there.  A path too long
	 * for here is too long for open() too, cut or not.
	 */
	char		password_file[PATH_MAX + 1];
} RedisTarget;

/* The node that takes locks, as settings and Sentinels have it now. */
extern void redis_target_set(RedisTarget *t, NodeId node);

/*
 * A node of the cluster that is asked for its map: one that the settings name, or one
 * of the masters.
 */
extern void redis_target_set_seed(RedisTarget *t, const RedisHost *at);

/* What is to say whether it is a master, and nothing else. */
extern void redis_target_set_claimant(RedisTarget *t, const RedisHost *at);

/* One of the Sentinels that the settings name. */
extern void redis_target_set_sentinel(RedisTarget *t, int number);

/*
 * Have the settings been changed since, or is another one the master?  Not of
 * interest for one that was left.  Files of TLS that cannot be used change nothing
 * for connections that there are.
 */
extern bool redis_target_is_outdated(const RedisTarget *t);

/*
 * May a connection be made, and may one that there is be used?  Always, but for
 * a master that is not known for sure.
 */
extern TargetAnswer redis_target_look(const RedisTarget *t, char *why, size_t size);
extern bool redis_target_is_trusted(const RedisTarget *t, int64 now);

/*
 * What is connected there stays so, whatever the settings say, but nobody else's
 * business: what it says or fails to say is put down to no node.
 */
extern void redis_target_leave(RedisTarget *t);

/* For the server log and pg_monitor: no user, no password. */
extern void redis_target_show(const RedisTarget *t, char *out, size_t size);

/*
 * Has a Redis server answered there, as these settings say, since this server was started?
 * Then what goes wrong now is no sign of wrong settings.
 */
extern void redis_target_note_answered(const RedisTarget *t);
extern bool redis_target_has_answered(const RedisTarget *t);

/* Have the host name resolved again, if it has one; WANT_xxx of addresses.c. */
extern void redis_target_want_addresses(const RedisTarget *t, uint32 why);

/* The watchdog is connected there; that has ended, or it could not. */
extern void redis_target_confirm(const RedisTarget *t);
extern void redis_target_lost(const RedisTarget *t);

/* It takes no writes, or has said that it is no master. */
extern void redis_target_is_no_master(const RedisTarget *t);

/* It has let all of a time limit pass without a sign of life, or has answered. */
extern void redis_target_set_silent(const RedisTarget *t, bool silent);

/* ----------
 * node_errors.c: What a node's error replies mean, and why a connection has ended.
 * ----------
 */

/* The words of an error reply, for StoreError.detail. */
#define REDIS_WORDS_MAX		192

/* Why there is no connection. */
typedef struct RedisFailure
{
	StoreOutcome outcome;		/* of an operation that was not sent: DOWN,
								 * REFUSED or DENIED */
	StoreError	error;			/* its address is that of the target */
} RedisFailure;

/* Sets all but the address.  "hint" is static text or NULL. */
extern void redis_failure_set(RedisFailure *f, StoreOutcome outcome,
							  int sqlstate, const char *hint,
							  const char *format,...) pg_attribute_printf(5, 6);

/* It has ended the connection without an answer; "known": it has answered before. */
extern void redis_failure_no_answer(RedisFailure *f, bool tls, bool known);

/* It does not speak as Redis does; the first byte that it has sent, or 0. */
extern void redis_failure_not_redis(RedisFailure *f, unsigned char first);

/*
 * An error reply: what it means, and its words fit to be shown.  "user" is the
 * name that we are connected under, which the words must not tell.
 */
extern StoreOutcome redis_error_words(const RedisValue *value, const char *user,
									  char *out, size_t size);

/* Text of the node: only what can be shown, byte by byte. */
extern void redis_words_clean(char *words);

/* Do they begin with this code? */
extern bool redis_words_begin(const char *words, const char *code);

/* Is there somebody else than a single Redis, by these words?  A hint, or NULL. */
extern const char *redis_words_hint(const char *words);

/* Would everybody get this answer, whatever he asks for? */
extern bool redis_words_concern_all(const char *words);

/* What to do about a right that is missing, a port that expects TLS; hints. */
extern const char *const redis_rights_hint;
extern const char *const redis_tls_port_hint;

/* ----------
 * socket.c: The socket of a connection: its bytes, and what watches it.
 *
 * The only file that touches the bytes on the wire: that is where TLS goes.
 * ----------
 */

typedef struct RedisSocket
{
	pgsocket	fd;
	uint32		epoch;			/* changes with each descriptor */
	bool		can_wait;		/* recv() has a time limit */
	int			briefly_ms;		/* that limit */
	int			nlate;			/* replies in a row that came later */
	volatile bool shut;			/* see redis_socket_shut */
	WaitEventSet *set;			/* watches it, and the latch; or NULL */
	int			position;		/* of the socket in the set */
	uint32		events;			/* that the set waits for */
} RedisSocket;

extern void redis_socket_init(RedisSocket *s);

/* Make one that does not block; 0, or the error.  Counted with fd.c. */
extern int	redis_socket_open(RedisSocket *s, int family);
extern void redis_socket_close(RedisSocket *s);

/*
 * End the connection, but keep the socket: the next look finds it ended by the
 * peer.  For signal handlers.
 */
extern void redis_socket_shut(RedisSocket *s);

/* From now on redis_socket_recv_soon() may be used, if the kernel lets it. */
extern void redis_socket_block_briefly(RedisSocket *s);

/* As recv(2) and send(2) that never wait and are never interrupted. */
extern ssize_t redis_socket_recv(RedisSocket *s, char *buf, size_t len);
extern ssize_t redis_socket_send(RedisSocket *s, const char *buf, size_t len);

/* The same after waiting for a short time; a signal ends the wait. */
extern ssize_t redis_socket_recv_soon(RedisSocket *s, char *buf, size_t len);

/*
 * So many bytes of those that were sent has the peer not acknowledged; 0 where
 * that is not known.
 */
extern size_t redis_socket_unread(const RedisSocket *s);

/* Have the set wait for these events, too; false: it could not be made. */
extern bool redis_socket_watch(RedisSocket *s, uint32 events);

/* ----------
 * tls_context.c: What all TLS connections of this process have in common.
 * ----------
 */

/*
 * The context of the settings and the files as they are now, for connections to
 * be made; "number" changes with it.  NULL: it has failed.
 */
extern SSL_CTX *tls_context_get(uint32 *number, RedisFailure *f);

/*
 * Could the files be used when their settings were changed last?  Looked at once a
 * change.
 */
extern bool tls_context_is_usable(RedisFailure *f);

/* ----------
 * tls.c: TLS between a connection and its socket.
 *
 * OpenSSL reads and writes through a BIO of ours, which is nothing but the
 * calls of socket.c: whoever waits for the socket, and how, stays as it is.
 * ----------
 */

/* Whom a session may be resumed with. */
typedef struct TlsPeer
{
	char		host[LR_HOST_MAX];
	int			port;
	char		name[LR_HOST_MAX];
	uint32		context;		/* by which it was verified */
} TlsPeer;

/* A record that the kernel has taken. */
typedef struct TlsRecord
{
	uint64		ends_at;		/* bytes on the wire up to its end */
	size_t		len;			/* of what is in it */
} TlsRecord;

#define TLS_RECORDS			16

/* All zero: in the clear. */
typedef struct RedisTls
{
	struct ssl_st *ssl;			/* NULL: in the clear */
	RedisSocket *socket;
	bool		shaken;			/* our side of the handshake is complete */
	bool		cert_wanted;	/* the node has asked for ours */
	bool		briefly;		/* the next read of the socket may wait */
	int			nreads;			/* of the socket, in this call */
	bool		more;			/* there may be more than the socket tells */
	bool		wants_write;	/* before anything can be read */
	bool		wants_read;		/* before anything can be written */

	/* How it ended. */
	bool		ended;			/* by the socket, in the last call; */
	int			socket_error;	/* its errno, 0: by the node, as one does */
	unsigned long error;		/* OpenSSL's */
	unsigned char first_byte;	/* that was received; 0 = none */

	/* What is on its way. */
	size_t		half_sent;		/* what is in a record that the kernel has not
								 * taken whole; 0 = none */
	uint64		on_wire;		/* bytes that the kernel has taken */
	TlsRecord	records[TLS_RECORDS];	/* the last ones, in a ring */
	uint64		nrecords;

	/* For the next time; stays when the connection is closed. */
	struct ssl_session_st *session;
	TlsPeer		session_peer;
	TlsPeer		peer;
} RedisTls;

typedef enum TlsResult
{
	TLS_UNDER_WAY,
	TLS_DONE,
	TLS_FAILED					/* the failure says why */
} TlsResult;

/* On a connected socket, which stays the caller's; false: it has failed. */
extern bool redis_tls_start(RedisTls *t, const RedisTarget *target,
							RedisSocket *s, RedisFailure *f);

/* Go as far as is possible now. */
extern TlsResult redis_tls_shake_hands(RedisTls *t, RedisFailure *f);

/* End it, before the socket is closed; sends nothing. */
extern void redis_tls_close(RedisTls *t);
extern void redis_tls_free(RedisTls *t);

static inline bool
redis_tls_is_on(const RedisTls *t)
{
	return t->ssl != NULL;
}

/*
 * As those of the socket.  EPROTO: it has failed for another reason than the
 * socket's, redis_tls_explain() knows which.
 */
extern ssize_t redis_tls_recv(RedisTls *t, char *buf, size_t len, bool briefly);
extern ssize_t redis_tls_send(RedisTls *t, const char *buf, size_t len);
extern size_t redis_tls_unread(const RedisTls *t);

/* For what the socket has to be watched; "writing": something is to be sent. */
extern uint32 redis_tls_events(const RedisTls *t, bool writing);

/*
 * When the first of the node's certificate and ours expires, after the handshake.  Of a
 * session that goes on it is the certificate that was shown at its beginning.
 */
extern TimestampTz redis_tls_expires(const RedisTls *t);

/* Why it has failed. */
extern void redis_tls_explain(const RedisTls *t, RedisFailure *f);

/* ----------
 * wire: The bytes of a connection: by TLS if that is on, else the socket's.
 * ----------
 */

/* "briefly": it may wait for a short time, if the socket can. */
static inline ssize_t
redis_wire_recv(RedisSocket *s, RedisTls *t, char *buf, size_t len, bool briefly)
{
	if (redis_tls_is_on(t))
		return redis_tls_recv(t, buf, len, briefly);
	return briefly ? redis_socket_recv_soon(s, buf, len) :
		redis_socket_recv(s, buf, len);
}

static inline ssize_t
redis_wire_send(RedisSocket *s, RedisTls *t, const char *buf, size_t len)
{
	return redis_tls_is_on(t) ? redis_tls_send(t, buf, len) :
		redis_socket_send(s, buf, len);
}

/* So many bytes of what was sent has the peer surely not read. */
static inline size_t
redis_wire_unread(const RedisSocket *s, const RedisTls *t)
{
	return redis_tls_is_on(t) ? redis_tls_unread(t) : redis_socket_unread(s);
}

/* For what the socket is to be watched; "writing": something is to be sent. */
static inline uint32
redis_wire_events(const RedisTls *t, bool writing)
{
	if (redis_tls_is_on(t))
		return redis_tls_events(t, writing);
	return writing ? WL_SOCKET_READABLE | WL_SOCKET_WRITEABLE :
		WL_SOCKET_READABLE;
}

/* ----------
 * connect.c: From a target to a connected socket: its addresses, one after the other.
 *
 * A machine that never waits, part of that of conn.h.
 * ----------
 */

typedef struct RedisConnect
{
	int64		opened_at;
	int64		until;			/* be connected, and greeted */
	NodeAddresses addresses;	/* none: not known yet */
	int			next_address;
	int64		address_until;	/* for the one that is tried: there is a socket */
	int64		pause_until;	/* what to do when there is none */
} RedisConnect;

typedef enum ConnectResult
{
	CONNECT_UNDER_WAY,
	CONNECT_DONE,
	CONNECT_FAILED				/* the failure says why */
} ConnectResult;

/* Start, to be ready before "until" and within connect_timeout. */
extern void redis_connect_start(RedisConnect *d, int64 until);

/* Go as far as is possible now. */
extern ConnectResult redis_connect_step(RedisConnect *d, const RedisTarget *t,
										RedisSocket *s, RedisFailure *f);

/* When to look at it even if nothing happens to the socket. */
extern int64 redis_connect_next(const RedisConnect *d, const RedisSocket *s);

/*
 * No sign of life up to the end: what to tell, and everybody else too if all of
 * connect_timeout has passed.
 */
extern void redis_connect_timed_out(const RedisConnect *d, const RedisTarget *t,
									RedisFailure *f, const char *detail);

/* ----------
 * handshake.c: What is said first on a connection: who we are; and what the node is.
 *
 * Part of the machine of conn.h.  All requests go out at once, and their replies
 * are taken one by one.
 * ----------
 */

/* Requests, in the order in which they are answered. */
typedef enum RedisGreeting
{
	GREET_HELLO,				/* with user, password and name; tells what the
								 * node is */
	GREET_AUTH,
	GREET_SELECT,
	GREET_NAME,
	GREET_TIME,
	GREET_INFO,
	GREET_ID					/* of a node of a cluster */
} RedisGreeting;

#define REDIS_MAX_GREETINGS 8

/* What the node says of itself. */
typedef struct RedisFacts
{
	char		version[32];
	char		policy[32];		/* maxmemory_policy */
	NodeRole	role;
	char		run_id[RUN_ID_LEN + 1]; /* empty: not told */
	int64		booted_by;		/* lr_now() at which it surely ran; 0 = not told */
	uint32		life;			/* one of several masters: that of its row then, */
	int64		since;			/* and since when it is there (masters.c) */
} RedisFacts;

typedef struct RedisHandshake
{
	RedisGreeting greetings[REDIS_MAX_GREETINGS];
	int			ngreetings;
	int			next;			/* is answered next */
	int64		sent_at;
	char		secret[LR_SECRET_MAX];	/* until AUTH is answered */

	/* What came of it. */
	RedisFacts	facts;			/* if it was asked to probe */
	int64		round_trip;
	int64		clock_offset;	/* see RedisConn */
} RedisHandshake;

typedef enum HandshakeResult
{
	HANDSHAKE_UNDER_WAY,
	HANDSHAKE_DONE,
	HANDSHAKE_FAILED			/* the failure says why */
} HandshakeResult;

/*
 * Put all requests.  "role" becomes part of the connection's name; with "probe"
 * the node is asked for its facts.  False: it has failed.
 */
extern bool redis_handshake_start(RedisHandshake *hs, const RedisTarget *t,
								  const char *role, bool probe, RespOut *out,
								  RedisFailure *f);

/* Take the next reply. */
extern HandshakeResult redis_handshake_take(RedisHandshake *hs,
											const RedisTarget *t,
											const RedisValue *v,
											RedisFailure *f);
extern void redis_handshake_forget_secret(RedisHandshake *hs);

/*
 * The reply of INFO: what is in it, the rest stays.  What it says of replicas, for
 * the table of nodes.
 */
extern void redis_facts_read(RedisFacts *facts, const char *info);
extern void redis_replicas_read(const char *info);

/* Can messages be told to its shard alone? */
extern bool redis_facts_have_shards(const RedisFacts *facts);

/* The node's clock minus lr_now(), when it was "us" at "read_at" or before. */
extern int64 redis_clock_offset(int64 us, int64 read_at);

/* ----------
 * conn.c: One connection to a Redis node, as a machine that never blocks.
 *
 * 		CLOSED --open--> CONNECTING --> [SECURING -->] HANDSHAKE --> READY
 *
 * Any state goes back to CLOSED, with the reason in "failure".  Who waits, and
 * how, is the caller's business: redis_conn_events() and redis_conn_until()
 * say for what.
 *
 * It is put together of target.c (where to), connect.c (how to get there),
 * tls.c (unless in the clear), handshake.c (what is said first), resp.h (the
 * protocol) and socket.c (the bytes), none of which knows the others' user.
 * ----------
 */

typedef enum RedisConnState
{
	CONN_CLOSED,
	CONN_CONNECTING,
	CONN_SECURING,				/* with TLS: its handshake */
	CONN_HANDSHAKE,
	CONN_READY
} RedisConnState;

typedef enum RedisRead
{
	REDIS_READ_NOTHING,
	REDIS_READ_SOME,
	REDIS_READ_FULL,			/* and there is probably more */
	REDIS_READ_LOST				/* closed; see failure */
} RedisRead;

typedef struct RedisConn
{
	RedisConnState state;
	const RedisTarget *target;	/* the user's, since redis_conn_open() */
	bool		probe;			/* tell node.c what the node says of itself */
	char		role[32];

	RedisSocket socket;
	RedisTls	tls;
	RedisConnect connect;
	RedisHandshake handshake;
	RespOut		out;
	RespIn		in;
	RedisFacts	facts;
	int64		clock_offset;	/* the node's clock minus lr_now(),
								 * microseconds, at least that much */
	bool		garbled;		/* closed because of what was received */
	RedisFailure failure;		/* why it was closed */
} RedisConn;

/*
 * So often it is read in one step, as more may come for as long as anybody reads: who
 * reads has other things to do, and looks at the time.
 */
#define REDIS_READS_MAX		8

/* Raises when out of memory; or is false then. */
extern bool redis_conn_make(RedisConn *c, const char *role, bool probe);
extern void redis_conn_init(RedisConn *c, const char *role, bool probe);
extern void redis_conn_free(RedisConn *c);

/*
 * Start connecting, to be ready before "until" and within connect_timeout.  The
 * target stays as it is until the connection is closed or opened again.
 */
extern void redis_conn_open(RedisConn *c, const RedisTarget *target,
							int64 until);
extern void redis_conn_advance(RedisConn *c);

/* Closes the socket; frees the set that watched it before. */
extern void redis_conn_close(RedisConn *c);
extern void redis_conn_fail(RedisConn *c, int sqlstate, const char *detail);

/* What to wait for, and until when at most. */
extern uint32 redis_conn_events(const RedisConn *c);
extern int64 redis_conn_until(const RedisConn *c);

/*
 * Both for StoreRoutine.interests: how many sockets it has; *until, when the caller has
 * something to do with it, becomes earlier if the connection has.
 */
extern int	redis_conn_interests(const RedisConn *c, StoreInterest *out, int64 *until);

/*
 * Is a kept connection still good?  Closes it when not.  "lately": it was good a
 * moment ago, so only what has been read already is looked at.
 */
extern bool redis_conn_check(RedisConn *c, bool lately);

/*
 * Is there another one by now in place of this one of several masters?  Then nothing is
 * to be asked over this connection, and nothing that it has answered counts.
 */
extern bool redis_conn_is_other(const RedisConn *c);

/* The same, and it is closed for that. */
extern bool redis_conn_close_other(RedisConn *c);

/* Send what the kernel takes; false if that closed it. */
extern bool redis_conn_flush(RedisConn *c);

/*
 * First receive, then take all replies, each of which is in c->in.values until
 * the next.  "briefly": it may wait for a short time, if the socket can.
 */
extern RedisRead redis_conn_receive(RedisConn *c, bool briefly);
extern bool redis_conn_reply(RedisConn *c);

/*
 * Is it to be read once more in this step?  What is left makes the next wait end at
 * once: by the socket, or see redis_conn_has_more().
 */
static inline bool
redis_conn_reads_on(RedisRead got, int *nreads)
{
	return got == REDIS_READ_FULL && ++*nreads < REDIS_READS_MAX;
}

/*
 * Has more been received than the socket tells?  Then it is to be read without
 * waiting for that.
 */
extern bool redis_conn_has_more(const RedisConn *c);

/* The reply of INFO: what the node says of itself, for node.c. */
extern void redis_conn_take_info(RedisConn *c, const char *info);

#endif							/* LR_CONN_H */
