/*-------------------------------------------------------------------------
 *
 * verbs.h
 *	  The SQL functions of locks, permits, semaphores, latches and conditions.
 *
 * Each function has a row: its C symbol, its shape, and the parameters of the shape, which
 * are the fields of Verb.  A shape is a function of verbs.c: it reads the arguments, calls
 * the session, and returns the result.  Most rows name a kind, many a level, and whether
 * the function waits.  So a new kind of lock is a few rows here.
 *
 * Only verbs.c includes this, after the shapes; it defines VERB().
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/sql/verbs.h
 *
 *-------------------------------------------------------------------------
 */

/* Reentrant locks; functions of 1.0 wait without a limit if "wait" is null */
VERB(lockredis_lock, take, KIND_REENTRANT, SCOPE_SESSION, WAITS)
VERB(lockredis_try_lock, take, KIND_REENTRANT, SCOPE_SESSION, TRIES_OR_WAITS)
VERB(lockredis_xact_lock, take, KIND_REENTRANT, SCOPE_XACT, WAITS)
VERB(lockredis_try_xact_lock, take, KIND_REENTRANT, SCOPE_XACT, TRIES_OR_WAITS)
VERB(lockredis_fenced_lock, take_fenced, KIND_REENTRANT, SCOPE_SESSION, WAITS)
VERB(lockredis_try_fenced_lock, take_fenced, KIND_REENTRANT, SCOPE_SESSION, TRIES_OR_WAITS)
VERB(lockredis_fenced_xact_lock, take_fenced, KIND_REENTRANT, SCOPE_XACT, WAITS)
VERB(lockredis_try_fenced_xact_lock, take_fenced, KIND_REENTRANT, SCOPE_XACT, TRIES_OR_WAITS)
VERB(lockredis_unlock, release, KIND_REENTRANT)
VERB(lockredis_unlock_all, release_all, KIND_REENTRANT)

/* Several keys at once */
VERB(lockredis_multi_lock, take_keys, KIND_REENTRANT, SCOPE_SESSION, WAITS)
VERB(lockredis_try_multi_lock, take_keys, KIND_REENTRANT, SCOPE_SESSION, TRIES)
VERB(lockredis_multi_xact_lock, take_keys, KIND_REENTRANT, SCOPE_XACT, WAITS)
VERB(lockredis_try_multi_xact_lock, take_keys, KIND_REENTRANT, SCOPE_XACT, TRIES)
VERB(lockredis_multi_unlock, release_keys, KIND_REENTRANT)

/* Fair locks, which are released as reentrant ones */
VERB(lockredis_fair_lock, take, KIND_FAIR, SCOPE_SESSION, WAITS)
VERB(lockredis_try_fair_lock, take, KIND_FAIR, SCOPE_SESSION, TRIES)
VERB(lockredis_fair_xact_lock, take, KIND_FAIR, SCOPE_XACT, WAITS)
VERB(lockredis_try_fair_xact_lock, take, KIND_FAIR, SCOPE_XACT, TRIES)

/* Read-write locks */
VERB(lockredis_read_lock, take, KIND_READ, SCOPE_SESSION, WAITS)
VERB(lockredis_try_read_lock, take, KIND_READ, SCOPE_SESSION, TRIES)
VERB(lockredis_read_xact_lock, take, KIND_READ, SCOPE_XACT, WAITS)
VERB(lockredis_try_read_xact_lock, take, KIND_READ, SCOPE_XACT, TRIES)
VERB(lockredis_read_unlock, release, KIND_READ)
VERB(lockredis_write_lock, take, KIND_WRITE, SCOPE_SESSION, WAITS)
VERB(lockredis_try_write_lock, take, KIND_WRITE, SCOPE_SESSION, TRIES)
VERB(lockredis_write_xact_lock, take, KIND_WRITE, SCOPE_XACT, WAITS)
VERB(lockredis_try_write_xact_lock, take, KIND_WRITE, SCOPE_XACT, TRIES)
VERB(lockredis_fenced_write_lock, take_fenced, KIND_WRITE, SCOPE_SESSION, WAITS)
VERB(lockredis_try_fenced_write_lock, take_fenced, KIND_WRITE, SCOPE_SESSION, TRIES)
VERB(lockredis_fenced_write_xact_lock, take_fenced, KIND_WRITE, SCOPE_XACT, WAITS)
VERB(lockredis_try_fenced_write_xact_lock, take_fenced, KIND_WRITE, SCOPE_XACT, TRIES)
VERB(lockredis_write_unlock, release, KIND_WRITE)

