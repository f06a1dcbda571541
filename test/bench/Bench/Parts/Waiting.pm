# Copyright (c) 2026, lockredis contributors

# Parts of the benchmark that are about waiting for somebody else.

package Bench::Parts::Waiting;

use strict;
use warnings FATAL => 'all';

use Bench::Backends;
use Bench::Histogram;
use Bench::Meter;
use Bench::Run qw(median);
use LockRedis::Test;
use PostgreSQL::Test::Utils;

# ---- wake-up ----

# Two that take turns, each on a server of its own: from the release to when the
# other, who waited, has the lock
sub wakeup
{
	my ($run) = @_;

	$run->warm_up;
	measure_wakeup($run, 'direct');
	$run->at_distance(sub { measure_wakeup($run, '1 ms') });
	return;
}

sub measure_wakeup
{
	my ($run, $link) = @_;
	my $far = $link ne 'direct';
	my $teams = teams($run);
	my $trip = $run->round_trip($far);
	my (%wake, %lost);

	# Long enough for the other to be waiting as it waits for ever
	my %hold =
	  $far ? (hold => 20_000, pause => 4_000) : (hold => 10_000, pause => 2_000);

	foreach my $round (0 .. $run->size('rounds'))
	{
		foreach my $name (sort keys %$teams)
		{
			my %work = (%hold, mode => 'hot', prefix => "wakeup:$name");
			my @done = $run->slice(
				$round ? $run->size('wakeup_slice') : 0.2,
				[ map { [ @$_, %work ] } @{ $teams->{$name} } ],
				far => $far);

			# The first one is to warm up.
			next unless $round;
			$wake{$name} ||= Bench::Histogram->new;
			$wake{$name}->add($_->{wake}) foreach @done;
			$lost{$name} += $done[0]{lost_updates};
		}
	}
	foreach my $name (sort keys %$teams)
	{
		my $summary = $wake{$name}->summary;

		push @{ $run->{result}{wakeup} },
		  {
			link => $link,
			contender => $name,
			wake_us => $summary,
			round_trip_us => $trip,
			round_trips => $summary && $trip ? $summary->{p50} / $trip : undef,
			lost_updates => $lost{$name}
		  };
		$run->say(
			'%-12s %-6s %-18s median %.0f us (a round trip: %.0f us), p99 %.0f us, %d times',
			'wakeup', $link, $name,
			$summary ? $summary->{p50} : 0,
			$trip || 0,
			$summary ? @$summary{qw(p99 n)} : (0, 0));
	}
	return;
}

# Who takes turns with whom
sub teams
{
	my ($run) = @_;
	my ($session, $redisson) = map { $run->contender($_) } qw(session redisson);
	my %teams;

	foreach my $name ($run->here(qw(redisson redsync redis_py)))
	{
		$teams{$name} =
		  [ [ $run->contender($name), clients => 2, separate => 1 ] ];
	}
	$teams{session} =
	  [ [ $session, clients => 1 ], [ elsewhere($run), clients => 1, base => 1 ] ]
	  if $session;
	$teams{'session+redisson'} =
	  [ [ $session, clients => 1 ], [ $redisson, clients => 1, base => 1 ] ]
	  if $session && $redisson;
	return \%teams;
}

# A session of another server
sub elsewhere
{
	my ($run) = @_;

	return Bench::Backends->new(
		kind => 'session',
		node => $run->{other},
		board => $run->{board});
}

# ---- fairness ----

# How long somebody elsewhere waits for a key that 16 sessions of a server pass
# among themselves
sub fairness
{
	my ($run) = @_;
	my %waiters = ('a session elsewhere' => elsewhere($run));

	return unless $run->contender('session') && $run->{can_hand_over};
	$run->warm_up;
	$waiters{Redisson} = $run->contender('redisson')
	  if $run->contender('redisson');

	my $default = $run->{near}->value('SHOW lockredis.max_handoffs');
	foreach my $handoffs (@{ $run->size('handoffs') })
	{
		$run->{near}->set('lockredis.max_handoffs' => $handoffs);
		measure_fairness($run, $handoffs, \%waiters);
	}
	$run->{near}->set('lockredis.max_handoffs' => $default);
	return;
}

