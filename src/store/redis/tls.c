/*-------------------------------------------------------------------------
 *
 * tls.c
 *	  TLS between a connection and its socket.
 *
 * The node's certificate and its name are always verified.  Nothing in here raises or
 * allocates in a memory context (OpenSSL uses malloc; when out of memory, the connection
 * is lost), and nothing waits but a read that may.
 *
 * OpenSSL reads ahead: one read of the socket fetches all that is there, as without TLS,
 * and then returns it record by record.  So there may be more in its buffer although the
 * socket has nothing: "more" says so until a read has found nothing.
 *
 * The error queue belongs to the process, and PostgreSQL's own TLS uses it, too: it is
 * emptied before each call and after a failure.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/tls.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "utils/timestamp.h"

#include "settings.h"
#include "store/redis/conn.h"

/*
 * How often OpenSSL may read the socket in one call.  Data that is not the node's reply,
 * such as tickets and new keys, may come for as long as we read.  After that the call
 * behaves as if nothing more were there; the socket shows that there is.
 */
#define TLS_READS_MAX		64

/* ----------
 * The socket as OpenSSL sees it
 * ----------
 */

/*
 * tls_bio_read --- OpenSSL reads from our socket; after TLS_READS_MAX reads it has to
 * try later
 */
static int
tls_bio_read(BIO *bio, char *buf, int len)
{
	RedisTls   *t = BIO_get_data(bio);
	bool		briefly = t->briefly;
	ssize_t		n;

	t->briefly = false;
	BIO_clear_retry_flags(bio);
	if (t->nreads++ >= TLS_READS_MAX)
	{
		BIO_set_retry_read(bio);
		return -1;
	}
	n = briefly ? redis_socket_recv_soon(t->socket, buf, len) :
		redis_socket_recv(t->socket, buf, len);
	if (n > 0)
	{
		if (t->first_byte == 0)
			t->first_byte = (unsigned char) buf[0];
	}
	else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		BIO_set_retry_read(bio);
	else
	{
		t->ended = true;
		t->socket_error = n < 0 ? errno : 0;
	}
	return (int) n;
}

/*
 * tls_bio_write --- OpenSSL writes to our socket
 */
static int
tls_bio_write(BIO *bio, const char *buf, int len)
{
	RedisTls   *t = BIO_get_data(bio);
	ssize_t		n = redis_socket_send(t->socket, buf, len);

	BIO_clear_retry_flags(bio);
	if (n >= 0)
		t->on_wire += n;
	else if (errno == EAGAIN || errno == EWOULDBLOCK)
		BIO_set_retry_write(bio);
	else
	{
		t->ended = true;
		t->socket_error = errno;
	}
	return (int) n;
}

static long
tls_bio_ctrl(BIO *bio, int command, long number, void *pointer)
{
	/* Nothing is buffered here, so there is nothing to flush. */
	return command == BIO_CTRL_FLUSH ? 1 : 0;
}

/*
 * tls_bio_method --- created once per process; NULL when out of memory
 */
static BIO_METHOD *
tls_bio_method(void)
{
	static BIO_METHOD *method = NULL;

	if (method == NULL)
	{
		int			type = BIO_get_new_index();

		if (type == -1)
			return NULL;
		method = BIO_meth_new(type | BIO_TYPE_SOURCE_SINK, "lockredis socket");
		if (method == NULL)
			return NULL;
		(void) BIO_meth_set_read(method, tls_bio_read);
		(void) BIO_meth_set_write(method, tls_bio_write);
		(void) BIO_meth_set_ctrl(method, tls_bio_ctrl);
	}
	return method;
}

/* ----------
 * Sessions
 * ----------
 */

static void
tls_forget_session(RedisTls *t)
{
	SSL_SESSION_free(t->session);
	t->session = NULL;
}

/*
 * tls_new_session --- OpenSSL offers a session for the next connection; 1: we keep it
 */
static int
tls_new_session(SSL *ssl, SSL_SESSION *session)
{
	RedisTls   *t = SSL_get_app_data(ssl);

	tls_forget_session(t);
	t->session = session;
	t->session_peer = t->peer;
	return 1;
}

/*
 * tls_resume --- resume the session of the last connection, if that is allowed
 *
 * Its peer was verified then.  That is good for the same node with the same settings and
 * files, until its certificate expires; otherwise do a full handshake.
 */
static void
tls_resume(RedisTls *t)
{
	X509	   *cert;

	if (t->session == NULL)
		return;
	cert = SSL_SESSION_get0_peer(t->session);
	if (memcmp(&t->session_peer, &t->peer, sizeof(TlsPeer)) == 0 &&
		cert != NULL &&
		X509_cmp_current_time(X509_get0_notAfter(cert)) > 0)
		(void) SSL_set_session(t->ssl, t->session);
	else
		tls_forget_session(t);
}

/* ----------
 * Beginning and end
 * ----------
 */

/*
 * tls_cert_wanted --- the node requests our certificate
 */
