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

char	   *GUC_check_errmsg_string;
char	   *GUC_check_errdetail_string;
char	   *GUC_check_errhint_string;

void
GUC_check_errcode(int sqlerrcode)
{
}

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
	if (strcmp(name, "lockredis.connect_timeout") == 0)
		return sim_config.connect_timeout_ms;
	if (strcmp(name, "lockredis.command_timeout") == 0)
		return sim_config.command_timeout_ms;
	if (strcmp(name, "lockredis.replica_timeout") == 0)
		return sim_config.replica_timeout_ms;
	if (strcmp(name, "lockredis.idle_timeout") == 0)
		return sim_config.idle_timeout_ms;
	if (strcmp(name, "lockredis.fallback_after") == 0)
		return sim_config.fallback_after_ms;
	return otherwise;
}

void
DefineCustomBoolVariable(const char *name, const char *short_desc,
						 const char *long_desc, bool *valueAddr, bool bootValue,
						 GucContext context, int flags,
						 GucBoolCheckHook check_hook,
						 GucBoolAssignHook assign_hook, GucShowHook show_hook)
{
	*valueAddr = bootValue;
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
	char	   *value = bootValue == NULL ? NULL : pstrdup(bootValue);
	void	   *extra = NULL;

	if (check_hook != NULL && !check_hook(&value, &extra, PGC_S_DEFAULT))
		sim_fail("simulator", "%s is refused", name);
	if (assign_hook != NULL)
		assign_hook(value, extra);
	*valueAddr = value;
}

void
MarkGUCPrefixReserved(const char *className)
{
}

void
ProcessConfigFile(GucContext context)
{
}
