# Copyright (c) 2026, lockredis contributors

# lockredis.on_lost and the end of a transaction.  A session past pre-commit, of
# COMMIT, PREPARE or COMMIT PREPARED, is never signalled; one that was signalled
# just before fails there by the guard, unless the loss has ended.
# Proves G14.

use LockRedis::Test qw(:DEFAULT run);

my ($node, $redis) = servers(
	settings => {
		wal_level => 'replica',
		max_wal_senders => 1,
		max_prepared_transactions => 1,
		'lockredis.lease' => '10min'
	});
my $one = $node->session(settings => { 'lockredis.on_lost' => 'cancel' });
my $two = $node->session;

run($one, 'CREATE TABLE t (a int)');
run($two, "SELECT redis_is_locked('connected')");

sub works
{
	my ($sql, $name) = @_;
	my $refused = $node->lock_stat('commits_refused');

	return $one->query_is($sql, '', $name)
	  && is($node->lock_stat('commits_refused'), $refused, "$name: nothing was refused");
}

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
		$one->start('SELECT pg_sleep(600)');
		$node->wait_for_event($one, 'PgSleep');
		$two->take_away('k');
		$one->wait->fails('57014', qr/cancel/, 'cancelled');
		works('ROLLBACK TO s; COMMIT', 'COMMIT');
	};
}

subtest 'the session was idle' => sub {
	run($one, "SET lockredis.commit_guard = 'off'; BEGIN;
		INSERT INTO t VALUES (1); SELECT redis_xact_lock('k')");
	$two->take_away('k');
	works('COMMIT', 'off: COMMIT');
	run($one, "RESET lockredis.commit_guard; BEGIN; INSERT INTO t VALUES (1);
		SELECT redis_xact_lock('k')");
	$two->take_away('k');
	my $refused = $node->lock_stat('commits_refused');
	$one->query_fails('COMMIT', '40001',
		qr/could not commit because the lock "k" was lost/,
		'lease: the refusal names the lock');
	is($node->lock_stat('commits_refused'), $refused + 1, 'and is counted');
};

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
run($one, 'RESET lockredis.on_lost');

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
	$one->start('SELECT pg_sleep(600)');
	$node->wait_for_event($one, 'PgSleep');
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
