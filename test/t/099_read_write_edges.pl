# Copyright (c) 2026, lockredis contributors

# Read-write locks where others or Redis are in the way: a client that shortens the given
# leases of all readers, as Redisson before 4.4.0 does; a downgrade while Redis is out of
# memory.
# Proves G1.

use LockRedis::Test;

my ($node, $redis, $one, $two) = servers(sessions => 2);

sub owner
{
	my ($key) = @_;

	return $node->value("SELECT owner FROM redis_locks WHERE key = '$key' AND kind = 'read'");
}

# Shortened to what is far longer than the time to the next look.
$one->query("SELECT redis_read_lock('a', '1 h')");
my @keys = ('a', '{a}:' . owner('a') . ':rwlock_timeout:1');
$redis->cmd('PEXPIRE', $_, 300_000) foreach @keys;
foreach my $key (@keys)
{
	poll_until("$key has what is left of the lease again",
		sub { $redis->cmd('PTTL', $key) > 1_800_000 }, 60);
	cmp_ok($redis->cmd('PTTL', $key), '<=', 3_600_000, 'and no more');
}
$one->query_is("SELECT redis_is_held('a'), redis_read_unlock('a')", 't|t', 'it is held');

# What gives back needs no memory.
$one->query("SELECT redis_write_lock('b'), redis_read_lock('b')");
my $owner = owner('b');
$redis->cmd('CONFIG', 'SET', 'maxmemory', 1);
$one->query_is("SELECT redis_write_unlock('b')", 't', 'a downgrade without memory');
is_deeply($redis->hash('b'), { mode => 'read', $owner => 1 }, 'it reads');
$redis->cmd('CONFIG', 'SET', 'maxmemory', 0);
$two->query_is("SELECT redis_try_read_lock('b')", 't', 'others may, too');
$_->query("SELECT redis_read_unlock('b')") foreach $one, $two;

end_test($node, $redis);
