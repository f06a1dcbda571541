# Copyright (c) 2026, lockredis contributors

# A job's lock that is found lost when the runner gives it back.  What else the
# session has of that key is lost as well and has yet to be told of; the
# transaction that goes on after the job has done nothing under the job's lock,
# so it may commit.
# Also how often a session has a lock besides a job that failed.
# Proves G2, G6, G24.

use LockRedis::Test qw(:DEFAULT run);

my ($node, $redis, $one, $blocker) = servers(
	sessions => 2, settings => { 'lockredis.lease' => '10min' });

run($one, 'CREATE TABLE t (a int)');

my $job = q{CALL redis_with_lock('k', 'SELECT pg_advisory_lock_shared(1)', ran => ran)};
my $in_a_do = sub {
	my ($more) = @_;
	return "DO \$\$ DECLARE ran boolean; BEGIN $job; $more; END \$\$";
};

# The lock goes while the command runs, which has written nothing.
sub run_and_lose
{
	my ($sql, $lose) = @_;

	run($blocker, 'SELECT pg_advisory_lock(1)');
	$one->start($sql);
	poll_until('the command to wait',
		sub { $node->value('SELECT count(*) FROM pg_locks WHERE NOT granted') == 1 });
	$lose->();
	run($blocker, 'SELECT pg_advisory_unlock(1)');
	my $result = $one->wait;
	run($one, 'SELECT pg_advisory_unlock_all()');
	return $result;
}

# How the session knows: it does not before it gives the lock back; or it does.
my %lose = (
	'found by the release' => sub { $redis->cmd('DEL', 'k') },
	'known before' => sub { $node->value("SELECT redis_force_unlock('k')") });

foreach my $how (sort keys %lose)
{
	# The session has the key too: then it has to be known, as the job's hold is not the last.
	foreach my $holds ($how eq 'known before' ? (1, 2) : ())
	{
		run($one, "SELECT redis_lock('k')") foreach 1 .. $holds;
		my $result = run_and_lose($in_a_do->('NULL'), $lose{$how});
		is($result->error, undef, "$how, $holds holds: the job ends");
		is_deeply(
			[ map { $_->message } $result->warnings ],
			['the lock "k" was lost'],
			'with a warning');
		$one->query_fails('INSERT INTO t VALUES (1)',
			'55000', qr/"k" was lost.*redis_unlock/s, 'what the session has is lost');
		$one->query_warns("SELECT redis_unlock('k')", 'f', '01000', qr/"k" was lost/,
			'until it is unlocked');
		$one->query_is('INSERT INTO t VALUES (1); DELETE FROM t', '', 'which ends it');
	}

	# It has not.
	my $result = run_and_lose($in_a_do->('INSERT INTO t VALUES (2)'), $lose{$how});
	is($result->error, undef, "$how: what comes after the job is committed");
	is_deeply(
		[ map { $_->message } $result->warnings ],
		['the lock "k" was lost'],
		'with a warning');
	is($node->value('SELECT count(*) FROM t'), 1, 'indeed');
	run($one, 'DELETE FROM t');
}

# What the session unlocks then is another matter.
{
	run($one, "SELECT redis_lock('k')");
	my $result =
	  run_and_lose($in_a_do->("INSERT INTO t VALUES (3); PERFORM redis_unlock('k')"),
		$lose{'known before'});
	$result->fails('55000', qr/"k" was lost/, 'a loss that is unlocked after the job');
	is($node->value('SELECT count(*) FROM t'), 0, 'nothing was written');
}

# ----------
# A job that fails beside holds of the session
# ----------

# The store knows nothing of how many there are; the next one gets the lock as it should be.
foreach my $command ('SELECT 1/0', q{CALL redis_with_lock('k', 'SELECT 1/0')})
{
	run($one, "SELECT redis_lock('k'), redis_lock('k')");
	(my $quoted = $command) =~ s/'/''/g;
	$one->query_fails("CALL redis_with_lock('k', '$quoted')",
		'22012', qr/division/, "$command fails");
	$one->query_is("SELECT redis_hold_count('k')", 2, 'two holds are left');
	$one->query_is("SELECT redis_unlock('k'), redis_unlock('k')", 't|t', 'given back');
	is(scalar($redis->all_keys), 0, 'all of it');
}

# A waiter gets the lock as it should be.
{
	my $before = $node->lock_stat('handoffs');

	run($one, "SELECT redis_lock('k')");
	$one->query("CALL redis_with_lock('k', 'SELECT 1/0')");
	$blocker->start("SELECT redis_lock('k')");
	$node->wait_for_waiters('k', 1);
	run($one, "SELECT redis_unlock('k')");
	is($blocker->wait->error, undef, 'the next one has it');
	is($node->lock_stat('handoffs') - $before, 1, 'handed over');
	is_deeply([ values %{ $redis->hash('k') } ], [1], 'as it should be');
	run($blocker, "SELECT redis_unlock('k')");
}

# The lock was lost: its session sees it.
{
	run($one, "SELECT redis_lock('k')");
	$one->query(q{CALL redis_with_lock('k', 'SELECT redis_force_unlock(''k''); SELECT 1/0')});
	$one->query_fails("SELECT redis_lock('k')",
		'55000', qr/was lost/, 'a lock that was lost meanwhile is lost');
	$one->query_warns("SELECT redis_unlock('k')",
		'f', '01000', qr/was lost/, 'until it is unlocked');
}

end_test($node, $redis);
