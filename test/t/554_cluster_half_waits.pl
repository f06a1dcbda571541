# Copyright (c) 2026, lockredis contributors

# Who waits for a lock in a slot that is on its way to another node, and that has been moved
# already: its release is told there, where nobody can subscribe yet.  So he asks again and
# again, whether he has begun to wait before that or after it.
# Proves G46.

use LockRedis::RedisCluster;
use LockRedis::Test;

my $cluster = LockRedis::RedisCluster->new(masters => 2, replicas => 0);
my $node = LockRedis::Node->create('main', redis => $cluster, patient => 1);
my ($from, $to) = $cluster->masters;
my ($early, $late) = map { $node->session(settings => { 'lockredis.lease' => '10min' }) } 1 .. 2;

$cluster->wait_until_used($node);

# Given back by a client that goes where it is sent to, with ASKING
sub give_back_there
{
	my ($key) = @_;
	my $connection = $to->connection;

	foreach my $command ([ 'DEL', $key ], [ 'SPUBLISH', $to->channel($key), '0' ])
	{
		$connection->call('ASKING');
		$connection->call(@$command);
	}
	$connection->disconnect;
	return;
}

my $tag = $cluster->key_on($from, 'half-');
my $slot = $cluster->slot($tag);
my ($before, $after) = map { "{$tag}$_" } 'before', 'after';

$cluster->foreign_lock($_, ms => 3_600_000) foreach $before, $after;
$early->start("SELECT redis_try_lock('$before', '1 hour')");
$node->wait_for_waiters($before, 1);
$cluster->wait_for_subscribers($before, 1);
$cluster->begin_move($slot, $to);
$cluster->move_keys($slot);
$late->start("SELECT redis_try_lock('$after', '1 hour')");
$node->wait_for_waiters($after, 1);
poll_until('both to be where the slot goes to', sub { $to->cmd('CLUSTER', 'COUNTKEYSINSLOT', $slot) == 2 });

give_back_there($after);
is($late->wait(limit(60))->value, 't', 'who began to wait then has it');
give_back_there($before);
is($early->wait(limit(60))->value, 't', 'who had begun before has it, too');

# What is there is given back there.
$early->query_is("SELECT redis_unlock('$before')", 't', 'given back');
$late->query_is("SELECT redis_unlock('$after')", 't', 'given back');
$cluster->end_move($slot);
is(join(' ', $cluster->all_keys), '', 'nothing is left');
end_test($node, $cluster, clients => qr/session/);
