# Copyright (c) 2026, lockredis contributors

# Fair locks of two servers at a failover by Sentinels: who stands in the queue of the new
# master keeps his place; the one who has the lock gives it back there, and all get it, one
# after the other.  (A new master that does not know some of them is the simulator's.)
# Proves G1, G38.

use LockRedis::Sentinels;
use LockRedis::Test;
use LockRedis::Topic::Failover;
use LockRedis::Topic::Fair;

my $ha = $redis = LockRedis::Sentinels->new;
my @nodes = map { LockRedis::Node->create($_, redis => $ha) } 'near', 'far';

$_->wait_for_up foreach @nodes;
my ($holder, @sessions) = map { patient_session($nodes[ $_ % 2 ]) } 0 .. 4;
$_->query_is("SELECT redis_try_lock('warm'), redis_unlock('warm')", 't|t', 'warm')
  foreach $holder, @sessions;

# All of them are in the queue that the new master has.
$holder->query("SELECT redis_fair_lock('kept')");
my @waiting = map { [ $_, wait_fairly($_, 'kept') ] } @sessions;
my $before = join ' ', queue('kept');
replicated($ha);
my $old = $ha->master;
$old->kill9;
my $new = $ha->wait_for_master_but($old);
wait_until_used($_, $new) foreach @nodes;
is(join(' ', queue('kept')), $before, 'the new master has the queue');
poll_until('all to be subscribed there',
	sub { @waiting == grep { $ha->subscribers("redisson_lock__channel:{kept}:$_->[1]") } @waiting });
$holder->query_is("SELECT redis_is_held('kept'), redis_unlock('kept')", 't|t', 'given back there');
each_in_turn('kept', 'kept', @waiting);
$old->start;
$ha->wait_until_steady;
end_test([@nodes], $ha);
