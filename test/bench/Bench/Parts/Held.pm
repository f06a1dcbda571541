# Copyright (c) 2026, lockredis contributors

# What it costs to hold many locks: for other pairs, and to renew them.

package Bench::Parts::Held;

use strict;
use warnings FATAL => 'all';

use Bench::Backends;
use Bench::Meter;
use Bench::Run qw(median);
use LockRedis::Test;

sub held
{
	my ($run) = @_;
	my $lease = $run->size('held_lease');
	my $holder =
	  $run->{near}->session(settings => { 'lockredis.lease' => "${lease}s" });
	my $contenders = contenders($run, $holder);
	my $held = 0;

	foreach my $n (@{ $run->size('held') })
	{
		my %entry = (held => $n);

		$entry{acquire_us} = take_more($holder, $held + 1, $n) if $n > $held;
		$held = $n;
		$entry{rate} = pairs_beside($run, $contenders);
		$run->say('%-12s %6d held: %s',
			'held', $n, join ', ',
			map { sprintf '%s %.0f/s', $_, median(@{ $entry{rate}{$_} }) }
			  sort keys %$contenders);
		if ($n > 0)
		{
			$entry{renewal} = renewal($run, $n);
			$entry{renewal}{burst_seconds} = renewal_at_once($run, $n);
			say_renewal($run, $n, $entry{renewal});
		}
		push @{ $run->{result}{held} }, \%entry;
	}
	$run->{result}{give_back_all_us} =
	  1000 * $holder->query('SELECT redis_unlock_all()', 300)->ms / $held;
	$holder->quit;
	memory($run);
	return;
}

# Who runs pairs meanwhile: the session that holds the locks, and another one
sub contenders
{
	my ($run, $holder) = @_;
	my %contenders;

	foreach my $kind (qw(session xact))
	{
		my %how = (kind => $kind, node => $run->{near}, board => $run->{board});

		$contenders{$kind} = Bench::Backends->new(%how);
		$contenders{"${kind}_here"} =
		  Bench::Backends->new(%how, session => $holder);
	}
	$contenders{bare} = $run->contender('bare') if $run->contender('bare');
	return \%contenders;
}

# Microseconds for each
sub take_more
{
	my ($holder, $from, $to) = @_;
	my $taken = $holder->query(
		"SELECT count(redis_lock('held:' || i)) FROM generate_series($from, $to) i",
		300);

	die "held: $taken->{raw}\n" if $taken->{raw} ne '';
	return 1000 * $taken->ms / ($to - $from + 1);
}

# Pairs a second of each round, all on the processor that Redis has
sub pairs_beside
{
	my ($run, $contenders) = @_;
	my @turns = sort keys %$contenders;
	my @pinned = ($run->{redis}->pid);
	my %rate;

	foreach my $contender (values %$contenders)
	{
		$contender->choose(1) if $contender->can('choose');
		push @pinned, $contender->pids;
	}
	$run->pin(0, @pinned);
	foreach my $round (0 .. $run->size('rounds'))
	{
		push @turns, shift @turns;
		foreach my $name (@turns)
		{
			my @entry = (
				$contenders->{$name},
				clients => 1, prefix => "held:$name", mode => 'own');
			my ($done) = $run->slice($run->size('pinned_slice'), [ \@entry ]);

			# The first one is to warm up.
			push @{ $rate{$name} }, $done->{rate} if $round;
		}
	}
	$run->pin(undef, @pinned);
	return \%rate;
}

sub stat_of
{
	my ($session, $name) = @_;

	return $session->value("SELECT $name FROM redis_lock_stats") + 0;
}

# What it takes to renew all once, which happens in a third of the lease
sub renewal
{
	my ($run, $n) = @_;
	my $round = $run->size('held_lease') / 3;
	my $session = $run->{near}->session;
	my $losses = stat_of($session, 'losses');
	my @pids = ($run->{near}->watchdog_pid, $run->{redis}->pid);
	my @cpu = map { Bench::Meter::cpu_of($_) } @pids;
	my $commands = $run->{redis}->script_calls;
	my $renewals = stat_of($session, 'renewals');
	my $begin = now();
	my $most = 0;

	while (now() < $begin + $round)
	{
		pause(0.1);
		my $lag = $session->value(
			q{SELECT coalesce(max(extract(epoch FROM renewal_lag)), 0) FROM redis_lock_status}
		);
		$most = $lag if $lag > $most;
	}
	my $took = now() - $begin;
	$renewals = stat_of($session, 'renewals') - $renewals;
	@cpu = map { Bench::Meter::cpu_of($pids[$_]) - $cpu[$_] } 0, 1;

	# Some may have been renewed twice, or are not due yet.
	my $share = $n / ($renewals || 1);
	my %renewal = (
		renewed => $renewals,
		round_seconds => $round,
		commands => ($run->{redis}->script_calls - $commands) * $share,
		cpu_seconds => $cpu[0] * $share,
		redis_cpu_seconds => $cpu[1] * $share,
		core_share => $cpu[0] / $took,
		max_lag_seconds => $most + 0,
		losses => stat_of($session, 'losses') - $losses);
	$session->quit;
	return \%renewal;
}

# Seconds until all are renewed after the watchdog has lost its connections,
# which makes all due at once
sub renewal_at_once
{
	my ($run, $n) = @_;
	my $session = $run->{near}->session;
	my $until = stat_of($session, 'renewals') + $n;
	my @connections = grep { $_->{name} =~ /^lockredis-watchdog-/ }
	  $run->{redis}->clients;

	die "the watchdog has no connection\n" unless @connections;
	my $begin = now();
	foreach my $connection (@connections)
	{
		$run->{redis}->try_cmd('CLIENT', 'KILL', 'ID', $connection->{id});
	}
	poll_until('all to be renewed at once',
		sub { stat_of($session, 'renewals') >= $until }, 60);
	my $took = now() - $begin;
	$session->quit;
	return $took;
}

sub say_renewal
{
	my ($run, $n, $renewal) = @_;

	$run->say(
		'%-12s %6d held: in %.0f s %d renewals; a round needs %.3f s of our CPU, %.3f s of Redis; late by %.3f s; at once in %.2f s',
		'renewal', $n,
		@$renewal{
			qw(round_seconds renewed cpu_seconds redis_cpu_seconds
			  max_lag_seconds burst_seconds)
		});
	return;
}

sub memory
{
	my ($run) = @_;
	my $bytes = $run->{near}->value(
		q{SELECT sum(allocated_size) FROM pg_shmem_allocations WHERE name ILIKE '%lockredis%'}
	);
	my $slots = $run->{near}->value('SHOW lockredis.max_locks');

	$run->{result}{slot_bytes} = 0 + sprintf '%.0f', $bytes / $slots;
	$run->say('%-12s %d bytes of shared memory a slot',
		'held', $run->{result}{slot_bytes});
	return;
}

1;
