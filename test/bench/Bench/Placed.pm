# Copyright (c) 2026, lockredis contributors

# A contender whose locks are kept somewhere else than in the Redis of the run: it
# knows the nodes that may be asked, and where a peer finds them.

package Bench::Placed;

use strict;
use warnings FATAL => 'all';

# Takes: contender, nodes; of a peer ports, and commands (which ones it sends, if not
# only scripts; must not be called by scripts).
sub new
{
	my ($class, %opts) = @_;

	return bless {%opts}, $class;
}

sub nodes { my ($self) = @_; return @{ $self->{nodes} }; }

sub commands { my ($self) = @_; return @{ $self->{commands} || [qw(eval evalsha)] }; }

# A peer finds them elsewhere.
sub move
{
	my ($self, @ports) = @_;

	$self->{ports} = \@ports;
	return;
}

sub at_distance { return 1; }

sub pids { my ($self) = @_; return $self->{contender}->pids; }

sub choose
{
	my ($self, $clients) = @_;

	$self->{contender}->choose($clients) if $self->{contender}->can('choose');
	return;
}

sub start
{
	my ($self, %work) = @_;

	$work{port} = join ',', @{ $self->{ports} } if $self->{ports};
	$self->{contender}->start(%work);
	return;
}

sub finish { my ($self) = @_; return $self->{contender}->finish; }

1;
