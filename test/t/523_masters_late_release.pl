# Copyright (c) 2026, lockredis contributors

# Three independent masters, a try of a lock that nobody gets, and its release that comes
# late.  The try is repeated by the same owner, so a release of the first one which is
# still on its way could take back what the second one was granted, and counts: then
# somebody else would get the same node, and a majority.
#
# Forced by proxies: the release is held back at node 3, its connection is cut, it is sent
# again over another one, and answered there.  Then the lock is free at node 1, but node 2
# is somebody else's: a majority needs node 3, where the first release may still come.
#
# The same with token locks, whose token may be that of the next call: the first release may
# come behind the next create with the same token, of which it would take the vote.  So that
# node is not asked with this token for a while; with others it is.  What was asked there
# before that was known is no vote, nor what was asked in front of a release that goes out
# again since its script was not loaded.
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
$nodes[1]->cmd('DEL', 'kk');

# ---- token locks

my ($third, $proxy, $n) = ($nodes[2], $proxies[2], 0);

# A node whose connection is made late is not waited for.
sub with_all ($s)
{
	poll_until('a session with a connection to each', sub {
		$s->value("SELECT redis_try_token_lock('w', '0', '1h', 'warm')");
		my $all = !grep { !$_->cmd('EXISTS', 'w') } @nodes;
		$s->value("SELECT redis_token_unlock('w', 'warm')");
		return $all;
	});
	return $s;
}
with_all($session);

$_->cmd('SET', 'others', 'theirs', 'PX', 3_600_000) foreach @nodes[ 0, 1 ];
$release = $proxy->rule(match => 'others', skip => 1, action => 'hold');

$session->query_is("SELECT redis_try_token_lock('others', '0', '1h', 'again')",
	'NULL', 'others have two of three');
$proxy->wait_for_rule($release);
is($third->cmd('EXISTS', 'others'), 1, 'its release is on its way to the third');
$proxy->clear;
$proxy->reset_all;

# Over another connection, when this session does anything
poll_until('the third to be free of it', sub {
	$session->value("SELECT redis_is_locked('w')");
	return $third->cmd('EXISTS', 'others') == 0;
});

# That it was sent twice is known when its answer has been read.
poll_until('the third not to be asked with that token', sub {
	my $key = 'same ' . ++$n;

	$session->value("SELECT redis_try_token_lock('$key', '0', '1h', 'again')");
	my $asked = $third->cmd('EXISTS', $key);
	$session->value("SELECT redis_token_unlock('$key', 'again')");
	$session->value("SELECT redis_is_locked('w')");
	return !$asked;
});
$session->query_is("SELECT redis_try_token_lock('new', '0', '1h', 'another')",
	'another', 'taken with another one');
poll_until('the third to have that', sub { $third->cmd('EXISTS', 'new') });
$session->query_is("SELECT redis_token_unlock('new', 'another')", 't', 'given back');
$_->cmd('DEL', 'others') foreach @nodes[ 0, 1 ];

# The same, but asked again at once: behind the release that goes out a second time, and is
# not known to do so before.  It would have the first node and the third, where the
# release that is held back may take it away, for whoever has the second.
$_->cmd('SET', 'both', 'theirs', 'PX', 3_600_000) foreach @nodes[ 0, 1 ];
$release = $proxy->rule(match => 'both', skip => 1, action => 'hold');
$session->query_is("SELECT redis_try_token_lock('both', '0', '1h', 'twice')",
	'NULL', 'others have two of three again');
$proxy->wait_for_rule($release);
$nodes[0]->cmd('DEL', 'both');
$proxy->clear;
$proxy->reset_all;
is($third->cmd('EXISTS', 'both'), 1, 'its release has not come to the third');