static int
tls_cert_wanted(SSL *ssl, void *arg)
{
	((RedisTls *) arg)->cert_wanted = true;
	return 1;
}

/*
 * tls_expect_name --- set the name that the certificate must have; false when out of
 * memory
 *
 * A node with several certificates is told which one is meant (SNI), but only by a name,
 * not by an address.  The dot that may end a full name does not belong to it.
 */
static bool
tls_expect_name(RedisTls *t, const char *name)
{
	X509_VERIFY_PARAM *param = SSL_get0_param(t->ssl);
	char		plain[LR_HOST_MAX];
	size_t		len = strlcpy(plain, name, sizeof(plain));

	if (X509_VERIFY_PARAM_set1_ip_asc(param, name) == 1)
		return true;
	if (len > 1 && plain[len - 1] == '.')
		plain[len - 1] = '\0';
	X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	return X509_VERIFY_PARAM_set1_host(param, plain, 0) == 1 &&
		SSL_set_tlsext_host_name(t->ssl, plain) == 1;
}

/*
 * tls_set_up --- create the SSL object; false when out of memory
 */
static bool
tls_set_up(RedisTls *t, SSL_CTX *context)
{
	BIO_METHOD *method = tls_bio_method();
	BIO		   *bio = method != NULL ? BIO_new(method) : NULL;

	if (bio == NULL)
		return false;
	SSL_CTX_sess_set_new_cb(context, tls_new_session);
	t->ssl = SSL_new(context);
	if (t->ssl == NULL)
	{
		BIO_free(bio);
		return false;
	}
	BIO_set_data(bio, t);
	BIO_set_init(bio, 1);
	SSL_set_bio(t->ssl, bio, bio);
	SSL_set_connect_state(t->ssl);
	SSL_set_cert_cb(t->ssl, tls_cert_wanted, t);
	return SSL_set_app_data(t->ssl, t) == 1 &&
		tls_expect_name(t, t->peer.name);
}

/*
 * redis_tls_start --- see conn.h
 */
bool
redis_tls_start(RedisTls *t, const RedisTarget *target, RedisSocket *s,
				RedisFailure *f)
{
	SSL_CTX    *context;

	memset(&t->peer, 0, sizeof(t->peer));
	context = tls_context_get(&t->peer.context, f);
	if (context == NULL)
		return false;
	strlcpy(t->peer.host, target->url.host, sizeof(t->peer.host));
	t->peer.port = target->url.port;
	strlcpy(t->peer.name, target->tls_name[0] != '\0' ? target->tls_name :
			target->url.host, sizeof(t->peer.name));
	t->socket = s;
	ERR_clear_error();
	if (!tls_set_up(t, context))
	{
		ERR_clear_error();
		redis_failure_set(f, STORE_DOWN, ERRCODE_OUT_OF_MEMORY, NULL,
						  "Out of memory.");
		redis_tls_close(t);
		return false;
	}
	tls_resume(t);
	return true;
}

/*
 * redis_tls_close --- see conn.h
 *
 * If OpenSSL did not consider the connection shut down, it would not allow the session
 * to be resumed.
 */
