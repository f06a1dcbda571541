# Copyright (c) 2026, lockredis contributors

# One hot key in statements that come from outside, by pgbench.

package Bench::Parts::Statements;

use strict;
use warnings FATAL => 'all';

use Bench::Histogram;
use Bench::Pgbench qw(pgbench);
use PostgreSQL::Test::Utils;

my $clients = 16;

# Each counts itself on the board; the first %s is its path.
my %script = (
	session => <<'END',
SELECT redis_lock('statements'), bench_attach('%s'), bench_locked();
SELECT bench_unlocking(), redis_unlock('statements');
END
	advisory => <<'END',
SELECT pg_advisory_lock(1), bench_attach('%s'), bench_locked();
SELECT bench_unlocking(), pg_advisory_unlock(1);
END
	xact => <<'END',
BEGIN;
SELECT redis_xact_lock('statements'), bench_attach('%s'), bench_locked();
SELECT bench_unlocking();
COMMIT;
END
	advisory_xact => <<'END');
BEGIN;
SELECT pg_advisory_xact_lock(1), bench_attach('%s'), bench_locked();
SELECT bench_unlocking();
COMMIT;
END

sub statements
{
	my ($run) = @_;
	my @kinds = $run->here(@{ $run->size('statements_kinds') });
	my %cell;

	foreach my $kind (@kinds)
	{
		append_to_file("$run->{dir}/$kind.sql",
			sprintf($script{$kind}, $run->{board}->path));
		$cell{$kind} = {
			part => 'statements',
			link => 'direct',
			clients => $clients,
			contender => $kind,
			rate => [],
			pair => Bench::Histogram->new,
			steps => 0, commands => 0, errors => 0, lost_updates => 0
		};
	}
	foreach my $round (1 .. $run->size('statements_rounds'))
	{
		push @kinds, shift @kinds;
		one_round($run, $_, $cell{$_}) foreach @kinds;
	}
	foreach my $kind (sort @kinds)
	{
		my $cell = $cell{$kind};

		$cell->{script_calls} = delete($cell->{commands}) / $cell->{steps};
		$cell->{pair_us} = delete($cell->{pair})->summary;
		$run->add_cell($cell);
	}
	return;
}

# A second, which is what pgbench can do at least
sub one_round
{
	my ($run, $kind, $cell) = @_;
	my $commands = $run->{redis}->script_calls;
	my $sum = $run->{board}->sum;
	my ($rate, $steps) = timed($run, $kind, $cell->{pair});

	push @{ $cell->{rate} }, $rate;
	$cell->{steps} += $steps;
	$cell->{commands} += $run->{redis}->script_calls - $commands;
	$cell->{lost_updates} += $steps - ($run->{board}->sum - $sum);
	return;
}

# Pairs a second and their number; fills the histogram of how long they took.
sub timed
{
	my ($run, $kind, $histogram) = @_;
	my $prefix = "$run->{dir}/pgbench";
	my ($rate, $steps) = pgbench($run->{near}, "$run->{dir}/$kind.sql",
		'-c', $clients, '-j', 2, '-T', 1, '-l', '--log-prefix', $prefix);

	foreach my $file (glob "$prefix.*")
	{
		foreach my $line (split /\n/, slurp_file($file))
		{
			my $us = (split / /, $line)[2];

			$histogram->add_ns(1000 * $us);
		}
		unlink $file;
	}
	return ($rate, $steps);
}

1;
