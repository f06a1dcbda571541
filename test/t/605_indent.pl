# Copyright (c) 2026, lockredis contributors

# The layout of the C code is pgindent's (script/indent).

use File::Basename qw(dirname);
use LockRedis::Test;
use PostgreSQL::Test::Utils;

need_tool('pg_bsd_indent');

my $top = dirname(dirname(dirname(__FILE__)));
my $said = `$top/script/indent --check 2>&1`;
is($?, 0, 'all files are laid out as pgindent does; else: script/indent') or diag($said);

# It can say no, and what it lays out it leaves alone then.
my $file = PostgreSQL::Test::Utils::tempdir() . '/one.c';
PostgreSQL::Test::Utils::append_to_file($file, <<'END');
static int
one(const text *name,
  LrName *out)   /* of two lines: it stays as wide as it is, whatever anybody else would make of it
                  * here */
{
  if (name == NULL) { return 1; }
	return is_wide(name) &&
		is_high(name);
}
END
$said = `$top/script/indent --check $file 2>&1`;
is($? >> 8, 1, 'another layout is refused');
like($said, qr/^\+\tLrName \*out\)/m, 'and shown');
is(system("$top/script/indent", $file), 0, 'it is laid out');
is(system("$top/script/indent", '--check', $file), 0, 'and left alone then');
like(slurp_file($file), qr/anybody else would make of it\n +\* here \*\//, 'comments stay');

done_testing();
