# Copyright (c) 2026, lockredis contributors

# A session that waits for a fenced lock is handed it by another one of its server while
# there is no master, and has to ask one for its token: it waits for the next master, as
# any call that waits does, and has the lock with a token above the one before.
# Proves G2.

use LockRedis::Sentinels;
use LockRedis::Test;
use LockRedis::Topic::Failover;

my $ha = LockRedis::Sentinels->new;
my $node = LockRedis::Node->create('main', redis => $ha,
	settings => { 'lockredis.lease' => '10min', 'lockredis.command_timeout' => '3min' });
my ($holder, $waiter) = map { $node->session } 1 .. 2;

$node->wait_for_up;
my $before = $holder->value("SELECT redis_fenced_lock('k')");
cmp_ok($before, '>', 0, 'a token');
$node->queue_up('k', $waiter => "SELECT redis_fenced_lock('k')");
replicated($ha);

# Nobody takes its place before the lock has been handed on.
my $old = $ha->master;
my @sentinels = $ha->sentinels;
$_->freeze foreach @sentinels;
$old->kill9;
$holder->query_is("SELECT redis_unlock('k')", 't', 'given back, without a master');
poll_until('a master to be asked in vain',
	sub { !$waiter->is_running || $node->lock_stat('errors') > 0 }, 60);
ok($waiter->is_running, 'who was handed it does not give up');
$_->thaw foreach @sentinels;

my $result = $waiter->wait(180);
is($result->error, undef, 'it waits for the next master');
cmp_ok($result->value, '>', $before, 'and has a token above the one before');
$waiter->query_is("SELECT redis_is_held('k'), redis_unlock('k')", 't|t', 'it is its own');
isnt($ha->wait_for_master_but($old)->address, $old->address, 'from another master');
is($node->lock_stat('handoffs'), 1, 'it was handed on');

$_->quit foreach $holder, $waiter;
$old->start;
$ha->wait_until_steady;
end_test($node, $ha, keys => qr/lock_token/);
