# Copyright (c) 2026, lockredis contributors

# Waiting and being woken.  Checks of the design: section 1, time limits and
# the rows of waiters; section 6, the local queue (first in first out, only its
# head talks to Redis, wake-ups are handed on) and waiting for foreign holders;
# section 5, token locks are polled.
#
# A lease is ten minutes here, of foreign holders as well, and nothing waits
# nearly as long: whoever is not woken in time fails the test.

use strict;
use warnings FATAL => 'all';

use LockRedis::Test;

my $lease_ms = 600_000;

# Who is woken has the lock within milliseconds.  Seconds later a waiter may look
# again for another reason (an alarm of its backend's idle time, left over), so
# a wake-up that was lost is not to be waited for so long.
my $soon = 4;
my %settings = ('lockredis.lease' => "${lease_ms}ms");
my $redis = LockRedis::Redis->new;
my $proxy = LockRedis::Proxy->new($redis);
my $node = LockRedis::Node->create('main', redis => $redis,
	settings => \%settings);
my $far = LockRedis::Node->create('far', url => $proxy->url,
	settings => \%settings);
my @s = map { $node->session } 1 .. 10;
my $viewer = $node->session;

$node->wait_for_up;
$far->wait_for_up;

sub channel
{
	return "redisson_lock__channel:{$_[0]}";
}

# Somebody else takes the key, and gives it back: the number of those who were
# told.  What a Redisson client does.
sub foreign_lock
{
	my ($key, $ttl) = @_;

	$redis->cmd('HSET', $key, '11111111-2222-3333-4444-555555555555:1', 1);
	$redis->cmd('PEXPIRE', $key, defined $ttl ? $ttl : $lease_ms);
	return;
}

sub publish
{
	my ($key) = @_;

	return $redis->cmd('PUBLISH', channel($key), '0');
}

sub foreign_unlock
{
	my ($key) = @_;

	$redis->cmd('DEL', $key) == 1 or die "$key was not locked\n";
	return publish($key);
}

