# Copyright (c) 2026, lockredis contributors

# Semaphores and latches when answers are not read: permits that nobody knows to have are
# given back; what is given back or counted down counts once, whether the request arrives,
# is late, is repeated, or was cancelled; so does what a COMMIT counts while Redis is away;
# a latch that is awaited leaves nothing; Redis that refuses.  And permits of holds and by an id.
# (Other moments of a cancel, of the end of a session and of a lost answer are the simulator's: its
# mutants counts_abandoned, counts_unanswered, semaphore_not_undone, give_up_quietly and
# lua_*.)
# Proves G1, G4, G43.

use LockRedis::Test;
use LockRedis::Topic::Cancels;

start_servers();

my $soon = limit(60);

sub no_rows
{
	return poll_until('no row of the lock table',
		sub { $node->count_locks == 0 });
}

# The script of that kind and verb is called with the key as its first.
sub request_of ($key) { return '$' . length($key) . "\r\n$key\r\n"; }

# The scripts are there, so that what is held is no question for one.
$two->query("SELECT redis_semaphore_release('warm'), redis_semaphore_acquire('warm'), "
	. "redis_latch_count_down('warm2'), redis_latch_wait('warm2')");

#
# Permits
#
foreach my $gone (0, 1)
{
	my $one = $node->connected_session;

	$redis->cmd('SET', 'sem', 5);
	hold_next(request_of('sem'), on => 'reply');
	$one->start("SELECT redis_semaphore_acquire('sem', 2)");
	rule_acted();
	is($redis->cmd('GET', 'sem'), 3, 'taken');
	$redis->cmd('DEL', 'sem') if $gone;
	$one->cancel;
	$one->wait($soon)->fails('57014', qr/user request/, 'cancelled');
	$proxy->let_go;
	no_rows();
	is($redis->cmd('GET', 'sem'), $gone ? undef : 5, $gone ? 'a semaphore that has gone is not made anew' : 'given back');
	is($redis->cmd('ZCARD', 'lockredis_tickets:{sem}') // 0, 0, 'no ticket');
	$one->quit;
}

#
# What counts once
#
my @counts = (
	[ 'latch', sub { $redis->cmd('SET', 'c', 10) }, "SELECT redis_latch_count_down('c')", 9 ],
	[ 'semaphore', sub { $redis->cmd('SET', 'c', 8) }, "SELECT redis_semaphore_release('c')", 9 ]);

foreach (@counts)
{
	my ($name, $begin, $sql, $after) = @$_;

	# The connection breaks after the request: it is repeated at once.
	$begin->();
	my $one = $node->connected_session;
	my $id = $proxy->rule(match => request_of('c'), action => 'cut');
	$one->query_is($sql, $name eq 'latch' ? 9 : '', "$name: broken, and repeated");
	$proxy->wait_for_rule($id);
	is($redis->cmd('GET', 'c'), 9, "$name: counted once");
	my $tickets = $redis->cmd('ZCARD', 'lockredis_tickets:{c}');

	# Its ticket stays: the first request might still arrive.
	$one->query($sql);
	is($redis->cmd('ZCARD', 'lockredis_tickets:{c}'), $tickets + 1, "$name: its ticket stays");
	$one->query($sql);
	is($redis->cmd('ZCARD', 'lockredis_tickets:{c}'), $tickets + 1, "$name: that of the next does not");
	$proxy->clear;

	# No answer in time
	$begin->();
	hold_next(request_of('c'), on => 'reply');
	$one->query_warns($sql, $name eq 'latch' ? 'NULL' : '', '58030', qr/did not answer/, "$name: no answer");
	poll_until('it counts', sub { $redis->cmd('GET', 'c') == 9 });
	$proxy->let_go;
	no_rows();
	is($redis->cmd('GET', 'c'), 9, "$name: counted once, late");
	$node->wait_for_up;
	$one->quit;
}

#
# At a COMMIT
#
{
	my $one = $node->connected_session;

	$one->query('CREATE TABLE done (n int)');
	$redis->cmd('SET', $_, 10) foreach 'l1', 'l2';
	$one->query("BEGIN; SELECT redis_latch_xact_count_down('l1'), redis_latch_xact_count_down('l1'), "
		. "redis_semaphore_xact_release('l2', 3); INSERT INTO done VALUES (1)");
	$proxy->mode('refuse');
	$proxy->reset_all;
	$one->query_is('COMMIT', '', 'away: the COMMIT says nothing');
	is($node->count_locks('pid IS NULL'), 2, "away: both are the watchdog's");
	$proxy->mode('pass');
	no_rows();
	is($redis->cmd('GET', 'l1') . ' ' . $redis->cmd('GET', 'l2'), '8 13', 'away: counted once');
	$node->wait_for_up;
	$one->query("SET lockredis.lease = '3s'; SELECT redis_lock('renewed'); RESET lockredis.lease");
	poll_until('no tickets', sub { !$redis->cmd('EXISTS', 'lockredis_tickets:{l1}', 'lockredis_tickets:{l2}') });
	$one->query_is("SELECT redis_unlock('renewed')", 't', 'away: no ticket is left');
}

#
# Waiting for a latch
#
{
	my $one = $node->connected_session;

	$redis->cmd('SET', 'l', 1);
	hold_next(request_of('l'), on => 'reply');
	$one->start("SELECT redis_latch_wait('l')");
	rule_acted();
	$one->cancel;
	$one->wait($soon)->fails('57014', qr/user request/, 'cancelled');
	is($node->count_locks, 0, 'nothing to give back');
	$proxy->let_go;

	# The message is lost: it looks again.
	$one->start("SET lockredis.lease = '1s'; SELECT redis_latch_wait('l')");
	poll_until('it waits', sub { $redis->subscribers('redisson_countdownlatch__channel__{l}') });
	$redis->cmd('DEL', 'l');
	$redis->cmd('PUBLISH', 'redisson_countdownlatch__channel__{l}', 0);
	is($one->wait($soon)->out, 't', 'notified');
}

#
# Redis refuses
#
{
	my $one = $node->connected_session;

	$redis->cmd('SET', 'm', 3);
	$redis->cmd('CONFIG', 'SET', 'maxmemory', 1);
	$one->query_fails("SELECT $_", '58030', qr/OOM|maxmemory/, "$_: no memory")
	  foreach "redis_semaphore_acquire('m')", "redis_semaphore_release('m')",
	  "redis_latch_count_down('m')", "redis_semaphore_init('n', 1)", "redis_latch_init('n', 1)",
	  "redis_semaphore_set('n', 1)", "redis_latch_set('n', 1)";
	$redis->cmd('CONFIG', 'SET', 'maxmemory', 0);
	no_rows();
	is($redis->cmd('GET', 'm'), 3, 'nothing is counted');
	is($redis->cmd('ZCARD', 'lockredis_tickets:{m}') // 0, 0, 'no ticket');
	$one->query_is("SELECT redis_semaphore_release('m'), redis_semaphore_available('m')", '|4', 'again');

	# While it is refused to the watchdog, too
	$redis->cmd('CONFIG', 'SET', 'maxmemory', 1);
	$node->log_since_here;
	$one->query_is("BEGIN; SELECT redis_semaphore_xact_release('m'); COMMIT", '', 'a COMMIT');
	poll_until('the log', sub { $node->logged(qr/refuses to count for "m"/) });
	$redis->cmd('CONFIG', 'SET', 'maxmemory', 0);
	no_rows();
	is($redis->cmd('GET', 'm'), 5, 'counted when it is not refused any more');

	# A key that holds something else by then
	$one->query("BEGIN; SELECT redis_semaphore_xact_release('m')");
	$redis->cmd('DEL', 'm');
	$redis->cmd('HSET', 'm', 'f', 1);
	$one->query_is('COMMIT', '', 'a COMMIT');
	poll_until('the log', sub { $node->logged(qr/gave up counting 1 for the semaphore "m"/) });
	no_rows();
}

# What a script has noted, but not done, it takes back.
{
	my $one = $node->connected_session;

	$redis->cmd('SET', 'lockredis_tickets:{k}', 'in the way');
	$redis->cmd('SET', 'k', 2);
	$one->query_fails("SELECT $_", '58030', qr/WRONGTYPE/, "$_: no tickets")
	  foreach "redis_semaphore_acquire('k')", "redis_semaphore_release('k')",
	  "redis_latch_count_down('k')";
	is($redis->cmd('GET', 'k'), 2, 'nothing is counted');
	$redis->cmd('DEL', 'lockredis_tickets:{k}', 'k');
}
no_rows();

#
# Permits: requests whose replies nobody reads, and a server that crashes.  For so long an orphan is looked after, and anything else may take.
#
my $one = $node->connected_session;

sub available { return $redis->cmd('GET', 'k') }

sub all_are_back ($name)
{
	return poll_until("$name: all to be back",
		sub { available() == 2 && $redis->cmd('EXISTS', '{k}:timeout') == 0 && $node->count_locks("key = 'k'") == 0 });
}

$one->query_is("SELECT redis_permit_init('k', 2)", 't');
$one->query_is("SELECT redis_permit_lock('k'), redis_permit_unlock('k')", '|t');

# It is carried out, or not yet when its caller goes; then all of it arrives.
foreach my $case (
	[ "redis_permit_lock('k')", request => 'cancel' ],
	[ "redis_permit_acquire('k', '1h')", reply => 'cancel' ],
	[ "redis_try_permit_acquire('k', '1h', '1h')", reply => 'terminate' ])
{
	my ($request, $on, $end) = @$case;
	my $name = "$request, its $on is late, $end";
	my $session = $node->session;
	my $orphans = $node->lock_stat('orphans');
	my $rule = $proxy->rule(on => $on, match => '{k}:timeout', action => 'hold');

	$session->start("SELECT $request");
	$proxy->wait_for_rule($rule);
	$session->$end;
	ok(defined $session->wait(60)->error, "$name: it ends");
	poll_until("$name: the orphan", sub { $node->lock_stat('orphans') > $orphans });
	$proxy->release;
	$proxy->clear;
	all_are_back($name);
	$session->quit if $end eq 'cancel';
}

# A Redis without memory refuses, and takes nothing away by that.
$one->query_is("SELECT redis_permit_lock('k')", '');
$redis->cmd('CONFIG', 'SET', 'maxmemory', 1);
$one->query_fails("SELECT redis_extend('k', '2h')", '58030', qr/refused/, 'no lease is lengthened');
$one->query_is("SELECT redis_is_held('k')", 't', 'none is lost');
$redis->cmd('CONFIG', 'SET', 'maxmemory', 0);
$one->query_is("SELECT redis_extend('k', '2h')", 't', 'afterwards all is as before');
$redis->cmd('CONFIG', 'SET', 'maxmemory', 1);
$one->query_is("SELECT redis_permit_unlock('k')", 't', 'it can be given back without memory');
$redis->cmd('CONFIG', 'SET', 'maxmemory', 0);
all_are_back('no memory');

# Redis loses everything: all permits are lost, and there is no semaphore.
$one->query_is("SELECT redis_permit_lock('k')", '');
$redis->cmd('FLUSHALL');
$two->query_fails("SELECT redis_permit_lock('k')", '42704', qr/number of permits of/, 'there is none');
$one->query_warns("SELECT redis_permit_unlock('k')", 'f', '01000', qr/lost/, 'it was lost');
$one->query_is("SELECT redis_permit_init('k', 2)", 't', 'a new one');

# The server crashes: what its sessions had comes back at the end of the lease.
$one->query_is("SELECT redis_permit_lock('k', '1h')", '');
my $id = $two->value("SELECT redis_permit_acquire('k', '1h')");
$one->kill9;
poll_until('the server to be back', sub { eval { $node->value('SELECT 1') } });
is(available(), 0, 'both are still had');
is($node->value("SELECT redis_permit_release('k', '$id')"), 't', 'that of the id can be given back');
is(available(), 1, 'one is free');
$redis->cmd('ZADD', '{k}:timeout', 1, $_) foreach @{ $redis->cmd('ZRANGE', '{k}:timeout', 0, -1) };
is($node->value("SELECT redis_permit_available('k')"), 2, 'the other one at the end of its lease');

done_testing();
