# Copyright (c) 2026, lockredis contributors

# A Redis Cluster whose masters fail: by command, killed, frozen.  What is held at the
# others goes on and is not in doubt; what is held at the one that failed is asked for
# at the next one, and is lost if that does not have it; who waits goes on waiting.
#
# The replicas in redis_lock_status: a row for each, whose number stays, up while the cluster does
# not say that it has failed, and no master that is missing.
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

$_->quit foreach $one, $two;
nothing_left($node, $cluster, clients => qr/session/);

# ---- replicas in the view: a row for each, whose number stays

sub addresses ($where)
{
	return $node->value(qq{
		SELECT string_agg(address, ' ' ORDER BY address COLLATE "C") FROM redis_lock_status WHERE $where});
}

sub addresses_of { return join ' ', sort map { $_->address } @_; }

sub wait_for ($what, $where, @nodes)
{
	return is(poll_until($what, sub { addresses($where) eq addresses_of(@nodes) }), 1, $what);
}

my @masters = $cluster->masters;
my %is_master = map { $_->id => 1 } @masters;
my @replicas = grep { !$is_master{ $_->id } } $cluster->nodes;

wait_for('the masters are up', q{role = 'master' AND state = 'up' AND in_use}, @masters);
wait_for('the replicas are up', q{role = 'replica' AND state = 'up' AND NOT in_use}, @replicas);
is($node->value('SELECT count(*) FROM redis_lock_status'), 6, 'there are no others');
is($node->value(q{SELECT count(*) FROM redis_lock_status WHERE role = 'replica' AND
	num_nonnulls(round_trip, version, renewal_lag, maxmemory_policy, last_error, since, reason) > 0}),
	0, 'of a replica nothing else is known');

# Each node lists the others in an order of its own.
my $rows = q{SELECT string_agg(node || ' ' || address, ', ' ORDER BY node) FROM redis_lock_status};
my $before = $node->value($rows);
my $asked = $cluster->calls('cluster|nodes');
my $moved = $before;
poll_until('many answers to have come', sub {
	my $now = $node->value($rows);

	$moved = $now if $now ne $before;
	return $cluster->calls('cluster|nodes') >= $asked + 20 });
is($moved, $before, 'the numbers of the rows stay');

# One that has failed
my $gone = $cluster->replica_of($masters[0]);
$cluster->be_patient(0);
$gone->kill9;
wait_for('one is down', q{role = 'replica' AND state = 'down'}, $gone);
wait_for('the others are up', q{role = 'replica' AND state = 'up'},
	grep { $_ != $gone } @replicas);
wait_for('as are the masters', q{role = 'master' AND up}, @masters);
$cluster->be_patient(1);
$gone->start;
wait_for('it is back', q{role = 'replica' AND state = 'up'}, @replicas);

# A master that becomes a replica
my $new = $cluster->fail_over($masters[1]);
wait_for('another master', q{role = 'master' AND up AND in_use},
	$new, grep { $_ != $masters[1] } @masters);
wait_for('another replica', q{role = 'replica' AND up},
	$masters[1], grep { $_ != $new } @replicas);

# Of which nobody tells any more, to another watchdog
my $watchdog = $node->watchdog_pid;
kill 'STOP', $watchdog;
$_->kill9 foreach $cluster->nodes;
kill $_, $watchdog foreach 'TERM', 'CONT';
poll_until('another watchdog', sub { ($node->watchdog_pid // $watchdog) != $watchdog });
wait_for('a replica of which nobody tells is not up', q{role = 'replica' AND state = 'up'});

# A single Redis has those that it tells of
my $single = LockRedis::Redis->new(name => 'single');
$node->set('lockredis.url' => $single->url);
wait_for('no row of the cluster is left', 'true', $single);
done_testing();
