# Copyright (c) 2026, lockredis contributors

# Histograms of durations, as the clients of the benchmark count them: 16 steps
# for each power of two of nanoseconds (test/bench/client.h).

package Bench::Histogram;

use strict;
use warnings FATAL => 'all';

sub new { my ($class) = @_; return bless { count => {}, total => 0 }, $class; }

# Add what a client has printed.
sub add_text
{
	my ($self, $text) = @_;

	return if $text eq '-';
	foreach my $word (split /,/, $text)
	{
		my ($step, $count) = split /:/, $word;
		$self->{count}{$step} += $count;
		$self->{total} += $count;
	}
	return;
}

sub add_ns
{
	my ($self, $ns) = @_;
	my $e = 4;

	$ns = 16 if $ns < 16;
	$e++ while $ns >= 2**($e + 1);
	$self->{count}{ $e * 16 + (int($ns / 2**($e - 4)) & 15) }++;
	$self->{total}++;
	return;
}

sub add
{
	my ($self, $other) = @_;

	$self->{count}{$_} += $other->{count}{$_} foreach keys %{ $other->{count} };
	$self->{total} += $other->{total};
	return;
}

sub total { my ($self) = @_; return $self->{total}; }

# Microseconds that this share of all stays below; undef without any.
sub quantile
{
	my ($self, $share) = @_;
	my $left = $share * $self->{total};
	my $last;

	foreach my $step (sort { $a <=> $b } keys %{ $self->{count} })
	{
		$last = $step;
		last if ($left -= $self->{count}{$step}) <= 0;
	}
	return undef unless defined $last;

	# The middle of the step.
	my ($e, $part) = (int($last / 16), $last % 16);
	return 2**($e - 4) * (16.5 + $part) / 1000;
}

sub summary
{
	my ($self) = @_;

	return undef unless $self->{total};
	return {
		n => $self->{total},
		p50 => _round($self->quantile(0.5)),
		p99 => _round($self->quantile(0.99)),
		max => _round($self->quantile(1))
	};
}

# Steps are 6 percent wide.
sub _round { return 0 + sprintf '%.3g', $_[0]; }

1;
