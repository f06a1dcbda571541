# Copyright (c) 2026, lockredis contributors

# A renewal is answered when its lock has been given back: what came counts for nothing,
# not even as a renewal in redis_lock_stats.  The answer is held back by a proxy.
# No guarantee speaks of it: it is what redis_lock_stats says.

use strict;
use warnings FATAL => 'all';

use LockRedis::Proxy;
use LockRedis::Test qw(:DEFAULT run);

my ($node, $redis, $proxy) = LockRedis::Node->create_behind_proxy(
	'main',
	settings => {
		'lockredis.lease' => '9s',
		'lockredis.command_timeout' => '1min'
	});
my $s = $node->session;

$node->wait_for_up;
run($s, "SELECT redis_try_lock('other'), redis_unlock('other'), redis_lock('thrown')");
my $held = $proxy->rule(on => 'reply', match => 'thrown', action => 'hold');
$proxy->wait_for_rule($held);
my $before = $node->lock_stat('renewals');
run($s, "SELECT redis_unlock('thrown')");
$proxy->let_go;

# What comes next over the same connection: that answer has been read before.
run($s, "SELECT redis_lock('next')");
poll_until('the next lock to be renewed',
	sub { $node->value("SELECT renewals FROM redis_locks WHERE key = 'next'") > 0 });
poll_until(
	'no other renewal to have been counted',
	sub {
		$node->value("SELECT s.renewals - l.renewals FROM redis_lock_stats s, redis_locks l
			 WHERE l.key = 'next'") == $before;
	});
pass('only the renewals of the next one are counted');
run($s, "SELECT redis_unlock('next')");
$s->quit;
nothing_left($node, $redis);
done_testing();
