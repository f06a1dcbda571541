# Copyright (c) 2026, lockredis contributors

# Fallback mode, an outage from beginning to end: when Redis has not answered for
# lockredis.fallback_after the table keeps the locks; what sessions hold goes
# with them and comes back, or is lost and told; a key that nobody here had is
# free only one lease later, or the longest time to live seen on it; each change
# is logged once, counted and shown.  223_fallback_leases has a key that somebody else took.
# Proves G26.

use LockRedis::Test;

# What is asked before the switch has to be asked within the one, what is asked before
# a key is free within the other.
my $after = limit(5);
my $lease = limit(16);
my $redis = LockRedis::Redis->new;
my $table = LockRedis::Table->new;
my $node = LockRedis::Node->create(
	'main',
	redis => $redis,
	settings => {
		'lockredis.mode' => 'fallback',
		'lockredis.fallback_after' => "${after}s",
		'lockredis.lease' => "${lease}s",
		'lockredis.connect_timeout' => '2s',
		'lockredis.command_timeout' => '2s'
	});
$table->use_node($node);
$node->wait_for_up;

sub owner_in ($hash) { return join ',', map { "$_=$hash->{$_}" } sort keys %$hash; }

poll_until('the table worker to be there',
	sub { $node->value(q{SELECT state FROM redis_lock_status WHERE role = 'table'}) eq 'up' });
