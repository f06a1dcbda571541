/*-------------------------------------------------------------------------
 *
 * conn.h
 *	  One connection to one Redis node: its target, its socket, TLS, and the handshake.
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

#include "settings.h"
#include "store/nodes.h"
#include "store/redis/resp.h"
#include "store/redis/url.h"
#include "store/store.h"

/* ----------
 * target.c: What a connection is opened to: the address of a Redis node, and the
 * credentials.
 *
 * Whoever opens a connection makes a target from the present settings and passes it
 * down, so that the files below read neither lockredis.url nor the password settings.
 * It is the node that the settings name, the master that the Sentinels have named, or
 * one of the Sentinels, of the independent masters, or of the nodes of a cluster.
 *
 * A target is a copy: a reload replaces the settings as a whole, and must not change a
 * connection that is just being made.
 * ----------
 */

/* It has no row in the table of nodes. */
#define NODE_NONE			(-1)

typedef enum TargetKind
{
	TARGET_NODE,				/* the node that the URL names */
	TARGET_MASTER,				/* the master that the Sentinels name */
	TARGET_CLAIMANT,			/* another node, which is asked whether it is a master */
	TARGET_SHARD,				/* a master of a cluster */
	TARGET_VOTER,				/* one of the independent masters */
	TARGET_SEED,				/* a node of a cluster, which is asked for its map */
	TARGET_SENTINEL
} TargetKind;

/* May a connection be made to a target? */
typedef enum TargetAnswer
{
	TARGET_OPEN,
	TARGET_NOT_YET,				/* try again soon */
	TARGET_CLOSED				/* the text says why */
} TargetAnswer;

typedef struct RedisTarget
{
	TargetKind	kind;
	bool		scout;			/* master: the watchdog's connection that judges it;
								 * see nodes.c */
	uint32		topology;		/* master: its epoch in nodes.c; shard:
								 * generation of its row in nodes.c */
	NodeId		node;			/* its row in the table of nodes; NODE_NONE: it
								 * is not a node of this server any more, see
								 * redis_target_leave */
	LrWay		way;			/* of the settings it was made from */
	uint32		place;			/* their lr_place */
	char		id[CLUSTER_ID_LEN + 1]; /* shard: id of the node in the cluster */
	RedisUrl	url;			/* address, database, user */

	/* With TLS: the name that the certificate must have, if not url.at.host. */
	char		tls_name[LR_HOST_MAX];

	/*
	 * File with the password; empty: the password is in the URL.  A path too long for
	 * this buffer is too long for open() as well.
	 */
	char		password_file[PATH_MAX + 1];
} RedisTarget;

/* The node that serves this row, by the present settings and the present topology. */
extern void redis_target_set(RedisTarget *t, NodeId node);

/*
 * A node at this address that is only asked a question: TARGET_SEED, one that the settings
 * name, or a master; or TARGET_CLAIMANT.
 */
extern void redis_target_set_asked(RedisTarget *t, TargetKind kind, const RedisHost *at);

/* One of the Sentinels that the settings name. */
extern void redis_target_set_sentinel(RedisTarget *t, int number);

/*
 * Have the settings changed since, or does another node have its role now?  Always false
 * after redis_target_leave().  New TLS files that cannot be used do not make existing
 * connections outdated.
 */
extern bool redis_target_is_outdated(const RedisTarget *t);

/* May a connection be made now? */
extern TargetAnswer redis_target_look(const RedisTarget *t, char *why, size_t size);

/* May an existing one be used, that is, is this surely enough the master? */
extern bool redis_target_is_trusted(const RedisTarget *t, int64 now);

/*
 * Keep the existing connection whatever the settings say now, but do not record what the
 * node answers, or fails to answer, for any row of the table of nodes.
 */
extern void redis_target_leave(RedisTarget *t);

/* The address for the server log and pg_monitor, without user and password. */
extern void redis_target_show(const RedisTarget *t, char *out, size_t size);

/*
 * Has a Redis server answered the watchdog there, with these settings?  If so, a failure
 * is no sign of wrong settings.
 */
extern bool redis_target_has_answered(const RedisTarget *t);

/* Have its host name, if it has one, resolved again; see addresses_want(). */
extern void redis_target_want_addresses(const RedisTarget *t, bool anyway);

/* The watchdog has connected to it. */
extern void redis_target_confirm(const RedisTarget *t);

