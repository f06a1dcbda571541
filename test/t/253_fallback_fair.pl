# Copyright (c) 2026, lockredis contributors

# Fair locks in fallback mode: who waits for one stands in the queue of the server while the
# table is in use, in the order of the places and with plain locks, and takes his place in
# Redis again in that order; what he had there before is given back; one that stands still
# holds up nobody; a lock that is held goes along, past those who queue in Redis.
# Proves G1, G5, G26.

use strict;
use warnings FATAL => 'all';

use LockRedis::Test qw(:DEFAULT owner_in);
use LockRedis::Wait qw(limit);

# Leases that no stop of the machine uses up, and places that end by nothing but what is to
# be tested.
my ($node, $redis, $proxy, $table) = LockRedis::Node->create_fallback('main',
	settings => { 'lockredis.lease' => '60s', 'lockredis.wait_lease' => '1h' });
my @sessions = map { $node->session } 1 .. 7;
my ($holder, @waiting) = @sessions;
my $soon = limit(60);

sub queue
{
	my ($key) = @_;

	return @{ $redis->cmd('LRANGE', "redisson_lock_queue:{$key}", 0, -1) };
}

sub wait_fairly
{
	my ($session, $key) = @_;
	my $n = queue($key);

	$session->start("SELECT redis_fair_lock('$key')");
	poll_until('its place', sub { queue($key) > $n });
	return;
}

sub wait_for_row
{
	my ($key, $owner) = @_;

	return poll_until("$key to belong to $owner in the table",
		sub { owner_in($table->hash($key)) eq $owner });
}

# All who wait for the key are in one queue, behind who has it.
sub wait_for_queue
{
	my ($key, $n) = @_;

	return poll_until("$n to queue for $key",
		sub { $node->count_locks("key = '$key' AND cardinality(blocked_by) = $n") == 1 });
}

# It passes over who does not run for a second, as may be on a machine that is busy.
sub signal_watchdog
{
	my ($signal) = @_;

	kill $signal, $node->watchdog_pid or die "could not signal the watchdog: $!";
	return;
}

sub have_it_in_turn
{
	my ($key, @all) = @_;

	while (my $next = shift @all)
	{
		is($next->wait($soon)->error, undef, "$key: the next one");
		is((scalar grep { $_->is_running } @all), scalar @all, "$key: and nobody else");
		$next->query_is("SELECT redis_unlock('$key')", 't', "$key: and back");
	}
	return;
}

#
# To the table: in the order of the places, plain locks among them.
#
$holder->query("SELECT redis_fair_lock('a')");
wait_fairly($waiting[0], 'a');
$waiting[1]->start("SELECT redis_lock('a')");
poll_until('it to wait', sub { $node->count_locks("key = 'a' AND NOT granted") == 2 });
wait_fairly($waiting[2], 'a');
$waiting[3]->start("SELECT redis_lock('a')");
poll_until('it to wait', sub { $node->count_locks("key = 'a' AND NOT granted") == 4 });
my $owner = owner_in($redis->hash('a'));
$node->cut_off($proxy);
wait_for_row('a', $owner);
wait_for_queue('a', 4);
signal_watchdog('STOP');
$holder->query_is("SELECT redis_unlock('a')", 't', 'given back in the table');
have_it_in_turn('a', @waiting[ 0 .. 3 ]);
signal_watchdog('CONT');
$waiting[4]->query_is("SELECT redis_try_fair_lock('a')", 't', 'one that comes then');
$node->queue_up('a',
	$waiting[0] => "SELECT redis_fair_lock('a')",
	$waiting[1] => "SELECT redis_try_fair_lock('a', '1h')");
$waiting[4]->query_is("SELECT redis_unlock('a')", 't');

# Either may be the first, on a machine that is busy.
my @both = @waiting[ 0, 1 ];
while (@both)
{
	my ($next) = poll_until('the next one', sub { (grep { !$_->is_running } @both)[0] }, 60);

	is($next->wait($soon)->error, undef, 'a: the next one of those who came then');
	$next->query_is("SELECT redis_unlock('a')", 't', 'a: and back');
	@both = grep { $_ != $next } @both;
}
$node->reconnect($proxy);
poll_until('the places of before to be given back', sub { !queue('a') });

