# Copyright (c) 2026, lockredis contributors

# Interleavings that are forced: processes stopped (SIGSTOP) at a point, and a
# proxy that holds one request or one reply.  There are never two holders,
# nothing is left, nobody else is disturbed; validity counts from before the
# request was sent; a create whose reply was not read, a hand-over, a failure that
# is shared, the wait for a foreign holder.
#
# one, two and three are sessions of one server; "somebody" is another client.
#
# Proves G1, G5, G18, G21.

use strict;
use warnings FATAL => 'all';

use LockRedis::Test;

my $redis = LockRedis::Redis->new;
my $proxy = LockRedis::Proxy->new($redis);

# Requests of a stopped process must not run out of time before it goes on ...
my $patient = LockRedis::Node->create(
	'patient',
	url => $proxy->url,
	settings => {
		'lockredis.connect_timeout' => '30s',
		'lockredis.command_timeout' => '60s'
	});

# ... except here.
my $brisk = LockRedis::Node->create(
	'brisk',
	url => $proxy->url,
	settings => {
		'lockredis.connect_timeout' => '20s',
		'lockredis.command_timeout' => '2s'
	});

$_->wait_for_up foreach $patient, $brisk;

# Sessions that have a connection, on a Redis that knows the scripts.
sub sessions
{
	my ($node, $count, %settings) = @_;
	my @sessions = map { $node->session(settings => \%settings) } 1 .. $count;

	$_->query("SELECT redis_try_lock('warm', '10s', '60s'), redis_unlock('warm')")
	  foreach @sessions;
	return @sessions;
}

sub end_of
{
	my ($name, @sessions) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	$_->quit foreach @sessions;
	return nothing_left([ $patient, $brisk ],
		$redis, name => "$name: nothing is left");
}

#
# Stopped between send and reply for longer than the lease.
#
# one's create runs, the proxy holds the reply, one is stopped.  The lease ends
# in Redis and somebody takes the key.  Then the reply comes, and one goes on:
# it must not believe it, and may give back only what was its own.
#
foreach my $case ([ 'given', "'1s'" ], [ 'renewed', 'NULL' ])
{
	my ($key, $lease) = @$case;
	my ($one) = sessions($patient, 1, 'lockredis.lease' => '1s');
	my $rule = $proxy->rule(on => 'reply', match => $key, action => 'hold');

	$one->start("SELECT redis_lock('$key', $lease)");
	$proxy->wait_for_rule($rule);
	$one->freeze;
	$redis->wait_for_key($key, 0);
	$redis->foreign_lock($key);
	$proxy->let_go;
	$one->thaw;
	$one->wait(30)->fails('58030', qr/after the lease had ended/,
		"late reply, $key lease: not believed");
	$one->query_is("SELECT redis_is_held('$key'), redis_hold_count('$key')",
		'f|0', "late reply, $key lease: not held");
	poll_until('the orphan to be given back', sub { $patient->count_locks == 0 });
	is($redis->owner_of($key), 'somebody:1',
		"late reply, $key lease: the next holder is not disturbed");
	$redis->foreign_unlock($key);
	end_of("late reply, $key lease", $one);
}

#
# The same with another session of the server behind: it must not wait for a
# process that is stopped.
#
# one's create runs and one is stopped before it reads the reply; two waits
# behind.  Nobody nudges one, as nobody can know; but it does not end its
# request in the time that it has for it.
#
{
	my ($one, $two) = sessions($brisk, 2);
	my $rule = $proxy->rule(on => 'reply', match => 'behind', action => 'hold');

	$brisk->set('lockredis.connect_timeout' => '1s');
	$one->start("SELECT redis_lock('behind', '1s')");
	$proxy->wait_for_rule($rule);
	$one->freeze;
	$two->start("SELECT redis_lock('behind', '60s')");
	my $got = eval { $two->wait(20)->error || 'the lock' } || $@;
	is($got, 'the lock', 'a stopped head: the next in the queue goes on');
	$proxy->let_go;
	$one->thaw;
	my $late = $one->wait(30);
	is($late->sqlstate, '58030', 'a stopped head: has nothing when it goes on')
	  || diag $late->{raw};
	$two->wait(30) if $got ne 'the lock';
	poll_until('the orphan to be given back', sub { $brisk->count_locks <= 1 });
	$two->query_is("SELECT redis_is_held('behind'), redis_unlock('behind')",
		't|t', 'a stopped head: the next is not disturbed');
	$brisk->set('lockredis.connect_timeout' => '20s');
	end_of('a stopped head', $one, $two);
}