/* Permits held by sessions, and those identified by an id */
VERB(lockredis_permit_init, define_permits, KIND_PERMIT,.change = CHANGE_INIT)
VERB(lockredis_permit_set, define_permits, KIND_PERMIT,.change = CHANGE_SET)
VERB(lockredis_permit_total, total, KIND_PERMIT)
VERB(lockredis_permit_available, available, KIND_PERMIT)
VERB(lockredis_permit_lock, take, KIND_PERMIT, SCOPE_SESSION, WAITS)
VERB(lockredis_try_permit_lock, take, KIND_PERMIT, SCOPE_SESSION, TRIES)
VERB(lockredis_permit_xact_lock, take, KIND_PERMIT, SCOPE_XACT, WAITS)
VERB(lockredis_try_permit_xact_lock, take, KIND_PERMIT, SCOPE_XACT, TRIES)
VERB(lockredis_permit_unlock, release, KIND_PERMIT)
VERB(lockredis_permit_acquire, take_id, KIND_PERMIT, SCOPE_SESSION, WAITS)
VERB(lockredis_try_permit_acquire, take_id, KIND_PERMIT, SCOPE_SESSION, TRIES)
VERB(lockredis_permit_release, release_id, KIND_PERMIT)
VERB(lockredis_permit_extend, extend_id, KIND_PERMIT)

/* Token locks */
VERB(lockredis_token_lock, take_token, KIND_TOKEN, SCOPE_SESSION, WAITS)
VERB(lockredis_try_token_lock, take_token, KIND_TOKEN, SCOPE_SESSION, TRIES)
VERB(lockredis_token_unlock, release_token, KIND_TOKEN)
VERB(lockredis_token_extend, extend_token, KIND_TOKEN)
VERB(lockredis_token_is_held, token_is_held, KIND_TOKEN)

/* Semaphores */
VERB(lockredis_semaphore_init, define_permits, KIND_SEMAPHORE,.change = CHANGE_INIT)
VERB(lockredis_semaphore_set, define_permits, KIND_SEMAPHORE,.change = CHANGE_SET)
VERB(lockredis_semaphore_add, define_permits, KIND_SEMAPHORE,.change = CHANGE_ADD)
VERB(lockredis_semaphore_drain, drain, KIND_SEMAPHORE)
VERB(lockredis_semaphore_available, available, KIND_SEMAPHORE)
VERB(lockredis_semaphore_acquire, acquire_permits, KIND_SEMAPHORE,.wait = WAITS)
VERB(lockredis_try_semaphore_acquire, acquire_permits, KIND_SEMAPHORE,.wait = TRIES)
VERB(lockredis_semaphore_release, give_permits, KIND_SEMAPHORE)
VERB(lockredis_semaphore_xact_release, count_at_commit, KIND_SEMAPHORE)

/* Latches */
VERB(lockredis_latch_init, define_latch, KIND_LATCH,.change = CHANGE_INIT)
VERB(lockredis_latch_set, define_latch, KIND_LATCH,.change = CHANGE_SET)
VERB(lockredis_latch_delete, delete_latch, KIND_LATCH)
VERB(lockredis_latch_count, latch_count, KIND_LATCH)
VERB(lockredis_latch_count_down, count_down, KIND_LATCH)
VERB(lockredis_latch_xact_count_down, count_at_commit, KIND_LATCH)
VERB(lockredis_latch_wait, wait_for_latch, KIND_LATCH,.wait = TRIES_OR_WAITS)

/* Conditions of locks */
VERB(lockredis_condition_wait, wait_for_condition, KIND_CONDITION,.wait = TRIES_OR_WAITS)
VERB(lockredis_condition_notify, notify_one, KIND_CONDITION)
VERB(lockredis_condition_notify_all, notify_all, KIND_CONDITION)

/* Holds of this session, of the kind that an argument names or that it holds */
VERB(lockredis_extend, extend, KIND_REENTRANT)
VERB(lockredis_is_held, is_held, KIND_REENTRANT)
VERB(lockredis_hold_count, hold_count, KIND_REENTRANT)
VERB(lockredis_assert_held, assert_held, KIND_REENTRANT)
VERB(lockredis_fence, fence, KIND_REENTRANT)

/* Locks of any kind, whoever holds them */
VERB(lockredis_is_locked, is_locked, KIND_REENTRANT)
VERB(lockredis_lock_ttl, lock_ttl, KIND_REENTRANT)
VERB(lockredis_lock_owner, lock_owner, KIND_REENTRANT)
VERB(lockredis_force_unlock, force, KIND_REENTRANT)
