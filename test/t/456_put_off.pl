# Copyright (c) 2026, lockredis contributors

# A given lease at a new master that may not be asked about it yet: the question is put
# off, and no unlock, extend or end of a transaction takes its place.  Once the master
# answers, the loss is told long before the lease would have ended.
# Proves G7, G38.

use LockRedis::FalseSentinel;
use LockRedis::Test;
use LockRedis::Topic::Failover;

my ($a, $b) = map { LockRedis::Redis->new(name => $_) } 'a', 'b';
my $sentinel = LockRedis::FalseSentinel->new;

$sentinel->names($a, epoch => 1);
my $node = LockRedis::Node->create('main', url => $sentinel->url_of);
my ($untouched, $unlocks, $ends) = map { $node->session } 1 .. 3;

wait_until_used($node, $a);
$untouched->query("SELECT redis_lock('untouched', '10 min')");
$unlocks->query("SELECT redis_lock('unlocks', '10 min') FROM generate_series(1, 2)");
$ends->query(
	"SELECT redis_lock('ends', '10 min'); BEGIN; SELECT redis_xact_lock('ends', '10 min')");

# B has none of them, and does not say so.
$b->cmd('ACL', 'SETUSER', 'default', 'resetkeys', '~w*');
$sentinel->names($b, epoch => 2);
wait_until_used($node, $b);
poll_until('each is refused', sub { $node->logged(qr/refuses to renew/) });
pause(0.5);

# It says that the store was not told, too.
is($unlocks->value("SELECT redis_unlock('unlocks')"), 't', 'one of two is unlocked');
$ends->query('ROLLBACK');

$b->cmd('ACL', 'SETUSER', 'default', 'allkeys');
my %of = (untouched => $untouched, unlocks => $unlocks, ends => $ends);
foreach my $key (sort keys %of)
{
	poll_until("the loss of $key",
		sub { $of{$key}->value("SELECT redis_is_held('$key')") eq 'f' });
}

$_->quit foreach values %of;
done_testing();
