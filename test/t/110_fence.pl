# Copyright (c) 2026, lockredis contributors

# Fencing: design.md section 3 and the functions of section 1 that belong to it.
# Tokens come from the counter of Redisson's RFencedLock; the fence table has
# the highest one recorded by a committed transaction, never goes down whatever
# happens to the counter, is judged under a row lock at each isolation level,
# follows savepoints, and cannot be written by ordinary roles except through the
# functions, nor made to run their code as its owner.
# What a late holder may do to the data is the subject of 111_fence_race.

use strict;
use warnings FATAL => 'all';

use LockRedis::Test;
use LockRedis::Wait qw(limit);
use PostgreSQL::Test::Utils;

my $redis = lock_store;
my $node = LockRedis::Node->create(
	'main',
	redis => $redis,
	settings => { wal_level => 'replica', max_wal_senders => 4 });

$node->wait_for_up;

my $one = $node->session;
my $two = $node->session;

# Counters stay in Redis, as Redisson's do.
my $counters = qr/^redisson_lock_token:/;

sub counter
{
	my ($key) = @_;

	return $redis->token($key);
}

sub set_counter
{
	my ($key, $value) = @_;

	$redis->set_token($key, $value);
	return;
}

# As committed.
sub row
{
	my ($key, $dbname) = @_;

	return $node->value("SELECT token FROM redis_fences WHERE key = '$key'",
		dbname => $dbname);
}

sub wait_for_row_lock
{
	my ($s) = @_;

	return poll_until(
		'the session to wait for a row',
		sub {
			$node->value(
				"SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND pid = "
				  . $s->pid) == 1;
		});
}

# ----------
# Tokens
# ----------

subtest "Redisson's counter" => sub {
	my $incrs = $redis->calls('incr');

	$one->query_is(
		"SELECT redis_fenced_lock('plain'), redis_fence('plain')",
		'1|1', 'the first token of a key is 1');
	is(counter('plain'), 1, 'it comes from the counter of RFencedLock');
	is_deeply([ values %{ $redis->hash('plain') } ],
		[1], 'the lock is a plain reentrant lock');
	of_redis 'no time to live' => sub {
		is($redis->cmd('TTL', 'redisson_lock_token:{plain}'),
			-1, 'the counter never expires');
	};
	$one->query_is(
		"SELECT redis_fenced_lock('plain'), redis_try_fenced_lock('plain'), redis_fence('plain')",
		'1|1|1', 're-entry returns the token held');
	$two->query_is("SELECT redis_try_fenced_lock('plain'), redis_fence('plain')",
		'NULL|NULL', 'busy is null, and another session has no token');
	of_redis 'no commands that could be counted' => sub {
		is($redis->calls('incr') - $incrs, 1, 'one INCR so far');
	};
	$one->query_is(
		'SELECT redis_unlock_all(), redis_fence(\'plain\')',
		'1|NULL', 'without the lock there is no token');
	$two->query_is("SELECT redis_try_fenced_lock('plain'), redis_unlock('plain')",
		'2|t', 'the next acquisition has the next token');
	of_redis 'no commands that could be counted' => sub {
		is($redis->calls('incr') - $incrs, 2, 'one INCR for each acquisition');
	};

	# A key with a brace has another place for its counter, as in Redisson.
	$one->query_is("SELECT redis_fenced_lock('a{b}'), redis_unlock('a{b}')",
		'1|t', 'a key with a brace');
	is(counter('a{b}'), 1, 'and its counter');

	# An unfenced lock draws none.  (Redis knows the scripts from here on.)
	$one->query(
		"SELECT redis_lock('warm'), redis_fenced_lock('warm'), redis_unlock_all()");
	$incrs = $redis->calls('incr');
	$one->query_is("SELECT redis_lock('plain'), redis_fence('plain')",
		'|NULL', 'a plain lock has no token');
	of_redis 'no commands that could be counted' => sub {
		is($redis->calls('incr') - $incrs, 0, 'and draws none');
	};
	my $calls = $redis->script_calls;
	$one->query_is(
		"SELECT redis_fenced_lock('plain'), redis_fence('plain'), redis_hold_count('plain')",
		'3|3|2', 'it gets one at its first fenced use');
	of_redis 'no commands that could be counted' => sub {
		is($redis->script_calls - $calls,
			2, 'with one request for the token and one for the count');
	};
	$calls = $redis->script_calls;
	$one->query_is(
		"BEGIN; SELECT redis_fenced_xact_lock('plain'); SELECT redis_fence('plain'); COMMIT; SELECT redis_fence('plain')",
		"3\n3\n3", 'which a transaction-level use returns');
	of_redis 'no commands that could be counted' => sub {
		is($redis->script_calls - $calls, 0, 'without a request');
	};
	is($node->value(
			q{SELECT DISTINCT fence FROM redis_locks WHERE key = 'plain'}),
		3, 'redis_locks shows it');

	# Lost: no token, neither told nor drawn.
	$incrs = $redis->calls('incr');
	$two->query_is("SELECT redis_force_unlock('plain')", 't', 'taken away');
	$one->query_is("SELECT redis_fence('plain')", 'NULL', 'lost: no token');
	$one->query_fails("SELECT redis_fenced_lock('plain')",
		'55000', qr/the lock "plain" was lost/, 'lost: none to be had');
	$one->query_fails("SELECT redis_fenced_xact_lock('plain')",
		'55000', qr/the lock "plain" was lost/, 'nor in a transaction');
	of_redis 'no commands that could be counted' => sub {
		is($redis->calls('incr') - $incrs, 0, 'lost: none is drawn');
	};
	$one->query('SELECT redis_unlock_all()');
	$one->query_is("SELECT redis_fence('no such key')", 'NULL', 'never held');

	# try waits, lock_timeout limits the other.
	$two->query_is("SELECT redis_fenced_lock('plain')", '4', 'held again');
	$one->query_is(
		"SELECT redis_try_fenced_lock('plain', '20 ms'), redis_try_fenced_xact_lock('plain', '20 ms')",
		'NULL|NULL', 'busy for the whole time limit is null');
	$one->query_fails(
		"BEGIN; SET LOCAL lock_timeout = '20 ms'; SELECT redis_fenced_xact_lock('plain')",
		'55P03', qr/lock timeout/, 'lock_timeout');
	$one->query('ROLLBACK');
	$one->start("SELECT redis_fenced_lock('plain')");
	$node->wait_for_waiters('plain', 1);
	$two->query_is("SELECT redis_unlock('plain')", 't', 'given back');
	is($one->wait->out, 5, 'a waiter has the next token');
	$one->query_is("SELECT redis_unlock('plain')", 't', 'given back');
	nothing_left($node, $redis, keys => $counters);
};

