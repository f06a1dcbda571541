/*-------------------------------------------------------------------------
 *
 * report.c
 *	  Errors and warnings for users about locks and their store.
 *
 * Addresses of nodes appear in the server log only; passwords appear nowhere.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/report.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "catalog/pg_authid.h"
#include "utils/acl.h"
#include "utils/timestamp.h"

#include "report.h"
#include "settings.h"
#include "stats.h"

static char *
shown(const LrName *name)
{
	return lr_name_to_show(name->data, name->len);
}

/*
 * failure_message --- the primary message for the outcome of a request
 */
static const char *
failure_message(StoreOutcome outcome)
{
	switch (outcome)
	{
		case STORE_DENIED:
			return gettext_noop("the lock store denied access");
		case STORE_REFUSED:
			return gettext_noop("the lock store refused the request");
		case STORE_UNCONFIRMED:
			return gettext_noop("the lock could not be replicated");
		case STORE_DOWN:
			return gettext_noop("could not reach the lock store");
		case STORE_BLOCKED:
			return gettext_noop("the lock store is blocked by another transaction");
		default:
			return gettext_noop("the lock store did not answer");
	}
}

/*
 * report_store_failure --- see report.h
 */
void
report_store_failure(int elevel, StoreOutcome outcome, const StoreError *error)
{
	int			sqlstate = error->sqlstate;

	if (sqlstate == 0)
		sqlstate = outcome == STORE_DENIED ?
			ERRCODE_STORE_DENIED :
			ERRCODE_STORE_FAILED;

	lr_count(STAT_ERRORS);
	ereport(elevel,
			(errcode(sqlstate),
			 errmsg_internal("%s", _(failure_message(outcome))),
			 error->detail[0] == '\0' ? 0 :
			 errdetail_internal("%s", error->detail),
			 error->address[0] == '\0' ? 0 :
			 errdetail_log("%s: %s", error->address, error->detail),
			 error->hint ? errhint("%s", _(error->hint)) :
			 !store_has_failed(sqlstate) ? 0 :
			 errhint("See the view redis_lock_status and the server log.")));
}

/*
 * report_wrong_type --- report what the key holds instead, and what to do about it
 *
 * A session never waits for a token lock without a time limit, so that counts as a
 * wrong type, too.
 */
void
report_wrong_type(const LrName *name, const StoreOp *op)
{
	bool		number = lr_is_number(op->lock_kind);
	bool		endless = op->answer.value == STORE_VALUE_TOKEN &&
		op->answer.ttl_ms == STORE_NO_TTL && !number;

	ereport(ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE),
			 number ?
			 errmsg("key \"%s\" does not hold a %s", shown(name),
					lr_kind(op->lock_kind)->name) :
			 errmsg("key \"%s\" does not hold a %s lock", shown(name),
					lr_kind(op->lock_kind)->name),
			 op->answer.value != STORE_VALUE_TOKEN ?
			 errdetail("It holds a value of type %s.",
					   lr_name_to_show(op->answer.type_name, strlen(op->answer.type_name))) :
			 number ? errdetail("It holds a string that is no number.") :
			 endless ?
			 errdetail("It holds a string that never expires, as a token lock without a time limit does.") :
			 errdetail("It holds a string, as a token lock does."),
			 endless ?
			 errhint("Give the lock of the other client a time limit, or use another key.") :
			 errhint("Use another key.")));
}

/*
 * report_held_otherwise --- like report_wrong_type(), as if a foreign client held it
 */
void
report_held_otherwise(const LrName *name, KindId wanted, KindId other)
{
	ereport(ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE),
			 errmsg("key \"%s\" does not hold a %s lock", shown(name),
					lr_kind(wanted)->name),
			 errdetail("It holds a %s lock of a session of this server.",
					   lr_kind(other)->name),
			 errhint("Use another key.")));
}

void
report_has_other_kind(const LrName *name, KindId has, KindId wanted)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("cannot take the %s lock \"%s\"", lr_kind(wanted)->name, shown(name)),
			 errdetail("This session has the %s lock of that key, and would wait for itself.",
					   lr_kind(has)->name),
			 kindset_has(lr_kind(has)->beside, wanted) ?
			 errhint("Take the %s lock first, or release the %s lock.",
					 lr_kind(wanted)->name, lr_kind(has)->name) :
			 errhint("Use another key.")));
}

void
report_not_held(int elevel, const LrName *name, KindId kind, KindId has)
{
	ereport(elevel,
			(errcode(elevel >= ERROR ?
					 ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE : ERRCODE_WARNING),
			 has == kind ?
			 errmsg("you don't own the Redis lock \"%s\"", shown(name)) :
			 errmsg("you don't own the Redis %s lock \"%s\"", lr_kind(kind)->name,
					shown(name)),
			 has == kind ? 0 : errhint("You have its %s lock.", lr_kind(has)->name)));
}

/*
 * report_late --- see report.h
 */
void
report_late(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_STORE_FAILED),
			 errmsg("the lock store refused the request as too late"),
			 errhint("Its clock may be unsteady.")));
}

void
report_missing(const LrName *name, KindId kind)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("number of permits of \"%s\" is not defined", shown(name)),
			 errhint("Call %s to define it.", lr_kind(kind)->made_by)));
}

/*
 * lost_to --- who has taken the lock; that may be forgotten after some dozens of other losses
 */
