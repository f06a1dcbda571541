# Copyright (c) 2026, lockredis contributors

# Token locks by one server: what is in the store, what each function answers, who is
# excluded, what wakes who waits, that nobody's end gives one back, arguments, views.
# Proves G1, G25.

use Digest::SHA qw(sha256_hex);
use LockRedis::Test;

my ($node, $redis, $one, $two, $three) = servers(sessions => 3, redis => lock_store);

# ----------
# What is there, and what is answered
# ----------

my $token = $one->value("SELECT redis_token_lock('k', '1min')");
like($token, qr/^[0-9a-f]{32}\z/, 'a token is made');
of_redis 'a string, which others know' => sub {
	is($redis->cmd('GET', 'k'), $token, 'it is what the key holds');
};
of_table 'a row with its digest' => sub {
	is($node->value("SELECT owner FROM redis_lock_rows WHERE key = 'k'"),
		'token:' . sha256_hex($token), 'only its digest is in the table');
	is($node->value("SELECT count(*) FROM redis_lock_rows WHERE instance IS NULL"), 1,
		'it outlives the server');
};
my $ttl = $redis->cmd('PTTL', 'k');
ok($ttl > 30_000 && $ttl <= 60_000, 'leased');
$one->query_is("SELECT count(*) FROM redis_locks", 0, 'no session has it');
$one->query_is("SELECT redis_is_locked('k'), redis_lock_owner('k'), redis_is_held('k')",
	't|token|f', 'it is a lock of the key');

$two->query_is("SELECT redis_token_is_held('k', '$token'), redis_token_is_held('k', 'other')", 't|f',
	'in any session, and not by another one');
$two->query_is("SELECT redis_token_extend('k', '$token', '1s')", 't', 'extend');
ok($redis->cmd('PTTL', 'k') > 20_000, 'does not shorten');
$two->query_is("SELECT redis_token_extend('k', '$token', '1h')", 't', 'by more');
ok($redis->cmd('PTTL', 'k') > 1_800_000, 'is held');
$two->query_is("SELECT redis_token_extend('k', 'other', '1h'), redis_token_unlock('k', 'other')", 'f|f', 'by another one');
is($redis->cmd('EXISTS', 'k'), 1, 'it is still there');
$two->query_is("SELECT redis_token_unlock('k', '$token')", 't', 'unlock');
is($redis->cmd('EXISTS', 'k'), 0, 'it is gone');
$two->query_is("SELECT redis_token_unlock('k', '$token'), redis_token_extend('k', '$token', '1h'), redis_token_is_held('k', '$token')",
	'f|f|f', 'once, nor extended, nor had');

$one->query_is("SELECT redis_token_lock('k', '1min', 'Täuschung')", 'Täuschung', 'one of ours');
$one->query_is("SELECT redis_try_token_lock('k', '0', '1min', 'Täuschung')", 'NULL',
	'the same again is busy');
$one->query_is("SELECT redis_token_unlock('k', 'Täuschung')", 't');

# ----------
# Nobody's end gives it back
# ----------

$one->query("BEGIN; SELECT redis_token_lock('k', '1min', 'mine'); ROLLBACK");
is($redis->cmd('EXISTS', 'k'), 1, 'a transaction that rolls back keeps it');
$one->query_is("SELECT redis_unlock_all()", 0, 'redis_unlock_all has nothing');
$one->query("DISCARD ALL");
my $gone = $node->session;
$gone->query_is("SELECT redis_token_lock('other', '1min', 'mine')", 'mine');
$gone->quit;
is($redis->cmd('EXISTS', 'k'), 1, 'DISCARD ALL neither');
is($redis->cmd('EXISTS', 'other'), 1, 'nor the end of a session');
$two->query_is("SELECT redis_token_unlock('other', 'mine')", 't');
$one->query_is("SET lockredis.session_locks = off; SELECT redis_token_unlock('k', 'mine'), "
	. "redis_token_lock('k', '1min', 'mine')", 't|mine', 'where there are no session locks');
$one->query("RESET lockredis.session_locks");

# ----------
# Who is excluded, and waits
# ----------

$two->query_is("SELECT redis_try_lock('k')", 'f', 'a reentrant lock');
$two->query_is("SELECT redis_try_write_lock('k')", 'f', 'a write lock');
$node->queue_up('k', $two => "SELECT redis_lock('k')");
$three->start("SELECT redis_token_lock('k', '1min', 'theirs')");
$node->wait_for_waiters('k', 2);
is($node->value("SELECT string_agg(kind || granted, ' ' ORDER BY waiting_since) "
			. "FROM redis_locks"), 'reentrantfalse tokenfalse', 'both are seen to wait');
