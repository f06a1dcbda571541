# Copyright (c) 2026, lockredis contributors

# Transaction-level locks beside session-level ones, prepared transactions, many
# at once (one pipelined batch of multi-key scripts), and what ends them from outside.
# Proves G2, G4, G8.

use LockRedis::Test qw(:DEFAULT run);
use LockRedis::Topic::Transactions;

start_servers();

# ----------
# Both scopes on one key
# ----------

subtest 'session-level first' => sub {
	run($one, "SELECT redis_lock('both'); SELECT redis_lock('both')");
	run($one, 'BEGIN');
	costs($one, "SELECT redis_xact_lock('both')", '', 0, 'a transaction-level one beside them');
	is(count_in_redis('both'), 1, 'adds nothing in Redis');
	is(rows_of('both'), 'session 2, transaction 1', 'two rows in the view');
	$one->query_is("SELECT redis_hold_count('both')", 3, 'counts one more');
	costs($one, 'COMMIT', '', 0, 'its end');
	is(count_in_redis('both'), 1, 'takes nothing away');
	$one->query_is("SELECT redis_hold_count('both')", 2, 'two are left');
	$one->query_is("SELECT redis_unlock('both'), redis_unlock('both')", 't|t', 'and given back');
	is_free('both', 'free');
};

subtest 'transaction-level first' => sub {
	run($one, "BEGIN; SELECT redis_xact_lock('both')");
	costs($one, "SELECT redis_lock('both')", '', 0, 'the first session-level one on top');
	is(count_in_redis('both'), 1, 'Redis shows 1');
	$one->query_is("SELECT redis_hold_count('both')", 2, 'two holds');
	costs($one, "SELECT redis_lock('both')", '', 0, 'the second one');
	is(count_in_redis('both'), 1, 'Redis still shows 1');
	$one->query_is("SELECT redis_hold_count('both')", 3, 'three holds');
	costs($one, "SELECT redis_unlock('both')", 't', 0, 'unlocking one');
	costs($one, "SELECT redis_unlock('both')", 't', 1,
		'unlocking the other asks whether it is still there');
	is(count_in_redis('both'), 1, 'the transaction has it');
	is(rows_of('both'), 'transaction 1', 'alone');
	$one->query_warns("SELECT redis_unlock('both')",
		'f', '01000', qr/don't own/, 'redis_unlock does not touch that');
	costs($one, 'SELECT redis_unlock_all()', 0, 0, 'redis_unlock_all neither');
	is(count_in_redis('both'), 1, 'still held');
	$two->query_is("SELECT redis_try_lock('both')", 'f', 'from others');
	costs($one, 'COMMIT', '', 1, 'the end of the transaction does');
	is_free('both', 'free');
};

subtest 'the session keeps it' => sub {
	foreach my $end ('COMMIT', 'ROLLBACK')
	{
		run($one,
	"BEGIN; SELECT redis_xact_lock('both');
	 SELECT redis_lock('both'), redis_lock('both')"
		);
		costs($one, $end, '', 0, $end);
		is(count_in_redis('both'), 1, 'held in Redis');
		is(rows_of('both'), 'session 2', 'of the session');
		is($one->value('SELECT redis_unlock_all()'), 1, 'given back');
		is_free('both', 'free');
	}
};

# A re-entry asks the store only if the lease left is too short for it.
subtest 'leases' => sub {
	run($one, "BEGIN; SELECT redis_xact_lock('both', '1 min')");
	costs($one, "SELECT redis_lock('both', '30 s')", '', 0, 'a shorter lease');
	costs($one, "SELECT redis_lock('both', '2 min')", '', 1,
		'a second session-level one, longer');
	cmp_ok($redis->cmd('PTTL', 'both'), '>', 60_000, 'the lease grew');
	costs($one, "SELECT redis_xact_lock('both', '90 s')", '', 0,
		'again in the transaction, shorter');
	costs($one, "SELECT redis_xact_lock('both', '1 h')", '', 1, 'and longer');
	cmp_ok($redis->cmd('PTTL', 'both'), '>', 300_000, 'the lease grew again');
	costs($one, "SELECT redis_unlock('both'), redis_unlock('both')", 't|t', 1, 'unlocked');
	$one->query_is('COMMIT', '', 'committed');
	is_free('both', 'free');
};

# ----------
# PREPARE TRANSACTION
# ----------

run($one, "BEGIN; INSERT INTO t VALUES (4); SELECT redis_xact_lock('2pc')");
$one->query_fails("PREPARE TRANSACTION 'p'",
	'0A000', qr/cannot PREPARE a transaction that holds Redis locks/,
	'PREPARE TRANSACTION with a transaction-level lock');
is_free('2pc', 'ends the transaction and gives it back');
is($node->value('SELECT count(*) FROM pg_prepared_xacts'), 0, 'nothing prepared');
$one->query_is(
	"BEGIN; SAVEPOINT a; SELECT redis_xact_lock('2pc'); ROLLBACK TO a;
	 INSERT INTO t VALUES (4); SELECT redis_lock('2pc'); PREPARE TRANSACTION 'p'",
	"\n", 'a session-level one does not matter');
$one->query_is("COMMIT PREPARED 'p'; SELECT redis_unlock('2pc')",
	't', 'and stays with the session');

# ----------
# Many locks
# ----------

# The session has sent all three requests although the reply to the first one has not
# come yet: so it is one pipelined batch.  It does not wait for that for long.
run($one,
"BEGIN;
 SELECT count(redis_xact_lock('many ' || i)) FROM generate_series(1, 250) i"
);
is(scalar($redis->all_keys), 250, '250 locks');
my $rule = $proxy->rule(on => 'reply', match => 'many', action => 'hold');
my $n = commands_of(
	sub {
		$one->start('COMMIT');
		poll_until('Redis to have released all', sub { !$redis->all_keys });
		$proxy->wait_for_rule($rule);
	});
is($n, 3, 'released by three commands');
$proxy->let_go;
is($one->wait->error, undef, 'the reply comes');
poll_until('none to be left', sub { $node->count_locks == 0 });

costs(
	$one,
	q{BEGIN; SAVEPOINT a;
	  SELECT count(redis_xact_lock('many ' || i)) FROM generate_series(1, 250) i;
	  ROLLBACK TO a; COMMIT},
	'250',
	250 + 3,
	'250 locks of a savepoint');

# Each release takes a hundred of them, on a machine that stands still the watchdog has the rest.
run($one, "BEGIN; SELECT count(redis_xact_lock('mass ' || i)) FROM generate_series(1, 3000) i");
costs($one, "SELECT count(redis_xact_lock('mass ' || i)) FROM generate_series(1, 3000) i",
	3000, 0, '3,000 locks in one transaction, all taken again');
run($one, 'INSERT INTO t VALUES (5)');
my $orphans = $node->lock_stat('orphans');
my @keys = map { (LockRedis::Monitor->args($_))[2] } grep { /"EVALSHA"/i }
  $redis->session_commands(sub { $one->query_is('COMMIT', '', 'committed') });

push @keys, (100) x (30 - @keys) if $node->lock_stat('orphans') > $orphans;
is_deeply(\@keys, [ (100) x 30 ], 'released by thirty commands');
$one->query('COMMIT');
left_are([], 'nothing is left');
is($node->count_locks, 0, 'nor in the lock table');

# ----------
# Cancel, terminate
# ----------

{
	my $victim = $node->session;

	# The session's part of a lock whose release is canceled is still there.
	run($victim, "SELECT redis_lock('victim'); BEGIN; SELECT redis_xact_lock('victim'); SAVEPOINT s");
	my $asked = $proxy->rule(on => 'reply', match => 'victim', action => 'hold');
	$victim->start("SELECT redis_unlock('victim')");
	$proxy->wait_for_rule($asked);
	$victim->cancel;
	$victim->wait->fails('57014', qr/cancel/, 'a canceled release');
	$proxy->let_go;
	run($victim, 'ROLLBACK TO s; COMMIT');
	$victim->query_is("SELECT redis_hold_count('victim')", 1, 'the session has it still');
	$victim->query_is("SELECT redis_unlock('victim')", 't', 'and gives it back');
	run($victim, "BEGIN; SELECT redis_xact_lock('victim')");
	$victim->start('SELECT pg_sleep(600)');
	$node->wait_for_event($victim, 'PgSleep');
	$victim->cancel;
	$victim->wait->fails('57014', qr/cancel/, 'a cancelled statement');
	is_free('victim', 'gives back the locks of its transaction');
	$victim->query_is(
		"ROLLBACK; BEGIN; SELECT redis_xact_lock('victim')",
		'', 'the next transaction takes it');
	$victim->start('SELECT pg_sleep(600)');
	$node->wait_for_event($victim, 'PgSleep');
	$victim->terminate;
	$victim->wait->fails('57P01', qr/terminating/, 'terminated');
	$victim->quit;
	is_free('victim', 'given back');
}
end_test($node, $redis);
