# Copyright (c) 2026, lockredis contributors

# One run of the benchmark: its Redis, its servers, the contenders, and how they
# are put to work side by side.
#
#	slice   some contenders at work at the same time, once
#	cell    contenders one after the other, round by round, and what came of it

package Bench::Run;

use strict;
use warnings FATAL => 'all';

use parent 'Bench::Circumstances';

use Bench::Backends;
use Bench::Board;
use Bench::Histogram;
use Bench::Meter;
use Bench::Peer;
use Bench::Processes;
use Exporter 'import';
use JSON::PP ();
use List::Util qw(max sum);
use LockRedis::Redisson;
use LockRedis::Test;
use POSIX ();
use PostgreSQL::Test::Utils;

our @EXPORT_OK = qw(median);

# In the order in which they are shown.
my @names = qw(bare bare_processes session query xact fenced advisory advisory_xact
  redisson redsync redis_py none);

# Half a millisecond each way
my $proxy_delay_us = 500;

# Takes: report (where progress goes), quick, sizes (how much of what, a hash),
# programs (the directory test/bench), contenders (names; all without).
sub new
{
	my ($class, %opts) = @_;
	my $self = bless {
		%opts,
		started => now(),
		dir => PostgreSQL::Test::Utils::tempdir(),
		missing => {}
	}, $class;

	my $busy = Bench::Meter::busy();
	$self->{board} = Bench::Board->new("$self->{dir}/board");
	$self->{redis} = LockRedis::Redis->new;
	$self->_start_servers;
	$self->{proxy_port} = $self->start_proxy($self->{redis}->port);
	$self->{contenders} = { map { $_->name => $_ } $self->_start_contenders };
	$self->{result} = {
		quick => $self->{quick} ? JSON::PP::true : JSON::PP::false,
		rounds => $self->size('rounds'),
		cells => [],
		missing => $self->{missing},
		versions => $self->_versions,
		busy => $busy,
		cpus => Bench::Meter::processors(),
		cpu_model => Bench::Meter::processor_model()
	};
	$self->{result}{round_trip_us} = $self->round_trip(0);
	return $self;
}

# Two servers: waiting for each other is waiting for somebody elsewhere.
sub _start_servers
{
	my ($self) = @_;
	my %more = (
		near => {
			max_connections => $self->size('waiters') + 100,
			'lockredis.max_locks' => 10_000 + 2 * $self->size('held')->[-1]
		},
		other => {});

	foreach my $name (qw(near other))
	{
		$self->{$name} = LockRedis::Node->create(
			$name,
			redis => $self->{redis},
			settings => { log_statement => 'none', %{ $more{$name} } });
		Bench::Backends->create_functions($self->{$name},
			"$self->{programs}/probe.so");
		$self->{$name}->wait_for_up;
	}
	$self->{can_hand_over} = $self->{near}->value(
		q{SELECT count(*) FROM pg_settings WHERE name = 'lockredis.max_handoffs'}
	);
	return;
}

