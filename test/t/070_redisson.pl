# Copyright (c) 2026, lockredis contributors

# The real Redisson and sessions of ours on the same keys: one counter that both
# sides write under the lock, who wakes whom, who may unlock what, what each
# sees of the other, leases that are kept, locks taken by force, names, and
# holders that are killed.
# Proves G1, G21, G23.

use strict;
use warnings FATAL => 'all';

use LockRedis::Redisson;
use LockRedis::Test qw(:DEFAULT quoted);
use LockRedis::Wait qw(limit now_ns);
use POSIX ();

LockRedis::Redisson->need;

my $redis = LockRedis::Redis->new;
my $node = LockRedis::Node->create('main', redis => $redis);
my $java = LockRedis::Redisson->new;

# Two Redisson clients: one with its default lease of 30 s, and one whose
# watchdog works with the lease that sessions get here for short.
my $lease_ms = 6000;
$java->connect('a', $redis);
$java->connect('b', $redis, watchdog => $lease_ms);
my %short_lease = (settings => { 'lockredis.lease' => "${lease_ms}ms" });

# Far less than the 30 s after which a sleeper that missed its wake-up looks.
my $soon = limit(20);

$node->wait_for_up;

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

# A session that waits in redis_lock(), subscribed.
sub session_waits
{
	my ($session, $key) = @_;

	$session->start('SELECT redis_lock(' . quoted($key) . ')');
	$redis->wait_for_subscribers($key, 1);
	$node->wait_for_waiters($key, 1);
	return;
}

sub milliseconds
{
	my (@ns) = @_;

	return join ' ', map { sprintf '%.1f', $_ / 1e6 } @ns;
}

# Instants taken in Java and here are compared below.
my $before = now_ns();
my $asked = $java->call('a.1', 'isLocked', 'clock')->ns;
ok($before <= $asked && $asked <= now_ns(),
	'System.nanoTime() is the clock of this test');

#
# One counter, 8 threads, 8 sessions, 200 steps each of lock, GET, SET, unlock.
#
{
	my $key = 'counter lock';
	my $file = "$PostgreSQL::Test::Utils::log_path/070_redisson.counter.history";
	my ($workers, $steps) = (8, 200);
	my %children;

	unlink $file;
	my $history = LockRedis::History->new(file => $file);
	$redis->cmd('SET', 'counter', 0);

	# All wait for the lock when it starts.
	java_lock('a.start', $key);
	foreach my $n (1 .. $workers)
	{
		my $pid = fork();
		die "could not fork: $!" unless defined $pid;
		if ($pid == 0)
		{
			eval { count_up("session $n", $key, $steps, $file); 1 }
			  or print STDERR "session $n: $@";
			POSIX::_exit($@ ? 1 : 0);
		}
		$children{$pid} = $n;
	}
	my @numbers =
	  map { $java->send("a.$_", 'counter', $key, 'counter', $steps, $file) }
	  1 .. $workers;
	$node->wait_for_waiters($key, $workers);

	my $started = now();
	java_unlock('a.start', $key);
	my @failed = grep { $java->wait($_, 240)->error } @numbers;
	is_deeply(\@failed, [], 'counter: all threads did their steps');
	foreach my $pid (sort { $a <=> $b } keys %children)
	{
		poll_until("session $children{$pid} to end",
			sub { waitpid($pid, POSIX::WNOHANG()) == $pid }, 240);
		is($?, 0, "counter: session $children{$pid} did its steps");
	}
	my $seconds = now() - $started;

	is($redis->cmd('GET', 'counter'), 2 * $workers * $steps, 'counter: exact');
	is_deeply([ $history->overlaps ], [], 'counter: never two holders');

	my @locks = grep { $_->{op} eq 'lock' } $history->entries;
	is(scalar @locks, 2 * $workers * $steps, 'counter: every step is recorded');
	my $last = '';
	my $turns = 0;
	foreach my $lock (sort { $a->{end_ns} <=> $b->{end_ns} } @locks)
	{
		my $side = $lock->{client} =~ /^session/ ? 'ours' : 'theirs';
		$turns++ if $side ne $last;
		$last = $side;
	}
	cmp_ok($turns, '>', 4, 'counter: both sides had turns');
	note sprintf 'counter: %.1f s, %d changes of side', $seconds, $turns;
	$redis->cmd('DEL', 'counter');
}

# What one of the children does.
sub count_up
{
	my ($name, $key, $steps, $file) = @_;
	my $lock = 'SELECT redis_lock(' . quoted($key) . ')';
	my $unlock = 'SELECT redis_unlock(' . quoted($key) . ')';

	# Only the parent talks to the harness.
	Test::More->builder->output('/dev/null');
	my $history = LockRedis::History->new(file => $file);
	my $session = $node->session;
	my $conn = $redis->connection;

	foreach my $step (1 .. $steps)
	{
		$history->record($name, 'lock', $key,
			sub { $session->value($lock) }, sub { 'ok' });
		$history->record($name, 'write', $key,
			sub {
				my $next = $conn->call('GET', 'counter') + 1;
				$conn->call('SET', 'counter', $next);
				return $next;
			});
		$history->record($name, 'unlock', $key,
			sub { $session->value($unlock) },
			sub { $_[0] eq 't' ? 'ok' : $_[0] });
	}
	$conn->disconnect;
	$session->quit;
	return;
}

