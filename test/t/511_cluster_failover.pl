# Copyright (c) 2026, lockredis contributors

# A Redis Cluster whose masters fail: by command, killed, frozen.  What is held at the
# others goes on and is not in doubt; what is held at the one that failed is asked for
# at the next one, and is lost if that does not have it; who waits goes on waiting.
# Proves G46.

use LockRedis::RedisCluster;
use LockRedis::Test;

my $cluster = LockRedis::RedisCluster->new;
my $node = LockRedis::Node->create('main', redis => $cluster,
	settings => { 'lockredis.lease' => limit(60) . 's' });

$cluster->wait_until_used($node);

my ($one, $two) = map { $node->session } 1 .. 2;

# A lock of each shard
sub take_everywhere ($prefix)
{
	my @keys = map { $cluster->key_on($_, $prefix) } $cluster->masters;

	$one->query("SELECT redis_lock('$_')") foreach @keys;
	return @keys;
}

# By command: no data is lost
{
	my @keys = take_everywhere('a');
	my $old = $cluster->node_of($keys[0]);
	my $before = $node->lock_stat('failovers');
	my $new = $cluster->fail_over($old);

	poll_until('the server to know', sub { $node->lock_stat('failovers') > $before });
	poll_until('the new master to be asked',
		sub { $node->value("SELECT renewals FROM redis_locks WHERE key = '$keys[0]'") > 0 });
	foreach my $key (@keys)
	{
		$one->query_is("SELECT redis_is_held('$key')", 't', 'still held');
		$two->query_is("SELECT redis_try_lock('$key')", 'f', 'and by nobody else');
		is($cluster->cmd('EXISTS', $key), 1, 'it is there');
	}
	$one->query_is('SELECT redis_unlock_all()', 3, 'given back');
	is_deeply([ $cluster->all_keys ], [], 'where they are');
	$cluster->wait_until_steady;
}

# Killed, with what its replica does not have
{
	my @keys = take_everywhere('b');
	my $old = $cluster->node_of($keys[0]);
	my $slot = $cluster->slot($keys[0]);
	my $lost = $cluster->key_on($old, 'lost');
	my $replica = $cluster->replica_of($old);

	poll_until('the replica to have it', sub { grep { $_ eq $keys[0] } $replica->all_keys });
	$replica->freeze;
	$old->cmd('CLIENT', 'KILL', 'TYPE', 'replica');
	$one->query_is("SELECT redis_try_lock('$lost')", 't', 'taken at a master without its replica');
	$old->kill9;
	$replica->thaw;
	# The others serve meanwhile
	$two->query_is("SELECT redis_try_lock('$keys[1]')", 'f', 'another shard answers');

	$cluster->wait_for_master_but($old, $slot);
	$node->wait_for_loss($lost);
	$one->query_is("SELECT redis_is_held('$lost')", 'f', 'what the replica did not have is lost');
	$one->query_is("SELECT redis_is_held('$_')", 't', 'the rest is held') foreach @keys;
	$two->query_is("SELECT redis_try_lock('$lost')", 't', 'somebody else may have it');
	$two->query("SELECT redis_unlock('$lost')");
	$one->query('SELECT redis_unlock_all()');
	poll_until('nothing to be there', sub { !$cluster->all_keys });
	$old->start;
	$cluster->wait_until_steady;
	poll_until('it to be a replica', sub { !$old->is_master });
	$cluster->wait_until_used($node);
}

# Frozen: leases of the other shards are renewed as ever.  The cluster bears with it until
# they were: while it has no master for a slot, it refuses all of them.
{
	my ($slow, @rest) = $cluster->masters;
	my $there = $cluster->key_on($slow, 'c');
	my @elsewhere = map { $cluster->key_on($_, 'c') } @rest;

	$one->query("SET lockredis.lease = '@{[ limit(120) ]}s'");
	$two->query("SET lockredis.lease = '@{[ limit(10) ]}s'");
	$two->query("SELECT redis_lock('$_')") foreach @elsewhere;
	$one->query("SELECT redis_lock('$there')");
	my $slot = $cluster->slot($there);
	$slow->freeze;
	$one->start("SELECT redis_extend('$there', '@{[ limit(180) ]}s')");
	poll_until('the others to be renewed three times',
		sub { $node->count_locks("key = ANY ('{@{[ join ',', @elsewhere ]}}') AND renewals >= 3 AND granted") == 2 });
	$two->query_is("SELECT redis_is_held('$_')", 't', 'held at another shard') foreach @elsewhere;
	$cluster->wait_for_master_but($slow, $slot);
	$one->wait(60);
	poll_until('the next master to be asked',
		sub { $node->count_locks("key = '$there' AND granted AND renewals > 0") == 1 });
	$one->query_is("SELECT redis_is_held('$there')", 't', 'held at the next master');
	$slow->thaw;
	$one->query('SELECT redis_unlock_all(); RESET lockredis.lease');
	$two->query('SELECT redis_unlock_all(); RESET lockredis.lease');
	poll_until('it to be a replica', sub { !$slow->is_master });
	$cluster->wait_until_steady;
	$cluster->wait_until_used($node);
}

# A call that waits goes on at the next master
{
	my ($old) = $cluster->masters;
	my $key = $cluster->key_on($old, 'd');

	$one->query("SELECT redis_lock('$key')");
	$node->queue_up($key, $two => "SELECT redis_lock('$key')");
	$cluster->fail_over($old);
	$one->query_is("SELECT redis_unlock('$key')", 't', 'given back at the new master');
	is($two->wait(60)->error, undef, 'who waited has it');
	$two->query_is("SELECT redis_unlock('$key')", 't', 'given back');
}

end_test($node, $cluster, clients => qr/session/);
