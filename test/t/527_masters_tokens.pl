# Copyright (c) 2026, lockredis contributors

# Three independent masters and token locks.  A try that others keep from a majority is
# given back where it was granted.  That release may be sent twice, if its connection is
# lost, and the first one come later: behind the next create with the same token, of which
# it would take the vote.  So that node is not asked with this token for a while; with
# others it is.  What was asked there before that was known is no vote.  Forced by a proxy
# that holds the release back and ends the connection.
# Proves G47.

use LockRedis::Masters;
use LockRedis::Test;

my $masters = LockRedis::Masters->new(n => 3, proxies => 1);
my @nodes = $masters->nodes;
my $third = $nodes[2];
my $proxy = ($masters->proxies)[2];
my $node = $masters->server('main', 'lockredis.lease' => '30s');
my $session = $node->session;
my $n = 0;

# A node whose connection is made late is not waited for.
poll_until('a session with a connection to each', sub {
	$session->value("SELECT redis_try_token_lock('w', '0', '1h', 'warm')");
	my $all = !grep { !$_->cmd('EXISTS', 'w') } @nodes;
	$session->value("SELECT redis_token_unlock('w', 'warm')");
	return $all;
});

$_->cmd('SET', 'others', 'theirs', 'PX', 3_600_000) foreach @nodes[ 0, 1 ];
my $release = $proxy->rule(match => 'others', skip => 1, action => 'hold');

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
$session->query_is("SELECT redis_try_token_lock('both', '0', '1h', 'twice')",
	'NULL', 'what comes behind a release that was sent twice is no vote');
$proxy->release;
$nodes[1]->cmd('DEL', 'both');
poll_until('all of it to be given back', sub {
	$session->value("SELECT redis_is_locked('w')");
	return !grep { $_->cmd('EXISTS', 'both') } @nodes;
});
$session->query_is("SELECT redis_try_token_lock('both', '0', '1h', 'twice')",
	'twice', 'the first and the second are a majority');
is($third->cmd('EXISTS', 'both'), 0, 'without the third');
$session->query_is("SELECT redis_token_unlock('both', 'twice')", 't', 'given back');

end_test($node, $masters);
