# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::Twins::Differences - in what Redis mode and table mode differ on purpose

=head1 DESCRIPTION

Each entry takes out of what is seen what may differ, and says why.  Whatever is not taken out
here must be the same.

=cut

package LockRedis::Twins::Differences;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';

our @EXPORT_OK = qw(forgive_key forgive_row is_avoided);

# Of a row of redis_locks; $rows are all of them
my @of_rows = (
	[
		'Who waits for a fair lock stands in the queue of Redis, and the server does not know who'
		  . ' else stands there; in table mode its own queue is that one (docs/fair.md).',
		sub {
			my ($row, $rows) = @_;

			return unless $row->{kind} eq 'fair' && $row->{blocked};
			my %has =
			  map { $_->{who} => 1 } grep { $_->{key} eq $row->{key} && $_->{granted} } @$rows;
			$row->{blocked} = [ grep { $has{$_} } @{ $row->{blocked} } ];
		}
	],
	[
		'Who is waiting may take a key that was taken away before all who had it know; it says'
		  . ' which of both was seen, and that is not always the same in one mode either.',
		sub {
			my ($row) = @_;

			$row->{lost} = 'forced' if ($row->{lost} // '') =~ /^taken by/;
		}
	]);

# Of what the store says of a key; $rows are those of redis_locks for it
my @of_keys = (
	[
		'The time to live of a lock that is read is that of the hash in Redis, by which Redisson\'s'
		  . ' writers sleep: readers lengthen it, under a write lock too, and one who leaves makes it'
		  . ' shorter if those who stay have far shorter leases.  In a table a reader has a row of'
		  . ' its own, and nobody sleeps by that which they share (docs/read-write.md).',
		sub {
			my ($there, $rows) = @_;

			delete $there->{ttl}
			  if ($there->{owner} // '') =~ /^(?:read|\d+ readers)$/
			  || grep { $_->{kind} eq 'read' && $_->{granted} && $_->{who} =~ /^s/ } @$rows;
		}
	],
	[
		'Redisson adds the leases of a writer that locks again, and begins anew with its own lease'
		  . ' when one of several holds is given back.  Ours are never shortened, nor added up.',
		sub {
			my ($there) = @_;

			delete $there->{ttl} if ($there->{owner} // '') =~ /^f\d$/;
		}
	]);

# What is not begun, on either side; $there is what the store says of its key, $rows are those
# of redis_locks for it
my @avoided = (
	[
		'A key that stays locked after its release (hold_at_least) is a lock of its kind in Redis;'
		  . ' a row does not say of which kind it was, so that whoever wants another one waits'
		  . ' instead of 42809: that is said as far as it can be seen.',
		sub {
			my ($op, $there) = @_;

			return ($there->{owner} // '') eq 'kept' && $op->{sql} =~ /read|write/;
		}
	],
	[
		'Redisson gives back a fair lock that nobody has, and says yes.',
		sub {
			my ($op, $there) = @_;

			return ($op->{redisson} // '') =~ /^fair\.unlock/ && $there->{owner} ne $op->{who};
		}
	]);

sub forgive_row
{
	my ($row, $rows) = @_;

	$_->[1]->($row, $rows) foreach @of_rows;
	return;
}

sub is_avoided
{
	my ($op, $there, $rows) = @_;

	return grep { $_->[1]->($op, $there, $rows) } @avoided;
}

sub forgive_key
{
	my ($there, $rows) = @_;

	$_->[1]->($there, $rows) foreach @of_keys;
	return;
}

1;
