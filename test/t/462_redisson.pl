# Copyright (c) 2026, lockredis contributors

# The real Redisson's RPermitExpirableSemaphore and sessions of ours on the same keys: never
# more than there are permits, ids of both sides, who wakes whom, and the permits of a
# client or a server that is killed.  And its RedissonMultiLock and calls of ours for
# overlapping sets of keys: who waits for whom.  And semaphores and latches.  302_torture_kinds has many of both at once.
# Proves G1, G21.

use LockRedis::Redisson;
use LockRedis::Test;

LockRedis::Redisson->need;

my $java = LockRedis::Redisson->new;

# The lease of both sides: far more than a machine stands still for, and than $soon, in
# which whoever is woken has the permit.  Who missed it would look after a lease only.
my $lease_s = 150;
my $lease_ms = $lease_s * 1000;
my $soon = limit(60);
my $patience = 600_000;
my ($node, $redis, $one, $two) = servers(
	sessions => 2, settings => { 'lockredis.lease' => "${lease_s}s" });

$java->connect('a', $redis);

sub available { return $node->value("SELECT redis_permit_available('$_[0]')"); }

#
# Several keys at once.
#
$one->query_is("SELECT redis_multi_lock(ARRAY['k', 'l'])", '', 'ours');
is($java->value('a.1', 'multi.tryLock', 'm,l', 0, -1), 'false', 'Redisson gets none of it');
is($redis->cmd('EXISTS', 'm'), 0, 'and keeps none');
is($java->value('a.1', 'multi.tryLock', 'm,n', 0, -1), 'true', 'but others');
$one->query_is("SELECT redis_try_multi_lock(ARRAY['n', 'o'])", 'f', 'which we do not get');
$node->queue_up('n', $one => "SELECT redis_multi_lock(ARRAY['n', 'o'])");
$java->call('a.1', 'multi.unlock', 'm,n')->or_die;
is($one->wait(limit(20))->error, undef, 'until Redisson gives them back');
my $waits = $java->send('a.1', 'multi.lock', 'o,l', -1);
$redis->wait_for_subscribers('o', 1);
$one->query_is("SELECT redis_multi_unlock(ARRAY['k', 'l', 'n', 'o'])", 't', 'given back');
ok(!$java->wait($waits, 60)->error, 'Redisson has waited for that');
$java->call('a.1', 'multi.unlock', 'o,l')->or_die;

#
# Numbers and ids.
#
$one->query_is("SELECT redis_permit_init('k', 2)", 't', 'we say how many');
is($java->value('a.1', 'permit.init', 'k', 9), 'false', 'Redisson knows');
is($java->value('a.1', 'permit.total', 'k'), 2, 'the number');
$one->query_is("SELECT redis_permit_lock('k')", '', 'one of ours');
is($java->value('a.1', 'permit.available', 'k'), 1, 'which Redisson sees');
my $theirs = $java->value('a.1', 'permit.tryAcquire', 'k', 0, $lease_ms);
like($theirs, qr/^[0-9a-f]{32}$/, 'one of theirs');
is($node->value("SELECT redis_lock_owner('k')"), '2 permits', 'who has them');
is($java->value('a.1', 'permit.tryAcquire', 'k', 0, $lease_ms), 'null', 'no third for them');
$two->query_is("SELECT redis_try_permit_lock('k')", 'f', 'nor for us');
$two->query_is("SELECT redis_permit_extend('k', '$theirs', '200s')", 't', 'an id of theirs can be kept by us');
$two->query_is("SELECT redis_permit_release('k', '$theirs')", 't', 'and given back');
is($java->value('a.1', 'permit.release', 'k', $theirs), 'false', 'so they do not have it');
my $ours = $two->value("SELECT redis_permit_acquire('k', '${lease_s}s')");
is($java->value('a.1', 'permit.extend', 'k', $ours, $lease_ms + 1000), 'true', 'an id of ours by them');
is($java->value('a.1', 'permit.release', 'k', $ours), 'true', 'likewise');
$two->query_is("SELECT redis_permit_release('k', '$ours')", 'f', 'and then it is gone');
$java->call('a.1', 'permit.set', 'k', 3)->or_die;
is($node->value("SELECT redis_permit_total('k') || ' ' || redis_permit_available('k')"), '3 2', 'the number is changed by them');
$one->query_is("SELECT redis_permit_set('k', 2)", '', 'and by us');
is($java->value('a.1', 'permit.total', 'k'), 2, 'which they see');

