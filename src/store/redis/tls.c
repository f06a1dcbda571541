/*-------------------------------------------------------------------------
 *
 * tls.c
 *	  TLS between a connection and its socket.
 *
 * The node's certificate and its name are always verified.  Nothing in here raises or
 * allocates in a memory context (OpenSSL uses malloc; when out of memory, the connection
 * is lost), and nothing waits but a read that may, and the file system.
 *
 * All connections of a process share a context.  It is created for the first of them, so
 * never in the postmaster, and again for the next connection when a setting or a file
 * has changed.  Existing connections keep the context that they were created with.  Only
 * this file uses lockredis.tls_ca_file, tls_cert_file and tls_key_file.  It checks the
 * files, and OpenSSL loads them.
 *
 * OpenSSL reads ahead: one read of the socket fetches all that is there, as without TLS,
 * and then returns it record by record.  So there may be more in its buffer although the
 * socket has nothing: "more" says so until a read has found nothing.
 *
 * The error queue belongs to the process, and PostgreSQL's own TLS uses it, too: it is
 * emptied before each call and after a failure.  No message contains anything of a
 * file's content, and none of OpenSSL's own texts a name, an address or anything of a
 * certificate.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/tls.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "common/hashfn.h"
#include "utils/timestamp.h"

#include "settings.h"
#include "store/redis/conn.h"

/* No bundle of authorities is as large as this. */
#define TLS_FILE_MAX		(8 * 1024 * 1024)

/* A certificate in a directory of trusted ones, one file for each: 1a2b3c4d.0 */
#define HASHED_FILES		"%s/????????.[0-9]*"

/* The first byte of each record is its content type. */
#define TLS_FIRST_TYPE		0x14
#define TLS_LAST_TYPE		0x18

/*
 * How often OpenSSL may read the socket in one call.  Data that is not the node's reply,
 * such as tickets and new keys, may come for as long as we read.  After that the call
 * behaves as if nothing more were there; the socket shows that there is.
 */
#define TLS_READS_MAX		64

typedef struct TlsFile
{
	char	  **setting;
	const char *name;
	const char *hint;
} TlsFile;

static const TlsFile ca_file = {
	&lr_tls_ca_file, "CA file", gettext_noop("Check lockredis.tls_ca_file.")
};
static const TlsFile cert_file = {
	&lr_tls_cert_file, "certificate file", gettext_noop("Check lockredis.tls_cert_file.")
};
static const TlsFile key_file = {
	&lr_tls_key_file, "key file", gettext_noop("Check lockredis.tls_key_file.")
};

static SSL_CTX *shared_context = NULL;
static uint64 context_stamp;
static uint32 context_number = 0;

/* OpenSSL has needed a passphrase since this was set to false. */
static bool passphrase_wanted;

/*
 * no_passphrase --- the callback; without one, OpenSSL would ask at the terminal
 */
static int
no_passphrase(char *buf, int size, int writing, void *userdata)
{
	passphrase_wanted = true;
	return -1;
}

static bool
is_set(const TlsFile *file)
{
	return *file->setting != NULL && **file->setting != '\0';
}

/* ----------
 * Stamps: which files there are, and when they were changed
 * ----------
 */

/*
 * stamp_add --- add everything that can be known of a file without reading it
 */
static uint64
stamp_add(uint64 stamp, const char *path)
{
	struct stat st;

	memset(&st, 0, sizeof(st));
	if (stat(path, &st) == 0)
		memset(&st.st_atim, 0, sizeof(st.st_atim));
	stamp = hash_bytes_extended((const unsigned char *) path, strlen(path), stamp);
	return hash_bytes_extended((const unsigned char *) &st, sizeof(st), stamp);
}

/*
 * system_place --- where the system keeps trusted certificates; the environment may say
 * where
 */
static const char *
system_place(const char *variable, const char *otherwise)
{
	const char *place = getenv(variable);

	return place != NULL ? place : otherwise;
}

/*
 * stamp_add_list --- the same of several directories, with ":" between them
 */
static uint64
stamp_add_list(uint64 stamp, const char *list)
{
	while (*list != '\0')
	{
		size_t		len = strcspn(list, ":");
		char		path[MAXPGPATH];

		strlcpy(path, list, Min(len + 1, sizeof(path)));
		stamp = stamp_add(stamp, path);
		list += list[len] != '\0' ? len + 1 : len;
	}
	return stamp;
}

/*
 * files_stamp --- the stamp of all files that are read for a context
 *
 * In a directory of trusted certificates OpenSSL looks whenever it needs another one; what it has
 * found there it keeps.
 */
