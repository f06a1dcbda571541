# Copyright (c) 2026, lockredis contributors

# Three independent masters, one of which hears of something late, or when its session does
# nothing more: all the same the lock is free there, too.
#
# It is put there again by a renewal, and given back at that moment:
#
#   watchdog: renewed at 1 and 2, gone at 3: sends the create to 3
#   session: release to 1, 2, 3; at 3 there is nothing
#   node 3: the create: a lock that nobody gives back any more
#
# So a node that had the lock is asked when the create is answered.  Forced by a proxy that
# holds the create back until the release has run at node 3.
#
# What the slowest of them has answered is read by nobody when its session does nothing more:
# - node 3 stands still while the lock is given back.  Its script of a release was never
#   loaded: told so, nobody would send it again.  So it came in full
# - node 3 is told of a create and its release late.  It has forgotten the script of the
#   create, and has been told that of a release by others: that runs, the create does not.
#   It must not be sent again, behind its release
#
# What the third cannot be told is given back by the watchdog as soon as that can be reached,
# long before the lease ends.  In the end it is forgotten: it has run out there.
#
#   session: has the lock at 1, 2, 3
#   node 3: ends the connection, and takes no other
#   session: release to 1, 2; to 3 it cannot be sent.  Its call returns
#   node 3: can be reached again; the session does nothing
#   watchdog: release to 3
#
# A node that is away when a lock is taken does not have it, so nothing of that is left.
#
# Somebody waits for a lock that others have at two of them.  The third one grants it to him, so he
# gives it back there.  Nobody can do anything with that: if it were told he would hear of it
# himself, ask again at once, and so on, thousands of times a second until the lease ends.  The
# count of what is told says that it is not.  Where nobody has two of them it is told.
#
# Whoever listens to most of them, but not to the same ones all the time, asks again:
#
#   S: waits; X has the lock at 1 and 2
#   the connection to 1 is lost         1: X gives it back
#   the connection to 1 is back
#   the connection to 2 is lost         2: X gives it back
#   S: asks, and has it; nobody has told it
# Proves G47.

use LockRedis::Masters;
use LockRedis::Test;

my $masters = LockRedis::Masters->new(n => 3, proxies => 1);
my @nodes = $masters->nodes;
my $third = $nodes[2];
my $proxy = ($masters->proxies)[2];
my $node = $masters->server('main');

# ---- put there again while it is given back

{
	my $session = $node->session;

	$masters->wait_until_watched($node);
	$masters->take_at_all($session, 'k');

	# The watchdog has created nothing yet, so it sends that script in full; the session has.
	my $create = $proxy->rule(match => 'replicate_commands', action => 'hold');

	$third->cmd('DEL', 'k');
	poll_until('the watchdog to renew all', sub { $nodes[0]->kill_clients('watchdog') });
	$proxy->wait_for_rule($create);
	is($third->cmd('EXISTS', 'k'), 0, 'the third is about to get it again');

	my $released = $third->calls('hdel');

	$session->query_is("SELECT redis_unlock('k')", 't', 'given back meanwhile');
	poll_until('the third to have seen the release', sub { $third->calls('hdel') > $released });

	my $created = $third->calls('hset');

	$proxy->let_go;
	poll_until('the third to have created it', sub { $third->calls('hset') > $created });
	poll_until('the third to be free of it', sub { $third->cmd('EXISTS', 'k') == 0 });
	$session->quit;
}

# ---- a script that was not loaded

{
	my $session = $node->session;

	$_->cmd('SCRIPT', 'FLUSH') foreach @nodes;
	$session->query_is("SELECT redis_is_locked('first')", 'f', 'a session that is connected');
	$masters->take_at_all($session, 'first');
	$third->freeze;
	$session->query_is("SELECT redis_unlock('first')", 't', 'given back while one stands still');
	$third->thaw;
	poll_until('the third to be free of it', sub { $masters->have('first') == 0 });
	$session->quit;
}

# ---- a create that did not run, and its release that did

