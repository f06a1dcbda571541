# Copyright (c) 2026, lockredis contributors

# Leases: renewed, given, mixed, extended; how precise they are, and a thousand of them renewed
# in few commands.  At the end of a lease local waiters take over without a watchdog (020_loss has
# one).  An extension that is not answered changes nothing.  (That no lock outlives its lease is the
# simulator's: its mutants grant_from_reply, from_reply, extend_from_reply and lease_read_twice.)
# Proves G2, G3, G6, G19, G21, G29.

use LockRedis::Test;

my $redis = lock_store;
my $node =
  LockRedis::Node->create('main', redis => $redis, settings => { 'lockredis.lease' => '6s' });
my ($one, $two, $viewer) = map { $node->session } 1 .. 3;

$node->wait_for_up;

# Columns of a key's rows in redis_locks
sub row ($key, $columns)
{
	return $viewer->query("SELECT $columns FROM redis_locks WHERE key = '$key'")->out;
}

sub lengthened_by ($ms, $end, $name)
{
	return cmp_ok($end->{after}[0], '>=', $end->{before}[1] + $ms, $name);
}

sub unchanged ($end, $name)
{
	return ok(
		$end->{after}[1] >= $end->{before}[0]
		  && $end->{after}[0] <= $end->{before}[1],
		$name) || diag explain $end;
}

sub not_shortened ($end, $name) { return cmp_ok($end->{after}[1], '>=', $end->{before}[0], $name); }

# When a key ends, on Redis' clock in ms: the earliest and the latest moment
# that the replies allow.  Dies when there is no TTL.
sub ends_at ($key)
{
	my $time = sub {
		my ($s, $us) = @{ $redis->cmd('TIME') };
		return $s * 1000 + $us / 1000;
	};
	my $before = $time->();
	my $ttl = $redis->cmd('PTTL', $key);
	my $after = $time->();

	die "$key has no TTL: $ttl\n" if $ttl < 0;
	return ($before + $ttl - 1, $after + $ttl + 1);
}

# TAP: what a statement did to the end of a key.
sub end_of ($key, $do)
{
	my @before = ends_at($key);

	$do->();
	my @after = ends_at($key);
	return { before => \@before, after => \@after };
}

#
# Renewed: a session runs one long statement, and its lock is held for many
# leases.  What comes next goes on meanwhile; time passes in watch(), which
# looks at the TTL of the lock.
#
my $holder = $node->session;
my $held_since = now();
my $stats = $viewer->value('SELECT renewals FROM redis_lock_stats');
$holder->query("SELECT redis_lock('long')");
my $long_owner = $redis->owner_of('long');
$holder->start('SELECT pg_sleep(15)');

my @ttl;

sub watch ($seconds)
{
	my $until = now() + $seconds;

	do
	{
		push @ttl, $redis->cmd('PTTL', 'long');
		pause(0.02);
	} while (now() < $until);
	return;
}

#
# Given: not renewed, and ends.
#
{
	my ($last, $rises) = (5000, 0);

	$one->query_is("SELECT redis_lock('given', '5s')", '', 'given a lease');
	is(row('given', 'granted, renewed, lease'), 't|f|00:00:05', 'as redis_locks shows');
	poll_until(
		'a given lease to end',
		sub {
			my $ttl = $redis->cmd('PTTL', 'given');

			watch(0.01);
			$rises++ if $ttl > $last;
			$last = $ttl;
			return $ttl < 0;
		});
	is($rises, 0, 'the TTL never rose, and ended');
	is( row('given',
			q{granted, hold_count, renewed, renewals, expires_in, lost_reason,
			  lost_at BETWEEN acquired_at + '4900ms' AND clock_timestamp(),
			  waiting_since, blocked_by, pid}),
		'f|1|f|0|NULL|expired|t|NULL|NULL|' . $one->pid,
		'a lost hold in redis_locks');
	like(row('given', 'owner'), qr/:\d+$/, 'with the owner it had');
	$one->query_warns("SELECT redis_unlock('given')",
		'f', '01000', qr/lost.*expired/s, 'unlock says that it was lost');
}

