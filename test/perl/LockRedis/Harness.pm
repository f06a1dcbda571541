# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::Harness - TAP::Harness that leaves its counts in a file

=head1 DESCRIPTION

For script/test: C<prove --harness LockRedis::Harness>.  Writes the lines
"passed N", "failed N", "skipped FILE: REASON", "took SECONDS FILE" and "digest LINE" to
LOCKREDIS_COUNTS when all tests have ended.  A test file that died, ended with a
status, or ran another number of tests than planned counts as at least one
failure; the lines of the digest say of each what failed, and what it died of.

=over

=item digest($text)

What is worth knowing of a test's regress_log: at most 11 lines, no longer than
160 characters.

=back

=cut

package LockRedis::Harness;

use strict;
use warnings FATAL => 'all';

use parent 'TAP::Harness';

sub summary
{
	my ($self, $aggregate, @rest) = @_;
	my ($passed, $failed) = (0, 0);
	my (@skipped, @took, @digest);

	foreach my $file ($aggregate->descriptions)
	{
		my ($parser) = $aggregate->parsers($file);
		my $bad = $parser->failed;

		$bad = 1 if !$bad && $parser->has_problems;
		$passed += $parser->actual_passed;
		$failed += $bad;
		# Who bails out has no end.
		push @took, sprintf '%.0f %s', $parser->end_time - $parser->start_time, $file
		  if defined $parser->end_time;
		push @digest, _digest_of($file, $parser) if $bad;
		push @skipped, "$file: " . $parser->skip_all
		  if defined $parser->skip_all;
	}
	if (defined $ENV{LOCKREDIS_COUNTS})
	{
		open my $fh, '>', $ENV{LOCKREDIS_COUNTS}
		  or die "could not open $ENV{LOCKREDIS_COUNTS}: $!";
		print $fh "passed $passed\nfailed $failed\n";
		print $fh "skipped $_\n" foreach @skipped;
		print $fh "took $_\n" foreach @took;
		print $fh "digest $_\n" foreach @digest;
		close $fh or die "could not write $ENV{LOCKREDIS_COUNTS}: $!";
	}
	return $self->SUPER::summary($aggregate, @rest);
}

sub _digest_of
{
	my ($file, $parser) = @_;
	my ($name) = $file =~ m{([^/]+?)(?:\.[^./]*)?\z};
	my $dir = $ENV{TESTLOGDIR} || ($ENV{TESTDIR} || '.') . '/tmp_check/log';
	my $text = '';

	if (open my $fh, '<', "$dir/regress_log_$name")
	{
		local $/;
		$text = readline $fh;
		close $fh;
	}
	return (
		sprintf('%s: %d tests, %d failed, status %d%s',
			$name, scalar $parser->tests_run,
			scalar(my @failed = $parser->failed),
			($parser->exit || 0),
			$parser->wait && $parser->wait & 127 ? ', by a signal' : ''),
		map { "  $_" } digest($text));
}

sub digest
{
	my ($text) = @_;
	my ($most_lines, $most_each, $width) = (11, 4, 160);
	my ($died, @lines, $left);

	foreach my $line (split /\n/, $text)
	{
		# [time](seconds) before what the test itself has said, once for several lines
		$line =~ s/^\[[\d:.]+\]\([\d.]+s\) //;

		if ($line =~ /^\s*not ok /)
		{
			push @lines, $line;
			$left = $most_each - 1;
		}
		elsif ($line =~ /^\s*(?:#|\z)/)
		{
			# Of the lines behind it those that say more
			next
			  if !$left
			  || $line =~ /^\s*#?\s*(?:$|Failed test |at .* line \d+\.$|Looks like |Subtest: )/;
			push @lines, $line;
			$left--;
		}
		else
		{
			$left = 0;
			$died = $line if $line =~ /^\S.* at \S+ line \d+\.$/;
		}
	}
	my $room = $most_lines - (defined $died ? 1 : 0);
	if (@lines > $room)
	{
		my $more = @lines - $room + 1;
		@lines = (@lines[ 0 .. $room - 2 ], "... $more lines more");
	}
	push @lines, $died if defined $died;
	return map { length > $width ? substr($_, 0, $width - 3) . '...' : $_ } @lines;
}

1;