static uint64
files_stamp(void)
{
	uint64		stamp = 0;

	if (is_set(&ca_file))
		stamp = stamp_add(stamp, lr_tls_ca_file);
	else
	{
		stamp = stamp_add(stamp, system_place(X509_get_default_cert_file_env(),
											  X509_get_default_cert_file()));
		stamp = stamp_add_list(stamp, system_place(X509_get_default_cert_dir_env(),
												   X509_get_default_cert_dir()));
	}
	stamp = stamp_add(stamp, is_set(&cert_file) ? lr_tls_cert_file : "");
	return stamp_add(stamp, is_set(&key_file) ? lr_tls_key_file : "");
}

/* ----------
 * Files
 * ----------
 */

static bool
file_failed(RedisFailure *f, const TlsFile *file, const char *what)
{
	redis_failure_set(f, STORE_DOWN, ERRCODE_STORE_UNREACHABLE, file->hint,
					  "The %s %s", file->name, what);
	return false;
}

/*
 * file_check --- may this file be given to OpenSSL?
 *
 * For the owner and the permissions of the key, the rules are those of PostgreSQL's own
 * key file.
 */
static bool
file_check(const TlsFile *file, RedisFailure *f)
{
	struct stat st;

	if (stat(*file->setting, &st) < 0 || access(*file->setting, R_OK) < 0)
	{
		redis_failure_set(f, STORE_DOWN, ERRCODE_STORE_UNREACHABLE, file->hint,
						  "Could not open the %s: %s.", file->name, strerror(errno));
		return false;
	}
	if (!S_ISREG(st.st_mode))
		return file_failed(f, file, "is not a regular file.");
	if (st.st_size > TLS_FILE_MAX)
		return file_failed(f, file, "is too large.");
	if (file != &key_file)
		return true;
	if (st.st_uid != geteuid() && st.st_uid != 0)
		return file_failed(f, file, "must belong to the user of the database server or to root.");
	if (st.st_mode & (st.st_uid == geteuid() ? S_IRWXG | S_IRWXO :
					  S_IWGRP | S_IXGRP | S_IRWXO))
		return file_failed(f, file, "has group or world access; it should have permissions u=rw (0600) or less, or u=rw,g=r (0640) or less if it belongs to root.");
	return true;
}

/*
 * system_has_directory --- does the system have its trusted certificates in a directory, by their
 * hashes?  Without being asked for another place.
 */
static bool
system_has_directory(void)
{
	char		pattern[MAXPGPATH];
	glob_t		files;

	snprintf(pattern, sizeof(pattern), HASHED_FILES, X509_get_default_cert_dir());
	if (glob(pattern, GLOB_NOSORT, NULL, &files) != 0)
		return false;
	globfree(&files);
	return true;
}

/*
 * system_load --- trust the certificates that the system trusts
 *
 * In a directory OpenSSL only reads the certificates that it needs, when it needs them.  The one
 * file with all of them takes fifty milliseconds and a megabyte in each process.  So it is only
 * loaded if the environment names it, or if there is no directory.
 */
static bool
system_load(SSL_CTX *ctx, RedisFailure *f)
{
	bool		one_file = getenv(X509_get_default_cert_file_env()) != NULL ||
		(getenv(X509_get_default_cert_dir_env()) == NULL && !system_has_directory());

	if (SSL_CTX_set_default_verify_dir(ctx) == 1 &&
		(!one_file || SSL_CTX_set_default_verify_file(ctx) == 1))
		return true;
	redis_failure_set(f, STORE_DOWN, ERRCODE_OUT_OF_MEMORY, NULL, "Out of memory.");
	return false;
}

/*
 * ca_load --- trust each certificate in the CA file
 */
static bool
ca_load(SSL_CTX *ctx, RedisFailure *f)
{
	X509_LOOKUP *lookup = X509_STORE_add_lookup(SSL_CTX_get_cert_store(ctx),
												X509_LOOKUP_file());

	if (!file_check(&ca_file, f))
		return false;
	if (lookup == NULL ||
		X509_load_cert_file(lookup, lr_tls_ca_file, X509_FILETYPE_PEM) <= 0)
		return file_failed(f, &ca_file, "has no certificate, or one that cannot be read.");
	return true;
}

/*
 * own_load --- load our certificate, those that signed it, and its key
 */
