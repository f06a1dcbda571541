# Copyright (c) 2026, lockredis contributors

# What can happen between the moment a session is handed a lock and the moment it
# runs, II: the lock is taken away or deleted, a request fails, a process ends, a
# renewal is due or under way.  Each interleaving is forced with processes that
# are stopped (SIGSTOP) and a proxy that holds one request or one reply.  What
# nobody was told of is no loss, and a renewal that was under way counts for
# whoever has the lock then.
#
# one has the lock, two is next and is handed it, three and four come behind;
# "somebody" is another client.
#
# Proves G5, G6, G22.

use strict;
use warnings FATAL => 'all';

use LockRedis::Test qw(:DEFAULT run);
use LockRedis::Topic::HandoverRaces;
use LockRedis::Wait qw(limit);

start_servers();

# Long enough for what is done while a renewal is held.
my $lease = limit(6);

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
	let_watch();
	got($two, $key, "$key: the first takes it");
	isnt($redis->owner_of($key), $owner, "$key: anew");
	is($node->lock_stat('losses'), $losses, "$key: no loss");
	rest_in_order($key, $two, $three);
	end_of($key, $one, $two, $three);
}

#
# Deleted while it is handed.
#
# A plain lock is found gone at the next renewal: that is the loss of two, who
# was told of it.  A fenced waiter asks for a token and is told that the lock has
# gone: it takes it anew, still the first, and nothing was lost.
#
foreach my $sql ('redis_lock', 'redis_fenced_lock')
{
	my $key = "deleted, $sql";

	# No renewal is to find out while the token is asked for.
	my ($one, $two, $three) =
	  sessions(3, 'lockredis.lease' => $sql eq 'redis_lock' ? "${lease}s" : '10min');
	my $losses = $node->lock_stat('losses');

	run($one, "SELECT redis_lock('$key')");
	$node->queue_up(
		$key,
		$two => "SELECT $sql('$key')",
		$three => "SELECT redis_lock('$key')");
	my $owner = hand_to_stopped($key, $one, $two);
	$redis->cmd('DEL', $key);
	$two->thaw;
	let_watch();

	if ($sql eq 'redis_lock')
	{
		die 'not got' if defined $two->wait->error;
		got($three, $key, "$key: the next one has it when that is found out");
		$two->query_fails(
			"SELECT redis_assert_held('$key')",
			'55000',
			qr/deleted|taken/,
			"$key: the one before has lost it");
		$two->query_warns(
			"SELECT redis_unlock('$key')", 'f',
			'01000', qr/lost/,
			"$key: acknowledged");
		is($node->lock_stat('losses') - $losses, 1, "$key: one loss");
		rest_in_order($key, $three);
	}
	else
	{
		got($two, $key, "$key: still the first");
		isnt($redis->owner_of($key), $owner, "$key: taken anew");
		$two->query_is("SELECT redis_fence('$key') > 0",
			't', "$key: with a token");
		rest_in_order($key, $two, $three);
		is($node->lock_stat('losses'), $losses, "$key: no loss");
	}
	end_of($key, $one, $two, $three);
}

# The same, and the key holds something else now.
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
# No token for a fenced waiter.
#
# Redis is stopped.  one gives back, two is handed the lock and asks for a token;
# there is no answer (or two is cancelled or terminated while it asks).  three,
# who needs none, has the lock at once; without three it is released as soon as
# Redis answers.
#
$node = $brisk;
foreach my $case (
	[ 'no answer', 'three' ],
	[ 'no answer', 'nobody' ],
	[ 'cancel', 'three' ],
	[ 'terminate', 'three' ],
	[ 'terminate', 'nobody' ])
{
	my ($how, $behind) = @$case;
	my $key = "no token, $how, $behind behind";
	my ($one, $two, $three) = sessions(3);
	my $losses = $node->lock_stat('losses');

	run($one, "SELECT redis_lock('$key')");
	# A further lock, which the end of the session has to give back.
	run($two, "SELECT redis_lock('other of $key')");
	$node->queue_up(
		$key,
		$two => "SELECT redis_fenced_lock('$key')",
		$behind eq 'three' ? ($three => "SELECT redis_lock('$key')") : ());
	my $owner = $redis->owner_of($key);
	my $rule;
	if ($how eq 'no answer')
	{
		$redis->freeze;
	}
	else
	{
		$rule = $proxy->rule(on => 'reply', match => $key, action => 'hold');
	}
	run($one, "SELECT redis_unlock('$key')");
	if ($rule)
	{
		$proxy->wait_for_rule($rule);
		$two->$how;
	}
	my $result = $two->wait(limit(15));
	$result->fails('58030', qr/lock store/, "$key: it fails")
	  if $how eq 'no answer';
	$result->fails('57014', qr/cancel/, "$key: cancelled") if $how eq 'cancel';
	ok($result->dead, "$key: terminated") if $how eq 'terminate';
	if ($behind eq 'three')
	{
		is($three->wait(limit(15))->error, undef, "$key: the next one has it");
		is(granted($key), $three->pid, "$key: and is the only one");
	}
	$redis->thaw;
	$proxy->let_go if $rule;
	if ($behind eq 'three')
	{
		is($redis->owner_of($key), $owner, "$key: passed on");
		$two->query_is(
			"SELECT redis_is_held('$key'), redis_fence('$key')",
			'f|NULL',
			"$key: nothing is held by the one that failed"
		) if $how ne 'terminate';
		$node->wait_for_up;
		rest_in_order($key, $three);
	}
	else
	{
		$redis->wait_for_key($key, 0);
		pass("$key: released in Redis");
	}
	poll_until('Redis to be asked again',
		sub { defined $one->query("SELECT redis_is_locked('$key')")->error ? 0 : 1 });
	is($node->lock_stat('losses'), $losses, "$key: no loss");
	end_of($key, $one, $two, $three);
}
$node = $patient;

