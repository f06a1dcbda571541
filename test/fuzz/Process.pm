# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

Process - what a server process uses

=head1 SYNOPSIS

  sockets($pid);       # open sockets and event sets
  private_kb($pid);    # memory of its own; undef under the address sanitizer

=head1 DESCRIPTION

Other descriptors are files of the database, which PostgreSQL opens and keeps as
it likes.  Memory is the anonymous one: pages of shared_buffers would count when a
process is the first to use them.  The address sanitizer keeps what was freed, so
that there is nothing to be measured.

=cut

package Process;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use PostgreSQL::Test::Utils qw(slurp_file);

our @EXPORT_OK = qw(sockets private_kb);

sub sockets
{
	my ($pid) = @_;

	return scalar grep { (readlink || '') =~ /^(?:socket|anon_inode):/ }
	  glob "/proc/$pid/fd/*";
}

sub private_kb
{
	my ($pid) = @_;

	# An undef even in a list, or the keys of a hash would move.
	return undef if slurp_file("/proc/$pid/maps") =~ /libasan/;    ## no critic
	return slurp_file("/proc/$pid/status") =~ /^RssAnon:\s+(\d+)/m
	  ? $1
	  : die "no RssAnon of process $pid";
}

1;
