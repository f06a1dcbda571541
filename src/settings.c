/*-------------------------------------------------------------------------
 *
 * settings.c
 *	  The lockredis.* settings: definitions, checks, parsed forms.
 *
 * Check hooks run in the postmaster, in every backend at a reload, and outside
 * transactions: they must not access catalogs or shared memory, nor raise errors.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/settings.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "access/parallel.h"
#include "common/hashfn.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/guc.h"

#include "settings.h"

static const struct config_enum_entry mode_options[] = {
	{"redis", MODE_REDIS, false},
	{"table", MODE_TABLE, false},
	{"fallback", MODE_FALLBACK, false},
	{NULL, 0, false}
};

static const struct config_enum_entry commit_guard_options[] = {
	{"lease", GUARD_LEASE, false},
	{"verify", GUARD_VERIFY, false},
	{"off", GUARD_OFF, false},
	{NULL, 0, false}
};

static const struct config_enum_entry on_lost_options[] = {
	{"mark", ON_LOST_MARK, false},
	{"cancel", ON_LOST_CANCEL, false},
	{"terminate", ON_LOST_TERMINATE, false},
	{NULL, 0, false}
};

static const struct config_enum_entry release_wait_options[] = {
	{"answered", RELEASE_WAIT_ANSWERED, false},
	{"sent", RELEASE_WAIT_SENT, false},
	{NULL, 0, false}
};

int			lr_mode = MODE_REDIS;
int			lr_max_locks = 10000;
int			lr_fallback_after = 10000;
int			lr_max_handoffs = 32;
char	   *lr_database = NULL;
bool		lr_table_synchronous_commit = false;
char	   *lr_url = NULL;
char	   *lr_password_file = NULL;
char	   *lr_sentinel_user = NULL;
char	   *lr_sentinel_password_file = NULL;
char	   *lr_tls_ca_file = NULL;
char	   *lr_tls_cert_file = NULL;
char	   *lr_tls_key_file = NULL;
char	   *lr_tls_server_name = NULL;
int			lr_connect_timeout = 2000;
int			lr_command_timeout = 3000;
int			lr_idle_timeout = 300000;
char	   *lr_key_prefix = NULL;
int			lr_lease = 30000;
int			lr_max_lease = 60000;
int			lr_wait_lease = 30000;
bool		lr_session_locks = true;
int			lr_commit_guard = GUARD_LEASE;
int			lr_on_lost = ON_LOST_MARK;
int			lr_release_wait = RELEASE_WAIT_ANSWERED;
int			lr_min_replicas = 0;
int			lr_replica_timeout = 1000;
const RedisUrl *lr_redis_url = NULL;
int			lr_nmasters = 0;
uint32		lr_place = 0;

bool		lr_in_alter_system = false;

/*
 * warn_of_password --- warn that a password in a setting ends up in the server log
 *
 * Warn once where it is set (ALTER SYSTEM) or first read (the postmaster), not in every
 * session that reloads.
 */
static void
warn_of_password(const char *newval)
{
	if (IsUnderPostmaster && !lr_in_alter_system)
		return;
	if (lr_url != NULL && strcmp(lr_url, newval) == 0)
		return;
	ereport(WARNING,
			(errcode(ERRCODE_WARNING),
			 errmsg("\"%s\" contains a password", "lockredis.url"),
			 errdetail("The server writes changed settings to its log."),
			 errhint("Set \"%s\" instead.", "lockredis.password_file")));
}

/*
 * url_fits_mode --- can fallback mode, if that is the mode, use these URLs?
 */
static bool
url_fits_mode(const RedisUrl *urls, int n)
{
	const char *why = NULL;

	if (lr_mode == MODE_FALLBACK && redis_url_is_cluster(&urls[0]))
		why = "A Redis Cluster is not offered in mode fallback: one node of it can be away while the others serve.";
	else if (lr_mode == MODE_FALLBACK && n > 1)
		why = "Independent masters are not offered in mode fallback: some of them can be away while the others serve.";
	if (why == NULL)
		return true;
	GUC_check_errmsg("invalid value for parameter \"%s\"", "lockredis.url");
	GUC_check_errdetail("%s", why);
	return false;
}

/*
 * check_url --- check hook: is it a URL, or several, that the mode can use?
 */
