# Copyright (c) 2026, lockredis contributors

# Tickets of semaphores and latches: Redis need not remember a request that was answered, and
# does not, however many names a session uses; the last one of a session goes with what it asks
# next, or with its end.  At one Redis and in a cluster, and of what a COMMIT or the watchdog
# counts.  Proves nothing that is guaranteed: it is about memory.

use LockRedis::RedisCluster;
use LockRedis::Test;

sub tickets
{
	my ($redis) = @_;

	return grep { /^lockredis_tickets:/ } $redis->all_keys;
}

# By sessions of a server, with so many nodes behind it
sub tickets_go
{
	my ($node, $redis, $nodes, $name) = @_;
	my ($one, $two) = map { $node->session } 1 .. 2;

	$one->query("SELECT redis_semaphore_release('s' || i, 5), redis_semaphore_acquire('s' || i, 2), "
		  . "redis_latch_count_down('l' || i) FROM generate_series(1, 200) i");
	is($one->value("SELECT sum(redis_semaphore_available('s' || i)) FROM generate_series(1, 200) i"),
		600, "$name: counted");
	cmp_ok(scalar tickets($redis), '<=', $nodes, "$name: one of each connection is left, at most");

	# What is not answered soon the watchdog asks for again, and the ticket of the first request,
	# which may come late, has to stay: then once more.
	my $commits = 0;

	poll_until("$name: a COMMIT that is answered soon", sub {
		my $orphans = $node->lock_stat('orphans');

		$redis->cmd('DEL', $_) foreach $commits++ ? tickets($redis) : ();
		$one->query("BEGIN; SELECT redis_semaphore_xact_release('s' || i) FROM generate_series(1, 20) i; COMMIT");
		poll_until('all to be counted', sub { $node->count_locks == 0 });
		return $node->lock_stat('orphans') == $orphans;
	}, 180);
	is($two->value("SELECT sum(redis_semaphore_available('s' || i)) FROM generate_series(1, 200) i"),
		600 + 20 * $commits, "$name: counted by a COMMIT");

	# Who has not asked each node again
	$one->query("SELECT redis_semaphore_available('s' || i) FROM generate_series(1, 200) i");
	is(join(' ', tickets($redis)), '', "$name: none are left");

	# The last of a session
	$two->query("SELECT redis_semaphore_release('s1')");
	is(scalar tickets($redis), 1, "$name: one that was answered last");
	$two->quit;
	poll_until('no ticket', sub { !tickets($redis) });
	$one->quit;
	return;
}

my $redis = LockRedis::Redis->new;
my $proxy = LockRedis::Proxy->new($redis);
my $node = LockRedis::Node->create('main', url => $proxy->url, redis => $redis);

$node->wait_for_up;
tickets_go($node, $redis, 1, 'one Redis');

# The request that removes it is no further round trip.
{
	my $one = $node->session;

	$one->query("SELECT redis_semaphore_release('s1'), redis_semaphore_acquire('s1')");
	my @commands = $redis->session_commands(
		sub { $one->query("SELECT redis_semaphore_release('s2'), redis_semaphore_acquire('s3')") });
	is(scalar(grep { /"zrem"/i } @commands), 2, 'two were removed');
	is(scalar @commands, 4, 'by two commands besides those of the requests');
	my $ticket = ($redis->cmd('ZRANGE', 'lockredis_tickets:{s3}', 0, -1))->[0];
	ok(defined $ticket, 'the last one is there');

	# To await a latch leaves none.
	@commands = $redis->session_commands(
		sub {
			$one->query("SELECT redis_latch_wait('no latch'), redis_latch_wait('no latch')");
			$one->query("SELECT redis_semaphore_release('s2'), redis_semaphore_acquire('s3')");
		});
	is(scalar(grep { /"zrem"/i } @commands), 2, 'none is removed for who awaits a latch');
	$ticket = ($redis->cmd('ZRANGE', 'lockredis_tickets:{s3}', 0, -1))->[0];

	# The connection ends: nobody removes it, and Redis forgets it by itself.
	$proxy->reset_all;
	$one->query("SELECT redis_semaphore_release('s2')");
	my $ttl = $redis->cmd('PTTL', 'lockredis_tickets:{s3}');
	ok($ttl > 3_000_000 && $ttl <= 3_600_000, 'within an hour');
	$redis->cmd('DEL', 'lockredis_tickets:{s3}');
	$one->quit;
	$node->wait_for_up;
}

# Redis is away at a COMMIT: nobody but the watchdog has asked.
{
	my $one = $node->connected_session;

	$one->query("BEGIN; SELECT redis_semaphore_xact_release('away' || i) FROM generate_series(1, 20) i");
	$proxy->mode('refuse');
	$proxy->reset_all;
	$one->query_is('COMMIT', '', 'away');
	is($node->count_locks, 20, 'all are the watchdog\'s');
	$proxy->mode('pass');
	poll_until('all to be counted', sub { $node->count_locks == 0 });
	is($redis->cmd('GET', 'away7'), 1, 'counted once');
	$node->wait_for_up;
	$one->query("SELECT redis_lock('held')");
	poll_until('no tickets', sub { !tickets($redis) });
	$one->quit;
}

my $cluster = LockRedis::RedisCluster->new(masters => 3, replicas => 0);
my $at_cluster = LockRedis::Node->create('cluster', redis => $cluster);

$at_cluster->wait_for_up;
tickets_go($at_cluster, $cluster, 3, 'a cluster');
done_testing();
