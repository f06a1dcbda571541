# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::Topic::Budgets - short and usual budgets of a request

=head1 DESCRIPTION

What the tests 032_connection, 037_bad_way and 316_false_node have in common.

=cut

package LockRedis::Topic::Budgets;

use LockRedis::Pragmas;

use Exporter 'import';
use LockRedis::Wait qw(limit);

our @EXPORT = qw(%short %default $in_time_ms);

# Where something must be waited for in vain; the budget is 1.2 s.
our %short = (
	'lockredis.connect_timeout' => '500ms',
	'lockredis.command_timeout' => '700ms');

# The defaults: room enough for a busy machine.
our %default = (
	'lockredis.connect_timeout' => '2s',
	'lockredis.command_timeout' => '3s');

our $in_time_ms = 1000 * limit(20);

1;
