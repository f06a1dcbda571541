# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::Leftovers - after a test nothing is left

=head1 SYNOPSIS

  my $before = descriptors($session, $other, $node);  # open descriptors
  ...
  nothing_left($node, $redis);
  nothing_left([ $node_a, $node_b ], $redis, name => 'after a cancel',
      keys => qr/^redisson_lock_token:/,     # keys that may stay
      clients => 3,                          # exactly so many connections,
                                             # or qr//: none with such a name
      descriptors => $before);
  end_test($node, $redis);         # the last line: after the end of all sessions

=head1 DESCRIPTION

One TAP test a call.  Within a minute: no key in Redis, no row in redis_locks
on any node, no subscribed channel, no more connections than one a session and
two for each watchdog (a third one if there is one for what replicas have to
confirm), descriptors as before.  What is still there is shown, with whose it is.
Sessions that only look (psql without a lock function) have no connection.

=cut

package LockRedis::Leftovers;

use LockRedis::Pragmas;

use Exporter 'import';
use LockRedis::Session;
use LockRedis::Wait qw(poll_until);
use Test::More;

our @EXPORT = qw(nothing_left end_test descriptors);

# Open descriptors of sessions and of nodes' watchdogs, by process id.
sub descriptors
{
	my %open;

	foreach my $thing (@_)
	{
		my $pid =
			$thing->isa('LockRedis::Node')
		  ? $thing->watchdog_pid
		  : $thing->pid;
		$open{$pid} = LockRedis::Session::descriptors_of($pid);
	}
	return \%open;
}

sub nothing_left ($nodes, $redis, %opts)
{
	my @left;

	$nodes = [$nodes] unless ref $nodes eq 'ARRAY';
	eval {
		poll_until(
			'everything to be gone',
			sub {
				@left = _what_is_left($nodes, $redis, %opts);
				return !@left;
			},
			60);
	};
	push @left, $@ if $@ && $@ !~ /^gave up/;
	return ok(!@left, $opts{name} || 'nothing is left')
	  || diag join "\n", 'still there:', @left;
}

sub end_test (@what)
{
	LockRedis::Session::quit_all();
	nothing_left(@what);
	return done_testing();
}

# Whose a lock is that is left, and for how long; of several masters, at which of them
sub _lock_at ($redis, $key)
{
	my @at = $redis->isa('LockRedis::Masters') ? grep { $_->pid } $redis->nodes : $redis;

	return join ' ', map {
		my $ms = $_->cmd('PTTL', $key);

		$ms == -2 ? () : ($_->{name} // '', join(' ', %{ $_->hash($key) }), "$ms ms")
	} @at;
}

# Who they are; a subscriber by how many channels it has
sub _lines_of (@clients)
{
	return map { "  $_->{name} $_->{addr} age=$_->{age} sub=$_->{sub} cmd=$_->{cmd}" } @clients;
}

sub _what_is_left ($nodes, $redis, %opts)
{
	my @left;
	my $allowed = 0;

	foreach my $node (@$nodes)
	{
		# A session counts itself: the one that asks has no connection.
		my $backends = $node->value(
			q{SELECT count(*) - 1 FROM pg_stat_activity WHERE backend_type = 'client backend'});
		my $rows = $node->value('SELECT l FROM redis_locks l');

		$allowed += $backends + 2;
		push @left, 'redis_locks of ' . $node->name . ": $rows" if $rows ne '';
	}

	foreach my $key ($redis->all_keys)
	{
		push @left, "key $key " . (eval { _lock_at($redis, $key) } // '')
		  unless $opts{keys} && $key =~ $opts{keys};
	}
	my @channels = $redis->channels;
	my @clients = $redis->clients;

	push @left, "channel $_" foreach @channels;
	push @left, _lines_of(@clients) if @channels;
	$allowed += grep { $_->{name} =~ /^lockredis-watchdog-replicas-/ } @clients;
	if (ref $opts{clients})
	{
		push @left, _lines_of(grep { $_->{name} =~ $opts{clients} } @clients);
	}
	elsif (defined $opts{clients} ? @clients != $opts{clients} : @clients > $allowed)
	{
		push @left, scalar(@clients) . ' connections, wanted '
		  . (defined $opts{clients} ? $opts{clients} : "at most $allowed");
		push @left, _lines_of(@clients);
	}

	my $before = $opts{descriptors} || {};
	foreach my $pid (sort keys %$before)
	{
		my $now = LockRedis::Session::descriptors_of($pid);
		push @left, "process $pid has $now descriptors, had $before->{$pid}"
		  if $now != $before->{$pid};
	}
	return @left;
}

1;