# The owner of a plain hold was deleted: it must not get a token.  The
# watchdog's renewals are ten seconds apart, so the session does not know yet.
subtest 'no token without the lock' => sub {
	foreach my $take ('redis_fenced_lock', 'redis_fenced_xact_lock')
	{
		$one->query_is("SELECT redis_lock('gone')", '', 'held');
		$redis->cmd('DEL', 'gone');
		$one->query_fails("SELECT $take('gone')",
			'55000', qr/the lock "gone" was lost.*deleted/s,
			"$take finds that it was deleted");
		$one->query('SELECT redis_unlock_all()');

		$one->query_is("SELECT redis_lock('gone')", '', 'held');
		$redis->cmd('DEL', 'gone');
		$redis->cmd('HSET', 'gone', 'somebody:7', 1);
		$one->query_fails("SELECT $take('gone')",
			'55000', qr/the lock "gone" was lost.*taken by somebody:7/s,
			"$take finds who has taken it");
		$one->query('SELECT redis_unlock_all()');
		$redis->cmd('DEL', 'gone');
	}
	is(counter('gone'), undef, 'the counter was not touched');
	is(row('gone'), '', 'nor the fence table');
	nothing_left($node, $redis, keys => $counters);
};

# ----------
# The fence table
# ----------

subtest 'recorded in the transaction' => sub {
	$one->query_is(
		"BEGIN; SELECT redis_fenced_xact_lock('row'); SELECT key, token, recorded_at BETWEEN now() AND clock_timestamp() FROM redis_fences WHERE key = 'row'",
		"1\nrow|1|t", 'the transaction sees its record');
	is(row('row'), '', 'nobody else does');
	$one->query_is(
		"SELECT redis_fenced_xact_lock('row'), redis_try_fenced_xact_lock('row')",
		'1|1', 're-entry returns the token held');
	$one->query('ROLLBACK');
	is(row('row'), '', 'a rollback takes it away');
	$one->query_is("SELECT redis_fenced_xact_lock('row')",
		'2', 'the next token is recorded');
	is(row('row'), 2, 'by its transaction');
	$one->query_is("SELECT redis_fenced_lock('row'), redis_unlock('row')",
		'3|t', 'a session-level token');
	is(row('row'), 2, 'is not recorded');
	$one->query_is("SELECT redis_try_fenced_xact_lock('row')",
		'4', 'try records as well');
	is(row('row'), 4, 'the higher token');
	nothing_left($node, $redis, keys => $counters);
};

# Recorded by this very hold in an earlier transaction: fine, and the row is
# locked again.
subtest 'a hold over several transactions' => sub {
	$one->query_is(
		"SELECT redis_fenced_lock('long'); SELECT redis_fenced_xact_lock('long')",
		"1\n1", 'recorded once');
	foreach my $level ('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE')
	{
		my $result = $one->query(
			"BEGIN ISOLATION LEVEL $level; SELECT redis_fenced_xact_lock('long')");

		is($result->out . ($result->error || ''),
			1, "$level: accepted in a later transaction");

		# Somebody who comes with a later token waits for this transaction.
		$two->start("SELECT redis_fence_check('long', 1)");
		wait_for_row_lock($two);
		$one->query('COMMIT');
		is($two->wait->error, undef, "$level: its row is locked until the end");
	}
	is(counter('long'), 1, 'no other token was drawn');

	# After a rollback the row does not have it.
	$two->query_is("SELECT redis_fence_forget('long')", 't', 'forgotten');
	$one->query_is(
		"BEGIN; SELECT redis_fenced_xact_lock('long'); ROLLBACK", '1',
		'recorded and rolled back');
	is(row('long'), '', 'the row is not there');
	$one->query_is("SELECT redis_fenced_xact_lock('long')", '1', 'again');
	is(row('long'), 1, 'now it is');

	# Another key's history does not matter, another hold's does.
	$one->query_is("SELECT redis_unlock('long')", 't', 'given back');
	set_counter('long', 0);
	$one->query_is("SELECT redis_fenced_lock('long')",
		'1', 'the same number from a counter that was lost');
	$one->query_is("SELECT redis_fenced_xact_lock('long'), redis_fence('long')",
		'2|2', 'the same session, but another hold: raised');
	is(row('long'), 2, 'recorded');
	$one->query_is("SELECT redis_unlock('long')", 't', 'given back');
	nothing_left($node, $redis, keys => $counters);
};

# ----------
# The counter is lost
# ----------