my $one = $node->session;
my $two = $node->session;

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
# leaves its timer behind (RenewalTask of 4.7), and each of the timers that the
# counter has left would renew what is held now.
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
	note 'wake-up, ms: Redisson ' . milliseconds(@wakes_java);
	note 'wake-up, ms: ours ' . milliseconds(@wakes_us);
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
# Held for three leases: never taken by the other side, asked for or awaited.
#
{
	my $holder = $node->session(%short_lease);
	my $ms = 3 * $lease_ms + 500;

	$holder->query("SELECT redis_lock('ours for long')");
	java_lock('b.1', 'theirs for long');
	my $owner = $one->value("SELECT redis_lock_owner('ours for long')");

	my $started = now();
	my $polling = $java->send('a.1', 'pollTry', 'ours for long', $ms, 50);
	my $waiting = $java->send('a.2', 'tryLock', 'ours for long', $ms, -1);
	$two->start("SELECT redis_try_lock('theirs for long', '${ms}ms')");
	my ($tries, $successes) = (0, 0);
	while (now() - $started < $ms / 1000)
	{
		$tries++;
		$successes++
		  if $one->value("SELECT redis_try_lock('theirs for long')") eq 't';
		pause(0.05);
	}

	my ($their_tries, $their_successes) = $java->wait($polling)->or_die->words;
	is($their_successes, 0,
		"three leases: Redisson never gets ours ($their_tries tries)");
	cmp_ok($their_tries, '>', 10, 'three leases: Redisson did try');
	is($java->wait($waiting)->or_die->value,
		'false', 'three leases: nor by waiting');
	is($successes, 0, "three leases: we never get theirs ($tries tries)");
	cmp_ok($tries, '>', 10, 'three leases: we did try');
	is($two->wait->out, 'f', 'three leases: nor by waiting');

	$holder->query_is(
		"SELECT redis_is_held('ours for long'), redis_lock_owner('ours for long')",
		"t|$owner", 'three leases: ours is still held');
	cmp_ok(
		$node->value(
			"SELECT renewals FROM redis_locks WHERE key = 'ours for long'"),
		'>=', 3,
		'three leases: and was renewed');
	is($java->value('b.1', 'isHeld', 'theirs for long'),
		'true', 'three leases: theirs is still held');
	java_unlock('b.1', 'theirs for long');
	$holder->query_is("SELECT redis_unlock('ours for long')",
		't', 'three leases: given back');
	$holder->quit;
}

#
# Taken by force.  Ours: the session finds it out at its next renewal, and who
# has it since.  Theirs: their unlock is refused.
#
{
	my $holder = $node->session(settings => { 'lockredis.lease' => '6s' });

	foreach my $case (
		[ 'gone', 'deleted', undef ],
		[ 'taken', 'taken by ' . thread_owner('a.1'), 'a.1' ])
	{
		my ($key, $reason, $waiter) = @$case;

		$holder->query("SELECT redis_lock('$key')");
		my $number = $waiter ? java_waits($waiter, $key) : undef;
		my $start = now();
		is($java->value('a.2', 'forceUnlock', $key),
			'true', "force, $key: Redisson takes ours away");
		$java->wait($number)->or_die if $waiter;
		poll_until('the loss to be found',
			sub { $holder->value("SELECT redis_is_held('$key')") eq 'f' });
		note sprintf 'force, %s: found after %.2f s of a lease of 6 s',
		  $key, now() - $start;
		is( $node->value(
				"SELECT granted, lost_reason FROM redis_locks WHERE key = '$key'"),
			"f|$reason",
			"force, $key: found by a renewal");
		$holder->query_fails("SELECT redis_assert_held('$key')",
			'55000', qr/lost/, "force, $key: the holder is told");
		$holder->query_fails("SELECT redis_try_lock('$key')",
			'55000', qr/lost/, "force, $key: and cannot go on as if nothing was");
		$holder->query_warns("SELECT redis_unlock('$key')",
			'f', '01000', qr/lost/, "force, $key: until it gives it back");
		next unless $waiter;
		is($java->value($waiter, 'isHeld', $key),
			'true', "force, $key: the new holder is not disturbed");
		java_unlock($waiter, $key);
	}
	$holder->quit;

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

#
# A holder that is killed: the other side has the lock when the lease ends.
#
{
	my $service = LockRedis::Redisson->new;

	$service->connect('c', $redis, watchdog => $lease_ms);
	$service->call('c.1', 'lock', 'killed', -1)->or_die;
	session_waits($two, 'killed');
	my $start = now();
	$service->kill9;
	is($two->wait->error, undef, 'killed: Redisson was, and we have its lock');
	cmp_ok(now() - $start, '<', $lease_ms / 1000 + $soon,
		'killed: at the end of its lease');
	note sprintf 'killed: %.2f s after Redisson, lease %.1f s',
	  now() - $start, $lease_ms / 1000;
	$two->query_is("SELECT redis_unlock('killed')", 't', 'killed: given back');

	$java->shutdown($_) foreach 'a', 'b';
	nothing_left($node, $redis);

	# One backend that is killed takes the others with it.
	$_->quit foreach $one, $two;
	$java->connect('a', $redis);
	my $victim = $node->session(%short_lease);
	$victim->query("SELECT redis_lock('killed')");
	my $number = java_waits('a.1', 'killed');
	$start = now_ns();
	$victim->kill9;
	my $waited = ($java->wait($number)->or_die->ns - $start) / 1e9;
	cmp_ok($waited, '<', $lease_ms / 1000 + $soon,
		'killed: a backend was, and Redisson has its lock');
	note sprintf 'killed: %.2f s after the backend, lease %.1f s',
	  $waited, $lease_ms / 1000;
	is($java->value('a.1', 'isHeld', 'killed'), 'true', 'killed: and keeps it');
	java_unlock('a.1', 'killed');
	$victim->quit;
	ok($node->poll_query_until('postgres', 'SELECT true'),
		'killed: the server is back');
}

$java->shutdown('a');
$java->stop;
nothing_left($node, $redis);

done_testing();
