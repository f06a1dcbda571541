# Copyright (c) 2026, lockredis contributors

# CALL redis_with_lock: nothing that the command says gives the job's lock back, or lets
# somebody else have it for a while; a second one of the same job never runs beside it.
#
#   A: the job's command waits for a condition of the job's lock: that gives the lock back
#   B: runs the job, and has the lock
#   A: is told, waits until B has done, and goes on: the job has run twice
# Proves G24.

use LockRedis::Test qw(:DEFAULT quoted);
use LockRedis::Topic::Jobs;

start_servers();

# Each of them, called by the command: what it returns, and the error that ends the job.
my @calls = (
	[ 'a wait for a condition', "redis_condition_wait('job', '1 s')", undef, '55000' ],
	[ 'a wait for a condition, of a lock that the command has besides',
		"redis_try_lock('job') AND redis_condition_wait('job', '1 s')", undef, '55000' ],
	[ 'an unlock', "redis_unlock('job')", 'false' ],
	[ 'an unlock of all', 'redis_unlock_all()', '0' ],
	[ 'an unlock of several', "redis_multi_unlock(ARRAY['job'])", 'false' ],
	[ 'one too many', "redis_try_lock('job') AND redis_unlock('job') AND redis_unlock('job')",
		'false' ]);

$node->safe_psql('postgres', <<'SQL');
CREATE PROCEDURE undoes() LANGUAGE plpgsql AS $$
BEGIN
	PERFORM redis_xact_lock('job');
	ROLLBACK;
	PERFORM redis_unlock_all();
	COMMIT;
END $$;
SQL

foreach my $call (@calls)
{
	my ($name, $sql, $returns, $sqlstate) = @$call;
	my $job = "INSERT INTO done SELECT ($sql)::text; INSERT INTO done SELECT pg_sleep(30)";

	$one->start("CALL redis_with_lock('job', " . quoted($job) . ')');
	if ($sqlstate)
	{
		$one->wait->fails($sqlstate, qr/cannot wait for a condition of the lock "job"/,
			"$name: an error");
		is(done(), '', "$name: nothing was done");
		$one->query('SELECT redis_unlock_all()');
		released('job', "$name: the lock is free");
		next;
	}
	$node->wait_for_event($one, 'PgSleep');
	$two->query_is("CALL redis_with_lock('job', 'INSERT INTO done VALUES (''twice'')')", 'f',
		"$name: the job does not run a second time");
	$one->cancel;
	$one->wait->fails('57014', qr/cancel/, "$name: ended");
	is(done(), '', "$name: which is rolled back");
	released('job', "$name: the lock is free");

	$one->query("CALL redis_with_lock('job', " . quoted("INSERT INTO done SELECT ($sql)::text") . ')');
	is(done(), $returns, "$name: returns");
	released('job', "$name: the lock is free after the job");
}

# A procedure of the command that ends transactions.
$one->start("CALL redis_with_lock('job', 'CALL undoes(); SELECT pg_sleep(30)')");
$node->wait_for_event($one, 'PgSleep');
$two->query_is("CALL redis_with_lock('job', 'SELECT 1')", 'f', 'after ROLLBACK and COMMIT');
$one->cancel;
$one->wait->fails('57014', qr/cancel/, 'ended');
released('job', 'the lock is free');
end_test($node, $redis);
