# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

Batch - many pieces of SQL in one session, each result for itself

=head1 SYNOPSIS

  my @results = run_batch($session, @pieces);      # LockRedis::Result each
  states($result);           # ERROR 42809, WARNING 01000: all that it has raised
  is_text($result);          # all of it is valid in the client's encoding

=head1 DESCRIPTION

Dies when the session is lost.  A piece may have several statements, and
commands of psql that end with a line.

=cut

package Batch;

use strict;
use warnings FATAL => 'all';

use Encode ();
use Exporter 'import';
use LockRedis::Session;

our @EXPORT_OK = qw(run_batch states is_text);

sub run_batch
{
	my ($session, @pieces) = @_;
	my $mark = '==== next';
	my $result = $session->query(
		join('', map { "$_;\n\\echo '$mark'\n\\warn '$mark'\n" } @pieces), 120);

	die "the session was lost: $result->{raw}" if $result->dead;
	my @out = split /^$mark\n/m, "$result->{out}\n", -1;
	my @err = split /^$mark\n/m, $result->{raw}, -1;
	return map {
		LockRedis::Result->new(out => shift @out, raw => shift @err, dead => 0)
	} @pieces;
}

sub states
{
	my ($result) = @_;
	my @states;

	push @states, "$1 $2"
	  while $result->{raw} =~ /^(ERROR|FATAL|PANIC|WARNING):  (\w{5}):/mg;
	return @states;
}

sub is_text
{
	my ($result) = @_;
	my $text = $result->out . $result->{raw};

	return eval { Encode::decode('UTF-8', $text, Encode::FB_CROAK); 1 };
}

1;
