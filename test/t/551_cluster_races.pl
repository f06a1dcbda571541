# Copyright (c) 2026, lockredis contributors

# What a master of a Redis Cluster has said that is none any more, forced: a session is
# stopped between the answer of the old master and what it does with it, meanwhile the
# next one takes the slot over and the watchdog finds that out.  What a COMMIT counts, and
# releases, at a node that hangs: once, when it answers again.  All of it with TLS and a
# password.
# Proves G46.

use LockRedis::Ca;
use LockRedis::Debugger;
use LockRedis::RedisCluster;
use LockRedis::Test;

LockRedis::Debugger->need;

my $ca = LockRedis::Ca->new('main');
my $cluster = LockRedis::RedisCluster->new(tls => $ca, password => 'secret');

my $node = LockRedis::Node->create('main', redis => $cluster,
	settings => {
		'lockredis.lease' => '5min',
		'lockredis.password_file' => secret_file('password', 'secret'),
		'lockredis.tls_ca_file' => $ca->file });

like($cluster->url, qr/^rediss-cluster:/, 'encrypted');
$cluster->wait_until_used($node);

my $one = $node->session;
my $two = $node->session;
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

# Granted by a master that dies with it
{
	my $key = $cluster->key_on($old, 'stale');
	my $kept = $cluster->key_on($other, 'kept');
	my $slot = $cluster->slot($key);
	my $replica = $cluster->replica_of($old);
	my $before = $node->lock_stat('failovers');
	my $stop;

	$two->query_is("SELECT redis_try_lock('$kept')", 't', 'held at another master');
	$one->query("SELECT redis_is_locked('$key')");
	# However long that takes, nobody takes the frozen replica's master for dead before.
	$replica->freeze;
	$old->cmd('CLIENT', 'KILL', 'TYPE', 'replica');
	$stop = LockRedis::Debugger->new($one->pid);
	$stop->run_to('lt_grant');
	$one->start("SELECT redis_lock('$key')");
	$stop->wait_for_stop;
	ok((grep { $_ eq $key } $old->all_keys), 'the old master has granted it');
	$old->kill9;
	$replica->thaw;
	$cluster->wait_for_master_but($old, $slot);
	poll_until('the server to know', sub { $node->lock_stat('failovers') > $before });
	ok(!$cluster->cmd('EXISTS', $key), 'the new one has not');
	$stop->let_go;
	is($one->wait(60)->error, undef, 'the session goes on');
	$one->query_is("SELECT redis_is_held('$key')", 't', 'and has it');
	is($cluster->owner_of($key), $one->value("SELECT redis_lock_owner('$key')"),
		'from the new master');
	$two->query_is("SELECT redis_try_lock('$key')", 'f', 'alone');
	$two->query_is("SELECT redis_is_held('$kept')", 't', 'the other one is held as before');
	is($node->lock_stat('losses'), 0, 'and nothing was lost');
	$one->query_is("SELECT redis_unlock('$key')", 't', 'given back');
	$two->query_is("SELECT redis_unlock('$kept')", 't', 'given back');
	$old->start;
	poll_until('it to be a replica', sub { !$old->is_master });
	$cluster->wait_until_steady;
	$cluster->wait_until_used($node);
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

end_test($node, $cluster, keys => qr/^lockredis_tickets:/, clients => qr/session/);
