# Copyright (c) 2026, lockredis contributors

# Three independent masters, a try of a lock that nobody gets, and its release that comes
# late.  The try is repeated by the same owner, so a release of the first one which is
# still on its way could take back what the second one was granted, and counts: then
# somebody else would get the same node, and a majority.
#
# Forced by proxies: the release is held back at node 3, its connection is cut, it is sent
# again over another one, and answered there.  Then the lock is free at node 1, but node 2
# is somebody else's: a majority needs node 3, where the first release may still come.
# Proves G47.

use LockRedis::Masters;
use LockRedis::Test;

my $masters = LockRedis::Masters->new(n => 3, proxies => 1);
my @nodes = $masters->nodes;
my @proxies = $masters->proxies;
my $node = $masters->server('main', 'lockredis.lease' => '30s',
	'lockredis.connect_timeout' => '2s', 'lockredis.command_timeout' => '30s');
my $session = $node->session;

$masters->connect_to_all($session);

foreach my $n (0, 1)
{
	$nodes[$n]->cmd('HSET', 'kk', "other:$n", 1);
	$nodes[$n]->cmd('PEXPIRE', 'kk', 600_000);
}

# The first try: node 1 has not answered, so it is not decided.
my $first = $proxies[0]->rule(on => 'reply', match => 'kk', action => 'hold');
my $release = $proxies[2]->rule(match => 'redisson_lock__channel:{kk}', action => 'hold');

$session->start("SELECT redis_try_lock('kk')");
$proxies[0]->wait_for_rule($first);
poll_until('node 3 to have granted it', sub { $nodes[2]->cmd('EXISTS', 'kk') });

# Node 1 said that it is busy.  It will be free for the second try, which it does not hear of.
$nodes[0]->cmd('DEL', 'kk');
my $second = $proxies[0]->rule(on => 'reply', match => 'kk', action => 'hold');
$proxies[0]->release;
$proxies[2]->wait_for_rule($release);
$proxies[0]->wait_for_rule($second);
is($nodes[0]->cmd('EXISTS', 'kk'), 1, 'the second try: node 1 has granted it');
is($nodes[2]->cmd('EXISTS', 'kk'), 1, 'the release at node 3 is held back');

$proxies[2]->reset_all;
poll_until('it to have run over another connection', sub { !$nodes[2]->cmd('EXISTS', 'kk') });

$proxies[0]->clear;
$proxies[0]->release;
is($session->wait->out, 'f', 'node 3 is not asked again, where the first release may come');
$proxies[2]->clear;
$proxies[2]->release;
poll_until('nothing of ours to be left',
	sub { !$nodes[0]->cmd('EXISTS', 'kk') && !$nodes[2]->cmd('EXISTS', 'kk') });
is_deeply($nodes[1]->hash('kk'), { 'other:1' => 1 }, 'what others have stays');

# The next call has an owner of its own.
$session->query_is("SELECT redis_try_lock('kk')", 't', 'the next one gets nodes 1 and 3');
$session->query_is("SELECT redis_unlock('kk')", 't', 'and gives them back');

done_testing();
