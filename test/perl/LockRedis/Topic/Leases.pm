# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::Topic::Leases - sessions with leases of some seconds

=head1 DESCRIPTION

What the tests 011_lease and 014_lease_end have in common.
start_servers, which is passed the lease, sets the exported variables.

=cut

package LockRedis::Topic::Leases;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use LockRedis::Test;

our @EXPORT = qw($redis $node $one $two $viewer start_servers row);

our ($redis, $node, $one, $two, $viewer);

sub start_servers
{
	my ($lease) = @_;

	$redis = lock_store;
	$node = LockRedis::Node->create(
		'main',
		redis => $redis,
		settings => { 'lockredis.lease' => $lease });
	$one = $node->session;
	$two = $node->session;
	$viewer = $node->session;

	$node->wait_for_up;
	return;
}

# Columns of a key's rows in redis_locks
sub row
{
	my ($key, $columns) = @_;

	return $viewer->query("SELECT $columns FROM redis_locks WHERE key = '$key'")
	  ->out;
}

1;