/* The watchdog's connection has ended, or could not be made. */
extern void redis_target_lost(const RedisTarget *t);

/* It refuses writes, or has said that it is not a master. */
extern void redis_target_is_no_master(const RedisTarget *t);

/* It has not answered within a time limit, or it has answered again. */
extern void redis_target_set_silent(const RedisTarget *t, bool silent);

/* ----------
 * node_errors.c: What a node's error replies mean, and why a connection has ended.
 * ----------
 */

/* Size of a buffer for the text of an error reply. */
#define REDIS_WORDS_MAX		192

/* Why there is no connection. */
typedef struct RedisFailure
{
	StoreOutcome outcome;		/* for an operation that was not sent: DOWN,
								 * REFUSED or DENIED */
	StoreError	error;			/* its address is that of the target */
} RedisFailure;

/* What a step towards a connection has come to. */
typedef enum StepResult
{
	STEP_UNDER_WAY,
	STEP_DONE,
	STEP_FAILED					/* *f says why */
} StepResult;

/*
 * Set everything but the address; returns STEP_FAILED.  "hint" is static text or NULL.
 */
extern StepResult redis_failure_set(RedisFailure *f, StoreOutcome outcome,
									int sqlstate, const char *hint,
									const char *format,...) pg_attribute_printf(5, 6);

/*
 * Returns what an error reply means, and its text, fit to be shown.  "user" is the name
 * that we are connected as, which is removed from the text.
 */
extern StoreOutcome redis_error_words(const redisReply *value, const char *user,
									  char *out, size_t size);

/* Replace all bytes but printable ASCII characters. */
extern void redis_words_clean(char *words);

/* Does the text begin with this code? */
extern bool redis_words_begin(const char *words, const char *code);

/* A hint if the text shows that this is not a single Redis; else NULL. */
extern const char *redis_words_hint(const char *words);

/* Would the node answer this to every request? */
extern bool redis_words_concern_all(const char *words);

/* The hint that a right is missing. */
extern const char *const redis_rights_hint;

/* ----------
 * socket.c: The socket of a connection.
 *
 * Only this file reads from and writes to the socket, so that TLS can be put on top of
 * it.
 * ----------
 */

typedef struct RedisSocket
{
	pgsocket	fd;
	uint32		epoch;			/* a new number with each opening and closing, never
								 * that of another socket of this process */
	bool		can_wait;		/* recv() has a time limit */
	volatile bool shut;			/* see redis_socket_shut */
} RedisSocket;

extern void redis_socket_init(RedisSocket *s);

/* Create a non-blocking socket; 0, or the errno.  Counted by fd.c. */
extern int	redis_socket_open(RedisSocket *s, int family);
extern void redis_socket_close(RedisSocket *s);

/*
 * End the connection but keep the socket, which then looks as if the peer had closed it.
 * For signal handlers.
 */
extern void redis_socket_shut(RedisSocket *s);

/* From now on redis_socket_recv() may wait briefly, if the kernel allows that. */
extern void redis_socket_block_briefly(RedisSocket *s);

/*
 * Like recv(2) and send(2), but they never block and never fail with EINTR.  "briefly": may
 * wait for a short time, if the kernel supports that; a signal ends the wait.
 */
extern ssize_t redis_socket_recv(RedisSocket *s, char *buf, size_t len, bool briefly);
extern ssize_t redis_socket_send(RedisSocket *s, const char *buf, size_t len);

/*
 * How many bytes sent have not been acknowledged by the peer; 0 if that is not known.
 */
extern size_t redis_socket_unread(const RedisSocket *s);

/* ----------
 * tls.c: TLS between a connection and its socket.
 *
 * OpenSSL reads and writes through a BIO of ours that only calls socket.c, so the ways
 * of waiting for a socket are the same as without TLS.
 * ----------
 */

/* The peer of a session, which may be resumed only with the same one. */
typedef struct TlsPeer
{
	char		host[LR_HOST_MAX];
	int			port;
	char		name[LR_HOST_MAX];
	uint32		context;		/* number of the context that verified it */
} TlsPeer;

