# Copyright (c) 2026, lockredis contributors

# A lock that is lost while Redis is slow, silent or away: what remains in Redis is given back; a
# release may be answered after the end of the lease; a lease that has ended is no key that was
# deleted; a renewal that is answered when its lock has been given back counts for nothing.  (What
# overlaps a release, or the lock of the next owner, and a reply that comes too late and revives
# nothing are the simulator's: its mutants sent_any_owner, owner_unlooked, lua_renew_owner,
# expiry_is_gone, revive, revive_scope, from_reply and extend_from_reply.)
# Proves G5, G6, G7.

use LockRedis::Test;

# Leases have to outlast what a busy machine does between two statements.
my $lease_ms = limit(5) * 1000;
my $short_ms = $lease_ms / 2;
my ($node, $redis, $proxy, $one, $two) = LockRedis::Node->create_behind_proxy(
	'main', sessions => 2,
	settings => {
		'lockredis.lease' => "${lease_ms}ms",
		'lockredis.command_timeout' => limit(12) . 's'
	});

$node->warm_up($one, "${lease_ms}ms");

# ----------
# Replies that come after the end of the lease
# ----------

# A lease that ended while its release was on the way is no error.
my $rule =
  $proxy->rule(on => 'reply', match => 'given', skip => 1, action => 'hold');
$one->start("SELECT redis_lock('given', '${short_ms}ms'); SELECT redis_unlock('given')");
$proxy->wait_for_rule($rule);
poll_until('the lease to end', sub { $redis->cmd('EXISTS', 'given') == 0 });
pause($short_ms / 1000);
$proxy->release;
my $result = $one->wait;
is($result->out . $result->{raw},
	"\nt", 'a release that was answered after the end of the lease');

# ----------
# Redis goes away
# ----------

# For longer than the lease.
$one->query_is("SELECT redis_lock('away')", '', 'held');
$redis->stop;
$node->wait_for_loss('away');
$one->query_is("SELECT redis_is_held('away')", 'f', 'not held');
$one->query_fails("SELECT redis_lock('away')",
	'55000', qr/expired/, 'lost, not unreachable');
$redis->start;
$proxy->clear;
$node->wait_until_asked($two);
$one->is_lost($redis, 'away', 'expired', qr/expired/,
	'Redis was away for longer than the lease');
$node->warm_up($one, "${lease_ms}ms");

# The same, with the data still there afterwards: given back.
$one->query_is("SELECT redis_lock('away')", '', 'held');
$redis->cmd('PERSIST', 'away');
$redis->stop(keep => 1);
$node->wait_for_loss('away');
$redis->start;
poll_until('it to be given back', sub { $redis->cmd('EXISTS', 'away') == 0 });
$proxy->clear;
$node->wait_until_asked($two);
$one->is_lost($redis, 'away', 'expired', qr/expired/, 'Redis was away, data kept');

# ----------
# Whoever says that the lock is gone: a lease that has ended is no key that was deleted
# ----------

#   watchdog                          Redis
#   sends a renewal, which is late
#   does not run
#                                     the lease ends
#                                     the renewal: there is no such lock
#   runs, and reads that
$node->set('lockredis.command_timeout' => '60s');
my $brief = $node->session(settings => { 'lockredis.lease' => '6s' });
my $watchdog = $node->watchdog_pid;

$node->warm_up($brief, '6s');
$rule = $proxy->rule(match => 'ended', skip => 1, action => 'hold');
$brief->query_is("SELECT redis_lock('ended')", '', 'held');
$proxy->wait_for_rule($rule);
kill 'STOP', $watchdog;
$redis->wait_for_key('ended', 0);
my $calls = $redis->calls('hexists');
$proxy->let_go;
poll_until('the renewal to run', sub { $redis->calls('hexists') > $calls });
pause(0.5);
kill 'CONT', $watchdog;
$node->wait_for_loss('ended');
is($node->value('SELECT lost_reason FROM redis_locks'), 'expired', 'the lease has ended');
$brief->query_warns("SELECT redis_unlock('ended')", 'f', '01000', qr/expired/, 'told');

# ----------
# A renewal is answered when its lock has been given back: it counts for nothing
# ----------

# No guarantee speaks of it: it is what redis_lock_stats says.
$brief->query("SET lockredis.lease = '9s'; SELECT redis_lock('thrown')");
$rule = $proxy->rule(on => 'reply', match => 'thrown', action => 'hold');
$proxy->wait_for_rule($rule);
my $before = $node->lock_stat('renewals');
$brief->query("SELECT redis_unlock('thrown')");
$proxy->let_go;

# What comes next over the same connection: that answer has been read before.
my $of_next = "(SELECT renewals FROM redis_locks WHERE key = 'next')";
$brief->query("SELECT redis_lock('next')");
poll_until('the next lock to be renewed', sub { $node->value("SELECT $of_next") > 0 });
poll_until('no other renewal to have been counted',
	sub { $node->value("SELECT renewals - $of_next FROM redis_lock_stats") == $before });
pass('only the renewals of the next one are counted');
end_test($node, $redis);
