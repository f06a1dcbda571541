# Copyright (c) 2026, lockredis contributors

# Fair locks: fifty places of a server that has crashed end together, for who waits
# behind them with as few questions as behind one; counted, not timed.
#
# For bars of speed, not for a guarantee.

use LockRedis::Test;

my ($node, $redis) = LockRedis::Node->create_with_redis(
	'main', settings => { 'lockredis.lease' => '300s', 'lockredis.wait_lease' => '300s' });
my ($one, $two) = map { $node->connected_session } 1 .. 2;

foreach my $session ($one, $two)
{
	$session->query("SELECT redis_fair_lock('warm')");
	$session->query_is("SELECT redis_unlock('warm')", 't', 'Redis has the scripts');
}

# That many places of servers elsewhere, which count for some seconds and are not renewed
sub dead_places
{
	my ($key, $n, $ms) = @_;

	$redis->cmd('EVAL', q{
		local time = redis.call('TIME')
		local now = time[1] * 1000 + math.floor(time[2] / 1000)
		for i = 1, ARGV[1] do
			local owner = 'elsewhere:' .. i
			redis.call('RPUSH', KEYS[1], owner)
			redis.call('ZADD', KEYS[2], now + 600000, owner)
			redis.call('ZADD', KEYS[3], now + ARGV[2], owner)
		end}, 3, map({ "$_:{$key}" } qw(redisson_lock_queue redisson_lock_timeout
			lockredis_places)), $n, $ms);
	return;
}

# Who asks for the key behind them sleeps until they end, and asks then.
foreach my $dead (1, 50)
{
	my $key = "behind$dead";

	my @asked = grep { /"eval/i } $redis->session_commands(
		sub {
			dead_places($key, $dead, 3000);
			$one->query_is("SELECT redis_fair_lock('$key')", '', "had after $dead dead places");
		});

	cmp_ok(scalar @asked, '<=', 6, "in few questions behind $dead: " . @asked);
	is(join(' ', grep { /behind/ } $redis->all_keys), $key, 'nothing is left of them');
	$one->query_is("SELECT redis_unlock('$key')", 't', 'given back');
}

# Behind many that live, each is told when it is its turn.
$one->query("SELECT redis_fair_lock('live')");
dead_places('live', 50, limit(10) * 1000);
my @asked = grep { /"eval/i } $redis->session_commands(
	sub {
		$two->start("SELECT redis_fair_lock('live')");
		poll_until('a place behind them',
			sub { $redis->cmd('LLEN', 'redisson_lock_queue:{live}') == 51 });
		poll_until('their end', sub {
				my ($seconds, $us) = @{ $redis->cmd('TIME') };
				my $now = $seconds * 1000 + $us / 1000;

				return !@{ $redis->cmd('ZRANGEBYSCORE', 'lockredis_places:{live}', $now, '+inf',
						'LIMIT', 1, 1) };
			});
		$one->query_is("SELECT redis_unlock('live')", 't', 'given back when they have ended');
		is($two->wait(60)->error, undef, 'the next one is told by that');
	});
# And the release.
cmp_ok(scalar @asked, '<=', 8, 'in few questions: ' . @asked);
$two->query_is("SELECT redis_unlock('live')", 't', 'given back');

end_test($node, $redis);