/* The bytes of a connection: over TLS if that is on, else over the socket. */
typedef struct RedisTls
{
	RedisSocket *socket;
	struct ssl_st *ssl;			/* NULL: no TLS, and all that follows is zero */
	bool		shaken;			/* our side of the handshake is complete */
	bool		cert_wanted;	/* the node has asked for our certificate */
	bool		briefly;		/* the next read of the socket may wait */
	int			nreads;			/* reads of the socket in this call */
	bool		more;			/* more data may be buffered, although the
								 * socket has none */
	bool		wants_write;	/* before anything can be read */
	bool		wants_read;		/* before anything can be written */

	/* How the connection ended. */
	bool		ended;			/* the socket failed or ended in the last call */
	int			socket_error;	/* its errno; 0: the peer has closed it */
	unsigned long error;		/* OpenSSL's error */
	unsigned char first_byte;	/* first byte received; 0 = none */

	/* Data that has been sent. */
	size_t		half_sent;		/* plain text in the record that the kernel has
								 * accepted only in part; 0 = none */
	uint64		on_wire;		/* bytes that the kernel has accepted */
	uint64		last_ends_at;	/* of these, up to the end of the last record */
	size_t		last_len;		/* plain text in that record */

	/* For the next connection; kept when this one is closed. */
	struct ssl_session_st *session;
	TlsPeer		session_peer;
	TlsPeer		peer;
} RedisTls;

/*
 * Could the files be used when the settings were last changed?  They are read only once
 * for each change.
 */
extern bool tls_context_is_usable(RedisFailure *f);

/* Begin TLS on the socket, which is connected; false: failed. */
extern bool redis_tls_start(RedisTls *t, const RedisTarget *target, RedisFailure *f);

/* Continue the handshake as far as is possible without waiting. */
extern StepResult redis_tls_shake_hands(RedisTls *t, RedisFailure *f);

/* End TLS before the socket is closed; sends nothing. */
extern void redis_tls_close(RedisTls *t);
extern void redis_tls_free(RedisTls *t);

/*
 * Like the functions of the socket.  EPROTO: TLS itself has failed, and
 * redis_tls_explain() says why.
 */
extern ssize_t redis_wire_recv(RedisTls *t, char *buf, size_t len, bool briefly);
extern ssize_t redis_wire_send(RedisTls *t, const char *buf, size_t len);

/* How many of the bytes sent the peer certainly has not read; with TLS at most of one record. */
extern size_t redis_wire_unread(const RedisTls *t);

/* Events to wait for; "writing": there is something to send. */
extern uint32 redis_wire_events(const RedisTls *t, bool writing);

/*
 * After the handshake: when the first of the node's certificate and ours expires; 0: there
 * is no TLS.  In a resumed session, the node's is the one shown when the session began.
 */
extern TimestampTz redis_tls_expires(const RedisTls *t);

/* Set *f to the reason of the failure. */
extern void redis_tls_explain(const RedisTls *t, RedisFailure *f);

/* From a target to a connected socket, by trying its addresses in turn. */
typedef struct RedisConnect
{
	int64		opened_at;
	int64		until;			/* limit for connecting and the handshake */
	NodeAddresses addresses;	/* none: not resolved yet */
	int			next_address;
	int64		address_until;	/* limit for this address, while there is a socket */
	int64		pause_until;	/* when to go on, while there is none */
} RedisConnect;

/* ----------
 * handshake.c: The handshake of a connection: says who we are, and asks what the node
 * is.
 *
 * A part of the state machine of conn.h.  All requests go out at once; the replies are
 * taken one by one.
 * ----------
 */

/* Requests of the handshake. */
typedef enum RedisGreeting
{
	GREET_HELLO,				/* with user, password and name; the reply says
								 * what the node is */
	GREET_AUTH,
	GREET_SELECT,
	GREET_NAME,
	GREET_TIME,
	GREET_INFO,
	GREET_ID					/* which node of a cluster it is */
} RedisGreeting;

#define REDIS_MAX_GREETINGS 8

/* What the node says about itself. */
typedef struct RedisFacts
{
	NodeFacts	shown;			/* in redis_lock_status */
	char		run_id[RUN_ID_LEN + 1]; /* empty: not known */
	int64		booted_by;		/* latest time at which it can have started, by
								 * lr_now(); 0 = not known */
	uint32		life;			/* independent master: life of its row when it
								 * connected */
	int64		since;			/* and since when this server is there (nodes.c) */
} RedisFacts;