#
# Terminated in the middle of releasing several.
#
# one gives back three locks: two waits for the first, three for the last; the
# release of the one in between is held by the proxy, and one is terminated.
# What was handed over stays so, the other one is given back.
#
{
	my ($one, $two, $three) = sessions(3);

	run($one, "SELECT redis_lock('several $_')") foreach 1 .. 3;
	$node->queue_up('several 1', $two => "SELECT redis_lock('several 1')");
	$node->queue_up('several 3', $three => "SELECT redis_lock('several 3')");
	my $rule = $proxy->rule(match => 'several 2', action => 'hold');
	my @owners = map { $redis->owner_of("several $_") } 1, 3;
	$one->start('SELECT redis_unlock_all()');
	$proxy->wait_for_rule($rule);
	got($two, 'several 1', 'several: the first is handed over');
	got($three, 'several 3', 'several: the last one too');
	$one->terminate;
	ok($one->wait->dead, 'several: terminated while it waits for a reply');
	$proxy->let_go;
	$redis->wait_for_key('several 2', 0);
	is_deeply([ map { $redis->owner_of("several $_") } 1, 3 ],
		\@owners, 'several: those that were handed over are not disturbed');
	$two->query_is("SELECT redis_is_held('several 1'), redis_unlock('several 1')",
		't|t', 'several: held');
	$three->query_is(
		"SELECT redis_is_held('several 3'), redis_unlock('several 3')",
		't|t', 'several: held');
	end_of('several', $one, $two, $three);
}

#
# The watchdog ends while a lock is handed.
#
# two is stopped and is handed the lock, the watchdog is terminated.  The next
# one takes the lock back.
#
{
	$node = $brisk;
	my $key = 'watchdog ends';
	my ($one, $two, $three) = sessions(3);
	my $watchdog = $node->watchdog_pid;

	run($one, "SELECT redis_lock('$key')");
	$node->queue_up($key, map { $_ => "SELECT redis_lock('$key')" } $two, $three);
	kill 'STOP', $watchdog;
	my $owner = hand_to_stopped($key, $one, $two);
	kill 'TERM', $watchdog;
	kill 'CONT', $watchdog;
	poll_until(
		'another watchdog',
		sub {
			my $pid = $node->watchdog_pid;
			defined $pid && $pid != $watchdog;
		});
	got($three, $key, "$key: the next one has it");
	is($redis->owner_of($key), $owner, "$key: passed on");
	$two->thaw;
	$node->wait_for_up;
	rest_in_order($key, $three, $two);
	end_of($key, $one, $two, $three);
	$node = $patient;
}

#
# A renewal is due while the lock is handed.
#
# The watchdog stands still until a third of the lease is over.  two is stopped, but not
# for a second: the watchdog comes by and finds nothing to renew.  two goes on, and its
# lock is renewed from then on.
#
{
	my $key = 'due';
	my ($one, $two) = sessions(2, 'lockredis.lease' => "${lease}s");
	my $watchdog = $node->watchdog_pid;


	run($one, "SELECT redis_lock('$key')");
	$node->queue_up($key, $two => "SELECT redis_lock('$key')");
	kill 'STOP', $watchdog;
	poll_until('a renewal to be due', sub { $redis->cmd('PTTL', $key) < $lease * 600 });
	my $owner = hand_to_stopped($key, $one, $two);
	let_watch();
	pause(0.75);
	$two->thaw;
	got($two, $key, "$key: accepted");
	poll_until('some renewals',
		sub { $node->value("SELECT renewals FROM redis_locks WHERE key = '$key'") >= 3 });
	pass("$key: renewed");
	$two->query_is("SELECT redis_is_held('$key')", 't', "$key: held");
	rest_in_order($key, $two);
	end_of($key, $one, $two);
}

