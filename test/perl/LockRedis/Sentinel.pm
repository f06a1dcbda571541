# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::Sentinel - a Sentinel of a test

=head1 DESCRIPTION

Made by LockRedis::Sentinels, which see.  Is a LockRedis::Redis: start, stop,
kill9, freeze, thaw, cmd and the rest work.  It keeps what it wrote into its
configuration when it is started again.

  $sentinel->named;           # address of the master that it names, undef: none
  $sentinel->facts;           # SENTINEL MASTER as a hash, undef if it has none
  $sentinel->set('down-after-milliseconds', 5000);

One that lies is a LockRedis::FalseSentinel: real ones correct each other.

=cut

package LockRedis::Sentinel;

use LockRedis::Pragmas;

use parent 'LockRedis::Redis';

use PostgreSQL::Test::Utils qw(append_to_file);

sub new ($class, %opts)
{
	my $self = $class->SUPER::new(%opts, start => 0);

	$self->{service} = $opts{service};
	$self->{lines} = $opts{lines};
	$self->{slow} = ($opts{pace} || '') eq 'default';
	$self->start;
	return $self;
}

sub _arguments { return ('--sentinel'); }

# A Sentinel writes what it learns behind this; what has an order is not for a
# hash.
sub _write_config ($self)
{
	return if delete $self->{written} && -e "$self->{dir}/redis.conf";
	$self->SUPER::_write_config;
	append_to_file("$self->{dir}/redis.conf", "sentinel $_\n") foreach @{ $self->{lines} };
	return;
}

sub start ($self, %opts)
{
	$self->SUPER::start(%opts);
	$self->{written} = 1;

	# From 7.0 on; it does not keep this.
	$self->try_cmd('SENTINEL', 'DEBUG', 'INFO-PERIOD', 1000, 'PUBLISH-PERIOD', 500)
	  unless $self->{slow};
	return;
}

sub stop ($self)
{
	return unless $self->{pid};
	$self->thaw;
	kill 'TERM', $self->{pid};
	$self->_reap;
	return;
}

sub named ($self)
{
	my $address =
	  $self->cmd('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', $self->{service});

	return $address && join ':', @$address;
}

sub facts ($self)
{
	my $facts = $self->try_cmd('SENTINEL', 'MASTER', $self->{service});

	return ref $facts eq 'ARRAY' ? {@$facts} : undef;
}

# How many replicas it knows that say so themselves
sub replicas_in_order ($self)
{
	return scalar grep {
		my %replica = @$_;
		$replica{flags} eq 'slave' && $replica{'role-reported'} eq 'slave'
		  && $replica{'master-link-status'} eq 'ok'
	} @{ $self->cmd('SENTINEL', 'SLAVES', $self->{service}) };
}

sub set ($self, $option, $value)
{
	$self->cmd('SENTINEL', 'SET', $self->{service}, $option, $value);
	return;
}

1;
