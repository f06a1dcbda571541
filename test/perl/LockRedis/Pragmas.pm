# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::Pragmas - strict, fatal warnings and signatures

=head1 DESCRIPTION

Of all modules of the tests, and by "use LockRedis::Test" of the tests.  A function dies if it is
called with too few arguments, or too many.

=cut

package LockRedis::Pragmas;

use strict;
use warnings;
use feature ();

sub import
{
	strict->import;
	warnings->import(FATAL => 'all');
	feature->import('signatures');
	warnings->unimport('experimental::signatures');
	return;
}

1;
