# Copyright (c) 2026, lockredis contributors

# A Redis that is slow at the end of a transaction.  The
# release is sent when the transaction's changes are visible and its heavyweight
# locks are gone; what is not answered soon is left to the watchdog, so whoever
# waits for the end of the COMMIT (NOTIFY) does not wait for Redis.
# Proves G4, G15.

use LockRedis::Test qw(:DEFAULT run);

# Far beyond what any wait below may last.
my $long = limit(60);
my $redis = LockRedis::Redis->new;
my $proxy = LockRedis::Proxy->new($redis);
my %settings = (
	'lockredis.connect_timeout' => "${long}s",
	'lockredis.command_timeout' => "${long}s",
	'lockredis.lease' => '10min');
my ($node, $one, $two) = LockRedis::Node->create(
	'main', sessions => 2, url => $proxy->url, settings => \%settings);

run($one,
	q{CREATE TABLE t (a int); INSERT INTO t VALUES (1);
	  BEGIN; SELECT redis_xact_lock('warm'); COMMIT});

sub orphans { return $node->lock_stat('orphans'); }

# ----------
# COMMIT and ROLLBACK
# ----------

foreach my $end ('COMMIT', 'ROLLBACK')
{
	run($two, 'LISTEN n');
	run($one, "BEGIN; SELECT redis_xact_lock('slow'); NOTIFY n, 'said'");
	my $id = $proxy->rule(match => 'slow', action => 'hold');
	$one->start($end);
	my $result = $one->wait($long / 2);
	is($result->{raw}, '', "$end does not wait for Redis");
	is($proxy->acted($id), 1, 'which has not got the release');
	like($two->query('SELECT 1')->out, qr/Asynchronous notification "n"/,
		'and others are notified')
	  if $end eq 'COMMIT';

	# Somebody gets the lock while that release is still on its way.
	$two->query_is("SELECT redis_lock('slow')", '', 'the watchdog gives the lock back');
	$proxy->let_go;
	$two->query_is("SELECT redis_is_locked('slow'), redis_unlock('slow')",
		't|t', 'the late release touches nobody');
	$one->query_is("BEGIN; SELECT redis_xact_lock('slow'); COMMIT",
		'', 'the session goes on');
}

# ----------
# ROLLBACK TO
# ----------

# One is stopped while it waits for Redis (or right after that): the locks of the
# subtransaction must be gone by then.  Whoever comes after the abort does not wait
# for the row, those who wait for it already are woken by that.
{
	run($one,
		q{BEGIN; SAVEPOINT s; SELECT redis_xact_lock('inner'); UPDATE t SET a = 2;
		  SELECT pg_advisory_xact_lock(7)});
	$two->start('UPDATE t SET a = 3 RETURNING a');
	poll_until('two to wait for the row',
		sub { $node->value('SELECT count(*) FROM pg_locks WHERE NOT granted') == 1 });
	my $id = $proxy->rule(match => 'inner', action => 'hold');
	$one->start('ROLLBACK TO s');
	$proxy->wait_for_rule($id);
	$one->freeze;
	is($two->wait($long / 2)->out, 3, 'two has it while one is still in ROLLBACK TO');
	$two->query_is('SELECT pg_try_advisory_lock(7)', 't', 'and other locks');
	$one->thaw;
	is($one->wait->error, undef, 'which returns');
	$proxy->let_go;
	run($two, 'SELECT pg_advisory_unlock_all()');
	$one->query_is('SELECT a FROM t; COMMIT', '3', 'and goes on');
}

# A waiter of this server gets the lock with the row.
{
	run($one, q{BEGIN; SAVEPOINT s; SELECT redis_xact_lock('both'); UPDATE t SET a = 4});
	$two->start("SELECT redis_lock('both'); SELECT a FROM t FOR UPDATE NOWAIT");
	$node->wait_for_waiters('both', 1);
	run($one, 'ROLLBACK TO s');
	my $result = $two->wait;
	is($result->error, undef, 'whoever is handed the lock finds the row free');
	run($one, 'COMMIT');
	run($two, "SELECT redis_unlock('both')");
}

# ----------
# What it waits for
# ----------

{
	my $other = LockRedis::Node->create('table', mode => 'table', settings => \%settings);
	my $s = $other->session;

	$other->wait_for_up;
	run($s, "SELECT redis_lock('seen')");
	my $worker = $other->table_worker_pid;
	kill 'STOP', $worker;
	$s->start('DISCARD ALL');
	ok($other->wait_for_event($s, 'Extension'), 'waiting for the table is one');
	kill 'CONT', $worker;
	is($s->wait->error, undef, 'it returns');

	# A worker that is not asked for long is not one that is away.
	run($s, "BEGIN; SELECT redis_xact_lock('slow')");
	kill 'STOP', $worker;
	$s->start('COMMIT');
	is($s->wait($long / 2)->{raw}, '', 'COMMIT does not wait for the table worker');
	kill 'CONT', $worker;
	$s->query_is("SELECT redis_lock('slow'); SELECT redis_unlock('slow')",
		"\nt", 'and it is asked again at once');
	$s->quit;
	$other->stop;
}

# ----------
# A Redis that is far away
# ----------

# Each release takes twice the limit of one that is near.
{
	$proxy->latency(100);
	my $far = LockRedis::Node->create('far', url => $proxy->url, settings => \%settings);
	my $s = $far->session;

	$far->wait_for_up;
	run($s, "BEGIN; SELECT redis_xact_lock('far $_'); COMMIT") foreach 1 .. 5;
	cmp_ok($far->lock_stat('orphans'),
		'<', 5, 'is waited for by usual commits');
	$proxy->latency(0);

	# It was near before lockredis.url was changed.
	$far->set('lockredis.url' => $redis->url);
	$far->wait_for_up;
	run($s, "BEGIN; SELECT redis_xact_lock('near'); COMMIT");
	$proxy->latency(100);
	$far->set('lockredis.url' => $proxy->url);
	$far->wait_for_up;
	my $before = $far->lock_stat('orphans');
	run($s, "BEGIN; SELECT redis_xact_lock('far $_'); COMMIT") foreach 1 .. 5;
	cmp_ok($far->lock_stat('orphans') - $before,
		'<', 5, 'wherever it was before');
	$proxy->latency(0);
	$s->quit;
	poll_until('all to be given back', sub { !$redis->all_keys });
	$far->stop;
}

end_test($node, $redis);
