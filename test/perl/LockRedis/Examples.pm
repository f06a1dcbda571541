# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::Examples - the examples, as their pages say to run them

=head1 SYNOPSIS

  LockRedis::Examples->need;             # skips the test file where it has to
  my $folder = LockRedis::Examples->folder('go');

  my @blocks = LockRedis::Examples->commands('go');    # of sh, in examples/go/README.md
  my $program = LockRedis::Examples->start('go', %environment);
  $program->says('busy');                # a line of its output; dies when it has ended
  $program->has_ended;
  $program->status; $program->output; $program->errors;

=head1 DESCRIPTION

test/interop/examples/build has run those commands of a page that install something, in a
copy of the folder.  start() runs the others there, all of them in one shell, which ends at
the first that fails.

=cut

package LockRedis::Examples;

use LockRedis::Pragmas;

use Cwd qw(abs_path);
use File::Basename qw(dirname);
use IPC::Run;
use LockRedis::Program qw(need_built);
use PostgreSQL::Test::Utils qw(slurp_file);

my $top = abs_path(dirname(__FILE__) . '/../../..');
my $built = "$top/test/interop/examples";
my @running;

# Skip the test file where they cannot be had.
sub need { return need_built("$built/build", 'what the examples need'); }

sub folder ($class, $name) { return "$built/target/$name"; }

sub commands ($class, $name)
{
	return slurp_file("$top/examples/$name/README.md") =~ /^```sh\n(.*?)^```/msg;
}

sub start ($class, $name, %environment)
{
	my $self = bless { name => $name, out => '', err => '' }, $class;
	my @blocks = grep { /^psql /m } $class->commands($name);
	my $directory = $class->folder($name);
	local @ENV{ keys %environment } = values %environment;

	$self->{harness} =
	  IPC::Run::start([ 'bash', '-euc', "cd '$directory'\n" . join '', @blocks ],
		'<', \undef, '>', \$self->{out}, '2>', \$self->{err});
	push @running, $self;
	return $self;
}

sub says ($self, $line)
{
	return 1 if $self->output =~ /^\Q$line\E$/m;
	die "$self->{name} has ended:\n$self->{out}$self->{err}" unless $self->{harness}->pumpable;
	return 0;
}

sub has_ended ($self)
{
	$self->{harness}->pump_nb if $self->{harness}->pumpable;
	return !$self->{harness}->pumpable;
}

sub output ($self)
{
	$self->has_ended;
	return $self->{out};
}

sub errors ($self) { return $self->{err}; }

sub status ($self)
{
	$self->{harness}->finish;
	return $self->{harness}->result(0);
}

END
{
	my $exit_code = $?;

	$_->{harness}->kill_kill foreach grep { !$_->has_ended } @running;
	$? = $exit_code;
}

1;
