# Copyright (c) 2026, lockredis contributors

# Behind a real PgBouncer.  In transaction
# mode redis_xact_lock works and excludes, session-level locks are refused with
# lockredis.session_locks = off, and what would happen otherwise is shown; in
# session mode the reset query gives session-level locks back, DISCARD ALL as
# well as redis_unlock_all(); clients that vanish leave nothing.
# What docs/waiting.md says of limits and of clients that have gone:
# - transaction_timeout ends the session (other limits are in 012_wait)
# - a waiter whose client has gone stays in the queue, unless client_connection_check_interval
#   has its session look; when its turn comes it gives the lock back
# - waiting clients of a pooler occupy its connections to the server: when all of them wait, the
#   unlock of a token lock has to wait for one of them; its query_timeout does not end a wait
# Proves G10.

use LockRedis::Pooler;
use LockRedis::Test;

LockRedis::Pooler->need;

my ($node, $redis) = servers(settings => { client_connection_check_interval => '100ms' });

$node->safe_psql('postgres',
	'CREATE TABLE account (v bigint NOT NULL); INSERT INTO account VALUES (0)');

my $pooler =
  LockRedis::Pooler->new($node, 'default', server_reset_query => 'DISCARD ALL');

# ----------
# Transaction mode
# ----------

subtest 'transaction mode, transaction-level locks' => sub {
	my ($one, $two) = map { $pooler->session('tx') } 1 .. 2;

	# Both connections to the server serve both clients.
	my $first = $one->value('BEGIN; SELECT pg_backend_pid()');
	my $second = $two->value('BEGIN; SELECT pg_backend_pid()');
	isnt($first, $second, 'two transactions, two backends');
	$one->query_is("SELECT redis_xact_lock('tx')", '', 'locked by one client');
	$two->query_is("SELECT redis_try_xact_lock('tx')",
		'f', 'busy for the other one');
	$two->start("SELECT redis_xact_lock('tx')");
	$node->wait_for_waiters('tx', 1);
	is($one->query('COMMIT')->error, undef, 'committed');
	is($two->wait->error, undef, 'the other one has it');
	$one->query_is(
		"BEGIN; SELECT redis_try_xact_lock('tx'); ROLLBACK", 'f',
		'busy the other way round');
	is($two->query('COMMIT')->error, undef, 'committed');

	# A client that comes next on the same backend holds nothing.
	my %seen;
	foreach my $i (1 .. 10)
	{
		foreach my $s ($one, $two)
		{
			my $row = $s->query(
				"BEGIN; SELECT redis_hold_count('tx'), pg_backend_pid(); SELECT redis_xact_lock('tx'); COMMIT"
			)->out;
			$row =~ s/\|(\d+)\n$//;
			$seen{$row}++;
		}
	}
	is_deeply(\%seen, { 0 => 20 }, 'no transaction finds a lock that it has not taken');

	# Fenced: each transaction has a token of its own.
	my @tokens =
	  map { $_->value("SELECT redis_fenced_xact_lock('tx')") } $one, $two, $one;
	is("@tokens", '1 2 3', 'fencing tokens');
	$_->quit foreach $one, $two;
	nothing_left($node, $redis, keys => qr/^redisson_lock_token:/);
};

# A session-level lock belongs to the backend, so the next client has it too.
# That is why it can be refused.
subtest 'transaction mode, session-level locks' => sub {
	my ($one, $two) = map { $pooler->session('tx') } 1 .. 2;

	# one alone: it is the only client that is active, so PgBouncer has given
	# both the same backend.
	my $backend = $one->value("SELECT pg_backend_pid() FROM redis_lock('shared')");
	is($two->value('SELECT pg_backend_pid()'), $backend,
		'another client on the same backend');
	$two->query_is("SELECT redis_try_lock('shared')",
		't', 'has the lock too: nobody is excluded');
	$one->query_is('SELECT redis_unlock_all()', '1', 'given back');

	$node->set('lockredis.session_locks' => 'off');
	$one->query_fails("SELECT redis_lock('shared')",
		'55000', qr/session-level Redis locks are not allowed.*transaction-level lock/s,
		'lockredis.session_locks = off');
	$one->query_is("SELECT redis_xact_lock('shared')",
		'', 'transaction-level locks are allowed');
	$one->query_is("CALL redis_with_lock('shared', 'SELECT 1')",
		't', 'and so is redis_with_lock');
	$one->query_is(
		"SELECT redis_is_held('shared'), redis_is_locked('shared'), redis_unlock_all()",
		'f|f|0', 'and inspection');
	$node->set('lockredis.session_locks' => 'on');
	$_->quit foreach $one, $two;
	nothing_left($node, $redis, keys => qr/^redisson_lock_token:/);
};

