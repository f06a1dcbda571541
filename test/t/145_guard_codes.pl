# Copyright (c) 2026, lockredis contributors

# Which code the loss of a lock is told by.  40001 only where starting the
# transaction again on the same connection can succeed: transaction-level holds,
# the job runner's too; 55000 with the hint redis_unlock for what the loss of a
# session-level hold refuses, also where the key was held at both levels, also
# after its unlock.
# Who the guard is for: the end of a session drops its temporary tables, in a transaction that
# PostgreSQL begins by itself, whatever became of its locks; statements that commit in between
# are the user's.
# Proves G12, G13.  Shows what is not guaranteed: N6.

use LockRedis::Test qw(:DEFAULT run);

my ($node, $redis, $one, $two) = servers(
	sessions => 2,
	settings => {
		'lockredis.lease' => '10min',
		'lockredis.connect_timeout' => limit(3) . 's',
		'lockredis.command_timeout' => limit(30) . 's'
	});

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

# FATAL passes no PG_CATCH: the end of the session finds a request whose memory is gone, and
# nothing to release.
subtest 'terminated while COMMIT asks' => sub {
	my $s = $node->session(settings => { 'lockredis.commit_guard' => 'verify' });

	run($s, "SELECT redis_lock('t' || i, '4s') FROM generate_series(1, 600) i; BEGIN; INSERT INTO t VALUES (1)");
	$redis->freeze;
	$s->start('COMMIT');
	poll_until('the leases to end', sub { $node->count_locks('lost_at IS NULL') == 0 });
	$s->terminate;
	poll_until('its end', sub { $s->is_gone });
	$redis->thaw;
	$two->query_is('SELECT 1', '1', 'the other sessions go on');
};

# A lease that is about to end, and cannot be renewed.
subtest 'the margin' => sub {
	my $proxy = LockRedis::Proxy->new($redis);
	my $far = LockRedis::Node->create('far', url => $proxy->url,
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
		run($s{$lock}, "BEGIN; SELECT $lock('$lock', '$lease s'); INSERT INTO t VALUES (1)");
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

		# Of many it is not chance which one is told.  That of the session ends first,
		# however long it takes to have the others.
		my $s = $s{redis_xact_lock};
		$s->query('ROLLBACK');
		run($s,
			"BEGIN; SELECT redis_lock('session', '$lease s'); INSERT INTO t VALUES (1);
			 SELECT redis_xact_lock('xact ' || i, '$lease s') FROM generate_series(1, 12) i");
		$s->start(
			qq{SELECT pg_sleep(extract(epoch FROM expires_in) - $left) FROM redis_locks WHERE key = 'xact 12';
			   COMMIT});
		$proxy->mode('refuse');
		$proxy->reset_all;
		$s->wait->fails('55000', qr/"session" (?:is about to end|was lost).*$unlock/s,
			'of the transaction and of the session');
		$proxy->mode('pass');
		$far->wait_for_up;
	$_->quit foreach values %s;
};

# ----------
# Transactions that PostgreSQL begins by itself
# ----------

sub temporary_tables
{
	return $node->value(
		"SELECT count(*) FROM pg_class WHERE relpersistence = 't' AND relname = 'left_behind'"
	);
}

# A FATAL in the middle of the exit leaves the table behind, for ever if nobody
# makes temporary tables in that slot again.
sub leaves_nothing ($s, $how)
{
	$node->log_since_here;
	$how->($s);
	poll_until('the session to end', sub { $s->is_gone });
	is(temporary_tables(), 0, 'the temporary table has gone');
	is($node->times_logged(qr/FATAL:  (?!terminating connection due to administrator)/),
		0, 'no FATAL but the one that was asked for');
	ok(!$node->logged(qr/could not commit/), 'nothing was refused');
	return;
}

my %end = (
	'an ordinary disconnect' => sub { $_[0]->quit },
	'pg_terminate_backend' => sub {
		$_[0]->terminate;
		$_[0]->quit;
	},
	'a connection that breaks' => sub { $_[0]->vanish });

foreach my $guard (qw(lease verify))
{
	foreach my $end (sort keys %end)
	{
		subtest "$end, $guard" => sub {
			my $s = $node->session(settings => { 'lockredis.commit_guard' => $guard });

			run($s, "CREATE TEMP TABLE left_behind (a int); SELECT redis_lock('x')");
			$two->take_away('x');
			leaves_nothing($s, $end{$end});
		};
	}
}

subtest 'a given lease that ran out' => sub {
	my $s = $node->session;

	run($s, 'CREATE TEMP TABLE left_behind (a int)');
	$s->in_time("SELECT redis_lock('x', '50 ms')");
	$node->wait_for_loss('x');
	leaves_nothing($s, $end{'an ordinary disconnect'});
};

subtest 'on_lost = terminate' => sub {
	my $s = $node->session(settings => { 'lockredis.on_lost' => 'terminate' });

	run($s, "CREATE TEMP TABLE left_behind (a int); SELECT redis_lock('x')");
	leaves_nothing($s, sub { $two->take_away('x'); poll_until('the session to end', sub { $s->is_gone }); $s->quit });
};

# Nobody may ask Redis at that time either.
subtest 'verify, and Redis does not answer' => sub {
	my $s = $node->session(settings => { 'lockredis.commit_guard' => 'verify' });

	run($s, "CREATE TEMP TABLE left_behind (a int); SELECT redis_lock('x')");
	$redis->freeze;
	leaves_nothing($s, $end{'an ordinary disconnect'});
	$redis->thaw;
	$node->wait_for_up;
	poll_until('the lock to be given back', sub { !$redis->cmd('EXISTS', 'x') });
};

# Those of a statement of the user.
subtest 'statements that commit in between' => sub {
	my $s = $node->session;

	run($s, "CREATE TEMP TABLE mine (a int); SELECT redis_lock('x')");
	$two->take_away('x');
	foreach my $sql ('CREATE INDEX CONCURRENTLY i ON t (a)', 'VACUUM FULL t', 'DISCARD TEMP')
	{
		$s->query_fails($sql, '55000', qr/could not commit because the lock "x" was lost/,
			"$sql: as any that writes");
	}
	$s->query_is('DISCARD ALL', '', 'DISCARD ALL acknowledges the loss');
	$s->quit;
};

end_test($node, $redis, keys => qr/^redisson_lock_token:/);
