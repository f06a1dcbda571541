# Copyright (c) 2026, lockredis contributors

# Which code the loss of a lock is told by.  40001 only where starting the
# transaction again on the same connection can succeed: transaction-level holds,
# the job runner's too; 55000 with the hint redis_unlock for what the loss of a
# session-level hold refuses, also where the key was held at both levels, also
# after its unlock.
# Proves G13.

use LockRedis::Test qw(:DEFAULT run);

my ($node, $redis, $one, $two) = servers(
	sessions => 2, settings => { 'lockredis.lease' => '10min' });

run($one, 'CREATE TABLE t (a int)');

my $again = qr/HINT:  (?!.*redis_unlock).*[Ss]tart the transaction again/;
my $unlock = qr/HINT:  .*redis_unlock/;

# What uses a lost lock, by level.
my %level = (
	transaction => [ "SELECT redis_xact_lock('k')", '40001', $again ],
	session => [ "SELECT redis_lock('k')", '55000', $unlock ],
	both => [ "SELECT redis_lock('k'); SELECT redis_xact_lock('k')", '55000', $unlock ],
	'both, the other way round' =>
	  [ "SELECT redis_xact_lock('k'); SELECT redis_lock('k')", '55000', $unlock ]);
my @uses = (
	map({ "SELECT $_" } "redis_assert_held('k')",
		"redis_lock('k')",
		"redis_try_lock('k')",
		"redis_lock('k', '1 h')",
		"redis_xact_lock('k')",
		"redis_try_xact_lock('k', '1 s', '1 h')",
		"redis_fenced_lock('k')",
		"redis_fenced_xact_lock('k')"),
	'COMMIT');

foreach my $level (sort keys %level)
{
	my ($take, $sqlstate, $hint) = @{ $level{$level} };

	subtest "lost at this level: $level" => sub {
		foreach my $use (@uses)
		{
			run($one, "BEGIN; INSERT INTO t VALUES (1); $take");
			$two->take_away('k');
			$one->query_fails($use, $sqlstate, qr/"k" was lost.*$hint/s, $use);
			$one->query('ROLLBACK; SELECT redis_unlock_all()');
		}
	};

	# The request itself finds out; it is not the lock that it would have taken.
	subtest "found by the request: $level" => sub {
		foreach my $use ("redis_lock('k', '1 h')", "redis_xact_lock('k', '1 h')",
			"redis_fenced_lock('k')", "redis_fenced_xact_lock('k')")
		{
			run($one, "BEGIN; $take");
			$redis->cmd('DEL', 'k');
			$one->query_fails("SELECT $use", $sqlstate, qr/"k" was lost.*$hint/s, $use);
			$one->query('ROLLBACK; SELECT redis_unlock_all()');
		}
	};
}

