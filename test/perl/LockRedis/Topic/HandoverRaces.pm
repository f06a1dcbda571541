# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::Topic::HandoverRaces - what the tests of hand-over races have in common

=head1 SYNOPSIS

  use LockRedis::Topic::HandoverRaces;
  use LockRedis::Test;

  start_servers();
  my ($one, $two, $three) = sessions(3);
  ...
  hand_to_stopped('key', $one, $two);        # two has it, and does not know
  let_watch;                                 # the watchdog goes on
  got($two, 'key', 'two has it');
  rest_in_order('key', $two, $three);
  end_of('name', $one, $two, $three);

=head1 DESCRIPTION

start_servers makes a Redis ($redis) behind a proxy ($proxy) and a server of it ($node), whose
requests may be held for a minute.

=cut

package LockRedis::Topic::HandoverRaces;

use LockRedis::Pragmas;

use Exporter 'import';
use LockRedis::Test qw(:DEFAULT run);

our @EXPORT = qw($redis $proxy $node start_servers sessions end_of hand_to_stopped let_watch
  granted got rest_in_order);

our ($redis, $proxy, $node);
my $counters = qr/^redisson_lock_token:/;

sub start_servers
{
	($node, $redis, $proxy) = LockRedis::Node->create_behind_proxy(
		'main',
		settings => {
			'lockredis.lease' => '10min',
			'lockredis.connect_timeout' => '30s',
			'lockredis.command_timeout' => '60s'
		});
	return;
}

# Sessions that have a connection, on a Redis that knows the scripts.
sub sessions ($count, %settings)
{
	my @sessions = map { $node->session(settings => \%settings) } 1 .. $count;

	run($_,
		"SELECT redis_lock('warm'), redis_fenced_lock('warm'), redis_unlock_all()"
	) foreach @sessions;
	return @sessions;
}

sub end_of ($name, @sessions)
{
	$_->quit foreach @sessions;
	return nothing_left($node, $redis, keys => $counters, name => "$name: nothing is left");
}

# From one to two, which is stopped.  On return two has been handed the lock and
# does not know; it stays so until the watchdog, which would take it back after a
# second, goes on as well.
my $watchdog;

sub hand_to_stopped ($key, $one, $two)
{
	$watchdog = $node->watchdog_pid;
	kill 'STOP', $watchdog;
	$two->freeze;
	my $owner = $redis->owner_of($key);
	run($one, "SELECT redis_unlock('$key')");
	is($redis->owner_of($key), $owner, "$key: handed over, Redis does not hear of it");
	return $owner;
}

sub let_watch { return kill 'CONT', $watchdog; }

sub granted ($key)
{
	return $node->value(
		"SELECT coalesce(string_agg(pid::text, ' '), 'nobody') FROM redis_locks WHERE granted AND key = '$key'"
	);
}

# s is told that it has the lock, and is the only one.
sub got ($s, $key, $name)
{
	my $result = $s->wait(limit(15));

	return is(defined $result->error ? $result->{raw} : granted($key), $s->pid,
		$name);
}

# The others, each in its turn.
sub rest_in_order ($key, $holder, @rest)
{
	foreach my $next (@rest)
	{
		is(scalar(grep { $_->is_running } @rest),
			scalar @rest, "$key: the rest waits");
		run($holder, "SELECT redis_unlock('$key')");
		got($next, $key, "$key: then the next one has it");
		$holder = shift @rest;
	}
	run($holder, "SELECT redis_unlock('$key')");
	return;
}

1;
