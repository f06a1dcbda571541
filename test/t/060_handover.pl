# Copyright (c) 2026, lockredis contributors

# A lock passes from one session of a server to the next inside shared memory.
# That costs no command, is first in first out, happens at most max_handoffs times
# in a row, for every way to give a lock back and every way to wait for one; the first
# fenced waiter takes its token, and those of the next ones, with one script call.
# Proves G21, G22, G31.

use LockRedis::Test qw(:DEFAULT run);
use LockRedis::Topic::Handover;

start_servers();

#
# What it costs, and who is next: one has it, the others come one after the
# other, and it goes round.
#
{
	my $before = $node->lock_stat('handoffs');
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
	is($node->lock_stat('handoffs') - $before, 3, 'round: three hand-overs are counted');
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
# shows as another owner.  A session that does not run for a second is handed nothing: a
# round in which that may have happened is made again.
#
is($node->value('SHOW lockredis.max_handoffs'), 32, 'in a row: the default');
foreach my $max (0, 1, 3)
{
	my ($holder, $waiter) = ($one, $two);
	my $turns = 9;
	my ($before, @owners, @changes);

	$node->set('lockredis.max_handoffs' => $max);
	$_->value("SHOW lockredis.max_handoffs") == $max || die 'not reloaded' foreach $one, $two;
	foreach my $round (1 .. 10)
	{
		my $longest = 0;

		$before = $node->lock_stat('handoffs');
		run($holder, "SELECT redis_lock('in a row')");
		@owners = $redis->owner_of('in a row');
		@changes = ();
		foreach my $turn (1 .. $turns)
		{
			$node->queue_up('in a row', $waiter => "SELECT redis_lock('in a row')");
			my $since = now();
			run($holder, "SELECT redis_unlock('in a row')");
			die 'not got' if defined $waiter->wait->error;
			my $took = now() - $since;
			$longest = $took if $took > $longest;
			push @owners, $redis->owner_of('in a row');
			push @changes, $turn if $owners[-1] ne $owners[-2];
			($holder, $waiter) = ($waiter, $holder);
		}
		last if $longest < 0.9 || $round == 10;
		run($holder, "SELECT redis_unlock('in a row')");
		gone('in a row', "in a row: $max, a round that took long");
	}
	is_deeply(
		\@changes,
		[ grep { $_ % ($max + 1) == 0 } 1 .. $turns ],
		"in a row: $max, then a real release, and so on");
	is( $node->lock_stat('handoffs') - $before,
		$turns - @changes,
		"in a row: $max, hand-overs are counted");
	run($holder, "SELECT redis_unlock('in a row')");
	gone('in a row', "in a row: $max");
}
$node->set('lockredis.max_handoffs' => 32);

#
# Every way to give a lock back, every way to wait for one.
#
# [ what, statements before, the one that gives it back, the one after it ];
# KEY stands for the key.
#
my $lock = q{SELECT redis_lock('KEY')};
my $unlock = q{SELECT redis_unlock('KEY')};
my @givers = (
	[ 'redis_unlock', $lock, $unlock ],
	[ 'redis_unlock of a try', q{SELECT redis_try_lock('KEY')}, $unlock ],
	[ 'the last of three holds', "$lock; $lock; $lock; $unlock; $unlock", $unlock ],
	[ 'redis_unlock of a fenced lock', q{SELECT redis_fenced_lock('KEY')}, $unlock ],
	[ 'redis_unlock_all', $lock, 'SELECT redis_unlock_all()' ],
	[ 'DISCARD ALL', $lock, 'DISCARD ALL' ],
	[ 'COMMIT', q{BEGIN; INSERT INTO t VALUES (1); SELECT redis_xact_lock('KEY')}, 'COMMIT' ],
	[ 'COMMIT of a fenced lock', q{BEGIN; SELECT redis_fenced_xact_lock('KEY')}, 'COMMIT' ],
	[ 'ROLLBACK', q{BEGIN; SELECT redis_xact_lock('KEY')}, 'ROLLBACK' ],
	[
		'ROLLBACK TO', q{BEGIN; SAVEPOINT s; SELECT redis_xact_lock('KEY')},
		'ROLLBACK TO s', 'COMMIT'
	],
	[ 'an error', q{BEGIN; SELECT redis_xact_lock('KEY')}, 'SELECT 1/0', 'ROLLBACK' ],
	[ 'COMMIT of both scopes', "$lock; BEGIN; SELECT redis_xact_lock('KEY'); $unlock", 'COMMIT' ]);
my @takers = (
	[ q{SELECT redis_lock('KEY')}, 'session' ],
	[ q{SELECT redis_try_lock('KEY', '1min')}, 'session' ],
	[ q{BEGIN; SELECT redis_xact_lock('KEY')}, 'transaction' ],
	[ q{BEGIN; SELECT redis_try_xact_lock('KEY', '1min')}, 'transaction' ],
	[ q{SELECT redis_fenced_lock('KEY')}, 'session', 'fenced' ],
	[ q{SELECT redis_try_fenced_lock('KEY', '1min')}, 'session', 'fenced' ],
	[ q{BEGIN; SELECT redis_fenced_xact_lock('KEY')}, 'transaction', 'fenced' ]);

sub row_of ($s, $key)
{
	return $node->value(
		"SELECT scope, granted, hold_count, renewed, renewals, lost_at IS NULL,"
		  . " waiting_since IS NULL, blocked_by IS NULL, fence IS NOT NULL"
		  . " FROM redis_locks WHERE key = '$key' AND pid = "
		  . $s->pid);
}

# two waits in the way of the taker, $give has the lock given back.
sub check_pair ($key, $name, $taker, $give)
{
	my ($wait, $scope, $fenced) = @$taker;
	my $sql = with_key($wait, $key);
	my $owner = $redis->owner_of($key);
	my $before = $node->lock_stat('handoffs');

	$node->queue_up($key, $two => $sql);
	my $calls = $redis->script_calls;
	$give->();
	my $got = $two->wait(limit(10));
	$calls = $redis->script_calls - $calls;
	is($got->error, undef, "$name: got");
	is($node->lock_stat('handoffs') - $before, 1, "$name: handed over");
	is( $calls,
		$fenced ? 1 : 0,
		"$name: " . ($fenced ? 'one call, for the token' : 'no call'));
	is($redis->owner_of($key), $owner, "$name: the owner stays");
	is( row_of($two, $key),
		"$scope|t|1|t|0|t|t|t|" . ($fenced ? 't' : 'f'),
		"$name: its row");
	is($node->count_locks("key = '$key'"), 1, "$name: there is no other");
	run($two, $scope eq 'session' ? "SELECT redis_unlock('$key')" : 'COMMIT');
	return gone($key, $name);
}

my $turn = 0;
foreach my $giver (@givers)
{
	my ($what, $before, $give, $after) = @$giver;
	my $taker = $takers[ $turn++ % @takers ];
	my $key = "giver $turn";

	run($one, with_key($before, $key));
	check_pair($key, "$what, then $taker->[0]",
		$taker, sub { $one->query(with_key($give, $key)) });
	run($one, $after) if $after;
}
foreach my $taker (@takers)
{
	my $key = 'taker ' . $turn++;

	run($one, "SELECT redis_lock('$key')");
	check_pair($key, "redis_unlock, then $taker->[0]",
		$taker, sub { run($one, "SELECT redis_unlock('$key')") });
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
		my $before = $node->lock_stat('handoffs');

		$one->start(
			"CALL redis_with_lock('job', 'CALL await_waiter(''job''); $command')"
		);
		poll_until('the job to have the lock',
			sub { $redis->cmd('EXISTS', 'job') });

		# The watchdog would repeat a release that is not answered soon.
		my @calls = grep { /"EVAL/i } $redis->session_commands(
			sub {
				is( $two->query(
						"CALL redis_with_lock('job', 'INSERT INTO t VALUES (2)', wait => '1min')",
						limit(20))->out,
					't',
					"$name: the next one runs");
				is($one->wait->sqlstate, $error, "$name: and how the first one ended");
			});
		is($node->lock_stat('handoffs') - $before, 1, "$name: handed over");
		is(scalar @calls, 1, "$name: one call, the last release");
		gone('job', $name);
	}
}

done_testing();
