# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::RedisCluster - a Redis Cluster of a test

=head1 SYNOPSIS

  my $cluster = LockRedis::RedisCluster->new;       # 3 masters, a replica each
  my $cluster = LockRedis::RedisCluster->new(masters => 3, replicas => 0,
      spare => 1, password => 'secret', config => {},
      tls => $ca,                    # a LockRedis::Ca: encrypted, with certificates of it
      net => $net);                  # a LockRedis::Netns: each in a place of its own

  my $node = LockRedis::Node->create('main', redis => $cluster);
  $cluster->url;                     # redis-cluster://127.0.0.1:PORT,... (rediss-)
  $cluster->nodes; $cluster->masters;    # LockRedis::Redis; who has slots now
  $cluster->slot($key); $cluster->node_of($key); $cluster->replica_of($node);
  $cluster->key_on($node, $prefix);      # a name that this one has
  $cluster->cmd('HGETALL', $key); $cluster->hash($key);    # where the key is
  $cluster->all_keys; $cluster->clients; $cluster->channels;   # of all masters
  $cluster->place_of($node);             # with net
  $cluster->move_slot($slot, $to);       # with what is in it, to the end
  $cluster->begin_move($slot, $to); $cluster->move_keys($slot);
  $cluster->end_move($slot);             # the same in three steps
  $cluster->fail_over($node);            # by command; the new master
  $cluster->wait_for_master_but($old, $slot);
  $cluster->be_patient(0);               # who does not answer is dead soon
  $cluster->wait_until_steady;           # all nodes that run agree

=head1 DESCRIPTION

On loopback, each node with a bus port that was free, so it needs Redis 7.0.  A
node that is started again has the configuration of the cluster, and no data.  The
nodes take one of them for dead after 2 s while a test waits for that, and after a
minute otherwise: one that stood still for a moment on a busy machine would be
replaced in the middle of what a test looks at.

=cut

package LockRedis::RedisCluster;

use LockRedis::Pragmas;

use Carp;
use LockRedis::Redis;
use LockRedis::Wait qw(limit poll_until);
use PostgreSQL::Test::Cluster;
use Test::More;

