# Copyright (c) 2026, lockredis contributors

# What is to be counted in a Redis Cluster while its slot moves: the watchdog has asked the
# old node, which has not read that yet, and asks the new one, too.  The first request is
# sent on and counts; the second arrives when that was answered, and does not count again.
# Proves G43.

use LockRedis::RedisCluster;
use LockRedis::Test;

# Each node says that it is where its proxy is.
my $cluster = LockRedis::RedisCluster->new(masters => 2, replicas => 0);
my ($old, $new) = $cluster->masters;
my ($old_proxy, $new_proxy) = map { LockRedis::Proxy->new($_) } $old, $new;

$old->cmd('CONFIG', 'SET', 'cluster-announce-port', $old_proxy->port);
$new->cmd('CONFIG', 'SET', 'cluster-announce-port', $new_proxy->port);
foreach my $port (map { $_->port } $old_proxy, $new_proxy)
{
	poll_until('all to know of the proxy',
		sub { !grep { $_->cmd('CLUSTER', 'NODES') !~ /:$port\@/ } $old, $new });
}

my @proxies = ($old_proxy, $new_proxy);
sub url { return 'redis-cluster://' . join ',', map { $_->address } @proxies }

my $node = LockRedis::Node->create('main', url => url(),
	settings => { 'lockredis.command_timeout' => '60s' });

foreach (
	[ 'semaphore', 2, 3, 'redis_semaphore_release' ],
	[ 'latch', 4, 3, 'redis_latch_count_down' ])
{
	my ($kind, $before, $after, $function) = @$_;

	$cluster->wait_until_used($node);

	my $key = $cluster->key_on($old, $kind);
	my $slot = $cluster->slot($key);
	my %request = (match => '$' . length($key) . "\r\n$key\r\n", action => 'hold');
	my $session = $node->session;

	$cluster->cmd('SET', $key, $before);

	# The session cannot connect, so the watchdog's request is the first one.
	my $first = $old_proxy->rule(%request);
	my $second = $new_proxy->rule(%request);
	$old_proxy->mode('refuse');
	$session->query_warns("SELECT $function('$key')", $kind eq 'latch' ? 'NULL' : '', '58000',
		qr/Connection refused/, "$kind: left to the watchdog");
	$old_proxy->mode('pass');
	$old_proxy->wait_for_rule($first);

	$cluster->move_slot($slot, $new);
	$new_proxy->wait_for_rule($second);

	$old_proxy->let_go;
	poll_until('it to be counted',
		sub { $node->count_locks("key = '$key'") == 0 });
	is($cluster->cmd('GET', $key), $after, "$kind: counted by the first request");

	# What waits for the next request, as the end of a ticket does, is sent before a connection
	# is closed; a node closes one when it has read what was sent over it.
	my %of_before = map { $_->{id} => 1 } grep { $_->{name} =~ /watchdog/ } $new->clients;
	@proxies = reverse @proxies;
	$node->set('lockredis.url' => url());
	poll_until('all but the second to have been read',
		sub { 1 == grep { $of_before{ $_->{id} } } $new->clients });
	$new_proxy->let_go;
	poll_until('the second to have been read, too',
		sub { !grep { $of_before{ $_->{id} } } $new->clients });
	is($cluster->cmd('GET', $key), $after, "$kind: not by the second, too");
	$cluster->cmd('DEL', $key);
}

end_test($node, $cluster, keys => qr/^lockredis_tickets:/, clients => qr/session/);
