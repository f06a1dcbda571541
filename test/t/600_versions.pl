# Copyright (c) 2026, lockredis contributors

# Whatever names a version names the same one: the control file, META.json, the
# changes, Debian's changelog and the name of the archive.  Each version has a
# script that leads to it, each file that is named is there, and what makes
# packages of it knows all of them.  What is installed goes when it is uninstalled.

use LockRedis::Pragmas;

use Cwd qw(abs_path);
use File::Basename qw(basename dirname);
use JSON::PP qw(decode_json);
use PostgreSQL::Test::Utils ();
use Test::More;

my $top = dirname(abs_path(__FILE__)) . '/../..';

sub text { return PostgreSQL::Test::Utils::slurp_file("$top/$_[0]"); }

my ($sql_version) = text('lockredis.control') =~ /^default_version = '(\d+\.\d+)'$/m;
my $meta = decode_json(text('META.json'));
my ($version) = $meta->{version};

# ----------
# One version
# ----------

like($version, qr/^\d+\.\d+\.\d+$/, 'META.json: a semantic version');
like($version, qr/^\Q$sql_version\E\./, 'the SQL objects have its first two numbers');
is($meta->{provides}{lockredis}{version}, $version, 'META.json: what it provides');
like(text('CHANGELOG.md'), qr/\A## \Q$version\E(?: \(unreleased\))?$/m,
	'CHANGELOG.md begins with it');
like(text('docs/releases.md'), qr/\A# Release notes\n.*?^## \Q$sql_version\E$/ms,
	'docs/releases.md has notes on it');
like(text('debian/changelog'), qr/\Alockredis \(\Q$version\E-\d+\) /, 'debian/changelog too');
like(
	`make -s -n -C $top dist 2>&1`,
	qr/--prefix=lockredis-\Q$version\E\/ .*lockredis-\Q$version\E\.zip/s,
	'make dist names its archive so');

# ----------
# The scripts
# ----------

my %leads_to;    # version => those that a script leads to it from
my @scripts = map { basename($_) } glob "$top/lockredis--*.sql";

foreach (@scripts)
{
	push @{ $leads_to{ $2 // $1 } }, defined $2 ? $1 : '' if /^lockredis--(.*?)(?:--(.*))?\.sql$/;
}
my %reached = ($sql_version => 1);
my @left = $sql_version;
while (defined(my $to = shift @left))
{
	push @left, grep { !$reached{$_}++ } @{ $leads_to{$to} || [] };
}
ok($reached{''}, 'a new installation reaches it');
is(join(' ', grep { !$reached{$_} } map { @$_ } values %leads_to),
	'', 'so does each version that there was');
my ($data) = text('Makefile') =~ /^DATA = (.*)$/m;
is(join(' ', sort split ' ', $data), join(' ', sort @scripts), 'all of them are installed');

# ----------
# Files
# ----------

# What https://pgxn.org/spec/ requires
ok($meta->{$_}, "META.json has $_") foreach qw(name version abstract maintainer license provides meta-spec);
ok(-e "$top/$meta->{provides}{lockredis}{$_}", "META.json: its $_ is there") for 'file', 'docfile';
ok(-x "$top/debian/tests/$_", "debian/tests/$_ can be run")
  for split ' ', (text('debian/tests/control') =~ /^Tests: (.*)$/m)[0];
ok(-e "$top/$_", "docker/Dockerfile: $_ is there")
  foreach text('docker/Dockerfile') =~ /^COPY (?!--from)(\S+)/mg;

# What "make uninstall" leaves of what "make install" has brought
{
	my $root = PostgreSQL::Test::Utils::tempdir();
	my $files = sub { my @files = split /\n/, `find $root ! -type d`; return scalar @files };

	is(system("make -s -C $top install with_llvm=no DESTDIR=$root >$root.log 2>&1"), 0, 'make install');
	cmp_ok($files->(), '>=', 4, 'brings files');
	is(system("make -s -C $top uninstall with_llvm=no DESTDIR=$root >$root.log 2>&1"), 0, 'make uninstall');
	is($files->(), 0, 'leaves none');
}

# The oldest version of PostgreSQL
my ($oldest) = text('src/compat.h') =~ /^#if PG_VERSION_NUM < (\d+)0000$/m;
is($meta->{prereqs}{runtime}{requires}{PostgreSQL},
	"$oldest.0.0", 'META.json: the oldest PostgreSQL');
is(text('debian/pgversions'), "$oldest+\n", 'debian/pgversions: the same');

done_testing();
