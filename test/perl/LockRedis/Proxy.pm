# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::Proxy - drives test/fault/proxy

=head1 SYNOPSIS

  my $proxy = LockRedis::Proxy->new($redis);
  $proxy->url;                                   # redis://127.0.0.1:PORT
  my $id = $proxy->rule(match => 'EVALSHA', action => 'hold');
  $proxy->rule(on => 'reply', match => $key, action => 'drop');
  $proxy->rule(match => $key, action => 'delay', ms => 4000);
  $proxy->wait_for_rule($id);                    # until it has acted (once)
  $proxy->release;                               # forward all that is held
  $proxy->clear;                                 # forget the rules
  $proxy->mode('refuse');      # pass, refuse, silent, reset, hang
  $proxy->latency(1);                            # ms, each direction
  $proxy->reset_all;
  $proxy->stats->{requests};                     # see test/fault/proxy

A match is made of bytes; a text with non-ASCII characters has to be encoded.

=cut

package LockRedis::Proxy;

use LockRedis::Pragmas;

use parent 'LockRedis::Program';

use Carp;
use File::Basename qw(dirname);
use IO::Select;
use JSON::PP;
use LockRedis::Program qw(start_talking);
use LockRedis::Wait qw(limit poll_until);

my $program = dirname(__FILE__) . '/../../fault/proxy';
my $json = JSON::PP->new->canonical->latin1;

sub new ($class, $redis, %opts)
{
	my $target =
	  $opts{unix} ? $redis->socket_path : '127.0.0.1:' . $redis->port;

	return $class->_launch($program, $target);
}

# The program, which is told what to do on its standard input
sub _launch ($class, @command)
{
	my $self = bless {}, $class;

	@$self{qw(pid in out)} = start_talking(undef, @command);
	$self->{port} = $self->_answer->{port};
	return $self;
}

sub port ($self) { return $self->{port}; }

# As of a LockRedis::Redis
sub public_port ($self) { return $self->{port}; }
sub address ($self) { return "127.0.0.1:$self->{port}"; }

sub url ($self) { return "redis://127.0.0.1:$self->{port}"; }

sub rule ($self, %rule) { return $self->_do('rule', %rule)->{id}; }

sub clear ($self) { return $self->_do('clear'); }

sub release ($self) { return $self->_do('release'); }

# What it held has been passed on when this returns.
sub let_go ($self)
{
	# The rules first, or they hold for good what comes in between; and what stood behind
	# something that was held may have been caught by a rule, too.
	$self->clear;
	$self->release;
	return poll_until(
		'the proxy to have let go',
		sub {
			return 1 if $self->stats->{held} == 0;
			$self->release;
			return 0;
		});
}

sub mode ($self, $mode) { return $self->_do('mode', to => $mode); }

sub latency ($self, $ms) { return $self->_do('latency', ms => $ms); }

sub reset_all ($self) { return $self->_do('reset_all'); }

sub stats ($self) { return $self->_do('stats'); }

sub acted ($self, $id) { return $self->stats->{acted}{$id}; }

sub wait_for_rule ($self, $id, $times = undef)
{
	$times = 1 unless defined $times;
	return poll_until("rule $id of the proxy to act",
		sub { $self->acted($id) >= $times });
}

sub stop ($self)
{
	return unless $self->{pid};
	close $self->{in};
	$self->_reap;
	return;
}

sub _do ($self, $what, %args)
{
	print { $self->{in} } $json->encode({ do => $what, %args }), "\n";
	my $answer = $self->_answer;
	croak "proxy: $answer->{error}" if exists $answer->{error};
	return $answer;
}

sub _answer ($self)
{
	croak 'the proxy does not answer'
	  unless IO::Select->new($self->{out})->can_read(limit(60));
	my $line = readline $self->{out};
	croak 'the proxy has ended' unless defined $line;
	return $json->decode($line);
}

1;
