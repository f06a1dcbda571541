/*-------------------------------------------------------------------------
 *
 * tls_files.c
 *	  The files that the settings of TLS name: read, checked, given to OpenSSL.
 *
 * The only file that reads lockredis.tls_ca_file, tls_cert_file and
 * tls_key_file.  Nothing in here raises or allocates in a memory context, nor
 * waits but for the file system.  What is told of a file never has anything of
 * its content.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/tls_files.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include "common/hashfn.h"

#include "settings.h"
#include "store/redis/tls_files.h"

/* More than any bundle of authorities has. */
#define TLS_FILE_MAX		(8 * 1024 * 1024)

/* Between the directories of what the system trusts. */
#define SYSTEM_SEPARATOR	":"

typedef struct TlsFileKind
{
	const char *name;
	const char *hint;
	bool		is_secret;
} TlsFileKind;

static const TlsFileKind ca_file = {
	"CA file", gettext_noop("Check lockredis.tls_ca_file."), false
};
static const TlsFileKind cert_file = {
	"certificate file", gettext_noop("Check lockredis.tls_cert_file."), false
};
static const TlsFileKind key_file = {
	"key file", gettext_noop("Check lockredis.tls_key_file."), true
};

typedef struct TlsContent
{
	char	   *data;			/* malloc'ed */
	size_t		size;
	size_t		len;
} TlsContent;

static void
tls_no_memory(RedisFailure *f)
{
	redis_failure_set(f, STORE_DOWN, ERRCODE_OUT_OF_MEMORY, NULL,
					  "Out of memory.");
}

static void
file_failed(RedisFailure *f, const TlsFileKind *kind, const char *what)
{
	redis_failure_set(f, STORE_DOWN,
					  ERRCODE_STORE_UNREACHABLE,
					  kind->hint, "The %s %s", kind->name, what);
}

static void
file_failed_with(RedisFailure *f, const TlsFileKind *kind, const char *doing,
				 const char *why)
{
	redis_failure_set(f, STORE_DOWN,
					  ERRCODE_STORE_UNREACHABLE,
					  kind->hint, "Could not %s the %s: %s.", doing, kind->name,
					  why);
}

/* ----------
 * Reading
 * ----------
 */

/*
 * file_problem --- what is wrong with this file, or NULL
 *
 * The key's owner and rights are those that PostgreSQL asks of its own.
 */
static const char *
file_problem(const TlsFileKind *kind, const struct stat *st)
{
	if (!S_ISREG(st->st_mode))
		return "is not a regular file.";
	if (st->st_size > TLS_FILE_MAX)
		return "is too large.";
	if (!kind->is_secret)
		return NULL;
	if (st->st_uid != geteuid() && st->st_uid != 0)
		return "must belong to the user of the database server or to root.";
	if (st->st_mode & (st->st_uid == geteuid() ? S_IRWXG | S_IRWXO :
					   S_IWGRP | S_IXGRP | S_IRWXO))
		return "has group or world access; it should have permissions u=rw (0600) or less, or u=rw,g=r (0640) or less if it belongs to root.";
	return NULL;
}

/*
 * file_open --- the descriptor and its size; or -1: that has failed
 */
static int
file_open(const char *path, const TlsFileKind *kind, size_t *size,
		  RedisFailure *f)
{
	int			fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	const char *problem;

	if (fd < 0 || fstat(fd, &st) < 0)
		file_failed_with(f, kind, "open", strerror(errno));
	else if ((problem = file_problem(kind, &st)) != NULL)
		file_failed(f, kind, problem);
	else
	{
		*size = st.st_size;
		return fd;
	}
	if (fd >= 0)
		(void) close(fd);
	return -1;
}

/*
 * file_read_all --- "size" bytes at most; the length, or -1
 */
