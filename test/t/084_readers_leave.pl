# Copyright (c) 2026, lockredis contributors

# What a read lock costs in Redis beside many other readers, whose leases end at various
# times, some of whom have crashed: to take it, to renew it and to give it back; that all
# of them may leave, and that who is the longest leaves a time to live that covers the
# others.  Counted, not timed.
#
# For bars of speed, not for a guarantee.

use LockRedis::Test;

my ($node, $redis) = servers(settings => { 'lockredis.lease' => '600s' });
my @sessions = map { $node->connected_session } 1 .. 20;
my $one = $sessions[0];

$one->query("SELECT redis_read_lock('warm'), redis_read_unlock('warm')");

# So many readers of other servers: of each the last ms of its lease; 0: it has crashed.
sub readers_elsewhere
{
	my ($key, @ends) = @_;

	$redis->cmd('EVAL', q{
		redis.call('HSET', KEYS[1], 'mode', 'read')
		for i = 1, #ARGV do
			redis.call('HSET', KEYS[1], 'elsewhere:' .. i, 1)
			if ARGV[i] ~= '0' then
				redis.call('SET', '{' .. KEYS[1] .. '}:elsewhere:' .. i .. ':rwlock_timeout:1', 1,
					'PX', ARGV[i])
				if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[i]) then
					redis.call('PEXPIRE', KEYS[1], ARGV[i])
				end
			end
		end}, 1, $key, @ends);
	return;
}

my @commands = qw(del exists expire hdel hexists hget hgetall hkeys hlen hset pexpire pttl publish set
  type zadd zrange zrem zremrangebyscore zscore);

sub cost
{
	my ($session, $sql) = @_;
	my $before = $redis->calls(@commands);

	$session->query($sql);
	return $redis->calls(@commands) - $before;
}

# The watchdog renews now and then.
my $watchdog = $node->watchdog_pid;
kill 'STOP', $watchdog;

# All of their leases end before ours, by up to a third.
my %cost;

foreach my $others (3, 300)
{
	my $key = "k$others";

	readers_elsewhere($key, map { 400_000 + int(199_000 * $_ / $others) } 1 .. $others);
	$cost{take}{$others} = cost($one, "SELECT redis_read_lock('$key')");
	$cost{extend}{$others} = cost($one, "SELECT redis_extend('$key', '601s', 'read')");
	$cost{leave}{$others} = cost($one, "SELECT redis_read_unlock('$key')");
	is(scalar keys %{ $redis->hash($key) }, $others + 1, "$others stay");
	cmp_ok($redis->cmd('PTTL', $key), '>', 590_000, 'and the lock lasts until the last one ends');
}
foreach (sort keys %cost)
{
	is($cost{$_}{300}, $cost{$_}{3}, "$_: as many commands beside 300 readers as beside 3: $cost{$_}{3}");
}

# Who stays for much longer than all others looks for the last of them, once.
readers_elsewhere('long', map { 10_000 + 1000 * $_ } 1 .. 100);
$one->query("SELECT redis_read_lock('long', '1h'), redis_read_unlock('long')");
my $left = $redis->cmd('PTTL', 'long');
ok($left > 60_000 && $left <= 110_000, "the lock lasts for as long as the last of the others: $left");

# Who leaves a little later than the longest does not leave its time to live to the others.
readers_elsewhere('chain', 30_000);
$sessions[$_]->query("SELECT redis_read_lock('chain', '" . (1000 - 400 * $_) . "s')") foreach 0, 1;
$sessions[$_]->query_is("SELECT redis_read_unlock('chain')", 't', 'given back') foreach 0, 1;
$left = $redis->cmd('PTTL', 'chain');
ok($left > 0 && $left <= 60_000, "the lock lasts for twice as long as who stays, at most: $left");

# Each of those who have crashed is looked at once.
readers_elsewhere('dead', (0) x 100, 200_000, (0) x 100);
my $first = cost($one, "SELECT redis_read_lock('dead'), redis_read_unlock('dead')");
cmp_ok(cost($one, "SELECT redis_read_lock('dead'), redis_read_unlock('dead')"), '<=', $first - 150,
	'those who have crashed are gone by that');
cmp_ok($redis->cmd('PTTL', 'dead'), '>', 100_000, 'but who lives stays');

# Many of ours who leave, the last one first
readers_elsewhere('many', map { 400_000 + 100 * $_ } 1 .. 300);
$_->query("SELECT redis_read_lock('many')") foreach @sessions;
foreach my $session (reverse @sessions)
{
	my $cost = cost($session, "SELECT redis_read_unlock('many')");

	fail("$cost commands to leave") if $cost > $cost{leave}{3};
}
is(scalar keys %{ $redis->hash('many') }, 301, 'all of ours have left');
$redis->cmd('FLUSHALL');
kill 'CONT', $watchdog;

end_test($node, $redis);
