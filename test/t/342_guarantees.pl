# Copyright (c) 2026, lockredis contributors

# The guarantees of docs/guarantees.md and the tests that prove them: each one is
# cited by a test ("# Proves G1, G2."), and what a test cites is there.

use File::Basename qw(basename dirname);
use File::Spec;
use LockRedis::Test;
use PostgreSQL::Test::Utils;

my $here = File::Spec->rel2abs(dirname($0));
my $text = slurp_file("$here/../../docs/guarantees.md");
my %promised = map { $_ => 1 } $text =~ /^\*\*([GN]\d+)\. /mg;
my %tests;    # by number, the files that cite it

cmp_ok(scalar keys %promised, '>', 50, 'guarantees, and what is not guaranteed');

foreach my $file (sort glob "$here/*.pl")
{
	my $name = basename($file, '.pl');
	my ($head) = slurp_file($file) =~ /\A((?:#[^\n]*\n|\n)+)/;

	next if $name eq '342_guarantees';
	push @{ $tests{$_} }, $name foreach $head =~ /\b([GN]\d+)\b/g;
}

is_deeply(
	[ map { "$_ in @{ $tests{$_} }" } grep { !$promised{$_} } sort keys %tests ],
	[], 'what is cited is promised');
is_deeply([ grep { /^G/ && !$tests{$_} } sort keys %promised ],
	[], 'what is promised is cited by a test');
note sprintf '%s: %s', $_, join ' ', @{ $tests{$_} } foreach sort keys %tests;

done_testing();
