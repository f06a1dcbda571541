# Copyright (c) 2026, lockredis contributors

# Redis answers, but not as one wishes: values that are no locks, refusals of
# every kind, scripts that vanish.
#
# - A refusal is an error with the node's words and its SQLSTATE, never "busy";
#   what was or will be taken is given back, and nothing stays without a TTL.
# - 42809 for what is no lock of this kind, and the value is left alone; a token
#   lock's string is busy, and its value, a credential, is never shown.
# - redis_force_unlock takes away only what it has seen, and tells who waits.
# - SCRIPT FLUSH is not noticed by users.
# - An address never appears in what a client is told.
#
# Proves G19, G33.

use LockRedis::Test;
use LockRedis::Told qw(nothing_leaked);
use LockRedis::Topic::Refusals;

start_servers();

# ----------
# What is no lock
# ----------

my $no_lock = qr/does not hold a reentrant lock/;
my %put = (
	'a list' => ['RPUSH', 'v', 'x'],
	'a set' => ['SADD', 'v', 'x'],
	'a sorted set' => ['ZADD', 'v', 1, 'x'],
	'a stream' => ['XADD', 'v', '*', 'x', 1],
	'a hash with two fields' => ['HSET', 'v', 'a:1', 1, 'b:2', 1],
	'a hash with a word' => ['HSET', 'v', 'a:1', 'one'],
	'a hash with an empty value' => ['HSET', 'v', 'a:1', ''],
	'a hash with a fraction' => ['HSET', 'v', 'a:1', '1.5'],
	'a hash with a number too long' => ['HSET', 'v', 'a:1', '1' x 40]);

foreach my $what (sort keys %put)
{
	$redis->cmd(@{ $put{$what} });
	my $type = $redis->cmd('TYPE', 'v');
	my $value = $redis->cmd('DUMP', 'v');
	foreach my $call (
		q{redis_lock('v')}, q{redis_try_lock('v')},
		q{redis_try_lock('v', '1min')}, q{redis_is_locked('v')},
		q{redis_lock_ttl('v')}, q{redis_lock_owner('v')},
		q{redis_force_unlock('v')})
	{
		$one->query_fails("SELECT $call", '42809',
			qr/$no_lock.*DETAIL:  It holds a value of type $type\.\nHINT:/s,
			"$call of $what");
	}
	ok( $redis->cmd('DUMP', 'v') eq $value
		  && $redis->cmd('PTTL', 'v') == -1,
		"$what is left alone");
	$redis->cmd('DEL', 'v');
}

# A token lock without a time limit: nobody else ever gets it, so say so.
$redis->cmd('SET', 'token', 'credential-1');
$one->query_fails("SELECT $_('token')", '42809',
	qr/$no_lock.*never expires.*HINT:.*time limit/s, "$_ of a string without TTL")
  foreach qw(redis_lock redis_try_lock redis_force_unlock);
$one->query_is(
	q{SELECT redis_is_locked('token'), redis_lock_ttl('token'), redis_lock_owner('token')},
	't|NULL|token',
	'locked for ever, by a token');
is($redis->cmd('GET', 'token'), 'credential-1', 'the string is left alone');

# One with a time limit; 012_wait waits for it.
$redis->cmd('SET', 'token', 'credential-2', 'PX', 60_000);
$one->query_is(
	q{SELECT redis_is_locked('token'), redis_lock_ttl('token') BETWEEN '1s' AND '60s', redis_lock_owner('token')},
	't|t|token',
	'locked, its TTL, its kind');
$redis->cmd('DEL', 'token');

# ----------
# By force
# ----------

# A foreign owner longer than any, not UTF-8, with a NUL byte.
my $long = "\xff\x00\n" . 'x' x 5000;
foreach my $owner ($long, "{'$long", 'y' x 96, '')
{
	my $length = length $owner;
	$redis->foreign_lock('forced', owner => $owner, ms => 60_000);
	$one->query_is("SELECT redis_try_lock('forced')",
		'f', "busy: an owner of $length bytes");
	my $shown = $one->query("SELECT redis_lock_owner('forced')");
	is($shown->error, undef, 'is shown');
	cmp_ok(length $shown->out, '<', 500, 'shortened');
	$one->query_is("SELECT redis_force_unlock('forced')", 't', 'forced');
	is($redis->cmd('EXISTS', 'forced'), 0, 'gone');
}

# Only what was seen: between the look and the deletion the lock passes to
# somebody whose name differs in its last byte.  The proxy holds the second
# request with the key.
my $proxy = LockRedis::Proxy->new($redis);
$node->set('lockredis.url' => $proxy->url);
foreach my $owners ([ 'a:1', 'a:2' ], [ $long . '1', $long . '2' ])
{
	my ($seen, $next) = @$owners;
	$redis->cmd('HSET', 'forced', $seen, 1);
	my $rule = $proxy->rule(match => 'forced', skip => 1, action => 'hold');
	$one->start("SELECT redis_force_unlock('forced')");
	$proxy->wait_for_rule($rule);
	$redis->cmd('DEL', 'forced');
	$redis->cmd('HSET', 'forced', $next, 1);
	$proxy->release;
	is($one->wait->out, 'f', 'the next owner was not seen');
	ok($redis->hash('forced')->{$next}, 'and keeps the lock');
	$redis->cmd('DEL', 'forced');
	$proxy->clear;
}
$node->set('lockredis.url' => $redis->url);
$proxy->stop;

# ----------
# SCRIPT FLUSH.  (Renewals and the end of a session are the simulator's, which flushes scripts at any
# time, and 034_denied has a session that leaves.)
# ----------

