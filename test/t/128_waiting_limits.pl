# Copyright (c) 2026, lockredis contributors

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

my ($node, $redis, $one, $two, $three) = servers(sessions => 3, redis => lock_store);

is($node->value('SHOW client_connection_check_interval'), '0', 'what PostgreSQL does by default');

# ----------
# Limits
# ----------

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

# ----------
# Clients that have gone
# ----------

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

# ----------
# Pools
# ----------

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
