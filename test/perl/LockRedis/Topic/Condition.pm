# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::Topic::Condition - what the tests of conditions begin with

=head1 DESCRIPTION

=over

=item start_servers()

Two servers with one Redis: C<$near> behind C<$proxy>, C<$far>, C<$redis>.

=item patient($node)

A session whose waits and locks have such leases that nothing that got lost is made good for
while a test waits.

=item waiting($key [, $condition])

The owners that wait, the first one first.

=item condition_key($what, $key [, $condition])

The key of those that are "waiting" or "told", or of the times until which they are "alive".

=item told($session)

What redis_condition_wait returned to it.


=item await($session, $key [, $condition [, $wait]])

It has the lock, and waits for the condition, and the notification arrives; returns its owner
there.

=back

=cut

package LockRedis::Topic::Condition;

use LockRedis::Pragmas;

use Digest::SHA qw(sha1_hex);
use Exporter 'import';
use LockRedis::Test;
use LockRedis::Wait qw(limit);

our @EXPORT = qw($near $far $proxy $redis start_servers patient condition_key waiting await told);
our ($near, $far, $proxy, $redis);

sub start_servers
{
	$redis = LockRedis::Redis->new;
	$proxy = LockRedis::Proxy->new($redis);
	$near = LockRedis::Node->create('near', url => $proxy->url, redis => $redis, patient => 1);
	$far = LockRedis::Node->create('far', redis => $redis, patient => 1);
	$_->wait_for_up foreach $near, $far;
	return;
}

sub patient ($node)
{
	return $node->session(
		settings => { 'lockredis.wait_lease' => '1h', 'lockredis.lease' => '1h' });
}

sub condition_key ($what, $key, $condition = undef)
{
	return "lockredis_condition_$what:{$key}:" . sha1_hex($condition // '');
}

sub waiting ($key, $condition = undef)
{
	return @{ $redis->cmd('LRANGE', condition_key('waiting', $key, $condition), 0, -1) };
}

sub await ($session, $key, $condition = undef, $wait = undef)
{
	my %before = map { $_ => 1 } waiting($key, $condition);
	my $waiter;

	$condition //= '';
	$wait = defined $wait ? "'$wait'" : 'NULL';
	$session->start("SELECT redis_condition_wait('$key', $wait, '$condition')");
	poll_until('its wait',
		sub { ($waiter) = grep { !$before{$_} } waiting($key, $condition); $waiter });
	poll_until('its channel',
		sub { $redis->subscribers("lockredis_condition__channel:{$key}:$waiter") });
	return $waiter;
}

sub told ($session) { return $session->wait(limit(60))->value; }

1;