static ssize_t
file_read_all(int fd, char *buf, size_t size)
{
	size_t		len = 0;

	while (len < size)
	{
		ssize_t		n = read(fd, buf + len, size - len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		if (n == 0)
			break;
		len += n;
	}
	return len;
}

static void
file_wipe(TlsContent *content)
{
	if (content->data != NULL)
		explicit_bzero(content->data, content->size);
	free(content->data);
	content->data = NULL;
}

/*
 * file_read --- the content of the file, to be wiped; false: that has failed
 */
static bool
file_read(const char *path, const TlsFileKind *kind, TlsContent *content,
		  RedisFailure *f)
{
	int			fd = file_open(path, kind, &content->size, f);
	ssize_t		len;

	if (fd < 0)
		return false;
	content->data = malloc(content->size + 1);
	if (content->data == NULL)
	{
		tls_no_memory(f);
		(void) close(fd);
		return false;
	}
	len = file_read_all(fd, content->data, content->size);
	if (len < 0)
	{
		file_failed_with(f, kind, "read", strerror(errno));
		file_wipe(content);
	}
	else
		content->len = len;
	(void) close(fd);
	return len >= 0;
}

/* ----------
 * What OpenSSL makes of them
 * ----------
 */

/*
 * pem_at_end --- has all of the file been taken?  OpenSSL says so by an error.
 */
static bool
pem_at_end(void)
{
	unsigned long error = ERR_peek_last_error();

	return ERR_GET_LIB(error) == ERR_LIB_PEM &&
		ERR_GET_REASON(error) == PEM_R_NO_START_LINE;
}

/*
 * pem_passphrase --- nobody is there who could be asked
 */
static int
pem_passphrase(char *buf, int size, int writing, void *userdata)
{
	*(bool *) userdata = true;
	return -1;
}

/*
 * pem_open --- to be read by OpenSSL; NULL: it has failed
 */
static BIO *
pem_open(const TlsContent *content, RedisFailure *f)
{
	BIO		   *bio = BIO_new_mem_buf(content->data, (int) content->len);

	if (bio == NULL)
		tls_no_memory(f);
	return bio;
}

/*
 * ca_take --- each certificate of the file is one that is trusted
 */
static bool
ca_take(SSL_CTX *ctx, BIO *bio, RedisFailure *f)
{
	X509_STORE *store = SSL_CTX_get_cert_store(ctx);
	int			taken = 0;
	bool		locked = false;
	X509	   *cert;

	while ((cert = PEM_read_bio_X509_AUX(bio, NULL, pem_passphrase, &locked)) != NULL)
	{
		bool		good = X509_STORE_add_cert(store, cert) == 1;

		X509_free(cert);
		if (!good)
		{
			tls_no_memory(f);
			return false;
		}
		taken++;
	}
	if (taken > 0 && pem_at_end())
		return true;
	file_failed(f, &ca_file, "has no certificate, or one that cannot be read.");
	return false;
}

/*
 * cert_take --- our certificate, and those behind it
 */
static bool
cert_take(SSL_CTX *ctx, BIO *bio, RedisFailure *f)
{
	bool		locked = false;
	X509	   *cert = PEM_read_bio_X509_AUX(bio, NULL, pem_passphrase, &locked);
	bool		good = cert != NULL && SSL_CTX_use_certificate(ctx, cert) == 1;

	X509_free(cert);
	while (good && (cert = PEM_read_bio_X509(bio, NULL, pem_passphrase, &locked)) != NULL)
	{
		if (SSL_CTX_add0_chain_cert(ctx, cert) == 1)
			continue;
		X509_free(cert);
		good = false;
	}
	if (good && pem_at_end())
		return true;
	file_failed(f, &cert_file,
				"has no certificate, or one that cannot be used.");
	return false;
}

/*
 * key_take --- the key of the certificate, which the context has
 */
static bool
key_take(SSL_CTX *ctx, BIO *bio, RedisFailure *f)
{
	bool		locked = false;
	EVP_PKEY   *key = PEM_read_bio_PrivateKey(bio, NULL, pem_passphrase, &locked);
	bool		good = key != NULL;
	bool		fits = good && SSL_CTX_use_PrivateKey(ctx, key) == 1 &&
		SSL_CTX_check_private_key(ctx) == 1;

	EVP_PKEY_free(key);
	if (locked)
		file_failed(f, &key_file, "asks for a passphrase, which nobody can be asked for.");
	else if (!good)
		file_failed(f, &key_file, "has no private key that can be read.");
	else if (!fits)
		file_failed(f, &key_file, "has the key of another certificate.");
	return fits;
}

typedef bool (*TlsTake) (SSL_CTX *ctx, BIO *bio, RedisFailure *f);

/*
 * file_take --- read a file and give it to OpenSSL
 */
static bool
file_take(SSL_CTX *ctx, const char *path, const TlsFileKind *kind, TlsTake take,
		  RedisFailure *f)
{
	TlsContent	content;
	BIO		   *bio;
	bool		good = false;

	if (!file_read(path, kind, &content, f))
		return false;
	bio = pem_open(&content, f);
	if (bio != NULL)
		good = take(ctx, bio, f);
	BIO_free(bio);
	file_wipe(&content);
	ERR_clear_error();
	return good;
}

/* ----------
 * What the system trusts
 * ----------
 */

/*
 * is_hashed --- does the name end as those in a directory of OpenSSL's: 1a2b3c4d.0
 */
static bool
is_hashed(const char *name)
{
	return strlen(name) > 9 && strspn(name, "0123456789abcdef") == 8 &&
		name[8] == '.' && isdigit((unsigned char) name[9]);
}

/*
 * system_directories --- where what the system trusts is, one file each
 *
 * Several, as in a PATH.
 */
static const char *
system_directories(void)
{
	const char *directories = getenv(X509_get_default_cert_dir_env());

	return directories != NULL ? directories : X509_get_default_cert_dir();
}

/*
 * system_file --- where all of it is in one
 */
static const char *
system_file(void)
{
	const char *file = getenv(X509_get_default_cert_file_env());

	return file != NULL ? file : X509_get_default_cert_file();
}

/*
 * next_directory --- of such a list, which is moved on; false: there is none
 *
 * One whose name is too long cannot be opened anyway.
 */
static bool
next_directory(const char **list, char *out, size_t size)
{
	size_t		len = strcspn(*list, SYSTEM_SEPARATOR);

	if (**list == '\0')
		return false;
	strlcpy(out, *list, Min(len + 1, size));
	*list += len;
	if (**list != '\0')
		(*list)++;
	return true;
}

static bool
directory_has_hashes(const char *path)
{
	DIR		   *directory = opendir(path);
	struct dirent *entry;
	bool		found = false;

	if (directory == NULL)
		return false;
	while (!found && (entry = readdir(directory)) != NULL)
		found = is_hashed(entry->d_name);
	(void) closedir(directory);
	return found;
}

static bool
system_has_hashes(void)
{
	const char *list = system_directories();
	char		path[MAXPGPATH];
	bool		found = false;

	while (!found && next_directory(&list, path, sizeof(path)))
		found = directory_has_hashes(path);
	return found;
}

/*
 * system_take --- what the system trusts
 *
 * Of the directories only what is asked for is read, when it is; the file with all
 * of them takes fifty milliseconds and a megabyte in each process.  So that is read
 * if there are no such directories, or if somebody has said which one.
 */
static bool
system_take(SSL_CTX *ctx, RedisFailure *f)
{
	bool		hashed = system_has_hashes();
	bool		whole = !hashed || getenv(X509_get_default_cert_file_env()) != NULL;

	if ((!hashed || SSL_CTX_set_default_verify_dir(ctx) == 1) &&
		(!whole || SSL_CTX_set_default_verify_file(ctx) == 1))
		return true;
	tls_no_memory(f);
	return false;
}

/* ----------
 * All of them
 * ----------
 */

static bool
is_set(const char *setting)
{
	return setting != NULL && setting[0] != '\0';
}

bool
tls_files_load(SSL_CTX *ctx, RedisFailure *f)
{
	bool		has_cert = is_set(lr_tls_cert_file);

	if (is_set(lr_tls_ca_file) ?
		!file_take(ctx, lr_tls_ca_file, &ca_file, ca_take, f) :
		!system_take(ctx, f))
		return false;
	if (has_cert != is_set(lr_tls_key_file))
	{
		redis_failure_set(f, STORE_DOWN,
						  ERRCODE_STORE_UNREACHABLE,
						  gettext_noop("Set both of lockredis.tls_cert_file and lockredis.tls_key_file, or none."),
						  "There is a %s without a %s.",
						  has_cert ? cert_file.name : key_file.name,
						  has_cert ? key_file.name : cert_file.name);
		return false;
	}
	return !has_cert ||
		(file_take(ctx, lr_tls_cert_file, &cert_file, cert_take, f) &&
		 file_take(ctx, lr_tls_key_file, &key_file, key_take, f));
}

/*
 * stamp_take_file --- what can be known of a file without reading it
 */
static void
stamp_take_file(TlsFileStamp *stamp, const char *path)
{
	struct stat st;

	stamp->path = hash_bytes_extended((const unsigned char *) path,
									  strlen(path), 0);
	if (path[0] == '\0' || stat(path, &st) < 0)
		return;
	stamp->device = st.st_dev;
	stamp->inode = st.st_ino;
	stamp->size = st.st_size;
	stamp->modified = st.st_mtim.tv_sec * INT64CONST(1000000000) +
		st.st_mtim.tv_nsec;
	stamp->changed = st.st_ctim.tv_sec * INT64CONST(1000000000) +
		st.st_ctim.tv_nsec;
}

/*
 * stamp_take_directories --- one stamp for all of them, which all of it changes
 */
static void
stamp_take_directories(TlsFileStamp *stamp, const char *list)
{
	char		path[MAXPGPATH];

	while (next_directory(&list, path, sizeof(path)))
	{
		TlsFileStamp one = {0};

		stamp_take_file(&one, path);
		stamp->path = hash_bytes_extended((const unsigned char *) &one,
										  sizeof(one), stamp->path);
	}
}

void
tls_stamp_take(TlsStamp *stamp)
{
	memset(stamp, 0, sizeof(TlsStamp));
	if (is_set(lr_tls_ca_file))
		stamp_take_file(&stamp->ca, lr_tls_ca_file);
	else
	{
		stamp_take_file(&stamp->ca, system_file());
		stamp_take_directories(&stamp->system, system_directories());
	}
	stamp_take_file(&stamp->cert, is_set(lr_tls_cert_file) ? lr_tls_cert_file : "");
	stamp_take_file(&stamp->key, is_set(lr_tls_key_file) ? lr_tls_key_file : "");
}
