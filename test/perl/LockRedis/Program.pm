# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::Program - a program that runs beside a test

=head1 SYNOPSIS

  my $pid = start_program($log, 'redis-server', $file);    # its output goes there
  use parent 'LockRedis::Program';    # of what has a {pid} and can _reap it: kill9

=cut

package LockRedis::Program;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use POSIX ();

our @EXPORT_OK = qw(start_program);

sub kill9
{
	my ($self) = @_;

	kill 'KILL', $self->{pid};
	$self->_reap;
	return;
}

sub start_program
{
	my ($log, @command) = @_;
	my $pid = fork();

	die "could not fork: $!" unless defined $pid;
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
	return $pid;
}

1;
