# Copyright (c) 2026, lockredis contributors

# One failover after the other, and what each means to those who hold, wait and
# ask: a lock that the new master has is kept and renewed at once, one that it
# does not have is lost and its holder is told; who waits goes on waiting and gets
# the lock; who asks gets it or is told at once that nobody can be reached.  The
# master is killed, or stands still.
# Proves G36, G38.

use LockRedis::Sentinels;
use LockRedis::Test qw(:DEFAULT quoted);
use LockRedis::Topic::Failover;

my $ha = LockRedis::Sentinels->new;
# However long a failover takes on a busy machine, no lease ends in it.
my $lease_ms = 150_000;
my $node = LockRedis::Node->create('main', redis => $ha, settings => { 'lockredis.lease' => "${lease_ms}ms" });
my ($holder, $waiter, $asker) = map { $node->session } 1 .. 3;
my @sessions = ($holder, $waiter, $asker);

$node->wait_for_up;
$_->query_is("SELECT redis_try_lock('warm'), redis_unlock('warm')", 't|t', 'warm')
  foreach @sessions;

sub failovers { return $node->lock_stat('failovers'); }

# However the master ends: $end does it, $back brings it back.
sub survives ($how, $end, $back)
{
	my $old = $ha->master;
	my @replicas = $ha->replicas;
	my ($kept, $gone) = map { "$how $_" } qw(kept gone);
	my $before = failovers();

	$node->log_since_here;
	$holder->query_is('SELECT redis_lock(' . quoted($kept) . ')', '', "$how: a lock");
	replicated($ha);
	my $owner = $ha->owner_of($kept);
	$node->queue_up($kept, $waiter => 'SELECT redis_lock(' . quoted($kept) . ')');

	$old->outrun_replicas(@replicas);
	$holder->query_is('SELECT redis_lock(' . quoted($gone) . ')',
		'', "$how: a lock that the replicas do not have");
	my $ended = now();
	$end->($old);
	$_->thaw foreach @replicas;

	my $ask = 'SELECT redis_lock(' . quoted("$how asked") . ')';
	$asker->start($ask);
	my $new = $ha->wait_for_master_but($old);
	wait_until_used($node, $new);
	my $asked = $asker->wait;
	# A failover that took longer than a call may
	$asked = $asker->query($ask) if ($asked->sqlstate // '') eq '58000';
	is($asked->error, undef, "$how: who asks in the middle of it gets the lock");
	is($new->owner_of("$how asked"), $asker->value('SELECT redis_lock_owner(' . quoted("$how asked") . ')'),
		"$how: from the new master");

	# Told without being asked, and long before the lease ends
	$node->wait_for_loss($gone);
	$holder->query_is('SELECT redis_is_held(' . quoted($gone) . ')', 'f', "$how: it is lost");
	$holder->query_warns('SELECT redis_unlock(' . quoted($gone) . ')',
		'f', '01000', qr/was lost.*deleted/s, "$how: and its holder is told");
	ok(!$new->cmd('EXISTS', $gone), "$how: nobody has it");

	is($new->owner_of($kept), $owner, "$how: the other one is there");
	$holder->query_is('SELECT redis_is_held(' . quoted($kept) . ')', 't', "$how: and is held");
	my $left = $new->cmd('PTTL', $kept);
	cmp_ok($left, '>=', $lease_ms - 1000 * (now() - $ended), "$how: and was renewed since then");
	ok($waiter->is_running, "$how: who waits for it goes on waiting");
	$holder->query_is('SELECT redis_unlock(' . quoted($kept) . ')', 't', "$how: unlocked");
	is($waiter->wait->error, undef, "$how: then it is his");
	is($new->owner_of($kept), $waiter->value('SELECT redis_lock_owner(' . quoted($kept) . ')'),
		"$how: at the new master");
	$waiter->query_is('SELECT redis_unlock(' . quoted($kept) . ')', 't', "$how: given back");
	$asker->query_is('SELECT redis_unlock_all()', '1', "$how: as is that of who asked");

	cmp_ok(failovers(), '>', $before, "$how: counted");
	my ($from, $to) = map { quotemeta $_->address } $old, $new;
	ok($node->logged(qr/the master of "svc" is now at $to \(was at $from\)/), "$how: logged");
	$back->($old) if $back;
	$ha->wait_until_steady;
	wait_until_used($node, $ha->master);
	nothing_left($node, $ha, name => "$how: nothing is left");
	return;
}

survives('killed', sub { $_[0]->kill9 }, sub { $_[0]->start });
survives('frozen', sub { $_[0]->freeze }, sub { $_[0]->thaw });

# While there is no master: at once without a wait, within the budget with one.
{
	my $old = $ha->master;

	$old->kill9;
	my $failed = $asker->query("SELECT redis_try_lock('no master')");
	like($failed->sqlstate, qr/^58/, 'no master: redis_try_lock says so');
	$failed = $asker->query("SELECT redis_lock('no master')");
	like($failed->sqlstate, qr/^58/, 'no master: redis_lock says so when its budget is used');
	wait_until_used($node, $ha->wait_for_master_but($old));
	$asker->query_is("SELECT redis_try_lock('no master'), redis_unlock('no master')",
		't|t', 'a master again');
	$old->start;
	$ha->wait_until_steady;
}

# A call that waits outlives a master that is away for a moment, each time: what it has been
# waiting for before does not count.  It fails once, at the head of the queue, and is stopped;
# another session of this server gets the lock and has it for longer than a call may take; then
# the master is away once more.  (Given leases are not handed over.)
my $budget = 10;    # what a call may take, of connect_timeout and command_timeout
my $master = $ha->master;

wait_until_used($node, $master);
$node->wait_until_asked($_) foreach $holder, $waiter, $asker;
$node->set('lockredis.connect_timeout' => '7s');

# Gives the lock back while the master is away, until the waiter has failed.
sub away ($has)
{
	$master->freeze;
	$has->query_warns("SELECT redis_unlock('k')", 't', '58030', qr/did not answer/, 'nobody answers');
	my $before = $node->lock_stat('errors');
	poll_until('the waiter to fail', sub { $node->lock_stat('errors') > $before || !$waiter->is_running });
	return;
}

$holder->query("SELECT redis_lock('k', '1 h')");
$node->queue_up('k', $waiter => "SELECT redis_lock('k', '1 h')", $asker => "SELECT redis_lock('k', '1 h')");
away($holder);
ok($waiter->is_running, 'it waits on');
$waiter->freeze;
$master->thaw;
is($asker->wait->error, undef, 'who is behind passes it, and gets the lock');
$waiter->thaw;
pause($budget + 0.5);

away($asker);
$master->thaw;
is($waiter->wait->error, undef, 'away for the second time: it gets the lock');
$_->query_is('SELECT redis_unlock_all()', $_ == $waiter ? '1' : '0', 'given back')
  foreach $holder, $waiter, $asker;

# The view has the replicas of the present master, behind it.
poll_until('all to be up', sub {
	$node->value("SELECT string_agg(role, ' ' ORDER BY node) FROM redis_lock_status WHERE up") eq
	  'master replica replica sentinel sentinel sentinel';
});
is($node->value("SELECT string_agg(address, ' ' ORDER BY address) FROM redis_lock_status WHERE role = 'replica'"),
	join(' ', sort map { $_->address } $ha->replicas), 'where the replicas are');

end_test($node, $ha);
