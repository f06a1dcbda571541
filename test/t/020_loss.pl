# Copyright (c) 2026, lockredis contributors

# A lock that is lost: every function of the holder says so, with time and reason,
# until the loss is acknowledged; waiters of this server go on; nothing brings it
# back.  Found by a renewal, by a request, taken by force, expired; told late; and back again, and
# made longer by a request that is late.  (What overlaps a release, or the lock of the next owner, a
# reply that comes too late and revives nothing, and what is in Redis when it is back after the end
# of a lease are the simulator's: its mutants sent_any_owner, owner_unlooked, lua_renew_owner,
# expiry_is_gone, revive, from_reply and extend_from_reply.)
# Proves G5, G6, G7.

use LockRedis::Test;

# Leases have to outlast what a busy machine does between two statements.
my $lease_ms = limit(6) * 1000;
my $short_ms = $lease_ms / 4;
my $redis = lock_store;
my $proxy = $redis->proxy;
my $node = LockRedis::Node->create(
	'main',
	redis => $redis,
	proxy => $proxy,
	settings => {
		'lockredis.lease' => "${lease_ms}ms",
		'lockredis.command_timeout' => limit(6) . 's'
	});
my $other = $node->another(
	'other',
	redis => $redis,
	settings => { 'lockredis.lease' => "${lease_ms}ms" });
my ($one, $two) = map { $node->session } 1 .. 2;

$_->wait_for_up foreach $node, $other;

# Replace what a key holds by something else, as one step.
sub replace ($key, @command)
{
	$redis->cmd('EVAL',
		'redis.call("DEL", KEYS[1]) return redis.call(unpack(ARGV))',
		1, $key, @command);
	return;
}

$node->warm_up($one, "${lease_ms}ms");

# ----------
# Found by a renewal
# ----------

my $losses = $node->lock_stat('losses');
$one->query_is(
	"SELECT redis_lock('deleted') FROM generate_series(1, 3)",
	"\n\n", 'held three times');
$redis->cmd('DEL', 'deleted');
$node->wait_for_loss('deleted');
$one->is_lost($redis, 'deleted', 'deleted', qr/deleted/, 'key deleted');
is($node->lock_stat('losses') - $losses, 1, 'one loss was counted');
$one->query_is("SELECT redis_try_lock('deleted'), redis_hold_count('deleted')",
	't|1', 'the lock can be taken again');
is_deeply([ values %{ $redis->hash('deleted') } ], [1], 'and is in Redis');
$one->query_is("SELECT redis_unlock('deleted')", 't', 'given back');

# The other owner's lease is its own business.
$one->query_is("SELECT redis_lock('taken')", '', 'held');
$redis->replace_owner('taken', 'somebody else:7');
$node->wait_for_loss('taken');
my $newcomer = $redis->somebody('somebody else:7');
my $thief = $redis->somebody('thief');
$one->is_lost($redis, 'taken', "taken by $newcomer", qr/taken by \Q$newcomer\E/,
	'key taken by somebody else');
is_deeply($redis->hash('taken'), { 'somebody else:7' => 1 }, 'whose lock is as it was');
$one->query_is("SELECT redis_try_lock('taken')", 'f', 'and respected');
$redis->cmd('DEL', 'taken');

of_redis 'everything is a row' => sub {
	# Other types, too: with a TTL (a token lock) and without.
	$one->query_is("SELECT redis_lock('string'), redis_lock('list')", '|', 'held');
	replace('string', 'SET', 'string', 'secret token', 'PX', 60_000);
	replace('list', 'RPUSH', 'list', 'x');
	$node->wait_for_loss($_) foreach qw(string list);
	$one->is_lost($redis, 'string', 'taken by \(string\)', qr/taken by \(string\)/,
		'key became a string');
	$one->is_lost($redis, 'list', 'taken by \(list\)', qr/taken by \(list\)/, 'key became a list');
	is($redis->cmd('GET', 'string'), 'secret token', 'the string is as it was');
	is_deeply($redis->cmd('LRANGE', 'list', 0, -1), ['x'], 'the list as well');
	$redis->cmd('DEL', 'string', 'list');
};

