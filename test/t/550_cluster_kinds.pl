# Copyright (c) 2026, lockredis contributors

# Each kind of lock, and what is counted, in a Redis Cluster with two servers: who waits on
# one is woken by the other, also when the master that has it is replaced meanwhile, and
# when its slot is moved; what can be given back while a slot is half moved; names that
# cannot be kept.

use LockRedis::RedisCluster;
use LockRedis::Test;

my $cluster = LockRedis::RedisCluster->new;
my %settings = ('lockredis.lease' => limit(120) . 's', 'lockredis.connect_timeout' => '30s',
	'lockredis.command_timeout' => '30s');
my $near = LockRedis::Node->create('near', redis => $cluster, settings => \%settings);
my $far = LockRedis::Node->create('far', redis => $cluster, settings => \%settings);
my $soon = limit(60);

$cluster->wait_until_used($near, $far);

# What one server has or does first, what the other one waits for, what ends that, and what
# gives back in the end; %s is the key.
my %kinds = (
	reentrant => {
		take => "SELECT redis_lock('%s')", wait => "SELECT redis_lock('%s')",
		free => "SELECT redis_unlock('%s')", end => "SELECT redis_unlock('%s')" },
	fenced => {
		take => "SELECT redis_fenced_lock('%s')", wait => "SELECT redis_fenced_lock('%s')",
		free => "SELECT redis_unlock('%s')", end => "SELECT redis_unlock('%s')" },
	fair => {
		take => "SELECT redis_fair_lock('%s')", wait => "SELECT redis_fair_lock('%s')",
		free => "SELECT redis_unlock('%s')", end => "SELECT redis_unlock('%s')" },
	read => {
		take => "SELECT redis_read_lock('%s')", wait => "SELECT redis_write_lock('%s')",
		free => "SELECT redis_read_unlock('%s')", end => "SELECT redis_write_unlock('%s')" },
	write => {
		take => "SELECT redis_write_lock('%s')", wait => "SELECT redis_read_lock('%s')",
		free => "SELECT redis_write_unlock('%s')", end => "SELECT redis_read_unlock('%s')" },
	permit => {
		take => "SELECT redis_permit_init('%s', 1), redis_permit_lock('%s')",
		wait => "SELECT redis_permit_lock('%s')",
		free => "SELECT redis_permit_unlock('%s')", end => "SELECT redis_permit_unlock('%s')" },
	token => {
		take => "SELECT redis_token_lock('%s', '10min', 'mine')",
		wait => "SELECT redis_token_lock('%s', '10min', 'yours')",
		free => "SELECT redis_token_unlock('%s', 'mine')",
		end => "SELECT redis_token_unlock('%s', 'yours')" },
	semaphore => {
		take => "SELECT redis_semaphore_init('%s', 1), redis_semaphore_acquire('%s')",
		wait => "SELECT redis_semaphore_acquire('%s')",
		free => "SELECT redis_semaphore_release('%s')",
		end => "SELECT redis_semaphore_release('%s')" },
	latch => {
		take => "SELECT redis_latch_init('%s', 1)", wait => "SELECT redis_latch_wait('%s')",
		free => "SELECT redis_latch_count_down('%s')", end => 'SELECT 1' },
	condition => {
		take => 'SELECT 1', wait => "SELECT redis_lock('%s'), redis_condition_wait('%s')",
		free => "SELECT redis_lock('%s'), redis_condition_notify('%s'), redis_unlock('%s')",
		end => "SELECT redis_unlock('%s')" });
my $holder = $near->session;
my %waiter = map { $_ => $far->session } sort keys %kinds;

sub sql
{
	my ($kind, $step, $key) = @_;

	return $kinds{$kind}{$step} =~ s/%s/$key/gr;
}

sub done
{
	my ($session, $kind, $step, $key, $name) = @_;
	my $error = $session->query(sql($kind, $step, $key))->error;

	is($error, undef, "$kind: $name");
	return;
}

# One has it and another one of the other server waits, for each of these
sub begin
{
	my (%key) = @_;

	foreach my $kind (sort keys %key)
	{
		done($holder, $kind, 'take', $key{$kind}, 'taken');
		$waiter{$kind}->start(sql($kind, 'wait', $key{$kind}));
		$far->wait_for_waiters($key{$kind}, 1);
	}
	poll_until('the one who waits for a condition to have said so',
		sub { grep { /condition_alive:.*\Q$key{condition}\E/ } $cluster->all_keys })
	  if $key{condition};
	return;
}

sub finish
{
	my ($when, %key) = @_;

	foreach my $kind (sort keys %key)
	{
		ok($waiter{$kind}->is_running, "$kind: is waited for $when");
		done($holder, $kind, 'free', $key{$kind}, "given back $when");
		is($waiter{$kind}->wait($soon)->error, undef, "$kind: had by who has waited $when");
		done($waiter{$kind}, $kind, 'end', $key{$kind}, 'given back by him');
	}
	return;
}

# At each node
foreach my $at ($cluster->masters)
{
	my %key = map { $_ => $cluster->key_on($at, "$_-") } keys %kinds;

	begin(%key);
	finish('at one node', %key);
}

# At a master that is replaced
{
	my ($old) = $cluster->masters;
	my %key = map { $_ => $cluster->key_on($old, "failed-$_-") } keys %kinds;

	begin(%key);
	$cluster->fail_over($old);
	finish('at the next master', %key);
}

# In slots that are moved: a latch has no name with a tag.
{
	my ($from, $to) = $cluster->masters;
	my $tag = $cluster->key_on($from, 'moved-');
	my %key = map { $_ => "{$tag}$_" } keys %kinds;

	$key{latch} = $cluster->key_on($from, 'latch-moved-');
	$holder->query_is("SELECT redis_multi_lock(ARRAY['{$tag}1', '{$tag}2'])", '', 'several at once');
	begin(%key);
	$cluster->move_slot($cluster->slot($_), $to) foreach $tag, $key{latch};
	finish('where it was moved to', %key);
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
	finish('where the slot is still', %key);
	$cluster->move_keys($slot);
	done($holder, $_, 'take', $key{$_}, 'taken where the slot is to be') foreach sort keys %key;
	is($to->cmd('CLUSTER', 'COUNTKEYSINSLOT', $slot), 2, 'they are there');
	done($holder, $_, 'free', $key{$_}, 'and given back there') foreach sort keys %key;
	is($to->cmd('CLUSTER', 'COUNTKEYSINSLOT', $slot), 0, 'they are gone');
	$cluster->end_move($slot);
}

# Names whose keys would be in several slots
foreach my $kind (sort keys %kinds)
{
	my $step = $kind eq 'condition' ? 'wait' : 'take';

	$holder->query_fails(sql($kind, $step, 'x}y'), '22023', qr/Redis Cluster/, "$kind: x}y");
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