#
# Mixed: no re-entry shortens, and a scope is renewed if one of its holds
# asked for it, until the last one is given back.
#
{
	# [ key, its first lease (NULL: renewed), the next one, what becomes of its end, what is shown ]
	foreach my $case (
		[
			'short long', "'5s'", "'1min'", sub { lengthened_by(10_000, @_) },
			qr/^2\|f\|00:01:00$/
		],
		[ 'long short', "'1min'", "'300ms'", \&unchanged, qr/^2\|f\|00:01:00$/ ],
		[ 'renewed short', 'NULL', "'100ms'", \&not_shortened, qr/^2\|t\|00:00:06$/ ],
		[ 'renewed long', 'NULL', "'9s'", sub { lengthened_by(2_000, @_) }, qr/^2\|t/ ],
		[ 'given renewed', "'5s'", 'NULL', \&not_shortened, qr/^2\|t/ ],
		[ 'endless renewed', "'1min'", 'NULL', \&unchanged, qr/^2\|t/ ])
	{
		my ($key, $first, $next, $becomes, $shown) = @$case;

		$one->query("SELECT redis_lock('$key', $first)");
		my $end = end_of($key, sub { $one->query("SELECT redis_lock('$key', $next)") });
		$becomes->($end, "$key: its end");
		like(row($key, 'hold_count, renewed, lease'), $shown, "$key: what is shown");
	}

	# Holds are not told apart: whichever is given back, it stays renewed.
	$one->query_is(
		"SELECT redis_unlock('renewed short'), redis_unlock('given renewed')",
		't|t', 'one hold of each is given back');
	is(row('renewed short', 'hold_count, renewed'), '1|t', 'the last one is renewed');

	# Longer than each of the short leases.
	watch(9.5);
	$one->query_is(
		q{SELECT count(*), sum(redis_hold_count(key)) FROM redis_locks
		  WHERE pid = pg_backend_pid() AND redis_is_held(key)},
		'6|10', 'all are held when the short leases are over');
	cmp_ok(row($_, 'renewals'), '>=', 2, "$_: renewed") foreach 'renewed short', 'given renewed';
	$one->query_is('SELECT redis_unlock_all()', '6', 'given back');
	is_deeply([ grep { $_ ne 'long' } $redis->all_keys ], [], 'all of them');
}

#
# What has become of the long statement and its lock.
#
{
	watch(0.1) while $holder->is_running;
	is($holder->wait->error, undef, 'a long statement');
	my $leases = int((now() - $held_since) / 6);
	my ($least, $most) = (sort { $a <=> $b } @ttl)[ 0, -1 ];
	cmp_ok($least, '>', 0, 'the TTL never ran out');
	cmp_ok($most, '<=', 6000, 'and was never longer than the lease');
	is($redis->owner_of('long'), $long_owner, 'the owner is the same');
	$holder->query_is(
		"SELECT redis_is_held('long'), redis_hold_count('long')",
		't|1', 'and has it');

	# Every third of a lease; a slow machine may be late, but not by the rest.
	my $count = row('long', 'renewals');
	cmp_ok($count, '>=', $leases, 'renewed at least once a lease');
	cmp_ok($count, '<=', (now() - $held_since) / 2 + 2, 'and not more often than three times');
	cmp_ok($viewer->value('SELECT renewals FROM redis_lock_stats') - $stats,
		'>=', $count, 'and redis_lock_stats counts them');
	$holder->query_is("SELECT redis_unlock('long')", 't', 'given back');
	$holder->quit;
}