sub measure_fairness
{
	my ($run, $handoffs, $waiters) = @_;
	my %work = (mode => 'hot', prefix => 'fairness');
	my @locals = ($run->contender('session'), %work, clients => 16);
	my %seen;

	foreach my $round (0 .. $run->size('fairness_rounds'))
	{
		foreach my $name (sort keys %$waiters)
		{
			my @waiter = (
				$waiters->{$name}, %work,
				clients => 1, base => 16, pause => 1000);
			my ($here, $there) = $run->slice(
				$round ? $run->size('fairness_slice') : 0.2,
				[ \@locals, \@waiter ]);
			my $all = $seen{$name} ||= {
				wait => Bench::Histogram->new,
				local_rate => [], waiter_rate => [], lost_updates => 0
			};

			# The first one is to warm up.
			next unless $round;
			$all->{wait}->add($there->{lock});
			push @{ $all->{local_rate} }, $here->{rate};
			push @{ $all->{waiter_rate} }, $there->{rate};
			$all->{lost_updates} += $here->{lost_updates};
		}
	}
	foreach my $name (sort keys %seen)
	{
		my $all = $seen{$name};
		my $summary = delete($all->{wait})->summary;

		@$all{qw(max_handoffs waiter wait_us)} = ($handoffs, $name, $summary);
		push @{ $run->{result}{fairness} }, $all;
		$run->say(
			'%-12s max_handoffs %-4s %-20s waits %.1f ms (at most %.1f ms), here %.0f pairs/s',
			'fairness', $handoffs, $name,
			$summary ? map { $_ / 1000 } @$summary{qw(p50 max)} : (0, 0),
			median(@{ $all->{local_rate} }));
	}
	return;
}

# ---- many waiters ----

# Takes and releases many locks for somebody else, in one go.
my $somebody = <<'END';
for i = 0, ARGV[1] - 1 do
	local key = 'waiters:' .. i
	if ARGV[2] == 'take' then
		redis.call('HSET', key, 'somebody:1', 1)
		redis.call('PEXPIRE', key, 600000)
	else
		redis.call('DEL', key)
		redis.call('PUBLISH', 'redisson_lock__channel:{' .. key .. '}', 0)
	end
end
END

my $waiting = 'FROM redis_locks WHERE waiting_since IS NOT NULL';

# Many sessions that wait, each for another key
sub waiters
{
	my ($run) = @_;
	my $n = $run->size('waiters');
	my ($near, $redis) = @$run{qw(near redis)};
	my %result = (sessions => $n, channels => $n);

	$redis->cmd('EVAL', $somebody, 0, $n, 'take');
	my $begin = now();
	my $pgbench = start_waiters($run, $n);
	poll_until("$n sessions to wait",
		sub { $near->value("SELECT count(*) $waiting") == $n }, 120);
	poll_until("$n subscriptions", sub { $redis->channels >= $n }, 60);
	$result{ready_seconds} = now() - $begin;
	$result{subscription_connections} = grep { $_->{sub} > 0 } $redis->clients;
	look_at_waiters($run, \%result);

	$begin = now();
	$redis->cmd('EVAL', $somebody, 0, $n, 'release');
	poll_until('all to have got their locks',
		sub { $near->value("SELECT count(*) $waiting") == 0 }, 60);
	$result{woken_seconds} = now() - $begin;
	my $text = do { local $/; readline $pgbench };
	close $pgbench;
	die "pgbench: $text" unless $text =~ /actually processed: $n\/$n/;

	$run->{result}{waiters} = \%result;
	$run->say(
		'%-12s %d sessions wait for %d locks over %d connection(s); watchdog %.1f %% of a core, %.1f MB a backend; all woken in %.2f s',
		'waiters', $n, $n,
		$result{subscription_connections},
		100 * $result{watchdog_share},
		$result{private_bytes} / 1e6,
		$result{woken_seconds});
	return;
}

sub start_waiters
{
	my ($run, $n) = @_;
	my $script = "$run->{dir}/wait.sql";
	my @command = (
		'pgbench', '-n', '-t', 1, '-j', 2, '-c', $n, '-f', $script,
		'-h', $run->{near}->host, '-p', $run->{near}->port, 'postgres');

	append_to_file($script, "SELECT redis_lock('waiters:' || :client_id);\n");
	open my $pgbench, '-|', "exec @command 2>&1"
	  or die "could not run pgbench: $!";
	return $pgbench;
}

# What waiting costs: of a core, and memory
sub look_at_waiters
{
	my ($run, $result) = @_;
	my $seconds = 2;
	my @backends = split /\n/,
	  $run->{near}->value("SELECT pid $waiting LIMIT 20");
	my @pids = ($run->{near}->watchdog_pid, $backends[0]);
	my @cpu = map { Bench::Meter::cpu_of($_) } @pids;

	pause($seconds);
	foreach my $which (qw(watchdog_share waiter_share))
	{
		$result->{$which} =
		  (Bench::Meter::cpu_of(shift @pids) - shift @cpu) / $seconds;
	}
	$result->{private_bytes} =
	  median(map { Bench::Meter::private_memory($_) || 0 } @backends);
	return;
}

1;
