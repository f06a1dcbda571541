# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::Sentinels - a master, its replicas, and the Sentinels that watch them

=head1 SYNOPSIS

  my $ha = LockRedis::Sentinels->new;         # 1 master, 2 replicas, 3 Sentinels
  my $ha = LockRedis::Sentinels->new(replicas => 1, sentinels => 3, quorum => 2,
      down_after => 60_000, password => 'secret', sentinel_password => 'other',
      names => 1, tls => $ca, pace => 'default', net => $net, config => {}, sentinel_config => {});

  my $node = LockRedis::Node->create('main', redis => $ha);
  $ha->url;                  # redis-sentinel://127.0.0.1:PORT,.../svc
  $ha->url(sentinels => [...]);      # with others, or fewer
  $ha->master; $ha->replicas;        # LockRedis::Redis, as the Sentinels say
  $ha->nodes; $ha->sentinels;        # all of them
  $ha->place_of($server)             # in the network, with net
  $ha->cmd(...); $ha->hash($key)     # ... to the present master

  my $old = $ha->master;
  $old->kill9;                       # or freeze, stop; LockRedis::Redis has them
  my $new = $ha->wait_for_master_but($old);
  $old->start;                       # with the configuration that it had
  $ha->wait_until_steady;

  $ha->fail_over;                    # by command; returns the new master

  # A lock that the replicas do not have when the master dies
  my ($old, @replicas) = ($ha->master, $ha->replicas);
  $old->outrun_replicas(@replicas);
  $s->query("SELECT redis_lock('k')");
  $old->kill9;
  $_->thaw foreach @replicas;

=head1 DESCRIPTION

On loopback, or each in a place of its own of a LockRedis::Netns.  The Sentinels
take a master for dead after 1.5 s while a test waits for another one, and after a
minute otherwise: a master that stood still for a moment on a busy machine would be
replaced in the middle of what a test looks at.  (With down_after it is that many
milliseconds, always.)  They name the next one about 1.2 s later.  They look at the
replicas each second, and turn an old master round 2 s after its return, where their
version has settings for that; with pace => 'default' it is 10 s both times, as in
production.  With names they announce host names (localhost) for addresses.  With tls,
a LockRedis::Ca, they speak TLS with each other, and url() is rediss-sentinel://.

A node that is started again has the configuration that Sentinel or REPLICAOF
made it write, as in production: a master that was killed comes back as a master,
until a Sentinel turns it round.  It comes back empty.

=cut

package LockRedis::Sentinels;

use LockRedis::Pragmas;

use Carp;
use LockRedis::Redis;
use LockRedis::Sentinel;
use LockRedis::Wait qw(limit now poll_until);
use Test::More;

# Until a master is taken for dead when no test waits for that, in milliseconds
my $patience = 60_000;