typedef struct RedisHandshake
{
	RedisGreeting greetings[REDIS_MAX_GREETINGS];
	int			ngreetings;
	int			next;			/* index of the one that is answered next */
	int64		sent_at;
	char		secret[LR_SECRET_MAX];	/* kept until it has been sent and answered */

	/* The result. */
	RedisFacts	facts;			/* if INFO was requested */
	int64		round_trip;
	int64		clock_offset;	/* see RedisConn */
} RedisHandshake;


/* ----------
 * conn.c: One connection to a Redis node, as a state machine that never blocks.
 *
 * 		CLOSED --open--> CONNECTING --> [SECURING -->] HANDSHAKE --> READY
 *
 * From every state it can go back to CLOSED, with the reason in "failure".  The caller
 * waits, for what redis_conn_events() and redis_conn_until() say.
 *
 * It consists of target.c (where to connect), tls.c, handshake.c, resp.h (the protocol)
 * and socket.c (the bytes), none of which calls conn.c.
 * ----------
 */

typedef enum RedisConnState
{
	CONN_CLOSED,
	CONN_CONNECTING,
	CONN_SECURING,				/* the TLS handshake */
	CONN_HANDSHAKE,
	CONN_READY
} RedisConnState;

typedef enum RedisRead
{
	REDIS_READ_NOTHING,
	REDIS_READ_SOME,
	REDIS_READ_FULL,			/* and there is probably more */
	REDIS_READ_LOST				/* closed; "failure" says why */
} RedisRead;

typedef struct RedisConn
{
	RedisConnState state;
	const RedisTarget *target;	/* the caller's, since redis_conn_open() */
	bool		probe;			/* record in nodes.c what the node says about itself */
	char		role[32];

	RedisSocket socket;
	RedisTls	tls;
	RedisConnect connect;
	RedisHandshake handshake;
	RespOut		out;
	RespIn		in;
	RedisFacts	facts;
	int64		clock_offset;	/* the node's clock minus lr_now() (us); the
								 * true difference is at least that */
	bool		garbled;		/* closed because what came was not valid */
	RedisFailure failure;		/* why it was closed */
} RedisConn;

/*
 * The handshake: encode all requests; false: failed.  The role becomes a part of the
 * connection's name; with "probe" the node is asked for its facts.
 */
extern bool redis_handshake_start(RedisConn *c);

/* Take the next reply. */
extern StepResult redis_handshake_take(RedisConn *c);
extern void redis_handshake_forget_secret(RedisHandshake *hs);

/*
 * Read a reply to INFO: update the facts that it contains; store what the only node says
 * about its replicas in the table of nodes.
 */
extern void redis_facts_read(RedisFacts *facts, const RedisTarget *t, const char *info);

/* Does the node send messages to its shard only (SPUBLISH)? */
extern bool redis_conn_has_shards(const RedisConn *c);

/* The node's clock minus lr_now(), if it showed "us" at "read_at" or before. */
extern int64 redis_clock_offset(int64 us, int64 read_at);

/*
 * How many reads one step does at most.  More data may come for as long as the caller
 * reads, and it has other things to do and time limits to check.
 */
#define REDIS_READS_MAX		8

/* redis_conn_make() returns false when out of memory, redis_conn_init() raises. */
extern bool redis_conn_make(RedisConn *c, const char *role, bool probe);
extern void redis_conn_init(RedisConn *c, const char *role, bool probe);
extern void redis_conn_free(RedisConn *c);

/*
 * Start connecting; it must be ready before "until" and within connect_timeout.  The
 * target must not change until the connection is closed or opened again.
 */
extern void redis_conn_open(RedisConn *c, const RedisTarget *target,
							int64 until);
extern void redis_conn_advance(RedisConn *c);

/* End the connection; redis_conn_fail: for a reason, which is kept for messages. */
extern void redis_conn_close(RedisConn *c);
extern void redis_conn_fail(RedisConn *c, int sqlstate,
							const char *format,...) pg_attribute_printf(3, 4);

/* Likewise, because the reply that was read last is an error. */
extern void redis_conn_refused(RedisConn *c);

/* Events to wait for, and until when at most. */
extern uint32 redis_conn_events(const RedisConn *c);
extern int64 redis_conn_until(const RedisConn *c);

/* Both for StoreRoutine.interests. */
extern void redis_conn_interests(const RedisConn *c, StoreInterests *in);

/*
 * Is an idle connection still good?  Closes it if not.  "lately": it was good a moment
 * ago, so only what has been received already is checked.
 */
extern bool redis_conn_check(RedisConn *c, bool lately);