static bool
check_url(char **newval, void **extra, GucSource source)
{
	RedisUrl	urls[LR_MAX_MASTERS];
	RedisUrlError error;
	int			n;

	if (!redis_url_parse(*newval, urls, &n, &error))
	{
		/* The usual message would repeat the value, and a password in it. */
		GUC_check_errmsg("invalid value for parameter \"%s\"", "lockredis.url");
		GUC_check_errdetail("%s", error.detail);
		GUC_check_errhint("Write it as \"redis://user@host:port/db\", \"unix:///path?db=n\", \"redis-sentinel://user@host:port,.../service\" or \"redis-cluster://user@host:port,...\"; with TLS \"rediss\" in place of \"redis\".");
		return false;
	}
	if (!url_fits_mode(urls, n))
		return false;
	for (int i = 0; i < n && source > PGC_S_DEFAULT; i++)
		if (urls[i].password[0] != '\0')
		{
			warn_of_password(*newval);
			break;
		}
	return true;
}

/*
 * place_of --- see lr_place in settings.h; 0 is reserved, so the result is odd
 */
static uint32
place_of(const RedisUrl *urls, int n)
{
	uint32		place = 0;

	for (int i = 0; i < n; i++)
	{
		RedisUrl	copy = urls[i];

		memset(copy.password, 0, sizeof(copy.password));
		place = hash_combine(place, hash_bytes((const unsigned char *) &copy, sizeof(copy)));
	}
	return place | 1;
}

/* Was one of the settings of lr_way() assigned since it was called? */
static bool way_assigned = true;

/*
 * assign_way --- assign hook of settings on which connections may depend
 *
 * A reload also assigns values that have not changed.
 */
static void
assign_way(const char *newval, void *extra)
{
	way_assigned = true;
}

/*
 * assign_url --- the same of lockredis.url, which check_url() has accepted
 */
static void
assign_url(const char *newval, void *extra)
{
	static RedisUrl urls[LR_MAX_MASTERS];
	RedisUrlError error;
	int			n;

	way_assigned = true;
	if (!redis_url_parse(newval, urls, &n, &error))
		return;
	lr_redis_url = urls;
	lr_nmasters = n > 1 ? n : 0;
	lr_place = place_of(urls, n);
}

static bool
check_length(const char *value, int most)
{
	if (strlen(value) <= most)
		return true;
	GUC_check_errdetail("It may have at most %d bytes.", most);
	return false;
}

/*
 * check_tls_server_name --- a host name or an address, as in a URL but without brackets
 */
static bool
check_tls_server_name(char **newval, void **extra, GucSource source)
{
	size_t		good = strspn(*newval, LR_ASCII_ALNUM ".-_:");

	if (!check_length(*newval, LR_HOST_MAX - 1))
		return false;

	/* OpenSSL takes a name with a leading dot as any name below it. */
	if (**newval == '.')
		good = 0;
	if ((*newval)[good] != '\0')
	{
		GUC_check_errdetail("Invalid character at position %d.", (int) good + 1);
		return false;
	}
	return true;
}

static bool
check_sentinel_user(char **newval, void **extra, GucSource source)
{
	return check_length(*newval, LR_USER_MAX - 1);
}

/*
 * check_key_prefix --- it is in UTF-8, whatever the encoding of the database
 *
 * If each database read its bytes in its own encoding, one setting would mean different keys.
 */
static bool
check_key_prefix(char **newval, void **extra, GucSource source)
{
	if (!check_length(*newval, LR_PREFIX_MAX))
		return false;
	if (pg_verify_mbstr(PG_UTF8, *newval, strlen(*newval), true))
		return true;
	GUC_check_errdetail("It is not valid UTF-8.");
	return false;
}

/* A server that started with such settings would refuse every lock. */
void
lr_require_fit_lease(void)
{
	if (lr_has_masters() && lr_lease > lr_max_lease)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" must not be longer than \"%s\"", "lockredis.lease",
						"lockredis.max_lease"),
				 errdetail("They are %d ms and %d ms.", lr_lease, lr_max_lease),
				 errhint("Lower \"%s\", or raise \"%s\" on all servers.", "lockredis.lease",
						 "lockredis.max_lease")));
}

/*
 * check_lease --- do not accept at a reload what the next start would refuse
 *
 * At server start the check would depend on settings that are read later, so
 * lr_require_fit_lease() makes it then.  A parallel worker gets the values of its
 * leader, in any order.
 */
