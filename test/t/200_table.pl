# Copyright (c) 2026, lockredis contributors

# Table mode: locks in a table of this server.  Rows are visible at once and
# independent of the caller's rollback, shared by all databases, with lease,
# owner and count; all functions work; locks are released and leave no orphans,
# tokens survive the release.  And what the worker has to survive: an open
# INSERT of the same key, a locked table, its own end in the middle of a commit,
# a crash, DROP EXTENSION.
# Proves G25.

use strict;
use warnings FATAL => 'all';

use LockRedis::Test;

my $table = LockRedis::Table->new;
# So that there could be a standby, which is waited for below.
my $node = LockRedis::Node->create(
	'main',
	redis => $table,
	settings => {
		wal_level => 'replica',
		max_wal_senders => 1,
		'lockredis.connect_timeout' => '1s',
		'lockredis.command_timeout' => '60s'
	});
$node->wait_for_up;

my $one = $node->session;
my $two = $node->session;

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
	$two->query_is("SELECT redis_try_lock('key')", 'f', 'somebody else');
	$two->query_is("SELECT redis_is_locked('key'), redis_lock_owner('key')",
		"t|$owner", 'as others see it');
	$one->query_is("SELECT redis_unlock('key')", 't', 'one given back');

	$two->start("SELECT redis_try_lock('key', '60 s')");
	$node->wait_for_waiters('key', 1);
	$one->query_is("SELECT redis_unlock('key')", 't', 'the other too');
	is($two->wait(6)->value, 't', 'a waiting session has it');
	$two->query_is("SELECT redis_unlock('key')", 't', 'given back');
	is($table->cmd('EXISTS', 'key'), 0, 'no row is left');
	$one->query_warns("SELECT redis_unlock('key')", 'f', '01000', qr/own/,
		'not held');
	$one->query_is("SELECT redis_is_locked('key'), redis_lock_ttl('key')",
		'f|NULL', 'nobody has it');
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

# Leases: renewed, given, lengthened, and taken away.
{
	$one->query("SET lockredis.lease = '6s'");
	$one->query_is("SELECT redis_lock('renewed'), redis_lock('given', '6 s')",
		'|', 'two leases');
	my $first = row('renewed', 'expires_at');
	poll_until('a renewal', sub { row('renewed', 'expires_at') gt $first });
	poll_until('the other one to end',
		sub { $one->value("SELECT redis_is_held('given')") eq 'f' });
	$one->query_is("SELECT redis_is_held('renewed')", 't', 'this one is kept');
	$one->query_warns("SELECT redis_unlock('given')", 'f', '01000', qr/lost/,
		'the loss is told');
	$one->query('RESET lockredis.lease');
	$one->query_is("SELECT redis_extend('renewed', '1 h')", 't', 'lengthened');
	is(row('renewed', "lease, expires_at > clock_timestamp() + interval '59 min'"),
		'01:00:00|t', 'the row too');
	$two->query_is("SELECT redis_force_unlock('renewed')", 't', 'by force');
	$one->query_fails("SELECT redis_assert_held('renewed')", '55000', qr/lost/,
		'its session is told');
	$one->query_warns("SELECT redis_unlock('renewed')", 'f', '01000', qr/force/,
		'and forgets it');

	# Deleted by hand: found by the next renewal, and by a commit that looks.
	$one->query("SET lockredis.commit_guard = 'verify'");
	$one->query("BEGIN; SELECT redis_xact_lock('deleted')");
	is($table->cmd('DEL', 'deleted'), 1, 'deleted by hand');
	$one->query_fails('COMMIT', '40001', qr/deleted/, 'the commit is refused');
	$one->query('RESET lockredis.commit_guard');
}

# Fencing tokens go on where they were, after a release and after a restart.
{
	$one->query_is("SELECT redis_fenced_lock('fence')", '1', 'the first token');
	is(row('fence', 'fence'), 1, 'in the row');
	$one->query('SELECT redis_unlock_all()');
	$one->query("BEGIN; SELECT redis_lock('fence')");
	$one->query_is("SELECT redis_fenced_xact_lock('fence')", '2', 'the second');
	is(row('fence', 'fence'), 2, 'in the row of a hold that had none');
	$one->query('COMMIT; SELECT redis_unlock_all()');
	is($node->value("SELECT key, token FROM redis_fences"), 'fence|2', 'recorded');
	$node->restart;
	$_ = $node->session foreach $one, $two;
	$one->query_is("SELECT redis_fenced_lock('fence')", '3', 'after a restart');
	$one->query_is("SELECT redis_unlock('fence')", 't', 'given back');
	$table->cmd('FLUSHALL');
	$one->query_is("SELECT redis_fenced_lock('fence')", '1',
		'of a counter that was lost');
	$one->query_is("SELECT redis_fenced_xact_lock('fence')", '3',
		'raised above what was recorded');
	$one->query('SELECT redis_unlock_all()');
}

