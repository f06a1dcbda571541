# Copyright (c) 2026, lockredis contributors

# A slot of a Redis Cluster that is half moved for longer than leases are.  What the renewal
# of a permit needs is not all there (it never is), so it cannot be renewed: it is lost at
# the end of its lease, and told.  It holds up nobody else, though the time-outs are longer
# than all leases: other locks of that slot and of that master are renewed all the time.
# Whoever waits does so, without an error, and has it when the slot has moved; for the
# permit nobody has to wake him.
#
# Before that: who waits for a lock in a slot that is on its way to another node, and that has
# been moved already.  Its release is published there, where nobody can subscribe yet.  So he asks
# again and again, whether he has begun to wait before that or after it.
#
# Then a master gets a slot that had none, and gives it away again.
# Proves G46.

use LockRedis::RedisCluster;
use LockRedis::Test;
use LockRedis::Topic::Kinds;

my $cluster = LockRedis::RedisCluster->new(replicas => 0, spare => 1,
	config => { 'cluster-allow-replica-migration' => 'no' });
my %patience = map { ("lockredis.$_" => '60s') } qw(connect_timeout command_timeout);
my $near = LockRedis::Node->create('near', redis => $cluster, settings => \%patience);
my $far = LockRedis::Node->create('far', redis => $cluster, settings => \%patience);

sub masters_shown ($n)
{
	$_->wait_for_masters($n) foreach $near, $far;
	return;
}
masters_shown(3);
my ($from, $to) = $cluster->masters;

# ---- on its way, and there already

# Given back by a client that goes where it is sent to, with ASKING
sub give_back_there ($key)
{
	my $connection = $to->connection;

	foreach my $command ([ 'DEL', $key ], [ 'SPUBLISH', $to->channel($key), '0' ])
	{
		$connection->call('ASKING');
		$connection->call(@$command);
	}
	$connection->disconnect;
	return;
}

{
	my ($early, $late) = map { $near->session(settings => { 'lockredis.lease' => '10min' }) } 1 .. 2;
	my $tag = $cluster->key_on($from, 'way-');
	my $slot = $cluster->slot($tag);
	my ($before, $after) = map { "{$tag}$_" } 'before', 'after';

	$cluster->foreign_lock($_, ms => 3_600_000) foreach $before, $after;
	$near->queue_up($before, $early => "SELECT redis_try_lock('$before', '1 hour')");
	$cluster->wait_for_subscribers($before, 1);
	$cluster->begin_move($slot, $to);
	$cluster->move_keys($slot);
	$near->queue_up($after, $late => "SELECT redis_try_lock('$after', '1 hour')");
	poll_until('both to be where the slot goes to', sub { $to->cmd('CLUSTER', 'COUNTKEYSINSLOT', $slot) == 2 });

	give_back_there($after);
	is($late->wait(limit(60))->value, 't', 'who began to wait then has it');
	give_back_there($before);
	is($early->wait(limit(60))->value, 't', 'who had begun before has it, too');

	# What is there is given back there.
	$early->query_is("SELECT redis_unlock('$before')", 't', 'given back');
	$late->query_is("SELECT redis_unlock('$after')", 't', 'given back');
	$cluster->end_move($slot);
	is(join(' ', $cluster->all_keys), '', 'nothing is left');
	$_->quit foreach $early, $late;
}

# ---- half moved for long

my $tag = $cluster->key_on($from, 'half-');
my $slot = $cluster->slot($tag);
my @few = qw(fenced fair read write permit);
my %key = map { $_ => "{$tag}$_" } @few, 'reentrant', 'condition';
my $elsewhere = $cluster->key_on($from, 'elsewhere-');
# This lease does not grow on slow machines: Redis would forget the session that waits for the
# condition, which it does after twice lockredis.wait_lease.
my $one = $near->session(settings => { 'lockredis.lease' => '30s' });
my $patient = $near->session(settings => { 'lockredis.lease' => '10min' });
my %waiter = map { $_ => $far->session(settings => { 'lockredis.lease' => '10min' }) } keys %key;

sub ours ($what, $where)
{
	return $near->value("SELECT $what FROM redis_locks WHERE pid = @{[ $one->pid ]} AND $where");
}

$patient->query("SELECT redis_lock('$key{reentrant}')");
$waiter{$_}->start(step($_, 'wait', $key{$_})) foreach 'reentrant', 'condition';
poll_until('the one who waits for a condition to have said so',
	sub { grep { /condition_alive:/ } $cluster->all_keys });
foreach my $kind (@few)
{
	does($one, $kind, 'take', $key{$kind}, 'had');
	$waiter{$kind}->start(step($kind, 'wait', $key{$kind}));
}
is($one->query("SELECT redis_lock('$elsewhere')")->error, undef, 'in another slot: had');
$far->wait_for_waiters($key{$_}, 1) foreach 'reentrant', @few;

$cluster->begin_move($slot, $to);
my $before = ours('min(renewals)', q{kind <> 'permit'});
poll_until('what cannot be renewed to be lost',
	sub { ours('count(*)', q{lost_at IS NOT NULL AND kind = 'permit'}) == 1 }, 90);
is(ours('count(*)', q{granted AND lost_at IS NULL AND kind <> 'permit'}), 5, 'the others are held');
cmp_ok(ours('min(renewals)', q{kind <> 'permit'}), '>', $before, 'and were renewed');
$patient->query_is("SELECT redis_is_held('$key{reentrant}')", 't', 'one key: held');
$patient->query_is("SELECT redis_extend('$key{reentrant}', NULL)", 't', 'and renewed');

$cluster->move_keys($slot);
$cluster->end_move($slot);

is($waiter{permit}->wait(limit(90))->error, undef, 'permit: who waited has it, by himself');
foreach my $kind (grep { $_ ne 'permit' } @few)
{
	ok($waiter{$kind}->is_running, "$kind: still waited for");
}
$one->query('SELECT redis_unlock_all()');
foreach my $kind (grep { $_ ne 'permit' } @few)
{
	is($waiter{$kind}->wait(limit(90))->error, undef, "$kind: given back; who waited has it");
}
ok($waiter{reentrant}->is_running, 'reentrant: still waited for');
$patient->query_is("SELECT redis_unlock('$key{reentrant}')", 't', 'given back');
is($waiter{reentrant}->wait(limit(90))->error, undef, 'who waited has it');
does($patient, 'condition', 'free', $key{condition}, 'notified');
is($waiter{condition}->wait(limit(90))->error, undef, 'who waited for it knows');
$_->query('SELECT redis_unlock_all()') foreach $one, $patient, values %waiter;

# A master without slots is not one that is shown
my ($spare) = grep { my $id = $_->id; !grep { $_->id eq $id } $cluster->masters } $cluster->nodes;

$cluster->move_slot($slot, $spare);
masters_shown(4);
$patient->query_is("SELECT redis_try_lock('$key{reentrant}')", 't', 'at a master that has a slot now');
$cluster->move_slot($slot, $from);
masters_shown(3);
$patient->query_is("SELECT redis_is_held('$key{reentrant}')", 't', 'held when that has none any more');
$patient->query_is("SELECT redis_unlock('$key{reentrant}')", 't', 'and given back');

end_test([ $near, $far ], $cluster, keys => qr/^redisson_lock_token:|permit|tickets/, clients => qr/session/);
