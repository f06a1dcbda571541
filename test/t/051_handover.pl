# Copyright (c) 2026, lockredis contributors

# A lock passes from one session of a server to the next inside shared memory:
# design.md section 6, "Hand-over".  Checks that it costs no command, is first in
# first out, happens at most max_handoffs times in a row, for every way to give
# a lock back and every way to wait for one, and not where Redis would have to
# know; that a fenced waiter takes its token with one script call; and that
# whoever is handed a lock has it as if Redis had given it: what the views show,
# its own guard, renewal, loss, and taking it again.

use strict;
use warnings FATAL => 'all';

use LockRedis::Test qw(:DEFAULT run);
use LockRedis::Wait qw(limit);

my $redis = LockRedis::Redis->new;

# Nothing is renewed while commands are counted.
my $node = LockRedis::Node->create(
	'main',
	redis => $redis,
	settings => { 'lockredis.lease' => '10min' });

$node->wait_for_up;
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE t (a int);

-- Returns when somebody waits for the key.
CREATE PROCEDURE await_waiter(k text) LANGUAGE plpgsql AS $$
BEGIN
	WHILE NOT EXISTS (SELECT FROM redis_locks
					   WHERE key = k AND waiting_since IS NOT NULL) LOOP
		PERFORM pg_sleep(0.01);
	END LOOP;
END $$;
SQL

my $counters = qr/^redisson_lock_token:/;
my ($one, $two, $three, $four) = map { $node->session } 1 .. 4;

# Connections are made, and Redis knows the scripts.
foreach my $s ($one, $two, $three, $four)
{
	$s->query(
		"SELECT redis_lock('warm'), redis_fenced_lock('warm'), redis_unlock_all()"
	);
}
$redis->cmd('DEL', 'redisson_lock_token:{warm}');

sub handoffs { return $node->value('SELECT handoffs FROM redis_lock_stats'); }

