# Copyright (c) 2026, lockredis contributors

# A Redis Cluster of three masters: each lock is kept by the node that has its slot,
# with one connection of a session to each node that it needs, and no round trip more
# than with a single Redis; batches over several nodes; waiting; names that cannot be.

use LockRedis::RedisCluster;
use LockRedis::Test;

my $cluster = LockRedis::RedisCluster->new(replicas => 0);
my $node = LockRedis::Node->create('main', redis => $cluster, patient => 1);
my @masters = $cluster->masters;

is(scalar @masters, 3, 'three masters');
$cluster->wait_until_used($node);
is($node->value('SELECT count(*) FROM redis_lock_status'), 3, 'a row for each node');

# A lock on each
my ($one, $two) = map { $node->session } 1 .. 2;
my @keys = map { $cluster->key_on($_, 'k') } @masters;

foreach my $n (0 .. 2)
{
	my $key = $keys[$n];

	$one->query_is("SELECT redis_try_lock('$key')", 't', "node $n: taken");
	ok(exists $cluster->hash($key)->{ $cluster->owner_of($key) }, 'it is there');
	$two->query_is("SELECT redis_try_lock('$key')", 'f', 'and keeps others out');
	$one->query_is("SELECT redis_unlock('$key')", 't', 'given back');
	is($cluster->cmd('EXISTS', $key), 0, 'it is gone');
}

# Two round trips a pair, at that node alone
{
	my $before = $cluster->script_calls;
	my @others = map { $_->script_calls } @masters[ 1, 2 ];

	$one->value("SELECT redis_lock('$keys[0]'), redis_unlock('$keys[0]')") foreach 1 .. 10;
	is($cluster->script_calls - $before, 20, 'two commands a pair');
	is_deeply([ map { $_->script_calls } @masters[ 1, 2 ] ],
		\@others, 'nothing at the other nodes');
}
is(scalar(grep { $_->{name} eq 'lockredis-session-' . $one->pid } $cluster->clients),
	3, 'one connection to each node');

# A transaction with locks everywhere, and its end
$one->query("BEGIN; SELECT redis_xact_lock('t' || i) FROM generate_series(1, 60) i");
is(scalar $cluster->all_keys, 60, 'sixty locks of a transaction');
$one->query('COMMIT');
# What is not answered soon the watchdog gives back.
poll_until('all to be given back', sub { !$cluster->all_keys });

$one->query("SELECT redis_lock('s' || i) FROM generate_series(1, 60) i");
$one->query_is('SELECT redis_unlock_all()', 60, 'all at once at session level');
is_deeply([ $cluster->all_keys ], [], 'all are gone');

# Renewed by the watchdog, on all nodes
$one->query("SET lockredis.lease = '@{[ limit(10) ]}s'; SELECT redis_lock('r' || i) FROM generate_series(1, 30) i");
poll_until('each lock to be renewed twice',
	sub { $node->count_locks("key LIKE 'r%' AND renewals >= 2 AND granted") == 30 });
is(scalar $cluster->all_keys, 30, 'they are there');
$one->query('SELECT redis_unlock_all(); RESET lockredis.lease');

# Fencing tokens
cmp_ok($one->value("SELECT redis_fenced_lock('{f}1')"), '>', 0, 'a token');
$one->query("SELECT redis_unlock('{f}1')");

# Somebody elsewhere has it: the shard tells of its release
foreach my $key (@keys)
{
	$cluster->foreign_lock($key);
	$two->start("SELECT redis_lock('$key')");
	$cluster->wait_for_subscribers($key, 1);
	$node->wait_for_waiters($key, 1);
	$cluster->foreign_unlock($key);
	is($two->wait(60)->error, undef, "woken by a message of its node ($key)");
	$two->query("SELECT redis_unlock('$key')");
}

# And we tell others
{
	my $key = $keys[1];
	my $conn = $cluster->node_of($key)->connection;

	$conn->send_command('SSUBSCRIBE', $cluster->channel($key));
	$conn->read_reply;
	$one->value("SELECT redis_lock('$key'), redis_unlock('$key')");
	is_deeply($conn->read_reply, [ 'smessage', $cluster->channel($key), '0' ],
		'a release is told to the shard');
	$conn->disconnect;
}

# Names whose other keys would be elsewhere
foreach my $name ('x}y', 'x{}y', 'x{y')
{
	$one->query_fails("SELECT redis_try_lock('$name')", '22023', qr/Redis Cluster/, $name);
	$one->query_is("SELECT redis_is_locked('$name')", 'f', 'may be asked about');
}
$one->query_is("SELECT redis_try_lock('x{y}z')", 't', 'a tag is good');
$one->query("SELECT redis_unlock('x{y}z')");

end_test($node, $cluster, keys => qr/^redisson_lock_token:/, clients => qr/session/);
