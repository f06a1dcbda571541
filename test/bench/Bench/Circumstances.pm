# Copyright (c) 2026, lockredis contributors

# Under which circumstances a run of the benchmark measures: warm, on one processor,
# farther away from Redis.  Part of Bench::Run.

package Bench::Circumstances;

use strict;
use warnings FATAL => 'all';

use Bench::Meter;
use LockRedis::Test;

# Compilers at run time want some time first.
sub warm_up
{
	my ($self) = @_;
	my $redisson = $self->contender('redisson');

	return if !$redisson || $self->{warm}++;
	foreach my $clients (1, 16)
	{
		$self->slice($self->size('warm_up'),
			[ [ $redisson, clients => $clients, prefix => 'warm', mode => 'own' ] ]
		);
	}
	return;
}

# Microseconds of a PING
sub round_trip
{
	my ($self, $far) = @_;
	my $bare = $self->contender('bare') or return undef;

	$bare->send_line(sprintf 'ping %d 300',
		$far ? $self->{proxy_port} : $self->{redis}->port);
	return $bare->read_line(60) / 1000;
}

# Fix processes to one processor, or (undef) to none.
sub pin
{
	my ($self, $cpu, @pids) = @_;
	my $cpus = defined $cpu ? $cpu : '0-' . ($self->{result}{cpus} - 1);

	foreach my $pid (@pids)
	{
		system("taskset -a -p -c $cpus $pid >/dev/null 2>&1") == 0
		  or die "taskset failed\n";
	}
	return;
}

# The same over a round trip that takes longer
sub at_distance
{
	my ($self, $code) = @_;

	$self->move_servers($self->{proxy_port});
	my $cpu = Bench::Meter::cpu_of($self->{proxies}[0]{pid});
	my $begin = now();
	$code->();
	$self->{result}{proxy_cpu_share} =
	  (Bench::Meter::cpu_of($self->{proxies}[0]{pid}) - $cpu) / (now() - $begin);
	$self->move_servers($self->{redis}->port);
	return;
}

# Where the servers have their Redis from then on
sub move_servers
{
	my ($self, $port) = @_;

	foreach my $node (@$self{qw(near other)})
	{
		$node->set('lockredis.url' => "redis://127.0.0.1:$port");
		poll_until(
			'the server to reach Redis where it is now',
			sub {
				$node->value(
					"SELECT count(*) FROM redis_lock_status WHERE state = 'up' AND address LIKE '%$port'"
				) > 0;
			});
	}
	return;
}

1;
