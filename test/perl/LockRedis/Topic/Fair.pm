# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::Topic::Fair - what the tests of fair locks begin with

=head1 DESCRIPTION

=over

=item start_servers([%settings])

Two servers with one Redis: C<$near> behind C<$proxy>, C<$far>, C<$redis>.  Each session that
waits has a place in the store, also beside those of its server, unless the settings say
otherwise.

=item patient_session($node)

One whose place counts for so long, and whose locks have such leases, that a message that
got lost is never made good for while a test waits.

=item queue($key)

The owners that stand in the queue, the first one first.

=item wait_fairly($session, $key [, $sql])

It waits for the fair lock, what is told to its place arrives, and it has asked once more,
as it does when it is subscribed; returns its place.

=item wait_here($session, $key)

It waits for the fair lock that a session of C<$near> has, and was answered that nobody
elsewhere does: it has no place.

=item freeze_asleep($session)

Stops one of C<$near> while it sleeps: see LockRedis::Node.

=item gets_it($session, $key, $name)

A session that waits has the lock soon, and gives it back.

=item each_in_turn($key, $name, [$session, $place], ...)

They wait in the order of their places: each has the lock and gives it back, and nobody
is passed over who stands in the queue.  Who is told that it is its turn and does not run
for a second has lost its place by right, and comes later.

=item order_kept($key, @contenders)

Each begins when the one before stands in the queue, and has the lock in that order.
Contenders are hashes of functions: begin, which is passed the key, is_done, and unlock.
Who is told that it is its turn and does not run for a second has lost its place by
right: a round in which that happened, on a machine that is busy, says nothing and is
made again, with another key.

=back

=cut

package LockRedis::Topic::Fair;

use LockRedis::Pragmas;

use Exporter 'import';
use LockRedis::Test;
use LockRedis::Wait qw(limit);

our @EXPORT = qw($near $far $proxy $redis start_servers patient_session queue wait_fairly wait_here
  freeze_asleep gets_it each_in_turn of_ours order_kept);
our ($near, $far, $proxy, $redis);

sub start_servers
{
	my %settings = ('lockredis.max_handoffs' => 0, @_);

	$redis = LockRedis::Redis->new;
	$proxy = LockRedis::Proxy->new($redis);
	$near = LockRedis::Node->create('near', url => $proxy->url, redis => $redis,
		settings => \%settings);
	$far = LockRedis::Node->create('far', redis => $redis, settings => \%settings);
	$_->wait_for_up foreach $near, $far;
	return;
}

sub patient_session ($node)
{
	return $node->session(
		settings => { 'lockredis.wait_lease' => '1h', 'lockredis.lease' => '1h' });
}

sub queue ($key) { return @{ $redis->cmd('LRANGE', "redisson_lock_queue:{$key}", 0, -1) }; }

sub wait_fairly ($session, $key, $sql = undef)
{
	my %before = map { $_ => 1 } queue($key);
	my $calls = $redis->script_calls;
	my $place;

	$session->start($sql // "SELECT redis_fair_lock('$key')");
	poll_until('its place', sub { ($place) = grep { !$before{$_} } queue($key); $place });
	poll_until('its channel',
		sub { $redis->subscribers("redisson_lock__channel:{$key}:$place") });
	poll_until('it to ask once more', sub { $redis->script_calls >= $calls + 2 });
	return $place;
}

sub wait_here ($session, $key)
{
	my $waits = $near->lock_stat('waits');

	$session->start("SELECT redis_fair_lock('$key')");
	poll_until('it to be asleep', sub { $near->lock_stat('waits') > $waits });
	return;
}

sub freeze_asleep ($session) { return $near->freeze_asleep($session); }

sub gets_it ($session, $key, $name)
{
	is($session->wait(limit(60))->error, undef, $name);
	$session->query_is("SELECT redis_unlock('$key')", 't', "$name: and back");
	return;
}

sub each_in_turn ($key, $name, @waiting)
{
	while (@waiting)
	{
		my ($i) = poll_until('somebody to have it',
			sub { my ($n) = grep { !$waiting[$_][0]->is_running } 0 .. $#waiting;
				defined $n ? "$n " : 0 }, 60) =~ /(\d+)/;
		my %stands = map { $_ => 1 } queue($key);
		my @passed = grep { $stands{$_} } map { $_->[1] } @waiting[ 0 .. $i - 1 ];
		my ($session) = @{ splice @waiting, $i, 1 };

		is("@passed", '', "$name: nobody is passed over");
		gets_it($session, $key, $name);
	}
	return;
}

sub of_ours ($session)
{
	return {
		begin => sub { $session->start("SELECT redis_fair_lock('$_[0]')") },
		is_done => sub { !$session->is_running },
		unlock => sub {
			my ($key) = @_;

			die 'an error' if defined $session->wait(limit(60))->error;
			die 'lost' if $session->value("SELECT redis_unlock('$key')") ne 't';
		} };
}

# Who has it now, if that is not the one who has given it back.
sub _holder ($key) { return (keys %{ $redis->hash($key) })[0]; }

# True: in order; false: not, and with a reason; dies if without.
sub _round ($key, @all)
{
	my @places;
	my %waits = map { $_ => 1 } 0 .. $#all;
	my $kept = 1;

	foreach my $one (@all)
	{
		my %before = map { $_ => 1 } @places, queue($key);
		my $place;

		$one->{begin}->($key);
		poll_until('its place',
			sub { ($place) = grep { !$before{$_} } queue($key), _holder($key) // (); $place });
		push @places, $place;
	}
	while (%waits)
	{
		my ($i) = poll_until('somebody to have it',
			sub { my ($done) = grep { $all[$_]->{is_done}->() } sort { $a <=> $b } keys %waits;
				defined $done ? "$done " : 0 }, 60) =~ /(\d+)/;
		my ($next) = sort { $a <=> $b } keys %waits;

		if ($kept && ($i != $next || _holder($key) ne $places[$i]))
		{
			die "number $i has it, and number $next still waits at its place"
			  if grep { $_ eq $places[$next] } queue($key);
			$kept = 0;
		}
		delete $waits{$i};
		$all[$i]->{unlock}->($key);
	}
	return $kept;
}

sub order_kept ($key, @all)
{
	foreach my $round (1 .. 10)
	{
		my $kept = eval { _round("$key $round", @all) };

		return ok(0, "$key: in order") || diag $@ if !defined $kept;
		return ok(1, "$key: in order") if $kept;
		note "round $round: somebody did not run for a second";
	}
	return ok(0, "$key: a round in which all ran");
}

1;
