# Copyright (c) 2026, lockredis contributors

# Semaphores and latches in a Redis Cluster: on each node, waits with its messages, what a
# transaction counts on several nodes; a latch of a name with a brace.

use strict;
use warnings FATAL => 'all';

use LockRedis::RedisCluster;
use LockRedis::Test;
use LockRedis::Wait qw(limit);

my $cluster = LockRedis::RedisCluster->new(replicas => 0);
my $node = LockRedis::Node->create('main', redis => $cluster);
my @masters = $cluster->masters;
my $soon = limit(60);

$node->poll_query_until('postgres', q{
	SELECT count(*) = 3 FROM redis_lock_status WHERE role = 'master' AND state = 'up' AND in_use});

my ($one, $two) = map { $node->session } 1 .. 2;

foreach my $n (0 .. $#masters)
{
	my $key = $cluster->key_on($masters[$n], 'n');

	$one->query_is("SELECT redis_semaphore_init('$key', 2), redis_semaphore_acquire('$key', 2)",
		't|', "node $n: a semaphore");
	$node->queue_up($key, $two => "SELECT redis_semaphore_acquire('$key')");
	$one->query("SELECT redis_semaphore_release('$key')");
	is($two->wait($soon)->error, undef, "node $n: woken");
	$cluster->cmd('DEL', $key);
	$one->query_is("SELECT redis_latch_init('$key', 2)", 't', "node $n: a latch");
	$node->queue_up($key, $two => "SELECT redis_latch_wait('$key')");
	$one->query_is("SELECT redis_latch_count_down('$key'), redis_latch_count_down('$key')",
		'1|0', "node $n: counted down");
	is($two->wait($soon)->out, 't', "node $n: told");
}

# Over several nodes at the end of a transaction
$one->query("SELECT redis_latch_init('l' || i, 3) FROM generate_series(1, 30) i");
$one->query("BEGIN; SELECT redis_latch_xact_count_down('l' || i) FROM generate_series(1, 30) i; COMMIT");
# What is not answered soon is the watchdog's.
poll_until('all to be counted', sub { $node->value('SELECT count(*) FROM redis_locks') == 0 });
is($node->value("SELECT sum(redis_latch_count('l' || i)) FROM generate_series(1, 30) i"), 60, 'all of them');
is($node->value('SELECT count(*) FROM redis_locks'), 0, 'no row');

# Names with a brace
$one->query_is("SELECT redis_semaphore_init('a{b}c', 1), redis_semaphore_available('a{b}c')", 't|1',
	'a semaphore of a name with a tag');
$one->query_fails("SELECT $_", '22023', qr/name of a latch must not contain a brace/, $_)
  foreach "redis_latch_init('a{b}c', 1)", "redis_latch_wait('a{b}c')",
  "redis_latch_count_down('a{b}c')", "redis_latch_xact_count_down('a{b}c')",
  "redis_latch_count('a{b}c')", "redis_latch_delete('a{b}c')";
$one->query_fails("SELECT redis_semaphore_release('x}y')", '22023', qr/lock key cannot be used in a Redis Cluster/);
$one->query_fails("SELECT redis_semaphore_acquire('x}y')", '22023', qr/lock key cannot be used in a Redis Cluster/);
is($node->value('SELECT count(*) FROM redis_locks'), 0, 'no row');
done_testing();