$node->wait_for_up($redis);
$two->value("SELECT redis_lock('flushed')");
foreach my $step (
	[ q{redis_lock('flushed2')}, '' ],
	[ q{redis_lock('flushed2')}, '' ],
	[ q{redis_unlock('flushed2')}, 't' ],
	[ q{redis_extend('flushed2', '2min')}, 't' ],
	[ q{redis_is_locked('flushed2')}, 't' ],
	[ q{redis_force_unlock('flushed')}, 't' ],
	[ q{redis_unlock('flushed2')}, 't' ])
{
	my ($call, $out) = @$step;
	$redis->cmd('SCRIPT', 'FLUSH');
	$one->query_is("SELECT $call", $out, "$call after SCRIPT FLUSH");
}
$two->query_warns("SELECT redis_unlock('flushed')",
	'f', '01000', qr/was lost.*by force/s, 'forced');

# ----------
# Refusals.  Each is an error with the node's words; a lock that is held stays
# held, what is given back goes when the node accepts it again.
# ----------

# Calls that the node refuses, and what it says.
sub refused ($sqlstate, $words, $what, @calls)
{
	foreach my $call (@calls)
	{
		$two->query_fails("SELECT $call", $sqlstate,
			qr/the lock store refused.*\nDETAIL:  The node answered: $words/,
			"$what: $call");
	}
	return;
}

my @takes = (
	q{redis_lock('r')}, q{redis_try_lock('r')},
	q{redis_try_lock('r', '1min', '1min')});

# A replica.
$two->value("SELECT redis_lock('$_')") foreach qw(held back);
$node->log_since_here;
$redis->cmd('REPLICAOF', '127.0.0.1', 1);
refused('58030', q{READONLY You can't write against a read only replica},
	'READONLY', @takes, q{redis_lock('held', '1h')}, q{redis_extend('held', '2min')});
$two->query_is(
	q{SELECT redis_is_locked('held'), redis_is_locked('r'), redis_lock_ttl('held') > '0', redis_is_held('held'), redis_hold_count('held')},
	't|f|t|t|1',
	'a replica can be asked');
$two->query_warns("SELECT redis_unlock('back')", 't', '58030',
	qr/refused.*READONLY/s, 'unlock on a replica');
$node->wait_for_state('down');
poll_until('the role', sub { $node->lock_status('role') eq 'replica' });
like(
	$node->lock_status('last_error'),
	qr/^The node answered: READONLY/,
	'the last error');
$redis->cmd('CONFIG', 'SET', 'replica-serve-stale-data', 'no');
refused('58030', 'MASTERDOWN Link with MASTER is down',
	'MASTERDOWN', @takes, q{redis_is_locked('held')});
$redis->cmd('REPLICAOF', 'NO', 'ONE');
$redis->cmd('CONFIG', 'SET', 'replica-serve-stale-data', 'yes');
$node->wait_for_up;
all_given_back('a master again: what was given back is gone', 'held');
is($node->times_logged($went_away), 1, 'READONLY is logged once');
is($node->times_logged($came_back), 1, 'and its end');
$two->query_is("SELECT redis_unlock('held')", 't', 'held all the time');
$redis->kill_clients('watchdog');
poll_until('the role after connecting again', sub { $node->lock_status('role') eq 'master' });

# Out of memory.  What needs none works.
$two->value("SELECT redis_lock('$_')") foreach qw(held back);
$redis->cmd('CONFIG', 'SET', 'maxmemory', 1);
refused('58030', q{OOM command not allowed when used memory > 'maxmemory'},
	'OOM', @takes);
$two->query_is("SELECT redis_lock('held', '4min'), redis_unlock('held')",
	'|t', 'OOM: a re-entry for longer works');
$two->query_is("SELECT redis_extend('held', '5min')", 't', 'OOM: extend works');
cmp_ok($redis->cmd('PTTL', 'held'), '>', 200_000, 'OOM: and did');
$two->query_is("SELECT redis_unlock('back')", 't', 'OOM: unlock works');
$two->query_is("SELECT redis_hold_count('held')", '1', 'OOM: held once');
$redis->cmd('CONFIG', 'SET', 'maxmemory', 0);
all_given_back('nothing was taken while out of memory', 'held');
$two->query_is("SELECT redis_unlock('held')", 't', 'OOM is over');

# Loading.  The watchdog has seen Redis down before, has nothing to renew yet,
# and is allowed TIME while Redis loads: that does not make it a store of locks.
$two->value("SELECT redis_lock('held')");
$node->log_since_here;
$redis->stop_full;
$node->wait_for_state('down');
$redis->start_loading(10_000);
refused('58030', 'LOADING Redis is loading the dataset in memory',
	'LOADING', @takes, q{redis_is_locked('held')});
$two->query_is("SELECT redis_is_held('held')", 't', 'LOADING: held');
$redis->forget_loading;
$node->wait_for_up;
poll_until('a renewal of what was held',
	sub { $node->value(q{SELECT renewals > 0 FROM redis_locks WHERE key = 'held'}) eq 't' });
is($node->times_logged($went_away), 1, 'stop and LOADING are logged once');
is($node->times_logged($came_back), 1, 'and their end once');
$two->query_is("SELECT redis_unlock('held')", 't', 'held over the restart');
all_given_back('nothing is left of it');

# No more clients.
$redis->cmd('CONFIG', 'SET', 'maxclients', scalar($redis->clients) + 1);
my $too_many = $node->session;
$too_many->query_fails(
	"SELECT redis_try_lock('r')",
	'58030',
	qr/max number of clients|closed the connection|connection .*was lost/,
	'too many clients');
$redis->cmd('CONFIG', 'SET', 'maxclients', 10_000);
$too_many->query_is("SELECT redis_try_lock('r')", 't', 'room again');
$too_many->quit;

# ----------
# What was said
# ----------

nothing_leaked($node, ['credential-\d'], [$redis]);

end_test($node, $redis);
