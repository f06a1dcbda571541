# Copyright (c) 2026, lockredis contributors

# Fencing.  Tokens come from the counter of Redisson's RFencedLock; the fence
# table has the highest one recorded by a committed transaction, never goes down
# when the counter is lost, and is judged under a row lock at each isolation
# level. What a late holder may do to the data is the subject of 111_fence_race.
# Proves G16, G17.

use LockRedis::Test;
use LockRedis::Topic::Fencing;

start_servers();

# ----------
# Tokens
# ----------

subtest "Redisson's counter" => sub {
	$one->query_is(
		"SELECT redis_fenced_lock('plain'), redis_fence('plain')",
		'1|1', 'the first token of a key is 1');
	is(counter('plain'), 1, 'it comes from the counter of RFencedLock');
	is_deeply([ values %{ $redis->hash('plain') } ], [1], 'the lock is a plain reentrant lock');
	of_redis 'no time to live' => sub {
		is($redis->cmd('TTL', 'redisson_lock_token:{plain}'), -1, 'the counter never expires');
	};
	$one->query_is(
		"SELECT redis_fenced_lock('plain'), redis_try_fenced_lock('plain'), redis_fence('plain')",
		'1|1|1', 're-entry returns the token held');
	$two->query_is("SELECT redis_try_fenced_lock('plain'), redis_fence('plain')",
		'NULL|NULL', 'busy is null, and another session has no token');
	$one->query_is(
		'SELECT redis_unlock_all(), redis_fence(\'plain\')',
		'1|NULL', 'without the lock there is no token');
	$two->query_is("SELECT redis_try_fenced_lock('plain'), redis_unlock('plain')",
		'2|t', 'the next acquisition has the next token');

	# A key with a brace has another place for its counter, as in Redisson.
	$one->query_is("SELECT redis_fenced_lock('a{b}'), redis_unlock('a{b}')",
		'1|t', 'a key with a brace');
	is(counter('a{b}'), 1, 'and its counter');

	# An unfenced lock draws none.  (Redis knows the scripts from here on.)
	$one->query("SELECT redis_lock('warm'), redis_fenced_lock('warm'), redis_unlock_all()");
	$one->query_is("SELECT redis_lock('plain'), redis_fence('plain')",
		'|NULL', 'a plain lock has no token');
	my $calls = $redis->script_calls;
	$one->query_is(
		"SELECT redis_fenced_lock('plain'), redis_fence('plain'), redis_hold_count('plain')",
		'3|3|2', 'it gets one at its first fenced use');
	of_redis 'no commands that could be counted' => sub {
		is($redis->script_calls - $calls, 1, 'with one request, for the token');
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
	$two->query_is("SELECT redis_force_unlock('plain')", 't', 'taken away');
	$one->query_is("SELECT redis_fence('plain')", 'NULL', 'lost: no token');
	$one->query_fails("SELECT redis_fenced_lock('plain')",
		'55000', qr/the lock "plain" was lost/, 'lost: no token');
	$one->query_fails("SELECT redis_fenced_xact_lock('plain')",
		'55000', qr/the lock "plain" was lost/, 'nor in a transaction');
	is(counter('plain'), 3, 'lost: none is drawn');
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
		my $somebody = $redis->somebody('somebody:7');
		$one->query_fails("SELECT $take('gone')",
			'55000', qr/the lock "gone" was lost.*taken by \Q$somebody\E/s,
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
	$one->query_is("SELECT redis_fenced_xact_lock('row')", '2', 'the next token is recorded');
	is(row('row'), 2, 'by its transaction');
	$one->query_is("SELECT redis_fenced_lock('row'), redis_unlock('row')",
		'3|t', 'a session-level token');
	is(row('row'), 2, 'is not recorded');
	$one->query_is("SELECT redis_try_fenced_xact_lock('row')", '4', 'try records as well');
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

		is($result->out . ($result->error || ''), 1, "$level: accepted in a later transaction");

		# Somebody who comes with a later token waits for this transaction.
		$two->start("SELECT redis_fence_check('long', 1)");
		$node->wait_for_postgres_lock($two);
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
	$one->query_is("SELECT redis_fenced_lock('lost')", '42', 're-entry returns the raised token');
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
	$one->query_is("SELECT redis_fenced_lock('lost')", '1', 'a token that is too low');
	$redis->cmd('FLUSHALL');
	$one->query_fails("SELECT redis_fenced_xact_lock('lost')",
		'55000', qr/the lock "lost" was lost.*deleted/s,
		'its hold is gone from the store');
	is(counter('lost'), undef, 'the counter was not touched');
	$one->query('SELECT redis_unlock_all()');
	is(row('lost'), 43, 'nor the row');
	$one->query_is("SELECT redis_fenced_xact_lock('lost')", '44', 'the next one goes on');

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
				$node->wait_for_postgres_lock($one);
				ok($one->is_running, 'the row is waited for');
				$two->query_is($end, '', "the other one: $end");

				my $result = $one->wait;
				if ($end eq 'ROLLBACK')
				{
					is($result->out . ($result->error || ''), $there ? 6 : 1, 'judged again');
				}
				elsif ($level eq 'READ COMMITTED')
				{
					is($result->out . ($result->error || ''), 11, 'judged again, and raised');
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
		$node->wait_for_postgres_lock($s) unless $before;
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
	$node->wait_for_postgres_lock($one);
	$two->query('COMMIT');
	is($one->wait->out, 1, 'taken');
	is(row('forgotten'), 1, 'and made anew');
	nothing_left($node, $redis, keys => $counters);
};

end_test($node, $redis, keys => $counters);