# All at once; what another session waited for goes to it.
$one->query_is("SELECT redis_lock('flushed 1'), redis_lock('flushed 2')", '|', 'held');
$two->start("SELECT redis_lock('flushed 2')");
$node->wait_for_waiters('flushed 2', 1);
$redis->cmd('FLUSHALL');
$node->wait_for_loss($_) foreach 'flushed 1', 'flushed 2';
is($two->wait->error, undef, 'a waiter of the same server goes on');
$two->query_is("SELECT redis_is_held('flushed 2')", 't', 'and has it');
$one->is_lost($redis, 'flushed 1', 'deleted', qr/deleted/, 'Redis was flushed');
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
$node->wait_for_loss($_) foreach 'all 2', 'all 3';
my $result = $one->query('SELECT redis_unlock_all()');
is($result->out, 2, 'redis_unlock_all counts what was held');
is_deeply(
	[ sort map { $_->sqlstate . ' ' . $_->message } $result->warnings ],
	[
		'01000 the lock "all 2" was lost',
		'01000 the lock "all 3" was lost'
	],
	'and warns of each lost lock');
is($node->count_locks, 0, 'nothing is held');
is_deeply($redis->hash('all 3'), { thief => 1 }, 'the thief keeps his lock');
$redis->cmd('DEL', 'all 3');

# A warning that cannot be told in the client's encoding is an error; it does
# not keep the other locks from being given back.
my $latin = $node->session;
$latin->query_is(
	q{SELECT redis_lock(i || U&' \2603') FROM generate_series(1, 8) i},
	"\n" x 7, 'eight locks');
$redis->cmd('DEL', "5 \xe2\x98\x83");
poll_until('one to be lost', sub { $node->count_locks('lost_at IS NOT NULL') == 1 });
$latin->query("SET client_encoding = 'LATIN1'");
$latin->query_fails('SELECT redis_unlock_all()',
	'22P05', qr/LATIN1/, 'redis_unlock_all cannot warn');
nothing_left($node, $redis, name => 'but everything is given back');
$latin->quit;

$one->query_is("SELECT redis_lock('discard 1'), redis_lock('discard 2')", '|', 'two locks');
$redis->cmd('DEL', 'discard 1');
$node->wait_for_loss('discard 1');
$one->query_is('DISCARD ALL', '', 'DISCARD ALL says nothing of a loss');
is($node->count_locks, 0, 'nothing is held');
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

# [ what has happened, by what, the reason ]
my @changes = (
	[ 'deleted', sub { $redis->cmd('DEL', 'own') }, 'deleted' ],
	[ 'taken', sub { $redis->replace_owner('own', 'thief') }, "taken by $thief" ]);
