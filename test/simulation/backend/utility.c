/*-------------------------------------------------------------------------
 *
 * utility.c
 *	  Utility statements, through the hook that the product has there.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/backend/utility.c
 *
 *-------------------------------------------------------------------------
 */
#include "backend.h"

#include "nodes/parsenodes.h"
#include "sql.h"
#include "tcop/utility.h"

ProcessUtility_hook_type ProcessUtility_hook = NULL;

/* What the statement that runs does; one can run inside of another. */
static void (*next_body) (void);

void
standard_ProcessUtility(PlannedStmt *pstmt, const char *queryString,
						bool readOnlyTree, ProcessUtilityContext context,
						ParamListInfo params, QueryEnvironment *queryEnv,
						DestReceiver *dest, QueryCompletion *qc)
{
	void		(*body) (void) = next_body;

	next_body = NULL;
	if (body != NULL)
		body();
}

static Node *
make_statement(NodeTag tag)
{
	if (tag == T_DiscardStmt)
	{
		DiscardStmt *discard = palloc0(sizeof(DiscardStmt));

		discard->type = tag;
		discard->target = DISCARD_ALL;
		return (Node *) discard;
	}
	if (tag == T_TransactionStmt)
	{
		TransactionStmt *transaction = palloc0(sizeof(TransactionStmt));

		transaction->type = tag;
		transaction->kind = TRANS_STMT_COMMIT_PREPARED;
		return (Node *) transaction;
	}
	else
	{
		Node	   *other = palloc0(sizeof(DoStmt) + sizeof(CallStmt));

		other->type = tag;
		return other;
	}
}

void
utility_run(NodeTag tag, void (*body) (void))
{
	PlannedStmt *statement = palloc0(sizeof(PlannedStmt));

	statement->type = T_PlannedStmt;
	statement->utilityStmt = make_statement(tag);
	next_body = body;
	ProcessUtility_hook(statement, "", false, PROCESS_UTILITY_TOPLEVEL, NULL, NULL,
						NULL, NULL);
}