static char *
lost_to(const LockLoss *loss)
{
	return loss->taken_by[0] != '\0' ? lr_owner_to_show(loss->taken_by) :
		pstrdup("another client");
}

/*
 * lost_reason_text --- the value of redis_locks.lost_reason, also used in the server
 * log
 */
char *
lost_reason_text(const LockLoss *loss)
{
	static const char *const reasons[] = {
		[LOST_EXPIRED] = "expired",[LOST_DELETED] = "deleted",[LOST_FORCED] = "forced",
		[LOST_MOVED] = "moved",[LOST_WAITING] = "waiting"
	};

	if (loss->reason == LOST_NOT)
		return NULL;
	return loss->reason == LOST_TAKEN ? psprintf("taken by %s", lost_to(loss)) :
		pstrdup(reasons[loss->reason]);
}

/*
 * lost_detail --- why and when the lock was lost, as a DETAIL
 */
static int
lost_detail(const HoldView *view)
{
	char	   *when = pstrdup(timestamptz_to_str(view->lost.at));

	switch (view->lost.reason)
	{
		case LOST_EXPIRED:
			return errdetail("Its lease expired, seen at %s.", when);
		case LOST_TAKEN:
			return errdetail("It was taken by %s, seen at %s.",
							 lost_to(&view->lost), when);
		case LOST_FORCED:
			return errdetail("It was released by force at %s.", when);
		case LOST_MOVED:
			return errdetail("\"%s\" was changed, and it is not at the new place, seen at %s.",
							 "lockredis.url", when);
		case LOST_WAITING:
			return errdetail("It was released at %s to wait for a condition, and has not been taken again.",
							 when);
		default:
			return errdetail("Its key was deleted in the store, seen at %s.", when);
	}
}

void
report_lost(int elevel, const LrName *name, const HoldView *view)
{
	ereport(elevel,
			(errcode(ERRCODE_WARNING),
			 errmsg("the lock \"%s\" was lost", shown(name)),
			 lost_detail(view)));
}

static int
code_of_loss(LossLevel level)
{
	return errcode(level == LOSS_OF_XACT ? ERRCODE_T_R_SERIALIZATION_FAILURE :
				   ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE);
}

void
report_lost_used(const LrName *name, const HoldView *view, LossLevel level)
{
	ereport(ERROR,
			(code_of_loss(level),
			 errmsg("the lock \"%s\" was lost", shown(name)),
			 lost_detail(view),
			 level == LOSS_OF_XACT ?
			 errhint("Another client may hold it by now.  Start the transaction again.") :
			 errhint("Another client may hold it by now.  Call %s to acknowledge the loss, then start again.",
					 lr_kind(view->kind)->unlock)));
}

void
report_lost_meanwhile(const LrName *name, const HoldView *view)
{
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("the lock \"%s\" was lost before all of the locks were taken", shown(name)),
			 lost_detail(view),
			 errhint("Nothing was taken.  Run the statement again.")));
}

static int
hint_of_refusal(LossLevel level, const char *unlock)
{
	switch (level)
	{
		case LOSS_OF_SESSION:
			return errhint("Another client may have changed what the lock protects.  Call %s to acknowledge the loss, then start the transaction again.", unlock);
		case LOSS_UNLOCKED:
			return errhint("Another client may have changed what the lock protects.  The session no longer holds it after %s: take it again, then start the transaction again.", unlock);
		default:
			return errhint("Another client may have changed what the lock protects.  Start the transaction again.");
	}
}

/*
 * report_commit_refused --- the lock was lost, or its lease is about to end
 */
void
report_commit_refused(const LrName *name, const HoldView *view, LossLevel level)
{
	if (view->state == HOLD_HELD)
		ereport(ERROR,
				(code_of_loss(level),
				 errmsg("could not commit because the lease of the lock \"%s\" is about to end", shown(name)),
				 errdetail("It could not be renewed in time."),
				 level == LOSS_OF_XACT ?
				 errhint("Start the transaction again.") :
				 errhint("Call %s and take the lock again, then start the transaction again.",
						 lr_kind(view->kind)->unlock)));
	ereport(ERROR,
			(code_of_loss(level),
			 errmsg("could not commit because the lock \"%s\" was lost", shown(name)),
			 lost_detail(view),
			 hint_of_refusal(level, lr_kind(view->kind)->unlock)));
}

/*
 * report_table_full --- raise 53400: no slot of lockredis.max_locks is free
 */
void
report_table_full(void)
{
	lr_count(STAT_SLOT_REFUSALS);
	ereport(ERROR,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("out of slots for Redis locks"),
			 errhint("You might need to increase \"%s\" (now %d).",
					 "lockredis.max_locks", lr_max_locks)));
}

/* The message lacks the key, since an abort must not allocate memory. */
void
report_not_given_back(KindId kind, int64 amount)
{
	ereport(LOG,
			(errmsg("lockredis: gave up counting %lld for a %s",
					(long long) amount, lr_kind(kind)->name),
			 errdetail("The statement that took them failed, and there was no slot for a Redis lock."),
			 errhint("You might need to increase \"%s\" (now %d).",
					 "lockredis.max_locks", lr_max_locks)));
}

bool
lr_may_see_keys_of(Oid role)
{
	if (has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS))
		return true;
	return OidIsValid(role) && has_privs_of_role(GetUserId(), role);
}
