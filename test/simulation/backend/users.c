/*-------------------------------------------------------------------------
 *
 * users.c
 *	  As whom code runs, and under which restrictions.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/backend/users.c
 *
 *-------------------------------------------------------------------------
 */
#include "backend.h"

#include "sql.h"
#include "tcop/utility.h"
#include "utils/acl.h"

static UserContext current = {SQL_USER, 0};

UserContext
users_get(void)
{
	return current;
}

void
users_set(UserContext to)
{
	current = to;
}

void
users_set_restricted(void)
{
	current.context |= SECURITY_RESTRICTED_OPERATION;
}

void
GetUserIdAndSecContext(Oid *userid, int *sec_context)
{
	*userid = current.user;
	*sec_context = current.context;
}

void
SetUserIdAndSecContext(Oid userid, int sec_context)
{
	current.user = userid;
	current.context = sec_context;
}

bool
InSecurityRestrictedOperation(void)
{
	return (current.context & SECURITY_RESTRICTED_OPERATION) != 0;
}

Oid
GetUserId(void)
{
	return current.user;
}

Oid
GetAuthenticatedUserId(void)
{
	return SQL_USER;
}

void
PreventCommandIfReadOnly(const char *cmdname)
{
	if (XactReadOnly)
		ereport(ERROR,
				(errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION),
				 errmsg("cannot execute %s in a read-only transaction", cmdname)));
}