$one->query_is("SELECT redis_token_unlock('k', 'mine')", 't');
is($two->wait->error, undef, 'the first one gets it');
$two->query_is("SELECT redis_unlock('k')", 't');
is($three->wait->value, 'theirs', 'then the next');
$two->query_is("SELECT redis_lock_owner('k')", 'token', 'which nobody here has');

# Behind one who gets it others look for themselves.
$node->queue_up('k', $one => "SELECT redis_token_lock('k', '1min', 'first')");
$two->start("SELECT redis_token_lock('k', '1min', 'second')");
$node->wait_for_waiters('k', 2);
$three->query_is("SELECT redis_token_unlock('k', 'theirs')", 't');
is($one->wait->value, 'first', 'in the order in which they came');
$node->wait_for_waiters('k', 1);
$three->query_is("SELECT redis_token_unlock('k', 'first')", 't');
is($two->wait->value, 'second', 'the next one');

$one->query_is("SELECT redis_try_token_lock('k', '100ms', '1min')", 'NULL', 'for a while');
$one->query_fails("SET lock_timeout = '100ms'; SELECT redis_token_lock('k', '1min')", '55P03',
	qr/lock timeout/, 'lock_timeout');
$one->query("RESET lock_timeout");
$node->queue_up('k', $one => "SELECT redis_token_lock('k', '1min')");
$one->cancel;
$one->wait->fails('57014', qr/cancel/, 'cancelled');
$two->query_is("SELECT redis_token_unlock('k', 'second')", 't');

# One whose lease ends, of which nobody tells.
my $short = limit(2) . 's';
is($one->in_time("SELECT redis_token_lock('k', '$short', 'short')")->value, 'short', 'for a short lease');
like($two->value("SELECT redis_token_lock('k', '1min', 'next')"), qr/next/, 'after its lease');
$two->query_is("SELECT redis_token_unlock('k', 'next')", 't');

# What the session has itself it does not wait for.
$one->query_is("SELECT redis_lock('k')", '');
$one->query_fails("SELECT redis_try_token_lock('k', '0', '1min')", '55000',
	qr/cannot take the token lock "k"/, 'its own lock');
$two->query_is("SELECT redis_try_token_lock('k', '0', '1min')", 'NULL', 'that of another one');
$one->query_is("SELECT redis_token_unlock('k', 'x'), redis_token_extend('k', 'x', '1s'), "
	. "redis_token_is_held('k', 'x')", 'f|f|f', 'of a value of another type');
$node->queue_up('k', $two => "SELECT redis_token_lock('k', '1min', 'after')");
$one->query_is("SELECT redis_unlock('k')", 't');
is($two->wait->value, 'after', 'after a lock of another kind');
$two->query_is("SELECT redis_token_unlock('k', 'after')", 't');

# ----------
# Arguments
# ----------

$one->query_fails("SELECT $_->[0]", $_->[1], $_->[2], $_->[0])
  foreach (
	[ "redis_token_lock('k', NULL)", '22004', qr/lease must not be null/ ],
	[ "redis_try_token_lock('k', '0', NULL)", '22004', qr/lease must not be null/ ],
	[ "redis_token_extend('k', 'x', NULL)", '22004', qr/lease must not be null/ ],
	[ "redis_token_unlock('k', NULL)", '22004', qr/token must not be null/ ],
	[ "redis_token_is_held(NULL, 'x')", '22004', qr/key must not be null/ ],
	[ "redis_token_lock('k', '1min', '')", '22023', qr/between 1 and 1024/ ],
	[ "redis_token_lock('k', '1min', repeat('x', 1025))", '22023', qr/between 1 and 1024/ ],
	[ "redis_token_lock('k', '1ms')", '22023', qr/lease must be between/ ],
	[ "redis_try_token_lock('k', '-1s', '1min')", '22023', qr/wait must not be negative/ ],
	[ "redis_is_held('k', 'token')", '22023', qr/kind of lock must be/ ]);
$one->query_is("SELECT redis_token_lock('k', '1min', repeat('x', 1024)) = repeat('x', 1024)", 't',
	'the longest');
$one->query_is("SELECT redis_token_extend('k', repeat('x', 1024), '2min'), "
	. "redis_token_unlock('k', repeat('x', 1024))", 't|t', 'is known');

# In a transaction it is as with any lock: what is read may be older.
$one->query("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
$one->query_warns("SELECT redis_token_lock('k', '1min', 'x')", 'x', '01000',
	qr/does not protect what the transaction reads/, 'an old snapshot');
$one->query("ROLLBACK");
$one->query("CREATE TABLE t (); BEGIN; LOCK t; INSERT INTO t DEFAULT VALUES");
$one->query_warns("SELECT redis_token_unlock('k', 'x')", 't', '01000',
	qr/released before the changes/, 'too early');
$one->query("ROLLBACK");

end_test($node, $redis);
