# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::Query - one statement over a connection of its own

=head1 SYNOPSIS

  my $output = LockRedis::Query::output_of($socket, $dbname, $sql);

=head1 DESCRIPTION

What C<psql -XAtq> would print, without the last newline: tests ask thousands of times, and a
psql, which has to be started, takes many times as long as the server does.  Returns undef if
there was no connection; then nothing was asked, and psql can say why.  Dies with the server's
words if the statement fails.

=cut

package LockRedis::Query;

use strict;
use warnings FATAL => 'all';

use IO::Select;
use IO::Socket::UNIX;
use Test::More;

sub output_of
{
	my ($socket, $dbname, $sql) = @_;
	my %startup = (
		user => $ENV{PGUSER} // scalar getpwuid $>,
		database => $dbname,
		application_name => $ENV{PGAPPNAME} // '',
		$ENV{PGOPTIONS} ? (options => $ENV{PGOPTIONS}) : ());
	my $server = IO::Socket::UNIX->new(Peer => $socket) or return;
	my $input = '';
	my (@rows, $error);
	local $SIG{PIPE} = 'IGNORE';

	_send($server, '', pack 'N(Z*)*x', 196608, %startup);
	while (my ($type, $body) = _next_message($server, \$input))
	{
		last if $type eq 'Z';
		return if $type eq 'E' || $type eq 'R' && unpack('N', $body) != 0;
	}
	utf8::encode($sql) if utf8::is_utf8($sql);
	_send($server, 'Q', "$sql\0");
	while (my ($type, $body) = _next_message($server, \$input))
	{
		if ($type eq 'Z')
		{
			_send($server, 'X', '');
			# The next one does not see this one end.
			IO::Select->new($server)->can_read(1);
			die "error running SQL: '$error'\nwith sql '$sql'" if defined $error;
			return join "\n", @rows;
		}
		push @rows, join '|', map { $_ // '' } _columns($body) if $type eq 'D';
		$error //= _words($body) if $type eq 'E';
		note _words($body) if $type eq 'N';
		die "no query: $sql" if $type =~ /[GHW]/;
	}
	die 'error running SQL: ' . ($error // 'the server closed the connection') . "\nwith sql '$sql'";
}

sub _send
{
	my ($server, $type, $body) = @_;

	syswrite $server, $type . pack('N', 4 + length $body) . $body;
	return;
}

# Its type and what is in it, or nothing at the end
sub _next_message
{
	my ($server, $input) = @_;

	until (length $$input >= 5 && length $$input > unpack 'xN', $$input)
	{
		sysread $server, $$input, 65536, length $$input or return;
	}
	my ($type, $length) = unpack 'aN', $$input;
	return ($type, substr substr($$input, 0, 1 + $length, ''), 5);
}

sub _columns
{
	my ($body) = @_;
	my ($n, $rest) = unpack 'na*', $body;

	return map {
		(my $length, $rest) = unpack 'l>a*', $rest;
		$length < 0 ? undef : substr $rest, 0, $length, '';
	} 1 .. $n;
}

# As psql has them, with a message in several lines
sub _words
{
	my ($body) = @_;
	my %field = map { /^(.)(.*)/s ? ($1 => $2) : () } unpack '(Z*)*', $body;

	return join "\n", "$field{S}:  $field{M}",
	  $field{D} ? "DETAIL:  $field{D}" : (), $field{H} ? "HINT:  $field{H}" : ();
}

1;
