# Copyright (c) 2026, lockredis contributors

# A session that is stopped for longer than its lease, and comes back.  Its lock
# is renewed as long as it lives, stopped or not; it cannot commit once its
# lease was lost, and a renewal read after the deadline does not revive; what it
# does late does not touch its successor (which may be elsewhere: the simulator's, its mutants
# lua_*_owner and revive*).  The same with commit_guard = off,
# where the update is lost, shows that the tests can fail.
# Proves G3, G7, G12.  Shows what is not guaranteed: N3.

use LockRedis::Test qw(:DEFAULT run);

my $lease_ms = limit(0.5) * 1000;
my ($node, $redis) = servers(settings => { 'lockredis.lease' => "${lease_ms}ms" });
my $other_node = LockRedis::Node->create('other', redis => $redis);
my ($paused, $next) = map { $node->session } 1 .. 2;
my $other = $other_node->session;

$_->wait_for_up foreach $node, $other_node;

run($next, 'CREATE TABLE counter (n int); INSERT INTO counter VALUES (0)');

sub stop_watchdog
{
	my $pid = $node->watchdog_pid;

	kill('STOP', $pid) == 1 or die "could not stop $pid: $!";
	return $pid;
}

sub stopped ($pid)
{
	return poll_until(
		"process $pid to be stopped",
		sub {
			open my $fh, '<', "/proc/$pid/stat" or die "process $pid: $!";
			return <$fh> =~ /\) T /;
		});
}

# Who is stopped: the backend, whose lease was given, or it and the watchdog that
# should renew its lease; who goes on first then.
my %pause = (
	'a given lease' => {
		lease => ", '$lease_ms ms'",
		thaw => sub {
			$paused->thaw;
			return $paused->wait;
		}
	},
	'a renewed lease, backend first' => {
		lease => '',
		watchdog => 1,
		thaw => sub ($watchdog) {
			$paused->thaw;
			my $result = $paused->wait;
			kill 'CONT', $watchdog;
			return $result;
		}
	},
	'a renewed lease, watchdog first' => {
		lease => '',
		watchdog => 1,
		thaw => sub ($watchdog) {
			kill 'CONT', $watchdog;
			poll_until('the loss to be seen',
				sub { $node->count_locks('lost_at IS NOT NULL') > 0 });
			$paused->thaw;
			return $paused->wait;
		}
	});

# paused       has the lock, has read 0, is stopped (and the watchdog)
# successor    waits, has the lock when the lease is over, reads 0
# paused       has been sent the write of 0 + 1 and COMMIT, goes on
# successor    writes 0 + 1, commits
#
# Right: the paused one fails, and the counter is 1 because one has counted.
# Without the guard two have counted, and it is 1 all the same.
sub pause_test ($pause, $guard, $lock = 'redis_xact_lock')
{
	my $watchdog;

	run($next, 'UPDATE counter SET n = 0');
	run($paused, "SET lockredis.commit_guard = '$guard'");
	is( $paused->in_time(
			"ROLLBACK; BEGIN; SELECT $lock('pause'$pause->{lease}); SELECT n FROM counter")->out,
		"\n0",
		'the paused session has read');
	$watchdog = stop_watchdog() if $pause->{watchdog};
	$paused->freeze;
	stopped($_) foreach grep { defined } $paused->pid, $watchdog;
	$paused->start('UPDATE counter SET n = 0 + 1; COMMIT');

	# Its lease is not to end here.
	$next->query_is("BEGIN; SELECT redis_xact_lock('pause', '10 min')", '',
		'the waiter has the lock');
	$next->query_is('SELECT n FROM counter', 0, 'the successor has read');

	my $result = $pause->{thaw}->($watchdog);
	if ($guard eq 'off')
	{
		is($result->error, undef, 'without the guard the paused session commits');
	}
	else
	{
		$result->fails(
			$lock eq 'redis_lock' ? '55000' : '40001',
			qr/could not commit because the lock "pause" was lost\nDETAIL:  Its lease expired/,
			'the paused session cannot commit');
	}
	$next->query_is("SELECT redis_is_held('pause')", 't', 'the successor still has it');

	# What its own function says is not asked before: it could find out then.
	$next->query_is(
		"UPDATE counter SET n = 0 + 1; COMMIT; SELECT n FROM counter",
		1, $guard eq 'off' ? 'the update is lost' : 'the successor has counted');
	$paused->query("SELECT redis_unlock('pause')") if $lock eq 'redis_lock';
	return;
}

foreach my $pause (sort keys %pause)
{
	subtest "$pause, guard $_" => sub { pause_test($pause{$pause}, $_) } foreach 'lease', 'off';
}
subtest 'a session-level lock' => sub {
	pause_test($pause{'a renewed lease, backend first'}, 'lease', 'redis_lock');
};

# Stopped for longer than its lease, but the watchdog is not: it still has the lock, and
# the other one waits for its commit.
subtest 'the watchdog holds it for a stopped session' => sub {
	run($next, 'UPDATE counter SET n = 0');
	# The watchdog has to be in time.
	run($paused, "SET lockredis.commit_guard = 'lease'; SET lockredis.lease = '"
		. limit(6) . "s'");
	run($paused, "BEGIN; SELECT redis_xact_lock('pause'); SELECT n FROM counter");
	$paused->freeze;
	stopped($paused->pid);
	$paused->start('UPDATE counter SET n = 0 + 1; COMMIT');
	$other->start("SELECT redis_lock('pause')");
	$next->start("SELECT redis_lock('pause', '1 min')");
	$node->wait_for_waiters('pause', 1);
	poll_until(
		'a lease and more to have passed',
		sub {
			$node->value(
				q{SELECT renewals FROM redis_locks WHERE key = 'pause' AND granted})
			  >= 4;
		});
	ok($_->is_running, 'another one waits') foreach $next, $other;
	$paused->thaw;
	is($paused->wait->error, undef, 'it commits');

	# In whatever order the two get it.
	poll_until('one of the two to have the lock',
		sub { !$next->is_running || !$other->is_running });
	my @order = $next->is_running ? ($other, $next) : ($next, $other);
	foreach my $s (@order)
	{
		is($s->wait->error, undef, 'the waiter has the lock');
		is($node->value('SELECT n FROM counter'), 1, 'and sees the change');
		$s->query_is("SELECT redis_unlock('pause')", 't', 'unlocked');
	}
};

end_test([ $node, $other_node ], $redis);