static bool
check_lease(int *newval, void **extra, GucSource source)
{
	if (process_shared_preload_libraries_in_progress || InitializingParallelWorker ||
		!lr_has_masters() || *newval <= lr_max_lease)
		return true;
	GUC_check_errdetail("With several masters no lease is longer than \"%s\", which is %d ms.",
						"lockredis.max_lease", lr_max_lease);
	GUC_check_errhint("\"%s\" can be changed at a restart only, and must be the same on all servers.",
					  "lockredis.max_lease");
	return false;
}

/*
 * assign_timeout --- note what calls may take before a reload lowers it; see lr_longest_call()
 *
 * The postmaster does that, too, and so each new watchdog knows it.
 */
static void
assign_timeout(int newval, void *extra)
{
	if (!process_shared_preload_libraries_in_progress)
		(void) lr_call_budget();
}

/* A number; its variable has the default. */
typedef struct IntSetting
{
	const char *name;
	int		   *variable;
	int			min;
	int			max;
	GucContext	context;
	int			flags;
	const char *what;
	const char *more;
	GucIntCheckHook check;
	GucIntAssignHook assign;
} IntSetting;

static const IntSetting int_settings[] = {
	{"lockredis.max_locks", &lr_max_locks, 10, 10000000, PGC_POSTMASTER, 0,
	"Most holds and waits that this server can have at once."},
	{"lockredis.max_lease", &lr_max_lease, 100, 24 * 24 * 60 * 60 * 1000,
		PGC_POSTMASTER, GUC_UNIT_MS,
		"Longest lease of a lock that independent masters keep.",
	"A master that was started recently has no vote for that long; at least lockredis.lease, and the same on all servers."},
	{"lockredis.max_handoffs", &lr_max_handoffs, 0, 1000000, PGC_SIGHUP, 0,
		"How often in a row a lock passes between sessions of this server.",
	"After that it is released, so that others get their turn; 0: at once. Sessions that begin to wait for a fair lock then join its queue in Redis."},
	{"lockredis.connect_timeout", &lr_connect_timeout, 10, 600000, PGC_SIGHUP, GUC_UNIT_MS,
	"Longest time to make a connection to the lock store.", NULL, NULL, assign_timeout},
	{"lockredis.command_timeout", &lr_command_timeout, 10, 600000, PGC_SIGHUP, GUC_UNIT_MS,
		"Longest time to wait for a reply of the lock store.",
		"Together with connect_timeout it bounds a whole call, reconnect and repeat included.",
	NULL, assign_timeout},
	{"lockredis.idle_timeout", &lr_idle_timeout, 0, 24 * 60 * 60 * 1000,
		PGC_SIGHUP, GUC_UNIT_MS,
		"After what time an unused connection of a session is closed.",
	"The next request makes another one; 0: never."},
	{"lockredis.fallback_after", &lr_fallback_after, 500, 24 * 60 * 60 * 1000,
		PGC_SIGHUP, GUC_UNIT_MS,
		"How long Redis must have been silent before new locks are taken in the table.",
	"In mode fallback; below two thirds of lockredis.lease."},
	{"lockredis.lease", &lr_lease, 100, 24 * 60 * 60 * 1000, PGC_USERSET, GUC_UNIT_MS,
	"Lease of a lock that is renewed; it is renewed at a third of it.", NULL, check_lease},
	{"lockredis.wait_lease", &lr_wait_lease, 1000, 60 * 60 * 1000, PGC_USERSET, GUC_UNIT_MS,
		"How long Redis remembers that a session waits for a write or fair lock, or a condition; it is renewed at a third of that.",
	"Until then others let it go first. It is withdrawn when the session no longer waits."},
	{"lockredis.min_replicas", &lr_min_replicas, 0, LR_REPLICAS_MAX, PGC_SUSET, 0,
		"Number of replicas that have to confirm a lock before it counts as taken.",
	"Likewise whenever its lease is extended; 0: none.  Without effect on locks that are kept in a table."},
	{"lockredis.replica_timeout", &lr_replica_timeout, 1, 60000, PGC_SUSET, GUC_UNIT_MS,
		"Longest time to wait for replicas to confirm a lock.",
	"It is part of lockredis.command_timeout."}
};

typedef struct StringSetting
{
	const char *name;
	char	  **variable;
	const char *initially;
	GucContext	context;
	int			flags;
	const char *what;
	const char *more;
	GucStringCheckHook check;
	GucStringAssignHook assign; /* NULL: assign_way */
} StringSetting;