subtest 'the counter is lost' => sub {
	my $calls;

	# By a new hold, with one more request.
	$two->query_is("SELECT redis_fence_check('lost', 41)", '', 'recorded: 41');
	$calls = $redis->script_calls;
	$one->query_is(
		"BEGIN; SELECT redis_fenced_xact_lock('lost'); SELECT redis_fence('lost')",
		"42\n42", 'the token is raised above the row');
	of_redis 'no commands that could be counted' => sub {
		is($redis->script_calls - $calls, 2, 'with one more request');
	};
	is(counter('lost'), 42, 'and so is the counter');
	$one->query_is("SELECT redis_fenced_lock('lost')",
		'42', 're-entry returns the raised token');
	$one->query_is('COMMIT', '', 'committed');
	is(row('lost'), 42, 'recorded');
	$one->query_is("SELECT redis_fence('lost'), redis_unlock('lost')",
		'42|t', 'also after the transaction');

	# Equal to what somebody else has recorded.
	set_counter('lost', 41);
	$two->query_is("SELECT redis_fenced_lock('lost')", '42',
		'the number that the row has, given to somebody else');
	$two->query_is("SELECT redis_fenced_xact_lock('lost'), redis_fence('lost')",
		'43|43', 'refused, and raised');
	is(row('lost'), 43, 'recorded');

	# Lost in the middle: this hold has recorded 43, that is enough.
	set_counter('lost', undef);
	$two->query_is("SELECT redis_fenced_xact_lock('lost')",
		'43', 'a recorded token does not need the counter');
	$two->query_is("SELECT redis_unlock('lost')", 't', 'given back');

	# FLUSHALL takes the lock, too: a holder who still has to be raised is lost.
	$one->query_is("SELECT redis_fenced_lock('lost')",
		'1', 'a token that is too low');
	$redis->cmd('FLUSHALL');
	$one->query_fails("SELECT redis_fenced_xact_lock('lost')",
		'55000', qr/the lock "lost" was lost.*deleted/s,
		'its hold is gone from the store');
	is(counter('lost'), undef, 'the counter was not touched');
	$one->query('SELECT redis_unlock_all()');
	is(row('lost'), 43, 'nor the row');
	$one->query_is("SELECT redis_fenced_xact_lock('lost')",
		'44', 'the next one goes on');

	# A counter that is behind, and nobody notices as nothing was recorded: as
	# good as the store's counter.
	$redis->cmd('FLUSHALL');
	$one->query_is("SELECT redis_fenced_lock('lost'), redis_unlock('lost')",
		'1|t', 'a session-level token is as good as the counter');
	is(row('lost'), 44, 'and the table does not hear of it');
	nothing_left($node, $redis, keys => $counters);
};

# ----------
# A row that another transaction has locked
# ----------

# two records a token of its own and stays open; one has the lock in Redis with
# a lower token and waits for the row; two ends; one judges the row again.
# READ COMMITTED goes on above the row.  A higher level must fail if the row was
# changed since its snapshot, and go on if it was not.
foreach my $level ('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE')
{
	foreach my $there (0, 1)
	{
		foreach my $end ('COMMIT', 'ROLLBACK')
		{
			my $key = lc "$level $there $end";

			subtest "$level, a row that is "
			  . ($there ? 'there' : 'new')
			  . ", $end" => sub {
				$two->query_is("SELECT redis_fence_check('$key', 5)",
					'', 'recorded: 5')
				  if $there;
				$two->query_is("BEGIN; SELECT redis_fence_check('$key', 10)",
					'', 'another transaction records 10');
				$one->query("BEGIN ISOLATION LEVEL $level");
				$one->start("SELECT redis_fenced_xact_lock('$key')");
				wait_for_row_lock($one);
				ok($one->is_running, 'the row is waited for');
				$two->query_is($end, '', "the other one: $end");

				my $result = $one->wait;
				if ($end eq 'ROLLBACK')
				{
					is($result->out . ($result->error || ''),
						$there ? 6 : 1, 'judged again');
				}
				elsif ($level eq 'READ COMMITTED')
				{
					is($result->out . ($result->error || ''),
						11, 'judged again, and raised');
				}
				else
				{
					$result->fails('40001', qr/could not serialize access/,
						'the row was changed since the snapshot');
				}
				$one->query('COMMIT');
				my $expected = $result->error ? 10 : $result->out;
				is(row($key), $expected, 'what the row has');
				nothing_left($node, $redis, keys => $counters);
			};
		}
	}

	# Changed after BEGIN but before the snapshot: nothing to complain of.
	subtest "$level, a row changed before the snapshot" => sub {
		$one->query("BEGIN ISOLATION LEVEL $level");
		$two->query_is("SELECT redis_fence_check('$level', 7)", '', 'recorded: 7');
		my $result = $one->query("SELECT redis_fenced_xact_lock('$level')");
		is($result->out . ($result->error || ''), 8, 'above the row');
		is($one->query('COMMIT')->error, undef, 'committed');
		is(row($level), 8, 'recorded');

		# The snapshot is older than the row: not even the waiting is needed.
		$one->query("BEGIN ISOLATION LEVEL $level; SELECT 1 FROM redis_fences");
		$two->query_is("SELECT redis_fence_check('$level', 20)",
			'', 'recorded since the snapshot: 20');
		$result = $one->query("SELECT redis_fenced_xact_lock('$level')");
		if ($level eq 'READ COMMITTED')
		{
			is($result->out, 21, 'above the row');
		}
		else
		{
			$result->fails('40001', qr/could not serialize access/,
				'a row changed since the snapshot');
		}
		$one->query('ROLLBACK');
		nothing_left($node, $redis, keys => $counters);
	};
}

