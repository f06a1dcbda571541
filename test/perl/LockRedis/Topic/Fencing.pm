# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::Topic::Fencing - counters and the fence table

=head1 DESCRIPTION

What the tests 110_fence, 114_fence_savepoints and 115_fence_table have in common.
start_servers sets the exported variables.

=cut

package LockRedis::Topic::Fencing;

use LockRedis::Pragmas;

use Exporter 'import';
use LockRedis::Test;

our @EXPORT = qw($redis $node $one $two $counters start_servers counter
  set_counter row);

our ($redis, $node, $one, $two, $counters);

sub start_servers
{
	$redis = lock_store;
	$node = LockRedis::Node->create(
		'main',
		redis => $redis,
		settings => { wal_level => 'replica', max_wal_senders => 4 });

	$node->wait_for_up;

	$one = $node->session;
	$two = $node->session;

	# Counters stay in Redis, as Redisson's do.
	$counters = qr/^redisson_lock_token:/;
	return;
}

sub counter ($key) { return $redis->token($key); }

sub set_counter ($key, $value)
{
	$redis->set_token($key, $value);
	return;
}

# As committed.
sub row ($key, $dbname = undef)
{
	return $node->value("SELECT token FROM redis_fences WHERE key = '$key'",
		dbname => $dbname);
}

1;
