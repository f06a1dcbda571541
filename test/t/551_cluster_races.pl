# Copyright (c) 2026, lockredis contributors

# A Redis Cluster with TLS and a password: locks at each node, and in a slot that is moved.  What
# a COMMIT counts, and releases, at a node that hangs: once, when it answers again.  (What a
# master has granted that is none any more is the simulator's: its mutant master_grant.)
# Proves G46.

use LockRedis::Ca;
use LockRedis::RedisCluster;
use LockRedis::Test;

my $ca = LockRedis::Ca->new('main');
my $cluster = LockRedis::RedisCluster->new(tls => $ca, password => 'secret');

my $node = LockRedis::Node->create('main', redis => $cluster,
	settings => {
		'lockredis.lease' => '5min',
		'lockredis.password_file' => secret_file('password', 'secret'),
		'lockredis.tls_ca_file' => $ca->file });

like($cluster->url, qr/^rediss-cluster:/, 'encrypted');
$cluster->wait_until_used($node);

my ($one, $two) = map { $node->session } 1 .. 2;
my ($old, $other) = $cluster->masters;

# With TLS, at each node; a slot that is moved
foreach my $master ($cluster->masters)
{
	my $key = $cluster->key_on($master, 'tls');

	$one->query_is("SELECT redis_try_lock('$key')", 't', 'taken');
	ok(!(grep { $_->{laddr} !~ /:@{[ $master->tls_port ]}$/ } $master->clients),
		'nobody came to the plain port');
	$node->queue_up($key, $two => "SELECT redis_lock('$key')");
	$one->query_is("SELECT redis_unlock('$key')", 't', 'given back');
	is($two->wait(60)->error, undef, 'who waited has it');
	$two->query_is("SELECT redis_unlock('$key')", 't', 'given back');
}
{
	my $key = $cluster->key_on($other, 'move');

	$one->query_is("SELECT redis_try_lock('$key')", 't', 'taken');
	$cluster->move_slot($cluster->slot($key), $old);
	$one->query_is("SELECT redis_unlock('$key')", 't', 'given back where it was moved to');
}

# Counted, and released, at the end of a transaction by a node that hangs
{
	my ($slow, @rest) = $cluster->masters;
	my ($there, @elsewhere) = map { $cluster->key_on($_, 'sum') } $slow, @rest;
	my @latches = ($there, @elsewhere);
	my $held = $cluster->key_on($slow, 'held');

	$one->query("SELECT redis_latch_init('$_', 5)") foreach @latches;
	$one->query("BEGIN; SELECT redis_xact_lock('$held')");
	$one->query("SELECT redis_latch_xact_count_down('$_')") foreach @latches;
	$slow->freeze;
	is($one->query('COMMIT')->error, undef, 'the commit does not wait for a node that hangs');
	poll_until('the others to have counted',
		sub { !grep { $two->value("SELECT redis_latch_count('$_')") != 4 } @elsewhere });
	is($node->count_locks("key IN ('$there', '$held')"), 2, 'the rest is left to be done');
	$slow->thaw;
	poll_until('nothing to be left', sub { $node->count_locks == 0 });
	is($two->value("SELECT redis_latch_count('$there')"), 4, 'counted once');
	$two->query_is("SELECT redis_is_locked('$held')", 'f', 'and released');
	$cluster->cmd('DEL', $_) foreach @latches;
}

# A lock that its node has released is free here, too, while another node of the batch hangs
{
	my ($slow, $quick) = $cluster->masters;
	my ($there, $here) = map { $cluster->key_on($_, 'both') } $slow, $quick;

	$node->set('lockredis.command_timeout' => '2min');
	$one->query("SELECT redis_multi_lock(ARRAY['$there', '$here'])");
	$slow->freeze;
	$one->start("SELECT redis_multi_unlock(ARRAY['$there', '$here'])");
	poll_until('one node to have released its lock', sub { !$quick->cmd('EXISTS', $here) });
	$two->query_is("SELECT redis_try_lock('$here', '30s')", 't', 'it is free');
	ok($one->is_running, 'while the other one hangs');
	$slow->thaw;
	is($one->wait(60)->out, 't', 'both were released');
	$two->query_is("SELECT redis_unlock('$here')", 't', 'given back');
}

end_test($node, $cluster, keys => qr/^lockredis_tickets:/, clients => qr/session/);
