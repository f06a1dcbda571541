# Copyright (c) 2026, lockredis contributors

# The real Redisson and sessions of ours on the same keys: who wakes whom, who may unlock
# what, what each sees of the other, locks taken by force, and names.  RReadWriteLock too:
# readers and writers of both sides, downgrade, and readers of Redisson that are killed, or whose
# renewal shortens what ours have.  (300_torture has them all at once, 096_fair_redisson fair
# locks.)
# Proves G1, G21, G23.

use LockRedis::Redisson;
use LockRedis::Test qw(:DEFAULT quoted);

LockRedis::Redisson->need;

# The lease of both sides: far more than a machine stands still for, and than $soon, in
# which whoever is woken has the lock.  Who missed it would look after a lease only.
my $lease_ms = 150_000;
my $soon = limit(60);
my ($node, $redis, $one, $two) = servers(
	sessions => 2, settings => { 'lockredis.lease' => "${lease_ms}ms" });
my $java = LockRedis::Redisson->new;

$java->connect('a', $redis, watchdog => $lease_ms);

# How a thread appears in a lock's hash.
sub thread_owner ($thread) { return $java->value($thread, 'owner', '-'); }

# With a lease in milliseconds, or renewed.
sub java_lock ($thread, $key, $lease = -1)
{
	$java->call($thread, 'lock', $key, $lease)->or_die;
	return;
}

sub java_unlock ($thread, $key)
{
	$java->call($thread, 'unlock', $key)->or_die;
	return;
}

# A thread that waits in lock(), subscribed.
sub java_waits ($thread, $key, $lease = -1)
{
	my $number = $java->send($thread, 'lock', $key, $lease);

	$redis->wait_for_subscribers($key, 1);
	return $number;
}

# A session that waits in redis_lock(), and sleeps.
sub session_waits ($session, $key)
{
	return $redis->after_second_look($key,
		sub { $session->start('SELECT redis_lock(' . quoted($key) . ')') });
}

