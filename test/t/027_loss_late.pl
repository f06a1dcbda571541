# Copyright (c) 2026, lockredis contributors

# A lock that is lost while Redis is slow, silent or away: a reply or a renewal
# that comes after the end of the lease revives nothing and does not touch the
# next owner; what remains in Redis is given back; a renewal that overlaps a
# release is nobody's loss, and one that is answered then counts for nothing; a lease that
# has ended is no key that was deleted.
# Proves G5, G6, G7.

use LockRedis::Test;

# Leases have to outlast what a busy machine does between two statements.
my $lease_ms = limit(5) * 1000;
my $short_ms = $lease_ms / 2;
my ($node, $redis, $proxy) = LockRedis::Node->create_behind_proxy(
	'main',
	settings => {
		'lockredis.lease' => "${lease_ms}ms",
		'lockredis.command_timeout' => limit(12) . 's'
	});
my $other = LockRedis::Node->create(
	'other',
	redis => $redis,
	settings => { 'lockredis.lease' => "${lease_ms}ms" });
my $one = $node->session;
my $two = $node->session;

$other->wait_for_up;

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

# one takes a short lease and takes it again with a long one; Redis has
# lengthened the lease, but the reply is held until the short one has ended.
$rule = $proxy->rule(on => 'reply', match => 'late', skip => 1, action => 'hold');
$one->start("SELECT redis_lock('late', '${short_ms}ms'); SELECT redis_lock('late', '1 hour')");
$proxy->wait_for_rule($rule);
$node->wait_for_loss('late');
$proxy->release;
$one->wait->fails('55000', qr/expired/,
	'taking it again does not succeed after the end of the lease');
poll_until('what remained in Redis to be given back',
	sub { $redis->cmd('EXISTS', 'late') == 0 });
$one->is_lost($redis, 'late', 'expired', qr/expired/, 'taken again too late');

$rule = $proxy->rule(on => 'reply', match => 'late', skip => 1, action => 'hold');
$one->start("SELECT redis_lock('late', '${short_ms}ms'); SELECT redis_extend('late', '1 hour')");
$proxy->wait_for_rule($rule);
$node->wait_for_loss('late');
$proxy->release;
$result = $one->wait;
is($result->out . $result->{raw},
	"\nf", 'an extension does not succeed after the end of the lease');
poll_until('what remained in Redis to be given back',
	sub { $redis->cmd('EXISTS', 'late') == 0 });
$one->is_lost($redis, 'late', 'expired', qr/expired/, 'extended too late');

# The same with a renewal: the reply is held until the lease, as it was before
# the renewal, has ended.  Then it comes, and says that all is well.
$rule = $proxy->rule(
	on => 'reply', match => 'late', skip => 1, action => 'hold');
$one->query_is("SELECT redis_lock('late')", '', 'held');
$proxy->wait_for_rule($rule);
$node->wait_for_loss('late');
$proxy->release;
poll_until('what remained in Redis to be given back',
	sub { $redis->cmd('EXISTS', 'late') == 0 });
is( $node->value(q{SELECT renewals FROM redis_locks WHERE key = 'late'}),
	0, 'the late reply did not count');
$one->is_lost($redis, 'late', 'expired', qr/expired/,
	'a late renewal reply does not revive');

# The renewal itself is held until the lease has ended in Redis, too, and
# somebody else has the key.
$rule = $proxy->rule(match => 'late', skip => 1, action => 'hold');
$one->query_is("SELECT redis_lock('late')", '', 'held');
$proxy->wait_for_rule($rule);
$node->wait_for_loss('late');
$redis->wait_for_key('late', 0);
$redis->foreign_lock('late', owner => 'next');
my $calls = $redis->script_calls;
$proxy->release;
poll_until('the renewal to run', sub { $redis->script_calls > $calls });
is_deeply($redis->hash('late'), { next => 1 },
	'a late renewal does not touch the next owner');
