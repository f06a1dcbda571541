# Copyright (c) 2026, lockredis contributors

# A lock that is lost: design.md section 2, guarantees 6 (loss is never silent:
# every function of the holder says so, with time and reason, until the loss is
# acknowledged; a late renewal does not revive; what remains in Redis is given
# back; waiters of this server go on) and 7 (no resurrection), and what section
# 1 says of redis_unlock, redis_unlock_all, redis_extend and redis_force_unlock.

use strict;
use warnings FATAL => 'all';

use LockRedis::Test;
use LockRedis::Wait qw(limit);

# Leases have to outlast what a busy machine does between two statements.
my $lease_ms = limit(2) * 1000;
my $short_ms = $lease_ms / 4;
my $redis = lock_store;
my $proxy = $redis->proxy;
my $node = LockRedis::Node->create(
	'main',
	redis => $redis,
	proxy => $proxy,
	settings => {
		'lockredis.lease' => "${lease_ms}ms",
		'lockredis.command_timeout' => limit(2) . 's'
	});
my $other = $node->another(
	'other',
	redis => $redis,
	settings => { 'lockredis.lease' => "${lease_ms}ms" });
my $one = $node->session;
my $two = $node->session;

$_->wait_for_up foreach $node, $other;

# Afterwards Redis has every script, so that a fault meant for one request does
# not hit the attempt that only finds out that the script is missing.
sub warm_up
{
	$one->query_is(
		"SELECT redis_lock('warm')", '', 'warming up');
	poll_until('a renewal',
		sub { $node->value(q{SELECT sum(renewals) > 0 FROM redis_locks}) eq 't' });
	$one->query(
		"SELECT redis_lock('warm'); SELECT redis_unlock('warm'); SELECT redis_unlock('warm')"
	);
	return;
}

# A session that timed out leaves a silent node to the watchdog, which pauses
# between its attempts.
sub wait_until_reachable
{
	$proxy->clear;
	$node->wait_for_up;
	poll_until('the store to be asked again',
		sub { !$two->query("SELECT redis_is_locked('reachable')")->error });
	return;
}

sub wait_until_lost
{
	my ($key) = @_;

	return poll_until(
		"$key to be lost",
		sub {
			$node->value(
				"SELECT count(*) FROM redis_locks WHERE key = '$key' AND lost_at IS NOT NULL"
			) == 1;
		});
}

sub losses { return $node->value('SELECT losses FROM redis_lock_stats'); }

# Replace what a key holds by something else, as one step.
sub replace
{
	my ($key, @command) = @_;

	$redis->cmd('EVAL',
		'redis.call("DEL", KEYS[1]) return redis.call(unpack(ARGV))',
		1, $key, @command);
	return;
}

