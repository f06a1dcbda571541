# Copyright (c) 2026, lockredis contributors

# Clients of Redisson's fair lock that are killed, with sessions of two servers in the
# same queue: one that waits, as the first or in the middle.  Those behind it come in their
# order when its time is over, and lose nothing else.
# Proves G1, G5, G21.

use LockRedis::Redisson;
use LockRedis::Test;
use LockRedis::Topic::Fair;

LockRedis::Redisson->need;
start_servers();

# They look at their places often, as nobody tells them of somebody who has died.
my @sessions = map {
	$_->session(settings => { 'lockredis.wait_lease' => '15s', 'lockredis.lease' => '1h' })
} $far, $near, $far;
my $holder = patient_session($near);

# A thread of Redisson that stands in the queue, in a process of its own.
sub waiting_thread
{
	my ($key) = @_;
	my $java = LockRedis::Redisson->new;
	my $before = queue($key);

	$java->connect('a', $redis);
	$java->send('a.1', 'fair.lock', $key, 600_000);
	poll_until('its place', sub { queue($key) == $before + 1 });
	return ($java, (queue($key))[-1]);
}

# Redisson's places count until a time of theirs: five minutes behind those of the ones
# before it and the lease of the lock.  It is over now.
sub its_time_is_over
{
	my ($key, $place) = @_;

	$redis->cmd('ZADD', "redisson_lock_timeout:{$key}", 'XX', 1, $place);
	return;
}

# The first of the queue: those behind it wait until its time is over.
{
	$holder->query("SELECT redis_fair_lock('first')");
	my ($java, $place) = waiting_thread('first');
	my @waiting = map { [ $_, wait_fairly($_, 'first') ] } @sessions;

	$java->kill9;
	$holder->query_is("SELECT redis_unlock('first')", 't', 'a message for one who is dead');
	is((queue('first'))[0], $place, 'he stands there');
	$holder->query_is("SELECT redis_try_fair_lock('first')", 'f',
		'and is the next, as long as he counts');
	its_time_is_over('first', $place);
	each_in_turn('first', 'behind the first', @waiting);
}

# In the middle: nobody before it waits for that.
{
	$holder->query("SELECT redis_fair_lock('middle')");
	my $before = wait_fairly($sessions[0], 'middle');
	my ($java, $place) = waiting_thread('middle');
	my @waiting = map { [ $_, wait_fairly($_, 'middle') ] } @sessions[ 1 .. 2 ];

	$java->kill9;
	$holder->query_is("SELECT redis_unlock('middle')", 't', 'given back');
	# Or it has not run for a second, and comes behind the others.
	poll_until('the one before it',
		sub { !$sessions[0]->is_running || !grep { $_ eq $before } queue('middle') }, 60);
	is(scalar(grep { $_ eq $place } queue('middle')), 1, 'he stands there');
	its_time_is_over('middle', $place);
	each_in_turn('middle', 'behind the middle', [ $sessions[0], $before ], @waiting);
}

end_test([ $near, $far ], $redis);
