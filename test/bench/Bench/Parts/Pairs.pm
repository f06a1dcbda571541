# Copyright (c) 2026, lockredis contributors

# Parts of the benchmark that time pairs of lock and unlock, or count what they
# send.

package Bench::Parts::Pairs;

use strict;
use warnings FATAL => 'all';

use Bench::Backends;
use Bench::Meter;

# What noise cannot move: client commands of single operations
sub counts
{
	my ($run) = @_;

	my ($one, $two) = Bench::Backends->sessions($run->{near}, 2);
	my $count = sub {
		my ($session, $sql) = @_;
		my $commands = Bench::Meter::commands(
			$run->{redis},
			sub {
				my $done = $session->query($sql);
				die "$sql: $done->{raw}\n" if $done->{raw} ne '';
			});
		my $sum = 0;

		$sum += $_ foreach values %$commands;
		return $sum;
	};
	my %counts;

	# Not the connection and the scripts' texts
	foreach my $session ($one, $two)
	{
		$session->query(
			"SELECT redis_lock('counts'); SELECT redis_unlock('counts')");
	}
	$counts{pair} = $count->(
		$one, "SELECT redis_lock('counts'); SELECT redis_unlock('counts')");
	$counts{commit} =
	  $count->($one, "BEGIN; SELECT redis_xact_lock('counts'); COMMIT");
	$counts{fenced} = $count->(
		$one,
		"SELECT redis_fenced_lock('counts') > 0; SELECT redis_unlock('counts')");
	$one->query("BEGIN; SELECT redis_xact_lock('counts')");
	$counts{again} = $count->($one, "SELECT redis_xact_lock('counts')");
	$counts{is_held} = $count->($one, "SELECT redis_is_held('counts')");
	$counts{try_local} = $count->($two, "SELECT redis_try_lock('counts')");

	# The one who waits is handed the lock at the end of the transaction.
	if ($run->{can_hand_over})
	{
		$two->start("SELECT redis_lock('counts')");
		$run->{near}->wait_for_waiters('counts', 1);
		$counts{hand_over} = $count->(
			$one,
			'COMMIT; SELECT 1 FROM redis_locks WHERE key = \'counts\' AND granted');
		$two->wait;
		$two->query("SELECT redis_unlock('counts')");
	}
	else
	{
		$one->query('COMMIT');
	}
	$run->{result}{counts} = \%counts;
	$run->say('%-12s %s', 'counts',
		join ', ', map { "$_ $counts{$_}" } sort keys %counts);
	return;
}

# What the extension adds to the bare loop: with Redis and the client each on a
# processor of its own, then on the same, so that it does not depend on where the
# system happens to run them.
sub pinned
{
	my ($run) = @_;

	my @names = $run->here(qw(bare session query xact fenced));

	return if $run->{result}{cpus} < 2 || !@names;
	foreach my $label ('apart', 'together')
	{
		my $cpu = $label eq 'apart' ? 1 : 0;

		$run->cell(
			part => 'pinned',
			link => 'direct',
			label => $label,
			clients => 1,
			mode => 'own',
			seconds => $run->size('pinned_slice'),
			names => \@names,
			prepare => sub {
				$run->pin(0, $run->{redis}->pid);
				$run->pin($cpu, $run->contender($_)->pids) foreach @_;
			});
	}
	$run->pin(undef, $run->{redis}->pid,
		map { $run->contender($_)->pids } @names);
	return;
}

# Each client its own lock
sub uncontended
{
	my ($run) = @_;
	my %work = (
		part => 'uncontended',
		link => 'direct',
		mode => 'own',
		seconds => $run->size('slice'));

	$run->warm_up;
	foreach my $clients (@{ $run->size('levels') })
	{
		$run->cell(
			%work,
			clients => $clients,
			names => [ $run->all ],
			count => $clients == 1);
	}

	# How cost grows with the number of sessions, which are processes
	my @some = $run->here(
		qw(bare bare_processes session query xact advisory advisory_xact));
	$run->cell(%work, clients => 64, names => \@some) unless $run->{quick};
	return;
}

# One lock that all want
sub hot
{
	my ($run) = @_;

	$run->warm_up;
	foreach my $clients (@{ $run->size('hot_levels') })
	{
		$run->cell(
			part => 'hot',
			link => 'direct',
			clients => $clients,
			mode => 'hot',
			seconds => $run->size('hot_slice'),
			names => [ $run->all ],
			count => $clients == 16);
	}
	return;
}

# Many locks, some wanted more than others
sub skew
{
	my ($run) = @_;

	$run->warm_up;
	$run->cell(
		part => 'skew',
		link => 'direct',
		clients => 16,
		mode => 'zipf',
		seconds => $run->size('hot_slice'),
		names => [ $run->all ]);
	return;
}

# With 1 ms more for each round trip
sub distance
{
	my ($run) = @_;
	my %work = (link => '1 ms', names => [ $run->all ]);

	$run->warm_up;
	$run->at_distance(
		sub {
			foreach my $clients (@{ $run->size('far_levels') })
			{
				$run->cell(
					%work,
					part => 'uncontended',
					clients => $clients,
					mode => 'own',
					seconds => $run->size('slice'));
			}
			$run->cell(
				%work,
				part => 'hot',
				clients => 16,
				mode => 'hot',
				seconds => $run->size('hot_slice'));
		});
	return;
}

1;
