# Copyright (c) 2026, lockredis contributors

# A call that waits outlives a master that is away for a moment, each time: what it
# has been waiting for before does not count.  It fails once, at the head of the
# queue, and is stopped; another session of this server gets the lock and has it for
# longer than a call may take; then the master is away once more.  (Given leases are
# not handed over.)
#
# Proves G38.

use LockRedis::Sentinels;
use LockRedis::Test qw(:DEFAULT run);
use LockRedis::Topic::Failover;

my $ha = LockRedis::Sentinels->new;
my $node = LockRedis::Node->create('main', redis => $ha, settings => { 'lockredis.connect_timeout' => '7s' });
my ($holder, $waiter, $other) = map { $node->session } 1 .. 3;
my $master = $ha->master;

# What a call may take, of connect_timeout and command_timeout
my $budget = 10;

$node->wait_for_up;
run($_, "SELECT redis_try_lock('warm'), redis_unlock('warm')") foreach $holder, $waiter, $other;

sub errors { return $node->lock_stat('errors'); }

# Gives the lock back while the master is away, until the waiter has failed.
sub away
{
	my ($has) = @_;

	$master->freeze;
	$has->query_warns("SELECT redis_unlock('k')", 't', '58030', qr/did not answer/, 'nobody answers');
	my $before = errors();
	poll_until('the waiter to fail', sub { errors() > $before || !$waiter->is_running });
	return;
}

run($holder, "SELECT redis_lock('k', '1 h')");
$node->queue_up('k', $waiter => "SELECT redis_lock('k', '1 h')", $other => "SELECT redis_lock('k', '1 h')");
away($holder);
ok($waiter->is_running, 'it waits on');
$waiter->freeze;
$master->thaw;
is($other->wait->error, undef, 'who is behind passes it, and gets the lock');
$waiter->thaw;
pause($budget + 0.5);

away($other);
$master->thaw;
is($waiter->wait->error, undef, 'away for the second time: it gets the lock');
$_->query_is('SELECT redis_unlock_all()', $_ == $waiter ? '1' : '0', 'given back')
  foreach $holder, $waiter, $other;

end_test($node, $ha);