# ----------
# Session mode
# ----------

# The client goes, PgBouncer keeps the connection and runs the reset query.  It has no other one,
# which the next client could get while that runs.  Without such a query nothing is given back.
foreach my $reset ('SELECT redis_unlock_all()', 'DISCARD ALL', '')
{
	subtest 'session mode, '
	  . ($reset eq '' ? 'no reset query' : $reset) => sub {
		my $own = LockRedis::Pooler->new(
			$node, 'reset' . length $reset,
			server_reset_query => $reset,
			default_pool_size => 1);

		foreach my $how ('quits', 'vanishes')
		{
			my $one = $own->session('sess');
			my $backend = $one->pid;

			$one->query_is("SELECT redis_lock('k ' || i) FROM generate_series(1, 3) i",
				"\n\n", 'three locks');
			$one->query("SELECT redis_lock('k 1')");
			$how eq 'quits' ? $one->quit : $one->vanish;
			if ($reset eq '')
			{
				my $two = $own->session('sess');
				is($two->pid, $backend, "a client $how: the next one has its backend");
				$two->query_is('SELECT redis_unlock_all()', '3', 'and its locks');
				$two->quit;
				next;
			}
			poll_until('the locks to be given back',
				sub { !grep { /^k / } $redis->all_keys });
			my $two = $own->session('sess');
			is($two->pid, $backend, "a client $how: the next one has its backend");
			$two->query_is(
				"SELECT redis_hold_count('k 1'), redis_try_lock('k 1'), redis_hold_count('k 1')",
				'0|t|1', 'but none of its locks');
			$two->quit;
		}
		nothing_left($node, $redis, keys => qr/^redisson_lock_token:/);
		$own->stop;
	};
}

# ----------
# Clients that vanish in the middle
# ----------

foreach my $mode ('tx', 'sess')
{
	# PgBouncer closes the connection to the server, whose backend ends.
	subtest "$mode: a client vanishes in its transaction" => sub {
		my $one = $pooler->session($mode);
		my $two = $pooler->session($mode);
		my $backend = $one->value(
			"BEGIN; SELECT pg_backend_pid() FROM redis_xact_lock('gone')");

		$one->query("INSERT INTO account VALUES (-1)");
		$two->start("SELECT redis_xact_lock('gone')");
		$node->wait_for_waiters('gone', 1);
		$one->vanish;
		is($two->wait->error, undef, 'the next one has the lock');
		poll_until('its backend to end', sub { !kill 0, $backend });
		is($node->value('SELECT count(*) FROM account WHERE v = -1'),
			0, 'rolled back');
		$two->quit;
		nothing_left($node, $redis, keys => qr/^redisson_lock_token:/);
	};

	# one holds; two waits and vanishes.  Nobody must be left in the queue; the
	# server finds out by client_connection_check_interval.
	subtest "$mode: a client vanishes while it waits" => sub {
		my $one = $pooler->session($mode);
		my $two = $pooler->session($mode);

		$one->query("BEGIN; SELECT redis_xact_lock('gone')");
		$two->start("SELECT redis_xact_lock('gone')");
		$node->wait_for_waiters('gone', 1);
		$two->vanish;
		$node->wait_for_waiters('gone', 0);
		$one->query_is("SELECT redis_is_held('gone')", 't',
			'the holder is not disturbed');
		is($one->query('COMMIT')->error, undef, 'and commits');
		$one->quit;
		nothing_left($node, $redis, keys => qr/^redisson_lock_token:/);
	};
}

$pooler->stop;

# ----------
# Clients that wait
# ----------

$node->set(client_connection_check_interval => 0);
$redis->cmd('FLUSHALL');
my ($one, $two, $three) = map { $node->session } 1 .. 3;

