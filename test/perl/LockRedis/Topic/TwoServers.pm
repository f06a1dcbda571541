# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::Topic::TwoServers - two servers of one store, and three sessions
whose leases are not renewed meanwhile

=head1 DESCRIPTION

What the tests 010_reentrant and 013_keys have in common.
start_servers sets the exported variables.

=cut

package LockRedis::Topic::TwoServers;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use LockRedis::Test;

our @EXPORT = qw($owner_like $redis $node $other_node %calm $one $two $away
  start_servers);

our ($owner_like, $redis, $node, $other_node, %calm, $one, $two, $away);

sub start_servers
{
	$owner_like = qr/^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}:[0-9]+$/;

	$redis = lock_store;
	$node = LockRedis::Node->create('main', redis => $redis);
	$other_node = $node->another('other', redis => $redis);

	# Nothing is renewed in the middle of counting.
	%calm = ('lockredis.lease' => '10min');
	$one = $node->session(settings => {%calm});
	$two = $node->session(settings => {%calm});
	$away = $other_node->session(settings => {%calm});

	$node->wait_for_up;
	$other_node->wait_for_up;
	return;
}

1;
