# Copyright (c) 2026, lockredis contributors

# Tickets of semaphores and latches: Redis need not remember a request that was answered, and
# does not, however many names a session uses; the last one of a session goes with what it asks
# next, or with its end; also of what a COMMIT counts (486_counts_faults has what the watchdog does).  Proves nothing that is guaranteed: it is about memory.

use LockRedis::Test;

my ($node, $redis, $proxy, $one, $two) = LockRedis::Node->create_behind_proxy('main', sessions => 2);
my $sum = "SELECT sum(redis_semaphore_available('s' || i)) FROM generate_series(1, 200) i";

sub tickets { return grep { /^lockredis_tickets:/ } $redis->all_keys; }

$one->query("SELECT redis_semaphore_release('s' || i, 5), redis_semaphore_acquire('s' || i, 2), "
	. "redis_latch_count_down('l' || i) FROM generate_series(1, 200) i");
is($one->value($sum), 600, 'counted');
cmp_ok(scalar tickets(), '<=', 1, 'one of each connection is left, at most');

# What is not answered soon the watchdog asks for again, and the ticket of the first request,
# which may come late, has to stay: then once more.
my $commits = 0;

poll_until('a COMMIT that is answered soon', sub {
	my $orphans = $node->lock_stat('orphans');

	$redis->cmd('DEL', $_) foreach $commits++ ? tickets() : ();
	$one->query("BEGIN; SELECT redis_semaphore_xact_release('s' || i) FROM generate_series(1, 20) i; COMMIT");
	poll_until('all to be counted', sub { $node->count_locks == 0 });
	return $node->lock_stat('orphans') == $orphans;
}, 180);
is($one->value($sum), 600 + 20 * $commits, 'counted by a COMMIT');
is(join(' ', tickets()), '', 'none are left');

# The last of a session
$two->query("SELECT redis_semaphore_release('s1')");
is(scalar tickets(), 1, 'one that was answered last');
$_->quit foreach $one, $two;
poll_until('no ticket', sub { !tickets() });

# The request that removes it is no further round trip.
{
	$one = $node->session;

	$one->query("SELECT redis_semaphore_release('s1'), redis_semaphore_acquire('s1')");
	my @commands = $redis->session_commands(
		sub { $one->query("SELECT redis_semaphore_release('s2'), redis_semaphore_acquire('s3')") });
	is(scalar(grep { /"zrem"/i } @commands), 2, 'two were removed');
	is(scalar @commands, 4, 'by two commands besides those of the requests');
	ok($redis->cmd('EXISTS', 'lockredis_tickets:{s3}'), 'the last one is there');

	# To await a latch leaves none.
	@commands = $redis->session_commands(
		sub {
			$one->query("SELECT redis_latch_wait('no latch'), redis_latch_wait('no latch')");
			$one->query("SELECT redis_semaphore_release('s2'), redis_semaphore_acquire('s3')");
		});
	is(scalar(grep { /"zrem"/i } @commands), 2, 'none is removed for who awaits a latch');

	# The connection ends: nobody removes it, and Redis forgets it by itself.
	$proxy->reset_all;
	$one->query("SELECT redis_semaphore_release('s2')");
	my $ttl = $redis->cmd('PTTL', 'lockredis_tickets:{s3}');
	ok($ttl > 3_000_000 && $ttl <= 3_600_000, 'within an hour');
	$redis->cmd('DEL', 'lockredis_tickets:{s3}');
	$one->quit;
	$node->wait_for_up;
}

done_testing();
