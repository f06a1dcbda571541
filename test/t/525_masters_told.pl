# Copyright (c) 2026, lockredis contributors

# Three independent masters, and somebody who waits for a lock that others have at two of
# them.  The third one grants it to him, so he gives it back there.  Nobody can do
# anything with that: if it were told he would hear of it himself, ask again at once, and
# so on, thousands of times a second until the lease ends.  The count of what is told says
# that it is not.  Where nobody has two of them it is told.
#
# Whoever listens to most of them, but not to the same ones all the time, asks again:
#
#   S: waits; X has the lock at 1 and 2
#   the connection to 1 is lost         1: X gives it back
#   the connection to 1 is back
#   the connection to 2 is lost         2: X gives it back
#   S: asks, and has it; nobody has told it
# Proves G47.

use LockRedis::Masters;
use LockRedis::Test;

my $masters = LockRedis::Masters->new(n => 3);
my @nodes = $masters->nodes;
my $node = $masters->server('main');
my $third = $nodes[2];
my $session = $node->session;

# The third grants it when it is connected in time, so it is asked for until it does.
sub given_back_by_third
{
	my ($sql, $n) = @_;

	poll_until("the third to have given it back $n times",
		sub { $session->value($sql); $third->calls('hdel') >= $n });
	return;
}

$nodes[$_]->foreign_lock('k', owner => 'other:1', ms => 3_600_000) foreach 0, 1;
given_back_by_third("SELECT redis_try_lock('k')", 2);
is($third->calls('publish'), 0, 'what nobody waits for is not told');

my $before = $third->calls('hdel');

$node->queue_up('k', $session => "SELECT redis_lock('k')");
poll_until('who waits to have asked with his ears open', sub {
	(grep { $_->subscribers($_->channel('k')) } @nodes) >= 2 && $third->calls('hdel') > $before });
is($third->calls('publish'), 0, 'nor to who waits himself');
$nodes[$_]->foreign_unlock('k') foreach 0, 1;
$session->wait;
$session->query_is("SELECT redis_unlock('k')", 't', 'given back');

my $told = $third->calls('publish');

$nodes[$_]->foreign_lock('s', owner => "other:$_", ms => 3_600_000) foreach 0, 1;
given_back_by_third("SELECT redis_try_lock('s')", $third->calls('hdel') + 1);
cmp_ok($third->calls('publish'), '>', $told, 'what nobody has is told when it is free');
$nodes[$_]->foreign_unlock('s') foreach 0, 1;

# ---- releases that nobody hears

# In one transaction: what listens is cut off before it could hear of it.
sub given_back_unheard
{
	my ($redis, $key) = @_;

	$redis->cmd('MULTI');
	$redis->cmd('CLIENT', 'KILL', 'TYPE', 'pubsub');
	$redis->cmd('DEL', $key);
	$redis->cmd('PUBLISH', $redis->channel($key), 0);
	return $redis->cmd('EXEC');
}

$nodes[$_]->foreign_lock('u', owner => 'other:1', ms => 3_600_000) foreach 0, 1;
$session->start("SELECT redis_lock('u')");
poll_until('all to be listened to', sub {
	(grep { $_->subscribers($_->channel('u')) } @nodes) == 3 });
foreach my $redis (@nodes[ 0, 1 ])
{
	is(given_back_unheard($redis, 'u')->[-1], 0, 'nobody hears of it');
	poll_until('it to be listened to again', sub { $redis->subscribers($redis->channel('u')) });
}
is($session->wait->error, undef, 'had nevertheless');
$session->query_is("SELECT redis_unlock('u')", 't', 'given back');

end_test($node, $masters);
