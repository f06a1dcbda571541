# Copyright (c) 2026, lockredis contributors

# What was judged: each function, table and view of the extension, and what PUBLIC may do with it.
# One that is added and stands in no list fails 325_functions and 365_rights.  325_functions and
# 321_search_path call each of them.

package LockRedis::Topic::Rights;

use LockRedis::Pragmas;

use Exporter 'import';

our @EXPORT = qw(%judged %relations call_of);
our %judged;

# Who may call it (all, granted, or trigger), what it costs (store: asks a store; or nothing
# of note), whether it writes a table (unsafe for parallel workers), and how it is called:
# %s is the key.  "takes" has permits: see below.
my $functions = <<'LIST';
redis_lock(text,interval) | all store | SELECT redis_lock(%s)
redis_try_lock(text,interval,interval) | all store | SELECT redis_try_lock(%s, '20ms', '1min')
redis_xact_lock(text,interval) | all store | SELECT redis_xact_lock(%s)
redis_try_xact_lock(text,interval,interval) | all store | SELECT redis_try_xact_lock(%s)
redis_read_lock(text,interval) | all store | SELECT redis_read_lock(%s)
redis_try_read_lock(text,interval,interval) | all store | SELECT redis_try_read_lock(%s)
redis_read_xact_lock(text,interval) | all store | SELECT redis_read_xact_lock(%s)
redis_try_read_xact_lock(text,interval,interval) | all store | SELECT redis_try_read_xact_lock(%s)
redis_write_lock(text,interval) | all store | SELECT redis_write_lock(%s)
redis_try_write_lock(text,interval,interval) | all store | SELECT redis_try_write_lock(%s)
redis_write_xact_lock(text,interval) | all store | SELECT redis_write_xact_lock(%s)
redis_try_write_xact_lock(text,interval,interval) | all store | SELECT redis_try_write_xact_lock(%s)
redis_fair_lock(text,interval) | all store | SELECT redis_fair_lock(%s)
redis_try_fair_lock(text,interval,interval) | all store | SELECT redis_try_fair_lock(%s)
redis_fair_xact_lock(text,interval) | all store | SELECT redis_fair_xact_lock(%s)
redis_try_fair_xact_lock(text,interval,interval) | all store | SELECT redis_try_fair_xact_lock(%s)
redis_fenced_lock(text,interval) | all store | SELECT redis_fenced_lock(%s)
redis_try_fenced_lock(text,interval,interval) | all store | SELECT redis_try_fenced_lock(%s)
redis_fenced_xact_lock(text,interval) | all store unsafe | SELECT redis_fenced_xact_lock(%s)
redis_try_fenced_xact_lock(text,interval,interval) | all store unsafe | SELECT redis_try_fenced_xact_lock(%s)
redis_fenced_write_lock(text,interval) | all store | SELECT redis_fenced_write_lock(%s)
redis_try_fenced_write_lock(text,interval,interval) | all store | SELECT redis_try_fenced_write_lock(%s)
redis_fenced_write_xact_lock(text,interval) | all store unsafe | SELECT redis_fenced_write_xact_lock(%s)
redis_try_fenced_write_xact_lock(text,interval,interval) | all store unsafe | SELECT redis_try_fenced_write_xact_lock(%s)
redis_multi_lock(text[],interval) | all store | SELECT redis_multi_lock(ARRAY['free', %s])
redis_try_multi_lock(text[],interval,interval) | all store | SELECT redis_try_multi_lock(ARRAY[%s])
redis_multi_xact_lock(text[],interval) | all store | SELECT redis_multi_xact_lock(ARRAY[%s])
redis_try_multi_xact_lock(text[],interval,interval) | all store | SELECT redis_try_multi_xact_lock(ARRAY[%s])
redis_await_lock(text,interval,text) | all | CALL redis_await_lock(%s)
redis_with_lock(text,text,interval,interval,interval,boolean) | all | CALL redis_with_lock(%s, 'SELECT 1', hold_at_least => '20ms')
redis_unlock(text) | all store | SELECT redis_unlock(%s)
redis_read_unlock(text) | all store | SELECT redis_read_unlock(%s)
redis_write_unlock(text) | all store | SELECT redis_write_unlock(%s)
redis_multi_unlock(text[]) | all store | SELECT redis_multi_unlock(ARRAY[%s])
redis_unlock_all() | all store | SELECT redis_unlock_all()
redis_extend(text,interval) | all store | SELECT redis_extend(%s, '1h')
redis_extend(text,interval,text) | all store | SELECT redis_extend(%s, '1h', 'write')
redis_force_unlock(text) | granted store | SELECT redis_force_unlock(%s)
redis_is_locked(text) | all store | SELECT redis_is_locked(%s)
redis_lock_ttl(text) | all store | SELECT redis_lock_ttl(%s)
redis_lock_owner(text) | all store | SELECT redis_lock_owner(%s)
redis_is_held(text) | all | SELECT redis_is_held(%s)
redis_is_held(text,text) | all | SELECT redis_is_held(%s, 'read')
redis_hold_count(text) | all | SELECT redis_hold_count(%s)
redis_hold_count(text,text) | all | SELECT redis_hold_count(%s, 'read')
redis_assert_held(text) | all | SELECT redis_assert_held(%s)
redis_assert_held(text,text) | all | SELECT redis_assert_held(%s, 'read')
redis_fence(text) | all | SELECT redis_fence(%s)
redis_fence(text,text) | all | SELECT redis_fence(%s, 'write')
redis_fence_check(text,bigint) | granted unsafe | SELECT redis_fence_check(%s, 7)
redis_fence_forget(text) | granted unsafe | SELECT redis_fence_forget(%s)
redis_condition_wait(text,interval,text) | all store | SELECT redis_condition_wait(%s, '20ms')
redis_condition_notify(text,text) | all store | SELECT redis_condition_notify(%s)
redis_condition_notify_all(text,text) | all store | SELECT redis_condition_notify_all(%s)
redis_semaphore_init(text,integer,interval) | granted store | SELECT redis_semaphore_init(%s, 1000)
redis_semaphore_set(text,integer,interval) | granted store | SELECT redis_semaphore_set(%s, 1000)
redis_semaphore_acquire(text,integer) | granted store | SELECT redis_semaphore_acquire(%s)
redis_try_semaphore_acquire(text,integer,interval) | granted store | SELECT redis_try_semaphore_acquire(%s)
redis_semaphore_release(text,integer) | granted store | SELECT redis_semaphore_release(%s)
redis_semaphore_xact_release(text,integer) | granted store | SELECT redis_semaphore_xact_release(%s)
redis_semaphore_add(text,integer) | granted store | SELECT redis_semaphore_add(%s, 1)
redis_semaphore_drain(text) | granted store | SELECT redis_semaphore_drain(%s)
redis_semaphore_available(text) | granted store | SELECT redis_semaphore_available(%s)
redis_latch_init(text,bigint) | granted store | SELECT redis_latch_init(%s, 2)
redis_latch_set(text,bigint) | granted store | SELECT redis_latch_set(%s, 2)
redis_latch_count_down(text) | granted store | SELECT redis_latch_count_down(%s)
redis_latch_xact_count_down(text) | granted store | SELECT redis_latch_xact_count_down(%s)
redis_latch_count(text) | granted store | SELECT redis_latch_count(%s)
redis_latch_wait(text,interval) | granted store | SELECT redis_latch_wait(%s, '20ms')
redis_latch_delete(text) | granted store | SELECT redis_latch_delete(%s)
redis_token_lock(text,interval,text) | granted store | SELECT redis_token_lock(%s, '1s', 'mine')
redis_try_token_lock(text,interval,interval,text) | granted store | SELECT redis_try_token_lock(%s, '0', '1min')
redis_token_unlock(text,text) | granted store | SELECT redis_token_unlock(%s, 'guess')
redis_token_extend(text,text,interval) | granted store | SELECT redis_token_extend(%s, 'guess', '1h')
redis_token_is_held(text,text) | granted store | SELECT redis_token_is_held(%s, 'guess')
redis_permit_set(text,integer) | granted store | SELECT redis_permit_set(%s, 1000)
redis_permit_init(text,integer) | granted store | SELECT redis_permit_init(%s, 1000)
redis_permit_total(text) | granted store | SELECT redis_permit_total(%s)
redis_permit_available(text) | granted store | SELECT redis_permit_available(%s)
redis_permit_lock(text,interval) | all store takes | SELECT redis_permit_lock(%s)
redis_try_permit_lock(text,interval,interval) | all store takes | SELECT redis_try_permit_lock(%s)
redis_permit_xact_lock(text,interval) | all store takes | SELECT redis_permit_xact_lock(%s)
redis_try_permit_xact_lock(text,interval,interval) | all store takes | SELECT redis_try_permit_xact_lock(%s)
redis_permit_unlock(text) | all store | SELECT redis_permit_unlock(%s)
redis_permit_acquire(text,interval) | all store takes | SELECT redis_permit_acquire(%s, '1min')
redis_try_permit_acquire(text,interval,interval) | all store takes | SELECT redis_try_permit_acquire(%s, '0', '1min')
redis_permit_release(text,text) | all store | SELECT redis_permit_release(%s, repeat('0', 32))
redis_permit_extend(text,text,interval) | all store | SELECT redis_permit_extend(%s, repeat('0', 32), '1min')
redis_with_permit(text,text,interval,interval,boolean) | all takes | CALL redis_with_permit(%s, 'SELECT 1')
redis_lock_stats_reset() | granted | SELECT redis_lock_stats_reset()
lockredis_locks() | all rows | SELECT count(*) FROM lockredis_locks()
lockredis_stats() | all | SELECT acquires IS NULL FROM lockredis_stats()
lockredis_waits() | all | SELECT held IS NULL FROM lockredis_waits()
lockredis_status() | all rows | SELECT address FROM lockredis_status()
lockredis_blocked_by_owner(integer) | all strict | SELECT lockredis_blocked_by_owner(0)
lockredis_nodes() | all rows | SELECT address FROM lockredis_nodes()
lockredis_replicated() | trigger unsafe |
LIST

# Tables and views, and what PUBLIC may do with them.
our %relations = (
	redis_fences => 'r SELECT',
	redis_lock_counters => 'r ',
	redis_lock_rows => 'r ',
	redis_lock_shares => 'r ',
	redis_lock_values => 'r ',
	redis_lock_stats => 'v SELECT',
	redis_lock_status => 'v SELECT',
	redis_locks => 'v SELECT');

foreach (split /\n/, $functions)
{
	my ($signature, $what, $call) = split /\s*\|\s*/;
	my %is = map { $_ => 1 } split ' ', $what;

	$judged{$signature} = { %is, call => $call };
}

sub call_of ($signature, $key) { return $judged{$signature}{call} =~ s/%s/'$key'/r; }

1;
