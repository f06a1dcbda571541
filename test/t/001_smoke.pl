# Copyright (c) 2026, lockredis contributors

# The shortest way through everything: two sessions, one key, one Redis.
# Proves G1, G21, G23.

use LockRedis::Test;

my ($node, $redis, $one, $two) = servers(sessions => 2);

# Taken: Redis has it as Redisson would write it, everybody else sees it.
$one->query_is("SELECT redis_lock('smoke')", '', 'a free lock is taken');
my $hash = $redis->hash('smoke');
like((keys %$hash)[0],
	qr/^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}:\d+$/, 'owner in Redis');
is_deeply([ values %$hash ], [1], 'count in Redis');
cmp_ok($redis->cmd('PTTL', 'smoke'), '>', 20_000, 'lease in Redis');
$one->query_is("SELECT redis_is_held('smoke'), redis_hold_count('smoke')",
	't|1', 'the holder holds it');
$two->query_is("SELECT redis_is_held('smoke'), redis_is_locked('smoke')",
	'f|t', 'the other session sees it locked');
$two->query_is("SELECT redis_try_lock('smoke')", 'f', 'and cannot take it');
is( $node->value(
		q{SELECT pid, key, scope, granted, hold_count FROM redis_locks}),
	$one->pid . '|smoke|session|t|1',
	'one row in redis_locks');

# A waiter sleeps until the lock is given back, and has it then.
$two->start("SELECT redis_lock('smoke')");
$node->wait_for_waiters('smoke', 1);
ok($two->is_running, 'a second session waits');
$one->query_is("SELECT redis_is_held('smoke')", 't',
	'the holder is not disturbed');
$one->query_is("SELECT redis_unlock('smoke')", 't', 'given back');
is($two->wait(10)->error, undef, 'the waiter has it');
$one->query_is("SELECT redis_is_held('smoke'), redis_is_locked('smoke')",
	'f|t', 'the first session does not');

$two->query_is("SELECT redis_unlock('smoke')", 't', 'given back again');

# What a plain Redis client takes is respected, what it gives back is noticed.
$redis->foreign_lock('smoke', ms => 60_000);
$one->query_is("SELECT redis_try_lock('smoke')", 'f', 'a lock of somebody else is respected');
$one->start("SELECT redis_lock('smoke')");
poll_until('the subscription', sub { $redis->channels == 1 });
is(($redis->channels)[0], 'redisson_lock__channel:{smoke}', "Redisson's channel");
$redis->foreign_unlock('smoke');
is($one->wait(15)->error, undef, 'woken by a message');

# The end of a session is the end of its locks.
$one->quit;
nothing_left($node, $redis, name => 'nothing is left after the session');
$two->quit;
done_testing();
