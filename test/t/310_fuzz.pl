# Copyright (c) 2026, lockredis contributors

# The parser of lockredis.url against hundreds of thousands of texts, under the
# address and undefined-behaviour sanitizers, as test/fuzz/url.c.
#
# Checked: nothing outside of the text and the result is touched; what is
# accepted is complete and within its limits; each part of a URL comes out as it
# went in; what is refused gets a sentence that shows no password.
#
# LOCKREDIS_FUZZ_SEED and LOCKREDIS_FUZZ_CASES choose others.
#
# Proves G19, G32.

use FindBin;
use LockRedis::Test;
use PostgreSQL::Test::Utils;

my $seed = $ENV{LOCKREDIS_FUZZ_SEED} || 1;
my $cases = 100 * ($ENV{LOCKREDIS_FUZZ_CASES} || 5000);
my $top = "$FindBin::RealBin/../..";
my $pg_config = $ENV{PG_CONFIG} || 'pg_config';
my %dir = map { $_ => `$pg_config --$_` =~ s/\n//r }
  qw(includedir-server pkglibdir libdir);
my $fuzzer = PostgreSQL::Test::Utils::tempdir() . '/url';

# libpgport is in one of both, which differs between packagers.
command_ok(
	[
		'gcc', '-g', '-O1', '-Wall', '-Werror', '-fsanitize=address,undefined',
		'-fno-sanitize-recover=all', "-I$dir{'includedir-server'}",
		"-I$top/src", '-o', $fuzzer, "$top/test/fuzz/url.c",
		"$top/src/store/redis/url.c", "-L$dir{pkglibdir}", "-L$dir{libdir}",
		'-lpgport'
	],
	'the fuzzer is built');
command_like(
	[ $fuzzer, $seed, $cases ],
	qr/^$cases cases, seed $seed$/,
	"the parser passes $cases cases of seed $seed");

done_testing();
