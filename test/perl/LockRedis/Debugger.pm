# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::Debugger - stops a server process in the middle of a function

=head1 SYNOPSIS

  LockRedis::Debugger->need;               # skips the test without gdb
  my $stop = LockRedis::Debugger->new($session->pid);    # later => 1: does not attach yet,
                                                         # but by $stop->attach
  $stop->run_to('lt_lose');                # the process goes on
  $stop->run_to('lt_lose', 'op->outcome == 3'); # with an expression of gdb that has to hold
  $session->start("SELECT redis_lock('k')");
  $stop->wait_for_stop;                    # it has come to that function
  $stop->out_of('current_store');          # ... has called that, and it returned
  $stop->tell('print lr_mode');            # commands of gdb, and what it says
  my $hits = $stop->counts('lt_look');     # from here on; $hits->(), while it is stopped: so often
  ...                                      # whatever has to happen meanwhile
  $stop->let_go;                           # it goes on, and gdb ends

For interleavings that no fault from outside forces: between two steps of one
process in shared memory.  Several processes can be stopped at a time.

=cut

package LockRedis::Debugger;

use LockRedis::Pragmas;

use Carp;
use IO::Select;
use LockRedis::Program qw(await_end start_talking);
use LockRedis::Test qw(need_tool);
use LockRedis::Wait qw(limit now pause);

my @own_signals = qw(SIGUSR1 SIGUSR2 SIGALRM SIGHUP SIGTERM SIGURG SIGPIPE SIGCHLD);

sub need
{
	my $scope = '/proc/sys/kernel/yama/ptrace_scope';

	need_tool('gdb');
	return if $> == 0 || !-e $scope || PostgreSQL::Test::Utils::slurp_file($scope) == 0;
	my $why = "$scope forbids to look into other processes";
	die "$why\n" if $ENV{CI};
	Test::More::plan(skip_all => $why);
	return;
}

sub new ($class, $pid, %opts)
{
	my $self = bless { asked => 0, read => '', pid => $pid }, $class;

	@$self{qw(gdb in out)} = start_talking(undef, 'LC_ALL=C exec gdb -q -nx 2>&1');
	$self->_do('set confirm off');
	$self->_do('set pagination off');
	$self->_do("handle $_ nostop noprint pass") foreach @own_signals;
	$self->attach unless $opts{later};
	return $self;
}

sub attach ($self)
{
	my $answer = $self->_do("attach $self->{pid}");

	croak "gdb cannot attach: $answer" if $answer =~ /not permitted|No such process/;
	return;
}

# Stop at the beginning of that function, the next time.
sub run_to ($self, $function, $condition = undef)
{
	my $answer = $self->_do("tbreak $function" . ($condition ? " if $condition" : ''));
	croak "gdb knows no $function: $answer" unless $answer =~ /reakpoint \d/;
	$self->{function} = $function;
	$self->_ask('continue');
	return;
}

sub wait_for_stop ($self)
{
	my $answer = $self->_answer;

	croak "no stop at $self->{function}: $answer"
	  unless $answer =~ /\b\Q$self->{function}\E \(/;
	return;
}

# From where it is stopped to the return of that function.
sub out_of ($self, $function)
{
	$self->run_to($function);
	$self->wait_for_stop;
	my $answer = $self->_do('finish');
	croak "no return from $function: $answer" unless $answer =~ /Run till exit/;
	return;
}

# Commands for gdb while the process is stopped; what it says to them.  None that has it
# call a function there: it cannot save the registers of each processor.
sub tell ($self, $commands)
{
	croak "a function is to be called by gdb: $commands"
	  if $commands =~ /^\s*(?:call|compile|jump|return)\b|\)\s*\(/m;
	return $self->_do($commands);
}

sub counts ($self, $place)
{
	my $answer = $self->_do("break $place");
	my ($number) = $answer =~ /Breakpoint (\d+)/ or croak "no breakpoint: $answer";

	$self->_do("ignore $number 1000000");
	return sub {
		return $self->_do("info breakpoints $number") =~ /already hit (\d+) time/ ? $1 : 0;
	};
}

sub let_go ($self)
{
	return unless $self->{gdb};
	$self->_do('delete');
	$self->_do('detach');
	print { $self->{in} } "quit\n";
	close $self->{in};
	await_end(delete $self->{gdb});
	return;
}

sub _ask ($self, $command)
{
	$self->{asked}++;
	print { $self->{in} } "$command\necho \\n\@\@$self->{asked}\@\@\\n\n";
	return;
}

# What gdb says until it has done with the last command.
sub _answer ($self)
{
	my $until = now() + limit(120);

	while (1)
	{
		if ($self->{read} =~ /^(.*?)\@\@$self->{asked}\@\@\n(.*)\z/s)
		{
			$self->{read} = $2;
			return $1;
		}
		croak "gdb does not answer: $self->{read}" if now() > $until;
		pause(0);
		next unless IO::Select->new($self->{out})->can_read(0.1);
		sysread($self->{out}, $self->{read}, 65536, length $self->{read})
		  or croak "gdb has ended: $self->{read}";
	}
}

sub _do ($self, $command)
{
	$self->_ask($command);
	return $self->_answer;
}

1;
