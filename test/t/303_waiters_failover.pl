# Copyright (c) 2026, lockredis contributors

# Fair locks of two servers at a failover by Sentinels: who stands in the queue of the new
# master keeps his place; the one who has the lock gives it back there, and all get it, one
# after the other.  (A new master that does not know some of them is the simulator's.)
# And a fenced lock that is handed on while there is none waits for the next one.
# Proves G1, G2, G38.

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

# A session that waits for a fenced lock is handed it by another one of its server while there is
# no master, and has to ask one for its token.
$nodes[0]->set('lockredis.command_timeout' => '3min');
my $waiter = patient_session($nodes[0]);
$holder->query("SELECT redis_fair_lock('kept')");
my @waiting = map { [ $_, wait_fairly($_, 'kept') ] } @sessions;
my $before = join ' ', queue('kept');
my ($errors, $handoffs) = map { $nodes[0]->lock_stat($_) } qw(errors handoffs);
my $token = $holder->value("SELECT redis_fenced_lock('k')");
$nodes[0]->queue_up('k', $waiter => "SELECT redis_fenced_lock('k')");
replicated($ha);

# Nobody takes its place before the lock has been handed on.
my $old = $ha->master;
my @sentinels = $ha->sentinels;
$_->freeze foreach @sentinels;
$old->kill9;
$holder->query_is("SELECT redis_unlock('k')", 't', 'given back, without a master');
poll_until('a master to be asked in vain',
	sub { !$waiter->is_running || $nodes[0]->lock_stat('errors') > $errors }, 60);
ok($waiter->is_running, 'who was handed it does not give up');
$_->thaw foreach @sentinels;

my $new = $ha->wait_for_master_but($old);
wait_until_used($_, $new) foreach @nodes;
my $result = $waiter->wait(180);
is($result->error, undef, 'it waits for the next master, as any call that waits does');
cmp_ok($result->value, '>', $token, 'and has a token above the one before');
$waiter->query_is("SELECT redis_is_held('k'), redis_unlock('k')", 't|t', 'it is its own');
is($nodes[0]->lock_stat('handoffs'), $handoffs + 1, 'it was handed on');

# All who wait for the fair lock are in the queue that the new master has.
is(join(' ', queue('kept')), $before, 'the new master has the queue');
poll_until('all to be subscribed there',
	sub { @waiting == grep { $ha->subscribers("redisson_lock__channel:{kept}:$_->[1]") } @waiting });
$holder->query_is("SELECT redis_is_held('kept'), redis_unlock('kept')", 't|t', 'given back there');
each_in_turn('kept', 'kept', @waiting);
end_test([@nodes], $ha, keys => qr/lock_token/);
