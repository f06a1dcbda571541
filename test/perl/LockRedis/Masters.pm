# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::Masters - independent masters of a test

=head1 SYNOPSIS

  my $masters = LockRedis::Masters->new;        # five, which have run for a day
  my $masters = LockRedis::Masters->new(n => 3, age => 86400, proxies => 1,
      password => 'secret', config => {});

  my $node = LockRedis::Node->create('main', redis => $masters);
  $masters->url;                     # redis://127.0.0.1:PORT redis://...
  my @nodes = $masters->nodes; my @proxies = $masters->proxies;
  $masters->restart_empty($n, ...);  # these; they have run for no time then
  $masters->restart_old($n, ...);    # the same, as if they had run for a day
  $masters->owners($key);            # of each node, undef where nobody has it
  $masters->wait_for_owners($key, $k);   # so many nodes have it
  $masters->have($key);              # how many do
  my $node = $masters->server('main', %settings);   # with long leases and time-outs
  $masters->wait_until_watched($node);   # it has seen all, and is connected to each
  $masters->take_at_all($session, $key); # a connection that is made late is not waited for
  $masters->connect_to_all($session);
  $masters->all_keys; $masters->channels; $masters->clients;    # of all that are awake

=head1 DESCRIPTION

A Redis that was started lately has no vote, nor has one that another was before.  So
that no test has to wait for it, each is told by a preloaded library that it was
started a day ago (time() is asked for that and hardly anything else; leases go by
another clock), and has the same run id as before, unless it is restarted empty (the
number that it is made of is read from /dev/urandom).

C<lockredis.max_lease> of a server that is made with them is an hour, if the test does not
set it.

=cut

package LockRedis::Masters;

use LockRedis::Pragmas;

use Carp;
use LockRedis::Proxy;
use LockRedis::Redis;
use LockRedis::Test qw(:DEFAULT fault_library);

use constant DAY => 86400;

my $library;

sub _library { return $library //= fault_library('older.c'); }

sub new ($class, %opts)
{
	my $self = bless { password => $opts{password}, age => $opts{age} // DAY }, $class;

	foreach my $n (1 .. $opts{n} // 5)
	{
		push @{ $self->{nodes} },
		  LockRedis::Master->new(
			name => "master$n",
			password => $opts{password},
			config => $opts{config} || {},
			start => 0);
	}
	foreach my $node ($self->nodes)
	{
		$node->{age} = $self->{age};
		$node->start;
		push @{ $self->{proxies} }, LockRedis::Proxy->new($node) if $opts{proxies};
	}
	return $self;
}

sub nodes ($self) { return @{ $self->{nodes} }; }

sub proxies ($self) { return @{ $self->{proxies} }; }

sub password ($self) { return $self->{password}; }

sub sentinel_password { return; }

sub url ($self) { return join ' ', map { $_->url } @{ $self->{proxies} || $self->{nodes} }; }

sub _restart ($self, $age, @numbers)
{
	my @nodes = @{ $self->{nodes} }[@numbers];

	# All before the first is back, or it could be given what the others still have.
	foreach my $node (@nodes)
	{
		$node->kill9 if $node->pid;
	}
	foreach my $node (@nodes)
	{
		$node->{age} = $age;
		$node->start;
	}
	return;
}

sub restart_empty ($self, @numbers) { return $self->_restart(0, @numbers); }

sub restart_old ($self, @numbers) { return $self->_restart(DAY, @numbers); }

sub _awake ($self) { return grep { $_->pid && !$_->{frozen} } $self->nodes; }

# ---- as of one Redis

sub _union (@things)
{
	my %seen = map { $_ => 1 } @things;
	my @sorted = sort keys %seen;

	return @sorted;
}

sub all_keys ($self) { return _union(map { $_->all_keys } $self->_awake); }

sub channels ($self) { return _union(map { $_->channels } $self->_awake); }

# Of the node that has most of them; but for those that only ask whether it is there
sub clients ($self)
{
	my @most;

	foreach my $node ($self->_awake)
	{
		my @clients = grep { $_->{name} !~ /^lockredis-probe/ } $node->clients;
		@most = @clients if @clients > @most;
	}
	return @most;
}

sub calls ($self, @commands)
{
	my $sum = 0;

	$sum += $_->calls(@commands) foreach $self->_awake;
	return $sum;
}

sub script_calls ($self) { return $self->calls('eval', 'evalsha'); }

sub owners ($self, $key) { return map { (keys %{ $_->hash($key) })[0] } $self->nodes; }

sub wait_for_owners ($self, $key, $n)
{
	poll_until("$n nodes to have $key", sub { $self->have($key) == $n });
	return;
}

sub have ($self, $key) { return scalar grep { $_->cmd('EXISTS', $key) } $self->_awake; }

sub take_at_all ($self, $session, $key, $arguments = undef)
{
	$arguments //= '';
	poll_until("all to have $key", sub {
		$session->value("SELECT redis_try_lock('$key'$arguments)");
		return 1 if $self->have($key) == $self->nodes;
		$session->value("SELECT redis_unlock('$key')");
		return 0;
	});
	return;
}

sub connect_to_all ($self, $session)
{
	$self->take_at_all($session, 'warm');
	$session->value("SELECT redis_unlock('warm')");
	poll_until('all to be free of it', sub { !$self->have('warm') });
	return;
}

# ---- servers of PostgreSQL

sub server ($self, $name, %settings)
{
	my $node = LockRedis::Node->create($name, redis => $self,
		settings => { 'lockredis.lease' => '1h', 'lockredis.connect_timeout' => '60s',
			'lockredis.command_timeout' => '60s', %settings });

	$node->wait_for_up;
	return $node;
}

sub wait_until_watched ($self, $node)
{
	$node->wait_for_up;
	poll_until('all to be up', sub {
		$node->value("SELECT count(*) FROM redis_lock_status WHERE state = 'up'") == $self->nodes });
	poll_until('the watchdog to be connected to each', sub {
		!grep { !grep { $_->{name} =~ /^lockredis-watchdog/ } $_->clients } $self->nodes });
	return;
}

# What Redisson and others do at each node
sub foreign_lock ($self, @args)
{
	$_->foreign_lock(@args) foreach $self->_awake;
	return;
}

sub foreign_unlock ($self, @args)
{
	$_->foreign_unlock(@args) foreach $self->_awake;
	return;
}

# Of any node
our $AUTOLOAD;

sub AUTOLOAD ($self, @args)
{
	my $method = $AUTOLOAD =~ s/.*:://r;

	return if $method eq 'DESTROY';
	croak "no method $method" unless ref $self && LockRedis::Master->can($method);
	return ($self->_awake)[0]->$method(@args);
}

# One that says how long it has run
package LockRedis::Master;

use parent -norequire, 'LockRedis::Redis';

sub _program ($self)
{
	my $preload = join ' ', grep { defined } $ENV{LD_PRELOAD}, LockRedis::Masters::_library();

	# Longer than what is read for a run id
	my $id = $self->{age} ? "$self->{port} " x 64 : '';

	return ('env', "LD_PRELOAD=$preload", "LOCKREDIS_TEST_AGE=$self->{age}", "LOCKREDIS_TEST_ID=$id",
		$self->SUPER::_program);
}

1;
