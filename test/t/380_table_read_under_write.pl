# Copyright (c) 2026, lockredis contributors

# Who reads under his own write lock in table mode goes on reading when the lease of that
# ends: with other readers, and with a new lease.
# Proves G1, G25.

use LockRedis::Test;

my ($node, $one, $two) = LockRedis::Node->create(
	'main', sessions => 2, redis => LockRedis::Table->new, settings => { 'lockredis.lease' => '10min' });

my $watchdog = $node->watchdog_pid;

# The lease of the write lock ends, and nobody gives that back at once.
sub is_read_on
{
	my ($key, $lease) = @_;

	kill 'STOP', $watchdog;
	$two->query("SELECT pg_sleep($lease + 0.5)");
	$two->query("SELECT redis_try_read_lock('$key')");
	kill 'CONT', $watchdog;
	$two->query_is("SELECT redis_try_read_lock('$key', '1min')", 't', "$key: others may read, too");
	$one->query_is("SELECT redis_is_held('$key', 'write'), redis_is_held('$key', 'read')", 'f|t',
		'the lease of the write lock has ended');
	$one->query_is("SELECT redis_extend('$key', '20min', 'read')", 't', 'and it still reads');
	return;
}

$one->in_time("SELECT redis_write_lock('a', '4s'), redis_read_lock('a')");
is_read_on('a', 4);

# A lease that was made longer, before it ended.
$one->query("SELECT redis_write_lock('b', '6s'), redis_read_lock('b', '5s')");
$one->query_is("SELECT redis_extend('b', '10min', 'read')", 't');
is_read_on('b', 6);

$node->stop;
done_testing();