# Of many losses it is not chance which one is told.
subtest 'many transaction-level losses and one of the session' => sub {
	run($one,
		"SELECT redis_lock('session'); BEGIN; INSERT INTO t VALUES (1);
		 SELECT redis_xact_lock('xact ' || i) FROM generate_series(1, 12) i");
	$two->take_away('session', map { "xact $_" } 1 .. 12);
	$one->query_fails('COMMIT', '55000', qr/"session" was lost.*$unlock/s, 'COMMIT');

	# A reader may commit under it, so trying again does help.
	run($one, "BEGIN; SELECT redis_xact_lock('reader')");
	$two->take_away('reader');
	$one->query_fails('COMMIT', '40001', qr/"reader" was lost.*$again/s, 'a reader');
	run($one, "BEGIN; SELECT redis_xact_lock('reader'); COMMIT");
	$one->query("SELECT redis_unlock('session')");
};

# The one that tells a framework to try again is over when it does.
subtest 'trying again' => sub {
	foreach my $level (sort keys %level)
	{
		my ($take, $sqlstate) = @{ $level{$level} };

		run($one, "BEGIN; INSERT INTO t VALUES (1); $take");
		$two->take_away('k');
		$one->query_fails('COMMIT', $sqlstate, qr/"k" was lost/, $level);
		my $result = $one->query("BEGIN; INSERT INTO t VALUES (1); $take; COMMIT");
		$one->query('ROLLBACK');
		is($result->error ? $result->sqlstate : '',
			$sqlstate eq '40001' ? '' : '55000', "$level: again");
		$one->query("SELECT redis_unlock('k')");
		run($one, 'INSERT INTO t VALUES (1)');
		$one->query('SELECT redis_unlock_all()');
	}
};

subtest 'unlocked' => sub {
	run($one, "SELECT redis_lock('k'); BEGIN; INSERT INTO t VALUES (1)");
	$two->take_away('k');
	$one->query("SELECT redis_unlock('k')");
	$one->query_fails('COMMIT', '55000', qr/"k" was lost.*$unlock/s, 'COMMIT');
	run($one, 'INSERT INTO t VALUES (1)');

	run($one,
		"BEGIN; INSERT INTO t VALUES (1); SELECT redis_xact_lock('k'); SELECT redis_lock('k')");
	$two->take_away('k');
	$one->query("SELECT redis_unlock('k')");
	$one->query_fails('COMMIT', '55000', qr/"k" was lost.*$unlock/s, 'held at both levels');
	run($one, 'INSERT INTO t VALUES (1)');
};

# The runner's hold is nobody's to unlock.
subtest 'redis_with_lock' => sub {
	my $job = sub {
		return "CALL redis_with_lock('k', \$c\$ DO \$\$ BEGIN $_[0] END \$\$ \$c\$)";
	};

	$one->query_fails(
		$job->("PERFORM redis_force_unlock('k'); INSERT INTO t VALUES (1);"),
		'40001', qr/could not commit.*"k" was lost.*$again/s, 'its commit');
	$one->query_fails(
		$job->("PERFORM redis_force_unlock('k'); PERFORM redis_assert_held('k');"),
		'40001', qr/"k" was lost.*$again/s, 'redis_assert_held');
	$one->query_fails(
		$job->("PERFORM redis_force_unlock('k'); PERFORM redis_lock('k');"),
		'40001', qr/"k" was lost.*$again/s, 'taking it again');
	$one->query_fails(
		$job->("PERFORM redis_lock('k'); PERFORM redis_force_unlock('k'); PERFORM redis_assert_held('k');"),
		'55000', qr/"k" was lost.*$unlock/s, 'beside a hold of the session');
	$one->query("SELECT redis_unlock('k')");
	run($one, $job->('INSERT INTO t VALUES (1);'));
};

# A lease that is about to end, and cannot be renewed.
subtest 'the margin' => sub {
	my $proxy = LockRedis::Proxy->new($redis);
	my $far = LockRedis::Node->create(
		'far',
		url => $proxy->url,
		settings => {
			'lockredis.lease' => '10min',
			'lockredis.connect_timeout' => limit(2) . 's',
			'lockredis.command_timeout' => limit(2) . 's'
		});
	my %s = (redis_lock => $far->session, redis_xact_lock => $far->session);
	my $lease = limit(4) > 10 ? 10 : limit(4);
	my $left = $lease * 0.08;

	$far->wait_for_up;
	$far->value('CREATE TABLE t (a int)');
	foreach my $lock (sort keys %s)
	{
		run($s{$lock},
			"BEGIN; SELECT $lock('$lock', '$lease s'); INSERT INTO t VALUES (1)");
		$s{$lock}->start(
			qq{SELECT pg_sleep(extract(epoch FROM expires_in) - $left) FROM redis_locks WHERE key = '$lock';
			   COMMIT});
	}
	$proxy->mode('refuse');
	$proxy->reset_all;
	$s{redis_lock}->wait->fails('55000', qr/"redis_lock" (?:is about to end|was lost).*$unlock/s,
		'of the session');
	$s{redis_xact_lock}->wait->fails('40001',
		qr/"redis_xact_lock" (?:is about to end|was lost).*$again/s,
		'of the transaction');
	$proxy->mode('pass');
	$far->wait_for_up;

	$_->quit foreach values %s;
};

end_test($node, $redis, keys => qr/^redisson_lock_token:/);