#
# A renewal is under way when the lock is handed over.
#
# The watchdog's renewal for one runs and the proxy holds its reply.  two has the
# lock by then (or is stopped, and does not know yet).  The reply counts for two:
# its lease is as long as the renewal has made it.
#
# Case "gone": the request is held, and the key deleted before it runs.  The
# reply is two's loss; if two does not know yet, it is none, and two takes the
# lock anew.
#
foreach my $case (
	[ 'counts', 'runs' ],
	[ 'counts', 'is stopped' ],
	[ 'gone', 'runs' ],
	[ 'gone', 'is stopped' ])
{
	my ($what, $state) = @$case;
	my $key = "renewal $what, two $state";
	my ($one, $two) = sessions(2, 'lockredis.lease' => "${lease}s");
	my $losses = $node->lock_stat('losses');
	my $ends = sub {
		return $node->value(
			"SELECT extract(epoch FROM clock_timestamp() + expires_in) FROM redis_locks WHERE granted AND key = '$key'"
		);
	};

	# A batch has been dealt with when another one has.
	my $applied = sub {
		my $renewals =
		  "SELECT renewals FROM redis_locks WHERE key = 'other of $key'";
		my $before = $node->value($renewals);

		poll_until('another renewal', sub { $node->value($renewals) > $before });
	};

	run($one, "SELECT redis_lock('$key'), redis_lock('other of $key')");
	$node->queue_up($key, $two => "SELECT redis_lock('$key')");
	my $rule = $proxy->rule(
		on => $what eq 'counts' ? 'reply' : 'request',
		match => $key,
		action => 'hold');
	$proxy->wait_for_rule($rule);
	my $until = $ends->();
	my $owner = $redis->owner_of($key);

	# Another renewal would do what this one has done.
	$proxy->rule(match => $key, action => 'hold', times => 0)
	  if $what eq 'counts';
	$two->freeze if $state ne 'runs';
	run($one, "SELECT redis_unlock('$key')");
	die 'not got' if $state eq 'runs' && defined $two->wait->error;
	$redis->cmd('DEL', $key) if $what eq 'gone';
	$proxy->release;
	if ($what eq 'counts')
	{
		if ($state ne 'runs')
		{
			# It counts in any case, but before two runs is what is meant here.  After a
			# second two would be passed over.
			pause(0.2);
			$two->thaw;
			die 'not got' if defined $two->wait->error;
		}
		poll_until('the lease to be longer',
			sub { $ends->() - $until > $lease / 6 }, 10);
		pass("$key: the reply counts");
		is($redis->owner_of($key), $owner, "$key: it is the same lock");
		$proxy->let_go;
		is($node->lock_stat('losses'), $losses, "$key: no loss");
		$two->query_is("SELECT redis_is_held('$key')", 't', "$key: held");
	}
	elsif ($state eq 'runs')
	{
		$proxy->clear;
		poll_until('the loss', sub { $node->lock_stat('losses') - $losses == 1 });
		$two->query_warns(
			"SELECT redis_unlock('$key')", 'f',
			'01000', qr/deleted/,
			"$key: a loss");
		run($two, "SELECT redis_lock('$key')");
	}
	else
	{
		$proxy->clear;
		$applied->();
		$two->thaw;
		got($two, $key, "$key: taken anew");
		isnt($redis->owner_of($key), $owner, "$key: as another owner");
		is($node->lock_stat('losses'), $losses, "$key: no loss");
	}
	rest_in_order($key, $two);
	end_of($key, $one, $two);
}

#
# A head that asks Redis is not handed the lock.
#
# somebody lets go; two, the head, asks, and the proxy holds its request.  After
# its time two is passed over: three takes the key, and gives it back.  two is
# the head again, but its request is still on its way: nothing may be handed to
# it.  The key is released in Redis, and after a second four takes it, as two does
# not move.  Then two's request runs and finds four; two waits, and is handed the
# lock by four.
#
{
	my $key = 'asking';
	my ($one, $two, $three, $four) = sessions(4);
	my $handoffs = $node->lock_stat('handoffs');

	$redis->foreign_lock($key);
	$redis->after_second_look($key, sub { $two->start("SELECT redis_lock('$key')") });
	foreach my $i (0, 1)
	{
		($three, $four)[$i]->start("SELECT redis_lock('$key')");
		$node->wait_for_waiters($key, $i + 2);
	}
	my $rule = $proxy->rule(match => $key, action => 'hold');
	$redis->foreign_unlock($key);
	$proxy->wait_for_rule($rule);

	# Told again: two does not react.
	$redis->foreign_unlock($key);
	got($three, $key, "$key: the head is passed over");
	my $owner = $redis->owner_of($key);
	run($three, "SELECT redis_unlock('$key')");
	isnt($redis->owner_of($key), $owner, "$key: not handed to the one that asks");
	got($four, $key, "$key: it is passed over again");
	my $calls = $redis->script_calls;
	$proxy->let_go;
	poll_until('its request to run', sub { $redis->script_calls > $calls });
	$two->wait_until_read;
	pause(0.3);
	ok($two->is_running, "$key: it waits then");
	is(granted($key), $four->pid, "$key: one holder");
	rest_in_order($key, $four, $two);
	is($node->lock_stat('handoffs') - $handoffs, 1, "$key: and is handed it");
	leave($one, $two, $three, $four);
}

end_of('in the end');
done_testing();