#
# Stopped while releasing.
#
# one's release is held by the proxy, one is stopped; for one the lock is gone.
# two waits: it goes on when one's lease has ended, and one's release, which
# reaches Redis only then, does not touch two's lock.
#
{
	my ($one, $two) = sessions($patient, 2);

	$one->query("SELECT redis_lock('releasing', '6s')");
	$two->start("SELECT redis_lock('releasing', '60s')");
	$patient->wait_for_waiters('releasing', 1);
	my $rule = $proxy->rule(match => 'releasing', action => 'hold');
	$one->start("SELECT redis_unlock('releasing')");
	$proxy->wait_for_rule($rule);
	$one->freeze;
	ok($two->is_running, 'releasing: the waiter waits');
	is($two->wait(30)->error, undef,
		'releasing: it goes on when the lease has ended');
	my $owner = $redis->owner_of('releasing');
	$proxy->let_go;
	$one->thaw;
	my $result = $one->wait(30);
	is($result->error, undef, 'releasing: the release ends');
	$one->query_is("SELECT redis_is_held('releasing')",
		'f', 'releasing: and nothing is held');
	$two->query_is("SELECT redis_is_held('releasing')",
		't', 'releasing: the next holder is not disturbed');
	is_deeply($redis->hash('releasing'), { $owner => 1 },
		'releasing: in Redis neither');
	is($patient->count_locks, 1, 'releasing: one row');
	end_of('releasing', $one, $two);
}

#
# Two heads, the first of which is passed over.
#
# Both wait for somebody.  somebody lets go, one is woken and asks, and is
# stopped in it; the key is deleted and that is told: one does not react, after
# a second two is let before, and gets the key.  one goes on, and reads that
# Redis gave it the key as well.
#
# Case "before": one's create ran before the deletion, so the key is two's.
# Case "after": it runs only after two's, whose lock was deleted again; so the
# key was two's, and is one's.  Here nobody can tell which case it is.
#
foreach my $case ('before', 'after')
{
	my $key = "heads $case";
	my $name = "two heads, $case";
	my ($one, $two) = sessions($patient, 2, 'lockredis.lease' => '6s');

	$redis->foreign_lock($key);
	$redis->after_second_look($key, sub { $one->start("SELECT redis_lock('$key', '60s')") });
	$two->start("SELECT redis_lock('$key')");
	$patient->wait_for_waiters($key, 2);
	my $rule = $proxy->rule(
		on => $case eq 'before' ? 'reply' : 'request',
		match => $key,
		action => 'hold');
	$redis->foreign_unlock($key);
	$proxy->wait_for_rule($rule);
	$one->freeze;
	if ($case eq 'before')
	{
		$redis->wait_for_key($key, 1);
		isnt($redis->owner_of($key), 'somebody:1', "$name: one has it in Redis");
	}
	$redis->foreign_unlock($key);
	is($two->wait(30)->error, undef, "$name: one is passed over");
	my $owner = $redis->owner_of($key);
	$redis->cmd('DEL', $key) if $case eq 'after';
	$proxy->let_go;
	if ($case eq 'after')
	{
		$redis->wait_for_key($key, 1);
		isnt($redis->owner_of($key), $owner, "$name: one has it in Redis");
	}
	$one->thaw;

	if ($case eq 'before')
	{
		# one has nothing, and waits.
		$patient->wait_for_waiters($key, 1);
		pause(0.5);
		ok($one->is_running, "$name: one waits");
		$two->query_is("SELECT redis_is_held('$key'), redis_hold_count('$key')",
			't|1', "$name: two holds");
		is_deeply($redis->hash($key), { $owner => 1 },
			"$name: and has it in Redis");
		is( $patient->value(
				'SELECT granted, count(*) FROM redis_locks GROUP BY 1 ORDER BY 1'),
			"f|1\nt|1",
			"$name: a holder and a waiter");
		$two->query_is("SELECT redis_unlock('$key')", 't', "$name: given back");
		is($one->wait(30)->error, undef, "$name: then one has it");
	}
	else
	{
		# one gives way, two finds out by its next renewal, one goes on.
		is($one->wait(30)->error, undef, "$name: one has it in the end");
		$two->query_fails("SELECT redis_assert_held('$key')",
			'55000', qr/deleted|taken/, "$name: two knows that it was lost");
		$two->query_warns("SELECT redis_unlock('$key')",
			'f', '01000', qr/lost/, "$name: acknowledged");
	}
	$one->query_is("SELECT redis_is_held('$key'), redis_hold_count('$key')",
		't|1', "$name: one holds");
	is((values %{ $redis->hash($key) })[0], 1, "$name: one in Redis");
	end_of($name, $one, $two);
}