# one waits for the row and is stopped there: the lock is given back.
my %stops = (
	'a cancel' => [ sub { $_[0]->cancel }, '57014' ],
	'statement_timeout' =>
	  [ sub { }, '57014', "SET LOCAL statement_timeout = '300ms'" ],
	'lock_timeout' => [ sub { }, '55P03', "SET LOCAL lock_timeout = '300ms'" ],
	'pg_terminate_backend' => [ sub { $_[0]->terminate }, '57P01' ]);

foreach my $how (sort keys %stops)
{
	my ($stop, $sqlstate, $before) = @{ $stops{$how} };

	subtest "waiting for the row, and $how" => sub {
		my $s = $node->session;

		$two->query_is("BEGIN; SELECT redis_fence_check('stopped', 10)",
			'', 'another transaction has the row');
		$s->query('BEGIN');
		$s->query($before) if $before;
		$s->start("SELECT redis_fenced_xact_lock('stopped')");
		wait_for_row_lock($s) unless $before;
		$stop->($s);
		$s->wait->fails($sqlstate, qr/./, 'stopped');
		$two->query('ROLLBACK');
		$s->query('ROLLBACK') unless $sqlstate eq '57P01';
		nothing_left($node, $redis, keys => $counters);
		is(row('stopped'), '', 'nothing is recorded');
		$s->quit;
	};
}

# Forgotten while it is waited for: the row is made again.
subtest 'a row that is forgotten meanwhile' => sub {
	$two->query_is(
		"SELECT redis_fence_check('forgotten', 5); BEGIN; SELECT redis_fence_forget('forgotten')",
		"\nt", 'deleted, not committed');
	$one->start("SELECT redis_fenced_xact_lock('forgotten')");
	wait_for_row_lock($one);
	$two->query('COMMIT');
	is($one->wait->out, 1, 'taken');
	is(row('forgotten'), 1, 'and made anew');
	nothing_left($node, $redis, keys => $counters);
};

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
	wait_for_row_lock($two);
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
	EXCEPTION WHEN triggered_data_change_violation OR integrity_constraint_violation OR SQLSTATE '40002' THEN
		RAISE NOTICE 'caught %', SQLSTATE;
	END;
END $$
SQL
	is_deeply(
		[ map { $_->message } $result->notices ],
		[
			'in 1: 1 1', 'after 1: 1 <NULL>', 'in 2: 1 1', 'in 3: 1 1',
			'after 3: 1 1', 'in 4: 1 1', 'in 5: 1 1', 'after 5: 1 1',
			'in 6: 1 1', 'caught 40002'
		],
		'record and token');
	is($result->error, undef, 'and no error');
	is(row('s4'), 1, 'what the last block wrote is rolled back');
	is(row('s5'), '', 'lock and record');
	nothing_left($node, $redis, keys => $counters);
};

# The owner's own trigger on the table takes Redis locks while the record is
# written, so many that whatever keeps account of them has to grow.
subtest 'a trigger that takes locks' => sub {
	$node->safe_psql('postgres', <<'SQL');
CREATE FUNCTION take_locks() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM redis_xact_lock('many ' || i) FROM generate_series(1, 200) i;
	RETURN NEW;
END $$;
CREATE TRIGGER take_locks BEFORE INSERT OR UPDATE ON redis_fences
	FOR EACH ROW EXECUTE FUNCTION take_locks();
SQL
	my $s = $node->session;

	$s->query_is("BEGIN; SELECT redis_fenced_xact_lock('trigger')",
		'1', 'recorded');
	$s->query_is("SELECT count(*) FROM redis_locks", '201', 'with many locks');
	$s->query_is("SELECT redis_fenced_xact_lock('trigger')",
		'1', 'and known to be recorded');
	$s->query_is('COMMIT', '', 'committed');
	is(row('trigger'), 1, 'indeed');
	$node->safe_psql('postgres', 'DROP TRIGGER take_locks ON redis_fences');
	$s->quit;
	nothing_left($node, $redis, keys => $counters);
};

# ----------
# Tokens issued elsewhere
# ----------

