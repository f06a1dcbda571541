# Copyright (c) 2026, lockredis contributors

# CALL redis_with_lock and the lock itself: lost during the command, kept for
# hold_at_least whatever ends the command, and a Redis that is away.
# Proves G24.

use LockRedis::Test qw(:DEFAULT quoted);
use LockRedis::Topic::Jobs;

start_servers();

# ----------
# The lock is lost
# ----------

# A given lease that ends while the command runs; another session takes the lock
# meanwhile.  What has written must not commit.
subtest 'a lease that ends during the command' => sub {
	my $lease = limit(2);
	my $nap = $lease * 1.5;

	$one->start(
		"CALL redis_with_lock('lost', 'INSERT INTO done VALUES (''late''); SELECT pg_sleep($nap)', lease => '$lease s')"
	);
	$node->wait_for_event($one, 'PgSleep');
	$two->query_is(
		"CALL redis_with_lock('lost', 'INSERT INTO done VALUES (''next'')', wait => NULL)",
		't', 'the next one has it when the lease has ended');
	my $result = $one->wait;
	$result->fails('40001', qr/could not commit because the lock "lost" was lost.*expired/s,
		'its commit is refused');
	is(done(), 'next', 'only the next one has done something');
	$one->query_is("SELECT redis_is_held('lost'), redis_hold_count('lost')",
		'f|0', 'the loss ends with the job');
	$one->query_is("CALL redis_with_lock('lost', 'SELECT 1')",
		't', 'which can be run again');
	nothing_left($node, $redis);

	# One that has written nothing has run: what it says is only a warning.
	$result = $one->query(
		"CALL redis_with_lock('lost', 'SELECT pg_sleep($nap)', lease => '$lease s')");
	is($result->out, 't', 'a command that has not written');
	my @warnings = $result->warnings;
	is(scalar @warnings, 1, 'with a warning');
	like($warnings[0]->message, qr/the lock "lost" was lost/, 'of the loss')
	  if @warnings;
	nothing_left($node, $redis);

};

# The command unlocks a hold of its own after the lock was lost.  That must not
# hide from the job's commits that its lock is gone.
subtest 'a loss that the command unlocks' => sub {
	foreach my $unlock ("redis_unlock('lost')", 'redis_unlock_all()')
	{
		my $command = <<"SQL";
DO \$\$ BEGIN
	PERFORM redis_lock('lost');
	PERFORM redis_force_unlock('lost');
	PERFORM $unlock;
	ROLLBACK;
	INSERT INTO done VALUES ('late');
END \$\$
SQL
		$one->query("CALL redis_with_lock('lost', " . quoted($command) . ')')
		  ->fails('40001', qr/could not commit because the lock "lost" was lost/,
			"$unlock: the commit is refused");
		is(done(), '', "$unlock: nothing was done");
		$one->query_is("SELECT redis_hold_count('lost'), redis_lock('lost'), redis_unlock('lost')",
			'0||t', "$unlock: the loss ends with the job");
	}
	nothing_left($node, $redis);
};

# ----------
# hold_at_least
# ----------

# The key must be there for a while after the job has ended, and go by itself.
# What is left is compared with the clock of the test, as the holder started it
# after "start".
sub stays_locked ($key, $start, $hold, $name)
{
	my $left = $redis->cmd('PTTL', $key) / 1000;
	my $passed = now() - $start;

	cmp_ok($left, '>', $hold - $passed - 0.1, "$name: not shorter")
	  || diag "$passed s have passed";
	cmp_ok($left, '<=', $hold, "$name: not longer");
	return;
}

subtest 'hold_at_least' => sub {
	my $hold = limit(4);
	my $more = "hold_at_least => '$hold s'";
	my $start = now();

	# Shorter than the lease, longer than the command.
	$one->query_is(
		"CALL redis_with_lock('keep', 'INSERT INTO done VALUES (''ran'')', $more)",
		't', 'a quick command');
	stays_locked('keep', $start, $hold, 'a quick command');
	is($node->count_locks, 0, 'nobody on this server holds it');
	$one->query_is("SELECT redis_is_held('keep'), redis_is_locked('keep')",
		'f|t', 'the session neither');
	$one->query_is("CALL redis_with_lock('keep', 'SELECT 1')",
		'f', 'and cannot take it');
	$two->query_is(
		"CALL redis_with_lock('keep', 'INSERT INTO done VALUES (''next'')', wait => NULL)",
		't', 'whoever waits gets it');
	cmp_ok(now() - $start, '>=', $hold, 'when the time has passed');
	is(done(), 'ran next', 'what was done');
	nothing_left($node, $redis);

	# Longer than the lease: no renewal is needed.
	my $long = $lease_ms / 1000 + limit(2);
	$start = now();
	$one->query_is(
		"CALL redis_with_lock('keep', 'SELECT 1', hold_at_least => '$long s')",
		't', 'longer than the lease');
	stays_locked('keep', $start, $long, 'longer than the lease');
	$redis->cmd('DEL', 'keep');

	# Passed already: given back at once.
	$one->query_is(
		"CALL redis_with_lock('keep', 'SELECT pg_sleep(0.2)', hold_at_least => '0.1 s')",
		't', 'a command that lasts longer');
	is($redis->cmd('EXISTS', 'keep'), 0, 'is released at its end');

	# It belongs to the key: whoever releases it in the end respects it.
	$start = now();
	$one->query_is("SELECT redis_lock('keep')", '', 'held by the session');
	$one->query_is("CALL redis_with_lock('keep', 'SELECT 1', hold_at_least => '$long s')",
		't', 'a job beside it');
	$one->query_is("SELECT redis_unlock('keep')", 't', 'given back');
	stays_locked('keep', $start, $long, 'beside a hold of the session');
	$redis->cmd('DEL', 'keep');
	nothing_left($node, $redis);

	# Not a command, so nothing to repeat: errors keep the key too.
	$start = now();
	$one->query_fails("CALL redis_with_lock('keep', 'SELECT 1/0', $more)",
		'22012', qr/division/, 'a command that fails');
	stays_locked('keep', $start, $hold, 'a command that fails');
	$redis->cmd('DEL', 'keep');

	# A lease that ends before hold_at_least: lost for the job, but nobody else
	# gets the key before its time.
	my $patient = limit(30);
	$start = now();
	$one->query_fails(
		"CALL redis_with_lock('keep', 'INSERT INTO done VALUES (''late''); SELECT pg_sleep(3)', lease => '2 s', hold_at_least => '$patient s')",
		'40001', qr/the lock "keep" was lost/, 'a lease that ends before');
	stays_locked('keep', $start, $patient, 'a lease that ends before');
	poll_until('the watchdog to have done its part', sub { $node->count_locks == 0 });
	stays_locked('keep', $start, $patient, 'after it was given back');
	$two->query_is("CALL redis_with_lock('keep', 'SELECT 1')",
		'f', 'nobody else has it meanwhile');
	$redis->cmd('DEL', 'keep');

};

