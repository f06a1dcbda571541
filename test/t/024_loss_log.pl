# Copyright (c) 2026, lockredis contributors

# The server log has a line for each loss, whoever finds it and wherever that
# is; of very many it has some, and the number of the others.  (059_blocked_owner has names that
# cannot be shown as they are.)
# Proves G6.

use LockRedis::Test qw(:DEFAULT run);

my ($node, $redis, $s) = servers(
	sessions => 1,
	settings => {
		'lockredis.command_timeout' => limit(60) . 's',
		'lockredis.lease' => '10min',
		'lockredis.key_prefix' => 'app:'
	});

$node->log_since_here;
run($s, "CREATE TABLE t (a int); SELECT redis_lock('warm'); SELECT redis_unlock('warm')");

# Exactly one line, with pid, level, key and reason.
sub is_logged ($session, $level, $key, $reason, $name)
{
	my $pid = $session->pid;
	my $line = qr/LOG:  lockredis: process $pid lost the $level lock "$key": $reason\n/;

	poll_until("the loss of $key to be logged", sub { $node->logged($line) });
	return is($node->times_logged(qr/lost the .* lock "$key"/), 1, "$name: one line in the log");
}

# ----------
# Found by the watchdog, by a session, by somebody else
# ----------

$s->in_time("SELECT redis_lock('expired', '50ms')");
is_logged($s, 'session-level', 'app:expired', 'expired', 'a lease that ended');
$s->query("SELECT redis_unlock('expired')");
is($node->times_logged(qr/lost the .* "app:expired"/), 1, 'the unlock adds none');

run($s, "SELECT redis_lock('forced')");
$node->value("SELECT redis_force_unlock('forced')");
is_logged($s, 'session-level', 'app:forced', 'forced', 'taken by force');
$s->query("SELECT redis_unlock('forced')");

# The session is told by a signal only.
{
	my $victim = $node->session(settings => { 'lockredis.on_lost' => 'cancel' });

	run($victim, "BEGIN; SELECT redis_lock('both'), redis_xact_lock('both')");
	$victim->start('SELECT pg_sleep(600)');
	$node->wait_for_event($victim, 'PgSleep');
	$node->value("SELECT redis_force_unlock('both')");
	$victim->wait->fails('57014', qr/user request/, 'its statement is canceled');
	is_logged($victim, 'session-level and transaction-level',
		'app:both', 'forced', 'on_lost = cancel');
	ok( $node->logged(
			qr/DETAIL:  It was taken with "lockredis.on_lost" set to "cancel"\./),
		'which says why the statement was canceled');
	$victim->quit;
}

# ----------
# Found by a release
# ----------

run($s, "SELECT redis_lock('gone')");
$redis->cmd('DEL', 'app:gone');
$s->query("SELECT redis_unlock('gone')");
is_logged($s, 'session-level', 'app:gone', 'deleted', 'found by redis_unlock');

# Where nothing may be said any more.  A release that is not answered within 100 ms is left to the
# watchdog, and nobody finds a loss: then once more.
foreach my $end ('COMMIT', 'ROLLBACK', 'ROLLBACK TO s; COMMIT')
{
	(my $key = lc $end) =~ s/\W+/ /g;
	my $orphans;

	do
	{
		$orphans = $node->lock_stat('orphans');
		run($s, "BEGIN; INSERT INTO t VALUES (1); SAVEPOINT s; SELECT redis_xact_lock('$key')");
		$redis->cmd('DEL', "app:$key");
		$s->query_is($end, '', "$end says nothing");
	} while ($node->lock_stat('orphans') > $orphans);
	is_logged($s, 'transaction-level', "app:$key", 'deleted', $end);
}
{
	my $leaving = $node->session;

	run($leaving, "SELECT redis_lock('exit')");
	$redis->cmd('DEL', 'app:exit');
	$leaving->quit;
	is_logged($leaving, 'session-level', 'app:exit', 'deleted', 'the end of a session');
}

# Not a loss: given back, timed out, handed over.
run($s, "SELECT redis_lock('kept'); SELECT redis_unlock('kept')");
is($node->times_logged(qr/app:(?:kept|warm)/), 0, 'what was not lost is not logged');

# ----------
# The watchdog is away, or there are very many
# ----------

{
	my $watchdog = $node->watchdog_pid;

	kill 'STOP', $watchdog;
	run($s, "SELECT redis_lock('meanwhile')");
	$redis->cmd('DEL', 'app:meanwhile');
	$s->query("SELECT redis_unlock('meanwhile')");
	kill 'TERM', $watchdog;
	kill 'CONT', $watchdog;
	is_logged($s, 'session-level', 'app:meanwhile', 'deleted', 'the watchdog was stopped');
}

{
	my $many = 300;

	run($s,
		"SELECT count(redis_lock('many ' || i, '1min')) FROM generate_series(1, $many) i");
	$redis->cmd('FLUSHALL');
	$s->query('SELECT redis_unlock_all()');

	# Lines that are written, and numbers of those that are not.
	my ($lines, $others);
	poll_until(
		'all of them to be told of',
		sub {
			$lines = () = $node->log_text =~ /lost the session-level lock "app:many/g;
			$others = 0;
			$others += $_
			  foreach $node->log_text =~ /lockredis: (\d+) more losses of locks were not logged/g;
			$lines + $others >= $many;
		},
		40);
	is($lines + $others, $many, 'each of very many losses is written or counted');
	cmp_ok($lines, '>', 0, 'some are written');
	cmp_ok($lines, '<=', 150, 'not all of them');
	is( $node->lock_stat('losses') >= $many ? 'all' : 'few',
		'all', 'and all are in the statistics');
}

end_test($node, $redis);
