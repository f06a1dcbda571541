# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::Harness - TAP::Harness that leaves its counts in a file

=head1 DESCRIPTION

For script/test: C<prove --harness LockRedis::Harness>.  Writes the lines
"passed N", "failed N" and "skipped FILE: REASON" to LOCKREDIS_COUNTS when all
tests have ended.  A test file that died, ended with a status, or ran another
number of tests than planned counts as at least one failure.

=cut

package LockRedis::Harness;

use strict;
use warnings FATAL => 'all';

use parent 'TAP::Harness';

sub summary
{
	my ($self, $aggregate, @rest) = @_;
	my ($passed, $failed) = (0, 0);
	my @skipped;

	foreach my $file ($aggregate->descriptions)
	{
		my ($parser) = $aggregate->parsers($file);
		my $bad = $parser->failed;

		$bad = 1 if !$bad && $parser->has_problems;
		$passed += $parser->actual_passed;
		$failed += $bad;
		push @skipped, "$file: " . $parser->skip_all
		  if defined $parser->skip_all;
	}
	if (defined $ENV{LOCKREDIS_COUNTS})
	{
		open my $fh, '>', $ENV{LOCKREDIS_COUNTS}
		  or die "could not open $ENV{LOCKREDIS_COUNTS}: $!";
		print $fh "passed $passed\nfailed $failed\n";
		print $fh "skipped $_\n" foreach @skipped;
		close $fh or die "could not write $ENV{LOCKREDIS_COUNTS}: $!";
	}
	return $self->SUPER::summary($aggregate, @rest);
}

1;