/*
 * Independent masters: has another server been found in the row of this one since?  Then
 * the connection must not be used for requests, and none of its answers counts.
 */
extern bool redis_conn_is_other(const RedisConn *c);

/* The same; closes the connection if so. */
extern bool redis_conn_close_other(RedisConn *c);

/*
 * Send what the kernel accepts.  False: the connection was closed over it, or because there was
 * no memory for the request.
 */
extern bool redis_conn_flush(RedisConn *c);

/*
 * Receive; and take a reply that is complete, which is in c->in.reply until the next one.
 * "briefly": may wait for a short time, if the socket supports that.
 */
extern RedisRead redis_conn_receive(RedisConn *c, bool briefly);
extern bool redis_conn_reply(RedisConn *c);

/*
 * Take the next reply, and receive if none is complete, as often as one step may; false:
 * there is no reply now, or the connection was closed.  *nreads is 0 at first.
 */
extern bool redis_conn_next(RedisConn *c, int *nreads);

/*
 * Should this step read once more?  Data left behind makes the next wait end at once: it
 * is in the socket, or redis_conn_has_more() is true.
 */
static inline bool
redis_conn_reads_on(RedisRead got, int *nreads)
{
	return got == REDIS_READ_FULL && ++*nreads < REDIS_READS_MAX;
}

/*
 * Is more data buffered than the socket shows?  Then it has to be read without waiting
 * for the socket.
 */
extern bool redis_conn_has_more(const RedisConn *c);

/* Record the reply to INFO, in the facts and in nodes.c. */
extern void redis_conn_take_info(RedisConn *c, const char *info);

/* ----------
 * poller.c: A connection by which the watchdog asks a node again and again, or listens to it.
 * ----------
 */

typedef struct RedisPoller RedisPoller;

/* Who asks, and what.  All may close the connection. */
typedef struct PollerRoutine
{
	const char *role;			/* of the connection */
	int64		connect_max;	/* limit for connecting; 0: connect_timeout alone */
	bool		pings;			/* PING when nothing was heard for a while */

	/* Set the target; or false, and "next_try".  NULL: the target is set. */
	bool		(*aim) (RedisPoller *p);

	/* The connection is ready; a reply has come (conn.in.reply). */
	void		(*ready) (RedisPoller *p);
	void		(*take) (RedisPoller *p);

	/* Put the requests that are due, which are then sent. */
	void		(*talk) (RedisPoller *p);

	/* It was closed, or could not be made: set "next_try". */
	void		(*lost) (RedisPoller *p, bool was_ready);
} PollerRoutine;

struct RedisPoller
{
	const PollerRoutine *routine;
	void	   *owner;			/* for the routine */
	RedisTarget target;
	RedisConn	conn;
	bool		wanted;			/* there is a reason to connect */
	int64		next_try;
	int64		retry_delay;	/* see redis_poller_back_off; 0 = the least */
	int64		heard_at;
	int64		answer_until;	/* a reply must come before that; 0 = none is awaited */
	bool		pinged;			/* the first reply to come is that to a PING, as far as
								 * requests are concerned */
};

/* Raises when out of memory.  Connects when stepped, if wanted. */
extern void redis_poller_init(RedisPoller *p, const PollerRoutine *routine, void *owner);

/* Do all that can be done without waiting. */
extern void redis_poller_step(RedisPoller *p);
extern void redis_poller_interests(const RedisPoller *p, StoreInterests *in);

/* A reply has to come within command_timeout, unless one is awaited already. */
extern void redis_poller_expect(RedisPoller *p);

/* Close it, because the last reply was not one to what was asked. */
extern void redis_poller_no_sense(RedisPoller *p);

/* Connect again after 0.1 to 1 s, longer with each call. */
extern void redis_poller_back_off(RedisPoller *p);

/* ----------
 * listener.c: The listener of the store interface; StoreRoutine describes its functions.
 * ----------
 */

extern StoreListener *redis_listener_open(StoreEventCallback callback);
extern void redis_listener_subscribe(StoreListener *l, const TopicKey *key);
extern bool redis_listener_sweep(StoreListener *l, StoreUnused unused);
extern void redis_listener_step(StoreListener *l);
extern void redis_listener_interests(StoreListener *l, StoreInterests *in);
extern void redis_listener_close(StoreListener *l);

#endif							/* LR_CONN_H */
