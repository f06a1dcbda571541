# Copyright (c) 2026, lockredis contributors

# A program that takes and gives back locks on request, in the protocol of
# test/bench/client.h.

package Bench::Peer;

use strict;
use warnings FATAL => 'all';

use Bench::Meter;
use IO::Handle;
use LockRedis::Wait qw(limit now);
use POSIX ();

my @running;

sub new
{
	my ($class, %opts) = @_;
	my $self = bless { %opts, buffer => '', owner => $$ }, $class;

	pipe(my $in_read, my $in) && pipe(my $out, my $out_write)
	  or die "could not make a pipe: $!";
	my $pid = fork();
	die "could not fork: $!" unless defined $pid;
	if ($pid == 0)
	{
		# As each backend does: the scheduler may treat sessions as groups.
		POSIX::setsid();
		POSIX::dup2(fileno $in_read, 0);
		POSIX::dup2(fileno $out_write, 1);
		open STDERR, '>>', $self->{log};
		$ENV{$_} = $opts{environment}{$_} foreach keys %{ $opts{environment} || {} };
		no warnings 'exec';
		exec @{ $opts{command} };
		POSIX::_exit(127);
	}
	close $_ foreach $in_read, $out_write;
	$in->autoflush(1);
	@$self{qw(pid in out)} = ($pid, $in, $out);
	push @running, $self;
	return $self;
}

sub name { my ($self) = @_; return $self->{name}; }

# Works on any Redis, so it can be measured at a distance.
sub at_distance { return 1; }

# The process and its children.
sub pids
{
	my ($self) = @_;

	return Bench::Meter::process_tree($self->{pid});
}

sub start
{
	my ($self, %work) = @_;

	$self->send_line(join ' ', 'run',
		@work{qw(port clients)},
		$work{separate} ? 'separate' : 'shared',
		@work{qw(base start until prefix mode hold pause)},
		$work{kind} // ());
	return;
}

sub finish
{
	my ($self) = @_;
	my ($ok, @words) = split / /, $self->read_line(120);

	die "$self->{name} failed, see $self->{log}\n"
	  unless defined $ok && $ok eq 'ok' && @words == 6;
	return [ \@words ];
}

sub send_line
{
	my ($self, $line) = @_;
	local $SIG{PIPE} = 'IGNORE';

	print { $self->{in} } "$line\n" or die "$self->{name} has ended\n";
	return;
}

sub read_line
{
	my ($self, $seconds) = @_;
	my $until = now() + limit($seconds);

	my $end;
	while (($end = index $self->{buffer}, "\n") < 0)
	{
		my $left = $until - now();
		my $ready = '';

		vec($ready, fileno $self->{out}, 1) = 1;
		die "$self->{name} does not answer, see $self->{log}\n"
		  if $left <= 0 || !select($ready, undef, undef, $left);
		sysread $self->{out}, $self->{buffer}, 65536, length $self->{buffer}
		  or die "$self->{name} has ended, see $self->{log}\n";
	}
	my $line = substr $self->{buffer}, 0, $end + 1, '';
	chomp $line;
	return $line;
}

sub stop
{
	my ($self) = @_;

	return unless $self->{pid};
	kill 'KILL', $self->pids;
	waitpid delete $self->{pid}, 0;
	return;
}

END
{
	my $exit_code = $?;

	foreach my $self (grep { $_->{owner} == $$ } @running)
	{
		$self->stop;
	}
	$? = $exit_code;
}

1;
