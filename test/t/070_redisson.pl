# Copyright (c) 2026, lockredis contributors

# The real Redisson and sessions of ours on the same keys: who wakes whom, who may unlock
# what, what each sees of the other, locks taken by force, and names.  (300_torture has
# them all at once, 434_tls_neighbours a counter.)
# Proves G1, G21, G23.

use LockRedis::Redisson;
use LockRedis::Test qw(:DEFAULT quoted);
use LockRedis::Wait qw(now_ns);

LockRedis::Redisson->need;

my ($node, $redis) = LockRedis::Node->create_with_redis('main');
my $java = LockRedis::Redisson->new;

$java->connect('a', $redis);

# Far less than the 30 s after which a sleeper that missed its wake-up looks.
my $soon = limit(20);

# How a thread appears in a lock's hash.
sub thread_owner
{
	my ($thread) = @_;

	return $java->value($thread, 'owner', '-');
}

# With a lease in milliseconds, or renewed.
sub java_lock
{
	my ($thread, $key, $lease) = @_;

	$java->call($thread, 'lock', $key, $lease || -1)->or_die;
	return;
}

sub java_unlock
{
	my ($thread, $key) = @_;

	$java->call($thread, 'unlock', $key)->or_die;
	return;
}

# A thread that waits in lock(), subscribed.
sub java_waits
{
	my ($thread, $key, $lease) = @_;
	my $number = $java->send($thread, 'lock', $key, $lease || -1);

	$redis->wait_for_subscribers($key, 1);
	return $number;
}

# A session that waits in redis_lock(), and sleeps.
sub session_waits
{
	my ($session, $key) = @_;

	return $redis->after_second_look($key,
		sub { $session->start('SELECT redis_lock(' . quoted($key) . ')') });
}

# Instants taken in Java and here are compared below.
my $before = now_ns();
my $asked = $java->call('a.1', 'isLocked', 'clock')->ns;
ok($before <= $asked && $asked <= now_ns(),
	'System.nanoTime() is the clock of this test');

my ($one, $two) = map { $node->session } 1 .. 2;

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
	ok(0 < $remain && $remain <= 30_000, "seen: and its time, $remain ms");
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
		"SELECT redis_lock_ttl('seen') BETWEEN '1ms' AND '30s'",
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
	my (@wakes_java, @wakes_us);

	foreach my $round (1 .. 5)
	{
		my ($ours, $theirs) = ("our wake $round", "their wake $round");

		$one->query("SELECT redis_lock('$ours')");
		my $number = java_waits('a.1', $ours, 30_000);
		java_lock('a.2', $theirs, 30_000);
		session_waits($two, $theirs);

		my $calls = $redis->script_calls;
		if ($round == 1)
		{
			pause(3);
			cmp_ok($redis->script_calls - $calls, '<=', 1,
				'wake-up: who waits does not ask again and again');
			ok( !$java->is_done($number) && $two->is_running,
				'wake-up: and does wait');
			$calls = $redis->script_calls;
		}

		my $start = now_ns();
		$one->query("SELECT redis_unlock('$ours')");
		push @wakes_java, $java->wait($number)->or_die->ns - $start;
		cmp_ok($redis->script_calls - $calls, '<=', 4,
			"wake-up $round: our release costs Redisson a few round trips");

		$calls = $redis->script_calls;
		$start = now_ns();
		java_unlock('a.2', $theirs);
		is($two->wait->error, undef, "wake-up $round: Redisson wakes us");
		push @wakes_us, now_ns() - $start;
		cmp_ok($redis->script_calls - $calls, '<=', 4,
			"wake-up $round: its release costs us a few round trips");

		java_unlock('a.1', $ours);
		$two->query_is("SELECT redis_unlock('$theirs')",
			't', "wake-up $round: given back");
	}
	cmp_ok((sort { $b <=> $a } @wakes_java)[0] / 1e9,
		'<', $soon, 'wake-up: Redisson has ours soon after our release');
	cmp_ok((sort { $b <=> $a } @wakes_us)[0] / 1e9,
		'<', $soon, 'wake-up: we have theirs soon after its release');
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

$_->quit foreach $one, $two;
$java->shutdown('a');
$java->stop;
end_test($node, $redis);
