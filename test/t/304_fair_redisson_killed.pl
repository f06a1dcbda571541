# Copyright (c) 2026, lockredis contributors

# A client of Redisson's fair lock that is killed, with sessions of two servers in the
# same queue: those behind one that waits come in their order when its time is over, and lose
# nothing else.
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

# A thread of Redisson stands in the queue as the first, in a process of its own.
my $java = LockRedis::Redisson->new;
$holder->query("SELECT redis_fair_lock('k')");
$java->connect('a', $redis);
$java->send('a.1', 'fair.lock', 'k', 600_000);
poll_until('its place', sub { queue('k') == 1 });
my ($place) = queue('k');
my @waiting = map { [ $_, wait_fairly($_, 'k') ] } @sessions;

$java->kill9;
$holder->query_is("SELECT redis_unlock('k')", 't', 'a message for one who is dead');
is((queue('k'))[0], $place, 'he stands there');
$holder->query_is("SELECT redis_try_fair_lock('k')", 'f', 'and is the next, as long as he counts');

# Redisson's places count until a time of theirs: five minutes behind those of the ones
# before it and the lease of the lock.  It is over now.
$redis->cmd('ZADD', 'redisson_lock_timeout:{k}', 'XX', 1, $place);
each_in_turn('k', 'behind the first', @waiting);

end_test([ $near, $far ], $redis);