void
redis_tls_close(RedisTls *t)
{
	SSL_SESSION *session = t->session;
	TlsPeer		session_peer = t->session_peer;

	if (t->ssl != NULL)
	{
		SSL_set_shutdown(t->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
		SSL_free(t->ssl);
		ERR_clear_error();
	}
	memset(t, 0, sizeof(RedisTls));
	t->session = session;
	t->session_peer = session_peer;
}

void
redis_tls_free(RedisTls *t)
{
	redis_tls_close(t);
	tls_forget_session(t);
}

/*
 * tls_failed --- an OpenSSL call has returned "result": set errno accordingly
 *
 * EAGAIN: nothing has failed. 0: the peer has closed the connection.
 */
static void
tls_failed(RedisTls *t, int result, bool *wants_read, bool *wants_write)
{
	int			what = SSL_get_error(t->ssl, result);
	unsigned long error = ERR_peek_error();

	ERR_clear_error();
	switch (what)
	{
		case SSL_ERROR_WANT_READ:
			*wants_read = true;
			errno = EAGAIN;
			return;
		case SSL_ERROR_WANT_WRITE:
			*wants_write = true;
			errno = EAGAIN;
			return;
		case SSL_ERROR_ZERO_RETURN:
			errno = 0;
			return;
		default:
			break;
	}
	if (t->ended)
	{
		errno = t->socket_error;
		return;
	}
	t->error = error != 0 ? error : ERR_PACK(ERR_LIB_SSL, 0, ERR_R_INTERNAL_ERROR);
	errno = EPROTO;
}

/*
 * redis_tls_shake_hands --- see conn.h
 */
StepResult
redis_tls_shake_hands(RedisTls *t, RedisFailure *f)
{
	int			result;

	ERR_clear_error();
	t->wants_read = t->wants_write = t->ended = false;
	t->nreads = 0;
	result = SSL_do_handshake(t->ssl);
	if (result == 1)
	{
		t->shaken = true;
		t->more = SSL_has_pending(t->ssl);
		return STEP_DONE;
	}
	tls_failed(t, result, &t->wants_read, &t->wants_write);
	if (errno == EAGAIN)
		return STEP_UNDER_WAY;
	redis_tls_explain(t, f);
	tls_forget_session(t);
	return STEP_FAILED;
}

/* ----------
 * Bytes
 * ----------
 */

/*
 * redis_tls_recv --- see conn.h; reads one record at most
 */
ssize_t
redis_tls_recv(RedisTls *t, char *buf, size_t len, bool briefly)
{
	int			n;
	bool		reads;

	ERR_clear_error();
	t->briefly = briefly;
	t->more = t->wants_write = t->ended = false;
	t->nreads = 0;
	n = SSL_read(t->ssl, buf, (int) len);
	t->briefly = false;
	if (n > 0)
	{
		t->wants_read = false;
		t->more = SSL_has_pending(t->ssl);
		return n;
	}
	tls_failed(t, n, &reads, &t->wants_write);
	return errno == 0 ? 0 : -1;
}

/*
 * tls_note_record --- the kernel has accepted a record
 */
static void
tls_note_record(RedisTls *t, size_t len)
{
	TlsRecord  *record = &t->records[t->nrecords++ % TLS_RECORDS];

	record->ends_at = t->on_wire;
	record->len = len;
}

/*
 * redis_tls_send --- see conn.h; sends one record at most
 *
 * The node can read nothing of a record that the kernel has accepted only in part.  The
 * rest of such a record is sent in a call of its own.  Otherwise OpenSSL would continue
 * with the next record and, if that is accepted only in part, report for both that
 * nothing was sent, while the node answers the first.
 *
 * If the node has closed the connection, it may have sent the reason before.  So read
 * once more: a node that requires a certificate says so only now.
 */
ssize_t
redis_tls_send(RedisTls *t, const char *buf, size_t len)
{
	int			n;
	int			error;
	bool		writes;
	char		byte;

	ERR_clear_error();
	t->wants_read = t->ended = false;
	t->nreads = 0;
	len = t->half_sent > 0 ? t->half_sent : Min(len, SSL3_RT_MAX_PLAIN_LENGTH);
	n = SSL_write(t->ssl, buf, (int) len);
	if (n > 0)
	{
		t->half_sent = 0;
		tls_note_record(t, n);
		return n;
	}
	tls_failed(t, n, &t->wants_read, &writes);
	if (errno == EAGAIN)
		t->half_sent = len;
	if (errno == EAGAIN || errno == EPROTO)
		return -1;
	error = errno;
	if (redis_tls_recv(t, &byte, 1, false) < 0 && t->error != 0)
		return -1;
	errno = error != 0 ? error : EPIPE;
	return -1;
}

/*
 * redis_tls_unread --- like redis_socket_unread(), in plain text
 *
 * Counts the content of the last records that were not acknowledged up to their end.
 */
size_t
redis_tls_unread(const RedisTls *t)
{
	uint64		acknowledged = t->on_wire - redis_socket_unread(t->socket);
	size_t		unread = 0;

	for (uint64 i = t->nrecords; i > 0 && i + TLS_RECORDS > t->nrecords; i--)
	{
		const TlsRecord *record = &t->records[(i - 1) % TLS_RECORDS];

		if (record->ends_at <= acknowledged)
			break;
		unread += record->len;
	}
	return unread;
}

/*
 * certificate_expires --- when the certificate expires; DT_NOEND: unknown, or there is
 * none
 */
static TimestampTz
certificate_expires(const X509 *cert)
{
	struct tm	end;
	struct pg_tm pg_end = {0};
	int			zone = 0;
	TimestampTz expires;

	if (cert == NULL || ASN1_TIME_to_tm(X509_get0_notAfter(cert), &end) != 1)
		return DT_NOEND;
	pg_end.tm_year = end.tm_year + 1900;
	pg_end.tm_mon = end.tm_mon + 1;
	pg_end.tm_mday = end.tm_mday;
	pg_end.tm_hour = end.tm_hour;
	pg_end.tm_min = end.tm_min;
	pg_end.tm_sec = end.tm_sec;
	if (tm2timestamp(&pg_end, 0, &zone, &expires) != 0)
		return DT_NOEND;
	return expires;
}

/*
 * redis_tls_expires --- see conn.h
 */
TimestampTz
redis_tls_expires(const RedisTls *t)
{
	TimestampTz node = certificate_expires(SSL_SESSION_get0_peer(SSL_get_session(t->ssl)));
	TimestampTz ours = certificate_expires(SSL_get_certificate(t->ssl));

	return Min(node, ours);
}

/*
 * redis_tls_events --- see conn.h
 */
uint32
redis_tls_events(const RedisTls *t, bool writing)
{
	if (!t->shaken)
		return t->wants_write ? WL_SOCKET_WRITEABLE : WL_SOCKET_READABLE;
	return WL_SOCKET_READABLE |
		(t->wants_write || (writing && !t->wants_read) ? WL_SOCKET_WRITEABLE : 0);
}
