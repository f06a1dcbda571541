# Copyright (c) 2026, lockredis contributors

# Fencing: what is recorded follows savepoints; tokens issued elsewhere; a counter that is
# used up.  (Locks taken in savepoints and exception blocks are the simulator's: its mutants
# sql_sub_keeps, sql_recorded_here and sql_recorded_kept.)
# Proves G16, G17.

use LockRedis::Test;
use LockRedis::Topic::Fencing;

start_servers();

# ----------
# Savepoints
# ----------

my $seen = "SELECT max(token) FROM redis_fences WHERE key = ";

# The lock is older than the savepoint: it stays, with its token, and the record
# is written again when it is asked for again.
foreach my $outer ("redis_xact_lock('s2')", "redis_lock('s2')",
	"redis_fenced_lock('s2')")
{
	subtest "a record inside a savepoint, after $outer" => sub {
		$redis->cmd('FLUSHALL');
		$one->query("DELETE FROM redis_fences WHERE key = 's2'");

		$one->query("BEGIN; SELECT $outer; SAVEPOINT a");
		$one->query_is("SELECT redis_fenced_xact_lock('s2')", '1', 'recorded');
		$one->query_is(
			"SAVEPOINT b; SELECT redis_fenced_xact_lock('s2')",
			'1', 'again, deeper');
		$one->query('ROLLBACK TO b');
		$one->query_is("$seen 's2'", '1', 'which that rollback does not touch');
		$one->query('ROLLBACK TO a');
		$one->query_is("$seen 's2'", 'NULL', 'rolled back: no record');
		$one->query_is("SELECT redis_fence('s2')", '1', 'the token stays');
		$one->query_is("SELECT redis_fenced_xact_lock('s2')",
			'1', 'and is recorded again');
		$one->query_is("$seen 's2'", '1', 'indeed');
		$one->query('ROLLBACK TO a');
		$one->query_is("$seen 's2'", 'NULL', 'rolled back to twice');

		# Handed up by RELEASE, taken away by the outer rollback.
		$one->query_is(
			"SAVEPOINT b; SAVEPOINT c; SELECT redis_fenced_xact_lock('s2')",
			'1', 'recorded two levels deep');
		$one->query('RELEASE c; RELEASE b');
		$one->query_is("$seen 's2'", '1', 'kept by RELEASE');
		$one->query('ROLLBACK TO a');
		$one->query_is("$seen 's2'", 'NULL', 'but not by a rollback further out');

		$one->query_is("SELECT redis_fenced_xact_lock('s2')", '1', 'at last');
		is($one->query('COMMIT')->error, undef, 'committed');
		is(row('s2'), 1, 'recorded');
		is(counter('s2'), 1, 'one token for all of it');

		$one->query('SELECT redis_unlock_all()');
		nothing_left($node, $redis, keys => $counters);
	};
}

# Somebody else records while our record is rolled back: it is his that counts.
# With a session-level hold; the other one comes with a token of his own.
subtest 'somebody records between a rollback and the next record' => sub {
	$one->query_is("SELECT redis_fenced_lock('s3')", '1', 'held');
	$one->query("BEGIN; SAVEPOINT a; SELECT redis_fenced_xact_lock('s3')");
	$two->start("SELECT redis_fence_check('s3', 1)");
	$node->wait_for_postgres_lock($two);
	$one->query('ROLLBACK TO a');
	is($two->wait->error, undef, 'the row is free after the rollback');
	$one->query_is("SELECT redis_fenced_xact_lock('s3'), redis_fence('s3')",
		'2|2', 'the same token is no longer ours to record: raised');
	is($one->query('COMMIT')->error, undef, 'committed');
	is(row('s3'), 2, 'recorded');

	# The same with a whole transaction that is rolled back.
	$one->query("SELECT redis_unlock('s3'); SELECT redis_fenced_lock('s3')");
	$one->query_is("BEGIN; SELECT redis_fenced_xact_lock('s3'); ROLLBACK",
		'3', 'recorded and rolled back');
	$two->query_is("SELECT redis_fence_check('s3', 3)", '', 'recorded elsewhere');
	$one->query_is(
		"SELECT redis_fenced_xact_lock('s3'); SELECT redis_unlock('s3')",
		"4\nt", 'raised');
	nothing_left($node, $redis, keys => $counters);
};

