# Copyright (c) 2026, lockredis contributors

# Table mode: locks in a table of this server.  Rows are visible at once and
# independent of the caller's rollback, shared by all databases, with lease,
# owner and count.
# 230 to 250 have tests of Redis again, 211_table_worker_ends what the worker has to
# survive, 212_table_missing what administrators do, 257_table_blocked rows that are locked.
# Proves G25.

use LockRedis::Test;

my $table = LockRedis::Table->new;
my ($node, $one, $two) = LockRedis::Node->create('main', sessions => 2, redis => $table);

sub row ($key, $columns)
{
	return $node->value("SELECT $columns FROM redis_lock_rows WHERE key = '$key'");
}

#
# One key: the row is what the session says, and goes with the last hold.
#
{
	$one->query_is("SELECT redis_lock('key')", '', 'taken');
	my $owner = $one->value("SELECT redis_lock_owner('key')");
	is( row('key',
			q{owner, hold_count, fence, lease, instance, comment,
			  acquired_at <= clock_timestamp(), expires_at > clock_timestamp()}),
		"$owner|1||00:00:30|" . ($owner =~ s/:.*//r) . '||t|t',
		'the row of a lock');
	$one->query_is("SELECT redis_lock('key')", '', 'taken again');
	is(row('key', 'owner, hold_count'), "$owner|1", 'the row does not count');
	is( $node->value('SELECT key, owner, granted, hold_count FROM redis_locks'),
		"key|$owner|t|2", 'redis_locks');
	$two->query_is("SELECT redis_is_locked('key'), redis_lock_owner('key')",
		"t|$owner", 'as others see it');
	$one->query_is("SELECT redis_unlock('key'), redis_unlock('key')", 't|t', 'both given back');
	is($table->cmd('EXISTS', 'key'), 0, 'no row is left');
}

# The row is there before the transaction ends, and whatever it does; sessions
# of all databases have the same locks.
{
	$node->safe_psql('postgres', 'CREATE DATABASE elsewhere');
	$node->safe_psql('elsewhere', 'CREATE EXTENSION lockredis');
	my $away = $node->session(dbname => 'elsewhere');

	$one->query('BEGIN');
	$one->query_is("SELECT redis_lock('session')", '', 'in a transaction');
	$one->query_is("SELECT redis_xact_lock('xact')", '', 'of a transaction');
	is_deeply([ $table->all_keys ], [ 'session', 'xact' ], 'both are visible');
	$away->query_is("SELECT redis_try_lock('session'), redis_try_lock('xact')",
		'f|f', 'from another database');
	$one->query('ROLLBACK');
	is_deeply([ $table->all_keys ], ['session'], 'after a rollback');
	$one->query_is("SELECT redis_unlock('session')", 't', 'given back');
	$away->query_is("SELECT redis_try_lock('session')", 't', 'now free');
	$away->quit;
	poll_until('the locks of a session that ended to go', sub { !$table->all_keys });
}

# A job's key stays locked for a time, in a row of no instance.
{
	my $job = q{CALL redis_with_lock('job', 'SELECT 1', hold_at_least => '1 h')};

	$one->query_is($job, 't', 'it ran');
	is(row('job', "owner LIKE '%/kept', instance IS NULL, expires_at > clock_timestamp() + interval '50 min'"),
		't|t|t', 'the row stays');
	$two->query_is("SELECT redis_force_unlock('job')", 't', 'unless by force');
}

end_test($node, $table);