# Jobs: the key stays locked for a time, in a row of no instance.
{
	my $job = q{CALL redis_with_lock('job', 'SELECT 1', hold_at_least => '%s')};

	$one->query_is(sprintf($job, '1 h'), 't', 'it ran');
	is(row('job', "owner LIKE '%/kept', instance IS NULL, expires_at > clock_timestamp() + interval '50 min'"),
		't|t|t', 'the row stays');
	$two->query_is(sprintf($job, '1 h'), 'f', 'and does not run again');
	$two->query_is("SELECT redis_force_unlock('job')", 't', 'unless by force');
	$two->query_is(sprintf($job, '0'), 't', 'now it does');
	is($table->cmd('EXISTS', 'job'), 0, 'nothing stays without hold_at_least');
}

#
# Rows of another instance that outlive it: keys that stay locked.
#
{
	ok($table->take('shared', 'some program', '1 h'), 'such a row');
	$one->query_is("SELECT redis_try_lock('shared')", 'f', 'so we do not');
	$one->query_is("SELECT redis_lock_owner('shared')", $table->somebody('some program'), 'its owner');
	$one->start("SELECT redis_try_lock('shared', '60 s')");
	$node->wait_for_waiters('shared', 1);
	ok($table->give_back('shared', 'some program'), 'it goes');
	is($one->wait(5)->value, 't', 'a waiting session notices');
	$one->query_is("SELECT redis_unlock('shared')", 't', 'given back');

	# Rows that have expired do not count, and go.
	ok($table->take('short', 'some program', '500 ms'), 'for a moment');
	$one->query_is("SELECT redis_try_lock('short', '60 s')", 't', 'waited for');
	$one->query_is("SELECT redis_unlock('short')", 't', 'given back');
	ok($table->take('left', 'some program', '10 ms'), 'one that nobody wants');
}

# An open INSERT of a key: that key cannot be asked about, the others can.  What is asked
# comes when the transaction ends, if that is soon.
{
	my $idle = $node->session;

	$idle->query(q{BEGIN; INSERT INTO redis_lock_rows (key, owner, expires_at)
		VALUES ('idle', 'me', clock_timestamp() + interval '1 h')});
	$node->set('lockredis.command_timeout' => '2s');
	$one->query_fails("SELECT redis_try_lock('idle')", '55P03', qr/another transaction/i,
		'not for as long as a request may take');
	$node->set('lockredis.command_timeout' => '60s');
	$one->start("SELECT redis_try_lock('idle')");
	$node->wait_for_waiters('idle', 1);
	$two->query_is("SELECT redis_try_lock('free'), redis_unlock('free')",
		't|t', 'another key');
	$idle->query('ROLLBACK');
	is($one->wait(6)->value, 't', 'the row was not inserted after all');
	$node->set('lockredis.command_timeout' => '2s');

	# A row of ours that somebody has locked: its release has to wait.
	$idle->query("BEGIN; SELECT 1 FROM redis_lock_rows WHERE key = 'idle' FOR UPDATE");
	$one->query_warns("SELECT redis_unlock('idle')", 't', '55P03',
		qr/another transaction/i, 'the row is locked');
	$two->query_is("SELECT redis_try_lock('idle'), redis_is_locked('idle')", 'f|t', 'still there');
	$idle->query('COMMIT');
	poll_until('the watchdog to give it back',
		sub { !$table->cmd('EXISTS', 'idle') });

	# All of the table.
	$idle->query('BEGIN; LOCK TABLE redis_lock_rows');
	$one->query_fails("SELECT redis_try_lock('locked out')", '55P03', qr/locked the table/,
		'nothing is had');
	$one->query_fails("SELECT redis_is_locked('locked out')", '55P03',
		qr/locked the table/, 'nor can it be asked');
	$node->set('lockredis.command_timeout' => '60s');
	$one->start("SELECT redis_try_lock('locked out')");
	$node->wait_for_waiters('locked out', 1);
	$idle->query('COMMIT');
	is($one->wait(6)->value, 't', 'when it is free again');
	$one->query_is("SELECT redis_unlock('locked out')", 't', 'given back');
	$idle->quit;
}

#
# The worker ends.
#

# In an orderly way: what is asked meanwhile waits for the next one.
{
	my $pid = $node->table_worker_pid;

	$one->query("SELECT redis_lock('kept')");
	$node->value("SELECT pg_terminate_backend($pid)");
	$two->query_is("SELECT redis_try_lock('kept'), redis_try_lock('new')",
		'f|t', 'asked while it ends');
	poll_until('another worker',
		sub { my $new = $node->table_worker_pid; $new && $new != $pid });
	$two->query_is("SELECT redis_try_lock('kept'), redis_unlock('new')",
		'f|t', 'the next one knows what is held');
	poll_until('it to sweep an expired row away',
		sub { !$table->cmd('EXISTS', 'left') });
	$one->query_is("SELECT redis_unlock('kept')", 't', 'given back');
}

