# Copyright (c) 2026, lockredis contributors

# Token locks behind Sentinels, with replicas: too few of them, a lock that outlives a
# failover since they have it, a call that waits through one, and one of a former master
# that is given back.
# Proves G37, G38.

use LockRedis::Sentinels;
use LockRedis::Test;
use LockRedis::Topic::Failover;

# Who waits does so for as long as a failover may take.
my $ha = LockRedis::Sentinels->new;
my $node = LockRedis::Node->create(
	'main',
	redis => $ha,
	settings => {
		'lockredis.connect_timeout' => limit(60) . 's',
		'lockredis.command_timeout' => limit(60) . 's' });
my $one = $node->session(
	settings => { 'lockredis.min_replicas' => 2, 'lockredis.replica_timeout' => limit(15) . 's' });
my $two = $node->session;

# ----------
# Replicas have to confirm it
# ----------

$one->query_is("SELECT redis_token_lock('k', '1h', 'secret')", 'secret', 'two have it');
$one->query_is("SELECT redis_token_extend('k', 'secret', '2h')", 't', 'also for longer');
$one->query_is("SELECT redis_token_extend('k', 'secret', '1h')", 't', 'and what it was before');
$one->query("SET lockredis.min_replicas = 3; SET lockredis.replica_timeout = '500ms'");
$one->query_fails("SELECT redis_token_lock('more', '1h', 'secret')", '58030',
	qr/could not be replicated/, 'three there are not');
$one->query_fails("SELECT redis_token_extend('k', 'secret', '3h')", '58030',
	qr/could not be replicated/, 'nor for longer');
poll_until('it to be given back', sub { !$ha->cmd('EXISTS', 'more') });
$one->query('RESET lockredis.min_replicas; RESET lockredis.replica_timeout');

# ----------
# A failover
# ----------

replicated($ha);
$two->start("SELECT redis_token_lock('k', '1h', 'next')");
$node->wait_for_waiters('k', 1);
my $master = replace_master($node, $ha);
$node->wait_until_asked($one);
$one->query('SET lockredis.min_replicas = 0');
$one->query_is("SELECT redis_token_is_held('k', 'secret')", 't', 'the new master has it');
$one->query_is("SELECT redis_token_extend('k', 'secret', '4h')", 't', 'and extends it');
ok($master->cmd('PTTL', 'k') > 3 * 3_600_000, 'there');
ok($two->is_running, 'who waits waits on');
$one->query_is("SELECT redis_token_unlock('k', 'secret')", 't', 'given back');
is($two->wait->value, 'next', 'who waited has it');
$two->query_is("SELECT redis_token_unlock('k', 'next')", 't');

nothing_left($node, $ha);
done_testing();
