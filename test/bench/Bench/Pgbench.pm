# Copyright (c) 2026, lockredis contributors

# A script of statements that pgbench sends as clients do.

package Bench::Pgbench;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use PostgreSQL::Test::Utils;

our @EXPORT_OK = qw(pgbench);

# Options are pgbench's.  Transactions a second, and their number.
sub pgbench
{
	my ($node, $file, @options) = @_;
	my ($text, $errors) = run_command(
		[
			'pgbench', '-n', '-f', $file, @options,
			'-h', $node->host, '-p', $node->port, 'postgres'
		]);
	my ($rate) = $text =~ /^tps = ([\d.]+)/m;
	my ($count) = $text =~ /actually processed: (\d+)/;

	die "pgbench: $text$errors\n" if !defined $rate || !$count || $text =~ /aborted/;
	return ($rate + 0, $count + 0);
}

1;
