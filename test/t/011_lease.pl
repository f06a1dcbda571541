# Copyright (c) 2026, lockredis contributors

# Leases: renewed, given, mixed, extended; how precise they are, the shortest
# ones, and a thousand of them renewed in few commands.
# Proves G2, G3.

use LockRedis::Test;
use LockRedis::Topic::Leases;

start_servers('6s');

sub lengthened_by
{
	my ($ms, $end, $name) = @_;

	return cmp_ok($end->{after}[0], '>=', $end->{before}[1] + $ms, $name);
}

sub unchanged
{
	my ($end, $name) = @_;

	return ok(
		$end->{after}[1] >= $end->{before}[0]
		  && $end->{after}[0] <= $end->{before}[1],
		$name) || diag explain $end;
}

sub not_shortened
{
	my ($end, $name) = @_;

	return cmp_ok($end->{after}[1], '>=', $end->{before}[0], $name);
}

# When a key ends, on Redis' clock in ms: the earliest and the latest moment
# that the replies allow.  Dies when there is no TTL.
sub ends_at
{
	my ($key) = @_;
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
sub end_of
{
	my ($key, $do) = @_;
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
$holder->start('SELECT pg_sleep(25)');

my @ttl;

sub watch
{
	my ($seconds) = @_;
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

	$one->query_is("SELECT redis_lock('given', '5s')", '',
		'given a lease');
	is(row('given', 'granted, renewed, lease'),
		't|f|00:00:05', 'as redis_locks shows');
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
	$one->query_is("SELECT redis_is_held('given'), redis_hold_count('given')",
		'f|0', 'not held any more');
	is( row('given',
			q{granted, hold_count, renewed, renewals, expires_in, lost_reason,
			  lost_at BETWEEN acquired_at + '4900ms' AND clock_timestamp(),
			  waiting_since, blocked_by, pid}),
		'f|1|f|0|NULL|expired|t|NULL|NULL|' . $one->pid,
		'a lost hold in redis_locks');
	like(row('given', 'owner'), qr/:\d+$/, 'with the owner it had');
	$one->query_warns("SELECT redis_unlock('given')",
		'f', '01000', qr/lost.*expired/s, 'unlock says that it was lost');
	is(row('given', 'count(*)'), '0', 'and then it is forgotten');
	$one->query_warns("SELECT redis_unlock('given')",
		'f', '01000', qr/own/, 'the loss is told once');
	$one->query_is("SELECT redis_try_lock('given'), redis_unlock('given')",
		't|t', 'it can be taken again');
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
		[ 'renewed long', 'NULL', "'15s'", sub { lengthened_by(3_000, @_) }, qr/^2\|t/ ],
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
	is(row('renewed short', 'hold_count, renewed'),
		'1|t', 'the last one is renewed');

	# Longer than each of the short leases.
	watch(6.5);
	$one->query_is(
		q{SELECT k, redis_is_held(k), redis_hold_count(k)
		  FROM unnest(ARRAY['short long', 'long short', 'renewed short',
			  'renewed long', 'given renewed', 'endless renewed']) k},
		join("\n",
			'short long|t|2', 'long short|t|2',
			'renewed short|t|1', 'renewed long|t|2',
			'given renewed|t|1', 'endless renewed|t|2'),
		'all are held when the short leases are over');
	cmp_ok(row('renewed short', 'renewals'), '>=', 2, 'renewed');
	cmp_ok(row('given renewed', 'renewals'), '>=', 2, 'renewed, too');
	watch(9.5);
	$one->query_is("SELECT redis_is_held('renewed long')",
		't', 'held when the longer given lease is over as well');
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
	cmp_ok($count, '<=', (now() - $held_since) / 2 + 2,
		'and not more often than three times');
	is(row('long', 'granted, renewed, lease, lost_at IS NULL'),
		't|t|00:00:06|t', 'as redis_locks shows');
	is(row('long', "expires_in BETWEEN '0' AND '6s'"),
		't', 'with what is left');
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
	$end = end_of('extend',
		sub { $one->query_is("SELECT redis_extend('extend', '20s')", 't') });
	lengthened_by(10_000, $end, 'extended');
	is(row('extend', 'renewed, lease'), 'f|00:00:20', 'as shown');
	is(row('extend', "expires_in BETWEEN '10s' AND '20s'"),
		't', 'and here as well');
	$end = end_of('extend',
		sub { $one->query_is("SELECT redis_extend('extend', '100ms')", 't') });
	unchanged($end, 'never shortened');
	is(row('extend', "expires_in > '10s'"), 't', 'nor here');
	is_deeply($redis->hash('extend'), { $owner => 1 }, 'the count stays');

	# All holds of the session.
	$one->query("SELECT redis_lock('extend')");
	is(row('extend', 'hold_count, renewed'), '2|t', 'renewed by a re-entry');
	$one->query_is("SELECT redis_extend('extend', '30s')", 't', 'extended');
	is(row('extend', 'hold_count, renewed'), '2|f', 'ends renewal of both');
	is_deeply($redis->hash('extend'), { $owner => 1 }, 'with the same owner');
	$one->query('SELECT redis_unlock_all()');

	# What is left of a renewed lock runs out.
	$one->query("SELECT redis_lock('runs out')");
	$one->query_is("SELECT redis_extend('runs out', '1200ms')", 't',
		'a renewed lock is given a lease');

	# A given one is renewed again.
	$one->query("SELECT redis_lock('goes on', '5s')");
	$one->query_is("SELECT redis_extend('goes on', NULL)",
		't', 'a given lease is renewed');
	is(row('goes on', 'renewed, lease'), 't|00:00:06', 'as shown');

	poll_until('the lock to run out',
		sub { $one->value("SELECT redis_is_held('runs out')") eq 'f' });
	pause(3.5);
	$one->query_is(
		"SELECT redis_is_held('runs out'), redis_is_held('goes on')",
		'f|t', 'one has run out, the other one goes on');
	is($redis->cmd('EXISTS', 'runs out'), 0, 'in Redis as well');
	cmp_ok(row('goes on', 'renewals'), '>=', 2, 'renewed');
	$one->query_is("SELECT redis_extend('runs out', '10s')",
		'f', 'a lost lock is not extended');
	$one->query_is("SELECT redis_extend('runs out', NULL)",
		'f', 'nor renewed again');
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
		my $ttl = $redis->cmd('PTTL', "precise $lease");
		cmp_ok($ttl, '<=', $leases{$lease}, "lease $lease: not longer");
		cmp_ok($ttl, '>', $leases{$lease} - 5000, "lease $lease: not shorter");
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
# The shortest leases.  A busy machine may read the reply after the lease, which
# is an error and no lock; whatever is taken ends, and nothing else happens.
# Nothing may be written, as the loss of a session's lock refuses such a commit.
#
{
	$one->query(q{
		DO $$ DECLARE over int := 0; still int := 0; late int := 0; BEGIN
			WHILE over + late < 30 OR over = 0 AND late < 1000 LOOP
				BEGIN
					PERFORM redis_lock('tiny', '10ms');
					PERFORM pg_sleep(0.015);
					IF redis_is_held('tiny') THEN
						still := still + 1;
						EXIT;
					ELSE
						over := over + 1;
					END IF;
					PERFORM redis_unlock('tiny');
				EXCEPTION WHEN system_error OR io_error THEN
					late := late + 1;
				END;
			END LOOP;
			PERFORM set_config('test.tiny',
				format('%s over, %s late, %s still held', over, late, still),
				false);
		END $$});
	my ($over, $late, $still) =
	  $one->value("SELECT current_setting('test.tiny')") =~ /(\d+)/g;
	note "leases of 10 ms: $over were over, $late replies came too late";
	is($still, 0, 'no lease of 10 ms outlives its end');
	cmp_ok($over + $late, '>=', 30, 'each ends');
	cmp_ok($over, '>', 0, 'some were taken');
	poll_until('the key to go', sub { !$redis->cmd('EXISTS', 'tiny') });
	$one->query_is(
		"SELECT redis_try_lock('tiny', '10s'), redis_is_held('tiny'),
			redis_unlock('tiny')",
		't|t|t', 'it can be taken as ever');
}

#
# Many: a thousand locks, taken in more than a third of a lease, are renewed in
# few commands, and all survive.
#
{
	my $many = $node->session(settings => { 'lockredis.lease' => '6s' });
	my $locks = 1000;

	$many->query(qq{
		DO \$\$ BEGIN
			FOR i IN 1 .. $locks LOOP
				PERFORM redis_lock('many ' || i);
				PERFORM pg_sleep(0.001);
			END LOOP;
		END \$\$});
	my $scripts = of_redis 'no commands' => sub { $redis->script_calls };
	my $renewed = $viewer->value('SELECT renewals FROM redis_lock_stats');

	pause(8);
	$renewed =
	  $viewer->value('SELECT renewals FROM redis_lock_stats') - $renewed;
	cmp_ok($renewed, '>=', 2 * $locks, 'each was renewed more than once a lease');
	of_redis 'no commands' => sub {
		$scripts = $redis->script_calls - $scripts;
		note "$renewed renewals of $locks locks with $scripts commands";
		cmp_ok($renewed / $scripts, '>=', 100, 'a hundred with one command');
	};
	$many->query_is(
		qq{SELECT count(*) FROM generate_series(1, $locks) i
		   WHERE redis_is_held('many ' || i)},
		$locks, 'all are held');
	is(scalar(() = $redis->all_keys), $locks, 'all are in Redis');
	is( $viewer->value(
			q{SELECT count(*) FROM redis_locks WHERE key LIKE 'many %'
			  AND granted AND renewals >= 2}),
		$locks,
		'all were renewed');
	$many->query_is('SELECT redis_unlock_all()', $locks, 'given back');
	$many->quit;
}

end_test($node, $redis);
