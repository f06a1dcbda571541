# Copyright (c) 2026, lockredis contributors

# Three independent masters, and lockredis.lease that is lowered under locks that were
# taken before:
#
#   A: has the lock for an hour, at 1 and 2
#   all: the lease is 0.1 s from now on
#   2: is started again, empty
#   B: asks 2 and 3, later than 0.1 s, and while 1 is not there
#
# - B does not get it, also if its watchdog was started again just then, and if the lease
#   was changed several times
# - the former lease counts for as long as a lock may have it, not for as long as a node runs
# - the control: a server of PostgreSQL that was started again knows nothing of it
# - a lock keeps the lease that it was taken with: as long as it is renewed that counts,
#   and so does one that was extended
#
# Proves G47.

use strict;
use warnings FATAL => 'all';

use LockRedis::Masters;
use LockRedis::Test;
use LockRedis::Wait qw(now pause);

use constant PAUSE => 10;

my $masters = LockRedis::Masters->new(n => 3);
my @nodes = $masters->nodes;
my %settings = (
	'lockredis.lease' => '1h',
	'lockredis.connect_timeout' => '3s',
	'lockredis.command_timeout' => '3s');
my ($first, $second) =
  map { LockRedis::Node->create($_, redis => $masters, settings => {%settings}) } qw(first second);

sub rows
{
	my ($server, $where) = @_;

	return $server->value("SELECT count(*) FROM redis_lock_status WHERE role = 'master' AND $where");
}

sub wait_for_masters
{
	my ($server, $n) = @_;

	poll_until("$n masters to be up", sub { rows($server, q{state = 'up'}) == $n });
	return;
}

# Its watchdog goes by the settings that there are now: it was started since.
sub restart_watchdog
{
	my ($server, $node) = @_;
	my $before = $server->watchdog_pid;

	kill TERM => $before;
	poll_until(
		'another watchdog to ask',
		sub {
			my $pid = $server->watchdog_pid;

			return $pid && $pid != $before &&
			  grep { $_->{name} eq "lockredis-probe-$pid" } $node->clients;
		});
	return;
}

# Seconds since the second one was started, and until it has a vote
sub since_and_until
{
	my ($server) = @_;
	my @found;

	poll_until('its row to say when it votes',
		sub {
			@found = ($server->value('SELECT reason FROM redis_lock_status WHERE node = 2') // '') =~
			  /^restarted (\d+) s ago, votes in (\d+) s$/;
			return @found == 2;
		});
	return @found;
}

my ($one, $two) = map { $_->session } $first, $second;

# The masters may be there before the connections to them are.
sub wait_for_lock
{
	my ($key) = @_;

	poll_until("B to have $key",
		sub { ($two->query("SELECT redis_try_lock('$key')")->value // '') eq 't' });
	return;
}

# ---- a lock that was taken before

wait_for_masters($_, 3) foreach $first, $second;
$nodes[2]->stop;
wait_for_masters($_, 2) foreach $first, $second;
$one->query_is("SELECT redis_try_lock('k')", 't', 'A has the lock, at 1 and 2');

my $watchdog = $first->watchdog_pid;
kill STOP => $watchdog;
foreach my $lease ('10min', '20min', '100ms')
{
	$second->set('lockredis.lease' => $lease);
	restart_watchdog($second, $nodes[0]);
}

# Longer than a call may have been under way
pause(PAUSE);
$masters->restart_empty(1);
$masters->restart_old(2);
wait_for_masters($second, 3);
$nodes[0]->stop;
wait_for_masters($second, 2);

# Longer than the lease that is set, and the second by which a node tells its age
pause(3);
$two->query_fails("SELECT redis_try_lock('k')", '08006',
	qr/Master 2: It has no vote, since it was started lately/, 'B does not get it from 2 and 3');

{
	my ($since, $until) = since_and_until($second);

	cmp_ok($since + $until, '>', 1000, 'a node has no vote for the former lease');
	cmp_ok($since + $until, '<=', 3600 * 1.01 + 3 + 6 - PAUSE, 'as long as locks may have it');
}
$one->query_is("SELECT redis_is_held('k')", 't', 'while A has it');

# ---- the control

$two->quit;
$second->restart;
$two = $second->session;
wait_for_masters($second, 2);
wait_for_lock('k');
$one->query_is("SELECT redis_is_held('k')", 't',
	'a server that was started since gives it to B, and A has it');

# ---- locks that are extended, and renewed

$two->query_is("SELECT redis_unlock('k')", 't', 'B gives it back');
$second->set('lockredis.lease' => '2s');
$masters->reset;
wait_for_masters($second, 3);
$two->query_is("SELECT redis_try_lock('e'), redis_extend('e', '1h'), redis_unlock('e')",
	't|t|t', 'extended');
$masters->restart_empty(1);
cmp_ok((since_and_until($second))[1], '>', 1000, 'a node has no vote for the longest lease');

$two->quit;
$second->restart;
$two = $second->session;
foreach my $attempt (1 .. 5)
{
	my $began;
	my $held;

	$second->set('lockredis.lease' => '6s', 'lockredis.connect_timeout' => '500ms',
		'lockredis.command_timeout' => '500ms');
	$masters->reset;
	wait_for_masters($second, 3);
	$two->query("SELECT redis_unlock_all()");
	wait_for_lock('r');
	$second->set('lockredis.lease' => '100ms');
	pause(6 * 1.01 + 1 + 6);
	$began = now();
	$masters->restart_empty(1);
	wait_for_masters($second, 3);
	$held = $two->value("SELECT redis_is_held('r')");
	if ($held ne 't')
	{
		note 'too slow to keep a lock for 6 s';
		next if $attempt < 5;
	}
	poll_until('a vote', sub { rows($second, 'in_use') == 3 });
	is($held, 't', 'a lock is renewed');
	cmp_ok(now() - $began, '>=', 6, 'and has the lease that it was taken with');
	last;
}
$two->query_is('SELECT redis_unlock_all()', 1, 'and is given back');

$masters->reset;
kill CONT => $watchdog;
$_->quit foreach $one, $two;
nothing_left([ $first, $second ], $masters);
done_testing();