of_redis 'everything is a row' => sub {
	push @changes, [ 'a string', sub { replace('own', 'SET', 'own', 'x') }, 'taken by (string)' ];
};
foreach my $change (@changes)
{
	my ($what, $do, $reason) = @$change;

	foreach my $call ('redis_unlock', 'redis_lock', 'redis_extend')
	{
		my $name = "$what, found by $call";

		$losses = $node->lock_stat('losses');
		$one->query_is("SELECT redis_lock('own', '1 hour')", '', "$name: held");
		$do->();
		my @is = (scalar $redis->cmd('EXISTS', 'own'), $redis->cmd('PTTL', 'own'));
		$one->query_is("SELECT redis_is_held('own')", 't', "$name: nobody knows yet");
		if ($call eq 'redis_unlock')
		{
			$one->query_warns("SELECT redis_unlock('own')",
				'f', '01000', qr/the lock "own" was lost\n.*\Q$reason\E/s, "$name: told");
			$one->query_fails("SELECT redis_assert_held('own')",
				'55000', qr/don't own/, "$name: there is nothing to acknowledge");
		}
		else
		{
			my $result = $one->query("SELECT $call('own', '2 hours')");

			$call eq 'redis_lock'
			  ? $result->fails('55000', qr/\Q$reason\E/, $name)
			  : is($result->out . $result->{raw}, 'f', $name);
			$one->is_lost($redis, 'own', quotemeta $reason, qr/\Q$reason\E/, $name);
		}
		is($redis->cmd('EXISTS', 'own'), $is[0], "$name: what is there is left alone");
		cmp_ok($redis->cmd('PTTL', 'own'), '<=', $is[1], "$name: and not lengthened");
		is($node->lock_stat('losses') - $losses, 1, "$name: counted once");
		$redis->cmd('DEL', 'own');
	}
}

$one->query_is("SELECT redis_lock('own', '1 hour') FROM generate_series(1, 3)",
	"\n\n", 'held three times');
$redis->cmd('DEL', 'own');
$one->query_is("SELECT redis_unlock('own'), redis_unlock('own')",
	't|t', 'a partial release asks nobody');
$one->query_warns("SELECT redis_unlock('own')",
	'f', '01000', qr/the lock "own" was lost\n.*deleted/s,
	'the last one finds the key deleted');

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
$two->query_is("SELECT redis_force_unlock('forced')", 't', 'taken away by another session');
$one->query_is("SELECT redis_is_held('forced')", 'f', 'the holder knows at once');
is($three->wait->error, undef, 'a waiter goes on');
$three->query_is("SELECT redis_is_held('forced'), redis_unlock('forced')", 't|t', 'and has had it');
$one->is_lost($redis, 'forced', 'forced', qr/by force/, 'taken by force');
$three->quit;

of_redis 'there is one server' => sub {
	# From another server it is a deletion like any other.
	$one->query_is("SELECT redis_lock('forced')", '', 'held');
	is($other->value("SELECT redis_force_unlock('forced')"), 't', 'taken away by another server');
	$node->wait_for_loss('forced');
	$one->is_lost($redis, 'forced', 'deleted', qr/deleted/, 'taken by force of another server');
};

# ----------
# Expired
# ----------

$one->query_is("SELECT redis_lock('given', '${short_ms}ms')", '', 'held');
$two->start("SELECT redis_lock('given')");
$node->wait_for_loss('given');
is($two->wait->error, undef, 'a waiter takes over from a lost holder');
$one->query_is("SELECT redis_is_held('given')", 'f', 'not held');
$two->query_is("SELECT redis_unlock('given')", 't', 'given back by the second');
$one->is_lost($redis, 'given', 'expired', qr/expired/, 'a given lease that ran out');

# ----------
# Answers that come late
# ----------

of_redis 'nothing that could keep a reply' => sub {
	$node->set('lockredis.command_timeout' => '60s');

	# A lease that ended while its release was on the way is no error.
	my $rule = $proxy->rule(on => 'reply', match => 'late', skip => 1, action => 'hold');
	$one->start("SELECT redis_lock('late', '${short_ms}ms'); SELECT redis_unlock('late')");
	$proxy->wait_for_rule($rule);
	poll_until('the lease to end', sub { $redis->cmd('EXISTS', 'late') == 0 });
	pause($short_ms / 1000);
	$proxy->release;
	$result = $one->wait;
	is($result->out . $result->{raw},
		"\nt", 'a release that was answered after the end of the lease');

	# A lease that has ended is no key that was deleted.
	#
	#   watchdog                          Redis
	#   sends a renewal, which is late
	#   does not run
	#                                     the lease ends
	#                                     the renewal: there is no such lock
	#   runs, and reads that
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

	# A renewal is answered when its lock has been given back: it counts for nothing.  (No guarantee
	# speaks of it: it is what redis_lock_stats says.)
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

	# A lock that was lost is made longer by a request that was under way, as it is back by then.
	#
	#   S                                 watchdog              Redis
	#   takes it again, which is late
	#                                                           the key is gone
	#                                     the lock is lost
	#                                                           a replica that has it is the master
	#   is answered: for 20 minutes
	$brief->query("SELECT redis_unlock_all(), redis_lock('back')");
	my $owner = $redis->owner_of('back');
	$rule = $proxy->rule(on => 'request', match => '1200000', action => 'hold');
	$brief->start("SELECT redis_lock('back', '20min')");
	$proxy->wait_for_rule($rule);
	$redis->cmd('DEL', 'back');
	$node->wait_for_loss('back');
	$redis->cmd('HSET', 'back', $owner, 1);
	$redis->cmd('PEXPIRE', 'back', 60_000);
	$calls = $redis->calls('pexpire');
	$proxy->let_go;
	$brief->wait->fails('55000', qr/deleted/, 'lost before it was taken again');
	ok($redis->calls('pexpire') > $calls, 'and yet it was made longer');
	poll_until('the key to be released', sub { $redis->cmd('EXISTS', 'back') == 0 });
	$brief->query_warns("SELECT redis_unlock('back')", 'f', '01000', qr/deleted/, 'told');

	# Likewise by a renewal, if the session finds the loss.
	$brief->query("SELECT redis_lock('back')");
	$owner = $redis->owner_of('back');
	$rule = $proxy->rule(on => 'request', match => $owner, action => 'hold');
	$proxy->wait_for_rule($rule);
	$redis->cmd('DEL', 'back');
	$brief->query_is("SELECT redis_extend('back', '1h')", 'f', 'lost while it is renewed');
	$redis->cmd('HSET', 'back', $owner, 1);
	$proxy->let_go;
	poll_until('the key to be released, too', sub { $redis->cmd('EXISTS', 'back') == 0 });
	$brief->query_warns("SELECT redis_unlock('back')", 'f', '01000', qr/deleted/, 'told');
};

end_test([ $node, $other ], $redis);
