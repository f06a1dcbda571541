# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::Test - what every TAP test of lockredis begins with

=head1 SYNOPSIS

  use LockRedis::Test;

  my $redis = LockRedis::Redis->new;
  my $node = LockRedis::Node->create('main', redis => $redis);
  ...
  end_test($node, $redis);

=head1 DESCRIPTION

Loads the modules beside it, exports Test::More, poll_until, pause, now, limit,
nothing_left, end_test and descriptors.  Whoever uses it has C<use LockRedis::Pragmas> by that.

A test that holds for every store begins with

  my $redis = lock_store;

and runs against a Redis, or, started by a file that calls same_tests_in_table,
against the table of table mode.

=over

=item servers(...)

A LockRedis::Node, its LockRedis::Redis, and as many sessions as are asked for:

  my ($node, $redis, $one, $two) = servers(sessions => 2, settings => { ... });

=item lock_store(...)

A LockRedis::Redis, made with these arguments, or a LockRedis::Table.

=item of_redis($why, sub { ... })

A part that speaks of Redis itself, with the reason why there is no such thing
in a table: called for a Redis only.

=item of_table($why, sub { ... })

The other way round.

=item same_tests_in_table($name)

Runs the test file of that name against the table.

=item run($session, $sql)

Statements that are no test by themselves: dies unless they succeed.  Exported
when asked for, as are the next four.

=item owner_in($hash)

The owner in what the method hash() of a store returns, '' if there is none.

=item quoted($text)

The text as an SQL literal.

=item counting_script($keys)

For pgbench: reads a counter of the table "counter", adds, writes, with nothing
but the lock "counter k" around it.

=item fault_library($file)

That file of test/fault, built: a library to be preloaded.

=item secret_file($name, $text)

A file with that line which only its owner reads, as password files have to be; with the
same name, the same file anew.  Exported always.

=item need_tool($program)

Skips the test file when the program is missing; under CI that is a failure.

=back

=cut

package LockRedis::Test;

use LockRedis::Pragmas;

use File::Basename qw(dirname);
use File::Spec;
use LockRedis::Leftovers;
use LockRedis::Node;
use LockRedis::Proxy;
use LockRedis::Redis;
use LockRedis::Session;
use LockRedis::Table;
use LockRedis::Wait qw(limit now pause poll_until);
use parent 'Exporter';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test2::API ();
use Test::More;

our @EXPORT = (
	@Test::More::EXPORT,
	qw(limit now pause poll_until nothing_left end_test descriptors need_tool lock_store secret_file servers
	  of_redis of_table same_tests_in_table));
our @EXPORT_OK = qw(run owner_in counting_script quoted fault_library);

my $in_table = 0;
my $secrets;

# What fails is shown at the line of the test that has called for it, through whatever helpers: the
# outermost one, but none outside of an anonymous function, which is a part of the test, or of a
# file that is run.
Test2::API::test2_add_callback_context_aquire(
	sub {
		my ($context) = @_;

		# From here the function that asks for a context is one further away.
		for (my $level = $context->{level}; my ($package) = caller $level + 2; $level++)
		{
			next unless $package eq 'main';
			$context->{level} = $level;
			my ($function, $is_file) = (caller $level + 3)[ 3, 7 ];
			last if $is_file || ($function // '') eq 'main::__ANON__';
		}
		return;
	});

# By "use LockRedis::Test"
sub import
{
	my ($class, @names) = @_;

	LockRedis::Pragmas->import;
	return $class->export_to_level(1, $class, @names);
}

sub lock_store (@args) { return $in_table ? LockRedis::Table->new : LockRedis::Redis->new(@args); }

sub servers (%opts) { return LockRedis::Node->create_with_redis('main', %opts); }

sub of_redis ($why, $do)
{
	return $do->() unless $in_table;
	note "not in a table: $why";
	return;
}

sub of_table ($why, $do)
{
	return $do->() if $in_table;
	note "not in Redis: $why";
	return;
}

sub same_tests_in_table ($name)
{
	my $file = dirname($0) . "/$name.pl";

	$in_table = 1;
	package main;
	do(File::Spec->rel2abs($file)) or die $@ || "could not read $file: $!\n";
	return;
}

sub run ($s, $sql)
{
	my $result = $s->query($sql);

	die "$sql: $result->{raw}" if $result->dead || defined $result->error;
	return $result;
}

sub fault_library ($file)
{
	my $made = PostgreSQL::Test::Utils::tempdir() . "/$file.so";

	need_tool('cc');
	PostgreSQL::Test::Utils::system_or_bail('cc', '-shared', '-fPIC', '-O1', '-Wall', '-Werror',
		'-o', $made, dirname(__FILE__) . "/../../fault/$file", '-ldl');
	return $made;
}

sub owner_in ($hash) { return (keys %$hash)[0] // ''; }

sub quoted ($text)
{
	$text =~ s/'/''/g;
	return "'$text'";
}

sub counting_script ($keys)
{
	return <<"SQL";
\\set k random(1, $keys)
SELECT redis_lock('counter ' || :k);
SELECT v + 1 AS v FROM counter WHERE k = :k \\gset
UPDATE counter SET v = :v WHERE k = :k;
SELECT redis_unlock('counter ' || :k) AS given_back \\gset
\\if :given_back
\\else
SELECT 1/0;
\\endif
SQL
}

sub secret_file ($name, $text)
{
	my $file = ($secrets //= PostgreSQL::Test::Utils::tempdir_short()) . "/$name";

	unlink $file;
	PostgreSQL::Test::Utils::append_to_file($file, "$text\n");
	chmod 0600, $file or die "could not chmod $file: $!";
	return $file;
}

sub need_tool ($program)
{
	return if grep { -x "$_/$program" } split /:/, $ENV{PATH};
	die "$program is missing\n" if $ENV{CI};
	plan(skip_all => "$program is missing");
	return;
}

1;
