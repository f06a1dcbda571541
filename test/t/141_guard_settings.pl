# Copyright (c) 2026, lockredis contributors

# The settings of the commit guard, which are copied when the lock is taken:
# commit_guard = off, the strictest of a key, on_lost; given leases are renewed from
# pre-commit to the release; a session that commits is not signalled.  (145_guard_codes has
# a lease that is about to end; that it is renewed first, and that the guard looks again after it
# has waited for Redis, is the simulator's: its mutants floor_never, guard_from_reply and
# look_1_guard_once.)
# Proves G12, G14.

use LockRedis::Test qw(:DEFAULT run);
use LockRedis::Topic::Guard;

start_servers();

# Let the session run a long statement; a signal to an idle one does nothing.
sub sleeps ($s, $seconds = undef)
{
	$s->start('SELECT pg_sleep(' . ($seconds ? limit($seconds) : 600) . ')');
	return $node->wait_for_event($s, 'PgSleep');
}

# ----------
# commit_guard = off, and the strictest one
# ----------

subtest 'off' => sub {
	run($one,
		"BEGIN; SET LOCAL lockredis.commit_guard = 'off';
		 SELECT redis_xact_lock('k'); INSERT INTO t VALUES (1)");
	$two->take_away('k');
	commit_works($one, 1, 'a transaction-level lock');

	run($one,
		"SET lockredis.commit_guard = 'off'; SELECT redis_lock('k');
		 SET lockredis.commit_guard = 'lease'; BEGIN;
		 INSERT INTO t VALUES (1)");
	$two->take_away('k');
	commit_works($one, 1, 'a session-level one, whatever is set by now');
	run($one, 'BEGIN; INSERT INTO t VALUES (1)');
	$one->query("SELECT redis_unlock('k')");
	commit_works($one, 1, 'and unlocking it');

	run($one,
		"BEGIN; SELECT redis_xact_lock('k');
		 SET LOCAL lockredis.commit_guard = 'off'; INSERT INTO t VALUES (1)");
	$two->take_away('k');
	commit_fails($one, 'k', $by_force, 'switched off too late');
};

subtest 'the strictest one of a key counts' => sub {
	foreach my $order ([qw(off lease)], [qw(lease off)])
	{
		my ($first, $second) = @$order;
		run($one, "BEGIN; INSERT INTO t VALUES (1);
			SET LOCAL lockredis.commit_guard = '$first'; SELECT redis_xact_lock('k');
			SET LOCAL lockredis.commit_guard = '$second'; SELECT redis_xact_lock('k')");
		$two->take_away('k');
		commit_fails($one, 'k', $by_force, "@$order");
	}
	run($one,
		"BEGIN; SELECT redis_xact_lock('k');
		 SET LOCAL lockredis.commit_guard = 'verify';
		 SELECT redis_xact_lock('k')");
	$redis->cmd('DEL', 'k');
	commit_fails($one, 'k', qr/Its key was deleted in the store, seen at/,
		'lease verify');

	# Of different keys each has its own.
	run($one,
		"BEGIN; SELECT redis_xact_lock('k');
		 SET LOCAL lockredis.commit_guard = 'off';
		 SELECT redis_xact_lock('k2')");
	$two->take_away('k2');
	commit_works($one, 0, 'another key');

	# A hold that has been given back does not count.
	run($one, "SET lockredis.commit_guard = 'off'; SELECT redis_lock('k');
		RESET lockredis.commit_guard; BEGIN; SELECT redis_xact_lock('k'); COMMIT");
	$two->take_away('k');
	run($one, 'BEGIN; INSERT INTO t VALUES (1)');
	commit_works($one, 1, 'only the hold with off is left');
	$one->query("SELECT redis_unlock('k')");
};

# ----------
# on_lost
# ----------

subtest 'on_lost' => sub {
	run($one,
		"SET lockredis.on_lost = 'cancel'; BEGIN;
		 SELECT redis_xact_lock('k')");
	sleeps($one);
	$two->take_away('k');
	$one->wait->fails('57014', qr/cancel/, 'cancel ends the statement');

	# Which is all that the signal was for: the next transaction has nothing to
	# do with it.
	run($one,
		"ROLLBACK; BEGIN; SELECT redis_xact_lock('k');
		 INSERT INTO t VALUES (1)");
	commit_works($one, 1, 'the next transaction');

	run($one, "BEGIN; SELECT redis_xact_lock('k'); INSERT INTO t VALUES (1)");
	$two->take_away('k');
	$one->query_is('SELECT 1', 1, 'an idle session is left alone');
	commit_fails($one, 'k', $by_force, 'its commit fails');

	run($one, "SELECT redis_lock('k')");
	$two->take_away('k');
	$one->query("SELECT redis_unlock('k')");
	run($one, "BEGIN; SELECT redis_xact_lock('k'); INSERT INTO t VALUES (1)");
	commit_works($one, 1, 'a signal to an idle session is over, too');

	# By expiry, told by the watchdog; a session-level lock.
	my $result;
	poll_until(
		'an answer before the lease has ended',
		sub {
			$result = $one->query("SELECT redis_lock('k', $short), pg_sleep(600)");
			return $result->{raw} !~ /after the lease had ended/;
		});
	$result->fails('57014', qr/cancel/, 'a lease that ran out cancels');
	$one->query("SELECT redis_unlock('k')");
	run($one, 'RESET lockredis.on_lost');

	run($one, "BEGIN; SELECT redis_xact_lock('k')");
	sleeps($one, 4);
	$two->take_away('k');
	is($one->wait->error, undef, 'mark does not');
	commit_fails($one, 'k', $by_force, 'COMMIT');

	foreach my $order ([qw(mark terminate)], [qw(terminate mark)], [qw(cancel terminate)])
	{
		my $s = $node->session;
		foreach my $on_lost (@$order)
		{
			run($s, "SET lockredis.on_lost = '$on_lost'; SELECT redis_lock('k')");
		}
		sleeps($s);
		$two->take_away('k');
		$s->wait->fails('57P01', qr/terminating/, "terminate ends the session: @$order");
		$s->quit;
	}

	# As with commit_guard, a hold that has been given back does not count.
	run($one,
		"SELECT redis_lock('k'); SET lockredis.on_lost = 'cancel';
		 BEGIN; SELECT redis_xact_lock('k'); COMMIT; RESET lockredis.on_lost");
	sleeps($one, 4);
	$two->take_away('k');
	is($one->wait->error, undef, 'only the hold with mark is left');
	$one->query("SELECT redis_unlock('k')");

	my $idle = $node->session(settings => { 'lockredis.on_lost' => 'terminate' });
	run($idle, "BEGIN; SELECT redis_xact_lock('k'), redis_xact_lock('k2')");
	$two->take_away('k');
	poll_until('the idle session to end', sub { $idle->is_gone });
	$idle->quit;
	poll_until('its other locks to be given back', sub { !$redis->cmd('EXISTS', 'k2') });
};

# ----------
# After pre-commit
# ----------

# A standby that does not exist is waited for, for as long as the test likes.
# The first session has the lock for NOTIFY meanwhile, and the second one waits
# for that lock: both past pre-commit, with given leases that are long over.
subtest 'given leases are renewed past pre-commit' => sub {
	my $lease = limit(6) . 's';

	$node->set(synchronous_standby_names => 'nobody');
	foreach my $s ([ $one, 'k' ], [ $two, 'k2' ])
	{
		my ($session, $key) = @$s;

		run($session,
			"BEGIN; SELECT redis_xact_lock('$key', '$lease');
			 INSERT INTO t VALUES (1); NOTIFY n");
		$session->start('COMMIT');
		$node->wait_for_event($session, $key eq 'k' ? 'SyncRep' : 'object');
	}
	poll_until('a lease and more to have passed',
		sub { $node->count_locks("renewals >= 4 AND NOT renewed AND granted") == 2 });
	ok($redis->cmd('EXISTS', $_), "$_ is still held") foreach qw(k k2);
	ok($_->is_running, 'the commit waits') foreach $one, $two;

	# And what is lost now cannot stop the commit any more.
	$redis->cmd('DEL', 'k');
	$node->wait_for_loss('k');
	my $refused = $node->lock_stat('commits_refused');
	$node->set(synchronous_standby_names => '');
	foreach my $s ($one, $two)
	{
		my $result = $s->wait;
		is($result->{raw}, '', 'committed');
	}
	is($node->lock_stat('commits_refused'), $refused, 'neither was refused');
	poll_until('both to be released', sub { !$redis->all_keys });
};

# ----------
# The end of a transaction
# ----------

# A session past pre-commit, of COMMIT, PREPARE or COMMIT PREPARED, is never signalled; one that
# was signalled just before fails there by the guard, unless the loss has ended.
run($one, "SET lockredis.on_lost = 'cancel'");

# ----------
# Signalled before, and the loss is over
# ----------

# one    has k, taken after the savepoint; sleeps
# two    takes it by force: signal
# one    57014; ROLLBACK TO: the loss is over; COMMIT at once
foreach my $guard (qw(lease verify off))
{
	subtest "the loss ended with its savepoint, $guard" => sub {
		run($one,
			"SET lockredis.commit_guard = '$guard'; BEGIN; INSERT INTO t VALUES (1);
			 SAVEPOINT s; SELECT redis_xact_lock('k')");
		sleeps($one);
		$two->take_away('k');
		$one->wait->fails('57014', qr/cancel/, 'cancelled');
		my $refused = $node->lock_stat('commits_refused');
		$one->query_is('ROLLBACK TO s; COMMIT', '', 'COMMIT');
		is($node->lock_stat('commits_refused'), $refused, 'nothing was refused');
	};
}
run($one, 'RESET lockredis.commit_guard');

# ----------
# Past pre-commit
# ----------

# Whether the signal is sent is known when redis_force_unlock returns.
foreach my $end (
	[ 'COMMIT', 'BEGIN; INSERT INTO t VALUES (1)' ],
	[ 'COMMIT', "BEGIN; INSERT INTO t VALUES (1); SELECT redis_xact_lock('k')" ],
	[ "PREPARE TRANSACTION 'p'", 'BEGIN; INSERT INTO t VALUES (1)' ],
	[
		"COMMIT PREPARED 'p'",
		"BEGIN; INSERT INTO t VALUES (1); PREPARE TRANSACTION 'p'"
	])
{
	my ($sql, $begin) = @$end;

	foreach my $on_lost ('cancel', 'terminate')
	{
		subtest "$sql after $begin, $on_lost" => sub {
			run($one, "SET lockredis.on_lost = '$on_lost'; SELECT redis_lock('k'); $begin");
			$node->set(synchronous_standby_names => 'nobody');
			$one->start($sql);
			$node->wait_for_event($one, 'SyncRep');
			$two->take_away('k');
			$node->set(synchronous_standby_names => '');
			is($one->wait->{raw}, '', 'its wait was not cut');
			$one->query_warns("SELECT redis_unlock('k')", 'f', '01000',
				qr/by force/, 'the loss is there to be seen');
			run($one, "COMMIT PREPARED 'p'") if $sql =~ /PREPARE /;
		};
	}
}
run($one, "SET lockredis.on_lost = 'cancel'");

# To be sure that those can fail
subtest 'a cancel would cut that wait' => sub {
	run($one, 'BEGIN; INSERT INTO t VALUES (1)');
	$node->set(synchronous_standby_names => 'nobody');
	$one->start('COMMIT');
	$node->wait_for_event($one, 'SyncRep');
	$one->cancel;
	like($one->wait->{raw}, qr/canceling wait for synchronous replication/, 'it does');
	$node->set(synchronous_standby_names => '');
};

# It is one statement that is spared, not the session.
subtest 'signals come again afterwards' => sub {
	$one->query_fails("COMMIT PREPARED 'none'", '42704', qr/does not exist/,
		'COMMIT PREPARED that fails');
	run($one, "SELECT redis_lock('k')");
	$one->query_fails("COMMIT PREPARED 'none'", '42704', qr/does not exist/,
		'with a lock');
	sleeps($one);
	$two->take_away('k');
	$one->wait->fails('57014', qr/cancel/, 'the next statement is cancelled');
	$one->query("SELECT redis_unlock('k')");
};

# Documented: PostgreSQL gives the transaction its id after the guard has looked.
subtest 'NOTIFY alone' => sub {
	my $three = $node->session;

	run($three, "SELECT redis_lock('k')");
	$two->take_away('k');
	$three->query_is('NOTIFY n', '', 'goes out under a lost session-level lock');
	$three->query("SELECT redis_unlock('k'); BEGIN; SELECT redis_xact_lock('k')");
	$two->take_away('k');
	run($three, 'NOTIFY n');
	$three->query_fails('COMMIT', '40001', qr/"k" was lost/,
		'not under a transaction-level one');
	$three->quit;
};

end_test($node, $redis);
