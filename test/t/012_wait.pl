# Copyright (c) 2026, lockredis contributors

# Waiting and being woken: the local queue is first in first out, only its head
# talks to Redis, wake-ups are handed on, a head that does not run is passed over.
# Where nobody tells, or the message is not heard: leases that end, locks of clients that publish
# nothing (polled), time limits, a subscription that comes too late.  (A head that gives up when it
# was woken, and waiters whose connections are cut off, are the simulator's: its mutants
# give_up_quietly and still_subscribed.)
#
# A lease is ten minutes here, of foreign holders as well, and nothing waits
# nearly as long: whoever is not woken in time fails the test.
#
# Proves G1, G5, G18, G21, G31, G36.

use LockRedis::Test;

# Who is woken has the lock within milliseconds.  Seconds later a waiter may look
# again for another reason (an alarm of its backend's idle time, left over), so
# a wake-up that was lost is not to be waited for so long.
my $soon = 4;
my $lease_ms = 600_000;
my %settings = ('lockredis.lease' => "${lease_ms}ms");
my ($node, $redis, @s) = servers(sessions => 10, settings => \%settings);
my $proxy = LockRedis::Proxy->new($redis);
my $far = LockRedis::Node->create('far', url => $proxy->url, settings => \%settings);
my $viewer = $node->session;

$far->wait_for_up;

