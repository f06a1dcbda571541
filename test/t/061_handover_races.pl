# Copyright (c) 2026, lockredis contributors

# What can happen between the moment a session is handed a lock and the moment it
# runs, I: it is stopped, gives up, comes too late, or the lease ends.  Each
# interleaving is forced with processes that are stopped (SIGSTOP) and a proxy
# that holds one request or one reply.  At no time two sessions have the lock,
# nobody in the queue is forgotten, a lock that was not accepted is passed on or
# given back in Redis.
#
# one has the lock, two is next and is handed it, three and four come behind;
# "somebody" is another client.
#
# Proves G1, G5, G22.

use strict;
use warnings FATAL => 'all';

use LockRedis::Test qw(:DEFAULT run);
use LockRedis::Topic::HandoverRaces;
use LockRedis::Wait qw(limit);

start_servers();

my $lease = limit(6);

# In milliseconds: a session is surely stopped before so long has passed.
my $time = limit(4) * 1000;

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

# Two that are stopped: a second each.  Whoever was passed over is not last.
{
	my $key = 'two stopped';
	my ($one, $two, $three, $four, $five) = sessions(5);

	run($one, "SELECT redis_lock('$key')");
	$node->queue_up($key, map { $_ => "SELECT redis_lock('$key')" } $two,
		$three, $four, $five);
	$three->freeze;
	my $owner = hand_to_stopped($key, $one, $two);
	let_watch();
	got($four, $key, "$key: the first that runs has it");
	is($redis->owner_of($key), $owner, "$key: passed on twice");
	$_->thaw foreach $two, $three;
	run($four, "SELECT redis_unlock('$key')");
	poll_until('one of them to have it', sub { granted($key) =~ /^\d+$/ });

	my %left = map { $_->pid => $_ } $two, $three, $five;
	my @order;
	while (%left)
	{
		poll_until('the next one', sub { $left{ granted($key) } });
		my $holder = delete $left{ granted($key) };
		push @order, $holder->pid;
		die 'not got' if defined $holder->wait->error;
		run($holder, "SELECT redis_unlock('$key')");
	}
	is(scalar @order, 3, "$key: each has its turn");
	end_of($key, $one, $two, $three, $four, $five);
}

#
# Nobody else waits here: it is released in Redis, for those elsewhere.
#
# Case "somebody": somebody takes it; two goes on and waits for somebody.
# Case "nobody": two goes on and takes it.
#
foreach my $who ('somebody', 'nobody')
{
	my $key = "stopped and $who";
	my ($one, $two) = sessions(2);

	run($one, "SELECT redis_lock('$key')");
	$node->queue_up($key, $two => "SELECT redis_lock('$key')");
	my $owner = hand_to_stopped($key, $one, $two);
	let_watch();
	$redis->wait_for_key($key, 0);
	pass("$key: released in Redis");
	is(granted($key), 'nobody', "$key: nobody has it");
	$redis->foreign_lock($key) if $who eq 'somebody';
	$two->thaw;

	if ($who eq 'somebody')
	{
		poll_until('the subscription',
			sub { $redis->subscribers($redis->channel($key)) > 0 });
		ok($two->is_running, "$key: waits");
		is($redis->owner_of($key), 'somebody:1', "$key: and does not disturb");
		$redis->foreign_unlock($key);
	}
	got($two, $key, "$key: then it has it");
	isnt($redis->owner_of($key), $owner, "$key: taken anew");
	rest_in_order($key, $two);
	leave($one, $two);
}

#
# It gives up at the moment when it is handed the lock.
#
# two is stopped, is handed the lock, is signalled (or its time has ended
# meanwhile), and goes on: the signal is the first that it sees.  three must have
# the lock at once, from shared memory.  Without three it is released in Redis.
#
foreach my $case (
	[ 'cancel', 'three' ],
	[ 'cancel', 'nobody' ],
	[ 'terminate', 'three' ],
	[ 'terminate', 'nobody' ],
	[ 'statement_timeout', 'three' ])
{
	my ($how, $behind) = @$case;
	my $key = "$how, $behind behind";
	my ($one, $two, $three) = sessions(3);

	run($one, "SELECT redis_lock('$key')");
	run($two, "SET statement_timeout = '$time ms'")
	  if $how eq 'statement_timeout';
	$node->queue_up($key, $two => "SELECT redis_lock('$key')");

	# Its time has begun before this.
	my $waits_since = now();
	$two->freeze;
	if ($behind eq 'three')
	{
		$three->start("SELECT redis_lock('$key')");
		$node->wait_for_waiters($key, 2);
	}
	pause($waits_since + $time / 1000 - now()) if $how eq 'statement_timeout';
	my $calls = $redis->script_calls;
	my ($handoffs, $losses) = ($node->lock_stat('handoffs'), $node->lock_stat('losses'));
	my $owner = hand_to_stopped($key, $one, $two);
	$two->$how if $how ne 'statement_timeout';
	$two->thaw;
	my $result = $two->wait;
	let_watch();
	ok($result->dead, "$key: terminated") if $how eq 'terminate';
	$result->fails('57014', qr/canceling statement/, "$key: ended")
	  if $how ne 'terminate';

	if ($behind eq 'three')
	{
		got($three, $key, "$key: the next one has it");
		is($redis->owner_of($key), $owner, "$key: passed on");
		is($redis->script_calls - $calls, 0, "$key: without a word to Redis");
		is($node->lock_stat('handoffs') - $handoffs, 1, "$key: one hand-over is counted");
		rest_in_order($key, $three);
	}
	else
	{
		$redis->wait_for_key($key, 0);
		pass("$key: released in Redis");
	}
	is($node->lock_stat('losses'), $losses, "$key: no loss");
	end_of($key, $one, $two, $three);
}