static const StringSetting string_settings[] = {
	{"lockredis.url", &lr_url, "redis://127.0.0.1:6379", PGC_SIGHUP, GUC_SUPERUSER_ONLY,
		"Where the locks are kept.",
		"redis://[user@]host[:port][/db] or unix:///path[?db=n], 3 to 9 of which are independent masters; redis-sentinel://[user@]host[:port],.../service[/db]; or redis-cluster://[user@]host[:port],...; with TLS rediss.",
	check_url, assign_url},
	{"lockredis.password_file", &lr_password_file, "", PGC_SIGHUP, GUC_SUPERUSER_ONLY,
		"File with the password of the lock store.",
	"It must belong to the server's user and be readable by that user only (0600)."},
	{"lockredis.sentinel_user", &lr_sentinel_user, "", PGC_SIGHUP, GUC_SUPERUSER_ONLY,
		"User name for the Sentinels.",
		"An empty string stands for their default user.",
	check_sentinel_user},
	{"lockredis.sentinel_password_file", &lr_sentinel_password_file, "",
		PGC_SIGHUP, GUC_SUPERUSER_ONLY,
		"File with the password of the Sentinels.",
	"As lockredis.password_file; an empty string: they need none."},
	{"lockredis.database", &lr_database, "postgres", PGC_POSTMASTER, 0,
	"Database with the table that keeps the locks in modes table and fallback."},
	{"lockredis.tls_ca_file", &lr_tls_ca_file, "", PGC_SIGHUP, GUC_SUPERUSER_ONLY,
		"File with the certificates of the authorities that may sign that of a node.",
	"An empty string stands for those that the system trusts."},
	{"lockredis.tls_cert_file", &lr_tls_cert_file, "", PGC_SIGHUP, GUC_SUPERUSER_ONLY,
		"File with the certificate that is shown to the lock store.",
	"Followed by the intermediate ones, up to an authority that the store trusts."},
	{"lockredis.tls_key_file", &lr_tls_key_file, "", PGC_SIGHUP, GUC_SUPERUSER_ONLY,
		"File with the private key of that certificate.",
	"It must be readable only by the server's user (0600), or belong to root (0640)."},
	{"lockredis.tls_server_name", &lr_tls_server_name, "", PGC_SIGHUP, GUC_SUPERUSER_ONLY,
		"Name or address that the certificate of each node must have.",
		"An empty string stands for the host that is connected to.",
	check_tls_server_name},
	{"lockredis.key_prefix", &lr_key_prefix, "", PGC_SUSET, 0,
	"Put before every key.", NULL, check_key_prefix}
};

/* The settings with a choice of words, or of two. */
static const char *const choices[] = {
	"lockredis.mode", "lockredis.commit_guard", "lockredis.on_lost", "lockredis.release_wait",
	"lockredis.table_synchronous_commit", "lockredis.session_locks"
};

/*
 * define_choices --- define the settings that choices[] names
 */
static void
define_choices(void)
{
	DefineCustomEnumVariable("lockredis.mode",
							 "What keeps the locks.",
							 "redis: the server at lockredis.url; table: a table in lockredis.database; fallback: the table while Redis is away.",
							 &lr_mode, MODE_REDIS, mode_options, PGC_POSTMASTER, 0,
							 NULL, NULL, NULL);

	DefineCustomEnumVariable("lockredis.commit_guard",
							 "What a commit checks of the locks of its transaction.",
							 "lease: enough of the lease is left; verify: the store says so; off: nothing.",
							 &lr_commit_guard, GUARD_LEASE, commit_guard_options, PGC_USERSET, 0,
							 NULL, NULL, NULL);

	DefineCustomEnumVariable("lockredis.on_lost",
							 "What happens to a session when one of its locks is lost.",
							 "mark: it finds out; cancel: its statement is canceled; terminate: it ends.",
							 &lr_on_lost, ON_LOST_MARK, on_lost_options, PGC_USERSET, 0,
							 NULL, NULL, NULL);

	DefineCustomEnumVariable("lockredis.release_wait",
							 "What the end of a transaction waits for when it releases its locks.",
							 "answered: the answer of Redis; sent: nothing, once the request is sent.",
							 &lr_release_wait, RELEASE_WAIT_ANSWERED, release_wait_options, PGC_USERSET, 0,
							 NULL, NULL, NULL);

	DefineCustomBoolVariable("lockredis.table_synchronous_commit",
							 "Has table mode wait until the rows of locks are on disk.",
							 "Off is safe: a lock ends with the server anyway.",
							 &lr_table_synchronous_commit, false, PGC_SIGHUP, 0,
							 NULL, NULL, NULL);

	DefineCustomBoolVariable("lockredis.session_locks",
							 "Allows session-level locks.",
							 "Switch it off behind a pooler that gives a session to several clients.",
							 &lr_session_locks, true, PGC_SUSET, 0,
							 NULL, NULL, NULL);
}

