# Copyright (c) 2026, lockredis contributors

# Each kind of lock, and what is counted, in a Redis Cluster with two servers: who waits on
# one is woken by the other, also when the master that has it is replaced meanwhile, and
# when its slot is moved; what can be given back while a slot is half moved; names that
# cannot be kept.

use LockRedis::RedisCluster;
use LockRedis::Test;
use LockRedis::Topic::Kinds;

my $cluster = LockRedis::RedisCluster->new;
my %settings = ('lockredis.lease' => limit(120) . 's', 'lockredis.connect_timeout' => '30s',
	'lockredis.command_timeout' => '30s');
my $near = LockRedis::Node->create('near', redis => $cluster, settings => \%settings);
my $far = LockRedis::Node->create('far', redis => $cluster, settings => \%settings);

$cluster->wait_until_used($near, $far);

my $holder = $near->session;

sub begin { return begin_waits($cluster, $holder, $far, @_); }

# At each node
foreach my $at ($cluster->masters)
{
	my %key = map { $_ => $cluster->key_on($at, "$_-") } @kinds;

	begin(%key);
	end_waits('at one node', %key);
}

# At a master that is replaced
{
	my ($old) = $cluster->masters;
	my %key = map { $_ => $cluster->key_on($old, "failed-$_-") } @kinds;

	begin(%key);
	$cluster->fail_over($old);
	end_waits('at the next master', %key);
}

# In slots that are moved: a latch has no name with a tag.
{
	my ($from, $to) = $cluster->masters;
	my $tag = $cluster->key_on($from, 'moved-');
	my %key = map { $_ => "{$tag}$_" } @kinds;

	$key{latch} = $cluster->key_on($from, 'latch-moved-');
	$holder->query_is("SELECT redis_multi_lock(ARRAY['{$tag}1', '{$tag}2'])", '', 'several at once');
	begin(%key);
	$cluster->move_slot($cluster->slot($_), $to) foreach $tag, $key{latch};
	end_waits('where it was moved to', %key);
	$holder->query_is("SELECT redis_multi_unlock(ARRAY['{$tag}1', '{$tag}2'])", 't',
		'several at once, where they were moved to');
}

# Half moved: what needs no other key is given back where it is, and who waits elsewhere hears.
{
	my ($from, $to) = $cluster->masters;
	my $tag = $cluster->key_on($from, 'half-');
	my $slot = $cluster->slot($tag);
	my %key = map { $_ => "{$tag}$_" } 'reentrant', 'token';

	begin(%key);
	$cluster->begin_move($slot, $to);
	end_waits('where the slot is still', %key);
	$cluster->move_keys($slot);
	does($holder, $_, 'take', $key{$_}, 'taken where the slot is to be') foreach sort keys %key;
	is($to->cmd('CLUSTER', 'COUNTKEYSINSLOT', $slot), 2, 'they are there');
	does($holder, $_, 'free', $key{$_}, 'and given back there') foreach sort keys %key;
	is($to->cmd('CLUSTER', 'COUNTKEYSINSLOT', $slot), 0, 'they are gone');
	$cluster->end_move($slot);
}

# Names whose keys would be in several slots
foreach my $kind (@kinds)
{
	my $step = $kind eq 'condition' ? 'wait' : 'take';

	$holder->query_fails(step($kind, $step, 'x}y'), '22023', qr/Redis Cluster/, "$kind: x}y");
}
$holder->query_fails("SELECT $_", '22023', qr/Redis Cluster/, "nor given back: $_")
  foreach "redis_token_unlock('x}y', 'mine')", "redis_token_extend('x}y', 'mine', '1s')",
  "redis_permit_release('x}y', repeat('ab', 16))", "redis_semaphore_release('x}y')";

$holder->query_is("SELECT redis_semaphore_init('a{b}c', 1), redis_semaphore_available('a{b}c')", 't|1',
	'a semaphore of a name with a tag');
$holder->query_fails("SELECT $_", '22023', qr/name of a latch must not contain a brace/, $_)
  foreach "redis_latch_init('a{b}c', 1)", "redis_latch_wait('a{b}c')",
  "redis_latch_count_down('a{b}c')", "redis_latch_xact_count_down('a{b}c')",
  "redis_latch_count('a{b}c')", "redis_latch_delete('a{b}c')";

# A transaction counts at several nodes.
$holder->query("SELECT redis_latch_init('latch' || i, 3) FROM generate_series(1, 30) i");
$holder->query("BEGIN; SELECT redis_latch_xact_count_down('latch' || i) FROM generate_series(1, 30) i; COMMIT");
# What is not answered soon is the watchdog's.
poll_until('all to be counted', sub { $near->count_locks == 0 });
is($near->value("SELECT sum(redis_latch_count('latch' || i)) FROM generate_series(1, 30) i"), 60, 'each once');

end_test($near, $cluster, keys => qr/^(?:redisson_lock_token:|lockredis_tickets:|.*(?:permit|semaphore|latch)|a\{b\}c)/,
	clients => qr/session/);