static bool
own_load(SSL_CTX *ctx, RedisFailure *f)
{
	if (!file_check(&cert_file, f) || !file_check(&key_file, f))
		return false;
	if (SSL_CTX_use_certificate_chain_file(ctx, lr_tls_cert_file) != 1)
		return file_failed(f, &cert_file, "has no certificate, or one that cannot be used.");
	passphrase_wanted = false;
	ERR_clear_error();
	if (SSL_CTX_use_PrivateKey_file(ctx, lr_tls_key_file, SSL_FILETYPE_PEM) == 1 &&
		SSL_CTX_check_private_key(ctx) == 1)
		return true;
	if (passphrase_wanted)
		return file_failed(f, &key_file, "asks for a passphrase, which nobody can be asked for.");
	if (SSL_CTX_get0_privatekey(ctx) != NULL ||
		ERR_GET_LIB(ERR_peek_last_error()) == ERR_LIB_X509)
		return file_failed(f, &key_file, "has the key of another certificate.");
	return file_failed(f, &key_file, "has no private key that can be read.");
}

/*
 * files_load --- load all files into the context
 */
static bool
files_load(SSL_CTX *ctx, RedisFailure *f)
{
	bool		has_cert = is_set(&cert_file);

	if (is_set(&ca_file) ? !ca_load(ctx, f) : !system_load(ctx, f))
		return false;
	if (has_cert == is_set(&key_file))
		return !has_cert || own_load(ctx, f);
	redis_failure_set(f, STORE_DOWN, ERRCODE_STORE_UNREACHABLE,
					  gettext_noop("Set both of lockredis.tls_cert_file and lockredis.tls_key_file, or none."),
					  "There is a %s without a %s.",
					  has_cert ? cert_file.name : key_file.name,
					  has_cert ? key_file.name : cert_file.name);
	return false;
}

/* ----------
 * The context
 * ----------
 */

/*
 * context_configure --- settings that do not depend on the files; false when out of
 * memory
 */
static bool
context_configure(SSL_CTX *ctx)
{
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
	SSL_CTX_set_default_passwd_cb(ctx, no_passphrase);
	SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE |
					 SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
					 SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_options(ctx, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
	SSL_CTX_set_read_ahead(ctx, 1);
	return SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) == 1;
}

static SSL_CTX *
context_make(RedisFailure *f)
{
	SSL_CTX    *ctx = SSL_CTX_new(TLS_client_method());

	if (ctx == NULL || !context_configure(ctx))
		redis_failure_set(f, STORE_DOWN, ERRCODE_OUT_OF_MEMORY, NULL,
						  "OpenSSL could not be set up.");
	else if (files_load(ctx, f))
		return ctx;
	SSL_CTX_free(ctx);
	return NULL;
}

/*
 * context_get --- the context for new connections; NULL: it could not be made
 *
 * The stamp is computed first: if a file changes while it is read, it is read again the
 * next time.  Nothing is kept of files that could not be used.
 */
static SSL_CTX *
context_get(RedisFailure *f)
{
	uint64		stamp = files_stamp();

	if (shared_context == NULL || stamp != context_stamp)
	{
		ERR_clear_error();
		SSL_CTX_free(shared_context);
		shared_context = context_make(f);
		context_stamp = stamp;
		context_number++;
		ERR_clear_error();
	}
	return shared_context;
}

/*
 * tls_context_is_usable --- see conn.h
 */
bool
tls_context_is_usable(RedisFailure *f)
{
	static uint64 judged = 0;
	static bool usable = true;
	static RedisFailure why;

	if (judged != lr_way().tls_files)
	{
		usable = context_get(&why) != NULL;
		judged = lr_way().tls_files;
	}
	*f = why;
	return usable;
}

/* ----------
 * Why a connection has failed, as text
 * ----------
 */
/*
 * certificate_hint --- what to do about a certificate that was not accepted
 */
static const char *
certificate_hint(long verdict)
{
	switch (verdict)
	{
		case X509_V_ERR_CERT_HAS_EXPIRED:
			return gettext_noop("The node needs a new certificate, or the clock of this server is wrong.");
		case X509_V_ERR_CERT_NOT_YET_VALID:
			return gettext_noop("The clock of this server may be wrong, or that where the certificate was made.");
		case X509_V_ERR_HOSTNAME_MISMATCH:
		case X509_V_ERR_IP_ADDRESS_MISMATCH:
			return gettext_noop("The certificate has to name the host in lockredis.url or, if set, lockredis.tls_server_name.");
		case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
		case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
		case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
		case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
		case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
		case X509_V_ERR_CERT_SIGNATURE_FAILURE:
			return gettext_noop("Set lockredis.tls_ca_file to the certificate of the authority that has signed the node's.");
	}
	return NULL;
}

/*
 * alert_of --- the alert that the node has sent, or a number that is not an alert
 */
