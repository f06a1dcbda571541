# Copyright (c) 2026, lockredis contributors

# Table mode: ends of the worker, of the server and of sessions in the middle of a
# batch.  Nothing is taken twice; after a crash of the server its rows are cleared; what
# a session that was cancelled or ended has asked for is undone.
# Proves G5, G25, G29.

use LockRedis::Test;

my $table = LockRedis::Table->new;
# As if there could be a standby, so that a commit can be made to wait for it.
my $node = LockRedis::Node->create(
	'main',
	redis => $table,
	settings => {
		wal_level => 'replica',
		max_wal_senders => 1,
		max_connections => 50,
		'lockredis.lease' => '1h',
		'lockredis.command_timeout' => limit(20) . 's'
	});
my @s;

sub sessions ($count)
{
	$node->wait_for_up;
	@s = map { $node->session } 1 .. $count;
	$_->query("SELECT redis_try_lock('hello'), redis_unlock('hello')") foreach @s;
	return;
}

# Each session asks for a key of its own; returns when all have.
sub ask
{
	$s[$_]->start("SELECT redis_lock('key $_')") foreach 0 .. $#s;
	poll_until(
		'all requests to be submitted',
		sub {
			$node->value(
				q{SELECT count(*) FROM pg_stat_activity
				  WHERE backend_type = 'client backend' AND state = 'active'
				  AND wait_event_type = 'Extension'}) == @s;
		});
	return;
}

# Requests in the middle of a batch: all six are in one transaction, whose commit
# waits for a standby that there is not.  Some sessions end, then the worker is
# told to: it has committed, and whose sessions are still there have the locks.
sub in_the_middle
{
	my $pid = $node->table_worker_pid;
	my @before = $table->all_keys;

	$node->let_commits_wait(1);
	kill 'STOP', $pid;
	ask();
	kill 'CONT', $pid;
	$node->wait_for_event($pid, 'SyncRep');
	is_deeply([ $table->all_keys ], \@before, 'middle: nobody sees the rows');
	return $pid;
}

{
	sessions(6);
	my $pid = in_the_middle();

	$s[1]->cancel;
	$s[1]->wait->fails('57014', qr/user request/, 'middle: cancelled');
	$s[2]->terminate;
	$s[2]->wait->fails('57P01', qr/terminating/, 'middle: terminated');
	$s[3]->vanish;
	$node->value("SELECT pg_terminate_backend($pid)");
	is($s[$_]->wait(limit(15))->error, undef, "middle: session $_ has its lock") foreach 0, 4, 5;
	$node->let_commits_wait(0);
	poll_until('another worker', sub { ($node->table_worker_pid // $pid) != $pid });
	poll_until('what is nobody\'s to go', sub { $table->all_keys == 3 && $node->count_locks == 3 });
	is( $node->value(
			q{SELECT string_agg(key, ',' ORDER BY key)
			  FROM redis_locks JOIN redis_lock_rows USING (key, owner) WHERE granted}),
		'key 0,key 4,key 5', 'middle: they have what they were given, and nobody else has any');
	cmp_ok($node->value('SELECT count(DISTINCT xmin::text) FROM redis_lock_rows'), '<=', 2,
		'middle: they have shared a commit (or two: it may have been stopped when it had collected some)');
	$s[1]->query_is("SELECT redis_is_held('key 1')", 'f', 'middle: who was cancelled has none');
	$s[$_]->query_is("SELECT redis_is_held('key $_'), redis_unlock('key $_')", 't|t', "middle: session $_")
	  foreach 0, 4, 5;
	$_->quit foreach @s;
	nothing_left($node, $table, name => 'middle: nothing is left');
}

# The worker is killed there: the rows are on disk, of an instance that has
# ended with the server, and count for nobody.
{
	sessions(3);
	ok($table->take('theirs', 'some program', '1h'), 'a row that needs no server');
	$s[0]->query_is("SELECT redis_lock('before'), redis_read_lock('read')", '|', 'locks that are held');
	my $pid = in_the_middle();
	kill 'KILL', $pid;
	ok($s[$_]->wait(limit(15))->dead, "killed: the crash ends session $_") foreach 0 .. 2;
	$_->quit foreach @s;
	poll_until('the server to be back', sub { eval { $node->value('SELECT 1') } });
	$node->let_commits_wait(0);
	$node->wait_for_up;
	poll_until('rows of the dead instance to be cleared', sub { $table->all_keys == 1 });
	is_deeply($table->hash('theirs'), { 'some program' => 1 }, 'killed: that row stays');
	my $s = $node->session;
	$s->query_is(
		"SELECT redis_try_lock('before'), redis_try_lock('key 0'), redis_try_write_lock('read')",
		't|t|t', 'killed: all are free');
	is_deeply([ $table->shares('read') ], [], 'killed: the share of a reader has gone');
	$s->quit;
	ok($table->give_back('theirs', 'some program'), 'and goes');
	nothing_left($node, $table, name => 'killed: nothing is left');
}

# A count that is committed, but not answered.  The watchdog, which was stopped, asks again after
# more counts than there are tickets; those were answered.
{
	sessions(2);
	$s[0]->query("SELECT redis_semaphore_set('s', 0), redis_semaphore_set('o', 0)");
	my $watchdog = $node->watchdog_pid;
	$node->let_commits_wait(1);
	$s[0]->start("SELECT redis_semaphore_release('s')");
	$node->wait_for_event($node->table_worker_pid, 'SyncRep');
	kill 'STOP', $watchdog;
	$s[0]->cancel;
	$s[0]->wait->fails('57014', qr/user request/, 'ticket: cancelled');
	$node->let_commits_wait(0);
	$s[1]->query("SELECT count(redis_semaphore_release('o')) FROM generate_series(1, 8300)");
	kill 'CONT', $watchdog;
	poll_until('the watchdog to have its answer', sub { $node->count_locks == 0 });
	$s[1]->query_is("SELECT redis_semaphore_available('s')", '1', 'ticket: counted once');
}

end_test($node, $table);
