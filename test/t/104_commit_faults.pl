# Copyright (c) 2026, lockredis contributors

# The end of a transaction while Redis fails: the release never raises, delays the
# client by its budget at most, and what was not answered is given back by the
# watchdog, for COMMIT, ROLLBACK, savepoints and many locks.  All that may fail is
# before the commit: the guard without an answer, a cancel.  Sessions that end.
# (Exception blocks, connections that are closed in the middle and a crash are the simulator's:
# its mutants raises_in_abort, waits_in_abort, release_unknown, unread_all and same_instance.)
# Proves G5, G12, G15.

use LockRedis::Test qw(:DEFAULT run);

# Budget of a call, and what may be added on a busy machine.
my ($connect, $command) = (limit(0.5), limit(2));
my $budget = ($connect + $command) * 1000;
my $slack = limit(6) * 1000;
my ($node, $redis, $proxy, $one) = LockRedis::Node->create_behind_proxy(
	'main', sessions => 1,
	settings => {
		'lockredis.lease' => '10min',
		'lockredis.connect_timeout' => "${connect}s",
		'lockredis.command_timeout' => "${command}s"
	});

# Afterwards Redis has every script: a fault is to hit the first attempt.
run($one,
	q{CREATE TABLE t (a int);
	  BEGIN; SELECT redis_lock('warm'), redis_lock('warm'), redis_xact_lock('warm');
	  SELECT redis_unlock_all(); COMMIT;
	  SET lockredis.commit_guard = 'verify'; SELECT redis_xact_lock('warm');
	  RESET lockredis.commit_guard});

# All is well again, and nothing has been forgotten.
sub recovered ($s, $name)
{
	poll_until('all locks to be given back',
		sub { !$redis->all_keys && $node->count_locks == 0 });
	$node->wait_until_asked($s);
	return $s->query_is(
		"BEGIN; SELECT redis_xact_lock('a'), redis_xact_lock('b'); COMMIT",
		'|', "$name: locks work again, and all were given back");
}

sub new_connections ($mode)
{
	$proxy->mode($mode);
	return $proxy->reset_all;
}

# A release is the only request that publishes.
my @on_reply = (on => 'reply', match => 'redisson_lock__channel', times => 0);

# What is done, and undone
my %fault = (
	'stopped' => [ sub { $redis->stop(keep => 1) }, sub { $redis->start } ],
	'stopped, its data lost' => [ sub { $redis->stop }, sub { $redis->start } ],
	'frozen' => [ sub { $redis->freeze }, sub { $redis->thaw } ],
	'unreachable' => [ sub { new_connections('hang') }, sub { $proxy->mode('pass') } ],
	'refusing connections' => [ sub { new_connections('refuse') }, sub { $proxy->mode('pass') } ],
	'resetting connections' => [ sub { new_connections('reset') }, sub { $proxy->mode('pass') } ],
	'dropping the reply' =>
	  [ sub { $proxy->rule(@on_reply, action => 'drop') }, sub { $proxy->clear } ],
	'sending half of the reply' => [
		sub { $proxy->rule(@on_reply, action => 'truncate', bytes => 3, then => 'hold') },
		sub { $proxy->clear; $proxy->release }
	],
	'answering with an error' => [
		sub { $redis->cmd('CONFIG', 'SET', 'min-replicas-to-write', 1) },
		sub { $redis->cmd('CONFIG', 'SET', 'min-replicas-to-write', 0) }
	]);

# [name, before the fault, the end under the fault, rows that are written,
# whether the transaction goes on].
my @ends = (
	[ 'COMMIT', 'BEGIN; INSERT INTO t VALUES (1)', 'COMMIT', 1 ],
	[ 'COMMIT of a reader', 'BEGIN', 'COMMIT', 0 ],
	[ 'ROLLBACK', 'BEGIN; INSERT INTO t VALUES (1)', 'ROLLBACK', 0 ],
	[
		'ROLLBACK TO', 'BEGIN; INSERT INTO t VALUES (1); SAVEPOINT s',
		'ROLLBACK TO s', 1, 1
	]);

# A session for each end; all of them end under the same fault at the same time.
# None asks the store for a permission, so none fails.
my @many = map { $node->session } @ends;

