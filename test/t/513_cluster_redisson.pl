# Copyright (c) 2026, lockredis contributors

# The real Redisson in cluster mode and sessions of ours on the same keys: each keeps the
# other out, and wakes it, at each of the masters.  When a slot has moved a session is
# still told by Redisson; Redisson itself subscribes there once it has learned of it.

use LockRedis::RedisCluster;
use LockRedis::Redisson;
use LockRedis::Test;

LockRedis::Redisson->need;

my $cluster = LockRedis::RedisCluster->new(replicas => 0);
my $node = LockRedis::Node->create('main', redis => $cluster, patient => 1);
my $java = LockRedis::Redisson->new;
my $one = $node->session;
my @masters = $cluster->masters;

$java->connect('a', $cluster);
$cluster->wait_until_used($node);

sub redisson_wakes_us
{
	my ($key, $where) = @_;

	# Redisson has it: a session waits, and is told
	$java->call('a.1', 'lock', $key, -1)->or_die;
	$one->query_is("SELECT redis_try_lock('$key')", 'f', "$where: Redisson keeps us out");
	$one->start("SELECT redis_lock('$key')");
	$node->wait_for_waiters($key, 1);
	$cluster->wait_for_subscribers($key, 1);
	$java->call('a.1', 'unlock', $key)->or_die;
	is($one->wait(60)->error, undef, 'we have it when it is given back');
	return;
}

sub we_wake_redisson
{
	my ($key) = @_;

	# A session has it: Redisson waits, and is told
	my $waits = $java->send('a.2', 'lock', $key, -1);
	$cluster->wait_for_subscribers($key, 1);
	$one->query_is("SELECT redis_unlock('$key')", 't', 'given back');
	ok(!$java->wait($waits, 60)->error, 'Redisson has it then');
	is($cluster->owner_of($key), $java->value('a.2', 'owner', '-'), 'as the cluster says');
	$java->call('a.2', 'unlock', $key)->or_die;
	return;
}

foreach my $n (0 .. 2)
{
	my $key = $cluster->key_on($masters[$n], 'k');

	redisson_wakes_us($key, "node $n");
	we_wake_redisson($key);
}

my $key = $cluster->key_on($masters[0], 'moved');
$cluster->move_slot($cluster->slot($key), $masters[1]);
redisson_wakes_us($key, 'moved');
$one->query_is("SELECT redis_unlock('$key')", 't', 'given back');

$java->shutdown('a');
$java->stop;
end_test($node, $cluster, clients => qr/session/);