/*
 * configured_value --- what the configuration has for a setting that is not defined yet, or NULL
 */
static char *
configured_value(const char *name)
{
	const char *value = GetConfigOption(name, true, false);

	return value != NULL ? pstrdup(value) : NULL;
}

/*
 * require_valid --- raise an error if the configuration has no valid value for a setting
 *
 * PostgreSQL only warns of that when a library defines a setting, and uses the default.
 * The server would look for its locks in a Redis that nobody has named, or without the
 * prefix of its keys.  pg_upgrade's servers take no locks.
 */
static void
require_valid(const char *name, const char *configured)
{
	if (configured != NULL && !IsBinaryUpgrade)
		(void) set_config_option(name, configured, PGC_POSTMASTER, PGC_S_FILE,
								 GUC_ACTION_SET, false, ERROR, false);
}

/*
 * lr_define_settings --- see settings.h
 *
 * The mode comes first: which URLs are valid depends on it.
 */
void
lr_define_settings(void)
{
	char	   *configured[lengthof(choices)];

	for (int i = 0; i < lengthof(choices); i++)
		configured[i] = configured_value(choices[i]);
	define_choices();
	for (int i = 0; i < lengthof(choices); i++)
		require_valid(choices[i], configured[i]);

	for (int i = 0; i < lengthof(int_settings); i++)
	{
		const IntSetting *s = &int_settings[i];
		char	   *value = configured_value(s->name);

		DefineCustomIntVariable(s->name, s->what, s->more, s->variable, *s->variable,
								s->min, s->max, s->context, s->flags, s->check, s->assign, NULL);
		require_valid(s->name, value);
	}
	for (int i = 0; i < lengthof(string_settings); i++)
	{
		const StringSetting *s = &string_settings[i];
		char	   *value = configured_value(s->name);

		DefineCustomStringVariable(s->name, s->what, s->more, s->variable, s->initially,
								   s->context, s->flags, s->check,
								   s->assign != NULL ? s->assign : assign_way, NULL);
		require_valid(s->name, value);
	}
	MarkGUCPrefixReserved("lockredis");
}

/*
 * digest_of --- a digest of the values of some settings, another one when a value changes
 */
static uint64
digest_of(char *const *values, int n)
{
	uint64		digest = 0;

	for (int i = 0; i < n; i++)
		digest = hash_combine64(digest, hash_bytes_extended((const unsigned char *) values[i],
															strlen(values[i]), 0));
	return digest;
}

/*
 * lr_way --- see settings.h
 */
LrWay
lr_way(void)
{
	static LrWay way;
	char	   *const settings[] = {
		lr_url, lr_password_file, lr_sentinel_user, lr_sentinel_password_file, lr_tls_server_name
	};
	char	   *const files[] = {lr_tls_ca_file, lr_tls_cert_file, lr_tls_key_file};

	if (way_assigned)
	{
		way.settings = digest_of(settings, lengthof(settings));
		way.tls_files = digest_of(files, lengthof(files));
		way_assigned = false;
	}
	return way;
}

/* The largest lr_call_budget() of this process, and of the postmaster before it began. */
static int64 longest_call = 0;

int64
lr_call_budget(void)
{
	int64		budget = ((int64) lr_connect_timeout + lr_command_timeout) * LR_US_PER_MS;

	longest_call = Max(longest_call, budget);
	return budget;
}

int64
lr_longest_call(void)
{
	(void) lr_call_budget();
	return longest_call;
}

bool
lr_has_masters(void)
{
	return lr_mode != MODE_TABLE && lr_nmasters > 0;
}

bool
lr_has_store(StoreId id)
{
	return lr_has_fallback() || id == lr_first_store();
}

StoreId
lr_first_store(void)
{
	return lr_mode == MODE_TABLE ? STORE_TABLE : STORE_REDIS;
}

bool
lr_follows_master(void)
{
	return lr_mode != MODE_TABLE &&
		(redis_url_is_followed(lr_redis_url) || redis_url_is_cluster(lr_redis_url));
}

bool
lr_has_fallback(void)
{
	return lr_mode == MODE_FALLBACK;
}
