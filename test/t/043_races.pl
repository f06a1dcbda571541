# Copyright (c) 2026, lockredis contributors

# Interleavings that are forced: processes stopped (SIGSTOP) at a point, and a proxy that holds a
# reply.  Nothing is left, nobody else is disturbed; a create whose reply was not read is an
# orphan, which its own server waits for as for anybody else.  (What is answered after the end of
# its lease, or refused as too late, is the simulator's: its mutants grant_from_reply and
# lua_create_late.  477 has what the session is told.)
#
# one, two and three are sessions of one server; "somebody" is another client.
#
# Proves G1, G5, G18, G21.

use LockRedis::Test;

# Requests of a stopped process must not run out of time before it goes on, but for where it says
# so.
my ($node, $redis, $proxy) = LockRedis::Node->create_behind_proxy(
	'main',
	settings => { 'lockredis.connect_timeout' => '20s', 'lockredis.command_timeout' => '60s' });

# Sessions that have a connection, on a Redis that knows the scripts.
sub sessions
{
	my ($count) = @_;
	my @sessions = map { $node->session } 1 .. $count;

	$_->query("SELECT redis_try_lock('warm', '10s', '60s'), redis_unlock('warm')")
	  foreach @sessions;
	return @sessions;
}

sub end_of
{
	my ($name, @sessions) = @_;

	$_->quit foreach @sessions;
	return nothing_left($node, $redis, name => "$name: nothing is left");
}

#
# Another session of the server must not wait for a process that is stopped.
#
# one's create runs and one is stopped before it reads the reply; two waits
# behind.  Nobody nudges one, as nobody can know; but it does not end its
# request in the time that it has for it.
#
{
	my ($one, $two) = sessions(2);
	my $rule = $proxy->rule(on => 'reply', match => 'behind', action => 'hold');

	$node->set('lockredis.connect_timeout' => '1s', 'lockredis.command_timeout' => '2s');
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
	poll_until('the orphan to be given back', sub { $node->count_locks <= 1 });
	$two->query_is("SELECT redis_is_held('behind'), redis_unlock('behind')",
		't|t', 'a stopped head: the next is not disturbed');
	$node->set('lockredis.connect_timeout' => '20s');
	end_of('a stopped head', $one, $two);
}

#
# An orphan is a foreign holder to the sessions of its own server.
#
# one is cancelled after its create ran; the watchdog is stopped, so the orphan
# stays, with ten minutes to go.  two waits for it as for anybody else, and has
# the key as soon as it was given back.
#
{
	$node->set('lockredis.command_timeout' => '5s');
	my ($one, $two, $three) = sessions(3);
	my $watchdog = $node->watchdog_pid;
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
	$node->wait_for_waiters('orphan', 1);
	is( $node->value(
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
