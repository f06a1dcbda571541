# Copyright (c) 2026, lockredis contributors

# Fencing: what is recorded follows savepoints and exception blocks; tokens issued
# elsewhere; a counter that is used up.
# Proves G16, G17.

use LockRedis::Test;
use LockRedis::Topic::Fencing;

start_servers();

# ----------
# Savepoints
# ----------

my $seen = "SELECT max(token) FROM redis_fences WHERE key = ";

subtest 'a lock taken inside a savepoint' => sub {
	$one->query('BEGIN; SAVEPOINT a');
	$one->query_is("SELECT redis_fenced_xact_lock('s1')", '1', 'taken');
	$one->query_is("$seen 's1'", '1', 'recorded');
	$one->query('ROLLBACK TO a');
	$one->query_is("$seen 's1'", 'NULL', 'rolled back: no record');
	$one->query_is("SELECT redis_is_held('s1'), redis_fence('s1')",
		'f|NULL', 'no lock and no token either');
	$one->query_is("SELECT redis_fenced_xact_lock('s1')",
		'2', 'taken again, with the next token');
	$one->query_is("$seen 's1'", '2', 'recorded');
	$one->query('ROLLBACK TO a');
	$one->query_is("$seen 's1'", 'NULL', 'rolled back to twice');
	$one->query_is("SELECT redis_fenced_xact_lock('s1')", '3', 'again');
	$one->query_is('RELEASE a; COMMIT', '', 'committed');
	is(row('s1'), 3, 'recorded');
	nothing_left($node, $redis, keys => $counters);
};

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

		# In the next transaction, too.
		$one->query("BEGIN; SAVEPOINT a; SELECT redis_fenced_xact_lock('s2')");
		$one->query('ROLLBACK TO a');
		my $s2 = $outer =~ /xact/ ? 3 : 1;
		$one->query_is("SELECT redis_fenced_xact_lock('s2')",
			$s2, 'after a rollback in a later transaction');
		$one->query('COMMIT');
		is(row('s2'), $s2, 'recorded');
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

# Exception blocks in a loop: one that fails leaves no record, the next one
# records again.
subtest 'exception blocks' => sub {
	my $result = $one->query(<<'SQL');
DO $$
DECLARE
	token bigint;
	recorded bigint;
BEGIN
	PERFORM redis_xact_lock('s4');
	FOR i IN 1 .. 6 LOOP
		BEGIN
			token := redis_fenced_xact_lock('s4');
			SELECT max(f.token) INTO recorded FROM redis_fences f WHERE key = 's4';
			RAISE NOTICE 'in %: % %', i, token, recorded;
			IF i % 2 = 1 THEN
				RAISE division_by_zero;
			END IF;
		EXCEPTION WHEN division_by_zero THEN
			SELECT max(f.token) INTO recorded FROM redis_fences f WHERE key = 's4';
			RAISE NOTICE 'after %: % %', i, redis_fence('s4'), recorded;
		END;
	END LOOP;
	BEGIN
		token := redis_fenced_xact_lock('s4');
		token := redis_fenced_xact_lock('s5');
		PERFORM redis_fence_check('s4', 1000);
		PERFORM redis_fence_check('s4', 999);
	EXCEPTION WHEN triggered_data_change_violation OR SQLSTATE '23000' THEN
		RAISE NOTICE 'caught %', SQLSTATE;
	END;
END $$
SQL
	is_deeply(
		[ map { $_->message } $result->notices ],
		[
			'in 1: 1 1', 'after 1: 1 <NULL>', 'in 2: 1 1', 'in 3: 1 1',
			'after 3: 1 1', 'in 4: 1 1', 'in 5: 1 1', 'after 5: 1 1',
			'in 6: 1 1', 'caught 23000'
		],
		'record and token');
	is($result->error, undef, 'and no error');
	is(row('s4'), 1, 'what the last block wrote is rolled back');
	is(row('s5'), '', 'lock and record');
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

	# No higher token can be had for that key.
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
	$one->query_is("SELECT redis_lock('up')", '', 'a plain lock can be had');
	$one->query_fails("SELECT redis_fenced_lock('up')",
		'22003', qr/used up/, 'but no token for it');
	$one->query_is("SELECT redis_hold_count('up'), redis_unlock('up')",
		'1|t', 'which changes nothing');

	# What is not a counter of tokens.
	my @values = ('9223372036854775807');
	of_redis 'a number below 1 counts as none' =>
	  sub { push @values, '-5', 'rubbish' };
	foreach my $value (@values)
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