# The third answers the release and the create at once, and meanwhile another connection
# is lost: all that is asked for is looked at then, and not only what was answered.
my $answers = $proxy->rule(on => 'reply', match => 'both', action => 'hold');
my $lost = $proxies[1]->rule(on => 'reply', match => 'both', action => 'hold');
$session->start("SELECT redis_try_token_lock('both', '0', '1h', 'twice')");
$proxy->wait_for_rule($answers);
$proxies[1]->wait_for_rule($lost);
poll_until('the first to have granted it', sub { $nodes[0]->cmd('EXISTS', 'both') });
$session->freeze;
$proxies[1]->clear;
$proxies[1]->reset_all;
$proxy->let_go;
$session->thaw;
$session->wait->fails('58030', qr/did not answer/,
	'what comes behind a release that was sent twice is no vote');
$nodes[1]->cmd('DEL', 'both');
poll_until('all of it to be given back', sub {
	$session->value("SELECT redis_is_locked('w')");
	return !grep { $_->cmd('EXISTS', 'both') } @nodes;
});
$session->query_is("SELECT redis_try_token_lock('both', '0', '1h', 'one more')",
	'one more', 'taken with another token');
$session->query_is("SELECT redis_token_unlock('both', 'one more')", 't', 'given back');

# ---- a release that runs behind the next create

# The release goes out again since its script is not loaded any more; that of the create is.
# The watchdog would load it again, for what was not answered above: for as long as that may
# run, it is given back ten times a second.
my ($late, $loads) = (with_all($node->session), $node->session);

# It is connected, and has neither taken nor given back a token lock.
$masters->connect_to_all($loads);
$node->set('lockredis.command_timeout' => '1s');
poll_until('the watchdog to have given all back', sub { $node->count_locks == 0 });
$node->set('lockredis.command_timeout' => '30s');

$_->cmd('SET', 'flushed', 'theirs', 'PX', 3_600_000) foreach @nodes;
$proxy->rule(on => 'reply', match => 'flushed', action => 'hold');
my $requests = $proxy->rule(match => 'flushed', skip => 1, times => 0, action => 'hold');
$late->query_is("SELECT redis_try_token_lock('flushed', '0', '1h', 'behind')",
	'NULL', 'others have all of them, and the third has not answered');
$proxy->wait_for_rule($requests);
$_->cmd('DEL', 'flushed') foreach @nodes[ 0, 2 ];
$third->cmd('SCRIPT', 'FLUSH');
$loads->query("SELECT redis_try_token_lock('loaded', '0', '1h', 'loads')");
poll_until('the create to be loaded there', sub { $third->cmd('EXISTS', 'loaded') });
$late->start("SELECT redis_try_token_lock('flushed', '0', '1h', 'behind')");
$proxy->wait_for_rule($requests, 2);
poll_until('the first to have granted it', sub { $nodes[0]->cmd('EXISTS', 'flushed') });
$proxy->let_go;
is($late->wait->out, 'NULL', 'what a release runs behind is no vote');
$_->cmd('DEL', 'flushed', 'loaded') foreach @nodes;

# A lock that was held: the release at the third is on its way until the next one has it.
$node->set('lockredis.command_timeout' => '1s');
my $holder = with_all($node->session);
$holder->query_is("SELECT redis_try_token_lock('held', '0', '2s', 'same')", 'same', 'taken');
poll_until('the third to have it', sub { $third->cmd('EXISTS', 'held') });
$release = $proxy->rule(match => 'held', action => 'hold');
$holder->query_is("SELECT redis_token_unlock('held', 'same')", 't', 'the others are free of it');
$proxy->wait_for_rule($release);
$proxy->clear;
poll_until('its lease to be over at the third', sub { !$third->cmd('EXISTS', 'held') });
$nodes[1]->cmd('SET', 'held', 'theirs', 'PX', 3_600_000);
with_all($holder);
$holder->query_is("SELECT redis_try_token_lock('held', '0', '1h', 'same')",
	'NULL', 'where its release may still come is no vote');
$proxy->release;
$nodes[1]->cmd('DEL', 'held');

end_test($node, $masters);