# Everything that the holder of a lost lock is told, up to the unlock that
# acknowledges the loss.  None of it may touch what is at the key by now.
sub is_lost
{
	my ($s, $key, $reason, $detail, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	subtest $name => sub {
		my $there = $redis->cmd('EXISTS', $key);
		my $ttl = $redis->cmd('PTTL', $key);

		like(
			$node->value(
				"SELECT granted, expires_in IS NULL, pid = "
				  . $s->pid
				  . ", lost_at BETWEEN acquired_at AND clock_timestamp(), lost_reason FROM redis_locks WHERE key = '$key'"
			),
			qr/^f\|t\|t\|t\|$reason\z/,
			'the row in redis_locks');
		$s->query_is("SELECT redis_is_held('$key'), redis_hold_count('$key')",
			'f|0', 'not held, count 0');
		$s->query_fails("SELECT redis_assert_held('$key')",
			'55000', $detail, 'redis_assert_held fails');
		$s->query_fails("SELECT redis_lock('$key')",
			'55000', $detail, 'redis_lock fails');
		$s->query_fails("SELECT redis_lock('$key', '1 minute')",
			'55000', $detail, 'redis_lock with a lease fails');
		$s->query_fails("SELECT redis_try_lock('$key')",
			'55000', $detail, 'redis_try_lock fails');
		$s->query_is("SELECT redis_extend('$key', '1 hour')",
			'f', 'redis_extend says no');
		$s->query_is("SELECT redis_extend('$key', NULL)",
			'f', 'redis_extend to be renewed says no');
		$s->query_is("SELECT redis_is_held('$key'), redis_hold_count('$key')",
			'f|0', 'still not held');
		$s->query_warns("SELECT redis_unlock('$key')",
			'f', '01000', qr/the lock "$key" was lost\n.*$detail/s,
			'redis_unlock says no, and why');
		$s->query_warns("SELECT redis_unlock('$key')",
			'f', '01000', qr/don't own/, 'all holds were dropped with it');
		$s->query_fails("SELECT redis_assert_held('$key')",
			'55000', qr/don't own/, 'and the loss is over');

		# What was there is there, and not for longer than before.
		is($redis->cmd('EXISTS', $key), $there, 'Redis has what it had');
		cmp_ok($redis->cmd('PTTL', $key), '<=', $ttl, 'for no longer');
	};
	return;
}

warm_up();

# ----------
# Found by a renewal
# ----------

my $losses = losses();
$one->query_is(
	"SELECT redis_lock('deleted') FROM generate_series(1, 3)",
	"\n\n", 'held three times');
$redis->cmd('DEL', 'deleted');
wait_until_lost('deleted');
is_lost($one, 'deleted', 'deleted', qr/deleted/, 'key deleted');
is(losses() - $losses, 1, 'one loss was counted');
$one->query_is("SELECT redis_try_lock('deleted'), redis_hold_count('deleted')",
	't|1', 'the lock can be taken again');
is_deeply([ values %{ $redis->hash('deleted') } ], [1], 'and is in Redis');
$one->query_is("SELECT redis_unlock('deleted')", 't', 'given back');

# The other owner's lease is its own business.
$one->query_is("SELECT redis_lock('taken')", '', 'held');
$redis->replace_owner('taken', 'somebody else:7');
wait_until_lost('taken');
is_lost($one, 'taken', 'taken by somebody else:7', qr/taken by somebody else:7/,
	'key taken by somebody else');
is_deeply($redis->hash('taken'), { 'somebody else:7' => 1 },
	'whose lock is as it was');
$one->query_is("SELECT redis_try_lock('taken')", 'f', 'and respected');
$redis->cmd('DEL', 'taken');

of_redis 'everything is a row' => sub {
	# Other types, too: with a TTL (a token lock) and without.
	$one->query_is("SELECT redis_lock('string'), redis_lock('list')", '|', 'held');
	replace('string', 'SET', 'string', 'secret token', 'PX', 60_000);
	replace('list', 'RPUSH', 'list', 'x');
	wait_until_lost($_) foreach qw(string list);
	is_lost($one, 'string', 'taken by \(string\)', qr/taken by \(string\)/,
		'key became a string');
	is_lost($one, 'list', 'taken by \(list\)', qr/taken by \(list\)/,
		'key became a list');
	is($redis->cmd('GET', 'string'), 'secret token', 'the string is as it was');
	is_deeply($redis->cmd('LRANGE', 'list', 0, -1), ['x'], 'the list as well');
	$redis->cmd('DEL', 'string', 'list');
};

# All at once; what another session waited for goes to it.
$one->query_is("SELECT redis_lock('flushed 1'), redis_lock('flushed 2')",
	'|', 'held');
$two->start("SELECT redis_lock('flushed 2')");
$node->wait_for_waiters('flushed 2', 1);
$redis->cmd('FLUSHALL');
wait_until_lost($_) foreach 'flushed 1', 'flushed 2';
is($two->wait->error, undef, 'a waiter of the same server goes on');
$two->query_is("SELECT redis_is_held('flushed 2')", 't', 'and has it');
is_lost($one, 'flushed 1', 'deleted', qr/deleted/, 'Redis was flushed');
is( $node->value(
		q{SELECT string_agg(concat_ws(' ', granted, lost_reason), ',' ORDER BY granted)
		  FROM redis_locks WHERE key = 'flushed 2'}),
	'f deleted,t',
	'the lost lock and its successor are both shown');
$one->query_warns("SELECT redis_unlock('flushed 2')",
	'f', '01000', qr/deleted/, 'the loser unlocks');
$two->query_is("SELECT redis_is_held('flushed 2'), redis_unlock('flushed 2')",
	't|t', 'which does not touch the successor');

# ----------
# redis_unlock_all and DISCARD ALL
# ----------

$one->query_is("SELECT redis_lock('all ' || i) FROM generate_series(1, 4) i",
	"\n\n\n", 'four locks');
$redis->cmd('DEL', 'all 2');
$redis->replace_owner('all 3', 'thief');
wait_until_lost($_) foreach 'all 2', 'all 3';
my $result = $one->query('SELECT redis_unlock_all()');
is($result->out, 2, 'redis_unlock_all counts what was held');
is_deeply(
	[ sort map { $_->sqlstate . ' ' . $_->message } $result->warnings ],
	[
		'01000 the lock "all 2" was lost',
		'01000 the lock "all 3" was lost'
	],
	'and warns of each lost lock');
is($node->value('SELECT count(*) FROM redis_locks'), 0, 'nothing is held');
is_deeply($redis->hash('all 3'), { thief => 1 }, 'the thief keeps his lock');
$redis->cmd('DEL', 'all 3');

# A warning that cannot be told in the client's encoding is an error; it does
# not keep the other locks from being given back.
my $latin = $node->session;
$latin->query_is(
	q{SELECT redis_lock(i || U&' \2603') FROM generate_series(1, 8) i},
	"\n" x 7, 'eight locks');
$redis->cmd('DEL', "5 \xe2\x98\x83");
poll_until('one to be lost',
	sub {
		$node->value('SELECT count(*) FROM redis_locks WHERE lost_at IS NOT NULL')
		  == 1;
	});
$latin->query("SET client_encoding = 'LATIN1'");
$latin->query_fails('SELECT redis_unlock_all()',
	'22P05', qr/LATIN1/, 'redis_unlock_all cannot warn');
nothing_left($node, $redis, name => 'but everything is given back');
$latin->quit;

$one->query_is("SELECT redis_lock('discard 1'), redis_lock('discard 2')",
	'|', 'two locks');
$redis->cmd('DEL', 'discard 1');
wait_until_lost('discard 1');
$one->query_is('DISCARD ALL', '', 'DISCARD ALL says nothing of a loss');
is($node->value('SELECT count(*) FROM redis_locks'), 0, 'nothing is held');
is_deeply([ $redis->all_keys ], [], 'nor in Redis');
$one->query_fails("SELECT redis_assert_held('discard 1')",
	'55000', qr/don't own/, 'the loss is over');
$one->query_is("SELECT redis_try_lock('discard 1'), redis_unlock('discard 1')",
	't|t', 'and the lock can be taken again');

# ----------
# Found by a request of the session itself
# ----------

# Given leases are not renewed, so that the request is the first to look.  The
# session's second lock shows that nothing else is lost with it.
$one->query_is("SELECT redis_lock('kept')", '', 'a lock that is kept');

$one->query_is("SELECT redis_lock('own', '1 hour')", '', 'held');
$redis->cmd('DEL', 'own');
$one->query_is("SELECT redis_is_held('own')", 't', 'nobody knows yet');
$losses = losses();
$one->query_warns("SELECT redis_unlock('own')",
	'f', '01000', qr/the lock "own" was lost\n.*deleted/s,
	'the final release finds the key deleted');
is(losses() - $losses, 1, 'which is counted');
$one->query_fails("SELECT redis_assert_held('own')",
	'55000', qr/don't own/, 'and there is nothing to acknowledge');

$one->query_is("SELECT redis_lock('own', '1 hour')", '', 'held');
$redis->replace_owner('own', 'thief');
$one->query_warns("SELECT redis_unlock('own')",
	'f', '01000', qr/the lock "own" was lost\n.*taken by thief/s,
	'the final release finds somebody else');
is_deeply($redis->hash('own'), { thief => 1 }, 'whose lock is not touched');
$redis->cmd('DEL', 'own');

of_redis 'everything is a row' => sub {
	$one->query_is("SELECT redis_lock('own', '1 hour')", '', 'held');
	replace('own', 'SET', 'own', 'x');
	$one->query_warns("SELECT redis_unlock('own')",
		'f', '01000', qr/the lock "own" was lost\n.*taken by \(string\)/s,
		'the final release finds another type');
	is($redis->cmd('GET', 'own'), 'x', 'which is not touched');
	$redis->cmd('DEL', 'own');
};

$two->query_is("SELECT redis_lock('own ' || i, '1 hour') FROM generate_series(1, 3) i",
	"\n\n", 'three locks');
$redis->cmd('DEL', 'own 2');
$result = $two->query('SELECT redis_unlock_all()');
is($result->out, 2, 'redis_unlock_all does not count what it finds lost');
is_deeply([ map { $_->sqlstate . ' ' . $_->message } $result->warnings ],
	['01000 the lock "own 2" was lost'], 'and warns');

$one->query_is("SELECT redis_lock('own', '1 hour') FROM generate_series(1, 3)",
	"\n\n", 'held three times');
$redis->cmd('DEL', 'own');
$one->query_warns("SELECT redis_unlock('own')",
	'f', '01000', qr/the lock "own" was lost\n.*deleted/s,
	'a partial release finds the key deleted');
is($redis->cmd('EXISTS', 'own'), 0, 'and does not write it');
$one->query_warns("SELECT redis_unlock('own')",
	'f', '01000', qr/don't own/, 'the other holds were dropped');

$one->query_is("SELECT redis_lock('own', '1 hour')", '', 'held');
$redis->cmd('DEL', 'own');
$one->query_fails("SELECT redis_lock('own', '1 hour')",
	'55000', qr/deleted/, 'taking it again finds the key deleted');
is($redis->cmd('EXISTS', 'own'), 0, 'and does not write it');
is_lost($one, 'own', 'deleted', qr/deleted/, 'found by taking it again');

$one->query_is("SELECT redis_lock('own', '1 hour')", '', 'held');
$redis->replace_owner('own', 'thief');
$one->query_fails("SELECT redis_lock('own', '1 hour')",
	'55000', qr/taken by thief/, 'taking it again finds somebody else');
is_lost($one, 'own', 'taken by thief', qr/taken by thief/,
	'taken, found by taking it again');
$redis->cmd('DEL', 'own');

$one->query_is("SELECT redis_lock('own', '1 hour')", '', 'held');
$redis->cmd('DEL', 'own');
$one->query_is("SELECT redis_extend('own', '2 hours')",
	'f', 'an extension finds the key deleted');
is($redis->cmd('EXISTS', 'own'), 0, 'and does not write it');
is_lost($one, 'own', 'deleted', qr/deleted/, 'found by an extension');

$one->query_is("SELECT redis_is_held('kept'), redis_unlock('kept')",
	't|t', 'the other lock was never in question');

# ----------
# Taken by force
# ----------

# In this server it is known at once, though nothing is renewed.
$one->query_is("SELECT redis_lock('forced', '1 hour')", '', 'held');
my $three = $node->session;
$three->start("SELECT redis_lock('forced', '1 hour')");
$node->wait_for_waiters('forced', 1);
$two->query_is("SELECT redis_force_unlock('forced')", 't',
	'taken away by another session');
$one->query_is("SELECT redis_is_held('forced')",
	'f', 'the holder knows at once');
is($three->wait->error, undef, 'a waiter goes on');
$three->query_is("SELECT redis_is_held('forced'), redis_unlock('forced')",
	't|t', 'and has had it');
is_lost($one, 'forced', 'forced', qr/by force/, 'taken by force');
$three->quit;

$one->query_is("SELECT redis_lock('forced')", '', 'held');
$one->query_is("SELECT redis_force_unlock('forced')", 't',
	'taken away by the holder itself');
is_lost($one, 'forced', 'forced', qr/by force/, "taken by the holder's force");
$one->query_is("SELECT redis_force_unlock('forced')", 'f',
	'nobody has it: false');

of_redis 'there is one server' => sub {
	# From another server it is a deletion like any other.
	$one->query_is("SELECT redis_lock('forced')", '', 'held');
	is($other->value("SELECT redis_force_unlock('forced')"),
		't', 'taken away by another server');
	wait_until_lost('forced');
	is_lost($one, 'forced', 'deleted', qr/deleted/,
		'taken by force of another server');
};

# ----------
# Expired
# ----------

$one->query_is("SELECT redis_lock('given', '${short_ms}ms')", '', 'held');
$two->start("SELECT redis_lock('given')");
wait_until_lost('given');
is($two->wait->error, undef, 'a waiter takes over from a lost holder');
$one->query_is("SELECT redis_is_held('given')", 'f', 'not held');
$two->query_is("SELECT redis_unlock('given')", 't', 'given back by the second');
is_lost($one, 'given', 'expired', qr/expired/, 'a given lease that ran out');

# The watchdog stopped: the holder judges by itself.
my $watchdog = $node->watchdog_pid;
kill 'STOP', $watchdog;
$one->query_is("SELECT redis_lock('given', '${short_ms}ms')", '', 'held');
poll_until('the lease to end',
	sub { $one->value("SELECT redis_is_held('given')") eq 'f' });
$one->query_fails("SELECT redis_assert_held('given')",
	'55000', qr/expired/, 'expired without the watchdog');
kill 'CONT', $watchdog;
is_lost($one, 'given', 'expired', qr/expired/,
	'a lease that ran out while the watchdog was stopped');

# What follows needs a store that can be out of reach, and replies that can be
# late.
of_redis 'neither can be' => sub {

	# A lease that ended while its release was on the way is no error.
	$one->query_is("SELECT redis_lock('given', '${short_ms}ms')", '', 'held');
	my $rule =
	  $proxy->rule(on => 'reply', match => 'given', action => 'hold');
	$one->start("SELECT redis_unlock('given')");
	$proxy->wait_for_rule($rule);
	poll_until('the lease to end', sub { $redis->cmd('EXISTS', 'given') == 0 });
	pause($short_ms / 1000);
	$proxy->release;
	$result = $one->wait;
	is($result->out . $result->{raw},
		't', 'a release that was answered after the end of the lease');

	# ----------
	# Replies that come after the end of the lease
	# ----------

	# one takes a short lease and takes it again with a long one; Redis has
	# lengthened the lease, but the reply is held until the short one has ended.
	$one->query_is("SELECT redis_lock('late', '${short_ms}ms')", '', 'held');
	$rule = $proxy->rule(on => 'reply', match => 'late', action => 'hold');
	$one->start("SELECT redis_lock('late', '1 hour')");
	$proxy->wait_for_rule($rule);
	wait_until_lost('late');
	$proxy->release;
	$one->wait->fails('55000', qr/expired/,
		'taking it again does not succeed after the end of the lease');
	poll_until('what remained in Redis to be given back',
		sub { $redis->cmd('EXISTS', 'late') == 0 });
	is_lost($one, 'late', 'expired', qr/expired/, 'taken again too late');

	$one->query_is("SELECT redis_lock('late', '${short_ms}ms')", '', 'held');
	$rule = $proxy->rule(on => 'reply', match => 'late', action => 'hold');
	$one->start("SELECT redis_extend('late', '1 hour')");
	$proxy->wait_for_rule($rule);
	wait_until_lost('late');
	$proxy->release;
	$result = $one->wait;
	is($result->out . $result->{raw},
		'f', 'an extension does not succeed after the end of the lease');
	poll_until('what remained in Redis to be given back',
		sub { $redis->cmd('EXISTS', 'late') == 0 });
	is_lost($one, 'late', 'expired', qr/expired/, 'extended too late');

	# The same with a renewal: the reply is held until the lease, as it was before
	# the renewal, has ended.  Then it comes, and says that all is well.
	$rule = $proxy->rule(
		on => 'reply', match => 'late', skip => 1, action => 'hold');
	$one->query_is("SELECT redis_lock('late')", '', 'held');
	$proxy->wait_for_rule($rule);
	wait_until_lost('late');
	$proxy->release;
	poll_until('what remained in Redis to be given back',
		sub { $redis->cmd('EXISTS', 'late') == 0 });
	is( $node->value(q{SELECT renewals FROM redis_locks WHERE key = 'late'}),
		0, 'the late reply did not count');
	is_lost($one, 'late', 'expired', qr/expired/,
		'a late renewal reply does not revive');

	# The renewal itself is held until the lease has ended in Redis, too, and
	# somebody else has the key.
	$rule = $proxy->rule(match => 'late', skip => 1, action => 'hold');
	$one->query_is("SELECT redis_lock('late')", '', 'held');
	$proxy->wait_for_rule($rule);
	wait_until_lost('late');
	poll_until('the lease to end in Redis',
		sub { $redis->cmd('HSETNX', 'late', 'next', 1) == 1 });
	$redis->cmd('PEXPIRE', 'late', 60_000);
	my $calls = $redis->script_calls;
	$proxy->release;
	poll_until('the renewal to run', sub { $redis->script_calls > $calls });
	is_deeply($redis->hash('late'), { next => 1 },
		'a late renewal does not touch the next owner');
	is_lost($one, 'late', 'expired', qr/expired/, 'a late renewal');
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
	wait_until_lost('remains');
	is($redis->cmd('PTTL', 'remains'), -1, 'Redis has it without end');
	$proxy->clear;
	is($waiter->wait->error, undef, 'given back, and somebody else has it');
	is_lost($one, 'remains', 'expired', qr/expired/,
		'declared lost, then given back');
	$waiter->query_is("SELECT redis_is_held('remains'), redis_unlock('remains')",
		't|t', 'the next owner was not disturbed');
	wait_until_reachable();

	# The same, but the loss is acknowledged before anything can be given back.
	$rule = $proxy->rule(
		on => 'reply', match => 'remains', skip => 1, action => 'drop', times => 0);
	$one->query_is("SELECT redis_lock('remains')", '', 'held');
	$proxy->wait_for_rule($rule);
	$redis->cmd('PERSIST', 'remains');
	wait_until_lost('remains');
	$one->query_warns("SELECT redis_unlock('remains')",
		'f', '01000', qr/expired/, 'acknowledged');
	$proxy->clear;
	poll_until('it to be given back',
		sub { $redis->cmd('EXISTS', 'remains') == 0 });
	nothing_left([ $node, $other ], $redis,
		name => 'nothing remains after the loss was acknowledged');
	wait_until_reachable();

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
		$losses = losses();
		$rule = $proxy->rule(match => 'overlap', skip => 1, action => 'hold');
		$one->query_is("SELECT redis_lock('overlap')", '', 'held');
		$proxy->wait_for_rule($rule);
		$one->query_is("SELECT redis_unlock('overlap')", 't',
			'given back while a renewal is on its way');
		if ($who eq 'elsewhere')
		{
			$redis->cmd('HSET', 'overlap', 'elsewhere', 1);
			$redis->cmd('PEXPIRE', 'overlap', 1000);
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
			poll_until('the lease to end', sub { !$redis->cmd('EXISTS', 'overlap') },
				1.5);
			pass("a renewal does not lengthen the lock of a client $who");
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
		is(losses(), $losses, 'nobody has lost anything');
	}

	# ----------
	# Redis goes away
	# ----------

	# For longer than the lease.
	$one->query_is("SELECT redis_lock('away')", '', 'held');
	$redis->stop;
	wait_until_lost('away');
	$one->query_is("SELECT redis_is_held('away')", 'f', 'not held');
	$one->query_fails("SELECT redis_lock('away')",
		'55000', qr/expired/, 'lost, not unreachable');
	$redis->start;
	wait_until_reachable();
	is_lost($one, 'away', 'expired', qr/expired/,
		'Redis was away for longer than the lease');
	warm_up();

	# The same, with the data still there afterwards: given back.
	$one->query_is("SELECT redis_lock('away')", '', 'held');
	$redis->cmd('PERSIST', 'away');
	$redis->stop(keep => 1);
	wait_until_lost('away');
	$redis->start;
	poll_until('it to be given back', sub { $redis->cmd('EXISTS', 'away') == 0 });
	wait_until_reachable();
	is_lost($one, 'away', 'expired', qr/expired/, 'Redis was away, data kept');

	# Only for a moment, but without its data.  The lease is longer than a restart
	# takes, so it is the next renewal that finds out.
	my $long_ms = limit(6) * 1000;
	$one->query_is("SET lockredis.lease = '${long_ms}ms'; SELECT redis_lock('empty')",
		'', 'held');
	$redis->restart;
	wait_until_lost('empty');
	is_lost($one, 'empty', 'deleted', qr/deleted/, 'Redis was restarted empty');
	$waiter->quit;
};

nothing_left([ $node, $other ], $redis);
$_->quit foreach $one, $two;
done_testing();