$node->safe_psql('postgres', <<'SQL');
CREATE ROLE bob LOGIN;
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
	$result->fails('40002', qr/fencing token 4 of lock "check" is stale/,
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
		wait_for_row_lock($service);
		$two->query('COMMIT');
		$service->wait->fails(
			$level eq 'READ COMMITTED' ? '40002' : '40001',
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

# ----------
# Who may write the table
# ----------

subtest 'ordinary roles' => sub {
	my $bob = $node->session(user => 'bob');

	$bob->query_is("SELECT redis_fenced_xact_lock('bob')", '1',
		'an ordinary role records through the function');
	is(row('bob'), 1, 'indeed');
	$bob->query_is("$seen 'bob'", '1', 'and may look at the table');
	foreach my $sql (
		"INSERT INTO redis_fences VALUES ('x', 1, now())",
		"UPDATE redis_fences SET token = 1",
		"UPDATE redis_fences SET recorded_at = now()",
		'DELETE FROM redis_fences',
		'TRUNCATE redis_fences',
		"SELECT 1 FROM redis_fences WHERE key = 'bob' FOR UPDATE",
		"SELECT 1 FROM redis_fences WHERE key = 'bob' FOR KEY SHARE",
		"DO 'BEGIN LOCK TABLE redis_fences IN ROW EXCLUSIVE MODE; END'",
		'CREATE TRIGGER t BEFORE INSERT ON redis_fences FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()',
		"SELECT redis_fence_check('bob', 100)",
		"SELECT redis_fence_forget('bob')")
	{
		$bob->query_fails($sql, '42501', qr/permission denied/, $sql);
	}
	foreach my $sql (
		'ALTER TABLE redis_fences DISABLE ROW LEVEL SECURITY',
		'CREATE RULE r AS ON INSERT TO redis_fences DO NOTHING',
		'DROP TABLE redis_fences')
	{
		$bob->query_fails($sql, '42501', qr/must be owner/, $sql);
	}
	is(row('bob'), 1, 'nothing has changed');

	# The owner of the extension.
	$one->query_is(
		"SELECT redis_fence_forget('bob'), redis_fence_forget('bob')",
		't|f', 'the owner may forget a key, once');
	is(row('bob'), '', 'forgotten');
	$bob->query_is("SELECT redis_fenced_xact_lock('bob')", '2',
		'a key that was forgotten starts from its counter');
	$one->query_is("BEGIN; SELECT redis_fence_forget('bob'); ROLLBACK",
		't', 'in a transaction that is rolled back');
	is(row('bob'), 2, 'not forgotten');
	$one->query_fails("SELECT redis_fence_forget(NULL)",
		'22004', qr/key must not be null/, 'null key');

	# Somebody else's identity is not left behind, by errors neither.
	$bob->query_is(
		"BEGIN; SELECT redis_fenced_xact_lock('bob'); SELECT current_user",
		"3\nbob", 'the role is still itself');
	$two->start("SELECT redis_fence_check('bob', 50)");
	wait_for_row_lock($two);
	$bob->query('ROLLBACK');
	$two->wait;
	$bob->query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
	$two->query_is("SELECT redis_fence_check('bob', 60)", '', 'recorded: 60');
	my $result = $bob->query(<<'SQL');
DO $$
BEGIN
	PERFORM redis_fenced_xact_lock('bob');
EXCEPTION WHEN serialization_failure THEN
	RAISE NOTICE 'caught as %', current_user;
END $$
SQL
	is_deeply([ map { $_->message } $result->notices ],
		['caught as bob'], 'also after an error in the middle');
	$bob->query_fails("DELETE FROM redis_fences", '42501',
		qr/permission denied/, 'and has its own rights');
	$bob->query('ROLLBACK');

	# Through a function of the owner's, and with another role.
	$node->safe_psql('postgres', <<'SQL');
CREATE FUNCTION definer() RETURNS bigint LANGUAGE sql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp
	AS $$ SELECT public.redis_fenced_xact_lock('bob') $$;
GRANT service TO bob;
SQL
	$bob->query_is('SELECT definer()', '61', 'inside SECURITY DEFINER');
	$bob->query_is(
		"SET ROLE service; SELECT redis_fenced_xact_lock('bob'), current_user; RESET ROLE",
		'62|service', 'after SET ROLE');
	$bob->quit;
	nothing_left($node, $redis, keys => $counters);
};

# An ordinary role puts operators, functions and tables of its own in front of
# PostgreSQL's.  They are called where it asks for them itself, and nowhere in
# what runs as the owner of the table.
subtest 'own operators in front of the path' => sub {
	$node->safe_psql('postgres', <<'SQL');
CREATE SCHEMA evil AUTHORIZATION bob;
CREATE TABLE witness (who text, what text);
GRANT ALL ON witness TO PUBLIC;
GRANT EXECUTE ON FUNCTION redis_fence_check(text, bigint), redis_fence_forget(text) TO bob;
SQL
	my $bob = $node->session(user => 'bob');
	my $setup = $bob->query(<<'SQL');
CREATE FUNCTION evil.tell(what text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO public.witness VALUES (current_user, what);
	RETURN true;
END $$;
CREATE FUNCTION evil.less(bigint, bigint) RETURNS boolean LANGUAGE sql
	AS $$ SELECT evil.tell('<') $$;
CREATE FUNCTION evil.equal(text, text) RETURNS boolean LANGUAGE sql
	AS $$ SELECT evil.tell('=') $$;
CREATE OPERATOR evil.< (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = evil.less);
CREATE OPERATOR evil.= (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.equal);
CREATE FUNCTION evil.clock_timestamp() RETURNS timestamptz LANGUAGE sql
	AS $$ SELECT pg_catalog.clock_timestamp() FROM evil.tell('clock_timestamp') $$;
CREATE TABLE evil.redis_fences (LIKE public.redis_fences INCLUDING ALL);
CREATE FUNCTION evil.trigger() RETURNS trigger LANGUAGE plpgsql
	AS $$ BEGIN PERFORM evil.tell('trigger'); RETURN NEW; END $$;
CREATE TRIGGER t BEFORE INSERT OR UPDATE OR DELETE ON evil.redis_fences
	FOR EACH ROW EXECUTE FUNCTION evil.trigger();
CREATE TEMP TABLE redis_fences (LIKE public.redis_fences INCLUDING ALL);
CREATE TRIGGER t BEFORE INSERT OR UPDATE OR DELETE ON pg_temp.redis_fences
	FOR EACH ROW EXECUTE FUNCTION evil.trigger();
SQL
	is($setup->{raw}, '', 'set up');

	foreach my $path ('evil, pg_catalog', 'pg_temp, evil, pg_catalog')
	{
		$bob->query("SET search_path = $path");
		$bob->query_is(
			q{SELECT 1::bigint < 2::bigint, 'a'::text = 'b'::text, clock_timestamp() IS NULL},
			't|t|f',
			"$path: operators of its own");
		is( $node->value(
				q{SELECT string_agg(DISTINCT who, ' '), count(*) FROM witness}),
			'bob|3',
			'are called');
		$node->safe_psql('postgres', 'TRUNCATE witness');

		my $high = 1000 + (row('evil') || 0);
		$bob->query_is(
			"SELECT public.redis_fence_check('evil', $high)", '',
			'redis_fence_check');
		my $token = $high + 1;
		$bob->query_is(
			"BEGIN; SELECT public.redis_fenced_xact_lock('evil'); SELECT public.redis_try_fenced_xact_lock('evil'); COMMIT",
			"$token\n$token", 'redis_fenced_xact_lock, that has to be raised');
		$bob->query_fails("SELECT public.redis_fence_check('evil', 1)",
			'40002', qr/stale/, 'redis_fence_check, stale');
		$bob->query_is("SELECT public.redis_fence_forget('forgotten')",
			$path eq 'evil, pg_catalog' ? 't' : 'f', 'redis_fence_forget');
		is(row('evil'), $token, 'recorded where it belongs');
		is($node->value('SELECT string_agg(DISTINCT what, \' \') FROM witness'),
			'', 'none of its own code has run');
		is($node->value('SELECT count(*) FROM evil.redis_fences'),
			0, 'nor was its own table written');
	}
	$bob->quit;
	nothing_left($node, $redis, keys => $counters);
};

# ----------
# Other databases
# ----------

# The extension in a schema of another name.
subtest 'another schema' => sub {
	$node->safe_psql('postgres', 'CREATE DATABASE other');
	$node->safe_psql('other',
		'CREATE SCHEMA "Odd ""schema"; CREATE EXTENSION lockredis SCHEMA "Odd ""schema"');
	my $s = $node->session(dbname => 'other');

	$s->query_fails("SELECT redis_fenced_xact_lock('row')",
		'42883', qr/does not exist/, 'not on the path');
	my $before = counter('row') || 0;
	$s->query_is(
		q{SELECT "Odd ""schema".redis_fenced_xact_lock('row')},
		$before + 1, 'by its full name; keys are common to all databases');
	is($node->value(q{SELECT token FROM "Odd ""schema".redis_fences WHERE key = 'row'},
			dbname => 'other'),
		$before + 1, 'recorded there');
	is(row('row'), 4, 'each database has its own table');

	# Renamed while sessions have used it.
	$node->safe_psql('other', 'ALTER SCHEMA "Odd ""schema" RENAME TO locks');
	$s->query_is("SELECT locks.redis_fenced_xact_lock('row')",
		$before + 2, 'a schema that is renamed later');
	$s->query_is("SELECT locks.redis_fence_check('row', 100)", '', 'check');
	$s->query_is("SELECT locks.redis_fence_forget('row')", 't', 'forget');

	# Made anew while sessions have used it.
	$node->safe_psql('other',
		'DROP EXTENSION lockredis; CREATE EXTENSION lockredis SCHEMA locks');
	$s->query_is("SELECT locks.redis_fenced_xact_lock('row')",
		$before + 3, 'an extension that is made anew');
	$s->query_is('SELECT key, token FROM locks.redis_fences',
		'row|' . ($before + 3), 'recorded');
	$s->quit;
	nothing_left($node, $redis, keys => $counters);
};

# The owner of a database owns the schema public and can rename it, but is no
# superuser.  A table of the same name stands where ours was, with a trigger:
# whatever finds our table by its name must not run it as the owner of ours.
subtest 'a schema that is put in the place of ours' => sub {
	$node->safe_psql('postgres',
		'CREATE ROLE carol LOGIN; CREATE DATABASE shop OWNER carol');
	$node->safe_psql('shop', 'CREATE EXTENSION lockredis');
	my ($carol, $other) =
	  map { $node->session(dbname => 'shop', user => 'carol') } 1 .. 2;
	my $witness = sub {
		return $node->value(q{SELECT string_agg(DISTINCT who, ' ') FROM w.witness},
			dbname => 'shop');
	};

	# Her session has used the table, so its statements are prepared.
	my $token = $carol->value("SELECT redis_fenced_xact_lock('shop')");
	my $setup = $carol->query(<<'SQL');
CREATE SCHEMA w;
CREATE TABLE w.witness (who text);
CREATE FUNCTION w.trigger() RETURNS trigger LANGUAGE plpgsql
	AS $$ BEGIN INSERT INTO w.witness VALUES (current_user); RETURN NEW; END $$;
ALTER SCHEMA public RENAME TO other;
CREATE SCHEMA public;
CREATE TABLE public.redis_fences (LIKE other.redis_fences INCLUDING ALL);
CREATE TRIGGER t BEFORE INSERT OR UPDATE OR DELETE ON public.redis_fences
	FOR EACH ROW EXECUTE FUNCTION w.trigger();
SQL
	is($setup->{raw}, '', 'set up');
	my $result = $carol->query("SELECT other.redis_fenced_xact_lock('shop')");
	is($witness->(), '', 'no code of hers has run as the owner of the extension');
	is($result->out . ($result->error || ''),
		$token + 1, 'and the token is recorded');
	is( $node->value('SELECT token FROM other.redis_fences', dbname => 'shop'),
		$token + 1,
		'where it belongs');

	# A second session of hers exchanges the two schemas again and again, so that
	# some exchange comes after the name was looked up and before it is used.
	$setup = $carol->query(<<'SQL');
CREATE SEQUENCE w.stop;
CREATE PROCEDURE w.swap() LANGUAGE plpgsql AS $$
BEGIN
	WHILE NOT (SELECT is_called FROM w.stop) LOOP
		ALTER SCHEMA public RENAME TO between;
		ALTER SCHEMA other RENAME TO public;
		ALTER SCHEMA between RENAME TO other;
		COMMIT;
	END LOOP;
END $$;
CREATE PROCEDURE w.use(n int) LANGUAGE plpgsql AS $$
DECLARE
	recorded int := 0;
BEGIN
	WHILE recorded < n LOOP
		BEGIN
			PERFORM public.redis_fenced_xact_lock('shop');
			recorded := recorded + 1;
		EXCEPTION WHEN undefined_function OR undefined_table OR invalid_schema_name THEN
			NULL;
		END;
		COMMIT;
	END LOOP;
END $$;
SQL
	is($setup->{raw}, '', 'set up');
	$other->start('CALL w.swap()');
	is($carol->query('CALL w.use(500)')->error, undef,
		'500 tokens recorded while schemas are exchanged');
	$node->value("SELECT nextval('w.stop')", dbname => 'shop');
	is($other->wait->error, undef, 'many times');
	is($witness->(), '', 'no code of hers has run as the owner of the extension');
	$_->quit foreach $carol, $other;
	nothing_left($node, $redis, keys => $counters);
};

subtest 'key_prefix' => sub {
	my $s = $node->session(settings => { 'lockredis.key_prefix' => 'app:' });

	$s->query_is("SELECT redis_fenced_xact_lock('prefixed'), redis_fence('prefixed')",
		'1|1', 'taken');
	is(counter('app:prefixed'), 1, 'the prefix is part of the counter');
	is(row('app:prefixed'), 1, "and of the table's key");
	$s->query_is("SELECT redis_fence_check('prefixed', 7)", '', 'recorded: 7');
	is(row('app:prefixed'), 7, 'redis_fence_check');
	$s->query_is("SELECT redis_fenced_xact_lock('prefixed')", '8', 'raised');
	$s->query_is("SELECT redis_fence_forget('prefixed')", 't',
		'redis_fence_forget');
	is(row('app:prefixed'), '', 'forgotten');
	$s->quit;
	nothing_left($node, $redis, keys => $counters);
};

# Redis speaks UTF-8; the table has the key in the encoding of its database.
subtest 'encodings' => sub {
	my $key = "cl\xc3\xa9 \xc3\xbc";

	$node->safe_psql('postgres',
		"CREATE DATABASE latin1 ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0");
	$node->safe_psql('postgres',
		"CREATE DATABASE ascii ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0");
	foreach my $dbname ('latin1', 'ascii')
	{
		$node->safe_psql($dbname, 'CREATE EXTENSION lockredis');
		my $s = $node->session(dbname => $dbname);

		$redis->cmd('FLUSHALL');
		$s->query_is("SELECT redis_fenced_xact_lock('$key')", '1', "$dbname: taken");
		is(counter($key), 1, "$dbname: the counter's name is UTF-8");
		$s->query_is(
			"SELECT key = '$key', octet_length(key), token FROM redis_fences",
			't|' . ($dbname eq 'latin1' ? 5 : 7) . '|1',
			"$dbname: the key is in the encoding of the database");
		$s->query_is("SELECT redis_fence_check('$key', 9)", '', "$dbname: check");
		$s->query_is("SELECT redis_fenced_xact_lock('$key')", '10', "$dbname: raised");
		$s->query_fails("SELECT redis_fence_check('$key', 2)",
			'40002', qr/of lock "\Q$key\E"/, "$dbname: the key in a message");
		$s->query_is("SELECT redis_fence_forget('$key')", 't', "$dbname: forget");
		if ($dbname eq 'ascii')
		{
			$s->query_fails(
				"SELECT redis_fenced_xact_lock(E'\\xff')",
				'22021', qr/invalid byte sequence/,
				"$dbname: no UTF-8, no key");
		}
		$s->quit;
	}
	nothing_left($node, $redis, keys => $counters);
};

# A dump has the table's rows, as the counter may not be there where it is
# restored.
subtest 'dump and restore' => sub {
	my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump.sql';
	my $all = q{SELECT string_agg(key || '=' || token || '@' || recorded_at, ',' ORDER BY key) FROM redis_fences};

	$one->query_is("SELECT redis_fence_check('dump', 77)", '', 'recorded: 77');
	command_ok([ 'pg_dump', '-f', $dump, '-d', $node->connstr('postgres') ],
		'dumped');
	$node->safe_psql('postgres', 'CREATE DATABASE restored');
	command_ok(
		[
			'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $dump, '-d',
			$node->connstr('restored')
		],
		'restored');
	is($node->value($all, dbname => 'restored'),
		$node->value($all), 'with its rows');

	$redis->cmd('FLUSHALL');
	my $s = $node->session(dbname => 'restored', user => 'bob');
	$s->query_is("SELECT redis_fenced_xact_lock('dump')", '78',
		'tokens go on where they were, though the counter is gone');
	$s->query_fails('DELETE FROM redis_fences', '42501',
		qr/permission denied/, 'and the table is as protected as before');
	$s->quit;
	nothing_left($node, $redis, keys => $counters);
};

# ----------
# Where nothing can be written
# ----------

subtest 'a read-only transaction' => sub {
	my $before = counter('row') || 0;

	foreach my $function ('redis_fenced_xact_lock', 'redis_try_fenced_xact_lock')
	{
		$one->query_fails("BEGIN READ ONLY; SELECT $function('row')",
			'25006', qr/read-only transaction/, $function);
		$one->query('ROLLBACK');
	}
	$one->query_fails("BEGIN READ ONLY; SELECT redis_fence_check('row', 5000)",
		'25006', qr/read-only transaction/, 'redis_fence_check');
	$one->query('ROLLBACK');
	is(counter('row') || 0, $before, 'no token was drawn');
	nothing_left($node, $redis, keys => $counters);
};

of_redis 'it takes no locks' => sub {
	subtest 'a standby' => sub {
		$node->backup('fence');
		my $standby = LockRedis::Node->new('standby');
		$standby->init_from_backup($node, 'fence', has_streaming => 1);
		$standby->start;
		$node->wait_for_catchup($standby);
		$standby->wait_for_up;
		my $s = $standby->session;
		my $token = $s->value("SELECT redis_fenced_lock('standby')");

		is($token, counter('standby'), 'session-level tokens can be had');
		$two->query_is("SELECT redis_try_fenced_lock('standby')",
			'NULL', 'and exclude those of the primary');
		foreach my $key ('standby', 'standby 2')
		{
			$s->query_fails("SELECT $_('$key')",
				'25006', qr/recovery|read-only/, "$_ of $key")
			  foreach 'redis_fenced_xact_lock', 'redis_try_fenced_xact_lock',
			  'redis_fence_forget';
			$s->query_fails("SELECT redis_fence_check('$key', 1)",
				'25006', qr/recovery|read-only/, "redis_fence_check of $key");
		}
		is(counter('standby 2'), undef, 'nothing was taken for it');
		$s->query_is("SELECT redis_fence('standby'), redis_unlock('standby')",
			"$token|t", 'the hold is not disturbed');
		$s->quit;
		nothing_left([ $node, $standby ], $redis, keys => $counters);
		$standby->stop;
	};
};

# ----------
# Whatever happens to the counter
# ----------

# Six sessions record tokens of two keys, in transactions and savepoints that
# are sometimes rolled back, over session-level holds and without; meanwhile the
# counters are deleted, set back, and everything is flushed.  The commit guard
# is off, so nothing but the fence table decides.  A trigger writes down what
# happens to the rows while they are locked, so its numbers are in the order of
# the commits.
subtest 'tokens never go down' => sub {
	my $seed = $ENV{LOCKREDIS_TEST_SEED} || time;

	srand $seed;
	note "seed $seed; LOCKREDIS_TEST_SEED sets it";
	$node->safe_psql('postgres', <<'SQL');
CREATE TABLE history (n bigserial, key text, op text, old bigint, new bigint);
GRANT ALL ON history, history_n_seq TO PUBLIC;
CREATE FUNCTION note_fence() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO history (key, op, old, new)
		VALUES (NEW.key, TG_OP, CASE TG_OP WHEN 'UPDATE' THEN OLD.token END, NEW.token);
	RETURN NULL;
END $$;
CREATE TRIGGER note AFTER INSERT OR UPDATE ON redis_fences
	FOR EACH ROW EXECUTE FUNCTION note_fence();
CREATE SEQUENCE failures;
CREATE SEQUENCE stop;

CREATE FUNCTION draw(k text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	t bigint := redis_fenced_xact_lock(k);
	r bigint;
BEGIN
	SELECT token INTO r FROM redis_fences WHERE key = k;
	IF r IS DISTINCT FROM t OR redis_fence(k) IS DISTINCT FROM t THEN
		RAISE EXCEPTION 'token % but % recorded and % held', t, r, redis_fence(k);
	END IF;
END $$;

CREATE PROCEDURE stress() LANGUAGE plpgsql AS $$
DECLARE
	k text;
BEGIN
	WHILE NOT (SELECT is_called FROM stop) LOOP
		k := 'stress ' || 1 + floor(random() * 2);
		BEGIN
			IF random() < 0.3 THEN
				PERFORM redis_lock(k);
			ELSIF random() < 0.3 THEN
				PERFORM redis_fenced_lock(k);
			END IF;
			BEGIN
				PERFORM draw(k);
				IF random() < 0.3 THEN
					RAISE division_by_zero;
				END IF;
			EXCEPTION WHEN division_by_zero THEN
				NULL;
			END;
			PERFORM draw(k);
		-- The last if the test is just changing the counter in a table
		EXCEPTION WHEN serialization_failure OR object_not_in_prerequisite_state
		OR lock_not_available THEN
			PERFORM nextval('failures');
		END;
		IF random() < 0.2 THEN
			ROLLBACK;
		ELSE
			COMMIT;
		END IF;
		PERFORM redis_unlock_all();
		COMMIT;
	END LOOP;
END $$;
SQL
	my @workers = map {
		$node->session(
			settings => {
				'lockredis.commit_guard' => 'off',
				'client_min_messages' => 'error'
			})
	} 1 .. 6;

	$_->start('CALL stress()') foreach @workers;
	foreach my $i (1 .. 60)
	{
		my $key = 'stress ' . (1 + int rand 2);

		pause(rand 0.05);
		if ($i % 3 == 0) { $redis->cmd('FLUSHALL'); }
		elsif (rand() < 0.5) { set_counter($key, int rand 5); }
		elsif (rand() < 0.5) { $redis->cmd('DEL', $key); }
	}
	$node->value("SELECT nextval('stop')");
	is_deeply([ map { my $r = $_->wait; $r->error ? $r->{raw} : () } @workers ],
		[], 'no session failed otherwise');
	my ($updates, $down, $broken) = split /\|/, $node->value(<<'SQL');
SELECT count(*) FILTER (WHERE op = 'UPDATE'),
	count(*) FILTER (WHERE new <= old),
	count(*) FILTER (WHERE old IS DISTINCT FROM before)
FROM (SELECT *, lag(new) OVER (PARTITION BY key ORDER BY n) AS before FROM history) h
SQL
	is($down, 0, 'no token was recorded at or below another one');
	is($broken, 0, 'each was recorded upon the one before');
	cmp_ok($updates, '>=', 100, "$updates tokens were recorded");
	note 'holds found lost: ' . $node->value('SELECT last_value FROM failures');
	$_->quit foreach @workers;
	nothing_left($node, $redis, keys => $counters);
};

$one->quit;
$two->quit;
nothing_left($node, $redis, keys => $counters);
done_testing();