subtest 'transaction_timeout' => sub {
	$one->query("SELECT redis_lock('k')");
	if ($node->value('SHOW server_version_num') >= 170000)
	{
		my $ends = $node->session;

		$ends->query("SET transaction_timeout = '500 ms'");
		$ends->query("SELECT redis_try_lock('k', '10 min')")
		  ->fails('25P04', qr/transaction timeout/, 'transaction_timeout: the session ends');
		$node->wait_for_waiters('k', 0);
	}
	$one->query_is("SELECT redis_unlock('k')", 't', 'given back');
};

sub waiting_pids
{
	return $node->value(
		q{SELECT string_agg(pid::text, ' ' ORDER BY waiting_since) FROM redis_locks WHERE waiting_since IS NOT NULL});
}

foreach my $wait (q{SELECT redis_lock('k')}, q{CALL redis_await_lock('k')})
{
	subtest "gone from $wait" => sub {
		my ($unseen, $seen) = map { $node->session } 1 .. 2;
		my @pids = map { $_->pid } $unseen, $seen;

		$one->query("SELECT redis_lock('k')");
		$seen->query("SET client_connection_check_interval = '50 ms'");
		$node->queue_up('k', $unseen, $wait, $seen, $wait);
		is(waiting_pids(), "@pids", 'two wait');
		$_->vanish foreach $unseen, $seen;
		$node->wait_for_waiters('k', 1);
		is(waiting_pids(), $pids[0], 'who does not look stays when both clients have gone');
		$three->start("SELECT redis_lock('k')");
		$node->wait_for_waiters('k', 2);
		$one->query_is("SELECT redis_unlock('k')", 't', 'given back');
		is($three->wait->error, undef, 'the dead client gets it, and gives it back');
		$three->query_is("SELECT redis_unlock('k')", 't', 'given back');
		nothing_left($node, $redis);
	};
}

subtest 'a pool that is full of waiters' => sub {
	my $pooler =
	  LockRedis::Pooler->new($node, 'full', default_pool_size => 2, admin_users => 'pgbouncer');
	my ($holder, @waiters) = map { $pooler->session('tx') } 1 .. 3;

	$holder->query_is("SELECT redis_token_lock('k', '1 h', 'mine')", 'mine', 'a token lock');
	$node->queue_up('k', map { ($_, "SELECT redis_token_lock('k', '1 h', 'theirs')") } @waiters);
	$holder->start("SELECT redis_token_unlock('k', 'mine')");
	poll_until('the unlock to wait for a connection', sub { $pooler->waiting_clients == 1 });
	is($redis->cmd('EXISTS', 'k'), 1, 'the holder cannot give it back');
	$node->value(
		'SELECT count(pg_cancel_backend(pid)) FROM (SELECT pid FROM redis_locks WHERE waiting_since IS NOT NULL ORDER BY waiting_since LIMIT 1) q'
	);
	is($holder->wait->value, 't', 'when a wait ends it can');
	my @results = map { $_->wait } @waiters;
	is(scalar(grep { ($_->sqlstate // '') eq '57014' } @results), 1, 'one was cancelled');
	is(scalar(grep { $_->out eq 'theirs' } @results), 1, 'the other one has the lock');
	$holder->query_is("SELECT redis_token_unlock('k', 'theirs')", 't', 'given back');
	$_->quit foreach $holder, @waiters;
	$pooler->stop;
	nothing_left($node, $redis);
};

subtest 'query_timeout of PgBouncer' => sub {
	my $pooler = LockRedis::Pooler->new($node, 'timeout', query_timeout => 3);
	my $client = $pooler->session('sess');

	$one->query("SELECT redis_lock('k')");
	$client->start("SELECT redis_lock('k')");
	$node->wait_for_waiters('k', 1);
	like($client->wait->error, qr/query timeout/, 'the client gets an error');
	is($node->count_locks('waiting_since IS NOT NULL'), 1, 'its session waits on');
	$one->query_is("SELECT redis_unlock('k')", 't', 'given back');
	$client->quit;
	$pooler->stop;
	nothing_left($node, $redis);
};

$_->quit foreach $one, $two, $three;
done_testing();
