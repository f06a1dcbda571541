/*-------------------------------------------------------------------------
 *
 * settings.c
 *	  Settings: those that a schedule draws, and defaults for the others.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/backend/settings.c
 *
 *-------------------------------------------------------------------------
 */
#include "backend.h"

#include "utils/guc.h"

#include "../kernel/clusters.h"
#include "../kernel/sentinels.h"
#include "../kernel/shards.h"

char	   *GUC_check_errmsg_string;
char	   *GUC_check_errdetail_string;
char	   *GUC_check_errhint_string;

static int
drawn(const char *name, int otherwise)
{
	if (strcmp(name, "lockredis.mode") == 0)
		return sim_config.mode;
	if (strcmp(name, "lockredis.max_locks") == 0)
		return sim_config.max_locks;
	if (strcmp(name, "lockredis.max_handoffs") == 0)
		return sim_config.max_handoffs;
	if (strcmp(name, "lockredis.lease") == 0)
		return sim_config.lease_ms;
	if (strcmp(name, "lockredis.max_lease") == 0 && sim_config.masters > 0)
		return sim_config.max_lease_ms;
	if (strcmp(name, "lockredis.wait_lease") == 0)
		return sim_config.wait_lease_ms;
	if (strcmp(name, "lockredis.connect_timeout") == 0)
		return sim_config.connect_timeout_ms;
	if (strcmp(name, "lockredis.command_timeout") == 0)
		return sim_config.command_timeout_ms;
	if (strcmp(name, "lockredis.replica_timeout") == 0)
		return sim_config.replica_timeout_ms;
	if (strcmp(name, "lockredis.idle_timeout") == 0)
		return sim_config.idle_timeout_ms;
	if (strcmp(name, "lockredis.release_wait") == 0)
		return sim_config.release_wait;
	if (strcmp(name, "lockredis.fallback_after") == 0)
		return sim_config.fallback_after_ms;
	return otherwise;
}

static const char *
drawn_url(void)
{
	static char text[256];
	size_t		used = 0;

	if (sim_config.sentinels)
		return SENTINEL_URL;
	if (sim_config.cluster)
		return sim_config.other_cluster ? CLUSTER_URL "," CLUSTER_OTHER : CLUSTER_URL;
	for (int i = 0; i < sim_config.masters; i++)
		used += snprintf(text + used, sizeof(text) - used, "%sredis://127.0.0.1:%d",
						 i > 0 ? " " : "", REDIS_PORT(i));
	if (used > 0)
		return text;
	snprintf(text, sizeof(text), "redis://127.0.0.1:%d", REDIS_PORT(sim_config.url));
	return text;
}

/* Settings that a reload may change: numbers, and one text. */
static struct
{
	const char *name;
	int		   *value;
}			numbers[24];
static int	nnumbers = 0;

typedef struct Text
{
	char	  **value;
	GucStringCheckHook check;
	GucStringAssignHook assign;
} Text;

static Text url;

static void
assign(const Text *t, const char *to, const char *name)
{
	char	   *value = to == NULL ? NULL : strdup(to);
	void	   *extra = NULL;

	if (t->check != NULL && !t->check(&value, &extra, PGC_S_FILE))
		sim_fail("simulator", "%s is refused", name);
	if (t->assign != NULL)
		t->assign(value, extra);
	*t->value = value;
}

void
DefineCustomBoolVariable(const char *name, const char *short_desc,
						 const char *long_desc, bool *valueAddr, bool bootValue,
						 GucContext context, int flags,
						 GucBoolCheckHook check_hook,
						 GucBoolAssignHook assign_hook, GucShowHook show_hook)
{
	*valueAddr = strcmp(name, "lockredis.table_synchronous_commit") == 0 ?
		sim_config.table_sync : bootValue;
}

void
DefineCustomIntVariable(const char *name, const char *short_desc,
						const char *long_desc, int *valueAddr, int bootValue,
						int minValue, int maxValue, GucContext context,
						int flags, GucIntCheckHook check_hook,
						GucIntAssignHook assign_hook, GucShowHook show_hook)
{
	*valueAddr = drawn(name, bootValue);
	Assert(*valueAddr >= minValue && *valueAddr <= maxValue);
	if (context >= PGC_SIGHUP)
	{
		Assert(nnumbers < (int) lengthof(numbers));
		numbers[nnumbers].name = name;
		numbers[nnumbers++].value = valueAddr;
	}
}

void
DefineCustomEnumVariable(const char *name, const char *short_desc,
						 const char *long_desc, int *valueAddr, int bootValue,
						 const struct config_enum_entry *options,
						 GucContext context, int flags,
						 GucEnumCheckHook check_hook,
						 GucEnumAssignHook assign_hook, GucShowHook show_hook)
{
	*valueAddr = drawn(name, bootValue);
}

void
DefineCustomStringVariable(const char *name, const char *short_desc,
						   const char *long_desc, char **valueAddr,
						   const char *bootValue, GucContext context, int flags,
						   GucStringCheckHook check_hook,
						   GucStringAssignHook assign_hook,
						   GucShowHook show_hook)
{
	Text	   *t;

	if (strcmp(name, "lockredis.url") == 0)
	{
		t = &url;
		bootValue = drawn_url();
	}
	else
	{
		static Text other;

		t = &other;
	}
	t->value = valueAddr;
	t->check = check_hook;
	t->assign = assign_hook;
	assign(t, bootValue, name);
}

/* There is no file that could have an invalid value. */
const char *
GetConfigOption(const char *name, bool missing_ok, bool restrict_privileged)
{
	return NULL;
}

int
set_config_option(const char *name, const char *value, GucContext context, GucSource source,
				  GucAction action, bool changeVal, int elevel, bool is_reload)
{
	return 1;
}

void
MarkGUCPrefixReserved(const char *className)
{
}

/*
 * ProcessConfigFile --- this process reads what the file says now
 */
void
ProcessConfigFile(GucContext context)
{
	sim_yield("reload");
	for (int i = 0; i < nnumbers; i++)
		*numbers[i].value = drawn(numbers[i].name, *numbers[i].value);
	assign(&url, drawn_url(), "lockredis.url");
	sim_trace("has read the settings: lease %d ms, url %s", sim_config.lease_ms, *url.value);
}