# In the middle of a commit.  No standby confirms it, so the worker waits there:
# the row is on disk, visible to nobody, and the session has no answer.
sub hang_in_commit
{
	$node->set(
		'synchronous_standby_names' => 'nobody',
		'lockredis.table_synchronous_commit' => 'on');
	# It is the checkpointer that tells the others of standbys.
	$node->safe_psql('postgres', 'CHECKPOINT');
	$one->start("SELECT redis_lock('halfway')");
	poll_until(
		'the worker to hang in its commit',
		sub {
			$node->value(
				q{SELECT wait_event FROM pg_stat_activity
				  WHERE backend_type = 'lockredis table worker'}) eq 'SyncRep';
		});
	is($table->cmd('EXISTS', 'halfway'), 0, 'nobody sees the row');
	return;
}

sub commit_again
{
	$node->set(
		'synchronous_standby_names' => '',
		'lockredis.table_synchronous_commit' => 'off');
	return;
}

# The worker is terminated: it waits no longer, and says what it has done.
{
	my $pid = $node->table_worker_pid;

	hang_in_commit();
	$node->value("SELECT pg_terminate_backend($pid)");
	is($one->wait(10)->error, undef, 'taken by a worker that ended over it');
	commit_again();
	poll_until('another worker',
		sub { my $new = $node->table_worker_pid; $new && $new != $pid });
	$two->query_is("SELECT redis_try_lock('halfway')", 'f', 'so it is');
	$one->query_is("SELECT redis_unlock('halfway')", 't', 'given back');
}

# The session is canceled, or the time is up: the row becomes visible later and
# is nobody's.  It has to go.
foreach my $how ('cancel', 'time')
{
	$node->set('lockredis.command_timeout' => '2s') if $how eq 'time';
	hang_in_commit();
	if ($how eq 'cancel')
	{
		$one->cancel;
		$one->wait(10)->fails('57014', qr/cancel/, 'canceled');
	}
	else
	{
		$one->wait(20)->fails('58030', qr/did not answer in time/, 'time is up');
		$two->query_fails("SELECT redis_try_lock('other')", '58030',
			qr/did not answer lately/, 'nobody else waits as long');
	}
	is($node->value('SELECT pid, granted FROM redis_locks'),
		'|f', 'an orphan');
	commit_again();
	poll_until(
		'the orphan to be given back',
		sub {
			!$table->all_keys
			  && $node->value('SELECT count(*) FROM redis_locks') == 0;
		});
	$node->wait_for_up;
	$two->query_is("SELECT redis_try_lock('halfway')", 't', 'free');
	$two->query_is("SELECT redis_unlock('halfway')", 't', 'given back');
}
$node->set('lockredis.command_timeout' => '60s');

#
# No tables
#
{
	$one->query("SELECT redis_lock('dropped', '1 h')");
	$node->safe_psql('postgres', 'DROP EXTENSION lockredis');
	my $away = $node->session(dbname => 'elsewhere');
	$away->query_fails("SELECT redis_lock('nowhere')",
		'55000', qr/CREATE EXTENSION lockredis/, 'no extension');
	poll_until('the status to say so',
		sub {
			$away->value('SELECT state, last_error FROM redis_lock_status') eq 'down'
			  && $away->value('SELECT last_error FROM redis_lock_status') =~
			  /does not exist in database "postgres"/;
		});
	$node->safe_psql('postgres', 'CREATE EXTENSION lockredis');
	$away->query_is("SELECT redis_try_lock('dropped')", 'f',
		'its session does not know yet');
	$one->query_warns("SELECT redis_unlock('dropped')", 'f', '01000', qr/lost/,
		'now it does');
	$away->query_is("SELECT redis_try_lock('dropped')", 't', 'free');
	$away->quit;

	# What else an administrator does to them.
	$one->query("SELECT redis_lock('vacuumed')");
	$node->safe_psql('postgres', 'VACUUM FULL redis_lock_rows');
	$node->safe_psql('postgres', 'CREATE DATABASE brief');
	$node->safe_psql('postgres', 'DROP DATABASE brief');
	$one->query_is("SELECT redis_unlock('vacuumed')", 't', 'VACUUM FULL, DROP DATABASE');
}

#
# A crash: locks of the server that crashed end with it; rows of others, and a
# key that is to stay locked, do not.
#
{
	$one->query("SELECT redis_lock('mine', '1 h')");
	ok($table->take('theirs', 'some program', '1 h'), 'a row of somebody else');
	$two->start(
		q{CALL redis_with_lock('job', 'SELECT pg_sleep(600)', hold_at_least => '1 h')});
	poll_until('the job to run', sub { $table->cmd('EXISTS', 'job') });
	$two->kill9;
	poll_until('the server to be back',
		sub { eval { $node->value(q{SELECT pg_postmaster_start_time()}) } });
	$node->wait_for_up;
	my $three = $node->session;
	$three->query_is(
		"SELECT redis_try_lock('mine'), redis_try_lock('theirs'), redis_try_lock('job')",
		't|f|f', 'after a crash');
	$three->quit;
	$table->cmd('DEL', $_) foreach 'theirs', 'job';
}

nothing_left($node, $table);
done_testing();
