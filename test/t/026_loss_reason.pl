# Copyright (c) 2026, lockredis contributors

# A lease that has ended is no key that was deleted.
#
#   watchdog                          Redis
#   sends a renewal, which is late
#   does not run
#                                     the lease ends
#                                     the renewal: there is no such lock
#   runs, and reads that
#
# That the lease has ended comes first, whoever says that the lock is gone.
#
# Proves G6.

use strict;
use warnings FATAL => 'all';

use LockRedis::Test;

my ($node, $redis, $proxy) = LockRedis::Node->create_behind_proxy(
	'main',
	settings => { 'lockredis.command_timeout' => '60s' });
my $one = $node->session(settings => { 'lockredis.lease' => '6s' });

$node->wait_for_up;
$one->query("SELECT redis_lock('warm'), redis_unlock('warm')");    # Redis knows the scripts
my $watchdog = $node->watchdog_pid;
my $rule = $proxy->rule(match => 'late', skip => 1, action => 'hold');
$one->query_is("SELECT redis_lock('late')", '', 'held');
$proxy->wait_for_rule($rule);
kill 'STOP', $watchdog;
poll_until('the lease to end', sub { !$redis->cmd('EXISTS', 'late') });
my $calls = $redis->calls('hexists');
$proxy->clear;
$proxy->release;
poll_until('the renewal to run', sub { $redis->calls('hexists') > $calls });
pause(0.5);
kill 'CONT', $watchdog;
poll_until('the loss', sub { $node->value('SELECT count(lost_at) FROM redis_locks') > 0 });
is($node->value('SELECT lost_reason FROM redis_locks'), 'expired', 'the lease has ended');
$one->query_warns("SELECT redis_unlock('late')", 'f', '01000', qr/expired/, 'told');
$one->quit;
nothing_left($node, $redis);
done_testing();