{
	my ($one, $two) = map { $node->session } 1 .. 2;

	# Each knows all scripts then.
	$masters->connect_to_all($_) foreach $one, $two;
	$masters->take_at_all($two, 'other');

	my $held = $proxy->rule(match => 'late', action => 'hold');

	$one->query_is("SELECT redis_try_lock('late')", 't', 'taken at two of three');
	$proxy->wait_for_rule($held);
	$one->query_is("SELECT redis_unlock('late')", 't', 'and given back');
	$third->cmd('SCRIPT', 'FLUSH');

	# Whoever finds the script missing has it loaded.
	poll_until('the third to know the script of a release', sub {
		$two->value("SELECT redis_unlock('other')");
		$two->value("SELECT redis_is_locked('other')");
		return $third->cmd('EXISTS', 'other') == 0;
	});
	my $calls = $third->script_calls;

	$proxy->let_go;
	poll_until('the third to have both', sub { $third->script_calls >= $calls + 2 });

	# Whatever this session asks of the third node now is behind what it sent before.
	$nodes[1]->freeze;
	$one->value("SELECT redis_is_locked('after')");
	is($third->cmd('EXISTS', 'late'), 0, 'the create is not sent behind its release');
	$nodes[1]->thaw;
	$_->quit foreach $one, $two;
}

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

# ---- what nobody can do anything with is not told

my $session = $node->session;

# The third grants it when it is connected in time, so it is asked for until it does.
sub given_back_by_third ($sql, $n)
{
	poll_until("the third to have given it back $n times",
		sub { $session->value($sql); $third->calls('hdel') >= $n });
	return;
}

$nodes[$_]->foreign_lock('k', owner => 'other:1', ms => 3_600_000) foreach 0, 1;
my $told = $third->calls('publish');

given_back_by_third("SELECT redis_try_lock('k')", $third->calls('hdel') + 2);
is($third->calls('publish'), $told, 'what nobody waits for is not told');

my $before = $third->calls('hdel');

$node->queue_up('k', $session => "SELECT redis_lock('k')");
poll_until('who waits to have asked with his ears open', sub {
	(grep { $_->subscribers($_->channel('k')) } @nodes) >= 2 && $third->calls('hdel') > $before });
is($third->calls('publish'), $told, 'nor to who waits himself');
$nodes[$_]->foreign_unlock('k') foreach 0, 1;
$session->wait;
$session->query_is("SELECT redis_unlock('k')", 't', 'given back');

$told = $third->calls('publish');
$nodes[$_]->foreign_lock('s', owner => "other:$_", ms => 3_600_000) foreach 0, 1;
given_back_by_third("SELECT redis_try_lock('s')", $third->calls('hdel') + 1);
cmp_ok($third->calls('publish'), '>', $told, 'what nobody has is told when it is free');
$nodes[$_]->foreign_unlock('s') foreach 0, 1;

# ---- releases that nobody hears

# In one transaction: what listens is cut off before it could hear of it.
sub given_back_unheard ($redis, $key)
{
	$redis->cmd('MULTI');
	$redis->cmd('CLIENT', 'KILL', 'TYPE', 'pubsub');
	$redis->cmd('DEL', $key);
	$redis->cmd('PUBLISH', $redis->channel($key), 0);
	return $redis->cmd('EXEC');
}

$nodes[$_]->foreign_lock('u', owner => "other:$_", ms => 3_600_000) foreach 0 .. 2;
$session->start("SELECT redis_lock('u')");
poll_until('all to be listened to', sub {
	(grep { $_->subscribers($_->channel('u')) } @nodes) == 3 });
foreach my $redis (@nodes[ 0, 1 ])
{
	is(given_back_unheard($redis, 'u')->[-1], 0, 'nobody hears of it');
	next if $redis == $nodes[1];	# it may have the lock by then
	poll_until('it to be listened to again', sub { $redis->subscribers($redis->channel('u')) });
}
is($session->wait->error, undef, 'had nevertheless');
$nodes[2]->foreign_unlock('u');
$session->query_is("SELECT redis_unlock('u')", 't', 'given back');

end_test($node, $masters);
