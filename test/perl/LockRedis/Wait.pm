# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::Wait - the clock of the tests, and waiting for a condition

=head1 DESCRIPTION

A test never sleeps and hopes: it names the condition and a limit that only a
failure reaches.  Limits are multiplied by LOCKREDIS_TEST_SLOW (default 1) for
slow machines and runs under valgrind or sanitizers.

=over

=item now()

Seconds on CLOCK_MONOTONIC, with fractions.

=item limit($seconds)

The limit, scaled for this machine.

=item poll_until($what, $condition [, $seconds])

Calls $condition until it is true and returns what it returned; dies with $what
after 60 (or $seconds) seconds.  While it waits, the output of all open
LockRedis::Sessions is read.

=item pause($seconds)

For the few tests that are about time itself ("held for three leases").

=item on_pause($callback)

Run by poll_until and pause with the seconds to spend: LockRedis::Session reads
its sockets there.

=back

=cut

package LockRedis::Wait;

use strict;
use warnings FATAL => 'all';

use Carp;
use Exporter 'import';
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);

our @EXPORT_OK = qw(now limit poll_until pause on_pause);

# Since 17 PostgreSQL's test modules catch SIGCHLD, unless it has a handler already.  A child that
# ends would then interrupt select(), which callers take for the end of their time limit.
$SIG{CHLD} = 'DEFAULT';

my $scale = $ENV{LOCKREDIS_TEST_SLOW} || 1;
my $idle = sub { select(undef, undef, undef, $_[0]) };

sub now () { return clock_gettime(CLOCK_MONOTONIC); }

sub limit
{
	my ($seconds) = @_;

	return $seconds * $scale;
}

sub on_pause
{
	my ($callback) = @_;

	$idle = $callback;
	return;
}

sub pause
{
	my ($seconds) = @_;
	my $until = now() + $seconds;

	while ((my $left = $until - now()) > 0)
	{
		$idle->($left);
	}
	return;
}

sub poll_until
{
	my ($what, $condition, $seconds) = @_;
	my $until = now() + limit(defined $seconds ? $seconds : 60);
	my $nap = 0.005;

	while (1)
	{
		# Asked once more when the time is over: this process may have stood still.
		my $over = now() > $until;
		my $result = $condition->();
		return $result if $result;
		croak "gave up waiting for $what" if $over;
		pause($nap);
		$nap = $nap * 1.5 if $nap < 0.1;
	}
}

1;
