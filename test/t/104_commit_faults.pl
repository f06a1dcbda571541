# Copyright (c) 2026, lockredis contributors

# The end of a transaction while Redis fails: the release never raises, delays the
# client by its budget at most, and what was not answered is given back by the
# watchdog, for COMMIT, ROLLBACK, savepoints, exception blocks and many locks.
# Proves G5, G15.

use strict;
use warnings FATAL => 'all';

use LockRedis::Test qw(:DEFAULT run);
use LockRedis::Topic::CommitFaults;

start_servers();

# ----------
# Savepoints and exception blocks under a fault
# ----------

# No release is answered.  Each round has a lock of its own if the store could
# be asked (after a time-out it is left alone until the watchdog has heard from
# it), and fails; the locks from before the loop stay, and so does the lock of
# the round that succeeds.
subtest 'exception blocks while no release is answered' => sub {
	run($one, "BEGIN; SELECT redis_xact_lock('outer'); INSERT INTO t VALUES (1)");
	$proxy->rule(on => 'reply', match => 'PUBLISH', action => 'drop', times => 0);
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
		              WHEN connection_failure THEN
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
		  ->fails('08006', qr/did not answer/, "$again fails");
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
	is( $node->value(
			'SELECT count(*) FROM redis_locks WHERE pid IS NULL AND NOT granted'),
		1000,
		'all are left to the watchdog');
	$redis->thaw;
	recovered($one, '1,000 locks');
};

subtest 'a single statement, its release not answered' => sub {
	my $before = $node->count_rows('t');

	$proxy->rule(on => 'reply', match => 'PUBLISH', action => 'drop');
	my $result = $one->query(
		"INSERT INTO t SELECT 1 FROM (SELECT redis_xact_lock('a') OFFSET 0) x");
	is($result->{raw}, '', 'works');
	cmp_ok($result->ms, '<', $budget + $slack, 'within its budget');
	is($node->count_rows('t') - $before, 1, 'with its row');
	recovered($one, 'a single statement');
};

subtest 'COMMIT in a DO block, its release not answered' => sub {
	my $before = $node->count_rows('t');

	$proxy->rule(on => 'reply', match => 'PUBLISH', action => 'drop', times => 1);
	my $result = $one->query(
		q{DO $$
		  BEGIN
		      INSERT INTO t VALUES (1);
		      PERFORM redis_xact_lock('a');
		      COMMIT;
		      INSERT INTO t VALUES (2);
		      ROLLBACK;
		      INSERT INTO t VALUES (3);
		  END $$});
	is($result->{raw}, '', 'goes on');
	is($node->count_rows('t') - $before, 2, 'with the right rows');
	recovered($one, 'a DO block');
};

subtest 'a statement fails, its release not answered' => sub {
	$proxy->rule(on => 'reply', match => 'PUBLISH', action => 'drop');
	run($one, "BEGIN; INSERT INTO t VALUES (1); SELECT redis_xact_lock('a')");
	my $result = $one->query('SELECT 1/0');
	$result->fails('22012', qr/division by zero/, 'with its own error');
	cmp_ok($result->ms, '<', $budget + $slack, 'in time');
	$one->query_is('ROLLBACK', '', 'rolled back');
	recovered($one, 'a failed statement');
};

# ----------
# All the time
# ----------

ok( !$node->logged(
		qr/PANIC|TRAP:|while in COMMIT|signal (?:6|11)\b|out of shared memory/),
	'no PANIC, no failed assertion, no warning of the transaction machinery');
is($node->times_logged(qr/was terminated by signal/),
	0, 'no process was killed');

$one->quit;
nothing_left($node, $redis);
done_testing();