#
# Each side wakes the other.
#
$one->query_is("SELECT redis_permit_lock('k')", '', 'both are ours');
$waits = $java->send('a.2', 'permit.tryAcquire', 'k', $lease_ms, $lease_ms);
poll_until('Redisson to wait', sub { $redis->subscribers('redisson_sc:{k}') >= 1 });
$one->query_is("SELECT redis_permit_unlock('k')", 't', 'one comes back');
my $got = $java->wait($waits, $soon)->or_die->value;
like($got, qr/^[0-9a-f]{32}$/, 'which wakes Redisson');
$node->queue_up('k', $two => "SELECT redis_permit_lock('k')");
is($java->value('a.2', 'permit.release', 'k', $got), 'true', 'theirs comes back');
is($two->wait($soon)->error, undef, 'which wakes us');
$_->query_is("SELECT redis_permit_unlock('k')", 't') foreach $one, $two;
is(available('k'), 2, 'all are back');

# As in Redisson's class: one thread waits, another one asks.
sub waits_there ($channel, @command)
{
	my $n = $java->send('a.1', @command);

	poll_until('Redisson to wait', sub { $redis->subscribers($channel) });
	return $n;
}

#
# Semaphores: each side sees the numbers of the other, and wakes those who wait there.
#
is($java->value('a.2', 'semaphore.init', 's', 3), 'true', 'made there');
$one->query_is("SELECT redis_semaphore_init('s', 9), redis_semaphore_available('s')", 'f|3', 'seen here');
$one->query("SELECT redis_semaphore_acquire('s', 2)");
is($java->value('a.2', 'semaphore.available', 's'), 1, 'taken here');
is($java->value('a.2', 'semaphore.tryAcquire', 's', 2, 0), 'false', 'not so many');
is($java->value('a.2', 'semaphore.tryAcquire', 's', 1, 0), 'true', 'taken there');
$one->query_is("SELECT redis_try_semaphore_acquire('s')", 'f', 'none left');

{
	my $n = waits_there('redisson_sc:{s}', 'semaphore.acquire', 's', 2);

	$one->query("SELECT redis_semaphore_release('s', 2)");
	$java->wait($n, $soon)->or_die;
	is($java->value('a.2', 'semaphore.available', 's'), 0, 'Redisson is woken by a release of ours');

	$n = waits_there('redisson_sc:{s}', 'semaphore.acquire', 's', 2);
	$one->query("BEGIN; SELECT redis_semaphore_xact_release('s', 2); COMMIT");
	$java->wait($n, $soon)->or_die;

	$n = waits_there('redisson_sc:{s}', 'semaphore.acquire', 's', 1);
	$one->query("SELECT redis_semaphore_add('s', 1)");
	$java->wait($n, $soon)->or_die;
}
$node->queue_up('s', $two => "SELECT redis_semaphore_acquire('s', 3)");
poll_until('the subscription', sub { $redis->subscribers('redisson_sc:{s}') });
$java->call('a.2', 'semaphore.release', 's', 3)->or_die;
is($two->wait($soon)->error, undef, 'ours is woken by Redisson');
$java->call('a.2', 'semaphore.add', 's', 4)->or_die;
$one->query_is("SELECT redis_semaphore_drain('s')", 4, 'added there, drained here');
$one->query("SELECT redis_semaphore_add('s', 5)");
is($java->value('a.2', 'semaphore.drain', 's'), 5, 'added here, drained there');

#
# Latches.
#
is($java->value('a.2', 'latch.set', 'l', 2), 'true', 'set there');
$one->query_is("SELECT redis_latch_init('l', 3), redis_latch_count('l')", 'f|2', 'seen here');
{
	my $channel = 'redisson_countdownlatch__channel__{l}';
	my $n = waits_there($channel, 'latch.await', 'l', $patience);

	$node->queue_up('l', $two => "SELECT redis_latch_wait('l')");
	poll_until('both subscriptions', sub { $redis->subscribers($channel) == 2 });
	$one->query_is("SELECT redis_latch_count_down('l')", 1, 'counted down here');
	is($java->value('a.2', 'latch.count', 'l'), 1, 'seen there');
	$java->call('a.2', 'latch.countDown', 'l')->or_die;
	is($java->wait($n, $soon)->or_die->value, 'true', 'counted down there: Redisson goes on');
	is($two->wait($soon)->out, 't', 'and so does ours');

	$one->query("SELECT redis_latch_init('l', 1)");
	$n = waits_there($channel, 'latch.await', 'l', $patience);
	$one->query("BEGIN; SELECT redis_latch_xact_count_down('l'); COMMIT");
	is($java->wait($n, $soon)->or_die->value, 'true', 'counted down by a COMMIT');

	$one->query("SELECT redis_latch_init('l', 5)");
	$n = waits_there($channel, 'latch.await', 'l', $patience);
	$one->query_is("SELECT redis_latch_delete('l')", 't', 'deleted here');
	is($java->wait($n, $soon)->or_die->value, 'true', 'Redisson goes on');
}
# What a COMMIT counts has its row until it has been answered.
poll_until('no row', sub { $node->count_locks == 0 });
$java->stop;
done_testing();
