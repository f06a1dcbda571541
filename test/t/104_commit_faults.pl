# Copyright (c) 2026, lockredis contributors

# The end of a transaction while Redis fails: the release never raises, delays the
# client by its budget at most, and what was not answered is given back by the
# watchdog, for COMMIT, ROLLBACK, savepoints, exception blocks and many locks.
# Proves G5, G15.

use LockRedis::Test qw(:DEFAULT run);
use LockRedis::Topic::CommitFaults;

start_servers();

# A release is the only request that publishes.
my %fault = (
	'stopped' => {
		do => sub { $redis->stop(keep => 1) },
		undo => sub { $redis->start }
	},
	'stopped, its data lost' => {
		do => sub { $redis->stop },
		undo => sub { $redis->start }
	},
	'frozen' => {
		do => sub { $redis->freeze },
		undo => sub { $redis->thaw }
	},
	'unreachable' => {
		do => sub { $proxy->mode('hang'); $proxy->reset_all },
		undo => sub { $proxy->mode('pass') }
	},
	'refusing connections' => {
		do => sub { $proxy->mode('refuse'); $proxy->reset_all },
		undo => sub { $proxy->mode('pass') }
	},
	'resetting connections' => {
		do => sub { $proxy->mode('reset'); $proxy->reset_all },
		undo => sub { $proxy->mode('pass') }
	},
	'dropping the reply' => {
		do => sub {
			$proxy->rule(on => 'reply', match => 'redisson_lock__channel', action => 'drop', times => 0);
		},
		undo => sub { $proxy->clear }
	},
	'sending half of the reply' => {
		do => sub {
			$proxy->rule(
				on => 'reply',
				match => 'redisson_lock__channel',
				action => 'truncate',
				bytes => 3,
				times => 0,
				then => 'hold');
		},
		undo => sub { $proxy->clear; $proxy->release }
	},
	'answering with an error' => {
		do => sub { $redis->cmd('CONFIG', 'SET', 'min-replicas-to-write', 1) },
		undo => sub { $redis->cmd('CONFIG', 'SET', 'min-replicas-to-write', 0) }
	});

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
			my ($name, $begin) = @{ $ends[$i] };
			run($many[$i], "$begin; SELECT redis_xact_lock('a $i'), redis_xact_lock('b $i')");
		}
		$fault{$fault}{do}->();
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
		$fault{$fault}{undo}->();
		recovered($_, "Redis $fault") foreach $many[0], $many[-1];
	};
}
$_->quit foreach @many;

# What a fault does not stop: the release is repeated, and all keys are free
# when COMMIT returns, or soon after if that takes long.
my %hiccup = (
	'scripts were flushed' => sub { $redis->cmd('SCRIPT', 'FLUSH') },
	'the connection was closed' => sub { $proxy->reset_all },
	'the connection was killed' =>
	  sub { $redis->cmd('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes') },
	'the request resets the connection' =>
	  sub { $proxy->rule(match => 'redisson_lock__channel', action => 'reset') },
	'the reply resets the connection' =>
	  sub { $proxy->rule(match => 'redisson_lock__channel', action => 'cut') },
	'Redis was restarted' => sub { $redis->restart(keep => 1) });

