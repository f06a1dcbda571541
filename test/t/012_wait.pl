# Copyright (c) 2026, lockredis contributors

# Waiting and being woken: the local queue is first in first out, only its head
# talks to Redis, wake-ups are handed on, a head that does not run is passed over.
#
# A lease is ten minutes here, of foreign holders as well, and nothing waits
# nearly as long: whoever is not woken in time fails the test.
#
# Proves G21, G31.

use LockRedis::Test;
use LockRedis::Topic::Waiting;

start_servers();

#
# First in first out.
#
{
	my @queue = @s[ 1 .. 5 ];

	$s[0]->query("SELECT redis_lock('fifo')");
	foreach my $n (0 .. $#queue)
	{
		$queue[$n]->start("SELECT redis_lock('fifo')");
		$node->wait_for_waiters('fifo', $n + 1);
	}
	my @pids = map { $_->pid } @s[ 0 .. 5 ];
	is( $viewer->query(
			q{SELECT pid, granted, scope, kind, blocked_by
			  FROM redis_locks WHERE key = 'fifo'
			  ORDER BY waiting_since NULLS FIRST})->out,
		join("\n",
			"$pids[0]|t|session|reentrant|NULL",
			map { "$pids[$_]|f|session|reentrant|{"
				  . join(',', @pids[ 0 .. $_ - 1 ]) . '}' } 1 .. 5),
		'waiters are blocked by the holder and by those before them');
	is( $viewer->query(
			q{SELECT count(*) FROM redis_locks
			  WHERE key = 'fifo' AND NOT granted
			  AND waiting_since BETWEEN now() - interval '1 min' AND now()
			  AND num_nulls(hold_count, fence, lease, renewed, acquired_at,
				expires_in, renewals, lost_at, lost_reason, owner) = 10
			  })->out,
		'5', 'and nothing is known of them but since when they wait');
	$s[0]->query("SELECT redis_unlock('fifo')");
	foreach my $n (0 .. $#queue)
	{
		is($queue[$n]->wait(20)->error, undef, "number $n has it");
		is(scalar(grep { $_->is_running } @queue),
			$#queue - $n, 'and those behind do not');
		give_back($queue[$n], 'fifo');
	}
}

#
# Ten waiters behind a foreign holder: only the first one talks to Redis, and
# only when there is something to ask.
#
{
	my $before = stats();
	my $calls = $redis->script_calls;
	my $sessions = connections('session');
	my @fresh = map { $node->session } 1 .. 10;

	$redis->foreign_lock('ten');
	my $began = now();
	queue_up('ten', "SELECT redis_lock('ten')", @fresh);
	my $asked = settled_calls() - $calls;
	cmp_ok($asked, '>=', 2, 'ten waiters ask twice in all');
	cmp_ok($asked, '<=', 2 + now() - $began, 'or once more for each second that the subscription takes');
	$calls += $asked;
	is(connections('session') - $sessions, 1, 'over one connection');
	is($redis->subscribers($redis->channel('ten')), 1, 'with one subscription');
	is(scalar(connections('listener')), 1, 'of one connection');
	$s[0]->query_is("SELECT redis_try_lock('ten')",
		'f', 'who does not want to wait is refused');
	is($redis->script_calls - $calls, 0, 'without asking');

	my @pids = map { $_->pid } @fresh;
	is( $viewer->query(
			q{SELECT pid, blocked_by FROM redis_locks WHERE key = 'ten'
			  ORDER BY waiting_since})->out,
		join("\n",
			map { "$pids[$_]|{" . join(',', @pids[ 0 .. $_ - 1 ]) . '}' }
			  0 .. 9),
		'the first one is blocked by nobody of this server');

	pause(1.5);
	is($redis->script_calls - $calls, 0, 'nobody polls');

	# One message is one try of one of them.
	is($redis->tell_waiters('ten'), 1, 'a message');
	poll_until('the try', sub { $redis->script_calls > $calls });
	is(settled_calls() - $calls, 1, 'wakes one');
	is(scalar(grep { $_->is_running } @fresh), 10, 'who waits on');

	is($redis->foreign_unlock('ten'), 1, 'a release');
	is($fresh[0]->wait($soon)->error, undef, 'wakes the first one');
	is(settled_calls() - $calls, 2, 'with one more command');
	is(scalar(grep { $_->is_running } @fresh), 9, 'and nobody else');
	is($redis->subscribers($redis->channel('ten')), 1, 'still one subscription');

	# From one to the next it passes without Redis.
	foreach my $n (0 .. 8)
	{
		give_back($fresh[$n], 'ten');
		is($fresh[ $n + 1 ]->wait($soon)->error, undef, "then number $n");
	}
	is(settled_calls() - $calls, 2, 'without a command');
	give_back($fresh[9], 'ten');
	my $after = stats();
	is($after->{waits} - $before->{waits}, 10, 'ten waits are counted');
	is($after->{acquires} - $before->{acquires}, 10, 'and ten acquires');
	is($after->{timeouts} - $before->{timeouts}, 0, 'no timeout');
	$_->quit foreach @fresh;

	# Nobody waits: the subscription goes after a while.
	$redis->wait_for_subscribers('ten', 0);
	is(scalar(connections('listener')), 1, 'its connection is kept');
}

#
# A message wakes a waiter of its key, not of another one.
#
{
	$redis->foreign_lock($_) foreach 'left', 'right';
	queue_up('left', "SELECT redis_lock('left')", @s[ 0, 1 ]);
	queue_up('right', "SELECT redis_lock('right')", @s[ 2, 3 ]);
	is_deeply([ $redis->channels ], [ map { $redis->channel($_) } 'left', 'right' ],
		'two channels');
	is(scalar(connections('listener')), 1, 'on one connection');

	my $calls = settled_calls();
	$redis->foreign_unlock('right');
	is($s[2]->wait($soon)->error, undef, 'one has it');
	is(settled_calls() - $calls, 1, 'nobody else was woken');
	$redis->foreign_unlock('left');
	is($s[0]->wait($soon)->error, undef, 'the other one');
	give_back($s[0], 'left');
	give_back($s[2], 'right');
	is($s[1]->wait($soon)->error, undef, 'and the next');
	is($s[3]->wait($soon)->error, undef, 'each');
	give_back($s[1], 'left');
	give_back($s[3], 'right');
}

#
# A wake-up is handed on.  The head of the queue is stopped; the release is told, so it is the one
# that was woken; then it is cancelled; it goes on, gives up, and the next one has to get the lock,
# since there is no second message.
#
{
	my $first = $node->session;

	$redis->foreign_lock('hand on');
	queue_up('hand on', "SELECT redis_lock('hand on')", $first);
	$first->freeze;
	$s[1]->start("SELECT redis_lock('hand on')");
	$node->wait_for_waiters('hand on', 2);

	# The watchdog is given the time to wake it, but not to pass it over.
	is($redis->foreign_unlock('hand on'), 1, 'handed on: told');
	pause(0.3);
	$first->cancel;
	$first->thaw;
	is($s[1]->wait($soon)->error, undef, 'handed on: the next one has it');
	$first->wait($soon)->fails('57014', qr/user request/, 'handed on: cancelled');
	give_back($s[1], 'hand on');
	$first->quit;
}

#
# A head that is stopped is passed over: it was woken, ignores that for a
# second, and the second one gets its turn.  When it goes on it still waits.
#
{
	$redis->foreign_lock('stopped');
	queue_up('stopped', "SELECT redis_lock('stopped')", @s[ 0 .. 2 ]);
	settled_calls();
	$s[0]->freeze;
	my $told = now();
	$redis->foreign_unlock('stopped');
	is($s[1]->wait(20)->error, undef, 'the second one has it');
	cmp_ok(now() - $told, '>=', 0.9, 'after the first one had its chance');
	ok($s[2]->is_running, 'the third one does not');
	is( $viewer->query(
			q{SELECT pid, granted FROM redis_locks WHERE key = 'stopped'
			  AND waiting_since IS NOT NULL ORDER BY array_length(blocked_by, 1)}
		)->out,
		join("\n", map { $_->pid . '|f' } @s[ 0, 2 ]),
		'the first one is next, the third one behind it');
	$s[0]->thaw;
	pause(0.2);
	ok($s[0]->is_running, 'the first one waits on');
	give_back($s[1], 'stopped');
	is($s[0]->wait(20)->error, undef, 'and has it next');
	ok($s[2]->is_running, 'before the third one');
	give_back($s[0], 'stopped');
	is($s[2]->wait(20)->error, undef, 'which is the last');
	give_back($s[2], 'stopped');
}

end_test([ $node, $far ], $redis);
