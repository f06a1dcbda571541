# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

Hostile - drives test/fuzz/hostile

=head1 SYNOPSIS

  my $hostile = Hostile->new($redis, $seed);
  $hostile->url;                                 # redis://127.0.0.1:PORT
  $hostile->attack(who => 'session', what => 'reply', percent => 80);
  $hostile->spoiled;                             # how many replies so far
  $hostile->good;                                # from now on it is a Redis
  $hostile->log;                                 # file with what it has sent

=cut

package Hostile;

use strict;
use warnings FATAL => 'all';

use Carp;
use File::Basename qw(dirname);
use IO::Handle;
use IO::Select;
use IPC::Open2 qw(open2);
use JSON::PP;
use LockRedis::Wait qw(limit);
use PostgreSQL::Test::Utils;

my $program = dirname(__FILE__) . '/hostile';
my $json = JSON::PP->new->canonical;
my @running;

sub new
{
	my ($class, $redis, $seed) = @_;
	my $test = $0;

	$test =~ s/.*\///;
	$test =~ s/\.[^.]+$//;
	my $log = "$PostgreSQL::Test::Utils::log_path/${test}_hostile.log";
	my $pid = open2(my $out, my $in, $program, $redis->socket_path, $seed,
		'--log', $log);
	my $self = bless {
		pid => $pid,
		in => $in,
		out => $out,
		log => $log,
		owner => $$
	}, $class;

	push @running, $self;
	$self->{port} = $self->_answer->{port};
	return $self;
}

sub url { my ($self) = @_; return "redis://127.0.0.1:$self->{port}"; }

sub log { my ($self) = @_; return $self->{log}; }

sub attack { my ($self, %how) = @_; return $self->_do('attack', %how); }

sub good { my ($self) = @_; return $self->_do('good'); }

sub spoiled { my ($self) = @_; return $self->_do('stats')->{spoiled}; }

sub _do
{
	my ($self, $what, %args) = @_;

	print { $self->{in} } $json->encode({ do => $what, %args }), "\n";
	$self->{in}->flush;
	my $answer = $self->_answer;
	croak "hostile: $answer->{error}" if exists $answer->{error};
	return $answer;
}

sub _answer
{
	my ($self) = @_;

	croak 'the hostile server does not answer'
	  unless IO::Select->new($self->{out})->can_read(limit(20));
	my $line = readline $self->{out};
	croak 'the hostile server has ended' unless defined $line;
	return $json->decode($line);
}

END
{
	my $exit_code = $?;

	foreach my $self (grep { $_->{owner} == $$ } @running)
	{
		kill 'KILL', $self->{pid};
		waitpid $self->{pid}, 0;
	}
	$? = $exit_code;
}

1;
