# Copyright (c) 2026, lockredis contributors

# A server whose map of a Redis Cluster is old for longer than it ever would be: what the
# nodes send elsewhere is found there, by the name that they announce too, and so is a node
# that has no slots yet.  One node is not blamed for another, no connection is left dead,
# and nobody asks the nodes of a cluster that is not the one of the settings, nor starts
# with settings that do not fit each other.

use LockRedis::RedisCluster;
use LockRedis::Test;

my $cluster = LockRedis::RedisCluster->new(replicas => 0, spare => 1, password => 'secret',
	config => { 'cluster-require-full-coverage' => 'no' });
my $other = LockRedis::RedisCluster->new(masters => 1, replicas => 0, password => 'secret');
my ($from, $to) = $cluster->masters;
my %has_slots = map { $_->id => 1 } $cluster->masters;
my ($spare) = grep { !$has_slots{ $_->id } } $cluster->nodes;

# Each cluster has a user of its own; the nodes of one are called by a name.
sub allow ($at, $user, @more)
{
	return $at->cmd('ACL', 'SETUSER', $user, 'on', ">$user", '~*', '&*', '+@all', @more);
}
allow($_, 'few') foreach $cluster->nodes;
allow($_, 'another') foreach $other->nodes;
foreach ($cluster->nodes)
{
	$_->cmd('CONFIG', 'SET', 'cluster-announce-hostname', 'localhost');
	$_->cmd('CONFIG', 'SET', 'cluster-preferred-endpoint-type', 'hostname');
}
poll_until('all to know the names of all', sub {
	!grep { (() = $_->cmd('CLUSTER', 'NODES') =~ /\@\d+,localhost\b/g) < 4 } $cluster->nodes });

my $node = LockRedis::Node->create('main', url => $cluster->url(user => 'few'),
	settings => { 'lockredis.password_file' => secret_file('few', 'few'),
		'lockredis.lease' => limit(60) . 's' });

sub state_of ($at)
{
	return $node->value(q{SELECT state FROM redis_lock_status WHERE address LIKE '%:} . $at->port . q{'});
}

# The connections of the watchdog at a node, but for those of its listener and scouts
sub watchdogs_at ($at) { return grep { $_->{name} =~ /watchdog/ } $at->clients; }

sub close_watchdogs_at ($at)
{
	$at->cmd('CLIENT', 'KILL', 'ID', $_->{id}) foreach watchdogs_at($at);
	return;
}

$node->wait_for_masters(3);
my $one = $node->session;

# To a node that has no slots, by its name
{
	my $key = $cluster->key_on($from, 's');
	my $slot = $cluster->slot($key);

	$cluster->begin_move($slot, $spare);
	$one->query_is("SELECT redis_try_lock('$key')", 't', 'a new lock while its slot is moved');
	is($spare->cmd('CLUSTER', 'COUNTKEYSINSLOT', $slot), 1, 'it is at a node without slots');
	$one->query_is("SELECT redis_unlock('$key')", 't', 'and is given back there');
	is($spare->cmd('CLUSTER', 'COUNTKEYSINSLOT', $slot), 0, 'it is gone');
	$cluster->end_move($slot);
	$node->wait_for_masters(4);
}

# From here on the map stays as it is.
allow($_, 'few', '-cluster|nodes') foreach $cluster->nodes;

# What is renewed goes where the nodes say
my $moved = $cluster->key_on($from, 'm');
$one->query_is("SELECT redis_try_lock('$moved')", 't', 'held before its slot is moved');
$cluster->move_slot($cluster->slot($moved), $to);
close_watchdogs_at($from);
poll_until('it to be renewed where it is',
	sub { $node->value("SELECT renewals FROM redis_locks WHERE key = '$moved'") > 0 });
$one->query_is("SELECT redis_extend('$moved', NULL)", 't', 'its session finds it, too');
poll_until('the watchdog to ask that node by two connections', sub { watchdogs_at($to) == 2 });

# A connection that is not where its place is ends while that is away
$from->kill9;
poll_until('its node to be down', sub { state_of($from) eq 'down' });
close_watchdogs_at($to);
poll_until('no connection to be left dead', sub { !dead_sockets($node->watchdog_pid) });
is(state_of($from), 'down', 'while its node is away');
$from->start;
allow($from, 'few', '-cluster|nodes');
$node->wait_for_masters(4);

# A node that sends on to one that is away is up itself
{
	my $moves = sub { return ($from->info('errorstats')->{errorstat_MOVED} || '') =~ /count=(\d+)/ ? $1 : 0 };

	$to->kill9;
	poll_until('that to be down', sub { state_of($to) eq 'down' });
	my $before = $moves->();
	poll_until('the other one to send on to it', sub { $moves->() >= $before + 3 });
	is(state_of($from), 'up', 'who sends on is up');
	$to->start;
	allow($to, 'few');
	$node->wait_for_loss($moved);
	$one->query('SELECT redis_unlock_all()');
}
allow($_, 'few') foreach $cluster->nodes;
$node->wait_for_masters(4);

# A session that has read other settings before the watchdog asks nobody by the former map
{
	my $watchdog = $node->watchdog_pid;

	$_->cmd('ACL', 'LOG', 'RESET') foreach $cluster->nodes;
	kill 'STOP', $watchdog;
	$node->set('lockredis.url' => $other->url(user => 'another'),
		'lockredis.password_file' => secret_file('another', 'another'),
		'lockredis.connect_timeout' => '500ms', 'lockredis.command_timeout' => '500ms');
	$one->query_fails("SELECT redis_try_lock('p')", '58030', qr/not known at present/,
		'it is not known yet where to ask');
	kill 'CONT', $watchdog;
	is_deeply([ map { @{ $_->cmd('ACL', 'LOG') } } $cluster->nodes ], [],
		'nobody has shown a password to a node of the former cluster');
	$node->set('lockredis.connect_timeout' => '2s', 'lockredis.command_timeout' => '3s');
	$node->wait_for_masters(1);
	$one->query_is("SELECT redis_try_lock('p')", 't', 'then it is taken there');
	is($other->cmd('EXISTS', 'p'), 1, 'at the other cluster');
	$one->query_is("SELECT redis_unlock('p')", 't', 'and given back');
}
$one->quit;
nothing_left($node, $other, clients => qr/session/);

# Settings that do not fit
$node->stop;
$node->append_conf('postgresql.conf', "lockredis.mode = 'fallback'");
is($node->start(fail_ok => 1), 0, 'a server with a cluster in mode fallback does not start');
like($node->log_text, qr/FATAL: .*"lockredis.url"\n.*not offered in mode fallback/, 'it says why');
done_testing();

# Sockets of a process that the other side has closed, and it has not
sub dead_sockets ($pid)
{
	my %closed;

	foreach my $line (split /\n/, PostgreSQL::Test::Utils::slurp_file('/proc/net/tcp'))
	{
		my @field = split ' ', $line;
		$closed{ $field[9] } = 1 if @field > 9 && $field[3] eq '08';
	}
	return grep { (readlink($_) || '') =~ /^socket:\[(\d+)\]/ && $closed{$1} } glob "/proc/$pid/fd/*";
}
