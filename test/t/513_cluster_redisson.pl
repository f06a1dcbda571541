# Copyright (c) 2026, lockredis contributors

# The real Redisson in cluster mode and sessions of ours on the same keys: each keeps the
# other out, and wakes it, at each of the masters.  When a slot has moved a session is
# still told by Redisson; Redisson itself subscribes there once it has learned of it.
#
# When a master is replaced, what Redisson has is kept from us by the next one, and had by who
# waits when Redisson gives it back; what we have is kept from Redisson.  Plain, fair, read-write
# locks and several at once.

use LockRedis::RedisCluster;
use LockRedis::Redisson;
use LockRedis::Test;

LockRedis::Redisson->need;

my $cluster = LockRedis::RedisCluster->new;
my $node = LockRedis::Node->create('main', redis => $cluster,
	settings => { 'lockredis.lease' => '10min', 'lockredis.connect_timeout' => '30s',
		'lockredis.command_timeout' => '30s' });
my $java = LockRedis::Redisson->new;
my $us = $node->session;
my @masters = $cluster->masters;

$java->connect('a', $cluster);
$cluster->wait_until_used($node);

# ---- at each master, and where a slot has moved

sub redisson_wakes_us ($key, $where)
{
	# Redisson has it: a session waits, and is notified
	$java->call('a.1', 'lock', $key, -1)->or_die;
	$us->query_is("SELECT redis_try_lock('$key')", 'f', "$where: Redisson keeps us out");
	$node->queue_up($key, $us => "SELECT redis_lock('$key')");
	$cluster->wait_for_subscribers($key, 1);
	$java->call('a.1', 'unlock', $key)->or_die;
	is($us->wait(60)->error, undef, 'we have it when it is given back');
	return;
}

sub we_wake_redisson ($key)
{
	# A session has it: Redisson waits, and is notified
	my $waits = $java->send('a.2', 'lock', $key, -1);
	$cluster->wait_for_subscribers($key, 1);
	$us->query_is("SELECT redis_unlock('$key')", 't', 'given back');
	ok(!$java->wait($waits, 60)->error, 'Redisson has it then');
	is($cluster->owner_of($key), $java->value('a.2', 'owner', '-'), 'as the cluster says');
	$java->call('a.2', 'unlock', $key)->or_die;
	return;
}

foreach my $n (0 .. 2)
{
	my $key = $cluster->key_on($masters[$n], 'k');

	redisson_wakes_us($key, "node $n");
	we_wake_redisson($key);
}

my $key = $cluster->key_on($masters[0], 'moved');
$cluster->move_slot($cluster->slot($key), $masters[1]);
redisson_wakes_us($key, 'moved');
$us->query_is("SELECT redis_unlock('$key')", 't', 'given back');

# ---- a master is replaced

# How Redisson calls it, and how we take it and give it back
my %kinds = (
	'' => [ "redis_lock('%s')", "redis_unlock('%s')" ],
	'fair.' => [ "redis_fair_lock('%s')", "redis_unlock('%s')" ],
	'write.' => [ "redis_write_lock('%s')", "redis_write_unlock('%s')" ],
	'read.' => [ "redis_write_lock('%s')", "redis_write_unlock('%s')" ],
	'multi.' => [ "redis_multi_lock(ARRAY['%s'])", "redis_multi_unlock(ARRAY['%s'])" ]);
my @kinds = sort keys %kinds;

# Redisson wants a replica to confirm what it does.
sub fail_over ($old)
{
	$cluster->fail_over($old);
	poll_until('the former master to be in step as a replica',
		sub { ($old->info('replication')->{master_link_status} || '') eq 'up' });
	return;
}

sub sql ($which, $kind, $key) { return 'SELECT ' . $kinds{$kind}[$which] =~ s/%s/$key/r; }

# Theirs, awaited by us
{
	my ($old) = $cluster->masters;
	my %key = map { $_ => $cluster->key_on($old, 'theirs' . s/\.//r) } @kinds;
	my %waiter = map { $_ => $node->session } @kinds;

	foreach my $kind (@kinds)
	{
		$java->call('a.1', $kind . 'lock', $key{$kind}, 600_000)->or_die;
		$waiter{$kind}->start(sql(0, $kind, $key{$kind}));
		$node->wait_for_waiters($key{$kind}, 1);
	}
	fail_over($old);
	foreach my $kind (@kinds)
	{
		ok($waiter{$kind}->is_running, "${kind}lock of Redisson: kept from us");
		$java->call('a.1', $kind . 'unlock', $key{$kind})->or_die;
		is($waiter{$kind}->wait(limit(60))->error, undef, "${kind}lock: then it is ours");
		is($waiter{$kind}->query(sql(1, $kind, $key{$kind}))->error, undef, 'given back');
		$waiter{$kind}->quit;
	}
}

# Ours, wanted by them
{
	my ($old) = $cluster->masters;
	my %key = map { $_ => $cluster->key_on($old, 'ours' . s/\.//r) } @kinds;

	foreach my $kind (@kinds)
	{
		is($us->query(sql(0, $kind, $key{$kind}))->error, undef, "${kind}lock: ours");
	}
	fail_over($old);
	foreach my $kind (@kinds)
	{
		is($java->value('a.1', $kind . 'tryLock', $key{$kind}, 0, 600_000), 'false',
			"${kind}lock: kept from Redisson");
		is($us->query(sql(1, $kind, $key{$kind}))->error, undef, 'given back');
		poll_until('Redisson to have it',
			sub { $java->value('a.1', $kind . 'tryLock', $key{$kind}, 0, 600_000) eq 'true' });
		$java->call('a.1', $kind . 'unlock', $key{$kind})->or_die;
	}
}
is($node->lock_stat('losses'), 0, 'nothing was lost');

$java->shutdown('a');
$java->stop;
end_test($node, $cluster, clients => qr/session/);
