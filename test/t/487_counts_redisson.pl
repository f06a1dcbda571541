# Copyright (c) 2026, lockredis contributors

# Semaphores and latches with the real Redisson on the same keys: each sees the numbers of
# the other, and wakes those of the other who wait; also by what is undone, and by a latch
# that is deleted.

use LockRedis::Redisson;
use LockRedis::Test;

LockRedis::Redisson->need;

my ($node, $redis, $one, $two) = servers(sessions => 2);
my $java = LockRedis::Redisson->new;
my $soon = limit(60);
my $patience = 600_000;

$java->connect('a', $redis);

# As in Redisson's class: one thread waits, another one asks.
sub waits_there
{
	my ($channel, @command) = @_;
	my $n = $java->send('a.1', @command);

	poll_until('Redisson to wait', sub { $redis->subscribers($channel) });
	return $n;
}

#
# A semaphore
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
# A latch
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