# Sessions wait for a key of somebody else, one behind the other.  The first one
# asks twice: before and after the key's channel was subscribed.
sub queue_up
{
	my ($key, $sql, @sessions) = @_;
	my $calls = $redis->script_calls;

	$sessions[0]->start($sql);
	poll_until('the subscription, and another try',
		sub { $redis->script_calls >= $calls + 2 });
	foreach my $n (1 .. $#sessions)
	{
		$sessions[$n]->start($sql);
		wait_for_waiters($key, $n + 1);
	}
	return;
}

# How many scripts were called, once that does not change any more: a reply that
# was sent is read then, and who waits sleeps.
sub settled_calls
{
	my ($calls, $since) = (-1, 0);

	poll_until(
		'quiet',
		sub {
			my $now = $redis->script_calls;

			($calls, $since) = ($now, now()) if $now != $calls;
			return now() - $since > 0.2;
		});
	return $calls;
}

sub wait_for_waiters
{
	my ($key, $count) = @_;

	return poll_until(
		"$count waiters",
		sub {
			$viewer->value(
				"SELECT count(*) FROM redis_locks
				 WHERE key = '$key' AND waiting_since IS NOT NULL") == $count;
		});
}

sub stats
{
	my %stats;

	@stats{qw(waits timeouts cancels busy acquires)} = @{
		$viewer->query(
			'SELECT waits, timeouts, cancels, busy, acquires
			 FROM redis_lock_stats')->rows->[0]
	};
	return \%stats;
}

# Our connections to Redis, by what they are for
sub connections
{
	my ($role) = @_;
	my @found = grep { $_->{name} =~ /^lockredis-$role-/ } $redis->clients;

	return @found;
}

sub give_back
{
	my ($session, $key) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return $session->query_is("SELECT redis_unlock('$key')", 't',
		'and gives it back');
}

#
# First in first out.
#
{
	my @queue = @s[ 1 .. 5 ];

	$s[0]->query("SELECT redis_lock('fifo')");
	foreach my $n (0 .. $#queue)
	{
		$queue[$n]->start("SELECT redis_lock('fifo')");
		wait_for_waiters('fifo', $n + 1);
	}
	my @pids = map { $_->pid } @s[ 0 .. 5 ];
	is( $viewer->query(
			q{SELECT pid, granted, scope, kind, blocked_by
			  FROM redis_locks WHERE key = 'fifo'
			  ORDER BY waiting_since NULLS FIRST})->out,
		join("\n",
			"$pids[0]|t|session|reentrant|NULL",
			map { "$pids[$_]|f|session|reentrant|{"
				  . join(',', @pids[ 0 .. $_ - 1 ]) . '}' } 1 .. 5),
		'waiters are blocked by the holder and by those before them');
	is( $viewer->query(
			q{SELECT count(*) FROM redis_locks
			  WHERE key = 'fifo' AND NOT granted
			  AND waiting_since BETWEEN now() - interval '1 min' AND now()
			  AND num_nulls(hold_count, fence, lease, renewed, acquired_at,
				expires_in, renewals, lost_at, lost_reason, owner) = 10
			  })->out,
		'5', 'and nothing is known of them but since when they wait');
	$s[0]->query("SELECT redis_unlock('fifo')");
	foreach my $n (0 .. $#queue)
	{
		is($queue[$n]->wait(20)->error, undef, "number $n has it");
		is(scalar(grep { $_->is_running } @queue),
			$#queue - $n, 'and those behind do not');
		give_back($queue[$n], 'fifo');
	}
}

#
# Ten waiters behind a foreign holder: only the first one talks to Redis, and
# only when there is something to ask.
#
{
	my $before = stats();
	my $calls = $redis->script_calls;
	my $sessions = connections('session');
	my @fresh = map { $node->session } 1 .. 10;

	foreign_lock('ten');
	queue_up('ten', "SELECT redis_lock('ten')", @fresh);
	my $asked = settled_calls() - $calls;
	cmp_ok($asked, '>=', 2, 'ten waiters ask twice in all');
	cmp_ok($asked, '<=', 3, 'or once more if the subscription takes a second');
	$calls += $asked;
	is(connections('session') - $sessions, 1, 'over one connection');
	is($redis->subscribers(channel('ten')), 1, 'with one subscription');
	is(scalar(connections('listener')), 1, 'of one connection');
	$s[0]->query_is("SELECT redis_try_lock('ten')",
		'f', 'who does not want to wait is refused');
	is($redis->script_calls - $calls, 0, 'without asking');

	my @pids = map { $_->pid } @fresh;
	is( $viewer->query(
			q{SELECT pid, blocked_by FROM redis_locks WHERE key = 'ten'
			  ORDER BY waiting_since})->out,
		join("\n",
			map { "$pids[$_]|{" . join(',', @pids[ 0 .. $_ - 1 ]) . '}' }
			  0 .. 9),
		'the first one is blocked by nobody of this server');

	pause(1.5);
	is($redis->script_calls - $calls, 0, 'nobody polls');

	# One message is one try of one of them.
	is(publish('ten'), 1, 'a message');
	poll_until('the try', sub { $redis->script_calls > $calls });
	is(settled_calls() - $calls, 1, 'wakes one');
	is(scalar(grep { $_->is_running } @fresh), 10, 'who waits on');

	is(foreign_unlock('ten'), 1, 'a release');
	is($fresh[0]->wait($soon)->error, undef, 'wakes the first one');
	is(settled_calls() - $calls, 2, 'with one more command');
	is(scalar(grep { $_->is_running } @fresh), 9, 'and nobody else');
	is($redis->subscribers(channel('ten')), 1, 'still one subscription');

	# From one to the next it passes without Redis.
	foreach my $n (0 .. 8)
	{
		give_back($fresh[$n], 'ten');
		is($fresh[ $n + 1 ]->wait($soon)->error, undef, "then number $n");
	}
	is(settled_calls() - $calls, 2, 'without a command');
	give_back($fresh[9], 'ten');
	my $after = stats();
	is($after->{waits} - $before->{waits}, 10, 'ten waits are counted');
	is($after->{acquires} - $before->{acquires}, 10, 'and ten acquires');
	is($after->{timeouts} - $before->{timeouts}, 0, 'no timeout');
	$_->quit foreach @fresh;

	# Nobody waits: the subscription goes after a while.
	poll_until('the subscription to go',
		sub { $redis->subscribers(channel('ten')) == 0 });
	is(scalar(connections('listener')), 1, 'its connection is kept');
}

#
# A message wakes a waiter of its key, not of another one.
#
{
	foreign_lock($_) foreach 'left', 'right';
	queue_up('left', "SELECT redis_lock('left')", @s[ 0, 1 ]);
	queue_up('right', "SELECT redis_lock('right')", @s[ 2, 3 ]);
	is_deeply([ $redis->channels ], [ map { channel($_) } 'left', 'right' ],
		'two channels');
	is(scalar(connections('listener')), 1, 'on one connection');

	my $calls = settled_calls();
	foreign_unlock('right');
	is($s[2]->wait($soon)->error, undef, 'one has it');
	is(settled_calls() - $calls, 1, 'nobody else was woken');
	foreign_unlock('left');
	is($s[0]->wait($soon)->error, undef, 'the other one');
	give_back($s[0], 'left');
	give_back($s[2], 'right');
	is($s[1]->wait($soon)->error, undef, 'and the next');
	is($s[3]->wait($soon)->error, undef, 'each');
	give_back($s[1], 'left');
	give_back($s[3], 'right');
}

#
# A wake-up is handed on.  The head of the queue is stopped; the release is
# told, so it is the one that was woken; then it is cancelled, terminated, or
# its time limit has passed; it goes on, gives up, and the next one has to get
# the lock, since there is no second message.
#
foreach my $how ('cancel', 'terminate', 'time limit', 'lock_timeout')
{
	my $first = $node->session;
	my $sql = "SELECT redis_lock('hand on')";
	my $limit = 1.5;

	$sql = "SELECT redis_try_lock('hand on', '${limit}s')"
	  if $how eq 'time limit';
	$first->query("SET lock_timeout = '${limit}s'") if $how eq 'lock_timeout';
	foreign_lock('hand on');
	my $start = now();
	queue_up('hand on', $sql, $first);
	settled_calls();
	$first->freeze;
	$s[1]->start("SELECT redis_lock('hand on')");
	wait_for_waiters('hand on', 2);
	pause($start + $limit + 0.1 - now()) if $how =~ /time/;

	# The watchdog is given the time to wake it, but not to pass it over.
	is(foreign_unlock('hand on'), 1, "$how: told");
	pause(0.3);
	$first->cancel if $how eq 'cancel';
	$first->terminate if $how eq 'terminate';
	$first->thaw;

	is($s[1]->wait($soon)->error, undef, "$how: the next one has it");
	my $result = $first->wait($soon);
	if ($how eq 'cancel')
	{
		$result->fails('57014', qr/user request/, 'cancelled');
	}
	elsif ($how eq 'terminate')
	{
		$result->fails('57P01', qr/terminating/, 'terminated');
	}
	elsif ($how eq 'lock_timeout')
	{
		$result->fails('55P03', qr/canceling statement due to lock timeout/,
			'timed out');
	}
	else
	{
		is($result->out . $result->{raw}, 'f', 'out of time');
	}
	give_back($s[1], 'hand on');
	$first->quit;
}

#
# A head that is stopped is passed over: it was woken, ignores that for a
# second, and the second one gets its turn.  When it goes on it still waits.
#
{
	foreign_lock('stopped');
	queue_up('stopped', "SELECT redis_lock('stopped')", @s[ 0 .. 2 ]);
	settled_calls();
	$s[0]->freeze;
	foreign_unlock('stopped');
	my $told = now();
	is($s[1]->wait(20)->error, undef, 'the second one has it');
	cmp_ok(now() - $told, '>=', 0.9, 'after the first one had its chance');
	ok($s[2]->is_running, 'the third one does not');
	is( $viewer->query(
			q{SELECT pid, granted FROM redis_locks WHERE key = 'stopped'
			  AND waiting_since IS NOT NULL ORDER BY array_length(blocked_by, 1)}
		)->out,
		join("\n", map { $_->pid . '|f' } @s[ 0, 2 ]),
		'the first one is next, the third one behind it');
	$s[0]->thaw;
	pause(0.2);
	ok($s[0]->is_running, 'the first one waits on');
	give_back($s[1], 'stopped');
	is($s[0]->wait(20)->error, undef, 'and has it next');
	ok($s[2]->is_running, 'before the third one');
	give_back($s[0], 'stopped');
	is($s[2]->wait(20)->error, undef, 'which is the last');
	give_back($s[2], 'stopped');

	# Nobody tells that a foreign lease has ended: what a head wanted to do at
	# that time and does not do is a wake-up ignored, too.
	foreign_lock('stopped', 1500);
	queue_up('stopped', "SELECT redis_lock('stopped')", @s[ 0, 1 ]);
	settled_calls();
	$s[0]->freeze;
	my $passed = eval { $s[1]->wait(10)->error || 'taken' };
	$s[0]->thaw;
	is($passed, 'taken', 'a lease has ended untold: the second one has it');
	$s[0]->wait(20) unless defined $passed;
	give_back($s[ defined $passed ? 1 : 0 ], 'stopped');
	my $last = $s[ defined $passed ? 0 : 1 ];
	is($last->wait(20)->error, undef, 'then the first one');
	give_back($last, 'stopped');

	# With nobody behind it the wake-up is kept for it.
	foreign_lock('stopped');
	queue_up('stopped', "SELECT redis_lock('stopped')", $s[0]);
	settled_calls();
	$s[0]->freeze;
	foreign_unlock('stopped');
	pause(2.1);
	$s[0]->thaw;
	is($s[0]->wait(20)->error, undef, 'one that is alone gets it later');
	give_back($s[0], 'stopped');
}

#
# The end of a foreign lease is not told by anybody.
#
{
	my $start = now();
	foreign_lock('ends', 1200);
	$s[0]->query_is("SELECT redis_lock('ends')", '', 'a lease has ended');
	cmp_ok(now() - $start, '>=', 1.1, 'not before its time');
	give_back($s[0], 'ends');

	# A holder keeps the key for a shorter time, and says so.
	foreign_lock('shorter');
	queue_up('shorter', "SELECT redis_lock('shorter')", @s[ 0, 1 ]);
	$start = now();
	$redis->cmd('PEXPIRE', 'shorter', 1500);
	publish('shorter');
	is($s[0]->wait(20)->error, undef, 'a shortened lease has ended');
	cmp_ok(now() - $start, '>=', 1.4, 'not before its time');
	ok($s[1]->is_running, 'for one of two');
	give_back($s[0], 'shorter');
	is($s[1]->wait(20)->error, undef, 'then for the other one');
	give_back($s[1], 'shorter');

	# A lease that is renewed is waited for again and again, without polling.
	my $calls = $redis->script_calls;
	foreign_lock('renewed', 1500);
	$s[0]->start("SELECT redis_lock('renewed')");
	my $until = now() + 3.2;
	while (now() < $until)
	{
		$redis->cmd('PEXPIRE', 'renewed', 1500);
		pause(0.1);
	}
	ok($s[0]->is_running, 'a renewed foreign lease');
	cmp_ok($redis->script_calls - $calls, '<=', 6, 'is asked for seldom');
	foreign_unlock('renewed');
	is($s[0]->wait(20)->error, undef, 'until it is given back');
	give_back($s[0], 'renewed');
}

#
# A hash without a TTL never ends: only a message helps.
#
{
	$redis->cmd('HSET', 'endless', 'somebody:1', 1);
	queue_up('endless', "SELECT redis_lock('endless')", $s[0]);
	my $calls = settled_calls();
	pause(1.5);
	is($redis->script_calls - $calls, 0, 'a lock without TTL is not polled');
	foreign_unlock('endless');
	is($s[0]->wait(20)->error, undef, 'but waited for');
	give_back($s[0], 'endless');
}

#
# A string with a TTL is a token lock of somebody who tells nothing.
#
{
	$redis->cmd('SET', 'token', 'secret', 'PX', $lease_ms);
	$s[0]->query_is("SELECT redis_try_lock('token')", 'f', 'busy');
	my $calls = $redis->script_calls;
	$s[0]->start("SELECT redis_lock('token')");
	wait_for_waiters('token', 1);
	pause(2);
	my $polls = $redis->script_calls - $calls;
	cmp_ok($polls, '>=', 3, 'polled');
	cmp_ok($polls, '<=', 20, 'but not all the time');
	is($redis->cmd('GET', 'token'), 'secret', 'and left alone');
	$redis->cmd('DEL', 'token');
	is($s[0]->wait(20)->error, undef, 'taken when it is gone');
	give_back($s[0], 'token');

	$redis->cmd('SET', 'token', 'secret', 'PX', 1000);
	$s[0]->query_is("SELECT redis_try_lock('token', '20s')",
		't', 'or when its time is over');
	give_back($s[0], 'token');
}

#
# Time limits: the shorter one of wait and lock_timeout decides, behind a local
# holder and behind a foreign one, as head of the queue and behind it.
#
{
	$s[9]->query("SELECT redis_lock('local')");
	foreign_lock($_) foreach 'foreign', 'queued';
	queue_up('queued', "SELECT redis_lock('queued')", $s[8]);
	my $before = stats();

	foreach my $key ('local', 'foreign', 'queued')
	{
		my $on_time = sub {
			my ($ms, $result, $what) = @_;
			local $Test::Builder::Level = $Test::Builder::Level + 1;

			cmp_ok($result->ms, '>=', $ms - 1, "$key, $what: not too early");
			cmp_ok($result->ms, '<', 10_000, "$key, $what: nor too late");
		};
		my $false = sub {
			my ($ms, $sql, $what) = @_;
			local $Test::Builder::Level = $Test::Builder::Level + 1;
			my $result = $s[0]->query("SELECT $sql");

			is($result->out . $result->{raw}, 'f', "$key, $what: false");
			$on_time->($ms, $result, $what);
		};
		my $raises = sub {
			my ($ms, $sql, $what) = @_;
			local $Test::Builder::Level = $Test::Builder::Level + 1;
			my $result = $s[0]->query("SELECT $sql");

			$result->fails('55P03',
				qr/canceling statement due to lock timeout/,
				"$key, $what: error");
			$on_time->($ms, $result, $what);
		};

		$false->(0, "redis_try_lock('$key')", 'no wait');
		$false->(200, "redis_try_lock('$key', '200ms')", 'wait');
		$s[0]->query("SET lock_timeout = '200ms'");
		$raises->(200, "redis_lock('$key')", 'lock_timeout');
		$raises->(200, "redis_try_lock('$key', NULL)",
			'lock_timeout, endless wait');
		$raises->(200, "redis_try_lock('$key', '20s')",
			'lock_timeout, longer wait');
		$false->(150, "redis_try_lock('$key', '150ms')",
			'lock_timeout, shorter wait');
		$false->(0, "redis_try_lock('$key')", 'lock_timeout, no wait');
		$s[0]->query("SET lock_timeout = '20s'");
		$false->(200, "redis_try_lock('$key', '200ms')",
			'longer lock_timeout');
		$s[0]->query('RESET lock_timeout');
	}
	my $after = stats();

	# A slow request may use up the time before there is anything to wait for.
	my %more = map { $_ => $after->{$_} - $before->{$_} } keys %$after;
	is($more{timeouts} + $more{busy}, 24, 'timeouts and refusals are counted');
	cmp_ok($more{timeouts}, '>=', 12, 'most of them as timeouts');
	cmp_ok($more{busy}, '>=', 6, 'those without a wait as busy');

	# The limit is for waiting, not for being served.
	$s[0]->query_is("SELECT redis_try_lock('free', '0'), redis_unlock('free')",
		't|t', 'a wait of nothing is enough for a free lock');

	foreach my $key ('local', 'foreign')
	{
		$s[0]->query("SET statement_timeout = '200ms'");
		$s[0]->query_fails("SELECT redis_lock('$key')",
			'57014', qr/statement timeout/, "$key: statement_timeout");
		$s[0]->query_fails("SELECT redis_try_lock('$key', '20s')",
			'57014', qr/statement timeout/, "$key: statement_timeout, wait");
		$s[0]->query('RESET statement_timeout');

		$s[0]->start("SELECT redis_lock('$key')");
		wait_for_waiters($key, 1);
		is($viewer->value('SELECT pg_cancel_backend(' . $s[0]->pid . ')'),
			't', 'pg_cancel_backend');
		$s[0]->wait(20)->fails('57014', qr/user request/, "$key: cancelled");
		wait_for_waiters($key, 0);
		$s[0]->query_is("SELECT redis_try_lock('$key')",
			'f', "$key: the session works as before");
	}
	is(stats()->{cancels} - $before->{cancels}, 6, 'cancels are counted');

	# No limit.
	my @endless = ('NULL', "'178000000 years'");
	push @endless, "'infinity'"
	  if $viewer->value('SHOW server_version_num') >= 170000;
	foreach my $wait (@endless)
	{
		foreign_lock('forever');
		queue_up('forever', "SELECT redis_try_lock('forever', $wait)", $s[0]);
		pause(0.5);
		ok($s[0]->is_running, "wait $wait");
		foreign_unlock('forever');
		is($s[0]->wait(20)->out, 't', 'until it is given back');
		give_back($s[0], 'forever');
	}

	give_back($s[9], 'local');
	foreign_unlock('queued');
	is($s[8]->wait(20)->error, undef, 'the one before has it');
	give_back($s[8], 'queued');
	foreign_unlock('foreign');
}

#
# The subscriber's connection is killed while somebody waits, and the release
# is told when nobody listens.  It has to be noticed when the connection is
# there again.
#
{
	foreign_lock('deaf');
	queue_up('deaf', "SELECT redis_lock('deaf')", @s[ 0, 1 ]);
	my ($ear) = connections('listener');
	$redis->cmd('MULTI');
	$redis->cmd('CLIENT', 'KILL', 'ID', $ear->{id});
	$redis->cmd('DEL', 'deaf');
	$redis->cmd('PUBLISH', channel('deaf'), '0');
	is_deeply($redis->cmd('EXEC'), [ 1, 1, 0 ], 'nobody hears the release');
	is($s[0]->wait($soon)->error, undef, 'and yet it is noticed');
	ok($s[1]->is_running, 'by one');
	poll_until('the subscription',
		sub { $redis->subscribers(channel('deaf')) == 1 });
	give_back($s[0], 'deaf');
	is($s[1]->wait($soon)->error, undef, 'then by the other one');
	give_back($s[1], 'deaf');

	# The new subscription works.
	foreign_lock('deaf');
	queue_up('deaf', "SELECT redis_lock('deaf')", $s[0]);
	($ear) = connections('listener');
	$redis->cmd('CLIENT', 'KILL', 'ID', $ear->{id});
	poll_until('the subscription',
		sub { $redis->subscribers(channel('deaf')) == 1 });
	is(foreign_unlock('deaf'), 1, 'the release is told');
	is($s[0]->wait($soon)->error, undef, 'and heard');
	give_back($s[0], 'deaf');
}

#
# A release between the first try and the subscription: the proxy keeps back
# the SUBSCRIBE, the key is given back, nobody is told; the try that follows
# the confirmation finds it free.
#
{
	my $one = $far->session;
	my $two = $far->session;
	my $hold = sub {
		my ($key) = @_;
		my $rule = $proxy->rule(
			match => "\r\nSUBSCRIBE\r\n",
			action => 'hold');

		foreign_lock($key);
		$one->start("SELECT redis_lock('$key')");
		$proxy->wait_for_rule($rule);
		return;
	};
	my $least = 1e9;

	# As long as there is no confirmation the waiter looks every second.  The
	# release comes right after it has looked, so that the next look is not
	# what finds the key free; one time of two a slow machine can keep up.
	foreach my $round (1 .. 2)
	{
		my $calls = $redis->script_calls;

		$hold->("gap $round");
		poll_until('the second look',
			sub { $redis->script_calls >= $calls + 2 });
		is(foreign_unlock("gap $round"), 0, 'the release is told to nobody');
		my $told = now();
		$proxy->release;
		is($one->wait($soon)->error, undef, 'but noticed');
		my $took = now() - $told;
		$least = $took if $took < $least;
		give_back($one, "gap $round");
	}
	cmp_ok($least, '<', 0.5, 'by the try after the confirmation');

	# And by that look, if the confirmation does not come.
	$hold->('deaf gap');
	foreign_unlock('deaf gap');
	is($one->wait($soon)->error, undef, 'even without a subscription');
	$proxy->release;
	give_back($one, 'deaf gap');

	# A message comes while the head asks: the reply, which says busy for ten
	# minutes, is kept back until the release has been told.
	foreign_lock('crossing');
	queue_up('crossing', "SELECT redis_lock('crossing')", $one);
	my $rule = $proxy->rule(
		on => 'reply',
		match => 'crossing',
		action => 'hold');
	publish('crossing');
	$proxy->wait_for_rule($rule);
	is(foreign_unlock('crossing'), 1, 'told while the head asks');
	pause(0.2);
	$proxy->release;
	is($one->wait($soon)->error, undef, 'and not forgotten');
	give_back($one, 'crossing');

	# The same with a second waiter, and a head that gives up over it.
	foreign_lock('crossing');
	queue_up('crossing', "SELECT redis_lock('crossing')", $one);
	$two->start("SELECT redis_lock('crossing')");
	poll_until(
		'two waiters',
		sub {
			$far->value('SELECT count(*) FROM redis_locks') == 2;
		});
	$rule = $proxy->rule(
		on => 'reply',
		match => 'crossing',
		action => 'hold');
	publish('crossing');
	$proxy->wait_for_rule($rule);
	foreign_unlock('crossing');
	$one->cancel;
	$one->wait($soon)->fails('57014', qr/user request/, 'the head is cancelled');
	is($two->wait($soon)->error, undef, 'the next one has it');
	$proxy->release;
	give_back($two, 'crossing');
	$_->quit foreach $one, $two;
}

#
# A head that is stopped in the middle of its first try: nothing is subscribed
# yet, so nobody will tell anything, and the end of the foreign lease is for it
# alone to see.  It is passed over when a request can no longer be under way.
#
{
	my $one = $far->session;
	my $two = $far->session;

	$far->set(
		'lockredis.connect_timeout' => '500ms',
		'lockredis.command_timeout' => '500ms');
	foreign_lock('halfway', 1500);
	my $rule = $proxy->rule(
		on => 'reply',
		match => 'halfway',
		action => 'hold');
	$one->start("SELECT redis_lock('halfway')");
	$proxy->wait_for_rule($rule);
	$one->freeze;
	$two->start("SELECT redis_lock('halfway')");
	my $passed = eval { $two->wait(12)->error || 'taken' };
	$proxy->release;
	$one->thaw;
	is($passed, 'taken', 'a head stopped while it asks is passed over');
	$two->query("SELECT redis_unlock('halfway')") if defined $passed;
	$one->wait(20);
	$_->quit foreach $one, $two;
	$far->set(
		'lockredis.connect_timeout' => '2s',
		'lockredis.command_timeout' => '3s');
}

#
# Releases at any moment of a wait: none is missed.
#
{
	my ($most, $sum, $noticed, $rounds) = (0, 0, 0, 40);

	foreach my $round (1 .. $rounds)
	{
		foreign_lock('any');
		$s[0]->start("SELECT redis_lock('any')");
		pause(rand() * 0.01);
		foreign_unlock('any');
		my $told = now();
		$noticed++ unless defined $s[0]->wait($soon)->error;
		my $took = now() - $told;
		$most = $took if $took > $most;
		$sum += $took;
		$s[0]->query("SELECT redis_unlock('any')");
	}
	note sprintf 'woken after %.1f ms on average, %.1f ms at most',
	  $sum / $rounds * 1e3, $most * 1e3;
	is($noticed, $rounds, 'releases at any moment are noticed');
}

#
# Two servers that wait for each other: each has a key that the other one
# wants; both give back and take again, round after round.
#
{
	my @here = @s[ 0, 1 ];
	my @there = map { $far->session } 1 .. 2;
	my ($sum, $woken, $rounds) = (0, 0, 10);
	my @cases = (
		[ 'ping', $here[0], $there[1] ],
		[ 'pong', $there[0], $here[1] ]);

	$_->[1]->query("SELECT redis_lock('$_->[0]')") foreach @cases;
	foreach my $round (1 .. $rounds)
	{
		$_->[2]->start("SELECT redis_lock('$_->[0]')") foreach @cases;
		poll_until('both subscriptions',
			sub { 2 == grep { $redis->subscribers(channel($_->[0])) } @cases });
		foreach my $case (@cases)
		{
			my ($key, $holder, $waiter) = @$case;
			my $told = now();

			$holder->query("SELECT redis_unlock('$key')");
			$woken++ unless defined $waiter->wait($soon)->error;
			$sum += now() - $told;
			$waiter->query("SELECT redis_unlock('$key')");
			$holder->query("SELECT redis_lock('$key')");
		}
	}
	is($woken, 2 * $rounds, "$rounds rounds of two servers");
	note sprintf 'given back and taken in %.1f ms on average',
	  $sum / (2 * $rounds) * 1e3;
	is(scalar(connections('listener')), 2, 'two servers are two listeners');
	$_->query('SELECT redis_unlock_all()') foreach @here, @there;
	$_->quit foreach @there;
}

$_->quit foreach @s, $viewer;
nothing_left([ $node, $far ], $redis);
done_testing();