sub new ($class, %opts)
{
	my $self = bless {
		service => $opts{service} || 'svc',
		net => $opts{net},
		password => $opts{password},
		sentinel_password => $opts{sentinel_password},
		down_after => $opts{down_after},
		tls => $opts{tls}
	}, $class;
	my $nreplicas = $opts{replicas} // 2;
	my $nsentinels = $opts{sentinels} // 3;
	my $auth = defined $opts{password};
	my $host = $opts{names} ? 'localhost' : undef;
	# Which may be ::1 first
	my @bind = $host ? (bind => [ '127.0.0.1', '-::1' ]) : ();
	my %tls = $self->_tls;

	foreach my $n (0 .. $nreplicas)
	{
		my $name = $n ? "replica$n" : 'master';
		push @{ $self->{nodes} },
		  LockRedis::HaNode->new(
			name => $name,
			password => $opts{password},
			place => $self->_place($name),
			tls => $tls{certificate},
			config => {
				%{ $tls{config} || {} },
				'repl-diskless-sync-delay' => 0,
				'repl-ping-replica-period' => 1,
				$auth ? (masterauth => $opts{password}) : (),
				$n ? (replicaof => [ $self->{nodes}[0]->host, $self->{nodes}[0]->public_port ]) : (),
				$host ? ('replica-announce-ip' => $host, @bind) : (),
				%{ $opts{config} || {} }
			});
	}
	$self->wait_for_replicas($self->{nodes}[0], $nreplicas);

	my $first = $self->{nodes}[0];
	my $quorum = $opts{quorum} // int($nsentinels / 2) + 1;
	foreach my $n (1 .. $nsentinels)
	{
		my $service = $self->{service};
		push @{ $self->{sentinels} },
		  LockRedis::Sentinel->new(
			name => "sentinel$n",
			password => $opts{sentinel_password},
			place => $self->_place("sentinel$n"),
			service => $service,
			pace => $opts{pace},
			tls => $tls{certificate},
			config => { @bind, %{ $tls{config} || {} }, %{ $opts{sentinel_config} || {} } },
			lines => [
				$host ? ('resolve-hostnames yes', 'announce-hostnames yes', "announce-ip $host") : (),
				defined $opts{sentinel_password} ? "sentinel-pass \"$opts{sentinel_password}\"" : (),
				"monitor $service " . ($host || $first->host) . ' ' . $first->public_port . " $quorum",
				"down-after-milliseconds $service " . ($opts{down_after} // $patience),
				"failover-timeout $service 3000",
				"parallel-syncs $service 9",
				$auth ? "auth-pass $service \"$opts{password}\"" : ()
			]);
	}
	$self->wait_until_steady;
	return $self;
}

sub _place ($self, $name) { return $self->{net} && $self->{net}->place($name); }

# All of them speak TLS with each other, under one certificate; the test keeps the
# plain port.
sub _tls ($self)
{
	my $ca = $self->{tls} or return ();

	return (
		certificate => $ca->certificate('servers'),
		config => { 'tls-replication' => 'yes', 'tls-ca-cert-file' => $ca->file });
}

sub service ($self) { return $self->{service}; }

sub password ($self) { return $self->{password}; }

sub sentinel_password ($self) { return $self->{sentinel_password}; }

sub nodes ($self) { return @{ $self->{nodes} }; }

sub sentinels ($self) { return @{ $self->{sentinels} }; }

sub place_of ($self, $server) { return $server->{place}; }

sub url ($self, %opts)
{
	return ($self->{tls} ? 'rediss' : 'redis') . '-sentinel://'
	  . ($opts{user} ? "$opts{user}\@" : '')
	  . join(',', map { $_->address } @{ $opts{sentinels} || $self->{sentinels} })
	  . "/$self->{service}"
	  . (defined $opts{db} ? "/$opts{db}" : '');
}

# Sentinels that run and answer
sub _awake ($self) { return grep { $_->pid && !$_->{frozen} } $self->sentinels; }

# Who is at an address as a Sentinel says it
sub at ($self, $address)
{
	my ($host, $port) = $address =~ /^(.*):(\d+)$/ or croak "no address: $address";
	my ($found) = grep { $_->public_port == $port } $self->nodes;

	croak "nobody is at $address" unless $found;
	return $found;
}

# That most of the Sentinels name
sub master ($self)
{
	my (%votes, $best);

	$votes{ $_->named || '' }++ foreach $self->_awake;
	$best = (sort { $votes{$b} <=> $votes{$a} } keys %votes)[0];
	return $best ? $self->at($best) : undef;
}

sub replicas ($self)
{
	my $master = $self->master;

	return grep { $_ != $master } $self->nodes;
}

# After how long, in milliseconds, a master that does not answer is taken for dead
sub _set_down_after ($self, $ms)
{
	return if $self->{down_after};
	$_->set('down-after-milliseconds', $ms) foreach $self->_awake;
	return;
}

# Is a master that does not answer to be replaced?  Else it is waited for.
sub be_patient ($self, $yes) { return $self->_set_down_after($yes ? $patience : limit(1500)); }

# These Sentinels, or all that are awake, name another one, which is a master.
#
# A Sentinel that has stood still itself for 2 s judges nobody for half a minute.  By then
# the replicas have been without their master for longer than ten times down-after, and no
# Sentinel would ever make one of them the master; so down-after is set to more then.
sub wait_for_master_but ($self, $old, @sentinels)
{
	my $late = now() + limit(15);

	$self->be_patient(0);
	my $new = $self->_new_master(
		$old,
		sub {
			if ($late && now() > $late)
			{
				$self->_set_down_after(limit(10_000));
				$late = 0;
			}
			return @sentinels ? @sentinels : $self->_awake;
		});
	$self->be_patient(1);
	return $new;
}

# The Sentinels that the function returns, each time that it is called, name the new one.
sub _new_master ($self, $old, $who)
{
	return poll_until(
		'the Sentinels to name another master than ' . $old->address,
		sub {
			my %named = map { ($_->named || '') => 1 } $who->();
			my ($address) = keys %named;
			return if keys %named != 1 || !$address;
			my $master = $self->at($address);
			return $master != $old && $master->role eq 'master' ? $master : undef;
		},
		180);
}

sub wait_for_replicas ($self, $master, $count)
{
	return poll_until("$count replicas of " . $master->address,
		sub { $master->online_replicas >= $count });
}

# All nodes that run are where they should be, and all Sentinels know that, each
# other, and of no failover.  A Sentinel that takes a replica for the master that it
# was some seconds ago would turn it round in the middle of the next failover.
sub wait_until_steady ($self)
{
	my $others = grep { $_->pid } $self->nodes;

	$others -= 1;
	return poll_until(
		'the Sentinels to agree',
		sub {
			my @awake = $self->_awake;
			my %named = map { ($_->named || '') => 1 } @awake;
			my ($address) = keys %named;
			return 0 if keys %named != 1 || !$address;
			my $master = $self->at($address);
			return 0
			  if !$master->pid || $master->role ne 'master'
			  || $master->online_replicas < $others;
			foreach my $sentinel (@awake)
			{
				my $facts = $sentinel->facts;
				return 0
				  if $facts->{flags} ne 'master'
				  || $facts->{'num-other-sentinels'} < @awake - 1
				  || $sentinel->replicas_in_order < $others;
			}
			return 1;
		},
		180);
}

# By command: the new master.  A failover is given up when it takes too long, and while the
# master answers nobody begins another one.
sub fail_over ($self)
{
	my $old = $self->master;

	$self->order_failover;
	return $self->_new_master(
		$old,
		sub {
			my @awake = $self->_awake;

			$self->order_failover if !grep { _is_replacing($_, $old) } @awake;
			return @awake;
		});
}

# Does the Sentinel replace that master, or has it done so?
sub _is_replacing ($sentinel, $old)
{
	my $facts = $sentinel->facts;

	return !$facts || $facts->{port} != $old->public_port || $facts->{flags} =~ /failover_in_progress/;
}

# A failover that has just ended, or a replica that is not yet known as one, is in
# the way for some seconds.
sub order_failover ($self)
{
	my ($sentinel) = $self->_awake;

	poll_until('a Sentinel to begin a failover',
		sub { !ref $sentinel->try_cmd('SENTINEL', 'FAILOVER', $self->{service}) });
	return;
}

# What is asked of one Redis is asked of the present master.
our $AUTOLOAD;

sub AUTOLOAD ($self, @args)
{
	my $method = $AUTOLOAD =~ s/.*:://r;

	return if $method eq 'DESTROY';
	croak "no method $method" unless ref $self && LockRedis::HaNode->can($method);
	return $self->master->$method(@args);
}

# A node that keeps the configuration that it wrote itself
package LockRedis::HaNode;

use parent -norequire, 'LockRedis::Redis';

sub _write_config ($self)
{
	return if $self->{written};
	$self->SUPER::_write_config;
	$self->{written} = 1;
	return;
}

# Without what Sentinels and replicas need
sub channels ($self) { return grep { $_ ne '__sentinel__:hello' } $self->SUPER::channels; }

sub clients ($self)
{
	return grep { $_->{name} !~ /^sentinel-/ && $_->{flags} !~ /[SM]/ }
	  $self->SUPER::clients;
}

# What it gets from now on does not reach its replicas, until they are thawed:
# killing the master first leaves them without it.  A frozen replica alone is not
# enough, as the kernel keeps the stream for it.
sub outrun_replicas ($self, @replicas)
{
	$_->freeze foreach @replicas;
	$self->cmd('CLIENT', 'KILL', 'TYPE', 'replica');
	return;
}

# master or slave
sub role ($self) { return $self->info('replication')->{role}; }

sub online_replicas ($self)
{
	my $info = $self->info('replication');

	return scalar grep { /^slave\d+$/ && $info->{$_} =~ /state=online/ } keys %$info;
}

1;
