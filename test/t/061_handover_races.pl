# Copyright (c) 2026, lockredis contributors

# What can happen between the moment a session is handed a lock and the moment it runs, with
# processes that are stopped (SIGSTOP).  At no time two sessions have the lock, nobody in the queue is
# forgotten, a lock that was not accepted is passed on or given back in Redis.  The other
# interleavings, and a Redis that gives no token to whom it is handed, are the simulator's: its
# mutants hand_* and handed_*.
#
# one has the lock, two is next and is handed it, three comes behind.
#
# Proves G1, G5, G6, G22.

use LockRedis::Test qw(:DEFAULT run);
use LockRedis::Topic::HandoverRaces;

start_servers();

#
# The next one is stopped: after a second it is taken back, and passed on.
#
# two is stopped, one gives back, two does not accept.  three is handed it.  two
# goes on and waits, as if nothing had happened; then it is its turn.
#
# With max_handoffs 1 it cannot be passed on once more, so it is released in
# Redis, by the watchdog, and three takes it there.
#
foreach my $max (32, 1)
{
	my $key = "stopped, max $max";

	$node->set('lockredis.max_handoffs' => $max);
	my ($one, $two, $three) = sessions(3);
	run($one, "SELECT redis_lock('$key')");
	$node->queue_up($key, map { $_ => "SELECT redis_lock('$key')" } $two, $three);
	my $calls = $redis->script_calls;
	my $owner = hand_to_stopped($key, $one, $two);
	is(granted($key), 'nobody', "$key: it has not been accepted");
	is( $node->value(
			"SELECT blocked_by FROM redis_locks WHERE pid = " . $three->pid),
		'{' . $two->pid . '}',
		"$key: the others wait for the one that is stopped");
	let_watch();
	got($three, $key, "$key: the next one has it");

	if ($max == 1)
	{
		isnt($redis->owner_of($key), $owner, "$key: taken in Redis");
	}
	else
	{
		is($redis->owner_of($key), $owner, "$key: passed on");
		is($redis->script_calls - $calls, 0, "$key: without a word to Redis");
	}
	$two->thaw;
	poll_until(
		'two to wait again',
		sub {
			$node->value(
				"SELECT blocked_by FROM redis_locks WHERE pid = " . $two->pid) eq
			  '{' . $three->pid . '}';
		});
	ok($two->is_running, "$key: the one that was stopped waits");
	is(granted($key), $three->pid, "$key: there is one holder");
	rest_in_order($key, $three, $two);
	end_of($key, $one, $two, $three);
}
$node->set('lockredis.max_handoffs' => 32);

#
# Taken away while it is handed.
#
# two is stopped and is handed the lock; redis_force_unlock takes it away.
# Nobody had been told of it, so nobody has lost it: two, still the first, goes
# on and takes it anew, and three comes after two.
#
{
	my $key = 'forced';
	my ($one, $two, $three) = sessions(3, 'lockredis.on_lost' => 'terminate');
	my $losses = $node->lock_stat('losses');

	run($one, "SELECT redis_lock('$key')");
	$node->queue_up($key, map { $_ => "SELECT redis_lock('$key')" } $two, $three);
	my $owner = hand_to_stopped($key, $one, $two);
	is($node->value("SELECT redis_force_unlock('$key')"), 't',
		"$key: taken away");
	is($node->count_locks("lost_at IS NOT NULL"), 0, "$key: no row is lost");
	$two->thaw;
	got($two, $key, "$key: the first takes it");
	let_watch();
	isnt($redis->owner_of($key), $owner, "$key: anew");
	is($node->lock_stat('losses'), $losses, "$key: no loss");
	rest_in_order($key, $two, $three);
	end_of($key, $one, $two, $three);
}

#
# Deleted while it is handed.  A fenced waiter asks for a token and is told that the lock has gone: it
# takes it anew, still the first, and nothing was lost.
#
{
	my $key = 'deleted';
	my ($one, $two, $three) = sessions(3);
	my $losses = $node->lock_stat('losses');

	run($one, "SELECT redis_lock('$key')");
	$node->queue_up($key, $two => "SELECT redis_fenced_lock('$key')", $three => "SELECT redis_lock('$key')");
	my $owner = hand_to_stopped($key, $one, $two);
	$redis->cmd('DEL', $key);
	$two->thaw;
	got($two, $key, "$key: still the first");
	let_watch();
	isnt($redis->owner_of($key), $owner, "$key: taken anew");
	$two->query_is("SELECT redis_fence('$key') > 0", 't', "$key: with a token");
	rest_in_order($key, $two, $three);
	is($node->lock_stat('losses'), $losses, "$key: no loss");
	end_of($key, $one, $two, $three);
}

#
# The same, and the key holds something else now.
#
{
	my $key = 'another type';
	my ($one, $two, $three) = sessions(3);
	my $losses = $node->lock_stat('losses');

	run($one, "SELECT redis_lock('$key')");
	$node->queue_up($key, $two => "SELECT redis_fenced_lock('$key')");
	hand_to_stopped($key, $one, $two);
	$redis->cmd('DEL', $key);
	$redis->cmd('LPUSH', $key, 'x');
	$two->thaw;
	let_watch();
	$two->wait(limit(15))->fails('42809', qr/\Q$key/, "$key: says so");
	is($node->lock_stat('losses'), $losses, "$key: no loss");
	$redis->cmd('DEL', $key);
	run($three, "SELECT redis_try_lock('$key')");
	is(granted($key), $three->pid, "$key: can be had again");
	rest_in_order($key, $three);
	end_of($key, $one, $two, $three);
}

#
# A renewal that is under way when the lock is handed over finds that the key was deleted: two does not
# know yet that it has the lock, so that is no loss, and it takes the lock anew.
#
{
	my $key = 'renewal gone';
	my ($one, $two) = sessions(2, 'lockredis.lease' => limit(6) . 's');
	my $losses = $node->lock_stat('losses');
	my $renewals = "SELECT renewals FROM redis_locks WHERE key = 'other of $key'";

	run($one, "SELECT redis_lock('$key'), redis_lock('other of $key')");
	$node->queue_up($key, $two => "SELECT redis_lock('$key')");
	$proxy->wait_for_rule($proxy->rule(match => $key, action => 'hold'));
	my $owner = $redis->owner_of($key);
	$two->freeze;
	run($one, "SELECT redis_unlock('$key')");
	$redis->cmd('DEL', $key);
	my $before = $node->value($renewals);
	$proxy->let_go;

	# A batch has been dealt with when another one has.
	poll_until('another renewal', sub { $node->value($renewals) > $before });
	$two->thaw;
	got($two, $key, "$key: taken anew");
	isnt($redis->owner_of($key), $owner, "$key: as another owner");
	is($node->lock_stat('losses'), $losses, "$key: no loss");
	rest_in_order($key, $two);
	end_of($key, $one, $two);
}

done_testing();
