# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::Query - one statement over a connection of its own

=head1 SYNOPSIS

  my $output = LockRedis::Query::output_of($node, $dbname, $sql);

=head1 DESCRIPTION

What C<psql -XAtq> would print, without the last newline (bytea excepted): tests ask thousands of
times, and a psql, which has to be started, takes many times as long as the server does.  Returns
undef if there was no connection; then nothing was asked, and psql can say why.  Dies with the
server's words if the statement fails.

=cut

package LockRedis::Query;

use LockRedis::Pragmas;

use DBI;
use IO::Select;
use Test::More;

# Values as the server writes them
my %as_text = (
	PrintError => 0,
	pg_bool_tf => 1,
	pg_enable_utf8 => 0,
	pg_expand_array => 0);

sub output_of ($node, $dbname, $sql)
{
	my $server = DBI->connect(
		'dbi:Pg:' . join(';', 'host=' . $node->host, 'port=' . $node->port, "dbname=$dbname"),
		undef, undef, \%as_text)
	  or return;
	local $SIG{__WARN__} = sub { note @_ };
	my $statement = $server->prepare($sql, { pg_direct => 1 });
	my $error = $statement->execute ? undef : $server->errstr;
	my $rows = !defined $error && $statement->{NUM_OF_FIELDS} ? $statement->fetchall_arrayref : [];

	# The next one does not see this one end.
	open my $socket, '<&', $server->{pg_socket} or die "could not watch the connection: $!";
	undef $statement;
	$server->disconnect;
	IO::Select->new($socket)->can_read(1);
	die "error running SQL: '$error'\nwith sql '$sql'" if defined $error;
	return join "\n", map { join '|', map { $_ // '' } @$_ } @$rows;
}

1;
