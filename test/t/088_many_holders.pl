# Copyright (c) 2026, lockredis contributors

# A key that very many have together, readers or permits: it is said how many they are, and
# redis_force_unlock takes it from all of them, unless one has come or gone meanwhile.  Up to 9999
# each of them is looked at, from 10000 on they are counted.
#
# Proves G6.

use LockRedis::Debugger;
use LockRedis::Test;

LockRedis::Debugger->need;

my ($node, $redis, $one, $force) = servers(
	sessions => 2, settings => { 'lockredis.lease' => '1h' });

# So many of other servers have it, as a client elsewhere would write that.
my %others = (
	readers => q{
		redis.call('HSET', KEYS[1], 'mode', 'read')
		for i = ARGV[1], ARGV[2] do
			redis.call('HSET', KEYS[1], 'elsewhere:' .. i, 1)
		end
		redis.call('PEXPIRE', KEYS[1], 3600000)},
	permits => q{
		redis.call('SET', KEYS[1], 7)
		for i = ARGV[1], ARGV[2] do
			redis.call('ZADD', '{' .. KEYS[1] .. '}:timeout', 9007199254740000, 'elsewhere' .. i)
		end});
my %takes = (
	readers => "SELECT redis_read_lock('%s')",
	permits => "SELECT redis_permit_lock('%s')");

foreach my $n (9_998, 9_999, 10_000, 25_000)
{
	foreach my $what (sort keys %others)
	{
		my $key = "$what $n";

		$redis->cmd('EVAL', $others{$what}, 1, $key, 2, $n);
		$one->query(sprintf $takes{$what}, $key);
		$force->query_is("SELECT redis_lock_owner('$key')", "$n $what", $key);
		$force->query_is("SELECT redis_force_unlock('$key')", 't', "$key: taken away");
		$one->query_is("SELECT redis_is_held('$key', '" . ($what eq 'permits' ? 'permit' : 'read') . "')",
			'f', "$key: who had it here has lost it");
		$one->query('SELECT redis_unlock_all()');
		$force->query_is("SELECT redis_force_unlock('$key')", 'f', "$key: nobody has it");
		is($redis->cmd('GET', $key), 6 + $n, "$key: all permits are free") if $what eq 'permits';
	}
}

# Another one comes between the look and the taking away.
foreach my $what (sort keys %others)
{
	my $key = "$what who come";

	$redis->cmd('EVAL', $others{$what}, 1, $key, 1, 12_000);
	my $stop = LockRedis::Debugger->new($force->pid);
	$stop->run_to('ask_run', 'op->kind == STORE_FORCE');
	$force->start("SELECT redis_force_unlock('$key')");
	$stop->wait_for_stop;
	$one->query(sprintf $takes{$what}, $key);
	$stop->let_go;
	is($force->wait->value, 'f', "$key: nothing is taken away");
	$force->query_is("SELECT redis_lock_owner('$key')", "12001 $what", "$key: all have it");
	$one->query('SELECT redis_unlock_all()');
}

$redis->cmd('FLUSHALL');
end_test($node, $redis);