#
# The time that it would have waited is over when it is handed the lock, but it
# has not run since: it has the lock, or it has not and three has.
#
foreach my $case (
	[ 'lock_timeout', "SELECT redis_lock('KEY')" ],
	[ 'wait', "SELECT redis_try_lock('KEY', 'TIME ms')" ])
{
	my ($how, $sql) = @$case;
	my $key = "$how over";
	my ($one, $two, $three) = sessions(3);

	$sql =~ s/KEY/$key/;
	$sql =~ s/TIME/$time/;
	run($one, "SELECT redis_lock('$key')");
	run($two, "SET lock_timeout = '$time ms'") if $how eq 'lock_timeout';
	$node->queue_up($key, $two => $sql);
	my $waits_since = now();
	$two->freeze;
	$three->start("SELECT redis_lock('$key')");
	$node->wait_for_waiters($key, 2);
	pause($waits_since + $time / 1000 - now());
	my $owner = hand_to_stopped($key, $one, $two);
	$two->thaw;
	my $result = $two->wait;
	let_watch();
	my $told = defined $result->error ? $result->sqlstate : $result->value;
	my $held = $two->value("SELECT redis_is_held('$key')");
	my %true = (
		'lock_timeout' => { t => '', f => '55P03' },
		'wait' => { t => 't', f => 'f' });

	is($told, $true{$how}{$held}, "$key: it is told what is true");
	if ($held eq 't')
	{
		ok($three->is_running, "$key: the next one waits");
		run($two, "SELECT redis_unlock('$key')");
	}
	got($three, $key, "$key: the next one has it");
	is($redis->owner_of($key), $owner, "$key: passed on");
	rest_in_order($key, $three);
	end_of($key, $one, $two, $three);
}

#
# The lease ends while it is handed.
#
# The watchdog is stopped, so nobody renews the lock or takes it back.  two is
# stopped and is handed the lock, whose lease ends.
#
# Case "three": three, who waits behind, goes on by itself then and takes it in
# Redis.  two goes on: the lock it was handed is no longer there to be accepted,
# and it waits for three.
# Case "somebody": somebody takes it, two goes on and waits.
# Case "nobody": two takes it anew.
# Case "nearly": there is a little left, too little to begin with; two takes it
# anew.
#
foreach my $who ('three', 'somebody', 'nobody', 'nearly')
{
	my $key = "ended, $who";
	my ($one, $two, $three) = sessions(3, 'lockredis.lease' => "${lease}s");
	my $watchdog = $node->watchdog_pid;
	my $losses = $node->lock_stat('losses');

	run($one, "SELECT redis_lock('$key')");
	$node->queue_up(
		$key,
		$two => "SELECT redis_lock('$key')",
		$who eq 'three' ? ($three => "SELECT redis_lock('$key')") : ());
	kill 'STOP', $watchdog;
	my $owner = hand_to_stopped($key, $one, $two);
	if ($who eq 'three')
	{
		got($three, $key, "$key: the next one has it");
		isnt($redis->owner_of($key), $owner, "$key: taken anew");
	}
	elsif ($who eq 'nearly')
	{
		# The margin is a tenth, and at most a second.
		my $margin = $lease < 10 ? $lease * 100 : 1_000;
		pause(0.01) while $redis->cmd('PTTL', $key) > $margin * 0.9;
	}
	else
	{
		$redis->wait_for_key($key, 0);
		$redis->foreign_lock($key) if $who eq 'somebody';
	}
	$two->thaw;
	if ($who eq 'nearly')
	{
		# The watchdog would renew it, and might be the first to run.
		my $early;
		poll_until(
			'the claim to end',
			sub {
				my $has_it = !$two->is_running;
				my $is_old = $redis->owner_of($key) eq $owner;
				$early ||= $has_it && $is_old;
				return !$is_old;
			});
		ok(!$early, "$key: it is too late for that");
	}
	if ($who =~ /^(?:three|somebody)$/)
	{
		my $holder = $redis->owner_of($key);
		poll_until(
			'two to wait again',
			sub {
				$node->value(
					"SELECT blocked_by FROM redis_locks WHERE waiting_since IS NOT NULL AND pid = "
					  . $two->pid) eq
				  ($who eq 'three' ? '{' . $three->pid . '}' : '{}');
			});
		pause(0.3);
		ok($two->is_running, "$key: the one that was stopped waits");
		is($redis->owner_of($key), $holder, "$key: and does not disturb");
	}
	kill 'CONT', $watchdog;
	run($three, "SELECT redis_unlock('$key')") if $who eq 'three';
	$redis->foreign_unlock($key) if $who eq 'somebody';
	got($two, $key, "$key: in the end it has it");
	isnt($redis->owner_of($key), $owner, "$key: taken anew");
	is($node->lock_stat('losses'), $losses, "$key: no loss, as nobody had been told");
	rest_in_order($key, $two);
	leave($one, $two, $three);
}

end_of('in the end');
done_testing();
