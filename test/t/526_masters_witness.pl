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

use LockRedis::Masters;
use LockRedis::Test;

my $masters = LockRedis::Masters->new(n => 3, proxies => 1);
my @nodes = $masters->nodes;
my $third = $nodes[2];
my $proxy = ($masters->proxies)[2];
my $node = $masters->server('main');
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

end_test($node, $masters);
