# Copyright (c) 2026, lockredis contributors

# A release that Redis has run, and whose answer was lost, just before Redis falls silent:
#
#   session                     Redis                           watchdog
#   releases the key            has been heard lately
#                               runs that; its answer is lost
#                               grants the key to another client
#                               is silent                       asks, in vain
#
# The server had the key until its release went out, and Redis has answered nothing since
# then; but it was not asked until the silence.  So the table gives the key to nobody for as
# long as that client may have it.
#
# Proves G26.

use LockRedis::Test;

my ($node, $redis, $proxy, $table) = LockRedis::Node->create_fallback('main',
	settings => { 'lockredis.lease' => '20s', 'lockredis.fallback_after' => '10s',
		'lockredis.command_timeout' => '1s' });
my ($one, $two) = ($node->session, $node->session);

$one->query_is("SELECT redis_lock('warm'), redis_unlock('warm')", '|t', 'the scripts are loaded');
$one->query_is("SELECT redis_lock('key')", '', 'a session has the lock');

# It does not ask in between, but for less than what makes it begin anew.
my $watchdog = $node->watchdog_pid;
kill 'STOP', $watchdog or die "could not stop the watchdog: $!";
my $lost = $proxy->rule(on => 'reply', match => 'key', action => 'drop');
is($one->value("SELECT redis_unlock('key')"), 't', 'it gives that back');
cmp_ok($proxy->acted($lost), '>', 0, 'and has no answer');
is($redis->cmd('EXISTS', 'key'), '0', 'though that has run');
$redis->foreign_lock('key', owner => 'elsewhere:1', ms => 20000);
$proxy->mode('refuse');
$proxy->reset_all;
kill 'CONT', $watchdog;

$node->wait_for_store('table');
$two->query_is("SELECT redis_try_lock('key')", 'f', 'somebody else may have it');
is($redis->cmd('EXISTS', 'key'), '1', 'as he does');
$two->start("SELECT redis_lock('key')");
is($two->wait(60)->error, undef, 'the table grants it');
is($redis->cmd('EXISTS', 'key'), '0', 'when he has it no more');
$two->query_is("SELECT redis_unlock('key')", 't', 'given back');

$proxy->clear;
$node->reconnect($proxy);
end_test($node, $redis);
