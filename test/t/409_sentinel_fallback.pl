# Copyright (c) 2026, lockredis contributors

# Fallback mode with Sentinels: a failover that is over before fallback_after is not
# felt; when no node answers, locks go to the table, and those that are held there
# are moved to the master that is found when there is one again, another one than
# before.
# Proves G26, G38.

use LockRedis::Sentinels;
use LockRedis::Test;
use LockRedis::Topic::Failover;

my $ha = LockRedis::Sentinels->new;
my ($node, $holder, $s) = LockRedis::Node->create(
	'main', sessions => 2,
	redis => $ha,
	settings => {
		'lockredis.mode' => 'fallback',
		# More than a failover takes on a busy machine
		'lockredis.lease' => '3min',
		'lockredis.fallback_after' => '100s'
	});

$node->wait_for_store('master');
$holder->query_is("SELECT redis_lock('kept')", '', 'a lock');
replicated($ha);

# A failover
my $old = $ha->master;
my $switches = $node->lock_stat('switches');
my $new = replace_master($node, $ha);
is($node->store_in_use, 'master', 'a failover: the table is not used');
is($node->lock_stat('switches'), $switches, 'a failover: nor was it');
$holder->query_is("SELECT redis_is_held('kept')", 't', 'a failover: held');
ok($new->cmd('EXISTS', 'kept'), 'a failover: at the new master');
$node->wait_until_asked($s);
$s->query_is("SELECT redis_lock('k'), redis_unlock('k')", '|t', 'a failover: another lock');
$old->start;
$ha->wait_until_steady;

# Nobody answers.  The table grants nothing until the leases of others may have
# ended, so they are short; of several that were set, the longest counts until a restart.
$holder->query_is("SELECT redis_unlock('kept')", 't', 'given back');
$_->quit foreach $holder, $s;
$node->set('lockredis.fallback_after' => '1s', 'lockredis.lease' => '20s',
	'lockredis.command_timeout' => '2s');
$node->restart;
$node->wait_for_store('master');
($holder, $s) = map { $node->session } 1, 2;
$holder->query_is("SELECT redis_lock('kept')", '', 'a lock with a shorter lease');
my @nodes = $ha->nodes;
$old = $ha->master;
$_->freeze foreach @nodes;
$node->wait_for_store('table');
$s->query_is("SELECT redis_lock('in the table')", '', 'nobody answers: a lock in the table');
$holder->query_is("SELECT redis_is_held('kept')", 't', 'nobody answers: held');

# The former master comes last, so that another one is elected.
$_->thaw foreach grep { $_ != $old } @nodes;
$new = $ha->wait_for_master_but($old);
$node->wait_for_store('master');
wait_until_used($node, $new);
foreach my $pair ([ $holder, 'kept' ], [ $s, 'in the table' ])
{
	my ($session, $key) = @$pair;

	$new->wait_for_key($key, 1);
	$session->query_is("SELECT redis_is_held('$key')", 't', "back: $key: held");
	$session->query_is("SELECT redis_unlock('$key')", 't', "back: $key: given back");
}
$old->thaw;
$ha->wait_until_steady;
end_test($node, $ha);