#
# redis_extend
#
{
	my $end;

	$one->query_fails("SELECT redis_extend('none', '1s')",
		'55000', qr/own/, 'extend what is not held');

	$one->query("SELECT redis_lock('extend', '5s')");
	my $owner = $redis->owner_of('extend');
	$end = end_of('extend', sub { $one->query_is("SELECT redis_extend('extend', '20s')", 't') });
	lengthened_by(10_000, $end, 'extended');
	$end = end_of('extend', sub { $one->query_is("SELECT redis_extend('extend', '100ms')", 't') });
	unchanged($end, 'never shortened');

	# All holds of the session.
	$one->query("SELECT redis_lock('extend')");
	is(row('extend', 'hold_count, renewed'), '2|t', 'renewed by a re-entry');
	$one->query_is("SELECT redis_extend('extend', '30s')", 't', 'extended');
	is(row('extend', 'hold_count, renewed'), '2|f', 'ends renewal of both');
	is_deeply($redis->hash('extend'), { $owner => 1 }, 'in Redis the same owner, and count 1');
	$one->query('SELECT redis_unlock_all()');

	# What is left of a renewed lock runs out.
	$one->query("SELECT redis_lock('runs out')");
	$one->query_is("SELECT redis_extend('runs out', '1200ms')", 't',
		'a renewed lock is given a lease');

	# A given one is renewed again.
	$one->query("SELECT redis_lock('goes on', '5s')");
	$one->query_is("SELECT redis_extend('goes on', NULL)", 't', 'a given lease is renewed');

	poll_until('the lock to run out',
		sub { $one->value("SELECT redis_is_held('runs out')") eq 'f' });
	pause(3.5);
	$one->query_is(
		"SELECT redis_is_held('runs out'), redis_is_held('goes on')",
		'f|t', 'one has run out, the other one goes on');
	is($redis->cmd('EXISTS', 'runs out'), 0, 'in Redis as well');
	cmp_ok(row('goes on', 'renewals'), '>=', 2, 'renewed');
	$one->query_is("SELECT redis_extend('runs out', '10s'), redis_extend('runs out', NULL)",
		'f|f', 'a lost lock is not extended, nor renewed again');
	is($redis->cmd('EXISTS', 'runs out'), 0, 'nor is it made again');

	$one->query('SELECT redis_unlock_all()');
}

#
# Precision: what is sent is the lease in milliseconds, rounded up.
#
of_redis 'no requests that could be looked at' => sub {
	my $monitor = $redis->monitor;
	my %leases = (
		'1234 ms' => 1234,
		'1234.001 ms' => 1235,
		'10 ms' => 10,
		'9.001 ms' => 10,
		'1 day 1 ms' => 86_400_001,
		'24 days' => 2_073_600_000);
	my %sent;

	foreach my $lease (sort keys %leases)
	{
		$one->query("SELECT redis_try_lock('precise $lease', lease => '$lease')");
		$one->query('SELECT redis_unlock_all()');
	}
	$one->query("SET lockredis.lease = '1001ms'");
	$one->query("SELECT redis_try_lock('precise')");
	$one->query("RESET lockredis.lease");
	$one->query('SELECT redis_unlock_all()');
	foreach my $args (map { [ $monitor->args($_) ] } $monitor->stop)
	{
		next unless $args->[0] eq 'EVALSHA' && @$args == 7;
		$sent{ $args->[3] } = $args->[4];
	}
	is_deeply(
		\%sent,
		{
			precise => 1001,
			map { ("precise $_" => $leases{$_}) } keys %leases
		},
		'milliseconds on the wire');
};