#
# A create that is refused as too late though it was not.
#
# The reply to one's greeting is slow, so one believes that Redis' clock is five
# seconds behind.  Its create may run for two, which Redis sees to be over: it
# refuses, one learns the time and asks again, as another owner.
#
{
	my ($warm) = sessions($brisk, 1);
	my $one = $brisk->session;
	my $rule = $proxy->rule(
		on => 'reply',
		match => 'lockredis-session',
		action => 'delay',
		ms => 5000);
	my $monitor = $redis->monitor;

	$one->query_is("SELECT redis_try_lock('too late', '0', '60s')",
		't', 'refused as too late: taken');
	$proxy->wait_for_rule($rule);
	$proxy->clear;
	my @creates = grep { /too late/ } $monitor->stop;
	is(scalar @creates, 2, 'refused as too late: asked twice')
	  || diag join "\n", @creates;
	my @owners = map { /"([0-9a-f-]{36}:\d+)"/ } @creates;
	isnt($owners[0], $owners[1], 'refused as too late: as another owner');
	is_deeply($redis->hash('too late'), { $owners[1] => 1 },
		'refused as too late: the second has it');
	$one->query_is("SELECT redis_is_held('too late'), redis_unlock('too late')",
		't|t', 'refused as too late: held and given back');
	end_of('refused as too late', $warm, $one);
}

#
# A head that fails takes with it those behind, one of which is stopped.
#
# one's create gets no reply.  two and three wait behind, two is stopped.  one
# runs out of time: three fails with it, and two stands in nobody's way.  When
# it goes on it fails, and disturbs nobody.
#
{
	# All have to queue before the first one gives up.
	$brisk->set('lockredis.command_timeout' => '10s');
	my ($one, $two, $three, $four) = sessions($brisk, 4);
	my $rule = $proxy->rule(on => 'reply', match => 'failing', action => 'hold');

	$one->start("SELECT redis_lock('failing', '60s')");
	$proxy->wait_for_rule($rule);
	$two->start("SELECT redis_lock('failing', '60s')");
	$brisk->wait_for_waiters('failing', 2);
	$three->start("SELECT redis_lock('failing', '60s')");
	$brisk->wait_for_waiters('failing', 3);
	$two->freeze;
	$one->wait(30)->fails('58030', qr/did not answer/, 'failing: the head');
	$three->wait(30)->fails('58030', qr/first in the queue/,
		'failing: one behind');
	$proxy->let_go;
	poll_until(
		'a session that comes later',
		sub {
			$four->query("SELECT redis_try_lock('failing', '20s', '60s')")->value
			  eq 't';
		});
	pass('failing: one that comes later goes on');
	my $owner = $redis->owner_of('failing');
	$two->thaw;
	$two->wait(30)->fails('58030', qr/first in the queue/,
		'failing: the one that was stopped');
	is_deeply($redis->hash('failing'), { $owner => 1 },
		'failing: the next holder is not disturbed');
	$two->start("SELECT redis_lock('failing', '60s')");
	$brisk->wait_for_waiters('failing', 1);
	$four->query_is("SELECT redis_unlock('failing')", 't', 'failing: given back');
	is($two->wait(30)->error, undef, 'failing: the queue works');
	$brisk->set('lockredis.command_timeout' => '2s');
	end_of('failing', $one, $two, $three, $four);
}

