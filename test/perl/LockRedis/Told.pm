# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::Told - everything that clients are told, and that no secret is in it

=head1 SYNOPSIS

  use LockRedis::Told qw(nothing_leaked);    # listens from here on
  ...
  nothing_leaked($node, ['secret', 'credential-\\d'], [ $redis, $other ]);

=head1 DESCRIPTION

Four tests: nothing like the secrets (patterns) was told to a client, was logged by
us or is shown by redis_lock_status, and no client was told where a Redis of the
list is.

=cut

package LockRedis::Told;

use LockRedis::Pragmas;

use Exporter 'import';
use LockRedis::Session;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT_OK = qw(nothing_leaked);

my @told;
{
	no warnings 'redefine';
	my $new = \&LockRedis::Result::new;
	*LockRedis::Result::new = sub {
		my $result = $new->(@_);
		push @told, "$result->{out}\n$result->{raw}";
		return $result;
	};
}

sub nothing_leaked ($node, $secrets, $servers)
{
	my $secret = join '|', @$secrets;
	my @leaks = grep { /$secret/ } @told;

	is_deeply(\@leaks, [], 'no password and no token was told to a client');

	my $address = join '|', '127\.0\.0\.1',
	  map { quotemeta } map { ($_->port, $_->socket_path) } @$servers;
	@leaks = grep { /$address/ } @told;
	is_deeply(\@leaks, [], 'no address was told to a client');

	# PostgreSQL itself logs statements and changed settings.
	@leaks = grep { /$secret/ }
	  grep {
		!/(?:LOG:  statement|STATEMENT): / && !/parameter "lockredis\.url" changed/
	  } split /^/, PostgreSQL::Test::Utils::slurp_file($node->logfile);
	is_deeply(\@leaks, [], 'nor does our part of the server log have one');
	unlike($node->lock_status('redis_lock_status'), qr/$secret/, 'nor a view');
	return;
}

1;