is( $node->value(
		'SELECT role, state, in_use, since IS NOT NULL, reason
		 FROM redis_lock_status ORDER BY node'),
	"master|up|t|t|\ntable|up|f|t|",
	'both stores are there, and Redis is in use');

#
# The first outage: Redis is killed, and comes back empty.
#

my ($one, $two, $three, $new) = map { $node->session } 1 .. 4;

$one->query_is("SELECT redis_lock('renewed'), redis_lock('renewed')", '|', 'twice');
$one->query_is("SELECT redis_lock('given', '5 minutes')", '', 'with a given lease');
$one->query_is("SELECT redis_lock('extended')", '', 'another');
$two->in_time("SELECT redis_lock('short', '700 ms')");    # too short
$two->query_is("BEGIN; SELECT redis_xact_lock('xact')", '', 'of a transaction');
$three->query_is("SELECT redis_lock('released')", '', 'to be given back');
my $owner = owner_in($redis->hash('renewed'));
my ($uuid) = $owner =~ /^([^:]+)/;

# Somebody elsewhere, with a lease longer than ours.
$redis->foreign_lock('long', ms => 600_000);
$new->query_is("SELECT redis_try_lock('long')", 'f', 'a longer lease is seen');
$new->query("SELECT redis_fenced_xact_lock('fenced')");
$new->query("SELECT redis_fenced_xact_lock('fenced')");

$node->log_since_here;
my $killed = now();
$redis->kill9;

# Before the switch.
$new->query_fails("SELECT redis_try_lock('new')", '58000', qr/lock store/,
	'without waiting it is an error');
$new->query_fails("SELECT redis_try_lock('new', '100 ms')", '58000',
	qr/lock store/, 'and not "busy" if it waits in vain');
$new->query_fails("SET lock_timeout = '100ms'; SELECT redis_lock('new')",
	'55P03', qr/lock timeout/, 'lock_timeout decides as ever');
$new->query('RESET lock_timeout');

# A waiting call outlives the switch.
$new->start("SELECT redis_lock('new')");

$node->wait_for_store('table');
cmp_ok(now() - $killed, '<', $after + limit(8), 'soon after fallback_after');

# A key that nobody here had may be held by somebody else for one lease.
$three->query_is("SELECT redis_try_lock('never seen')", 'f', 'may be held by others');
ok($new->is_running, 'the waiting call waits on');
is( $node->value('SELECT state, in_use FROM redis_lock_status ORDER BY node'),
	"down|f\nup|t", 'shown');
like($node->value('SELECT reason FROM redis_lock_status WHERE in_use'),
	qr/^Redis has not answered for \d/, 'with the reason');

poll_until('renewed to be in the table', sub { owner_in($table->hash('renewed')) eq $owner });
foreach my $key (qw(given xact extended released))
{
	poll_until("$key to be in the table", sub { $table->cmd('EXISTS', $key) eq '1' });
}
like(owner_in($table->hash('given')), qr/^\Q$uuid\E:\d+=1$/, 'a given lease is carried');
like(owner_in($table->hash('xact')), qr/^\Q$uuid\E:\d+=1$/, 'a transaction too');
cmp_ok($table->cmd('PTTL', 'given'), '>', 200_000, 'with all that is left of it');
$one->query_is("SELECT redis_is_held('renewed'), redis_hold_count('renewed')",
	't|2', 'held all the time');
$two->query_fails("SAVEPOINT s; SELECT redis_assert_held('short')", '55000',
	qr/lost/, 'a short lease is lost, and told');
$two->query('ROLLBACK TO s');
$two->query_warns("SELECT redis_unlock('short')", 'f', '01000', qr/lost/, 'until it is unlocked');

# Locks in the table are full locks.
$one->query_is("SELECT redis_lock('renewed')", '', 'taken a third time');
is(owner_in($table->hash('renewed')), $owner =~ s/=2$/=3/r, 'seen in the row');
$one->query_is("SELECT redis_extend('extended', '5 minutes')", 't', 'extended');
cmp_ok($table->cmd('PTTL', 'extended'), '>', 30_000, 'seen in the row');
$three->query_is("SELECT redis_unlock('released')", 't', 'given back');
poll_until('its row to go', sub { $table->cmd('EXISTS', 'released') eq '0' });
is($node->value("SELECT redis_is_locked('renewed'), redis_lock_owner('renewed')"),
	"t|" . ($owner =~ s/=.*//r), 'asked of the table');

# After that lease.
$new->wait(2 * $lease);
# Counted from the first request without an answer, which may have been sent a moment before.
cmp_ok(now() - $killed, '>=', $lease - 1, 'for one lease since Redis was there');
$three->query_is("SELECT redis_try_lock('never seen'), redis_unlock('never seen')", 't|t', $_)
  foreach 'free after that', 'and at once';
$three->query_is("SELECT redis_try_lock('long')", 'f', 'a longer lease is waited for');

# Fencing tokens.
$three->query_fails("SELECT redis_try_fenced_lock('session fenced')", '55000',
	qr/redis_fenced_xact_lock/, 'no session-level tokens');
my $token = $node->value("SELECT token FROM redis_fences WHERE key = 'fenced'");
cmp_ok($three->value("SELECT redis_fenced_xact_lock('fenced')"),
	'>', $token, 'those that are recorded go on');

# One of both levels: its token is the table's.
$three->query_is("SELECT redis_lock('both')", '', 'a lock of the session');
my $from_table = $three->value("SELECT redis_fenced_xact_lock('both')");
$three->query_fails("SELECT redis_fenced_lock('both')", '55000', qr/redis_fenced_xact_lock/,
	'a token of the table is none at session level');
is($three->value("SELECT redis_fenced_xact_lock('both') = redis_fence('both')"),
	't', 'redis_fence has it in its transaction');
$three->query_is("SELECT redis_fence('both')", 'NULL', 'and not after it');

# And back.
$redis->start;
$node->wait_for_store('master');
poll_until('the lock to be in Redis',
	sub { owner_in($redis->hash('renewed')) eq $owner =~ s/=2$/=3/r });
poll_until('the rows to be gone', sub { !$table->all_keys });
$one->query_is("SELECT redis_is_held('renewed'), redis_is_held('given')", 't|t',
	'held all the time');
cmp_ok($redis->cmd('PTTL', 'given'), '>', 200_000, 'with all that is left of it');
like(owner_in($redis->hash('new')), qr/^\Q$uuid\E:/, 'what was taken in the table');
$two->query_is('COMMIT', '', 'a transaction outlives both switches');
ok($redis->wait_for_key('xact', 0), 'and gives its lock back in Redis');

# A token that the next holder gets from Redis must not be one that somebody got before.
poll_until('the lock of both levels to be in Redis', sub { $redis->cmd('EXISTS', 'both') eq '1' });
my $from_redis = $three->value("SELECT redis_fenced_lock('both')");
is($from_redis, $redis->cmd('GET', 'redisson_lock_token:{both}'),
	'at session level the token is that of Redis, also after the way back');
$three->query_is('SELECT redis_unlock_all()', '1', 'given back');
cmp_ok($one->value("SELECT redis_fenced_lock('both')"), '>', $from_redis,
	'so the next one is higher');
$one->query_is("SELECT redis_unlock('both')", 't', 'given back');

is($node->times_logged(qr/locks are kept in the table from now on/), 1, 'logged once');
is($node->times_logged(qr/locks are kept in Redis again/), 1, 'each way');
is($node->lock_stat('switches'), 2, 'counted');
is($node->lock_stat('moves'), 5 + 6, 'and so are the locks that went along');
is($node->lock_stat('losses'), 1, 'nothing but the short one was lost');

$one->query_is('SELECT redis_unlock_all()', '3', 'given back');
$new->query_is('SELECT redis_unlock_all()', '1', 'given back');
end_test($node, $redis, keys => qr/^redisson_lock_token:/);