#
# And back: each takes his place after the one before him.  Who does not run for a second
# lets the others go first by right: then once more.
#
my $kept = 0;
for (my $round = 1; $round <= 5 && !$kept; $round++)
{
	my $key = "b$round";
	my @order;

	$holder->query("SELECT redis_fair_lock('$key')");
	$owner = owner_in($redis->hash($key));
	$node->cut_off($proxy);
	wait_for_row($key, $owner);
	$node->queue_up($key, map { $_ => "SELECT redis_fair_lock('$key')" } @waiting);
	$node->reconnect($proxy);
	poll_until('all to have a place', sub { queue($key) == @waiting });
	is(scalar(grep { !$_->is_running } @waiting), 0, 'all wait');
	my @places = queue($key);
	$holder->query_is("SELECT redis_unlock('$key')", 't');
	while (@order < @waiting)
	{
		my ($next) = poll_until('the next one', sub {
			(grep { my $s = $_; !$s->is_running && !grep { $_ == $s } @order } @waiting)[0] }, 60);

		is($next->wait($soon)->error, undef, 'the next one');
		push @order, $next;
		$next->query_is("SELECT redis_unlock('$key')", 't');
	}
	$kept = "@order" eq "@waiting";
}
ok($kept, 'in the order in which they waited in the table');

# One of them stands still: the others wait for it for a second, and it comes last.
$holder->query("SELECT redis_fair_lock('c')");
$owner = owner_in($redis->hash('c'));
$node->cut_off($proxy);
wait_for_row('c', $owner);
$node->queue_up('c', map { $_ => "SELECT redis_fair_lock('c')" } @waiting[ 0 .. 2 ]);
$waiting[0]->freeze;
$node->reconnect($proxy);
poll_until('places of the others', sub { queue('c') == 2 });
$waiting[0]->thaw;
poll_until('its place', sub { queue('c') == 3 });
$holder->query_is("SELECT redis_unlock('c')", 't');
foreach my $left (reverse 0 .. 2)
{
	my $next = poll_until('the next one', sub { (grep { !$_->is_running } @waiting[ 0 .. $left ])[0] });

	last if $next == $waiting[0] && $left > 0;	# the others had lost their places, by right
	is($next->wait($soon)->error, undef, 'one of them');
	$next->query_is("SELECT redis_unlock('c')", 't');
	@waiting[ 0 .. $left ] = ((grep { $_ != $next } @waiting[ 0 .. $left ]), $next);
}
foreach my $session (grep { $_->is_running || $node->count_locks("key = 'c'") } @waiting[ 0 .. 2 ])
{
	is($session->wait($soon)->error, undef, 'one that is left');
	$session->query_is("SELECT redis_unlock('c')", 't');
}

# One that waits gives up, in the table: nothing of it is in Redis.
$holder->query("SELECT redis_fair_lock('d')");
wait_fairly($waiting[0], 'd');
wait_fairly($waiting[1], 'd');
$owner = owner_in($redis->hash('d'));
$node->cut_off($proxy);
wait_for_row('d', $owner);
$waiting[0]->cancel;
$waiting[0]->wait($soon)->fails('57014', qr/cancel/, 'cancelled');
$node->reconnect($proxy);
poll_until('one place', sub { queue('d') == 1 });
$holder->query_is("SELECT redis_unlock('d')", 't');
is($waiting[1]->wait($soon)->error, undef, 'of the other one');
$waiting[1]->query_is("SELECT redis_unlock('d')", 't');

# A lock that is held comes back although somebody stands in the queue there.
$holder->query("SELECT redis_fair_lock('e'), redis_fair_lock('e')");
$owner = owner_in($redis->hash('e'));
$node->cut_off($proxy);
wait_for_row('e', $owner);
$redis->cmd('DEL', 'e');
$redis->cmd('RPUSH', 'redisson_lock_queue:{e}', 'somebody:1');
$redis->cmd('ZADD', 'redisson_lock_timeout:{e}', 9_999_999_999_999, 'somebody:1');
$node->reconnect($proxy);
poll_until('it to be in Redis', sub { owner_in($redis->hash('e')) eq $owner });
poll_until('and not in the table', sub { !$table->all_keys });
$holder->query_is("SELECT redis_hold_count('e', 'fair'), redis_unlock('e'), redis_unlock('e')",
	'2|t|t', 'held all the time');
is(join(' ', queue('e')), 'somebody:1', 'the queue is as it was');
$redis->cmd('DEL', 'redisson_lock_queue:{e}', 'redisson_lock_timeout:{e}');

$_->quit foreach @sessions;
is($node->lock_stat('losses'), 0, 'nothing was lost');
nothing_left($node, $redis);
done_testing();