foreach my $hiccup (sort keys %hiccup)
{
	foreach my $end (@ends[ 0, 3 ])
	{
		my ($name, $begin, $sql, $rows, $goes_on) = @$end;

		subtest "$hiccup, $name" => sub {
			my $before = $node->count_rows('t');

			# More than one command of the batch.
			run($one,
				"$begin;
				 SELECT count(redis_xact_lock('k ' || i)) FROM generate_series(1, 120) i");
			$hiccup{$hiccup}->();
			my $result = $one->query($sql);
			is($result->{raw}, '', 'works');
			poll_until('all locks to be given back', sub { !$redis->all_keys });
			run($one, 'COMMIT') if $goes_on;
			is($node->count_rows('t') - $before, $rows, 'with the right outcome');
			$proxy->clear;
			recovered($one, $name);
		};
	}
}

# ----------
# Savepoints and exception blocks under a fault
# ----------

# No release is answered.  Each round has a lock of its own if the store could
# be asked (after a time-out it is left alone until the watchdog has heard from
# it), and fails; the locks from before the loop stay, and so does the lock of
# the round that succeeds.
subtest 'exception blocks while no release is answered' => sub {
	run($one, "BEGIN; SELECT redis_xact_lock('outer'); INSERT INTO t VALUES (1)");
	$proxy->rule(on => 'reply', match => 'redisson_lock__channel', action => 'drop', times => 0);
	my $result = $one->query(
		q{DO $$
		  DECLARE
		      failed int := 0;
		      unreachable int := 0;
		  BEGIN
		      FOR i IN 1 .. 4 LOOP
		          BEGIN
		              PERFORM redis_xact_lock('round ' || i);
		              RAISE division_by_zero;
		          EXCEPTION
		              WHEN division_by_zero THEN
		                  failed := failed + 1;
		              WHEN system_error OR io_error THEN
		                  unreachable := unreachable + 1;
		          END;
		          IF redis_is_held('round ' || i) OR NOT redis_is_held('outer') THEN
		              RAISE 'wrong locks are held';
		          END IF;
		      END LOOP;
		      RAISE NOTICE '%', failed > 0 AND failed + unreachable = 4;
		  END $$});
	is($result->error, undef, 'goes on');
	is_deeply([ map { $_->message } $result->notices ], ['t'], 'each round failed');
	cmp_ok($result->ms, '<', 4 * $budget + $slack, 'within a budget each');
	my $before = $node->count_rows('t');
	$one->query_is('COMMIT', '', 'commits');
	is($node->count_rows('t') - $before, 1, 'with its row');
	$proxy->clear;
	recovered($one, 'exception blocks');
};

# A re-entry that has to lengthen the lease fails in a savepoint: what was held
# before is held, in one scope, and the transaction goes on.
subtest 're-entries that are not answered' => sub {
	foreach my $again ('redis_xact_lock', 'redis_lock')
	{
		my $before = $node->count_rows('t');

		run($one,
			"BEGIN; INSERT INTO t VALUES (1);
			 SELECT redis_xact_lock('a', '1 min'); SAVEPOINT s");
		$proxy->rule(on => 'reply', match => 'EVALSHA', action => 'drop');
		$one->query("SELECT $again('a', '1 h')")
		  ->fails('58030', qr/did not answer/, "$again fails");
		run($one, 'ROLLBACK TO s');
		$one->query_is("SELECT redis_is_held('a'), redis_hold_count('a')",
			't|1', 'held as before');
		is( $node->value('SELECT scope, hold_count FROM redis_locks'),
			'transaction|1', 'and shown so');
		$one->query_is('COMMIT', '', 'commits');
		is($node->count_rows('t') - $before, 1, 'with its row');
		recovered($one, $again);
	}
};

subtest 'nested savepoints, Redis frozen' => sub {
	run($one, "BEGIN; INSERT INTO t VALUES (1); SELECT redis_xact_lock('outer')");
	run($one, "SAVEPOINT s$_; SELECT redis_xact_lock('in $_')") foreach 1 .. 5;
	$redis->freeze;
	my $result = $one->query('ROLLBACK TO s1');
	is($result->error, undef, 'rolled back');
	cmp_ok($result->ms, '<', $budget + $slack, 'five levels within one budget');
	$result = $one->query('ROLLBACK');
	is($result->error, undef, 'and all of it');
	cmp_ok($result->ms, '<', $budget + $slack, 'in time');
	$redis->thaw;
	recovered($one, 'nested savepoints');
};

# ----------
# Many locks, single statements, procedures
# ----------

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

subtest 'a statement fails, its release not answered' => sub {
	$proxy->rule(on => 'reply', match => 'redisson_lock__channel', action => 'drop');
	run($one, "BEGIN; INSERT INTO t VALUES (1); SELECT redis_xact_lock('a')");
	my $result = $one->query('SELECT 1/0');
	$result->fails('22012', qr/division by zero/, 'with its own error');
	cmp_ok($result->ms, '<', $budget + $slack, 'in time');
	$one->query_is('ROLLBACK', '', 'rolled back');
	recovered($one, 'a failed statement');
};

nothing_worse(0);

end_test($node, $redis);
