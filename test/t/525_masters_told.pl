# Copyright (c) 2026, lockredis contributors

# Three independent masters, and somebody who waits for a lock that others have at two of
# them.  The third one grants it to him, so he gives it back there.  Nobody can do
# anything with that: if it were told he would hear of it himself, ask again at once, and
# so on, thousands of times a second until the lease ends.  The count of what is told says
# that it is not.  Where nobody has two of them it is told.
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

$session->start("SELECT redis_lock('k')");
$node->wait_for_waiters('k', 1);
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

end_test($node, $masters);
