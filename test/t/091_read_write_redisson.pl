# Copyright (c) 2026, lockredis contributors

# The real Redisson's RReadWriteLock and sessions of ours on the same keys: readers
# and writers of both sides, who wakes whom, downgrade, and readers of Redisson that are
# killed, or whose renewal shortens what ours have.
# Proves G1, G21.

use LockRedis::Redisson;
use LockRedis::Test;

LockRedis::Redisson->need;

my $java = LockRedis::Redisson->new;

# The lease of both sides: far more than a machine stands still for, and than $soon, in
# which whoever is woken has the lock.  Who missed it would look after a lease only.
my $lease_s = 150;
my $soon = limit(60);
my ($node, $redis, $one, $two) = servers(
	sessions => 2, settings => { 'lockredis.lease' => "${lease_s}s" });

$java->connect('a', $redis, watchdog => $lease_s * 1000);

#
# Together; each writer waits for the readers of the other side, and is woken.
#
{
	$one->query_is("SELECT redis_read_lock('k')", '', 'a reader of ours');
	is($java->value('a.1', 'read.tryLock', 'k', 0, -1), 'true', 'and one of Redisson');
	is($java->value('a.2', 'write.tryLock', 'k', 0, -1), 'false', 'no writer of Redisson');
	$two->query_is("SELECT redis_try_write_lock('k')", 'f', 'none of ours');
	is($node->value("SELECT redis_lock_owner('k')"), '2 readers', 'who has it');
	is($java->value('a.1', 'read.holdCount', 'k'), 1, 'Redisson has it once');

	my $write = $java->send('a.2', 'write.lock', 'k', -1);
	wait_for_redisson();
	$java->call('a.1', 'read.unlock', 'k')->or_die;
	$one->query_is("SELECT redis_read_unlock('k')", 't', 'the last reader');
	ok(!$java->wait($write, $soon)->error, 'wakes the writer of Redisson');
	is($node->value("SELECT redis_lock_owner('k')"),
		$java->value('a.2', 'owner', '-'), 'which is seen');

	$one->start("SELECT redis_read_lock('k')");
	$node->wait_for_waiters('k', 1);
	$two->start("SELECT redis_write_lock('k')");
	$node->wait_for_waiters('k', 2);
	$java->call('a.2', 'write.unlock', 'k')->or_die;
	is($one->wait($soon)->error, undef, 'a writer of Redisson wakes ours');
	$one->query_is("SELECT redis_read_unlock('k')", 't');
	is($two->wait($soon)->error, undef, 'one after the other');

	# What Redisson cannot give back
	my $refused = $java->call('a.1', 'write.unlock', 'k');
	is($refused->error, 'IllegalMonitorStateException', 'ours is not theirs');

	# Downgrade: Redisson forgets to tell that.
	$two->query_is("SELECT redis_read_lock('k')", '', 'a writer who reads');
	my $read = $java->send('a.1', 'read.lock', 'k', -1);
	wait_for_redisson();
	ok(!$java->is_done($read), 'a reader of Redisson waits');
	$two->query_is("SELECT redis_write_unlock('k')", 't', 'downgrade');
	ok(!$java->wait($read, $soon)->error, 'wakes it');
	$two->query_is("SELECT redis_read_unlock('k')", 't');
	is($java->value('a.1', 'read.isHeld', 'k'), 'true', 'which still has it');
	$java->call('a.1', 'read.unlock', 'k')->or_die;
	is($redis->cmd('EXISTS', 'k'), 0, 'nothing is left');
}

# A thread of Redisson subscribes when it did not get the lock, and not before.
sub wait_for_redisson
{
	return poll_until('Redisson to subscribe',
		sub { $redis->cmd('PUBSUB', 'NUMSUB', 'redisson_rwlock:{k}')->[1] > 0 });
}

#
# Redisson's renewal of its reader sets the time to live of all to less than our lease,
# and our watchdog lengthens it again; then Redisson is killed.  Both look at about the
# same time, each after the other, so that what Redisson sets may be there for a moment
# only: the watchdog stands still until it was seen, for less than what is left then.
#
{
	my $other = LockRedis::Redisson->new;
	my $watchdog = $node->watchdog_pid;
	my $theirs_ms = 30_000;

	$other->connect('b', $redis, watchdog => $theirs_ms);
	$other->call('b.1', 'read.lock', 'short', -1)->or_die;
	$one->query_is("SELECT redis_read_lock('short', '10min')", '', 'a long lease of ours');
	my $ours = $node->value("SELECT owner FROM redis_locks WHERE key = 'short'");

	kill 'STOP', $watchdog;
	poll_until('Redisson to shorten it',
		sub { $redis->cmd('PTTL', 'short') <= $theirs_ms }, 60);
	$other->kill9;
	kill 'CONT', $watchdog;
	wait_until_longer($theirs_ms);

	# As Redisson would have gone on.
	$redis->cmd('PEXPIRE', 'short', $theirs_ms);
	wait_until_longer($theirs_ms);

	# The time of the dead one ends now, of which there may be much left.
	$redis->cmd('DEL', $_)
	  foreach grep { /rwlock_timeout/ && !/\Q$ours\E/ } $redis->all_keys;
	$one->query_is("SELECT redis_is_held('short'), redis_extend('short', '10min')", 't|t',
		'the lock of ours is there');
	$two->query_is("SELECT redis_try_write_lock('short')", 'f', 'and keeps a writer away');
	$one->query_is("SELECT redis_read_unlock('short')", 't', 'until it is given back');
	$two->query_is("SELECT redis_try_write_lock('short')", 't', 'the dead one is forgotten');
	$two->query_is("SELECT redis_write_unlock('short')", 't');
}

sub wait_until_longer
{
	my ($ms) = @_;

	return poll_until('us to lengthen it', sub { $redis->cmd('PTTL', 'short') > 2 * $ms }, 60);
}

# A reader of Redisson that is killed keeps a writer away for its lease.
{
	my $other = LockRedis::Redisson->new;

	$other->connect('c', $redis, watchdog => 3000);
	$other->call('c.1', 'read.lock', 'dead', -1)->or_die;
	$two->start("SELECT redis_write_lock('dead')");
	$other->kill9;
	is($two->wait($soon)->error, undef, 'no longer');
	$two->query_is("SELECT redis_write_unlock('dead')", 't');
}

$_->quit foreach $one, $two;
$java->shutdown('a');
$java->stop;
end_test($node, $redis, keys => qr/unlock_latch/);