#
# Many: a thousand locks, taken in more than a third of a lease, are renewed in
# few commands, and all survive.
#
{
	my $many = $node->session;
	my $locks = 1000;

	$many->query(qq{
		DO \$\$ BEGIN
			FOR i IN 1 .. $locks LOOP
				PERFORM redis_lock('many ' || i);
				PERFORM pg_sleep(0.001);
			END LOOP;
		END \$\$});
	# Each batch asks for the time, and whether Redis refuses one lock or all.
	my $commands = sub { $redis->script_calls - $redis->calls('time') };
	my $scripts = of_redis 'no commands' => $commands;
	my $renewed = $viewer->value('SELECT renewals FROM redis_lock_stats');

	poll_until('each to be renewed for longer than a lease',
		sub { $viewer->value("SELECT min(renewals) FROM redis_locks WHERE key LIKE 'many %'") > 3 });
	$renewed = $viewer->value('SELECT renewals FROM redis_lock_stats') - $renewed;
	of_redis 'no commands' => sub {
		$scripts = $commands->() - $scripts;
		note "$renewed renewals of $locks locks with $scripts commands";
		cmp_ok($renewed / $scripts, '>=', 100, 'a hundred with one command');
	};
	$many->query_is(
		qq{SELECT count(*) FROM generate_series(1, $locks) i
		   WHERE redis_is_held('many ' || i)},
		$locks, 'all are held');
	is(scalar(() = $redis->all_keys), $locks, 'all are in Redis');
	$many->query_is('SELECT redis_unlock_all()', $locks, 'given back');
	$many->quit;
}

#
# Local waiters take over without a watchdog that could tell anybody: it is stopped.  A given
# lease ends, then a renewed one that nobody renews.  The waiters ask for given
# leases, which need no renewal either.
#
{
	my $watchdog = $node->watchdog_pid;
	my $three = $node->session;

	$one->query('SET lockredis.lease = $$3s$$');
	$one->query("SELECT redis_lock('dark', '6s'), redis_lock('dark too')");
	$two->start("SELECT redis_lock('dark', '1min')");
	$three->start("SELECT redis_lock('dark too', '1min')");
	$node->wait_for_waiters('dark', 1);
	$node->wait_for_waiters('dark too', 1);
	kill 'STOP', $watchdog;

	# No longer than that: seconds later a left-over alarm of the backend's idle
	# time may make a waiter look that did not mean to.
	is($two->wait(9)->error, undef, 'a given lease has ended');
	is($three->wait(6)->error, undef, 'a lease was not renewed');
	my @owners = map { $redis->owner_of($_) } 'dark', 'dark too';
	$one->query_is(
		"SELECT redis_is_held('dark'), redis_is_held('dark too')",
		'f|f', 'the holder has lost both');

	kill 'CONT', $watchdog;

	# What the watchdog wanted to renew and to give back are old owners.
	pause(1);
	is_deeply([ map { $redis->owner_of($_) } 'dark', 'dark too' ],
		\@owners, 'the new holders are not disturbed');
	$two->query_is("SELECT redis_is_held('dark'), redis_unlock('dark')", 't|t', 'one has it');
	$three->query_is(
		"SELECT redis_is_held('dark too'), redis_unlock('dark too')",
		't|t', 'so has the other one');
	$one->query_is("SELECT redis_is_held('dark too')", 'f', 'still lost');
	is(row('dark too', 'granted, lost_reason'), 'f|expired', 'as shown');
	my $result = $one->query('SELECT redis_unlock_all()');
	is($result->out, '0', 'nothing to be given back');
	is(scalar(my @w = $result->warnings), 2, 'two losses');
	$one->query('RESET lockredis.lease');
	$three->quit;
}

#
# Redis is away for a moment: an extend that is not answered is an error, and what there was
# stands.
#
{
	my $three = $node->session(settings => { 'lockredis.lease' => '15s' });

	$three->query("SELECT redis_lock('stands')");

	# The request arrives, and runs when Redis goes on.
	$node->set('lockredis.command_timeout' => '2s');
	$three->query_is("SELECT redis_is_locked('stands')", 't', 'connected');
	$redis->freeze;
	$three->query_fails("SELECT redis_extend('stands', '30s')",
		'58030', qr/lock store/, 'frozen: extend of a renewed lock');
	is(row('stands', 'granted, renewed, lease'), 't|t|00:00:15', 'frozen: it stands');
	$redis->thaw;
	my $renewals = row('stands', 'renewals');
	poll_until('a renewal', sub { row('stands', 'renewals') > $renewals });
	$node->wait_for_up;
	$three->query_is(
		"SELECT redis_extend('stands', '10min'), redis_unlock('stands')",
		't|t', 'now it is extended');
	$three->quit;
}

end_test($node, $redis);
