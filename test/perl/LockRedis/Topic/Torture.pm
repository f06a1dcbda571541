# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::Topic::Torture - a bounded part of script/torture in a test

=head1 SYNOPSIS

  torture('-small', '-time', '16s', '-length', '8s');   # options of test/torture

=head1 DESCRIPTION

Each negative control is a test, and so is each round: nothing was found in it.
TORTURE_SEED repeats a schedule.  After a finding the logs of the servers and the
histories are left where the other logs of the test are.

=cut

package LockRedis::Topic::Torture;

use LockRedis::Pragmas;

use Cwd qw(abs_path);
use Exporter 'import';
use File::Basename qw(dirname);
use LockRedis::Redisson;
use LockRedis::Test;
use PostgreSQL::Test::Utils ();

our @EXPORT = qw(torture);

my $program = abs_path(dirname(__FILE__) . '/../../../torture');

sub torture (@options)
{
	my (%round, $last);

	LockRedis::Redisson->need;
	system("$program/build") == 0
	  or die 'the torture program could not be built (Go is needed)';
	push @options, '-seed', $ENV{TORTURE_SEED} if $ENV{TORTURE_SEED};

	my $dir = PostgreSQL::Test::Utils::tempdir_short();
	my @command = (
		"$program/run", $dir, '-redisson', LockRedis::Redisson->build, @options);
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
	_keep_logs($dir) unless $success;
	return;
}

sub _keep_logs ($dir)
{
	foreach my $log (glob "$dir/*/log $dir/*.history")
	{
		my $name = $log =~ s{^\Q$dir\E/}{}r =~ tr{/}{_}r;
		system 'cp', $log, "$PostgreSQL::Test::Utils::log_path/torture_$name.log";
	}
	return;
}

1;