#
# A loss that is acknowledged while the watchdog gives back what may remain.
#
# one's lease ends.  The watchdog's release is on its way (or its reply is) when
# one acknowledges the loss and takes the lock anew.  What the watchdog does
# then is about the old hold only.
#
foreach my $what ('request', 'reply')
{
	my $key = "acknowledged $what";
	my ($one) = sessions($patient, 1);

	my $watchdog = $patient->watchdog_pid;
	kill 'STOP', $watchdog;
	$one->in_time("SELECT redis_lock('$key', '100ms')");
	my $rule = $proxy->rule(on => $what, match => $key, action => 'hold');
	kill 'CONT', $watchdog;
	$proxy->wait_for_rule($rule);
	$one->query_warns("SELECT redis_unlock('$key')",
		'f', '01000', qr/expired/, "$key: the loss");
	$one->query_is("SELECT redis_try_lock('$key', '10s', '60s')",
		't', "$key: taken anew");
	my $owner = $redis->owner_of($key);
	$proxy->let_go;
	poll_until('the old hold to be gone', sub { $patient->count_locks == 1 });
	$one->query_is("SELECT redis_is_held('$key')", 't', "$key: still held");
	is_deeply($redis->hash($key), { $owner => 1 }, "$key: in Redis as well");
	end_of($key, $one);
}

#
# An orphan is a foreign holder to the sessions of its own server.
#
# one is cancelled after its create ran; the watchdog is stopped, so the orphan
# stays, with ten minutes to go.  two waits for it as for anybody else, and has
# the key as soon as it was given back.
#
{
	$brisk->set('lockredis.command_timeout' => '5s');
	my ($one, $two, $three) = sessions($brisk, 3);
	my $watchdog = $brisk->watchdog_pid;
	my $rule = $proxy->rule(on => 'reply', match => 'orphan', action => 'hold');

	kill 'STOP', $watchdog;
	$one->start("SELECT redis_lock('orphan', '600s')");
	$proxy->wait_for_rule($rule);
	$one->cancel;
	$one->wait(30)->fails('57014', qr/cancel/, 'orphan: cancelled');
	$proxy->let_go;
	my $owner = $redis->owner_of('orphan');
	$three->query_is("SELECT redis_try_lock('orphan')",
		'f', 'orphan: has the lock');
	$three->query_is(
		q{SELECT pid, scope, granted, expires_in FROM redis_locks WHERE key = 'orphan'},
		'NULL|NULL|f|NULL',
		'orphan: its row');
	$two->start("SELECT redis_lock('orphan', '60s')");
	$brisk->wait_for_waiters('orphan', 1);
	is( $brisk->value(
			q{SELECT blocked_by FROM redis_locks
			   WHERE key = 'orphan' AND waiting_since IS NOT NULL}),
		'{}',
		'orphan: a foreign holder');
	is($redis->owner_of('orphan'), $owner, 'orphan: still has it');
	kill 'CONT', $watchdog;
	is($two->wait(30)->error, undef, 'orphan: given back, the waiter has it');
	isnt($redis->owner_of('orphan'), $owner, 'orphan: in Redis as well');
	$two->query_is("SELECT redis_is_held('orphan')", 't', 'orphan: held');

	# Its owner can take it again, too.
	$two->query("SELECT redis_unlock('orphan')");
	$one->query_is("SELECT redis_try_lock('orphan', '10s', '60s')",
		't', 'orphan: nothing of it remains for its session');
	end_of('orphan', $one, $two, $three);
}

done_testing();