#
# What each sees of the other's lock, and that it cannot unlock it.
#
{
	$one->query_is("SELECT redis_lock('seen'), redis_lock('seen')",
		'|', 'seen: ours, twice');
	is($java->value('a.1', 'isLocked', 'seen'), 'true',
		'seen: Redisson sees ours locked');
	is($java->value('a.1', 'isHeld', 'seen'), 'false', 'seen: not by itself');
	is($java->value('a.1', 'tryLock', 'seen', 0, -1),
		'false', 'seen: Redisson does not get it');
	my $remain = $java->value('a.1', 'remain', 'seen');
	ok(0 < $remain && $remain <= $lease_ms, "seen: and its time, $remain ms");
	my $owner = $two->value("SELECT redis_lock_owner('seen')");
	is_deeply($redis->hash('seen'), { $owner => 1 },
		'seen: the owner as Redisson keeps it, with 1 however often it is held');
	is($node->value("SELECT owner FROM redis_locks WHERE key = 'seen'"),
		$owner, 'seen: the owner in redis_locks');

	my $refused = $java->call('a.1', 'unlock', 'seen');
	is($refused->error, 'IllegalMonitorStateException',
		'refused: Redisson does not unlock ours');
	like($refused->message, qr/not locked by current thread/,
		'refused: in its words');
	$one->query_is("SELECT redis_is_held('seen'), redis_hold_count('seen')",
		't|2', 'refused: and nothing has changed');
	$one->query_is("SELECT redis_unlock('seen'), redis_unlock('seen')",
		't|t', 'seen: given back');
	is($java->value('a.1', 'isLocked', 'seen'), 'false', 'seen: and free');

	java_lock('a.1', 'seen');
	java_lock('a.1', 'seen');
	$one->query_is(
		"SELECT redis_is_locked('seen'), redis_is_held('seen'), redis_lock_owner('seen')",
		't|f|' . thread_owner('a.1'),
		'seen: we see theirs and its owner');
	$one->query_is(
		"SELECT redis_lock_ttl('seen') BETWEEN '1ms' AND '${lease_ms}ms'",
		't', 'seen: and its time');
	$one->query_is("SELECT redis_try_lock('seen')",
		'f', 'seen: and do not get it');
	$one->query_warns("SELECT redis_unlock('seen')",
		'f', '01000', qr/you don't own/, 'refused: we do not unlock theirs');
	is($java->value('a.1', 'holdCount', 'seen'),
		2, 'refused: and nothing has changed');
	java_unlock('a.1', 'seen');
	$one->query_is("SELECT redis_try_lock('seen')",
		'f', 'seen: Redisson holds it once more');
	java_unlock('a.1', 'seen');
	$one->query_is("SELECT redis_is_locked('seen'), redis_lock_owner('seen')",
		'f|NULL', 'seen: and it is free');

	is($java->value('a.1', 'fencedLock', 'seen'),
		1, 'seen: a fenced lock of Redisson');
	$one->query_is("SELECT redis_try_lock('seen'), redis_lock_owner('seen')",
		'f|' . thread_owner('a.1'), 'seen: is a lock like any other');
	$java->call('a.1', 'fencedUnlock', 'seen')->or_die;
	$one->query_is("SELECT redis_try_lock('seen'), redis_unlock('seen')",
		't|t', 'seen: ours in between');
	is($java->value('a.1', 'token', 'seen'),
		1, 'seen: and its counter of tokens is as it was');
	$redis->cmd('DEL', 'redisson_lock_token:{seen}');
}

#
# A waiter sleeps, and is woken by the release: a few script calls in all, and
# in a small part of the lease.
#
# Redisson's locks have a given lease here: a renewed lock that it gives back
# leaves its timer behind (RenewalTask of 4.7), which would renew what is held next.
#
{
	$one->query("SELECT redis_lock('ours')");
	my $number = java_waits('a.1', 'ours', $lease_ms);
	java_lock('a.2', 'theirs', $lease_ms);
	session_waits($two, 'theirs');

	my $calls = $redis->script_calls;
	pause(3);
	cmp_ok($redis->script_calls - $calls, '<=', 1, 'wake-up: who waits does not ask again and again');
	ok(!$java->is_done($number) && $two->is_running, 'wake-up: and does wait');

	$calls = $redis->script_calls;
	my $start = now();
	$one->query("SELECT redis_unlock('ours')");
	$java->wait($number)->or_die;
	cmp_ok(now() - $start, '<', $soon, 'wake-up: Redisson has ours soon after our release');
	cmp_ok($redis->script_calls - $calls, '<=', 4, 'wake-up: which costs a few round trips');

	$calls = $redis->script_calls;
	$start = now();
	java_unlock('a.2', 'theirs');
	is($two->wait->error, undef, 'wake-up: Redisson wakes us');
	cmp_ok(now() - $start, '<', $soon, 'wake-up: we have theirs soon after its release');
	cmp_ok($redis->script_calls - $calls, '<=', 4, 'wake-up: which costs a few round trips');
	java_unlock('a.1', 'ours');
	$two->query_is("SELECT redis_unlock('theirs')", 't', 'wake-up: given back');
}

#
# Names: the same key and the same channel, whatever is in them.
#
foreach my $key (
	'a{b}c', 'x}y', '{', 'a space', q{it's "quoted"}, 'back\\slash %41+',
	"two\nlines", "\xd0\xba\xd0\xbb\xd1\x8e\xd1\x87 \xe9\x8d\xb5 \xf0\x9f\x94\x91")
{
	my $shown = $key =~ s/\n/\\n/r;

	$one->query_is('SELECT redis_lock(' . quoted($key) . ')',
		'', "name $shown: taken");
	is_deeply([ $redis->all_keys ], [$key], "name $shown: the key in Redis");
	my $number = java_waits('a.1', $key);
	my $start = now();
	$one->query('SELECT redis_unlock(' . quoted($key) . ')');
	$java->wait($number)->or_die;
	cmp_ok(now() - $start, '<', $soon, "name $shown: Redisson is woken");

	$redis->wait_for_subscribers($key, 0);
	session_waits($two, $key);
	$start = now();
	java_unlock('a.1', $key);
	is($two->wait->error, undef, "name $shown: ours again");
	cmp_ok(now() - $start, '<', $soon, "name $shown: we are woken");
	$two->query_is('SELECT redis_unlock(' . quoted($key) . ')',
		't', "name $shown: given back");
}

#
# Taken by force: their unlock is refused.
#
{
	java_lock('a.1', 'forced');
	session_waits($two, 'forced');
	my $start = now();
	$one->query_is("SELECT redis_force_unlock('forced')",
		't', 'force: we take theirs away');
	is($two->wait->error, undef, 'force: our waiter has it');
	cmp_ok(now() - $start, '<', $soon, 'force: at once');
	is( $java->call('a.1', 'unlock', 'forced')->error,
		'IllegalMonitorStateException',
		'force: their unlock is refused');
	$two->query_is("SELECT redis_is_held('forced'), redis_unlock('forced')",
		't|t', 'force: and does not disturb us');

	java_lock('a.1', 'forced');
	my $number = java_waits('a.2', 'forced');
	$one->query_is("SELECT redis_force_unlock('forced')",
		't', 'force: we take theirs away again');
	$java->wait($number)->or_die;
	is($java->value('a.2', 'isHeld', 'forced'),
		'true', 'force: their waiter has it');
	java_unlock('a.2', 'forced');
	$one->query_is("SELECT redis_force_unlock('forced')",
		'f', 'force: nothing to take');
}

# ----------
# RReadWriteLock
# ----------

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

sub wait_until_longer ($ms)
{
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
