# Copyright (c) 2026, lockredis contributors

# Three independent masters.  Two are free of a lock that its session has given back, which
# is enough for it; what the third has is given back by the watchdog as soon as that can be
# reached, long before the lease ends.  In the end it is forgotten: it has run out there.
#
#   session: has the lock at 1, 2, 3
#   node 3: ends the connection, and takes no other
#   session: release to 1, 2; to 3 it cannot be sent.  Its call returns
#   node 3: can be reached again; the session does nothing
#   watchdog: release to 3
#
# A node that is away when a lock is taken does not have it, so nothing of that is left.
# Proves G47.

use LockRedis::Masters;
use LockRedis::Test;

my $masters = LockRedis::Masters->new(n => 3, proxies => 1);
my @nodes = $masters->nodes;
my $third = $nodes[2];
my $proxy = ($masters->proxies)[2];
my $node = LockRedis::Node->create('main', redis => $masters,
	settings => { 'lockredis.lease' => '1h' });

$node->wait_for_up;

sub left { return $node->count_locks; }

sub cut_off
{
	$proxy->mode('refuse');
	$proxy->reset_all;
	return;
}

# ---- it comes back

foreach my $how ('redis_unlock', 'COMMIT')
{
	my $session = $node->session;

	$masters->take_at_all($session, 'k');
	if ($how eq 'COMMIT')
	{
		$session->value("SELECT redis_unlock('k')");
		poll_until('all to be free of it', sub { !$masters->all_keys });
		$session->query("BEGIN; SELECT redis_xact_lock('k')");
		$masters->wait_for_owners('k', 3);
	}
	cut_off();
	if ($how eq 'COMMIT') { $session->query('COMMIT') }
	else { $session->query_is("SELECT redis_unlock('k')", 't', 'given back at two of three') }
	is($third->cmd('EXISTS', 'k'), 1, "$how: the third has it still");
	# Whose answers a COMMIT does not wait for
	poll_until('the others to be free of it', sub { !grep { $_->cmd('EXISTS', 'k') } @nodes[ 0, 1 ] });
	is(left(), 1, "$how: that is the watchdog's");
	my $other = $node->session;

	$other->query_is("SELECT redis_try_lock('k')", 't', "$how: others of this server have it at once");
	$other->query_is("SELECT redis_unlock('k')", 't', "$how: and give it back");
	$proxy->mode('pass');
	poll_until('the third to be free of it, though its session is idle',
		sub { !$third->cmd('EXISTS', 'k') });
	poll_until('nothing to be left to do', sub { left() == 0 });
	$_->quit foreach $session, $other;
}

# ---- it does not come back

{
	my $session = $node->session;

	$masters->take_at_all($session, 'short', ", lease => '8s'");
	cut_off();
	$session->query_is("SELECT redis_unlock('short')", 't', 'given back at two of three');
	is(left(), 1, 'the rest is the watchdog\'s');
	poll_until('it to be forgotten when the lease has ended there', sub { left() == 0 });
	ok(!$third->cmd('EXISTS', 'short'), 'which it has');

	foreach my $i (1 .. 20)
	{
		$session->value("SELECT redis_lock('away$i')");
		$session->value("SELECT redis_unlock('away$i')");
	}
	is(left(), 0, 'what the third never had is not left there');
	$proxy->mode('pass');
	$session->quit;
}

nothing_left($node, $masters);
done_testing();
