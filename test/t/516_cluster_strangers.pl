# Copyright (c) 2026, lockredis contributors

# Nodes of another Redis Cluster where ours was: seeds that belong to two of them, a node
# that was reset and has met others while nobody looked, all nodes reset and set up anew.
# Nobody follows a cluster of which no node is known, however long ours is silent; the
# server log says who is refused, calls fail, and a reload decides.
# Proves G46.

use LockRedis::RedisCluster;
use LockRedis::Test;

my $ours = LockRedis::RedisCluster->new(masters => 2, replicas => 0, spare => 1);
my $theirs = LockRedis::RedisCluster->new(masters => 1, replicas => 0);
my ($first, $second, $spare) = $ours->nodes;
my ($stranger) = $theirs->nodes;

sub url_of { return 'redis-cluster://' . join ',', map { $_->address } @_; }

my $node = LockRedis::Node->create('main', url => url_of($first, $stranger));
my $one = $node->session;

sub is_refused ($key, $name)
{
	my $result = $one->query("SELECT redis_try_lock('$key')");

	like($result->sqlstate // 'none', qr/^58/, "$name: refused");
	return $result;
}

# ---- at the start: seeds of two clusters

$node->wait_until_logged(qr/WARNING:  lockredis: the nodes in "lockredis.url" belong to different clusters/);
like($node->log_text, qr/different clusters\n.*DETAIL: .*\Q$_\E/, "it names $_")
  foreach map { $_->address } $first, $stranger;
like(is_refused('k', 'seeds of two clusters')->{raw}, qr/different clusters/, 'and told why');
is(join(' ', map { $_->all_keys } $ours->nodes, $theirs->nodes), '', 'nothing is anywhere');

$node->set('lockredis.url' => url_of($first, $second, $spare));
$node->wait_for_masters(2);
$one->query_is("SELECT redis_try_lock('k'), redis_unlock('k')", 't|t', 'seeds of one cluster');

# ---- one that was reset and has met others, with its id, while nobody looked

{
	my $watchdog = $node->watchdog_pid;

	$node->log_since_here;
	kill 'STOP', $watchdog;
	$_->cmd('CLUSTER', 'FORGET', $spare->id) foreach $first, $second;
	$spare->cmd('CLUSTER', 'RESET', 'SOFT');
	$stranger->cmd('CLUSTER', 'MEET', $spare->host, $spare->public_port,
		$spare->{config}{'cluster-port'});
	poll_until('it to be one of the others',
		sub { !grep { $_->known_nodes != 2 } $stranger, $spare });
	poll_until('it to know of their slots', sub {
		(grep { $_->[2][2] eq $stranger->id } @{ $spare->cmd('CLUSTER', 'SLOTS') }) > 0 });
	$_->kill9 foreach $first, $second;
	kill 'CONT', $watchdog;
	my $address = $spare->address;
	$node->wait_until_logged(qr/WARNING:  lockredis: the node at \Q$address\E belongs to another Redis Cluster/);
	is_refused('k', 'a cluster that is not ours');
	is(join(' ', $theirs->all_keys), '', 'nothing is there');

	# The settings still name it, and nobody else who answers.
	$node->reload;
	$node->wait_for_masters(1);
	$one->query_is("SELECT redis_try_lock('k')", 't', 'a reload decides');
	is($stranger->cmd('EXISTS', 'k'), 1, 'it is where the settings lead to');
	$one->query_is("SELECT redis_unlock('k')", 't', 'and given back');
}

# ---- all nodes are reset and set up anew: the same addresses, other ids

{
	$_->start foreach $first, $second;
	poll_until('our cluster to be there', sub {
		!grep { $_->cmd('CLUSTER', 'INFO') !~ /cluster_state:ok/ } $first, $second });
	$node->set('lockredis.url' => url_of($first, $second));
	$node->wait_for_masters(2);
	my $key = $ours->key_on($first, 'h');

	$one->query_is("SELECT redis_try_lock('$key')", 't', 'held');
	$node->log_since_here;
	foreach my $at ($first, $second)
	{
		$at->cmd('FLUSHALL');
		$at->cmd('CLUSTER', 'RESET', 'HARD');
		delete $at->{id};
	}
	$node->wait_for_loss($key);
	$one->query('SELECT redis_unlock_all()');
	$second->cmd('CLUSTER', 'SET-CONFIG-EPOCH', 7);
	$first->cmd('CLUSTER', 'MEET', $second->host, $second->public_port, $second->{config}{'cluster-port'});
	$first->cmd('CLUSTER', 'ADDSLOTSRANGE', 0, 8191);
	$second->cmd('CLUSTER', 'ADDSLOTSRANGE', 8192, 16383);
	poll_until('the new cluster to be there', sub {
		!grep { $_->cmd('CLUSTER', 'INFO') !~ /cluster_state:ok/ } $first, $second });
	$node->wait_until_logged(qr/belongs to another Redis Cluster/);
	$node->session->query('SELECT 1');
	my $other = $node->session;
	my $result = $other->query("SELECT redis_try_lock('$key')");
	like($result->{raw}, qr/another node than/, 'who connects by the old map is told so');
	is(join(' ', map { $_->all_keys } $first, $second), '', 'and nothing is taken there');
	$other->quit;
	$node->reload;
	$node->wait_for_masters(2);
	$one->query_is("SELECT redis_try_lock('$key'), redis_unlock('$key')", 't|t', 'a reload decides');
}

$one->quit;
poll_until('nobody to be connected', sub {
	!grep { $_->{name} =~ /session/ } map { $_->clients } $first, $second, $stranger });
is(join(' ', map { $_->all_keys } $ours->nodes, $theirs->nodes), '', 'nothing is left');
done_testing();