# Another way to a Redis, half a millisecond longer in each direction, or so many
# microseconds: its port
sub start_proxy
{
	my ($self, $port, $delay_us) = @_;

	pipe(my $in_read, my $in) && pipe(my $out, my $out_write)
	  or die "could not make a pipe: $!";
	my $pid = fork();
	die "could not fork: $!" unless defined $pid;
	if ($pid == 0)
	{
		POSIX::dup2(fileno $in_read, 0);
		POSIX::dup2(fileno $out_write, 1);
		no warnings 'exec';
		exec "$self->{programs}/delay_proxy", $port, $delay_us // $proxy_delay_us;
		POSIX::_exit(127);
	}
	close $_ foreach $in_read, $out_write;
	chomp(my $proxy_port = <$out> // die "delay_proxy did not start\n");
	push @{ $self->{proxies} }, { pid => $pid, stdin => $in };
	return $proxy_port;
}

# Was it asked for, or nothing in particular?
sub wanted
{
	my ($self, $name) = @_;

	return $name ne 'none' unless $self->{wanted};
	return scalar grep { $_ eq $name } @{ $self->{wanted} };
}

sub _start_contenders
{
	my ($self) = @_;
	my @contenders;

	foreach my $kind (qw(session query xact fenced advisory advisory_xact none))
	{
		push @contenders,
		  Bench::Backends->new(
			kind => $kind,
			node => $self->{near},
			board => $self->{board})
		  if $self->wanted($kind);
	}
	my %commands = $self->_peer_commands;
	foreach my $name (grep { $self->wanted($_) } sort keys %commands)
	{
		my ($why_not, @command) = @{ $commands{$name} };

		if (defined $why_not)
		{
			$self->{missing}{$name} = $why_not;
			$self->say('%s is not measured: %s', $name, $why_not);
			next;
		}
		my $class = $name =~ /_processes$/ ? 'Bench::Processes' : 'Bench::Peer';
		push @contenders,
		  $class->new(
			name => $name,
			command => [ @command, $self->{board}->path ],
			environment =>
			  { PYTHONPATH => "$self->{programs}/peers/python/target" },
			log => "$PostgreSQL::Test::Utils::log_path/$name.log");
	}
	return @contenders;
}

# What the programs are run by, after the reason why they cannot be.
sub _peer_commands
{
	my ($self) = @_;
	my $peers = "$self->{programs}/peers";
	my $class_path = eval { LockRedis::Redisson->build };

	return (
		bare => [ undef, "$self->{programs}/bare_hiredis", '-b' ],
		bare_processes => [ undef, "$self->{programs}/bare_hiredis", '-b' ],
		redisson => [
			defined $class_path ? undef : $@,
			'java', '-Dorg.slf4j.simpleLogger.defaultLogLevel=warn',
			'-cp', $class_path, "$peers/java/RedissonPeer.java"
		],
		redsync => [
			-x "$peers/go/target/redsync" ? undef : 'it could not be built',
			"$peers/go/target/redsync"
		],
		redis_py => [
			-d "$peers/python/target/redis"
			? undef
			: 'it could not be installed',
			'python3',
			"$peers/python/redis_py.py"
		]);
}

sub _versions
{
	my ($self) = @_;

	return {
		redis => $self->{redis}->info('server')->{redis_version},
		postgresql => $self->{near}->value('SHOW server_version'),
		hand_over => $self->{can_hand_over} ? JSON::PP::true : JSON::PP::false
	};
}

sub stop
{
	my ($self) = @_;

	foreach my $contender (values %{ $self->{contenders} })
	{
		$contender->stop if $contender->can('stop');
	}
	foreach my $proxy (@{ $self->{proxies} })
	{
		close $proxy->{stdin};
		waitpid $proxy->{pid}, 0;
	}
	$self->{$_}->stop('fast') foreach qw(near other);
	$self->{redis}->stop;
	return;
}

sub say
{
	my ($self, $format, @args) = @_;

	printf { $self->{report} } "%5.0f s  $format\n", now() - $self->{started},
	  @args;
	return;
}

sub size
{
	my ($self, $what) = @_;

	return $self->{sizes}{$what} // die "no such size: $what";
}

sub contender
{
	my ($self, $name) = @_;

	return $self->{contenders}{$name};
}

# Those of the names that take part.
sub here
{
	my ($self, @some) = @_;

	return grep { $self->{contenders}{$_} } @some;
}

# But for two that only tell why a few numbers are what they are.
sub all
{
	my ($self) = @_;

	return grep { !/^(?:bare_processes|query)$/ } $self->here(@names);
}

sub median
{
	my @sorted = sort { $a <=> $b } @_;

	return 0 unless @sorted;
	return ($sorted[ int($#sorted / 2) ] + $sorted[ int(@sorted / 2) ]) / 2;
}

# ---- a slice ----

# Each of the list is [contender, work...]: clients, prefix and mode, if need be
# base, separate, hold and pause (client.h).  Returns what each has done, and
# what that took.  Options: far (over the proxy), traced (be patient).
sub slice
{
	my ($self, $seconds, $list, %opts) = @_;
	my $clients = 0;

	foreach my $entry (@$list)
	{
		my ($contender, %work) = @$entry;

		$contender->choose($work{clients}) if $contender->can('choose');
		$clients += $work{clients};
	}

	# Those that a peer starts later are left out: they do so when warming up.
	my @pids = map { [ $_->[0]->pids ] } @$list;
	my @cpu = map { Bench::Meter::cpu_of(@$_) } @pids;
	my ($placed) = grep { $_->can('nodes') } map { $_->[0] } @$list;
	my @nodes = $placed ? $placed->nodes : $self->{redis};
	my @commands = $placed ? $placed->commands : qw(eval evalsha);
	my $redis_cpu = _growth(sub { Bench::Meter::cpu_of($_[0]->pid) }, @nodes);
	my $calls = _growth(sub { $_[0]->calls(@commands) }, @nodes);
	my $counted = $self->{board}->sum;

	# The last to be told must have heard of it.
	my $start = now() + ($opts{traced} ? 0.3 : 0.02) + 0.001 * $clients;
	foreach my $entry (@$list)
	{
		my ($contender, %work) = @$entry;

		$contender->start(
			port => $opts{far} ? $self->{proxy_port} : $self->{redis}->port,
			base => 0, separate => 0, hold => 0, pause => 0,
			%work,
			start => int($start * 1e9),
			until => int(($start + $seconds) * 1e9));
	}
	my @done = map { _sum_of($_->[0]->finish) } @$list;

	my @redis_cpu = $redis_cpu->();
	my @calls = $calls->();
	$counted = $self->{board}->sum - $counted;
	my $steps = 0;
	$steps += $_->{steps} foreach @done;
	foreach my $i (0 .. $#done)
	{
		my $done = $done[$i];

		$done->{rate} = $done->{pairs} / $seconds;
		$done->{cpu} = Bench::Meter::cpu_of(@{ $pids[$i] }) - $cpu[$i];
		$done->{redis_cpu} = sum(@redis_cpu);
		$done->{busiest_cpu} = max(@redis_cpu);
		$done->{commands} = sum(@calls);
		$done->{calls_of_nodes} = \@calls;
		$done->{lost_updates} = $steps - $counted;
	}
	return @done;
}

# What gives, of each node, how much more a number is then than now
sub _growth
{
	my ($number_of, @nodes) = @_;
	my @before = map { $number_of->($_) } @nodes;

	return sub { return map { $number_of->($nodes[$_]) - $before[$_] } 0 .. $#nodes };
}

# One result of those of all clients
sub _sum_of
{
	my ($results) = @_;
	my %sum = (pairs => 0, steps => 0, errors => 0);
	my @histograms = qw(lock pair wake);

	$sum{$_} = Bench::Histogram->new foreach @histograms;
	foreach my $words (@$results)
	{
		my @words = @$words;

		$sum{$_} += shift @words foreach qw(pairs steps errors);
		$sum{$_}->add_text(shift @words) foreach @histograms;
	}
	return \%sum;
}

# ---- a cell ----

# Work: part, link (direct or 1 ms), clients, mode, seconds, and the names of
# the contenders.  Options: count (commands and system calls too), prepare (code
# that gets the names), label (shown instead of the link).
sub cell
{
	my ($self, %work) = @_;
	my $far = $work{link} ne 'direct';
	my @turns =
	  grep { !$far || $self->contender($_)->at_distance } @{ $work{names} };
	my $run = sub {
		my ($name, $seconds, %how) = @_;
		my @entry = (
			$self->contender($name),
			clients => $work{clients},
			prefix => "$work{part}:$name",
			mode => $work{mode});
		my ($done) = $self->slice($seconds, [ \@entry ], far => $far, %how);

		return $done;
	};
	my %seen;

	$run->($_, 0.1) foreach @turns;
	$work{prepare}->(@turns) if $work{prepare};
	foreach my $round (1 .. $self->size('rounds'))
	{
		# Another goes first each time.
		push @turns, shift @turns;
		foreach my $name (@turns)
		{
			_add($seen{$name} ||= _nothing(), $run->($name, $work{seconds}));
		}
	}

	foreach my $name (grep { $seen{$_} } @{ $work{names} })
	{
		my $cell = _cell_of($seen{$name});

		@$cell{qw(part clients contender)} = (@work{qw(part clients)}, $name);
		$cell->{link} = $work{label} || $work{link};
		$self->_count($cell, $name, $run) if $work{count};
		$self->add_cell($cell);
	}
	return;
}

sub _nothing
{
	return {
		lock => Bench::Histogram->new,
		pair => Bench::Histogram->new,
		rate => [], cpu => [], redis_cpu => [], busiest_cpu => [], calls_of_nodes => [],
		steps => 0, commands => 0, errors => 0, lost_updates => 0
	};
}

sub _add
{
	my ($all, $done) = @_;

	push @{ $all->{rate} }, $done->{rate};
	foreach my $cpu (qw(cpu redis_cpu busiest_cpu))
	{
		push @{ $all->{$cpu} }, 1e6 * $done->{$cpu} / ($done->{steps} || 1);
	}
	$all->{$_} += $done->{$_} foreach qw(steps commands errors lost_updates);
	$all->{calls_of_nodes}[$_] += $done->{calls_of_nodes}[$_] foreach 0 .. $#{ $done->{calls_of_nodes} };
	$all->{$_}->add($done->{$_}) foreach qw(lock pair);
	return;
}

sub _cell_of
{
	my ($all) = @_;

	return {
		rate => $all->{rate},
		cpu_us => $all->{cpu},
		redis_cpu_us => $all->{redis_cpu},
		busiest_cpu_us => $all->{busiest_cpu},
		calls_of_nodes => [ map { $all->{steps} ? $_ / $all->{steps} : 0 } @{ $all->{calls_of_nodes} } ],
		steps => $all->{steps},
		errors => $all->{errors},
		lost_updates => $all->{lost_updates},
		script_calls => $all->{steps} ? $all->{commands} / $all->{steps} : undef,
		lock_us => $all->{lock}->summary,
		pair_us => $all->{pair}->summary
	};
}

# What one pair sends, and asks of the system, in slices of their own
sub _count
{
	my ($self, $cell, $name, $run) = @_;
	my $done;
	my $per_pair = sub {
		my ($count) = @_;
		return { map { $_ => $count->{$_} / $done->{steps} } keys %$count };
	};

	my $commands = Bench::Meter::commands($self->{redis},
		sub { $done = $run->($name, $self->size('monitor_slice')) });
	$cell->{commands} = $per_pair->($commands) if $done->{steps};
	# Tracing many processes takes its time.
	return if $self->{quick} && $cell->{clients} > 1;
	my $calls = Bench::Meter::system_calls(
		[ $self->contender($name)->pids ],
		sub { $done = $run->($name, $self->size('trace_slice'), traced => 1) });
	$cell->{system_calls} = $per_pair->($calls) if $calls && $done->{steps};
	return;
}

sub add_cell
{
	my ($self, $cell) = @_;
	my @rates = sort { $a <=> $b } @{ $cell->{rate} };

	push @{ $self->{result}{cells} }, $cell;
	$self->say(
		'%-12s %-8s %3d clients  %-13s %8.0f pairs/s (%.0f to %.0f)  %s commands%s',
		@$cell{qw(part link clients contender)},
		median(@rates),
		@rates[ 0, -1 ],
		defined $cell->{script_calls}
		? sprintf('%.2f', $cell->{script_calls})
		: '-',
		$cell->{lost_updates} ? "  $cell->{lost_updates} LOST UPDATES" : '');
	return;
}

1;