static int
alert_of(unsigned long error)
{
	return ERR_GET_LIB(error) == ERR_LIB_SSL ?
		ERR_GET_REASON(error) - SSL_AD_REASON_OFFSET : -1;
}

/*
 * is_about_our_certificate --- an alert of TLS 1.2 or 1.3; servers differ a lot
 *
 * Alerts about certificates have consecutive numbers, with one other among them.
 */
static bool
is_about_our_certificate(int alert)
{
	return alert == SSL_AD_CERTIFICATE_REQUIRED ||
		(alert >= SSL_AD_HANDSHAKE_FAILURE && alert <= SSL_AD_ACCESS_DENIED &&
		 alert != SSL_AD_ILLEGAL_PARAMETER);
}

static bool
is_about_versions(unsigned long error)
{
	int			reason = ERR_GET_REASON(error);

	return alert_of(error) == SSL_AD_PROTOCOL_VERSION ||
		(ERR_GET_LIB(error) == ERR_LIB_SSL &&
		 (reason == SSL_R_UNSUPPORTED_PROTOCOL ||
		  reason == SSL_R_VERSION_TOO_LOW));
}

/*
 * not_tls --- the peer does not speak TLS: what it may be, and a hint
 */
static const char *
not_tls(unsigned char first_byte, const char **hint)
{
	if (first_byte == 'H' || first_byte == '<')
		return "The node's answer is not TLS: it seems to be an HTTP server";
	*hint = gettext_noop("Write redis:// in lockredis.url, or the port where the node expects TLS.");
	return strchr("-+:$*", first_byte) != NULL ?
		"The node does not expect TLS on this port: it answers in Redis's protocol" :
		"The node's answer is not TLS";
}

/*
 * socket_ended --- the peer has ended the connection: message, reason and hint
 */
static const char *
socket_ended(const RedisTls *t, const char **words, const char **hint)
{
	if (t->first_byte == 0)
		*hint = gettext_noop("The port in lockredis.url may be one without TLS, or no Redis server's.");
	*words = t->socket_error != 0 ? strerror(t->socket_error) : "";
	return t->socket_error != 0 ? "The connection to the node was lost during the TLS handshake" :
		"The node closed the connection during the TLS handshake";
}

/*
 * our_certificate_refused --- why the node has refused our certificate, and a hint
 */
static const char *
our_certificate_refused(const RedisTls *t, const char **hint)
{
	if (SSL_get_certificate(t->ssl) == NULL)
	{
		*hint = gettext_noop("Set lockredis.tls_cert_file and lockredis.tls_key_file.");
		return "The node asks for a certificate of this server, and none is set";
	}
	*hint = gettext_noop("Check lockredis.tls_cert_file, and which authority the node trusts.");
	return "The node did not accept the certificate of this server";
}

/*
 * redis_tls_explain --- see conn.h
 */
void
redis_tls_explain(const RedisTls *t, RedisFailure *f)
{
	const char *words = ERR_reason_error_string(t->error);
	const char *hint = NULL;
	const char *what;
	int			sqlstate = ERRCODE_STORE_UNREACHABLE;
	long		verdict = t->shaken ? X509_V_OK : SSL_get_verify_result(t->ssl);

	if (words == NULL)
		words = "unknown error";
	if (verdict != X509_V_OK)
	{
		what = "The certificate of the node was not accepted";
		words = X509_verify_cert_error_string(verdict);
		hint = certificate_hint(verdict);
	}
	else if (t->error == 0)
		what = socket_ended(t, &words, &hint);
	else if (t->first_byte != 0 &&
			 (t->first_byte < TLS_FIRST_TYPE || t->first_byte > TLS_LAST_TYPE))
	{
		what = not_tls(t->first_byte, &hint);
		words = "";
	}
	else if (t->cert_wanted && is_about_our_certificate(alert_of(t->error)))
		what = our_certificate_refused(t, &hint);
	else if (is_about_versions(t->error))
	{
		what = "The node and this server have no version of TLS in common";
		hint = gettext_noop("TLS 1.2 or later is needed.");
	}
	else if (t->shaken)
	{
		what = "The TLS connection has failed";
		sqlstate = ERRCODE_STORE_FAILED;
	}
	else
		what = "The TLS handshake has failed";
	redis_failure_set(f, STORE_DOWN, sqlstate, hint, "%s%s%s.", what,
					  words[0] != '\0' ? ": " : "", words);
}

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
	n = redis_socket_recv(t->socket, buf, len, briefly);
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
 * tls_keep_session --- keep the session of a connection that ends, for the next one
 *
 * If OpenSSL did not consider the connection shut down, it would not allow the session to
 * be resumed.
 */
