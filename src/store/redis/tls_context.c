/*-------------------------------------------------------------------------
 *
 * tls_context.c
 *	  The OpenSSL context that all TLS connections of this process share.
 *
 * It is created for the first connection of a process, so never in the postmaster, and
 * again for the next connection when a setting or a file has changed.  Existing
 * connections keep the context that they were created with.
 *
 * Only this file uses lockredis.tls_ca_file, tls_cert_file and tls_key_file.  It checks
 * the files, and OpenSSL loads them.  Nothing in here raises or allocates in a memory
 * context, and nothing waits except for the file system.  No error message contains
 * anything of a file's content.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/tls_context.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/err.h>

#include "common/hashfn.h"

#include "settings.h"
#include "store/redis/conn.h"

/* No bundle of authorities is as large as this. */
#define TLS_FILE_MAX		(8 * 1024 * 1024)

/* A certificate in a directory of trusted ones, one file for each: 1a2b3c4d.0 */
#define HASHED_FILES		"%s/????????.[0-9]*"

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

static SSL_CTX *context = NULL;
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
	int64		facts[7] = {0};
	struct stat st;

	if (stat(path, &st) == 0)
	{
		facts[0] = st.st_dev;
		facts[1] = st.st_ino;
		facts[2] = st.st_size;
		facts[3] = st.st_mtim.tv_sec;
		facts[4] = st.st_mtim.tv_nsec;
		facts[5] = st.st_ctim.tv_sec;
		facts[6] = st.st_ctim.tv_nsec;
	}
	stamp = hash_bytes_extended((const unsigned char *) path, strlen(path), stamp);
	return hash_bytes_extended((const unsigned char *) facts, sizeof(facts), stamp);
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
 * system_stamp --- add the directories of certificates that the system trusts to a stamp
 *
 * There may be several, as in PATH.  Unless "hashed" is NULL, it becomes true if one of
 * them has a certificate; that takes longer, so it is not checked each time.
 */
static uint64
system_stamp(uint64 stamp, bool *hashed)
{
	const char *list = system_place(X509_get_default_cert_dir_env(),
									X509_get_default_cert_dir());

	while (*list != '\0')
	{
		size_t		len = strcspn(list, ":");
		char		path[MAXPGPATH];
		char		pattern[MAXPGPATH + sizeof(HASHED_FILES)];
		glob_t		files;

		strlcpy(path, list, Min(len + 1, sizeof(path)));
		list += list[len] != '\0' ? len + 1 : len;
		stamp = stamp_add(stamp, path);
		if (hashed == NULL)
			continue;
		snprintf(pattern, sizeof(pattern), HASHED_FILES, path);
		if (glob(pattern, GLOB_NOSORT, NULL, &files) == 0)
		{
			*hashed = true;
			globfree(&files);
		}
	}
	return stamp;
}

/*
 * files_stamp --- the stamp of all files that are read for a context
 */
static uint64
files_stamp(void)
{
	uint64		stamp = 0;

	if (is_set(&ca_file))
		stamp = stamp_add(stamp, lr_tls_ca_file);
	else
		stamp = system_stamp(stamp_add(stamp,
									   system_place(X509_get_default_cert_file_env(),
													X509_get_default_cert_file())),
							 NULL);
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
 * system_load --- trust the certificates that the system trusts
 *
 * In the directories OpenSSL only reads the certificates that it needs, when it needs
 * them.  The one file with all of them takes fifty milliseconds and a megabyte in each
 * process.  So it is only loaded if there are no such directories, or if the environment
 * names a file.
 */
static bool
system_load(SSL_CTX *ctx, RedisFailure *f)
{
	bool		hashed = false;

	(void) system_stamp(0, &hashed);
	if ((!hashed || SSL_CTX_set_default_verify_dir(ctx) == 1) &&
		((hashed && getenv(X509_get_default_cert_file_env()) == NULL) ||
		 SSL_CTX_set_default_verify_file(ctx) == 1))
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
 *
 * OpenSSL must not cache sessions: a connection keeps its own, with its peer (tls.c).
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
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_CLIENT |
								   SSL_SESS_CACHE_NO_INTERNAL);
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
 * tls_context_get --- see conn.h
 *
 * The stamp is computed first: if a file changes while it is read, it is read again the
 * next time.  Nothing is kept of files that could not be used.
 */
SSL_CTX *
tls_context_get(uint32 *number, RedisFailure *f)
{
	uint64		stamp = files_stamp();

	if (context == NULL || stamp != context_stamp)
	{
		ERR_clear_error();
		SSL_CTX_free(context);
		context = context_make(f);
		context_stamp = stamp;
		context_number++;
		ERR_clear_error();
	}
	*number = context_number;
	return context;
}

/*
 * tls_context_is_usable --- see conn.h
 */
bool
tls_context_is_usable(RedisFailure *f)
{
	static uint32 judged = 0;
	static bool usable = true;
	static RedisFailure why;

	if (judged != lr_tls_epoch)
	{
		uint32		number;

		usable = tls_context_get(&number, &why) != NULL;
		judged = lr_tls_epoch;
	}
	*f = why;
	return usable;
}