# Ends the test of a key that is held by nobody any more.
sub gone
{
	my ($key, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return is(
		$redis->cmd('EXISTS', $key) +
		  $node->value("SELECT count(*) FROM redis_locks WHERE key = '$key'"),
		0,
		"$name: nothing is left");
}

#
# What it costs, and who is next: one has it, the others come one after the
# other, and it goes round.
#
{
	my $before = handoffs();
	my ($calls, $owner);

	run($one, "SELECT redis_lock('round')");
	$owner = $redis->owner_of('round');
	$calls = $redis->script_calls;
	my @commands = $redis->session_commands(
		sub {
			$node->queue_up('round', map { $_ => "SELECT redis_lock('round')" } $two,
				$three, $four);
			my @holders = ($one, $two, $three, $four);

			while (my $holder = shift @holders)
			{
				$holder->query_is("SELECT redis_is_held('round')",
					't', 'round: held');
				last unless @holders;
				is( scalar(grep { $_->is_running } @holders),
					scalar @holders,
					'round: the others wait');
				$holder->query_is("SELECT redis_unlock('round')",
					't', 'round: given back');
				is($holders[0]->wait(limit(5))->error,
					undef, 'round: whoever came first is next');
				$holder->query_is(
					"SELECT redis_is_held('round'), redis_hold_count('round')",
					'f|0',
					'round: and the other one has it no longer');
			}
		});
	is_deeply(\@commands, [], 'round: no command is sent');
	is($redis->script_calls - $calls, 0, 'round: no script is run');
	is(handoffs() - $before, 3, 'round: three hand-overs are counted');
	is_deeply(
		$redis->hash('round'),
		{ $owner => 1 },
		'round: to Redis it is one owner all the time');

	$calls = $redis->script_calls;
	is( scalar $redis->session_commands(sub { run($four, "SELECT redis_unlock('round')") }
		),
		1,
		'round: the last one releases it with one command');
	is($redis->script_calls - $calls, 1, 'round: which is a script');
	gone('round', 'round');
}

#
# At most max_handoffs in a row.  Two sessions take turns; each real release
# shows as another owner.
#
foreach my $max (32, 0, 1, 3)
{
	my ($holder, $waiter) = ($one, $two);
	my $turns = $max == 32 ? 35 : 9;
	my $before = handoffs();
	my (@owners, @changes);

	if ($max == 32)
	{
		is($node->value('SHOW lockredis.max_handoffs'),
			32, 'in a row: the default');
	}
	else
	{
		$node->set('lockredis.max_handoffs' => $max);
		$_->value("SHOW lockredis.max_handoffs") == $max || die 'not reloaded'
		  foreach $one, $two;
	}
	run($holder, "SELECT redis_lock('in a row')");
	push @owners, $redis->owner_of('in a row');
	foreach my $turn (1 .. $turns)
	{
		$node->queue_up('in a row', $waiter => "SELECT redis_lock('in a row')");
		run($holder, "SELECT redis_unlock('in a row')");
		die 'not got' if defined $waiter->wait->error;
		push @owners, $redis->owner_of('in a row');
		push @changes, $turn if $owners[-1] ne $owners[-2];
		($holder, $waiter) = ($waiter, $holder);
	}
	is_deeply(
		\@changes,
		[ grep { $_ % ($max + 1) == 0 } 1 .. $turns ],
		"in a row: $max, then a real release, and so on");
	is( handoffs() - $before,
		$turns - @changes,
		"in a row: $max, hand-overs are counted");
	run($holder, "SELECT redis_unlock('in a row')");
	gone('in a row', "in a row: $max");
}
$node->set('lockredis.max_handoffs' => 32);

#
# Every way to give a lock back, every way to wait for one.
#
# [ what, statements before, the one that gives it back, statements after ];
# KEY stands for the key.
#
my @givers = (
	[
		'redis_unlock', [q{SELECT redis_lock('KEY')}],
		q{SELECT redis_unlock('KEY')}
	],
	[
		'redis_unlock of a try',
		[q{SELECT redis_try_lock('KEY')}],
		q{SELECT redis_unlock('KEY')}
	],
	[
		'the last of three holds',
		[
			q{SELECT redis_lock('KEY'), redis_lock('KEY'), redis_lock('KEY')},
			q{SELECT redis_unlock('KEY'), redis_unlock('KEY')}
		],
		q{SELECT redis_unlock('KEY')}
	],
	[
		'redis_unlock of a fenced lock',
		[q{SELECT redis_fenced_lock('KEY')}],
		q{SELECT redis_unlock('KEY')}
	],
	[
		'redis_unlock_all', [q{SELECT redis_lock('KEY')}],
		'SELECT redis_unlock_all()'
	],
	[ 'DISCARD ALL', [q{SELECT redis_lock('KEY')}], 'DISCARD ALL' ],
	[
		'COMMIT',
		[ 'BEGIN', 'INSERT INTO t VALUES (1)', q{SELECT redis_xact_lock('KEY')} ],
		'COMMIT'
	],
	[
		'COMMIT of a fenced lock',
		[ 'BEGIN', q{SELECT redis_fenced_xact_lock('KEY')} ], 'COMMIT'
	],
	[ 'ROLLBACK', [ 'BEGIN', q{SELECT redis_xact_lock('KEY')} ], 'ROLLBACK' ],
	[
		'ROLLBACK TO',
		[ 'BEGIN', 'SAVEPOINT s', q{SELECT redis_xact_lock('KEY')} ],
		'ROLLBACK TO s',
		['COMMIT']
	],
	[
		'an error', [ 'BEGIN', q{SELECT redis_xact_lock('KEY')} ],
		'SELECT 1/0', ['ROLLBACK']
	],
	[
		'COMMIT of both scopes',
		[
			q{SELECT redis_lock('KEY')},
			'BEGIN',
			q{SELECT redis_xact_lock('KEY')},
			q{SELECT redis_unlock('KEY')}
		],
		'COMMIT'
	]);
my @takers = (
	[ q{SELECT redis_lock('KEY')}, 'session' ],
	[ q{SELECT redis_try_lock('KEY', '1min')}, 'session' ],
	[ q{BEGIN; SELECT redis_xact_lock('KEY')}, 'transaction' ],
	[ q{BEGIN; SELECT redis_try_xact_lock('KEY', '1min')}, 'transaction' ],
	[ q{SELECT redis_fenced_lock('KEY')}, 'session', 'fenced' ],
	[ q{SELECT redis_try_fenced_lock('KEY', '1min')}, 'session', 'fenced' ],
	[ q{BEGIN; SELECT redis_fenced_xact_lock('KEY')}, 'transaction', 'fenced' ]);

sub with_key
{
	my ($sql, $key) = @_;

	return $sql =~ s/KEY/$key/gr;
}

sub row_of
{
	my ($s, $key) = @_;

	return $node->value(
		"SELECT scope, granted, hold_count, renewed, renewals, lost_at IS NULL,"
		  . " waiting_since IS NULL, blocked_by IS NULL, fence IS NOT NULL"
		  . " FROM redis_locks WHERE key = '$key' AND pid = "
		  . $s->pid);
}

# two waits in the way of the taker, $give has the lock given back.
sub check_pair
{
	my ($key, $name, $taker, $give) = @_;
	my ($wait, $scope, $fenced) = @$taker;
	my $sql = with_key($wait, $key);
	my $owner = $redis->owner_of($key);
	my $before = handoffs();

	$node->queue_up($key, $two => $sql);
	my $calls = $redis->script_calls;
	$give->();
	my $got = $two->wait(limit(10));
	$calls = $redis->script_calls - $calls;
	is($got->error, undef, "$name: got");
	is(handoffs() - $before, 1, "$name: handed over");
	is( $calls,
		$fenced ? 1 : 0,
		"$name: " . ($fenced ? 'one call, for the token' : 'no call'));
	is($redis->owner_of($key), $owner, "$name: the owner stays");
	is( row_of($two, $key),
		"$scope|t|1|t|0|t|t|t|" . ($fenced ? 't' : 'f'),
		"$name: its row");
	is($node->value("SELECT count(*) FROM redis_locks WHERE key = '$key'"),
		1, "$name: there is no other");
	run($two, $scope eq 'session' ? "SELECT redis_unlock('$key')" : 'COMMIT');
	return gone($key, $name);
}

my $turn = 0;
foreach my $giver (@givers)
{
	my ($what, $before, $give, $after) = @$giver;
	my $taker = $takers[ $turn++ % @takers ];
	my $key = "giver $turn";

	run($one, with_key($_, $key)) foreach @$before;
	check_pair($key, "$what, then $taker->[0]",
		$taker, sub { $one->query(with_key($give, $key)) });
	run($one, $_) foreach @{ $after || [] };
}
foreach my $taker (@takers)
{
	my $key = 'taker ' . $turn++;

	run($one, "SELECT redis_lock('$key')");
	check_pair($key, "redis_unlock, then $taker->[0]",
		$taker, sub { run($one, "SELECT redis_unlock('$key')") });
}

# The lock of an exception block that fails is free while the function goes on.
{
	$one->start(
		q{DO $$ BEGIN
		BEGIN
			PERFORM redis_xact_lock('block');
			CALL await_waiter('block');
			RAISE 'over';
		EXCEPTION WHEN raise_exception THEN NULL;
		END;
		PERFORM pg_sleep(600);
	END $$});
	poll_until('the block to have it', sub { $redis->cmd('EXISTS', 'block') });
	my $owner = $redis->owner_of('block');
	my $before = handoffs();
	is($two->query("SELECT redis_lock('block')", limit(10))->error,
		undef, 'exception block: got');
	ok($one->is_running, 'exception block: while the function goes on');
	is(handoffs() - $before, 1, 'exception block: handed over');
	is($redis->owner_of('block'), $owner, 'exception block: the owner stays');
	run($two, "SELECT redis_unlock('block')");
	$one->cancel;
	$one->wait->fails('57014', qr/cancel/, 'exception block: the end');
	gone('block', 'exception block');
}

# The end of a session: orderly, terminated, and the client gone.
foreach my $end ('quit', 'terminate', 'vanish')
{
	my $key = "end by $end";
	my $other = $node->session;

	run($other, "SELECT redis_lock('$key')");
	check_pair($key, $key, $takers[0], sub { $other->$end });
	$other->query('SELECT 1') if $end eq 'terminate';
	$other->quit if $end eq 'terminate';
}

# The job runner, on both sides; a job that fails passes its lock on as well.
{
	foreach my $end ([ "SELECT 1", undef ], [ 'SELECT 1/0', '22012' ])
	{
		my ($command, $error) = @$end;
		my $name = "job, $command";
		my $before = handoffs();

		$one->start(
			"CALL redis_with_lock('job', 'CALL await_waiter(''job''); $command')"
		);
		poll_until('the job to have the lock',
			sub { $redis->cmd('EXISTS', 'job') });
		my $calls = $redis->script_calls;
		my $owner = $redis->owner_of('job');
		is( $two->query(
				"CALL redis_with_lock('job', 'INSERT INTO t VALUES (2)', wait => '1min')",
				limit(20))->out,
			't',
			"$name: the next one runs");
		is($one->wait->sqlstate, $error, "$name: and how the first one ended");
		is(handoffs() - $before, 1, "$name: handed over");
		is($redis->script_calls - $calls, 1, "$name: one call, the last release");
		gone('job', $name);
	}
}

#
# Fencing tokens: strictly increasing over hand-overs, and a plain holder in
# between has none.
#
{
	my @tokens = run($one, "SELECT redis_fenced_lock('tokens')")->value;
	my $before = handoffs();

	$node->queue_up(
		'tokens',
		$two => "SELECT redis_fenced_lock('tokens')",
		$three => "SELECT redis_lock('tokens')",
		$four => "SELECT redis_fenced_lock('tokens')");
	my $calls = $redis->script_calls;
	run($one, "SELECT redis_unlock('tokens')");
	push @tokens, $two->wait->value;
	is($redis->script_calls - $calls, 1, 'tokens: one call for a token');
	$two->query_is("SELECT redis_fence('tokens')",
		$tokens[-1], 'tokens: redis_fence');
	is( $node->value(
			"SELECT fence FROM redis_locks WHERE granted AND key = 'tokens'"),
		$tokens[-1],
		'tokens: in redis_locks');
	$one->query_is(
		"SELECT redis_fence('tokens')",
		'NULL',
		'tokens: none without the lock');

	run($two, "SELECT redis_unlock('tokens')");
	$three->wait;
	$three->query_is("SELECT redis_is_held('tokens'), redis_fence('tokens')",
		't|NULL', 'tokens: a plain holder has none');
	is($redis->script_calls - $calls, 1, 'tokens: and asks for none');

	run($three, "SELECT redis_unlock('tokens')");
	push @tokens, $four->wait->value;
	is($redis->script_calls - $calls, 2, 'tokens: one call for the next token');
	is(handoffs() - $before, 3, 'tokens: three hand-overs');

	# A plain holder gets one at its first fenced use, and keeps it.
	$node->queue_up('tokens', $one => "SELECT redis_lock('tokens')");
	run($four, "SELECT redis_unlock('tokens')");
	$one->wait;
	push @tokens, run($one, "SELECT redis_fenced_lock('tokens')")->value;
	$one->query_is("SELECT redis_fenced_lock('tokens')",
		$tokens[-1], 'tokens: kept');
	is($redis->cmd('GET', 'redisson_lock_token:{tokens}'),
		$tokens[-1], 'tokens: the last one is the counter');
	is_deeply(\@tokens, [ 1 .. 4 ], 'tokens: each is the next');
	run($one, 'SELECT redis_unlock_all()');
	gone('tokens', 'tokens');

	# Each is recorded by the transaction that got it.
	run($one, 'BEGIN');
	my @recorded = run($one, "SELECT redis_fenced_xact_lock('tokens')")->value;
	$node->queue_up('tokens', $two => "BEGIN; SELECT redis_fenced_xact_lock('tokens')");
	run($one, 'COMMIT');
	is($node->value("SELECT token FROM redis_fences WHERE key = 'tokens'"),
		$recorded[0], 'tokens: recorded by the first transaction');
	push @recorded, $two->wait->value;
	run($two, 'COMMIT');
	is($node->value("SELECT token FROM redis_fences WHERE key = 'tokens'"),
		$recorded[1], 'tokens: and by the second');
	is_deeply(\@recorded, [ 5, 6 ], 'tokens: in their order');
	gone('tokens', 'tokens');
}

#
# Where Redis has to know: another lease, given leases, hold_at_least, several
# holds counted in Redis, a token lock's lease, and too little time left.
#
# [ what, statements of the holder, its release, the waiter ]
#
my $wait_plain = q{SELECT redis_lock('KEY')};
my @not = (
	[
		'a shorter lease',
		[ q{SET lockredis.lease = '5min'}, q{SELECT redis_lock('KEY')} ],
		q{SELECT redis_unlock('KEY')}, $wait_plain
	],
	[
		'a longer lease',
		[ q{SET lockredis.lease = '15min'}, q{SELECT redis_lock('KEY')} ],
		q{SELECT redis_unlock('KEY')}, $wait_plain
	],
	[
		'a given lease', [q{SELECT redis_lock('KEY', '10min')}],
		q{SELECT redis_unlock('KEY')}, $wait_plain
	],
	[
		'a given lease of a transaction',
		[ 'BEGIN', q{SELECT redis_xact_lock('KEY', '10min')} ],
		'COMMIT', $wait_plain
	],
	[
		'a waiter with a given lease',
		[q{SELECT redis_lock('KEY')}],
		q{SELECT redis_unlock('KEY')},
		q{SELECT redis_lock('KEY', '10min')}
	],
	[
		'two given leases',
		[q{SELECT redis_lock('KEY', '10min')}],
		q{SELECT redis_unlock('KEY')},
		q{SELECT redis_lock('KEY', '10min')}
	],
	[
		'an extended lease',
		[ q{SELECT redis_lock('KEY')}, q{SELECT redis_extend('KEY', '10min')} ],
		q{SELECT redis_unlock('KEY')}, $wait_plain
	],
	[
		'a longer lease since',
		[
			q{SELECT redis_lock('KEY')},
			q{SELECT redis_lock('KEY', '1h')},
			q{SELECT redis_unlock('KEY')}
		],
		q{SELECT redis_unlock('KEY')},
		$wait_plain
	],
	[
		'two holds at redis_unlock_all',
		[q{SELECT redis_lock('KEY'), redis_lock('KEY')}],
		'SELECT redis_unlock_all()',
		$wait_plain
	],
	[
		'two holds at DISCARD ALL',
		[q{SELECT redis_lock('KEY'), redis_lock('KEY')}],
		'DISCARD ALL', $wait_plain
	],
	[
		'a waiter with hold_at_least',
		[q{SELECT redis_lock('KEY')}],
		q{SELECT redis_unlock('KEY')},
		q{CALL redis_with_lock('KEY', 'SELECT 1', '1min', hold_at_least => '10ms')},
		'ends by itself'
	]);
foreach my $case (@not)
{
	my ($what, $before, $give, $wait, $ends) = @$case;
	my $key = "not: $what";

	run($one, with_key($_, $key)) foreach @$before;
	my ($owner, $count) = ($redis->owner_of($key), handoffs());
	$node->queue_up($key, $two => with_key($wait, $key));
	my $calls = $redis->script_calls;
	run($one, with_key($give, $key));
	is($two->wait(limit(10))->error, undef, "$key: got");
	cmp_ok($redis->script_calls - $calls,
		'>=', 2, "$key: released and taken in Redis");
	is(handoffs(), $count, "$key: not handed over");

	if (!$ends)
	{
		isnt($redis->owner_of($key), $owner, "$key: another owner");
		run($two, "SELECT redis_unlock('$key')");
	}
	run($one, 'RESET lockredis.lease');
	poll_until('the key to have gone', sub { !$redis->cmd('EXISTS', $key) });
	gone($key, $key);
}

# While hold_at_least is pending the key stays locked, for those here as well.
{
	my $key = 'not: hold_at_least';
	my $count = handoffs();

	$one->start("CALL redis_with_lock('$key', 'CALL await_waiter(''$key'')',"
		  . " hold_at_least => '1500ms')");
	poll_until('the job to have the lock', sub { $redis->cmd('EXISTS', $key) });
	my $since = now();
	$two->start("SELECT redis_lock('$key')");
	$one->wait;
	is($two->wait(limit(20))->error, undef, "$key: got");
	cmp_ok(now() - $since, '>', 1.2, "$key: not before its time");
	is(handoffs(), $count, "$key: not handed over");
	run($two, "SELECT redis_unlock('$key')");
	gone($key, $key);
}

# Without a watchdog nobody would renew it.  The postmaster is stopped, so it
# starts no other one; the waiter would wait for one for five seconds.
{
	my $key = 'not: no watchdog';
	my $count = handoffs();
	my $watchdog = $node->watchdog_pid;
	my ($postmaster) = split /\n/,
	  PostgreSQL::Test::Utils::slurp_file($node->data_dir . '/postmaster.pid');

	$node->set('lockredis.command_timeout' => '500ms');
	run($one, "SELECT redis_lock('$key')");
	$node->queue_up($key, $two => "SELECT redis_lock('$key')");
	kill 'STOP', $postmaster;
	kill 'TERM', $watchdog;
	eval {
		poll_until(
			'the watchdog to be gone',
			sub {
				$one->value(
					"SELECT count(*) FROM pg_stat_activity WHERE pid = $watchdog")
				  == 0;
			});
		my $calls = $redis->script_calls;
		run($one, "SELECT redis_unlock('$key')");
		is($redis->script_calls - $calls, 1, "$key: released in Redis");
		is($one->value('SELECT handoffs FROM redis_lock_stats'),
			$count, "$key: not handed over");
	};
	my $error = $@;
	kill 'CONT', $postmaster;
	die $error if $error;
	is($two->wait(limit(20))->error,
		undef, "$key: got as soon as there is one again");
	run($two, "SELECT redis_unlock('$key')");
	$node->wait_for_up;
	$node->set('lockredis.command_timeout' => '3s');
	gone($key, $key);
}

#
# What is shown of it.
#
{
	my $key = 'shown';

	run($one, "SELECT redis_lock('$key')");
	my $acquired =
	  $node->value("SELECT acquired_at FROM redis_locks WHERE key = '$key'");
	my $owner = $node->value("SELECT owner FROM redis_locks WHERE key = '$key'");
	$node->queue_up(
		$key,
		$two => "SELECT redis_lock('$key')",
		$three => "SELECT redis_lock('$key')",
		$four => "BEGIN; SELECT redis_xact_lock('$key')");
	my $blockers = sub {
		my ($s) = @_;
		return $node->value(
			"SELECT blocked_by FROM redis_locks WHERE key = '$key' AND pid = "
			  . $s->pid);
	};
	my @pids = map { $_->pid } $one, $two, $three;
	is($blockers->($two), "{$pids[0]}", 'shown: behind the holder');
	is( $blockers->($four),
		'{' . join(',', @pids) . '}',
		'shown: behind all before');

	run($one, "SELECT redis_unlock('$key')");
	$two->wait;
	is($blockers->($two), '', 'shown: the new holder waits for nobody');
	is($blockers->($three), "{$pids[1]}",
		'shown: the next one for the new holder');
	is($blockers->($four), "{$pids[1],$pids[2]}", 'shown: and so on');
	is( $node->value(
			"SELECT owner, lease, hold_count, scope, acquired_at > '$acquired',"
			  . " acquired_at <= now(), expires_in > '9min', expires_in <= '10min'"
			  . " FROM redis_locks WHERE granted AND key = '$key'"),
		"$owner|00:10:00|1|session|t|t|t|t",
		'shown: lease, owner and time of the new holder');
	$three->cancel;
	$three->wait;
	is($two->value("SELECT redis_lock_owner('$key')"),
		$owner, 'shown: redis_lock_owner');
	$two->query_is("SELECT redis_lock_ttl('$key') BETWEEN '9min' AND '10min'",
		't', 'shown: redis_lock_ttl');

	# Taken again, partly given back, extended: as any other.
	$two->query_is("SELECT redis_lock('$key'), redis_hold_count('$key')",
		'|2', 'again: counted');
	is_deeply($redis->hash($key), { $owner => 2 }, 'again: in Redis as well');
	$two->query_is("SELECT redis_unlock('$key'), redis_hold_count('$key')",
		't|1', 'again: given back');
	is_deeply($redis->hash($key), { $owner => 1 }, 'again: in Redis as well');
	$two->query_is(
		"SELECT redis_extend('$key', '20min'), redis_extend('$key', NULL)",
		't|t', 'again: extended');
	ok($four->is_running, 'again: all the time the next one waits');
	run($two, "SELECT redis_unlock('$key')");
	is($four->wait->error, undef, 'again: then it gets it');
	run($four, 'COMMIT');
	gone($key, 'shown');
}
$_->quit foreach $one, $two, $three, $four;
nothing_left($node, $redis, keys => $counters);

#
# A lease that is renewed for one goes on being renewed for the next.
#
my $lease = limit(1);
{
	my $key = 'renewed';
	my @sessions =
	  map { $node->session(settings => { 'lockredis.lease' => "${lease}s" }) }
	  1 .. 3;
	my $renewals =
	  "SELECT renewals FROM redis_locks WHERE granted AND key = '$key'";

	run($sessions[0], "SELECT redis_lock('$key')");
	my $owner = $redis->owner_of($key);
	$node->queue_up($key, map { $_ => "SELECT redis_lock('$key')" } @sessions[ 1, 2 ]);
	foreach my $n (0 .. 2)
	{
		poll_until('some renewals', sub { $node->value($renewals) >= 3 });
		is( $node->value(
				"SELECT pid FROM redis_locks WHERE granted AND key = '$key'"),
			$sessions[$n]->pid,
			"renewed: holder $n");
		$sessions[$n]->query_is("SELECT redis_is_held('$key')",
			't', "renewed: still held by $n");
		last if $n == 2;
		run($sessions[$n], "SELECT redis_unlock('$key')");
		die 'not got' if defined $sessions[ $n + 1 ]->wait->error;
		cmp_ok($node->value($renewals), '<', 3, 'renewed: counted anew');
	}
	is($redis->owner_of($key), $owner, 'renewed: one owner all the time');

	# expires_in is that of the lease that it was handed with.
	is( $node->value(
			"SELECT expires_in > '0' AND expires_in <= '${lease}s' FROM redis_locks WHERE granted"
		),
		't',
		'renewed: expires_in');
	run($sessions[2], "SELECT redis_unlock('$key')");
	$_->quit foreach @sessions;
	nothing_left(
		$node, $redis,
		keys => $counters,
		name => 'renewed: nothing is left');
}

#
# A lock that is lost after the hand-over is the loss of its new holder, who
# is guarded by its own terms and not by those of the one before.
#
# [ what, how the lock goes, the reason ]
#
foreach my $case (
	[ 'DEL', sub { $redis->cmd('DEL', $_[0]) }, 'deleted' ],
	[
		'force_unlock',
		sub { $node->value("SELECT redis_force_unlock('$_[0]')") eq 't' or die },
		'forced'
	])
{
	my ($what, $lose, $reason) = @$case;
	my $key = "lost by $what";
	my $strict = $node->session(
		settings => {
			'lockredis.lease' => "${lease}s",
			'lockredis.commit_guard' => 'verify',
			'lockredis.on_lost' => 'terminate'
		});
	my $usual = $node->session(settings => { 'lockredis.lease' => "${lease}s" });
	my $lax = $node->session(
		settings => {
			'lockredis.lease' => "${lease}s",
			'lockredis.commit_guard' => 'off'
		});
	my $lost = sub {
		poll_until(
			'the loss to be seen',
			sub {
				$node->value(
					"SELECT count(*) FROM redis_locks WHERE lost_reason = '$reason' AND key = '$key'"
				) == 1;
			});
	};

	# From the strictest to the usual one.
	run($strict, "SELECT redis_lock('$key')");
	run($usual, 'BEGIN');
	$node->queue_up($key, $usual => "SELECT redis_xact_lock('$key')");
	run($strict, "SELECT redis_unlock('$key')");
	die 'not got' if defined $usual->wait->error;
	run($usual, 'INSERT INTO t VALUES (3)');
	$lose->($key);
	$lost->();
	$usual->query_is("SELECT redis_is_held('$key')",
		'f', "$key: it knows, and goes on");
	$usual->query_fails('COMMIT', '40001', qr/\Q$key\E.*lost/s,
		"$key: but cannot commit");
	$strict->query_is(
		'BEGIN; INSERT INTO t VALUES (4); COMMIT; SELECT 1',
		'1',
		"$key: to the one before it is nothing");

	# From the strictest to the one who does not care.
	run($strict, "SELECT redis_lock('$key')");
	$node->queue_up($key, $lax => "SELECT redis_lock('$key')");
	run($strict, "SELECT redis_unlock('$key')");
	die 'not got' if defined $lax->wait->error;
	$lose->($key);
	$lost->();
	$lax->query_is('BEGIN; INSERT INTO t VALUES (5); COMMIT; SELECT 1',
		'1', "$key: without a guard it commits");
	$lax->query_warns(
		"SELECT redis_unlock('$key')", 'f',
		'01000', qr/lost/,
		"$key: and is told");

	# And from there to the strictest: it is terminated.
	run($lax, "SELECT redis_lock('$key')");
	$node->queue_up($key, $strict => "SELECT redis_lock('$key')");
	run($lax, "SELECT redis_unlock('$key')");
	die 'not got' if defined $strict->wait->error;
	$lose->($key);
	poll_until('the strict one to be terminated', sub { $strict->is_gone });
	pass("$key: the strictest is terminated");
	$lax->query_is("SELECT redis_is_held('$key'), redis_try_lock('$key', '10s')",
		'f|t', "$key: the key can be had again");
	run($lax, "SELECT redis_unlock('$key')");
	$_->quit foreach $strict, $usual, $lax;
	nothing_left(
		$node, $redis,
		keys => $counters,
		name => "$key: nothing is left");
}

# The guard that asks Redis does so for the owner that was handed over.
{
	my $key = 'verified';
	my ($plain, $verify) =
	  map { $node->session(settings => { 'lockredis.commit_guard' => $_ }) }
	  'off', 'verify';

	foreach my $case ('kept', 'gone')
	{
		run($plain, "SELECT redis_lock('$key')");
		$node->queue_up($key,
			$verify =>
			  "BEGIN; INSERT INTO t VALUES (6); SELECT redis_xact_lock('$key')");
		run($plain, "SELECT redis_unlock('$key')");
		die 'not got' if defined $verify->wait->error;
		$redis->cmd('DEL', $key) if $case eq 'gone';
		my $result = $verify->query('COMMIT');
		is( $result->sqlstate,
			$case eq 'gone' ? '40001' : undef,
			"$key: commit, $case");
	}
	$_->quit foreach $plain, $verify;
	nothing_left(
		$node, $redis,
		keys => $counters,
		name => "$key: nothing is left");
}

done_testing();
