# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::Topic::Waiting - sessions that wait, and the clients that they wait for

=head1 DESCRIPTION

What the tests 012_wait and 015_wait_unheard have in common.
start_servers sets the exported variables.

=cut

package LockRedis::Topic::Waiting;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use LockRedis::Test;

our @EXPORT = qw($lease_ms $soon %settings $redis $proxy $node $far @s $viewer
  start_servers queue_up settled_calls stats connections give_back);

our ($lease_ms, $soon, %settings, $redis, $proxy, $node, $far, @s, $viewer);

sub start_servers
{
	$lease_ms = 600_000;

	# Who is woken has the lock within milliseconds.  Seconds later a waiter may look
	# again for another reason (an alarm of its backend's idle time, left over), so
	# a wake-up that was lost is not to be waited for so long.
	$soon = 4;
	%settings = ('lockredis.lease' => "${lease_ms}ms");
	$redis = LockRedis::Redis->new;
	$proxy = LockRedis::Proxy->new($redis);
	$node = LockRedis::Node->create('main', redis => $redis,
		settings => \%settings);
	$far = LockRedis::Node->create('far', url => $proxy->url,
		settings => \%settings);
	@s = map { $node->session } 1 .. 10;
	$viewer = $node->session;

	$node->wait_for_up;
	$far->wait_for_up;
	return;
}

# Sessions wait for a key of somebody else, one behind the other.  The first one
# asks twice: before and after the key's channel was subscribed.
sub queue_up
{
	my ($key, $sql, @sessions) = @_;

	$redis->after_second_look($key, sub { $sessions[0]->start($sql) });
	foreach my $n (1 .. $#sessions)
	{
		$sessions[$n]->start($sql);
		$node->wait_for_waiters($key, $n + 1);
	}
	return;
}

# How many scripts were called, once that does not change any more: a reply that
# was sent is read then, and who waits sleeps.
sub settled_calls
{
	my ($calls, $since) = (-1, 0);

	poll_until(
		'quiet',
		sub {
			my $now = $redis->script_calls;

			($calls, $since) = ($now, now()) if $now != $calls;
			return now() - $since > 0.2;
		});
	return $calls;
}

sub stats
{
	my %stats;

	@stats{qw(waits timeouts cancels busy acquires)} = @{
		$viewer->query(
			'SELECT waits, timeouts, cancels, busy, acquires
			 FROM redis_lock_stats')->rows->[0]
	};
	return \%stats;
}

# Our connections to Redis, by what they are for
sub connections
{
	my ($role) = @_;
	my @found = grep { $_->{name} =~ /^lockredis-$role-/ } $redis->clients;

	return @found;
}

sub give_back
{
	my ($session, $key) = @_;

	return $session->query_is("SELECT redis_unlock('$key')", 't',
		'and gives it back');
}

1;