# ----------
# Tokens issued elsewhere
# ----------

$node->safe_psql('postgres', <<'SQL');
CREATE ROLE service LOGIN;
GRANT EXECUTE ON FUNCTION redis_fence_check(text, bigint) TO service;
SQL

subtest 'redis_fence_check' => sub {
	my $service = $node->session(user => 'service');

	$service->query_is("SELECT redis_fence_check('check', 5)", '', 'recorded');
	is(row('check'), 5, 'by a role that may only call the function');
	$service->query_is("SELECT redis_fence_check('check', 5)",
		'', 'an equal token passes');
	$service->query_is(
		"BEGIN; SELECT redis_fence_check('check', 6); ROLLBACK",
		'', 'in a transaction that is rolled back');
	is(row('check'), 5, 'not recorded');
	my $result = $service->query("SELECT redis_fence_check('check', 4)");
	$result->fails('23000', qr/fencing token 4 of lock "check" is stale/,
		'a lower one is stale');
	is($result->detail, 'Token 5 was recorded.', 'and is told why');
	is(row('check'), 5, 'the row stays');
	$service->query_is("SELECT redis_fence_check('check', 9007199254740991)",
		'', 'the highest token');
	$service->query_fails("SELECT redis_fence_check('check', $_)",
		'22003', qr/between 1 and 2\^53-1/, "$_ is out of range")
	  foreach 0, -1, '9007199254740992', '9223372036854775807';
	$service->query_fails("SELECT redis_fence_check('check', NULL)",
		'22004', qr/token must not be null/, 'null');
	$service->query_fails("SELECT redis_fence_check(NULL, 1)",
		'22004', qr/key must not be null/, 'null key');
	$service->query_fails("SELECT redis_fence_check('', 1)",
		'22023', qr/empty/, 'empty key');

	# The later of two at the row is judged by what the earlier has committed.
	foreach my $level ('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE')
	{
		my $key = "check $level";

		$two->query_is("BEGIN; SELECT redis_fence_check('$key', 10)",
			'', 'recorded, not committed');
		$service->query("BEGIN ISOLATION LEVEL $level");
		$service->start("SELECT redis_fence_check('$key', 9)");
		$node->wait_for_postgres_lock($service);
		$two->query('COMMIT');
		$service->wait->fails(
			$level eq 'READ COMMITTED' ? '23000' : '40001',
			qr/./, "$level: a stale token that came first");
		$service->query('ROLLBACK');
	}

	# No higher token can be drawn for that key.
	$one->query_fails("SELECT redis_fenced_xact_lock('check')",
		'22003', qr/used up/, 'no token is above the highest one');
	$service->quit;
	nothing_left($node, $redis, keys => $counters);
};

subtest 'a counter that is used up' => sub {
	set_counter('up', '9007199254740990');
	$one->query_is("SELECT redis_fenced_lock('up'), redis_unlock('up')",
		'9007199254740991|t', 'the last token');
	foreach my $function (
		'redis_fenced_lock', 'redis_try_fenced_lock',
		'redis_fenced_xact_lock', 'redis_try_fenced_xact_lock')
	{
		$one->query_fails("SELECT $function('up')",
			'22003', qr/counter of fencing tokens is used up/, $function);
	}
	$one->query_is("SELECT redis_is_held('up'), redis_is_locked('up')",
		'f|f', 'nothing is taken');
	$one->query_is("SELECT redis_lock('up')", '', 'a plain lock can be taken');
	$one->query_fails("SELECT redis_fenced_lock('up')",
		'22003', qr/used up/, 'but no token for it');
	$one->query_is("SELECT redis_hold_count('up'), redis_unlock('up')",
		'1|t', 'which changes nothing');

	# What is not a counter of tokens.
	foreach my $value ('9223372036854775807', '-5', 'rubbish')
	{
		set_counter('up', $value);
		my $result = $one->query("SELECT redis_fenced_lock('up')");
		ok($result->error, "a counter of $value is an error");
		note $result->{raw};
		$one->query_is("SELECT redis_is_locked('up')", 'f',
			'and nothing is taken');
	}
	$one->query('SELECT redis_unlock_all()');
	nothing_left($node, $redis, keys => $counters);
};

end_test($node, $redis, keys => $counters);
