# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::Program - programs that run beside a test, and end with it

=head1 SYNOPSIS

  my $pid = start_program($log, 'redis-server', $file);    # its output goes there
  my ($pid, $in, $out) = start_talking($log, @command);    # told, and answers; undef: no log
  ends_with_test($pid);                # one that was started otherwise
  has_ended($pid); await_end($pid);
  log_file('redis');                   # where the logs of the test are
  need_built("$dir/build", 'Redisson');    # skips the test without what that makes
  use parent 'LockRedis::Program';     # of what has a {pid}: pid, kill9, stop

=cut

package LockRedis::Program;

use LockRedis::Pragmas;

use Exporter 'import';
use File::Basename qw(basename);
use IO::File;
use IPC::Open3 qw(open3);
use LockRedis::Wait qw(poll_until);
use POSIX ();
# What runs beside a test, or stops one of its processes, ends before the servers do.
use PostgreSQL::Test::Cluster ();
use Test::More;

our @EXPORT_OK =
  qw(await_end ends_with_test has_ended log_file need_built start_program start_talking);

my %running;    # process id => that of the test

sub pid ($self) { return $self->{pid}; }

sub kill9 ($self)
{
	kill 'KILL', $self->{pid};
	$self->_reap;
	return;
}

sub stop ($self)
{
	$self->kill9 if $self->{pid};
	return;
}

sub _reap ($self)
{
	await_end($self->{pid});
	delete $self->{pid};
	return;
}

sub log_file ($name)
{
	return "$PostgreSQL::Test::Utils::log_path/" . basename($0, '.pl') . "_$name.log";
}

sub start_program ($log, @command)
{
	my $pid = fork() // die "could not fork: $!";

	if ($pid == 0)
	{
		open STDIN, '<', '/dev/null';
		open STDOUT, '>>', $log;
		open STDERR, '>&', \*STDOUT;
		no warnings 'exec';
		exec @command;
		print STDERR "could not run $command[0]: $!\n";
		POSIX::_exit(127);
	}
	return ends_with_test($pid);
}

sub start_talking ($log, @command)
{
	my $errors = defined $log ? IO::File->new($log, '>>') : \*STDERR;

	die "could not open $log: $!" unless $errors;
	my $pid = open3(my $in, my $out, '>&' . fileno $errors, @command);
	return (ends_with_test($pid), $in, $out);
}

sub ends_with_test ($pid)
{
	$running{$pid} = $$;
	return $pid;
}

sub has_ended ($pid)
{
	return if waitpid($pid, POSIX::WNOHANG()) == 0;
	delete $running{$pid};
	return 1;
}

sub await_end ($pid) { return poll_until("process $pid to end", sub { has_ended($pid) }); }

# Under CI that is a failure.
sub need_built ($build, $what)
{
	my $said = `'$build' 2>&1`;

	return if $? == 0;
	# Which server it asked is nobody's business.
	note $said =~ s{https?://\S+}{(URL)}gr;
	die "$what cannot be had\n" if $ENV{CI};
	plan(skip_all => "$what cannot be had");
	return;
}

END
{
	my $exit_code = $?;

	foreach my $pid (grep { $running{$_} == $$ } keys %running)
	{
		kill 'KILL', $pid;
		waitpid $pid, 0;
	}
	$? = $exit_code;
}

1;
