# Copyright (c) 2026, lockredis contributors

# Which Redis Cluster is ours, at its edges: one of a single node gets a second one, and loses it
# again; one is made after its first node was asked; a reload that says whom it means after somebody was refused
# changes another setting, too; and a server starts while most nodes that the settings name are
# silent.

use IO::Socket::INET;
use LockRedis::RedisCluster;
use LockRedis::Test;

my $ours = LockRedis::RedisCluster->new(masters => 1, replicas => 0);
my $spare = LockRedis::RedisCluster->new(masters => 1, replicas => 0,
	config => { 'cluster-allow-replica-migration' => 'no' });
my ($first) = $ours->nodes;
my ($second) = $spare->nodes;
my $node = LockRedis::Node->create('main', url => $ours->url);

sub wait_for_masters ($name, @masters)
{
	my $want = join ' ', sort map { $_->address } @masters;

	return is(poll_until($name, sub {
		($node->value(q{
			SELECT string_agg(address, ' ' ORDER BY address COLLATE "C") FROM redis_lock_status
			 WHERE role = 'master' AND state = 'up' AND in_use}) // '') eq $want }), 1, $name);
}

# Who is connected already does not ask again who is there.
sub serves ($name)
{
	return is(poll_until($name, sub {
		my $session = $node->session;
		my $got = $session->query("SELECT redis_try_lock('k') AND redis_unlock('k')")->value // '';
		$session->quit;
		return $got eq 't' }), 1, $name);
}

sub reset_node ($at)
{
	$at->cmd('FLUSHALL');
	$at->cmd('CLUSTER', 'RESET', 'HARD');
	delete $at->{id};
	return;
}

# ---- a cluster of one node grows

wait_for_masters('one master', $first);
serves('it serves');
reset_node($second);
$second->cmd('CLUSTER', 'SET-CONFIG-EPOCH', 9);
$first->cmd('CLUSTER', 'MEET', $second->host, $second->public_port,
	$second->{config}{'cluster-port'});
poll_until('both to know each other',
	sub { !grep { $_->known_nodes != 2 } $first, $second });
foreach (1 .. 2)
{
	my $asked = $ours->calls('cluster|nodes');
	poll_until('it to be asked', sub { $ours->calls('cluster|nodes') >= $asked + 3 });
}
my $slot = $ours->slot('k');
$second->cmd('CLUSTER', 'SETSLOT', $slot, 'IMPORTING', $first->id);
$first->cmd('CLUSTER', 'SETSLOT', $slot, 'MIGRATING', $second->id);
$_->cmd('CLUSTER', 'SETSLOT', $slot, 'NODE', $second->id) foreach $second, $first;
wait_for_masters('two masters', $first, $second);
serves('the second one serves');
is($second->calls('evalsha', 'eval') > 0, 1, 'it does');
ok(!$node->logged(qr/another Redis Cluster/), 'nobody is refused');

# ---- one that was reset softly, is alone, and has been given all slots

$first->cmd('FLUSHALL');
$first->cmd('CLUSTER', 'RESET', 'SOFT');
$first->cmd('CLUSTER', 'ADDSLOTSRANGE', 0, 16383);
$node->wait_until_logged(qr/belongs to another Redis Cluster/);
$first->cmd('CLUSTER', 'MEET', $second->host, $second->public_port,
	$second->{config}{'cluster-port'});
poll_until('it to know what the other has',
	sub { $first->cmd('CLUSTER', 'NODES') =~ / connected $slot$/m });
serves('the other has kept its slot');

# ---- it shrinks to one node while nobody looks, and a slot of that is deleted

kill 'STOP', my $watchdog = $node->watchdog_pid;
$node->log_since_here;
$first->cmd('CLUSTER', 'SETSLOT', $slot, 'IMPORTING', $second->id);
$_->cmd('CLUSTER', 'SETSLOT', $slot, 'NODE', $first->id) foreach $first, $second;
$first->cmd('CLUSTER', 'FORGET', $second->id);
reset_node($second);
$first->cmd('CLUSTER', 'DELSLOTS', $slot + 1);
kill 'CONT', $watchdog;
wait_for_masters('it shrinks to one master', $first);
ok(!$node->logged(qr/another Redis Cluster/), 'nobody is refused');
$first->cmd('CLUSTER', 'ADDSLOTS', $slot + 1);

# ---- after somebody was refused another setting is changed: the nodes of the settings decide

reset_node($first);
$first->cmd('CLUSTER', 'ADDSLOTSRANGE', 0, 16383);
$node->wait_until_logged(qr/belongs to another Redis Cluster/);
$node->set('lockredis.tls_server_name' => 'of_no_use_without_tls');
serves('a reload decides, whatever else it changes');
wait_for_masters('one master again', $first);

# ---- nodes that are connected to and say nothing, before one that answers

my @silent = map { IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 64) or die $! } 1 .. 6;
$node->append_conf('postgresql.conf', "lockredis.url = 'redis-cluster://"
	. join(',', (map { '127.0.0.1:' . $_->sockport } @silent), $first->address) . "'");
$node->restart;
serves('the last one of the nodes in the settings is asked as well');
close $_ foreach @silent;

# ---- a node that is asked before its cluster is made

foreach my $slots ('none', 'its own')
{
	my @single = map { LockRedis::RedisCluster->new(masters => 1, replicas => 0) } 1 .. 2;
	my ($early, $late) = map { ($_->nodes)[0] } @single;

	reset_node($_) foreach $early, $late;
	$early->cmd('CLUSTER', 'SET-CONFIG-EPOCH', 1);
	$late->cmd('CLUSTER', 'SET-CONFIG-EPOCH', 2);
	$early->cmd('CLUSTER', 'ADDSLOTSRANGE', 0, 8191) if $slots eq 'its own';
	$node->log_since_here;
	$node->set('lockredis.url' => $single[0]->url);
	foreach (1 .. 2)
	{
		my $asked = $single[0]->calls('cluster|nodes');
		poll_until('it to be asked', sub { $single[0]->calls('cluster|nodes') >= $asked + 3 });
	}
	$early->cmd('CLUSTER', 'ADDSLOTSRANGE', 0, 8191) if $slots eq 'none';
	$late->cmd('CLUSTER', 'ADDSLOTSRANGE', 8192, 16383);
	$early->cmd('CLUSTER', 'MEET', $late->host, $late->public_port, $late->{config}{'cluster-port'});
	wait_for_masters("slots: $slots: both are found", $early, $late);
	serves("slots: $slots: it serves");
	ok(!$node->logged(qr/another Redis Cluster/), "slots: $slots: nobody is refused");
	$_->stop foreach $early, $late;
}

done_testing();
