# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::Test - what every TAP test of lockredis begins with

=head1 SYNOPSIS

  use strict;
  use warnings FATAL => 'all';
  use LockRedis::Test;

  my $redis = LockRedis::Redis->new;
  my $node = LockRedis::Node->create('main', redis => $redis);
  ...
  nothing_left($node, $redis);
  done_testing();

=head1 DESCRIPTION

Loads the modules beside it, exports Test::More, poll_until, pause, now,
nothing_left and descriptors.

=over

=item need_tool($program)

Skips the test file when the program is missing; under CI that is a failure.

=back

=cut

package LockRedis::Test;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use LockRedis::History;
use LockRedis::Leftovers;
use LockRedis::Node;
use LockRedis::Proxy;
use LockRedis::Redis;
use LockRedis::Session;
use LockRedis::Table;
use LockRedis::Wait qw(now pause poll_until);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = (
	@Test::More::EXPORT,
	qw(now pause poll_until nothing_left descriptors need_tool));

sub need_tool
{
	my ($program) = @_;

	return if grep { -x "$_/$program" } split /:/, $ENV{PATH};
	die "$program is missing\n" if $ENV{CI};
	plan(skip_all => "$program is missing");
	return;
}

1;
