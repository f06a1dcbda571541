# Copyright (c) 2026, lockredis contributors

# A peer with a process for each client, as PostgreSQL has, where the program
# itself would have a thread: what that alone costs.

package Bench::Processes;

use strict;
use warnings FATAL => 'all';

use Bench::Peer;

# As Bench::Peer.
sub new
{
	my ($class, %opts) = @_;

	return bless { opts => \%opts, peers => [], working => 0 }, $class;
}

sub name { my ($self) = @_; return $self->{opts}{name}; }

sub at_distance { return 1; }

sub _working
{
	my ($self) = @_;

	return @{ $self->{peers} }[ 0 .. $self->{working} - 1 ];
}

sub pids
{
	my ($self) = @_;

	return map { $_->pids } $self->_working;
}

# Before start: how many will work.  They are started when first needed.
sub choose
{
	my ($self, $clients) = @_;
	my $peers = $self->{peers};

	push @$peers, Bench::Peer->new(%{ $self->{opts} }) while @$peers < $clients;
	$self->{working} = $clients;
	return;
}

sub start
{
	my ($self, %work) = @_;
	my $number = $work{base};

	$self->choose($work{clients});
	$_->start(%work, clients => 1, base => $number++) foreach $self->_working;
	return;
}

sub finish
{
	my ($self) = @_;

	return [ map { @{ $_->finish } } $self->_working ];
}

sub stop
{
	my ($self) = @_;

	$_->stop foreach splice @{ $self->{peers} };
	return;
}

1;
