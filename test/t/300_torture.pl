# Copyright (c) 2026, lockredis contributors

# A bounded part of script/torture: a short self-test of its checkers, then
# rounds of random faults on real servers.  It checks that
#
#   - each negative control (a client that ignores the lock, a guard that is off,
#     a release that wakes nobody, a doctored history, ...) is found by the check
#     that is there for it, and right histories are accepted;
#   - under faults shorter than the lease at most one client has a key, calls end,
#     waiters are woken, nothing is left behind;
#   - under faults longer than the lease, a Redis that forgets and clocks that
#     jump, no update of a table is lost that fencing tokens guard.
#
# The schedule is random; its seed is printed, and TORTURE_SEED repeats it.
#
# Proves G1, G5, G12, G16, G18, G21.

use strict;
use warnings FATAL => 'all';

use Cwd qw(abs_path);
use File::Basename qw(dirname);
use LockRedis::Redisson;
use LockRedis::Test;
use PostgreSQL::Test::Utils ();

my $torture = abs_path(dirname(__FILE__) . '/../torture');
my $seconds = 16;

system("$torture/build") == 0
  or BAIL_OUT('the torture program could not be built (Go is needed)');
LockRedis::Redisson->need;

my $dir = PostgreSQL::Test::Utils::tempdir_short();
my @command = (
	"$torture/run", $dir, '-small', '-time', "${seconds}s", '-length', '8s',
	'-redisson', LockRedis::Redisson->build);
push @command, '-seed', $ENV{TORTURE_SEED} if $ENV{TORTURE_SEED};

my (%round, $last);
open my $out, '-|', @command or die "could not run $command[0]: $!";
while (my $line = <$out>)
{
	chomp $line;
	note $line;
	$last = $line;
	$line =~ s/^[0-9:]+ //;
	if ($line =~ /^control( MISSED)?: (.*?)(: found: .*)?$/)
	{
		ok(!defined $1, "negative control: $2");
	}
	elsif ($line =~ /^FOUND (?:\S+ ?\S*): (round\d+): (.*)/)
	{
		push @{ $round{$1} }, $2;
	}
	elsif ($line =~ /^FOUND (.*)/)
	{
		fail($1);
	}
	elsif ($line =~ /^(round\d+) (.*)/)
	{
		$round{$1} ||= [];
	}
}
my $success = close $out;

foreach my $name (sort keys %round)
{
	is(join("\n", @{ $round{$name} }), '', "$name: nothing found");
}
cmp_ok(scalar keys %round, '>=', 1, 'rounds');
ok($success, "verdict: $last");
if (!$success)
{
	# The servers' logs belong to what the test leaves for its reader.
	foreach my $log (glob "$dir/pg*/log $dir/*.history")
	{
		my $name = $log =~ s{^\Q$dir\E/}{}r =~ tr{/}{_}r;
		system 'cp', $log, "$PostgreSQL::Test::Utils::log_path/torture_$name.log";
	}
}

done_testing();