sub new ($class, %opts)
{
	my $nmasters = $opts{masters} // 3;
	my $nreplicas = $opts{replicas} // 1;
	my $self = bless { password => $opts{password}, tls => $opts{tls} }, $class;
	my $auth = defined $opts{password};

	foreach my $n (1 .. $nmasters * (1 + $nreplicas) + ($opts{spare} || 0))
	{
		push @{ $self->{nodes} },
		  LockRedis::ClusterNode->new(
			name => "node$n",
			password => $opts{password},
			place => $opts{net} && $opts{net}->place("node$n"),
			tls => $opts{tls} && $opts{tls}->certificate("node$n"),
			config => {
				'cluster-enabled' => 'yes',
				'cluster-config-file' => 'nodes.conf',
				'cluster-port' => PostgreSQL::Test::Cluster::get_free_port(),
				# Without replicas nobody waits for a node to be found to be away.  And nobody
				# meets one that stands still for longer.
				'cluster-node-timeout' => limit(15_000),
				# Until all are in place: one that stood still meanwhile would be replaced.
				$nreplicas ? ('cluster-replica-no-failover' => 'yes') : (),
				# However long it has not heard of its master
				'cluster-replica-validity-factor' => 0,
				'repl-diskless-sync-delay' => 0,
				$auth ? (masterauth => $opts{password}) : (),
				$opts{tls} ? ('tls-cluster' => 'yes', 'tls-replication' => 'yes',
					'tls-ca-cert-file' => $opts{tls}->file) : (),
				%{ $opts{config} || {} }
			});
	}
	my @nodes = $self->nodes;
	my $first = $nodes[0];

	$nodes[$_]->cmd('CLUSTER', 'SET-CONFIG-EPOCH', $_ + 1) foreach 0 .. $#nodes;
	$first->cmd('CLUSTER', 'MEET', $_->host, $_->public_port, $_->{config}{'cluster-port'})
	  foreach @nodes[ 1 .. $#nodes ];
	foreach my $n (0 .. $nmasters - 1)
	{
		$nodes[$n]->cmd('CLUSTER', 'ADDSLOTSRANGE', int(16384 * $n / $nmasters),
			int(16384 * ($n + 1) / $nmasters) - 1);
	}
	poll_until('all nodes to know each other',
		sub { !grep { $_->known_nodes != @nodes } @nodes });
	$self->{replaces} = $nreplicas;
	$self->be_patient(0);
	my @replicas = @nodes[ $nmasters .. $nmasters * (1 + $nreplicas) - 1 ];
	$replicas[$_]->cmd('CLUSTER', 'REPLICATE', $nodes[ $_ % $nmasters ]->id) foreach 0 .. $#replicas;
	$self->wait_until_steady;
	poll_until('the replicas to be in step',
		sub { !grep { ($_->info('replication')->{master_link_status} || '') ne 'up' } @replicas });
	$self->be_patient(1);
	$self->_allow_failovers
	  if $nreplicas && !$opts{config}{'cluster-replica-no-failover'};
	return $self;
}

# Of a master that stood still while they were set up, and was missed then, nobody may think
# any more that it has failed.
sub _allow_failovers ($self)
{
	$self->wait_until_steady;
	$_->config_set('cluster-replica-no-failover' => 'no') foreach $self->nodes;
	return;
}

# Is a node that does not answer to be given up?  Else it is waited for.
sub be_patient ($self, $yes)
{
	return unless $self->{replaces};
	$_->config_set('cluster-node-timeout' => limit($yes ? 60_000 : 2000)) foreach $self->nodes;
	return;
}

sub nodes ($self) { return @{ $self->{nodes} }; }

sub place_of ($self, $node) { return $node->{place}; }

sub password ($self) { return $self->{password}; }

sub sentinel_password { return; }

sub url ($self, %opts)
{
	return ($self->{tls} ? 'rediss' : 'redis') . '-cluster://' . ($opts{user} ? "$opts{user}\@" : '')
	  . join(',', map { $_->address } $self->nodes);
}

sub _awake ($self) { return grep { $_->pid && !$_->{frozen} } $self->nodes; }

# The nodes that run say the same of all slots, each of which is served, and of who is whose
# replica, and have heard of each other's numbers.  Before that, what moves could be claimed back
# by an old message.
sub wait_until_steady ($self)
{
	poll_until(
		'the cluster to be steady',
		sub {
			my @awake = $self->_awake;
			my %is_awake = map { $_->id => 1 } @awake;
			my (%views, %epochs);

			foreach my $node (@awake)
			{
				my $info = $node->cmd('CLUSTER', 'INFO');
				return 0 unless $info =~ /cluster_state:ok/ && $info =~ /cluster_slots_ok:16384/;
				$epochs{$1} = 1 if $info =~ /cluster_current_epoch:(\d+)/;
				$views{ join ' ',
					(map { "@$_[0,1] $_->[2][2]" }
						  sort { $a->[0] <=> $b->[0] } @{ $node->cmd('CLUSTER', 'SLOTS') }),
					sort map { "$_->[0] of $_->[3]" } grep { $is_awake{ $_->[0] } } $node->_nodes } = 1;
			}
			return keys %views == 1 && keys %epochs == 1;
		},
		180);
	return;
}

sub slot ($self, $key)
{
	my ($node) = $self->_awake;

	return $node->cmd('CLUSTER', 'KEYSLOT', $key);
}

# Who has the slot, as the nodes say that run
sub node_of_slot ($self, $slot)
{
	my ($id) = map { $_->master_of($slot) // () } $self->_awake or croak "nobody has slot $slot";
	my ($found) = grep { $_->id eq $id } $self->nodes;

	return $found;
}

sub node_of ($self, $key) { return $self->node_of_slot($self->slot($key)); }

sub masters ($self)
{
	my ($node) = $self->_awake;
	my %ids = map { $_->[2][2] => 1 } @{ $node->cmd('CLUSTER', 'SLOTS') };

	return grep { $ids{ $_->id } } $self->nodes;
}

# By these servers of PostgreSQL
sub wait_until_used ($self, @servers)
{
	my @masters = $self->masters;

	$_->wait_for_masters(scalar @masters) foreach @servers;
	return;
}

sub replica_of ($self, $master)
{
	my ($found) = grep { $_->master_id eq $master->id } $self->_awake;

	return $found;
}

# A name that begins like this and is kept by that node
sub key_on ($self, $node, $prefix)
{
	my $n = 0;

	$n++ until ($node->master_of($self->slot("$prefix$n")) // '') eq $node->id;
	return "$prefix$n";
}

# ---- moving slots

sub begin_move ($self, $slot, $to)
{
	my $from = $self->node_of_slot($slot);

	$to->cmd('CLUSTER', 'SETSLOT', $slot, 'IMPORTING', $from->id);
	$from->cmd('CLUSTER', 'SETSLOT', $slot, 'MIGRATING', $to->id);
	$self->{moving}{$slot} = [ $from, $to ];
	return;
}

sub move_keys ($self, $slot)
{
	my ($from, $to) = @{ $self->{moving}{$slot} };
	my @auth = defined $self->{password} ? ('AUTH', $self->{password}) : ();

	while (my @keys = @{ $from->cmd('CLUSTER', 'GETKEYSINSLOT', $slot, 100) })
	{
		$from->cmd('MIGRATE', $to->host, $to->public_port, '', 0, 10000, @auth, 'KEYS', @keys);
	}
	return;
}

# All agree then: moves that follow too fast confuse the nodes.
sub end_move ($self, $slot)
{
	my ($from, $to) = @{ delete $self->{moving}{$slot} };

	$_->cmd('CLUSTER', 'SETSLOT', $slot, 'NODE', $to->id)
	  foreach $to, $from, grep { $_ != $to && $_ != $from } $self->masters;
	$self->wait_until_steady;
	return;
}

sub move_slot ($self, $slot, $to)
{
	$self->begin_move($slot, $to);
	$self->move_keys($slot);
	$self->end_move($slot);
	return;
}

# ---- failovers

# The replica becomes the master, by command; it is returned
sub fail_over ($self, $master)
{
	my $replica = $self->replica_of($master);
	my $again = 0;

	# Each command makes Redis begin anew, and it may take 5 s.
	poll_until('a replica to take over',
		sub {
			return 1 if $replica->is_master;
			$again = time + 6
			  if time >= $again && !ref $replica->try_cmd('CLUSTER', 'FAILOVER');
			return 0;
		});
	$self->wait_until_steady;
	return $replica;
}

# Another one has that slot, as all say that run
sub wait_for_master_but ($self, $old, $slot)
{
	$self->be_patient(0);
	poll_until('another master',
		sub { !grep { ($_->master_of($slot) // '') eq $old->id } $self->_awake },
		180);
	$self->be_patient(1);
	$self->wait_until_steady;
	return $self->node_of_slot($slot);
}

# ---- as of one Redis

sub all_keys ($self)
{
	my @keys = sort map { $_->all_keys } $self->masters;

	return @keys;
}

sub channels ($self)
{
	my @channels = sort map { $_->channels } $self->masters;

	return @channels;
}

sub clients ($self) { return map { $_->clients } $self->_awake; }

# How often commands ran, at all nodes
sub calls ($self, @commands)
{
	my $sum = 0;

	$sum += $_->calls(@commands) foreach $self->_awake;
	return $sum;
}

sub script_calls ($self) { return $self->calls('eval', 'evalsha'); }

# A command whose second word is a key
sub cmd ($self, @words) { return $self->node_of($words[1])->cmd(@words); }

# What is known of one key is asked of the node that has it.
our $AUTOLOAD;

sub AUTOLOAD ($self, $key = undef, @args)
{
	my $method = $AUTOLOAD =~ s/.*:://r;

	return if $method eq 'DESTROY';
	croak "no method $method" unless ref $self && LockRedis::ClusterNode->can($method);
	return $self->node_of($key)->$method($key, @args);
}

# A node that keeps its identity
package LockRedis::ClusterNode;

use parent -norequire, 'LockRedis::Redis';

sub id ($self) { return $self->{id} ||= $self->cmd('CLUSTER', 'MYID'); }

sub _nodes ($self) { return map { [ split / / ] } split /\n/, $self->cmd('CLUSTER', 'NODES'); }

sub known_nodes ($self) { return scalar grep { $_->[2] !~ /handshake/ } $self->_nodes; }

sub _myself ($self)
{
	my ($line) = grep { $_->[2] =~ /myself/ } $self->_nodes;

	return $line;
}

sub is_master ($self) { return $self->_myself->[2] =~ /master/; }

sub master_id ($self) { return $self->_myself->[3]; }

# Who has that slot, by id, as it says
sub master_of ($self, $slot)
{
	my ($range) = grep { $slot >= $_->[0] && $slot <= $_->[1] } @{ $self->cmd('CLUSTER', 'SLOTS') };

	return $range && $range->[2][2];
}

# Without the other nodes
sub clients ($self) { return grep { $_->{flags} !~ /[SM]/ } $self->SUPER::clients; }

# Where a release is told: to the shard
sub tell_waiters ($self, $key) { return $self->cmd('SPUBLISH', $self->channel($key), '0'); }

sub subscribers ($self, $channel) { return $self->cmd('PUBSUB', 'SHARDNUMSUB', $channel)->[1]; }

1;