static void
tls_keep_session(RedisTls *t)
{
	SSL_SESSION *session = SSL_get1_session(t->ssl);

	tls_forget_session(t);
	if (t->shaken && SSL_SESSION_is_resumable(session))
		t->session = session;
	else
		SSL_SESSION_free(session);
	t->session_peer = t->peer;
	SSL_set_shutdown(t->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
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
	return tls_expect_name(t, t->peer.name);
}

/*
 * redis_tls_start --- see conn.h
 */
bool
redis_tls_start(RedisTls *t, const RedisTarget *target, RedisFailure *f)
{
	SSL_CTX    *context = context_get(f);

	memset(&t->peer, 0, sizeof(t->peer));
	if (context == NULL)
		return false;
	t->peer.context = context_number;
	strlcpy(t->peer.host, target->url.at.host, sizeof(t->peer.host));
	t->peer.port = target->url.at.port;
	strlcpy(t->peer.name, target->tls_name[0] != '\0' ? target->tls_name :
			target->url.at.host, sizeof(t->peer.name));
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

void
redis_tls_close(RedisTls *t)
{
	RedisTls	kept = {.socket = t->socket};

	if (t->ssl != NULL)
	{
		tls_keep_session(t);
		SSL_free(t->ssl);
		ERR_clear_error();
	}
	kept.session = t->session;
	kept.session_peer = t->session_peer;
	*t = kept;
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
	return STEP_FAILED;
}

/* ----------
 * Bytes
 * ----------
 */

/*
 * redis_wire_recv --- see conn.h; reads one record at most
 */
ssize_t
redis_wire_recv(RedisTls *t, char *buf, size_t len, bool briefly)
{
	int			n;
	bool		reads;

	if (t->ssl == NULL)
		return redis_socket_recv(t->socket, buf, len, briefly);
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
 * redis_wire_send --- see conn.h; sends one record at most
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
redis_wire_send(RedisTls *t, const char *buf, size_t len)
{
	int			n;
	int			error;
	bool		writes;
	char		byte;

	if (t->ssl == NULL)
		return redis_socket_send(t->socket, buf, len);
	ERR_clear_error();
	t->wants_read = t->ended = false;
	t->nreads = 0;
	len = t->half_sent > 0 ? t->half_sent : Min(len, SSL3_RT_MAX_PLAIN_LENGTH);
	n = SSL_write(t->ssl, buf, (int) len);
	if (n > 0)
	{
		t->half_sent = 0;
		t->last_ends_at = t->on_wire;
		t->last_len = n;
		return n;
	}
	tls_failed(t, n, &t->wants_read, &writes);
	if (errno == EAGAIN)
		t->half_sent = len;
	if (errno == EAGAIN || errno == EPROTO)
		return -1;
	error = errno;
	if (redis_wire_recv(t, &byte, 1, false) < 0 && t->error != 0)
		return -1;
	errno = error != 0 ? error : EPIPE;
	return -1;
}

/*
 * redis_wire_unread --- see conn.h
 *
 * With TLS this is the content of the last record, unless it was acknowledged up to its end.
 */
size_t
redis_wire_unread(const RedisTls *t)
{
	size_t		unread = redis_socket_unread(t->socket);

	if (t->ssl == NULL)
		return unread;
	return t->last_ends_at > t->on_wire - unread ? t->last_len : 0;
}

/*
 * certificate_expires --- when the certificate expires; DT_NOEND: unknown, or there is
 * none
 */
static TimestampTz
certificate_expires(const X509 *cert)
{
	struct tm	end;

	if (cert == NULL || ASN1_TIME_to_tm(X509_get0_notAfter(cert), &end) != 1)
		return DT_NOEND;
	return time_t_to_timestamptz(timegm(&end));
}

/*
 * redis_tls_expires --- see conn.h
 */
TimestampTz
redis_tls_expires(const RedisTls *t)
{
	TimestampTz node;
	TimestampTz ours;

	if (t->ssl == NULL)
		return 0;
	node = certificate_expires(SSL_SESSION_get0_peer(SSL_get_session(t->ssl)));
	ours = certificate_expires(SSL_get_certificate(t->ssl));
	return Min(node, ours);
}

/*
 * redis_wire_events --- see conn.h; without TLS nothing else is wanted
 */
uint32
redis_wire_events(const RedisTls *t, bool writing)
{
	if (t->ssl != NULL && !t->shaken)
		return t->wants_write ? WL_SOCKET_WRITEABLE : WL_SOCKET_READABLE;
	return WL_SOCKET_READABLE |
		(t->wants_write || (writing && !t->wants_read) ? WL_SOCKET_WRITEABLE : 0);
}