foreach my $how ('a cancel', 'pg_terminate_backend', 'the client vanishes')
{
	subtest "hold_at_least and $how" => sub {
		my $s =
		  $node->session(settings => { client_connection_check_interval => '100ms' });
		my $hold = limit(20);
		my $start = now();

		start_sleeper($s, 'keep', more => "hold_at_least => '$hold s'");
		if ($how eq 'a cancel')
		{
			$s->cancel;
			$s->wait->fails('57014', qr/user request/, 'cancelled');
		}
		else
		{
			$how =~ /terminate/ ? $s->terminate : $s->vanish;
			poll_until('the backend to end', sub { $s->is_gone });
		}
		stays_locked('keep', $start, $hold, $how);
		is($node->count_locks, 0, 'nobody on this server holds it');
		$two->query_is("CALL redis_with_lock('keep', 'SELECT 1')",
			'f', 'and nobody can take it');
		is(done(), '', 'rolled back');
		$redis->cmd('DEL', 'keep');
		$s->quit;
		nothing_left($node, $redis);
	};
}

# Redis is frozen when the session is terminated, so its release is not
# answered; the watchdog gives it back later, and keeps the key all the same.
subtest 'hold_at_least, and Redis is frozen at the end' => sub {
	my $hold = limit(30);
	my $s = $node->session;
	my $start = now();

	start_sleeper($s, 'keep', more => "hold_at_least => '$hold s'");
	$redis->freeze;
	$s->terminate;
	poll_until('the backend to end', sub { $s->is_gone });
	is($node->count_locks('pid IS NULL'), 1, 'left to the watchdog');
	$redis->thaw;
	poll_until('the watchdog to give it back', sub { $node->count_locks == 0 });
	stays_locked('keep', $start, $hold, 'given back by the watchdog');
	$redis->cmd('DEL', 'keep');
	$s->quit;
	nothing_left($node, $redis);
};

# The server crashes while the command runs.  Nobody gives the lock back; the
# key is there until its time has passed, since the first request asked for it.
subtest 'a crash during the command' => sub {
	my $hold = limit(12);
	my $s = $node->session;
	my $start = now();

	start_sleeper($s, 'keep', more => "lease => '@{[ limit(3) ]} s', hold_at_least => '$hold s'");
	$s->kill9;
	$_->quit foreach $s, $one, $two;
	poll_until('the server to restart',
		sub { eval { $node->value('SELECT 1') } });
	stays_locked('keep', $start, $hold, 'after the crash');
	($one, $two) = map { $node->session } 1 .. 2;
	$one->query_is("CALL redis_with_lock('keep', 'SELECT 1')",
		'f', 'busy for the new instance');
	is(done(), '', 'rolled back');
	poll_until('the key to go by itself',
		sub { !$redis->cmd('EXISTS', 'keep') });
	cmp_ok(now() - $start, '>=', $hold - 0.01, 'until its time has passed');
	nothing_left($node, $redis);
};

# ----------
# Redis is away
# ----------

# The command runs while Redis is frozen: its commit asks nobody, the release is
# left to the watchdog, and the user is told.
subtest 'Redis is frozen when the job ends' => sub {
	$two->query('SELECT pg_advisory_lock(1)');
	$one->start(
		"CALL redis_with_lock('frozen', 'INSERT INTO done VALUES (''ran''); SELECT pg_advisory_xact_lock(1)', lease => '1 hour')"
	);
	$node->wait_for_postgres_lock($one);
	$redis->freeze;
	$two->query('SELECT pg_advisory_unlock(1)');
	my $result = $one->wait;
	is($result->out, 't', 'it has run');
	my @warnings = $result->warnings;
	is(join(' ', map { $_->sqlstate } @warnings), '58030', 'with a warning');
	is(done(), 'ran', 'and has committed');
	$redis->thaw;
	nothing_left($node, $redis);
};

# Redis is stopped before: nothing runs.
subtest 'no Redis' => sub {
	$redis->stop;
	$one->query_fails(
		"CALL redis_with_lock('down', 'INSERT INTO done VALUES (''ran'')')",
		'58000', qr/could not reach the lock store/, 'an error, not "busy"');
	is(done(), '', 'nothing has run');
	$redis->start;
	$node->wait_for_up;
	$one->query_is("CALL redis_with_lock('down', 'SELECT 1')", 't', 'back again');
	nothing_left($node, $redis);
};

end_test($node, $redis);
