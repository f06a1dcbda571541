# Copyright (c) 2026, lockredis contributors

# Table mode: locks in a table of this server.  Rows are visible at once and
# independent of the caller's rollback, shared by all databases, with lease,
# owner and count; a row whose request took too long is nobody's, and goes.
# 230 to 260 have the tests of Redis again, 211_table_worker_ends what the worker has to
# survive, 212_table_missing what administrators do, 257_table_blocked rows that are locked.
# Proves G25.

use LockRedis::Test;

my $table = LockRedis::Table->new;
# So that there could be a standby, which is waited for below.
my ($node, $one, $two) = LockRedis::Node->create(
	'main', sessions => 2,
	redis => $table,
	settings => {
		wal_level => 'replica',
		max_wal_senders => 1,
		'lockredis.connect_timeout' => '1s',
		'lockredis.command_timeout' => '60s'
	});

sub row
{
	my ($key, $columns) = @_;

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
	poll_until('the locks of a session that ended to go',
		sub { !$table->all_keys });
}

# A job's key stays locked for a time, in a row of no instance.
{
	my $job = q{CALL redis_with_lock('job', 'SELECT 1', hold_at_least => '1 h')};

	$one->query_is($job, 't', 'it ran');
	is(row('job', "owner LIKE '%/kept', instance IS NULL, expires_at > clock_timestamp() + interval '50 min'"),
		't|t|t', 'the row stays');
	$two->query_is("SELECT redis_force_unlock('job')", 't', 'unless by force');
}

# In the middle of a commit.  No standby confirms it, so the worker waits there: the row is on
# disk, visible to nobody, and the session has no answer.  Time is up: the row becomes visible later and is nobody's.  It has to go.
$node->set('lockredis.command_timeout' => '2s');
$node->let_commits_wait(1);
$one->start("SELECT redis_lock('halfway')");
$node->wait_for_event($node->table_worker_pid, 'SyncRep');
is($table->cmd('EXISTS', 'halfway'), 0, 'nobody sees the row');
$one->wait(20)->fails('58030', qr/did not answer in time/, 'time is up');
$two->query_fails("SELECT redis_try_lock('other')", '58030',
	qr/did not answer lately/, 'nobody else waits as long');
is($node->value('SELECT pid, granted FROM redis_locks'), '|f', 'an orphan');
$node->let_commits_wait(0);
poll_until('the orphan to be given back',
	sub { !$table->all_keys && $node->count_locks == 0 });
$node->wait_for_up;
$two->query_is("SELECT redis_try_lock('halfway'), redis_unlock('halfway')", 't|t', 'free');
end_test($node, $table);
