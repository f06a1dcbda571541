# Copyright (c) 2026, lockredis contributors

# The file that all clients of the benchmark map (test/bench/client.h): the
# counters that their locks protect, and the sequence of keys of those that use
# many of them, some more than others.

package Bench::Board;

use strict;
use warnings FATAL => 'all';

my $keys = 1024;
my $sequence_start = 16384;
my $sequence_size = 65536;

# Zipf's law over that many keys: the second is used half as often as the first.
my $zipf_keys = 1000;

sub new
{
	my ($class, $path) = @_;
	my $self = bless { path => $path }, $class;

	open $self->{file}, '+>', $path or die "could not open $path: $!";
	binmode $self->{file};
	print { $self->{file} } "\0" x $sequence_start, _sequence();
	$self->{file}->flush;
	return $self;
}

sub path { my ($self) = @_; return $self->{path}; }

# The same in each run.
sub _sequence
{
	my (@upto, @numbers, $sum);
	my $random = 1;

	foreach my $key (1 .. $zipf_keys)
	{
		$sum += 1 / $key;
		push @upto, $sum;
	}
	foreach (1 .. $sequence_size)
	{
		$random = ($random * 1103515245 + 12345) % 2**31;
		my ($low, $high, $at) =
		  (0, $zipf_keys - 1, $random / 2**31 * $sum);
		while ($low < $high)
		{
			my $middle = int(($low + $high) / 2);
			if ($upto[$middle] > $at) { $high = $middle; }
			else { $low = $middle + 1; }
		}
		push @numbers, $low;
	}
	return pack 'l*', @numbers;
}

# The sum of all counters.
sub sum
{
	my ($self) = @_;
	my $sum = 0;

	sysseek $self->{file}, 0, 0 or die $!;
	sysread($self->{file}, my $bytes, 8 * $keys) == 8 * $keys or die $!;
	$sum += $_ foreach unpack 'q*', $bytes;
	return $sum;
}

1;
