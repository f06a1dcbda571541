# Copyright (c) 2026, lockredis contributors

# A Redis Cluster of three masters: each lock is kept by the node that has its slot,
# with one connection of a session to each node that it needs, and no round trip more
# than with a single Redis; batches over several nodes; waiting; names that cannot be.
#
# Slots that move while locks are held, awaited and given back: no lock is lost, and what is half
# moved is served as far as the cluster serves it.  What a COMMIT counts, and releases, at a node
# that hangs: once, when it answers again.
# Proves G46.

use LockRedis::RedisCluster;
use LockRedis::Test;

my $cluster = LockRedis::RedisCluster->new(replicas => 0);
my $node = LockRedis::Node->create('main', redis => $cluster,
	settings => { 'lockredis.lease' => '30s', 'lockredis.command_timeout' => '60s' });
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
$cluster->cmd('DEL', 'redisson_lock_token:{f}1');

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

# ---- slots that move

my ($from, $to, $third) = @masters;
my $key = $cluster->key_on($from, 'k');
my $slot = $cluster->slot($key);
my ($held, $next) = ("{$key}held", "{$key}next");

# Moved to the end while a lock is held and awaited
$one->query_is("SELECT redis_try_lock('$held')", 't', 'held');
$node->queue_up($held, $two => "SELECT redis_lock('$held')");
$cluster->move_slot($slot, $to);
$one->query_is("SELECT redis_is_held('$held')", 't', 'held after the move');
$one->query_is("SELECT redis_extend('$held', NULL)", 't', 'it is found at the new node');
$one->query_is("SELECT redis_unlock('$held')", 't', 'given back there');
is($two->wait(60)->error, undef, 'who waited has it');
$two->query_is("SELECT redis_unlock('$held')", 't', 'given back');
is_deeply([ $cluster->all_keys ], [], 'nothing is left');

# A session whose map is old finds the node
$cluster->move_slot($slot, $from);
$one->query_is("SELECT redis_try_lock('$next')", 't', 'taken although the slot has moved');
$cluster->move_slot($slot, $to);
$one->query_is("SELECT redis_unlock('$next')", 't', 'given back although it has moved again');
$two->query_is("SELECT redis_is_locked('$next')", 'f', 'nobody has it');

# In the middle of a move: what is there stays there, what is new is at the other node
$one->query_is("SELECT redis_try_lock('$held')", 't', 'held before the move');
$cluster->begin_move($slot, $third);
$one->query_is("SELECT redis_extend('$held', NULL)", 't', 'renewed while its slot is moved');
$two->query_is("SELECT redis_try_lock('$held')", 'f', 'still kept from others');
$two->query_is("SELECT redis_try_lock('$next')", 't', 'a new lock while the slot is moved');
is($third->try_cmd('CLUSTER', 'COUNTKEYSINSLOT', $slot), 1, 'is at the node to come');
$cluster->move_keys($slot);
$one->query_is("SELECT redis_extend('$held', NULL)", 't', 'renewed when it is over there');
$one->query_is("SELECT redis_try_lock('$next')", 'f', 'and the new one is kept from others');
$cluster->end_move($slot);
poll_until('the server to know',
	sub { $node->count_locks("renewals > 0 AND key LIKE '%next'") == 1 });
$one->query_is("SELECT redis_unlock('$held')", 't', 'given back at its end');
$two->query_is("SELECT redis_unlock('$next')", 't', 'the new one, too');
is_deeply([ $cluster->all_keys ], [], 'nothing is left');

# A transaction ends in the middle of a move
$one->query("BEGIN; SELECT redis_xact_lock('$held')");
$cluster->begin_move($slot, $from);
$one->query('COMMIT');
$cluster->move_keys($slot);
$cluster->end_move($slot);
poll_until('it to be given back', sub { !$cluster->all_keys });
is($node->lock_stat('losses'), 0, 'no lock was lost');

# The slot has moved before the session reads that its lock was granted.  What the former node has
# granted is gone soon, and not only when a create without an answer could not run any more.
{
	my ($late, $kept) = ("{$key}late", "{$key}kept");

	$two->query("SET lockredis.lease = '10min'; SELECT redis_lock('$kept')");
	$from->freeze;
	$one->start("SELECT redis_lock('$late')");
	$node->wait_for_event($one, 'Extension');
	$one->freeze;
	$from->thaw;
	poll_until('it to be granted', sub { $from->cmd('EXISTS', $late) });
	$cluster->move_slot($slot, $to);
	poll_until('the server to know',
		sub { $node->count_locks("renewals > 0 AND key = '$kept'") == 1 });
	$one->thaw;
	is($one->wait(60)->error, undef, 'granted by the former node: taken at the present one');
	poll_until('one lock to be left', sub { $node->count_locks("key = '$late'") == 1 }, 20);
	$one->query_is("SELECT redis_unlock('$late')", 't', 'given back');
	$two->query("SELECT redis_unlock('$kept'); RESET lockredis.lease");
	is_deeply([ $cluster->all_keys ], [], 'nothing is left');
}

# To and fro under load
{
	my @sessions = map { $node->session } 1 .. 4;
	my @slots = map { $cluster->slot("load$_") } 1 .. 8;

	$node->safe_psql('postgres', 'CREATE TABLE counter (k int PRIMARY KEY, n int);
		INSERT INTO counter SELECT i, 0 FROM generate_series(1, 8) i');
	$_->start(q{DO $$ BEGIN
		FOR i IN 1 .. 200 LOOP
			PERFORM redis_lock('load' || 1 + i % 8);
			UPDATE counter SET n = n + 1 WHERE k = 1 + i % 8;
			COMMIT;
			PERFORM redis_unlock('load' || 1 + i % 8);
		END LOOP; END $$}) foreach @sessions;
	while (grep { $_->is_running } @sessions)
	{
		my $slot = $slots[ int rand @slots ];
		my @others = grep { $_->id ne $cluster->node_of_slot($slot)->id } $cluster->masters;
		$cluster->move_slot($slot, $others[ int rand @others ]);
	}
	is($_->wait(120)->error, undef, 'no call has failed') foreach @sessions;
	is($node->value('SELECT sum(n) FROM counter'), 800, 'all were counted');
	is($node->lock_stat('losses'), 0, 'and no lock was lost');
	$_->quit foreach @sessions;
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
	# The map may still change after the load: then the answer of a former node does not count.
	poll_until('the others to have counted',
		sub { !grep { ($two->query("SELECT redis_latch_count('$_')")->out // '') ne '4' } @elsewhere });
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
