# Copyright (c) 2026, lockredis contributors

# What the benchmark reads from the system and from Redis: CPU time of
# processes, system calls, commands of clients.

package Bench::Meter;

use strict;
use warnings FATAL => 'all';

use LockRedis::Wait qw(poll_until);
use POSIX ();
use PostgreSQL::Test::Utils ();
use Time::HiRes ();

# Seconds on a CPU of a process with all its threads, by its clock.
sub cpu_of
{
	my (@pids) = @_;
	my $sum = 0;

	foreach my $pid (@pids)
	{
		my $cpuclock_sched = 2;
		my $seconds =
		  Time::HiRes::clock_gettime((-$pid - 1) * 8 + $cpuclock_sched);
		$sum += $seconds if $seconds > 0;
	}
	return $sum;
}

sub process_tree
{
	my ($pid) = @_;
	my @pids = ($pid);

	foreach my $file (glob "/proc/$pid/task/*/children")
	{
		open my $children, '<', $file or next;
		push @pids, map { process_tree($_) } split ' ', <$children> // '';
	}
	return @pids;
}

# Commands of clients by name, as MONITOR shows them, while $code runs.  The
# watchdog's and other clients' looks at the server itself do not count.
sub commands
{
	my ($redis, $code) = @_;
	my $watch = $redis->monitor;
	my %count;

	$code->();
	foreach my $line ($watch->stop)
	{
		my ($command) = $watch->args($line);
		$count{ uc $command }++;
	}
	delete @count{qw(PING INFO CONFIG TIME CLIENT HELLO COMMAND ECHO)};
	return \%count;
}

# System calls of processes by name while $code runs; undef where they cannot
# be traced.
sub system_calls
{
	my ($pids, $code) = @_;
	my $file = PostgreSQL::Test::Utils::tempdir() . '/strace';
	my $pid = fork();

	die "could not fork: $!" unless defined $pid;
	if ($pid == 0)
	{
		open STDERR, '>', "$file.err";
		no warnings 'exec';
		exec 'strace', '-c', '-f', '-o', $file, map { ('-p', $_) } @$pids;
		POSIX::_exit(127);
	}
	poll_until('strace',
		sub {
			my $err = -e "$file.err" ? PostgreSQL::Test::Utils::slurp_file("$file.err") : '';
			return 1 if waitpid($pid, POSIX::WNOHANG()) != 0;
			return !grep { $err !~ /Process $_ attached/ } @$pids;
		});
	return undef if waitpid($pid, POSIX::WNOHANG()) != 0;
	$code->();
	kill 'INT', $pid;
	waitpid $pid, 0;

	my %calls;
	foreach my $line (split /\n/, PostgreSQL::Test::Utils::slurp_file($file))
	{
		my @column = split ' ', $line;
		next unless @column >= 5 && $column[0] =~ /^[\d.]+$/;
		$calls{ $column[-1] } = $column[3] unless $column[-1] eq 'total';
	}
	unlink $file, "$file.err";
	return \%calls;
}

# Which part of all processors is used while we sleep for a second
sub busy
{
	my @before = _times();

	Time::HiRes::sleep(1);
	my @after = _times();
	my $all = $after[0] - $before[0];
	return $all ? ($after[1] - $before[1]) / $all : 0;
}

# Of all processors so far: ticks, and those in which they did something
sub _times
{
	my (undef, @ticks) =
	  split ' ', (split /\n/, PostgreSQL::Test::Utils::slurp_file('/proc/stat'))[0];
	my ($idle, $waiting) = @ticks[ 3, 4 ];
	my $all = 0;

	# Of guests is among the others.
	$all += $_ foreach @ticks[ 0 .. 7 ];
	return ($all, $all - $idle - $waiting);
}

sub processors
{
	return scalar grep { /^processor/ } split /\n/,
	  PostgreSQL::Test::Utils::slurp_file('/proc/cpuinfo');
}

sub processor_model
{
	my ($model) = PostgreSQL::Test::Utils::slurp_file('/proc/cpuinfo') =~
	  /^model name\s*:\s*(.*)$/m;

	return $model;
}

# Bytes of a process that no other has.
sub private_memory
{
	my ($pid) = @_;
	my $sum = 0;

	open my $file, '<', "/proc/$pid/smaps_rollup" or return undef;
	while (my $line = <$file>)
	{
		$sum += 1024 * $1 if $line =~ /^Private_\w+:\s+(\d+) kB/;
	}
	return $sum;
}

1;