# Sessions wait for a key of somebody else, one behind the other.  The first one
# asks twice: before and after the key's channel was subscribed.
sub queue_up ($key, $sql, @sessions)
{
	$redis->after_second_look($key, sub { $sessions[0]->start($sql) });
	foreach my $n (1 .. $#sessions)
	{
		$sessions[$n]->start($sql);
		$node->wait_for_waiters($key, $n + 1);
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
sub connections ($role)
{
	my @found = grep { $_->{name} =~ /^lockredis-$role-/ } $redis->clients;

	return @found;
}

sub give_back ($session, $key)
{
	return $session->query_is("SELECT redis_unlock('$key')", 't',
		'and gives it back');
}

#
# First in first out.
#
{
	my @queue = @s[ 1 .. 5 ];

	# The holder has it at both levels, which are two rows, and stands there once.
	$s[0]->query("BEGIN; SELECT redis_lock('fifo'), redis_xact_lock('fifo')");
	foreach my $n (0 .. $#queue)
	{
		$queue[$n]->start("SELECT redis_lock('fifo')");
		$node->wait_for_waiters('fifo', $n + 1);
	}
	my @pids = map { $_->pid } @s[ 0 .. 5 ];
	is( $viewer->query(
			q{SELECT pid, granted, scope, kind, blocked_by
			  FROM redis_locks WHERE key = 'fifo'
			  ORDER BY waiting_since NULLS FIRST, scope})->out,
		join("\n",
			"$pids[0]|t|session|reentrant|NULL",
			"$pids[0]|t|transaction|reentrant|NULL",
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
	$s[0]->query("COMMIT; SELECT redis_unlock('fifo')");
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

	$redis->foreign_lock('ten');
	my $began = now();
	queue_up('ten', "SELECT redis_lock('ten')", @fresh);
	my $asked = settled_calls() - $calls;
	cmp_ok($asked, '>=', 2, 'ten waiters ask twice in all');
	cmp_ok($asked, '<=', 2 + now() - $began, 'or once more for each second that the subscription takes');
	$calls += $asked;
	is(connections('session') - $sessions, 1, 'over one connection');
	is($redis->subscribers($redis->channel('ten')), 1, 'with one subscription');
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
	is($redis->tell_waiters('ten'), 1, 'a message');
	poll_until('the try', sub { $redis->script_calls > $calls });
	is(settled_calls() - $calls, 1, 'wakes one');
	is(scalar(grep { $_->is_running } @fresh), 10, 'who waits on');

	is($redis->foreign_unlock('ten'), 1, 'a release');
	is($fresh[0]->wait($soon)->error, undef, 'wakes the first one');
	is(settled_calls() - $calls, 2, 'with one more command');
	is(scalar(grep { $_->is_running } @fresh), 9, 'and nobody else');
	is($redis->subscribers($redis->channel('ten')), 1, 'still one subscription');

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
	$redis->wait_for_subscribers('ten', 0);
	is(scalar(connections('listener')), 1, 'its connection is kept');
}

#
# A head that is stopped is passed over: it was woken, ignores that for a
# second, and the second one gets its turn.  When it goes on it still waits.
#
{
	$redis->foreign_lock('stopped');
	queue_up('stopped', "SELECT redis_lock('stopped')", @s[ 0 .. 2 ]);
	settled_calls();
	$s[0]->freeze;
	my $told = now();
	$redis->foreign_unlock('stopped');
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
}

#
# The end of a foreign lease is not told by anybody.
#
{
	my $start = now();
	$redis->foreign_lock('ends', ms => 1200);
	$s[0]->query_is("SELECT redis_lock('ends')", '', 'a lease has ended');
	cmp_ok(now() - $start, '>=', 1.1, 'not before its time');
	give_back($s[0], 'ends');

	# A holder keeps the key for a shorter time, and says so.
	$redis->foreign_lock('shorter');
	queue_up('shorter', "SELECT redis_lock('shorter')", @s[ 0, 1 ]);
	$start = now();
	$redis->cmd('PEXPIRE', 'shorter', 1500);
	$redis->tell_waiters('shorter');
	is($s[0]->wait(20)->error, undef, 'a shortened lease has ended');
	cmp_ok(now() - $start, '>=', 1.4, 'not before its time');
	ok($s[1]->is_running, 'for one of two');
	give_back($s[0], 'shorter');
	is($s[1]->wait(20)->error, undef, 'then for the other one');
	give_back($s[1], 'shorter');
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
	$redis->foreign_unlock('endless');
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
	$node->wait_for_waiters('token', 1);
	my $since = now();
	my $polls = 0;
	poll_until('polls',
		sub { ($polls = $redis->script_calls - $calls) >= 3 && now() - $since >= 2 });
	cmp_ok($polls, '<=', 10 * (now() - $since), 'but not all the time');
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
	$redis->foreign_lock($_) foreach 'foreign', 'queued';
	queue_up('queued', "SELECT redis_lock('queued')", $s[8]);
	my $before = stats();

	foreach my $key ('local', 'foreign', 'queued')
	{
		# [ lock_timeout, call, how long it takes in ms, false or the error ]
		foreach my $case (
			[ '0', "redis_try_lock('$key')", 0, 'f' ],
			[ '0', "redis_try_lock('$key', '200ms')", 200, 'f' ],
			[ '200ms', "redis_lock('$key')", 200, '55P03' ],
			[ '200ms', "redis_try_lock('$key', NULL)", 200, '55P03' ],
			[ '200ms', "redis_try_lock('$key', '20s')", 200, '55P03' ],
			[ '200ms', "redis_try_lock('$key', '150ms')", 150, 'f' ],
			[ '200ms', "redis_try_lock('$key')", 0, 'f' ],
			[ '20s', "redis_try_lock('$key', '200ms')", 200, 'f' ])
		{
			my ($limit, $call, $ms, $ends) = @$case;
			my $name = "$call, lock_timeout $limit";

			$s[0]->query("SET lock_timeout = '$limit'");
			my $result = $s[0]->query("SELECT $call");
			$ends eq 'f'
			  ? is($result->out . $result->{raw}, 'f', "$name: false")
			  : $result->fails($ends, qr/canceling statement due to lock timeout/, $name);
			cmp_ok($result->ms, '>=', $ms - 1, "$name: not too early");
			cmp_ok($result->ms, '<', 10_000, "$name: nor too late");
		}
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

	# No limit.
	my @endless = ('NULL', "'178000000 years'");
	push @endless, "'infinity'"
	  if $viewer->value('SHOW server_version_num') >= 170000;
	foreach my $wait (@endless)
	{
		$redis->foreign_lock('forever');
		queue_up('forever', "SELECT redis_try_lock('forever', $wait)", $s[0]);
		pause(0.5);
		ok($s[0]->is_running, "wait $wait");
		$redis->foreign_unlock('forever');
		is($s[0]->wait(20)->out, 't', 'until it is given back');
		give_back($s[0], 'forever');
	}

	give_back($s[9], 'local');
	$redis->foreign_unlock('queued');
	is($s[8]->wait(20)->error, undef, 'the one before has it');
	give_back($s[8], 'queued');
	$redis->foreign_unlock('foreign');
}

#
# The reply to the PING of a silent connection is an error, and a subscription is requested
# behind it.  That error is none of the subscription.
#
{
	$far->set('lockredis.command_timeout' => '60s');
	my ($one, $two) = map { $far->session } 1 .. 2;
	my $ping = $proxy->rule(match => "\r\nPING\r\n", action => 'hold');
	my $behind = $proxy->rule(match => $redis->channel('behind'), action => 'delay');

	$redis->foreign_lock($_) foreach 'silent', 'behind';
	$one->start("SELECT redis_lock('silent')");
	$proxy->wait_for_rule($ping);
	$far->log_since_here;
	$two->start("SELECT redis_lock('behind')");
	$proxy->wait_for_rule($behind);
	$redis->cmd('ACL', 'SETUSER', 'default', '-ping');
	$proxy->let_go;
	$redis->wait_for_subscribers('behind', 1);
	$redis->foreign_unlock('behind');
	is($two->wait($soon)->error, undef, 'a PING is refused: a subscription behind it is not');
	ok(!$far->logged(qr/refused a subscription|no release messages/), 'nor taken for refused');
	$redis->cmd('ACL', 'SETUSER', 'default', '+ping');
	$redis->foreign_unlock('silent');
	is($one->wait($soon)->error, undef, 'nor is one before it');
	$far->set('lockredis.command_timeout' => '3s');
	$_->quit foreach $one, $two;
}

# A message that comes meanwhile is no answer to a PING.
{
	my $one = $far->session;
	my $ping = $proxy->rule(match => "\r\nPING\r\n", action => 'hold', times => 0);

	$redis->foreign_lock('pinged');
	$one->start("SELECT redis_lock('pinged')");
	$proxy->wait_for_rule($ping);
	$far->log_since_here;
	$redis->tell_waiters('pinged');
	$far->wait_until_logged(qr/no release messages/);
	is($proxy->acted($ping), 1, 'a PING that is not answered in time: not sent again');
	$proxy->let_go;
	$redis->foreign_unlock('pinged');
	is($one->wait(20)->error, undef, 'who waits gets the lock');
	$one->quit;
}

#
# A release between the first try and the subscription: the proxy keeps back the SUBSCRIBE, the key
# is given back, nobody is notified.  (That the try which follows the confirmation finds it free is the
# simulator's: its mutant confirm_ignored.)
#
{
	my $one = $far->session;
	my $rule = $proxy->rule(match => "\r\nSUBSCRIBE\r\n", action => 'hold');

	# As long as there is no confirmation the waiter looks every second.
	$redis->foreign_lock('deaf gap');
	$one->start("SELECT redis_lock('deaf gap')");
	$proxy->wait_for_rule($rule);
	$redis->foreign_unlock('deaf gap');
	is($one->wait($soon)->error, undef, 'even without a subscription');
	$proxy->release;
	give_back($one, 'deaf gap');

	# A message comes while the head asks: the reply, which says busy for ten
	# minutes, is kept back until the release has been published.
	$redis->foreign_lock('crossing');
	queue_up('crossing', "SELECT redis_lock('crossing')", $one);
	$rule = $proxy->rule(on => 'reply', match => 'crossing', action => 'hold');
	$redis->tell_waiters('crossing');
	$proxy->wait_for_rule($rule);
	is($redis->foreign_unlock('crossing'), 1, 'told while the head asks');
	pause(0.2);
	$proxy->release;
	is($one->wait($soon)->error, undef, 'and not forgotten');
	give_back($one, 'crossing');
	$one->quit;
}

#
# Another session of the server must not wait for a process that is stopped.
#
# one's create runs and one is stopped before it reads the reply; two waits
# behind.  Nobody nudges one, as nobody can know; but it does not end its
# request in the time that it has for it.
#
{
	$far->set('lockredis.connect_timeout' => '20s', 'lockredis.command_timeout' => '60s');
	my ($one, $two) = map { $far->connected_session } 1 .. 2;
	my $rule = $proxy->rule(on => 'reply', match => 'behind', action => 'hold');

	$far->set('lockredis.connect_timeout' => '1s', 'lockredis.command_timeout' => '2s');
	$one->start("SELECT redis_lock('behind', '1s')");
	$proxy->wait_for_rule($rule);
	$one->freeze;
	$two->start("SELECT redis_lock('behind', '60s')");
	is($two->wait(20)->error, undef, 'a head that is stopped while it asks: the next goes on');
	$proxy->let_go;
	$one->thaw;
	$one->wait(30)->fails('58030', qr/store/, 'it has nothing when it goes on');
	poll_until('the orphan to be given back', sub { $far->count_locks <= 1 });
	$two->query_is("SELECT redis_is_held('behind')", 't', 'the next is not disturbed');
	give_back($two, 'behind');
	$_->quit foreach $one, $two;
}

end_test([ $node, $far ], $redis);