foreach my $fault (sort keys %fault)
{
	subtest "Redis $fault" => sub {
		my $before = $node->count_rows('t');
		my $rows = 0;

		foreach my $i (0 .. $#ends)
		{
			my (undef, $begin) = @{ $ends[$i] };

			# Those that the last fault disconnected may need several attempts.
			$node->wait_until_asked($many[$i]);
			run($many[$i], "$begin; SELECT redis_xact_lock('a $i'), redis_xact_lock('b $i')");
		}
		$fault{$fault}[0]->();
		$many[$_]->start($ends[$_][2]) foreach 0 .. $#ends;
		foreach my $i (0 .. $#ends)
		{
			my ($name, $begin, $sql, $written, $goes_on) = @{ $ends[$i] };
			my $s = $many[$i];
			my $result = $s->wait;
			is($result->{raw}, '', "$name: works without a word");
			cmp_ok($result->ms, '<', $budget + $slack, 'within its budget');
			$s->query_is('SELECT 1', 1, 'the next statement works');
			$rows += $written;
			next unless $goes_on;
			$result = $s->query('INSERT INTO t SELECT 2 WHERE false; COMMIT');
			is($result->{raw}, '', 'the transaction goes on, and commits');
			cmp_ok($result->ms, '<', $budget + $slack, 'in time');
		}
		is($node->count_rows('t') - $before, $rows, 'the outcomes are right');
		$fault{$fault}[1]->();
		recovered($_, "Redis $fault") foreach $many[0], $many[-1];
	};
}
$_->quit foreach @many;

# Scripts that were flushed do not stop it: the release is repeated, more than one command of it.
run($one, "BEGIN; SELECT count(redis_xact_lock('k ' || i)) FROM generate_series(1, 120) i");
$redis->cmd('SCRIPT', 'FLUSH');
is($one->query('COMMIT')->{raw}, '', 'scripts were flushed: works');
recovered($one, 'scripts were flushed');

subtest '1,000 locks, Redis frozen' => sub {
	my $before = $node->count_rows('t');

	run($one,
		"BEGIN; INSERT INTO t VALUES (1);
		 SELECT count(redis_xact_lock('k ' || i)) FROM generate_series(1, 1000) i");
	$redis->freeze;
	my $result = $one->query('COMMIT');
	is($result->{raw}, '', 'commits');
	cmp_ok($result->ms, '<', $budget + $slack, 'within its budget');
	is($node->count_rows('t') - $before, 1, 'with its row');
	is($node->count_locks('pid IS NULL AND NOT granted'), 1000, 'all are left to the watchdog');
	$redis->thaw;
	recovered($one, '1,000 locks');
};

# ----------
# Before the commit: there it may fail, cleanly
# ----------

subtest 'the guard gets no answer' => sub {
	foreach my $name ('frozen', 'stopped')
	{
		my $before = $node->count_rows('t');

		run($one,
			"BEGIN; SET LOCAL lockredis.commit_guard = 'verify';
			 SELECT redis_xact_lock('verified'); INSERT INTO t VALUES (1)");
		$fault{$name}[0]->();
		my $result = $one->query('COMMIT');
		like($result->sqlstate, qr/^58/, "$name: the commit fails")
		  || diag $result->{raw};

		# Asking, then giving back; by then the node is known not to answer.
		cmp_ok($result->ms, '<', 2 * $budget + $slack, 'in time');
		is($node->count_rows('t'), $before, 'nothing is committed');
		$one->query_is('SELECT 1', 1, 'the next statement works');
		$fault{$name}[1]->();
		recovered($one, $name);
	}
};

# A cancel while the guard waits: the transaction fails, and releases.
subtest 'cancelled while the guard asks' => sub {
	my $before = $node->count_rows('t');
	my $id;

	run($one,
		"BEGIN; SET LOCAL lockredis.commit_guard = 'verify';
		 SELECT redis_xact_lock('verified'); INSERT INTO t VALUES (1)");
	$id = $proxy->rule(match => 'verified', action => 'hold');
	$one->start('COMMIT');
	$proxy->wait_for_rule($id);
	$one->cancel;
	$one->wait->fails('57014', qr/cancel/, 'the commit fails');
	$proxy->let_go;
	is($node->count_rows('t'), $before, 'nothing is committed');
	recovered($one, 'cancelled');
};

# ----------
# Sessions that end
# ----------

# The release is under way and is not answered; it cannot be interrupted, as the
# transaction is committed, but it ends.
foreach my $signal ('terminate', 'cancel')
{
	subtest "$signal while the release is not answered" => sub {
		my $s = $node->session;
		my $before = $node->count_rows('t');

		run($s,
			"SELECT redis_lock('session'); BEGIN; INSERT INTO t VALUES (1);
			 SELECT redis_xact_lock('a')");
		my $id = $proxy->rule(match => 'redisson_lock__channel', action => 'hold');
		$s->start('COMMIT');
		$proxy->wait_for_rule($id);
		is($node->count_rows('t') - $before, 1, 'it is committed');
		my $begin = now();
		$s->signal($signal eq 'cancel' ? 'INT' : 'TERM');
		if ($signal eq 'cancel')
		{
			is($s->wait->{raw}, '', 'a cancel comes too late');
			$s->query_is('SELECT 1', 1, 'and is forgotten');
		}
		else
		{
			poll_until('the backend to end', sub { $s->is_gone });
			cmp_ok((now() - $begin) * 1000,
				'<', 2 * $budget + $slack, 'it ends in time');
			$s->wait;
		}
		$proxy->let_go;
		$s->quit;
		recovered($one, $signal);
	};
}

# Whatever happened, nothing worse has.
ok(!$node->logged(qr/PANIC|TRAP:|while in COMMIT|terminated by signal|out of shared memory/),
	'no PANIC, no failed assertion, no warning of the transaction machinery');

end_test($node, $redis);
