# Copyright (c) 2026, lockredis contributors

# Three independent masters, of which the third has forgotten a lock that is held.  The
# next renewal puts it there again.  Its session may give it back just then, everywhere:
#
#   watchdog: renewed at 1 and 2, gone at 3: sends the create to 3
#   session: release to 1, 2, 3; at 3 there is nothing
#   node 3: the create: a lock that nobody gives back any more
#
# So a node that had the lock is asked when the create is answered.  Forced by a proxy that
# holds the create back until the release has run at node 3.
# Proves G47.

use strict;
use warnings FATAL => 'all';

use LockRedis::Masters;
use LockRedis::Test;
use LockRedis::Wait qw(poll_until);

my $masters = LockRedis::Masters->new(n => 3, proxies => 1);
my @nodes = $masters->nodes;
my $third = $nodes[2];
my $proxy = ($masters->proxies)[2];
my $node = LockRedis::Node->create('main', redis => $masters,
	settings => { 'lockredis.lease' => '1h', 'lockredis.connect_timeout' => '60s',
		'lockredis.command_timeout' => '60s' });
my $session = $node->session;

$node->wait_for_up;
poll_until('the watchdog to be connected to each',
	sub {
		return !grep { !grep { $_->{name} =~ /^lockredis-watchdog/ } $_->clients } @nodes;
	});

# A node whose connection is made late is not waited for.
poll_until('all to have it', sub {
	$session->value("SELECT redis_try_lock('k')");
	return 1 if !grep { !$_->cmd('EXISTS', 'k') } @nodes;
	$session->value("SELECT redis_unlock('k')");
	return 0;
});

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
pass('and what it created is given back');

$session->quit;
nothing_left($node, $masters);
done_testing();