$one->is_lost($redis, 'late', 'expired', qr/expired/, 'a late renewal');
$redis->cmd('DEL', 'late');

# ----------
# What remains in Redis after a loss is given back
# ----------

# Renewals run, but none is answered: Redis has the lock when we have declared
# it lost.  It has been made to last for ever there, so nothing but the
# watchdog can remove it; a session of another server waits for that.
my $waiter = $other->session;
$rule = $proxy->rule(
	on => 'reply', match => 'remains', skip => 1, action => 'drop', times => 0);
$one->query_is("SELECT redis_lock('remains')", '', 'held');
$proxy->wait_for_rule($rule);
$redis->cmd('PERSIST', 'remains');
$waiter->start("SELECT redis_lock('remains')");
$other->wait_for_waiters('remains', 1);
$node->wait_for_loss('remains');
is($redis->cmd('PTTL', 'remains'), -1, 'Redis has it without end');
$proxy->clear;
is($waiter->wait->error, undef, 'given back, and somebody else has it');
$one->is_lost($redis, 'remains', 'expired', qr/expired/,
	'declared lost, then given back');
$waiter->query_is("SELECT redis_is_held('remains'), redis_unlock('remains')",
	't|t', 'the next owner was not disturbed');
$proxy->clear;
$node->wait_until_asked($two);

# ----------
# A renewal that overlaps a release
# ----------

# The watchdog's renewal is held on the way.  Meanwhile one gives the lock back
# over its own connection, and somebody else takes it: another session of this
# server, whose hold may be in the same slot, and then a client elsewhere.
# When the renewal arrives it must neither touch their lock nor have anybody
# marked lost.
foreach my $who ('of this server', 'elsewhere')
{
	my $losses = $node->lock_stat('losses');
	$rule = $proxy->rule(match => 'overlap', skip => 1, action => 'hold');
	$one->query_is("SELECT redis_lock('overlap')", '', 'held');
	$proxy->wait_for_rule($rule);
	$one->query_is("SELECT redis_unlock('overlap')", 't',
		'given back while a renewal is on its way');
	if ($who eq 'elsewhere')
	{
		$redis->foreign_lock('overlap', owner => 'elsewhere', ms => 1000);
	}
	else
	{
		$two->query_is("SELECT redis_lock('overlap', '10 minutes')",
			'', 'taken by another session');
	}
	my $hash = $redis->hash('overlap');
	my $ttl = $redis->cmd('PTTL', 'overlap');
	$calls = $redis->script_calls;
	$proxy->release;
	poll_until('the renewal to run', sub { $redis->script_calls > $calls });
	if ($who eq 'elsewhere')
	{
		cmp_ok($redis->cmd('PTTL', 'overlap'), '<=', 1000,
			"a renewal does not lengthen the lock of a client $who");
		poll_until('the lease to end', sub { !$redis->cmd('EXISTS', 'overlap') });
	}
	else
	{
		is_deeply($redis->hash('overlap'), $hash,
			"a renewal does not touch the lock of a session $who");
		cmp_ok($redis->cmd('PTTL', 'overlap'), '<=', $ttl, 'nor its lease');
	}

	# One more round trip of the watchdog: it has read that reply by then.
	$one->query_is("SELECT redis_lock('after')", '', 'another lock');
	poll_until('its renewal',
		sub {
			$node->value(
				q{SELECT renewals > 0 FROM redis_locks WHERE key = 'after'})
			  eq 't';
		});
	$one->query_is("SELECT redis_unlock('after')", 't', 'given back');
	if ($who ne 'elsewhere')
	{
		$two->query_is(
			"SELECT redis_is_held('overlap'), redis_unlock('overlap')",
			't|t', 'the next holder is not marked lost');
	}
	is($node->lock_stat('losses'), $losses, 'nobody has lost anything');
}

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
$calls = $redis->calls('hexists');
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
$_->quit foreach $brief, $waiter;
nothing_left([ $node, $other ], $redis);
$_->quit foreach $one, $two;
done_testing();
