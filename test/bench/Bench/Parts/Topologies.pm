# Copyright (c) 2026, lockredis contributors

# Everything that locks can be kept in, side by side: one Redis, a master that Sentinels
# name, clusters whose sessions use keys of one node or of several, and five independent
# masters beside redsync with five pools and RedissonRedLock.  Each client has its own
# lock (or a few, by turns).

package Bench::Parts::Topologies;

use strict;
use warnings FATAL => 'all';

use Bench::Backends;
use Bench::Meter;
use Bench::Placed;
use LockRedis::Masters;
use LockRedis::RedisCluster;
use LockRedis::Sentinels;
use LockRedis::Test;

# Of a cluster's session: keys of one node, of three, of all
my $statement = q{DO $$ DECLARE tags text[] := '{%s}'; key text; i int := 0; BEGIN
	WHILE bench_next() LOOP i := i %% cardinality(tags) + 1; key := tags[i] || bench_key();
	PERFORM redis_lock(key), bench_locked(); PERFORM bench_unlocking(), redis_unlock(key);
	END LOOP; END $$};

sub topologies
{
	my ($run) = @_;
	my $part = bless { run => $run, names => [], servers => [], stores => [] }, __PACKAGE__;
	my %work = (part => 'topologies', mode => 'own', seconds => $run->size('slice'));

	$run->warm_up;
	$part->add_sessions($run->{near}, [ $run->{redis} ], one => ['']);
	$part->add_sentinels if $run->wanted('sentinels');
	$part->add_cluster($_) foreach grep { $run->wanted("cluster$_") } 3, 5;
	$part->add_masters if $run->wanted('masters');
	foreach my $clients (@{ $run->size('topology_levels') })
	{
		$run->cell(%work, link => 'direct', clients => $clients, names => $part->{names});
	}
	$part->count;
	if ($part->{masters})
	{
		my @names = grep { /^one$|masters$/ } @{ $part->{names} };

		$run->at_distance(
			sub {
				$part->move_masters;
				$run->cell(%work, link => '1 ms', clients => 1, names => \@names);
			});
	}
	$part->stop;
	return;
}

sub stop
{
	my ($self) = @_;

	$_->stop('fast') foreach @{ $self->{servers} };
	foreach my $store (@{ $self->{stores} })
	{
		$_->stop foreach $store->can('sentinels') ? $store->sentinels : (), $store->nodes;
	}
	return;
}

sub add_sentinels
{
	my ($self) = @_;
	my $sentinels = LockRedis::Sentinels->new(replicas => 1);

	$self->add_store('sentinels', $sentinels, [ $sentinels->master ], sentinels => ['']);
	return;
}

# Sessions with keys of one node, of three, of five
sub add_cluster
{
	my ($self, $masters) = @_;
	my $cluster = LockRedis::RedisCluster->new(masters => $masters, replicas => 0);
	my @nodes = $cluster->masters;
	my @tags = map { '{' . $cluster->key_on($_, 'pair') . '}' } @nodes;

	$self->add_store("cluster$masters", $cluster, \@nodes,
		map { ("cluster${masters}_$_" => [ @tags[ 0 .. $_ - 1 ] ]) }
		  grep { $_ <= $masters } 1, 3, 5);
	return;
}

# Independent masters, and the libraries that can use several
sub add_masters
{
	my ($self) = @_;
	my $run = $self->{run};
	my $masters = $self->{masters} = LockRedis::Masters->new;
	my @nodes = $masters->nodes;
	my %commands = (redsync => [qw(set evalsha eval)]);

	$self->add_store('masters', $masters, \@nodes, masters => ['']);
	foreach my $peer ($run->here(qw(redisson redsync)))
	{
		my $placed = $self->add_contender("${peer}_masters",
			contender => $run->contender($peer),
			nodes => \@nodes,
			ports => [ map { $_->port } @nodes ],
			commands => $commands{$peer});

		foreach my $clients (1, 16)
		{
			my @work = ($placed, clients => $clients, prefix => 'warm', mode => 'own');

			$run->slice($run->size('warm_up'), [ \@work ]);
		}
	}
	return;
}

# What locks are kept in, and a server that uses it
sub add_store
{
	my ($self, $name, $store, $nodes, %tags) = @_;
	my $server = LockRedis::Node->create(
		$name,
		redis => $store,
		settings => { log_statement => 'none' });

	push @{ $self->{stores} }, $store;
	push @{ $self->{servers} }, $server;
	Bench::Backends->create_functions($server, "$self->{run}{programs}/probe.so");
	wait_for($server, scalar @$nodes);
	$self->add_sessions($server, $nodes, %tags);
	return;
}

# Contenders by name, with the tags of the keys that their sessions use by turns
sub add_sessions
{
	my ($self, $server, $nodes, %tags) = @_;

	foreach my $name (sort keys %tags)
	{
		my $loop = sprintf $statement, join ',', map { qq{"$_"} } @{ $tags{$name} };
		my $backends = Bench::Backends->new(
			kind => $name,
			node => $server,
			pool => "sessions of $name",
			board => $self->{run}{board},
			statement => $loop);

		$self->add_contender($name, contender => $backends, nodes => $nodes);
	}
	return;
}

sub add_contender
{
	my ($self, $name, @opts) = @_;

	push @{ $self->{names} }, $name;
	return $self->{run}{contenders}{$name} = Bench::Placed->new(@opts);
}

# All of so many nodes are used
sub wait_for
{
	my ($server, $nodes) = @_;

	poll_until(
		"$nodes nodes to be used",
		sub {
			$server->value(
				"SELECT count(*) FROM redis_lock_status WHERE role = 'master' AND in_use") == $nodes;
		});
	return;
}

# To where each is 1 ms away
sub move_masters
{
	my ($self) = @_;
	my $run = $self->{run};
	my @ports = map { $run->start_proxy($_->port) } $self->{masters}->nodes;
	my ($server) = grep { $_->name eq 'masters' } @{ $self->{servers} };

	$server->set('lockredis.url' => join ' ', map { "redis://127.0.0.1:$_" } @ports);
	poll_until(
		'the server to reach them there',
		sub {
			$server->value('SELECT count(*) FROM redis_lock_status WHERE in_use AND'
				  . " address ~ ':(" . join('|', @ports) . ")\$'") == @ports;
		});
	foreach my $placed (map { $run->contender($_) } grep { /_masters$/ } @{ $self->{names} })
	{
		$placed->move(@ports);
	}
	return;
}

# System calls of a pair, and connections of a session
sub count
{
	my ($self) = @_;
	my $run = $self->{run};

	foreach my $name (grep { !/_masters$/ } @{ $self->{names} })
	{
		my $contender = $run->contender($name);
		my ($cell) = grep { $_->{contender} eq $name && $_->{clients} == 1 }
		  grep { $_->{part} eq 'topologies' } @{ $run->{result}{cells} };
		my ($done, $pid);
		my @work = ($contender, clients => 1, prefix => "topologies:$name", mode => 'own');

		$contender->choose(1);
		($pid) = $contender->pids;
		my $calls = Bench::Meter::system_calls([$pid],
			sub { ($done) = $run->slice($run->size('trace_slice'), [ \@work ], traced => 1) });
		$cell->{system_calls} = { map { $_ => $calls->{$_} / $done->{steps} } keys %$calls }
		  if $calls && $done->{steps};
		$cell->{connections} = grep { $_->{name} eq "lockredis-session-$pid" }
		  map { $_->clients } $contender->nodes;
	}
	return;
}

1;
